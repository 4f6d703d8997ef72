package attached

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
)

// Hash names a file by what is in it: its SHA-256, 64 small hexadecimal digits.
type Hash string

// HashOf is the hash of a file's bytes.
func HashOf(body []byte) Hash {
	sum := sha256.Sum256(body)
	return Hash(hex.EncodeToString(sum[:]))
}

// Valid is true for what can be a Hash.
func (h Hash) Valid() bool {
	if len(h) != 2*sha256.Size {
		return false
	}
	for i := range len(h) {
		if c := h[i]; (c < '0' || c > '9') && (c < 'a' || c > 'f') {
			return false
		}
	}
	return true
}

// File is one attachment of a message.
type File struct {
	Hash Hash
	Name string // as its sender called it, made safe by Name; never ""
	Type string // a media type, checked against the bytes: "image/png"
	Size int64
}

// Image is true for a picture: what only some models can see.
func (f File) Image() bool { return strings.HasPrefix(f.Type, "image/") }

// Text is true for a file that a model can read as text.
func (f File) Text() bool { return strings.HasPrefix(f.Type, "text/") || f.Type == "application/json" }

// Fingerprint is the text by which a second delivery of a message is known: its own text,
// and what was attached to it. No two messages have the same one. It is stored: that of a text
// which does not pretend to have files stays what it is.
func Fingerprint(text string, files []File) string {
	if pretends(text) {
		text += "\x00" // so what is in front of the files ends like no file
	}
	for _, f := range files {
		text += "\x00" + string(f.Hash)
	}
	return text
}

// pretends is true for a text that ends as a Fingerprint does, or as that of one that pretends.
func pretends(text string) bool {
	text = strings.TrimRight(text, "\x00")
	at := len(text) - 2*sha256.Size
	return at > 0 && text[at-1] == 0 && Hash(text[at:]).Valid()
}
