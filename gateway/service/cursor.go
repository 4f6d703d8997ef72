package service

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"

	"parley/conversation"
)

// Cursors hides from clients what cursors of lists say. A page may end at a session that its
// reader may not see, and the place of it in the list is its id and the time of its last
// activity.
type Cursors struct{ seal cipher.AEAD }

// NewCursors makes them of what only the nodes that serve the same lists know; nil = random,
// so nobody else reads them and no process after this one.
func NewCursors(secret []byte) *Cursors {
	if secret == nil {
		secret = []byte(rand.Text() + rand.Text())
	}
	key := sha256.Sum256(append([]byte("parley cursors\x00"), secret...))
	block, err := aes.NewCipher(key[:])
	if err != nil {
		panic(err) // the key has the right length
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		panic(err)
	}
	return &Cursors{seal}
}

// cursorStep is the step in which cursors grow: their length does not tell that of an id.
const cursorStep = 128

// For is a list as a user reads it: its cursors are good there alone.
func (c *Cursors) For(who *Principal, list string) ListCursors {
	return ListCursors{c.seal, []byte(list + "\x00" + string(who.Tenant) + "\x00" + string(who.User))}
}

// ListCursors are the cursors of one list for one user.
type ListCursors struct {
	seal cipher.AEAD
	of   []byte
}

// Hide is a cursor for a client; "" stays "".
func (l ListCursors) Hide(cursor string) string {
	if cursor == "" {
		return ""
	}
	b := append(binary.AppendUvarint(nil, uint64(len(cursor))), cursor...)
	b = append(b, make([]byte, (cursorStep-len(b)%cursorStep)%cursorStep)...)
	return base64.RawURLEncoding.EncodeToString(l.seal.Seal(nil, nil, b, l.of))
}

// ErrCursor refuses a cursor that is not one of a list's, or one from before the server's
// store was carried to another place.
var ErrCursor = conversation.Errorf(conversation.BadRequest, "cursor must be a next_cursor of this very list; begin without one")

// Show is the cursor that a client has brought back.
func (l ListCursors) Show(hidden string) (string, error) {
	if hidden == "" {
		return "", nil
	}
	b, err := base64.RawURLEncoding.DecodeString(hidden)
	if err != nil {
		return "", ErrCursor
	}
	if b, err = l.seal.Open(nil, nil, b, l.of); err != nil {
		return "", ErrCursor
	}
	n, begin := binary.Uvarint(b)
	if begin <= 0 || n > uint64(len(b)-begin) {
		return "", ErrCursor
	}
	return string(b[begin : begin+int(n)]), nil
}
