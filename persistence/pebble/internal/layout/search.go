package layout

import (
	"encoding/binary"
	"fmt"
	"hash/fnv"
	"time"

	"parley/conversation"
	"parley/conversation/search"
)

// SaidPrefix is the common prefix of what can be found of a session.
func SaidPrefix(b []byte, key conversation.SessionKey) []byte {
	return append(SessionPrefix(b, key), KindSaid)
}

// KeySaid is the key of what can be found at a place.
func KeySaid(b []byte, key conversation.SessionKey, at search.Place) []byte {
	return AppendU64(AppendU64(SaidPrefix(b, key), ^Ordered(at.At)), ^uint64(at.Seq))
}

// KeySaidTo is the key of the seq up to which a log is in KindSaid.
func KeySaidTo(b []byte, key conversation.SessionKey) []byte {
	return append(SessionPrefix(b, key), KindSaidTo)
}

// WordsPrefix is the common prefix of the blocks of words of a session.
func WordsPrefix(b []byte, key conversation.SessionKey) []byte {
	return append(SessionPrefix(b, key), KindWords)
}

// A WordsKey is what stands behind a session in a key of KindWords.
type WordsKey struct {
	Newest  search.Place     // of its texts
	Through conversation.Seq // of the newest news in it
}

// KeyWords is the key of a block of words.
func KeyWords(b []byte, key conversation.SessionKey, k WordsKey) []byte {
	return AppendWordsKey(WordsPrefix(b, key), k)
}

// AppendWordsKey appends 24 bytes.
func AppendWordsKey(b []byte, k WordsKey) []byte {
	return AppendU64(AppendU64(AppendU64(b, ^Ordered(k.Newest.At)), ^uint64(k.Newest.Seq)), ^uint64(k.Through))
}

// CutWordsKey reads 24 bytes.
func CutWordsKey(b []byte) (k WordsKey, ok bool) {
	if len(b) != 24 {
		return k, false
	}
	k.Newest = search.Place{At: Unordered(^binary.BigEndian.Uint64(b)), Seq: conversation.Seq(^binary.BigEndian.Uint64(b[8:]))}
	k.Through = conversation.Seq(^binary.BigEndian.Uint64(b[16:]))
	return k, true
}

// Beside the sessions two tables say of all of a tenant which ones a search can leave out. They
// have neither words nor names, so an erasure need not clear them off the disk.

// KeyGate is a key of table 16.
func KeyGate(b []byte, key conversation.SessionKey) []byte {
	return AppendString(TenantPrefix(b, TableGates, key.Tenant), string(key.Session))
}

// SievesPrefix is the common prefix of the sieves of a session.
func SievesPrefix(b []byte, key conversation.SessionKey) []byte {
	return AppendString(TenantPrefix(b, TableSieves, key.Tenant), string(key.Session))
}

// KeySieve is the key of the sieve of a block of words.
func KeySieve(b []byte, key conversation.SessionKey, k WordsKey) []byte {
	return AppendWordsKey(SievesPrefix(b, key), k)
}

// AppendGate encodes who may read a session: the version of the index, 1 = all of the tenant,
// and a hash of each reader.
func AppendGate(b []byte, s conversation.Summary) []byte {
	const nobody = "\x00"
	open := byte(0)
	if s.Reads(nobody) {
		open = 1
	}
	b = AppendU32(append(b, IndexVersion, open), reader(s.Owner))
	for user := range s.Members {
		if s.Reads(user) {
			b = AppendU32(b, reader(user))
		}
	}
	return b
}

// Opens is false for a gate of this version that certainly does not let a user in.
func Opens(gate []byte, user conversation.UserID) bool {
	if len(gate) < 2 || gate[0] != IndexVersion || gate[1] != 0 {
		return true
	}
	is := reader(user)
	for left := gate[2:]; len(left) >= 4; left = left[4:] {
		if binary.BigEndian.Uint32(left) == is {
			return true
		}
	}
	return false
}

// IsGate says whether a gate can be read.
func IsGate(v []byte) bool {
	return len(v) > 0 && (v[0] != IndexVersion || len(v) >= 6 && len(v)%4 == 2)
}

func reader(user conversation.UserID) uint32 {
	h := fnv.New32a()
	_, _ = h.Write([]byte(user))
	return h.Sum32()
}

// IndexVersion is the version of what KindSaid, KindWords and the tables of gates and sieves
// hold: a session of another one is taken anew. It covers how texts are folded, too.
const IndexVersion = 3

// SaidTo is the value of a key of KindSaidTo.
type SaidTo struct {
	Through conversation.Seq
	Small   []SmallWords // blocks that others will be joined with, in the order in which they came
}

// SmallWords is a block of words that others will be joined with.
type SmallWords struct {
	WordsKey
	Texts int
}

// AppendSaidTo encodes s.
func AppendSaidTo(b []byte, s SaidTo) []byte {
	b = append(AppendU64(b, uint64(s.Through)), IndexVersion)
	for _, w := range s.Small {
		b = binary.BigEndian.AppendUint16(AppendWordsKey(b, w.WordsKey), uint16(w.Texts))
	}
	return b
}

// CutSaidTo reads the value of a key of KindSaidTo. Of another version nothing is kept.
func CutSaidTo(v []byte) (s SaidTo, err error) {
	bad := fmt.Errorf("%w: up to where a session can be searched", conversation.ErrDamaged)
	if len(v) < 8 {
		return s, bad
	}
	if len(v) == 8 || v[8] != IndexVersion {
		return s, nil
	}
	s.Through = conversation.Seq(binary.BigEndian.Uint64(v))
	for v = v[9:]; len(v) > 0; v = v[26:] {
		if len(v) < 26 {
			return s, bad
		}
		k, _ := CutWordsKey(v[:24])
		s.Small = append(s.Small, SmallWords{k, int(binary.BigEndian.Uint16(v[24:]))})
	}
	return s, nil
}

// AppendSaid encodes what can be found: the seq of its text, its message, the folded text.
func AppendSaid(b []byte, s search.Said) []byte {
	b = binary.AppendUvarint(b, uint64(s.Text))
	b = binary.AppendUvarint(b, uint64(len(s.Message)))
	return append(append(b, s.Message...), s.Folded...)
}

// CutSaid reads what stands behind the session in a key of KindSaid, its kind first, and the
// value; it keeps nothing of v.
func CutSaid(rest, v []byte) (s search.Said, err error) {
	bad := fmt.Errorf("%w: what can be found of a session cannot be read", conversation.ErrDamaged)
	if len(rest) != 17 || rest[0] != KindSaid {
		return s, bad
	}
	s.At = time.UnixMilli(Unordered(^binary.BigEndian.Uint64(rest[1:]))).UTC()
	s.Seq = conversation.Seq(^binary.BigEndian.Uint64(rest[9:]))
	text, n := binary.Uvarint(v)
	if n <= 0 {
		return s, bad
	}
	size, m := binary.Uvarint(v[n:])
	if m <= 0 || size > uint64(len(v)-n-m) {
		return s, bad
	}
	all := string(v[n+m:])
	s.Text, s.Message, s.Folded = conversation.Seq(text), conversation.MessageID(all[:size]), all[size:]
	return s, nil
}
