package verify

import (
	"crypto/sha256"
	"encoding/hex"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/persistence/pebble/internal/layout"
)

// blobs checks the lists of what is attached to messages.
func (c *check) blobs() {
	c.walk([]byte{layout.TableBlobs}, c.holder)
	c.walk([]byte{layout.TableLoans}, c.loan)
}

// holder checks an entry of the list of who has a blob.
func (c *check) holder(k, v []byte) {
	key, hash, ok := layout.CutHolder(k)
	if size, fits := cutSeq(v); !ok || !fits || size == 0 {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the list of attachments cannot be read", k)
		return
	}
	if _, ok := c.get(layout.KeyBlob(nil, key, hash)); !ok {
		c.problem(RuleBlobs, key, "the list of attachments has %s, which is not there", hash)
	}
}

// loan checks an entry of the list of loans. One that was renewed may be there twice.
func (c *check) loan(k, _ []byte) {
	if _, _, _, ok := layout.CutLoan(k); !ok {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the loans of attachments cannot be read", k)
	}
}

// seeBlob checks a key of what is attached to messages.
func (s *session) seeBlob(rest, v []byte) {
	hash, n, ok := layout.CutBlob(rest)
	if !ok {
		s.problem(RuleUnknown, s.key, "key %x of an attachment cannot be read", rest)
		return
	}
	if rest[0] == layout.KindBlob {
		s.report.Counts.Blobs++
	} else if v, ok = s.get(layout.KeyBlob(nil, s.key, hash)); !ok {
		s.problem(RuleBlobs, s.key, "something of the attachment %s is there, but not what describes it", hash)
		return
	}
	is, err := layout.CutBlobValue(hash, v)
	switch {
	case err != nil && rest[0] == layout.KindBlob:
		s.problem(RuleBlobs, s.key, "the attachment %s cannot be read", hash)
	case rest[0] == layout.KindBlobChunk && err == nil && n >= blobs.Chunks(is.Size):
		s.problem(RuleBlobs, s.key, "the attachment %s has too many chunks", hash)
	}
	if err != nil || rest[0] != layout.KindBlob {
		return
	}
	sum := sha256.New()
	for n := range blobs.Chunks(is.Size) {
		chunk, _ := s.get(layout.KeyBlobChunk(nil, s.key, hash, n))
		_, _ = sum.Write(chunk)
	}
	if hex.EncodeToString(sum.Sum(nil)) != string(hash) {
		s.problem(RuleBlobs, s.key, "the attachment %s is not what its hash says", hash)
	}
	if size, ok := s.get(layout.KeyHolder(nil, s.key, hash)); !ok || string(size) != string(layout.AppendU64(nil, uint64(is.Size))) {
		s.problem(RuleBlobs, s.key, "the list of attachments does not have %s as one of this session", hash)
	}
	_, named := s.get(layout.KeyBlobNamed(nil, s.key, hash))
	if _, lent := s.get(layout.KeyLoan(nil, is.At, s.key, hash)); !named && !lent {
		s.problem(RuleBlobs, s.key, "the attachment %s is named by nothing, and nothing will take it away", hash)
	}
}

// seeAttached checks that what the messages of a record name is there, and stays.
func (s *session) seeAttached(events []conversation.Event) {
	for _, hash := range blobs.Named(events) {
		if _, named := s.get(layout.KeyBlobNamed(nil, s.key, hash)); !named {
			s.problem(RuleBlobs, s.key, "a message names the attachment %s, which is not kept for it", hash)
		}
	}
}
