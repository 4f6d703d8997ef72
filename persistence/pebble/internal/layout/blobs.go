package layout

import (
	"encoding/binary"
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
)

// What is attached to messages: the blobs of a session lie with its other keys, so an
// erasure takes them along; two lists say where they are.

// BlobsPrefix is the common prefix of the descriptions of all blobs of a session.
func BlobsPrefix(b []byte, key conversation.SessionKey) []byte {
	return append(SessionPrefix(b, key), KindBlob)
}

// KeyBlob is the key of the description of a blob.
func KeyBlob(b []byte, key conversation.SessionKey, hash attached.Hash) []byte {
	return AppendString(BlobsPrefix(b, key), string(hash))
}

// KeyBlobNamed is the key that says that a message names a blob.
func KeyBlobNamed(b []byte, key conversation.SessionKey, hash attached.Hash) []byte {
	return AppendString(append(SessionPrefix(b, key), KindBlobNamed), string(hash))
}

// KeyBlobChunk is the key of the nth chunk of a blob.
func KeyBlobChunk(b []byte, key conversation.SessionKey, hash attached.Hash, n int) []byte {
	return AppendU32(AppendString(append(SessionPrefix(b, key), KindBlobChunk), string(hash)), uint32(n))
}

// CutBlob reads what is behind the session in the key of a blob, its kind first.
func CutBlob(rest []byte) (hash attached.Hash, chunk int, ok bool) {
	if len(rest) == 0 || rest[0] < KindBlob || rest[0] > KindBlobChunk {
		return "", 0, false
	}
	s, left, ok := CutString(rest[1:])
	if rest[0] == KindBlobChunk && ok && len(left) == 4 {
		return attached.Hash(s), int(binary.BigEndian.Uint32(left)), true
	}
	return attached.Hash(s), 0, ok && len(left) == 0 && rest[0] != KindBlobChunk
}

// AppendBlob appends the description of a blob.
func AppendBlob(b []byte, f attached.File, at time.Time) []byte {
	b = AppendU64(AppendU64(b, Ordered(at.UnixMilli())), uint64(f.Size))
	return AppendString(AppendString(b, f.Type), f.Name)
}

// CutBlobValue reads the description of a blob.
func CutBlobValue(hash attached.Hash, v []byte) (s blobs.Stored, err error) {
	if len(v) >= 16 {
		s.At = time.UnixMilli(Unordered(binary.BigEndian.Uint64(v))).UTC()
		s.Hash, s.Size = hash, int64(binary.BigEndian.Uint64(v[8:]))
		kind, rest, ok := CutString(v[16:])
		name, rest, fits := CutString(rest)
		if s.Type, s.Name = kind, name; ok && fits && len(rest) == 0 && s.Size >= 0 {
			return s, nil
		}
	}
	return blobs.Stored{}, fmt.Errorf("%w: the description of attachment %s cannot be read", conversation.ErrDamaged, hash)
}

// BlobPrefix is the common prefix of the entries of table 14 about one hash.
func BlobPrefix(b []byte, tenant conversation.TenantID, hash attached.Hash) []byte {
	return AppendString(TenantPrefix(b, TableBlobs, tenant), string(hash))
}

// KeyHolder is a key of table 14.
func KeyHolder(b []byte, key conversation.SessionKey, hash attached.Hash) []byte {
	return AppendString(BlobPrefix(b, key.Tenant, hash), string(key.Session))
}

// CutHolder reads a key of table 14.
func CutHolder(b []byte) (key conversation.SessionKey, hash attached.Hash, ok bool) {
	if len(b) == 0 || b[0] != TableBlobs {
		return key, "", false
	}
	tenant, rest, ok := CutString(b[1:])
	h, rest, fits := CutString(rest)
	session, rest, whole := CutString(rest)
	key = conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(session)}
	return key, attached.Hash(h), ok && fits && whole && len(rest) == 0
}

// KeyLoan is a key of table 15.
func KeyLoan(b []byte, at time.Time, key conversation.SessionKey, hash attached.Hash) []byte {
	b = AppendU64(append(b, TableLoans), Ordered(at.UnixMilli()))
	return AppendString(AppendString(AppendString(b, string(key.Tenant)), string(key.Session)), string(hash))
}

// CutLoan reads a key of table 15.
func CutLoan(b []byte) (at time.Time, key conversation.SessionKey, hash attached.Hash, ok bool) {
	if len(b) < 9 || b[0] != TableLoans {
		return at, key, "", false
	}
	at = time.UnixMilli(Unordered(binary.BigEndian.Uint64(b[1:]))).UTC()
	key, rest, ok := CutSession(b[9:])
	if !ok {
		return at, key, "", false
	}
	h, rest, ok := CutString(rest)
	return at, key, attached.Hash(h), ok && len(rest) == 0
}
