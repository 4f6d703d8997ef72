package layout

import (
	"encoding/binary"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/listing"
)

// The layout. Every key starts with the byte of its table; a session is one
// contiguous range of table 02, so that erasing it, and exporting it, is one scan.
//
//	key                                          value
//	00 "schema"                                  u32: the layout version, written at creation, checked at open
//	00 "log"                                     the store's log id
//	00 "secret"                                  32 random bytes, never sent; made at the first start that knows of them
//	02 tenant session 01                         head: listed activity, head row (epoch, last, last commit, due), summary
//	02 tenant session 02                         snapshot: the machine's state as of the head row's snapshot seq
//	02 tenant session 10 seq:u64                 the record of one commit, under the LAST seq of its events
//	02 tenant session 20 source part:u32         u64 seq: the event that owns the part key
//	02 tenant session 20 source                  u64 seq: the same from before parts had an index; it is part 0
//	02 tenant session 21 author client           u64 seq: the event that owns the client key
//	02 tenant session 30 ↓ordinal:u32 task       task row
//	02 tenant session 31 user                    u64 seq: how far the user has read
//	02 tenant session 40 ↓time ↓seq:u64          what can be found of one message or part, see search.go (since layout 5)
//	02 tenant session 41                         u64 seq: up to which the log is in 40 and 42; the version of the index, its small
//	                                             blocks; derived, and lost without harm
//	02 tenant session 42 ↓time ↓seq ↓through:u64 a block of words of some of 40, the newest of which is there; see wordblock
//	03 tenant ↓activity session                  –   root sessions, newest activity first, up to a second behind (ActivityLag)
//	04 due tenant session                        –   sessions with something to do, the longest due first
//	05 tenant ↓created ↓ordinal:u32 task         status byte, session: tasks of root sessions, newest first
//	06 tenant session                            u64 epoch, u64 Unix milliseconds of the erasure: tombstone of an erased session
//	                                             (layout 1: the epoch alone)
//	07 tenant session                            erased sessions whose text may still be on the disk; 01 = also in table 09
//	08 tenant since session                      –   sessions with a task that an outside runtime may claim, the oldest task first
//	                                             (since layout 3)
//	09 tenant session 01 channel chat            what a channel remembers of a chat (tables 09 to 0c: since layout 4)
//	09 tenant session 02 number:u64              an entry of the tenant's feed: time, then value
//	0a tenant channel chat                       u64 revision, session: where the row of a chat is, and how often it was written
//	0b tenant number:u64                         session: where an entry is, all in order
//	0c tenant                                    u64 the newest number that there ever was
//	02 tenant session 50 hash                    what is attached to messages: time of the loan, u64 size, type, name (since layout 5)
//	02 tenant session 51 hash                    –   a message names it
//	02 tenant session 52 hash n:u32              a chunk of it
//	14 tenant hash session                       u64 size: which sessions have it
//	15 loan tenant session hash                  –   those that no message may name yet, the oldest loan first
//	16 tenant session                            a gate: who may be allowed to read the session, as of 41 (since layout 6)
//	17 tenant session ↓time ↓seq ↓through:u64    the sieve of a block of 42: which words it certainly does not have
//
// A string (tenant, session, source, author, client, task, user, channel, chat) is its bytes
// with 00 written as 00 FF, ended by 00 01: order is kept and no encoded string
// is a prefix of another. u32 and u64 are big endian; a time is its Unix
// milliseconds with the sign bit flipped, so that order is kept before 1970 too;
// ↓ is the complement, which turns the order round. The table and kind bytes are
// stored: do not reorder, never reuse.
//
// The comparer is Pebble's default (plain bytes), so that the pebble debugging
// tool reads a user's directory.
const (
	TableMeta      = 0x00
	TableSession   = 0x02
	TableActivity  = 0x03
	TableDue       = 0x04
	TableTasks     = 0x05
	TableTombstone = 0x06
	TableUncleared = 0x07
	TableClaims    = 0x08
	TableChats     = 0x09
	TableChatRows  = 0x0a
	TableFeed      = 0x0b
	TableFeedEnd   = 0x0c
	TableBlobs     = 0x14
	TableLoans     = 0x15
	TableGates     = 0x16
	TableSieves    = 0x17

	KindHead     = 0x01
	KindSnapshot = 0x02
	KindRecord   = 0x10
	KindPart     = 0x20
	KindClient   = 0x21
	KindTask     = 0x30
	KindCursor   = 0x31
	KindSaid     = 0x40
	KindSaidTo   = 0x41
	KindWords    = 0x42

	KindBlob      = 0x50
	KindBlobNamed = 0x51
	KindBlobChunk = 0x52

	KindChatRow   = 0x01 // of table 09
	KindChatEntry = 0x02
)

// Version is the version of the layout. A program refuses a store of
// a newer one.
const Version = 6

// The keys of table 00.
var (
	KeySchema = []byte("\x00schema")
	KeyLog    = []byte("\x00log")
	KeySecret = []byte("\x00secret")
)

// AppendString appends s so that encoded strings sort like s and none is a
// prefix of another.
func AppendString(b []byte, s string) []byte {
	return append(AppendOpenString(b, s), 0x00, 0x01)
}

// AppendOpenString is AppendString without the end: the common prefix of every
// string that starts with s.
func AppendOpenString(b []byte, s string) []byte {
	for {
		i := strings.IndexByte(s, 0)
		if i < 0 {
			return append(b, s...)
		}
		b = append(b, s[:i]...)
		b = append(b, 0x00, 0xff)
		s = s[i+1:]
	}
}

// CutString reads one string from the front of b; ok is false if there is none.
func CutString(b []byte) (s string, rest []byte, ok bool) {
	start, plain := 0, true
	var sb strings.Builder
	for i := 0; i+1 < len(b); i++ {
		if b[i] != 0 {
			continue
		}
		switch b[i+1] {
		case 0x01:
			if plain {
				return string(b[:i]), b[i+2:], true
			}
			sb.Write(b[start:i])
			return sb.String(), b[i+2:], true
		case 0xff:
			plain = false
			sb.Write(b[start : i+1])
			i++
			start = i + 1
		default:
			return "", nil, false
		}
	}
	return "", nil, false
}

// AppendU32 appends v, big endian.
func AppendU32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }

// AppendU64 appends v, big endian.
func AppendU64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// Ordered maps a time in milliseconds to an unsigned number of the same order.
func Ordered(ms int64) uint64 { return uint64(ms) ^ 1<<63 }

// Unordered is the inverse of Ordered.
func Unordered(v uint64) int64 { return int64(v ^ 1<<63) }

// After is the smallest key behind every key with the prefix; nil = there is none.
func After(prefix []byte) []byte {
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// SessionPrefix is the common prefix of all keys of one session in table 02.
func SessionPrefix(b []byte, key conversation.SessionKey) []byte {
	b = append(b, TableSession)
	b = AppendString(b, string(key.Tenant))
	return AppendString(b, string(key.Session))
}

// SubsPrefix is the common prefix of all keys of the sub-sessions of a session.
func SubsPrefix(b []byte, key conversation.SessionKey) []byte {
	b = append(b, TableSession)
	b = AppendString(b, string(key.Tenant))
	return AppendOpenString(b, string(key.Session)+"/")
}

// KeyHead is the key of a session's head.
func KeyHead(b []byte, key conversation.SessionKey) []byte {
	return append(SessionPrefix(b, key), KindHead)
}

// KeySnapshot is the key of a session's snapshot.
func KeySnapshot(b []byte, key conversation.SessionKey) []byte {
	return append(SessionPrefix(b, key), KindSnapshot)
}

// KeyRecord is the key of the record whose last event has the seq last.
func KeyRecord(b []byte, key conversation.SessionKey, last conversation.Seq) []byte {
	return AppendU64(append(SessionPrefix(b, key), KindRecord), uint64(last))
}

// KeyUnique is the key of a part or of a client message.
func KeyUnique(b []byte, key conversation.SessionKey, k conversation.Key) []byte {
	if k.Source == "" {
		b = append(SessionPrefix(b, key), KindClient)
		return AppendString(AppendString(b, string(k.Author)), string(k.Client))
	}
	return AppendU32(KeyLegacyPart(b, key, k.Source), uint32(k.Part))
}

// KeyLegacyPart is a part key from before parts had an index.
func KeyLegacyPart(b []byte, key conversation.SessionKey, source conversation.SourceID) []byte {
	return AppendString(append(SessionPrefix(b, key), KindPart), string(source))
}

// CutUnique reads what is behind the session in the key of a part or client message,
// its kind first. A part without an index is part 0.
func CutUnique(rest []byte) (key conversation.Key, ok bool) {
	if len(rest) == 0 || rest[0] != KindPart && rest[0] != KindClient {
		return key, false
	}
	first, left, ok := CutString(rest[1:])
	if !ok {
		return key, false
	}
	if rest[0] == KindClient {
		client, left, ok := CutString(left)
		return conversation.Key{Author: conversation.UserID(first), Client: conversation.ClientMsgID(client)}, ok && len(left) == 0
	}
	key.Source = conversation.SourceID(first)
	if len(left) == 0 {
		return key, true
	}
	if len(left) != 4 {
		return key, false
	}
	key.Part = conversation.PartIndex(binary.BigEndian.Uint32(left))
	return key, true
}

// KeyTask is the key of a task's row.
func KeyTask(b []byte, key conversation.SessionKey, task conversation.TaskID) []byte {
	b = append(SessionPrefix(b, key), KindTask)
	return AppendString(AppendU32(b, ^TaskOrdinal(task)), string(task))
}

// KeyCursor is the key of a user's read cursor.
func KeyCursor(b []byte, key conversation.SessionKey, user conversation.UserID) []byte {
	return AppendString(append(SessionPrefix(b, key), KindCursor), string(user))
}

// AppendCursor is the value behind KeyCursor: the seq, and a byte of marks if there are any.
func AppendCursor(b []byte, c conversation.Cursor) []byte {
	if b = AppendU64(b, uint64(c.Seq)); c.Set != 0 {
		b = append(b, byte(c.Set))
	}
	return b
}

// CutCursor reads the value behind KeyCursor.
func CutCursor(v []byte) (c conversation.Cursor, ok bool) {
	if len(v) != 8 && len(v) != 9 {
		return c, false
	}
	c.Seq = conversation.Seq(binary.BigEndian.Uint64(v))
	if len(v) == 9 {
		c.Set = listing.Marks(v[8])
	}
	return c, true
}

// TenantPrefix is the common prefix of all keys of a tenant in a table.
func TenantPrefix(b []byte, table byte, tenant conversation.TenantID) []byte {
	return AppendString(append(b, table), string(tenant))
}

// KeyActivity is a key of table 03.
func KeyActivity(b []byte, key conversation.SessionKey, ms int64) []byte {
	b = AppendU64(TenantPrefix(b, TableActivity, key.Tenant), ^Ordered(ms))
	return AppendString(b, string(key.Session))
}

// CutActivity reads a key of table 03.
func CutActivity(b []byte) (key conversation.SessionKey, ms int64, ok bool) {
	if len(b) == 0 || b[0] != TableActivity {
		return key, 0, false
	}
	tenant, rest, ok := CutString(b[1:])
	if !ok || len(rest) < 8 {
		return key, 0, false
	}
	ms = Unordered(^binary.BigEndian.Uint64(rest))
	session, rest, ok := CutString(rest[8:])
	key = conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(session)}
	return key, ms, ok && len(rest) == 0
}

// KeyDue is a key of table 04.
func KeyDue(b []byte, key conversation.SessionKey, ms int64) []byte {
	b = AppendU64(append(b, TableDue), Ordered(ms))
	return AppendString(AppendString(b, string(key.Tenant)), string(key.Session))
}

// CutDue reads a key of table 04.
func CutDue(b []byte) (key conversation.SessionKey, ms int64, ok bool) {
	if len(b) < 9 || b[0] != TableDue {
		return key, 0, false
	}
	ms = Unordered(binary.BigEndian.Uint64(b[1:]))
	key, rest, ok := CutSession(b[9:])
	return key, ms, ok && len(rest) == 0
}

// KeyTaskTime is a key of table 05.
func KeyTaskTime(b []byte, tenant conversation.TenantID, created int64, task conversation.TaskID) []byte {
	b = AppendU64(TenantPrefix(b, TableTasks, tenant), ^Ordered(created))
	return AppendString(AppendU32(b, ^TaskOrdinal(task)), string(task))
}

// CutTaskTime reads the task's id and its time from a key of table 05.
func CutTaskTime(b []byte) (task conversation.TaskID, created int64, ok bool) {
	if len(b) == 0 || b[0] != TableTasks {
		return "", 0, false
	}
	_, rest, ok := CutString(b[1:])
	if !ok || len(rest) < 12 {
		return "", 0, false
	}
	created = Unordered(^binary.BigEndian.Uint64(rest))
	id, rest, ok := CutString(rest[12:])
	return conversation.TaskID(id), created, ok && len(rest) == 0
}

// KeyTombstone is a key of table 06.
func KeyTombstone(b []byte, key conversation.SessionKey) []byte {
	b = AppendString(append(b, TableTombstone), string(key.Tenant))
	return AppendString(b, string(key.Session))
}

// AppendTombstone appends the value of a tombstone.
func AppendTombstone(b []byte, epoch conversation.Epoch, at time.Time) []byte {
	return AppendU64(AppendU64(b, uint64(epoch)), uint64(at.UnixMilli()))
}

// CutTombstone reads the value of a tombstone; at is zero if it has no time.
func CutTombstone(v []byte) (epoch conversation.Epoch, at time.Time, ok bool) {
	switch len(v) {
	case 8:
		return conversation.Epoch(binary.BigEndian.Uint64(v)), at, true
	case 16:
		at = time.UnixMilli(int64(binary.BigEndian.Uint64(v[8:]))).UTC()
		return conversation.Epoch(binary.BigEndian.Uint64(v)), at, true
	}
	return 0, at, false
}

// KeyUncleared is a key of table 07.
func KeyUncleared(b []byte, key conversation.SessionKey) []byte {
	b = AppendString(append(b, TableUncleared), string(key.Tenant))
	return AppendString(b, string(key.Session))
}

// KeyClaim is a key of table 08.
func KeyClaim(b []byte, key conversation.SessionKey, since int64) []byte {
	b = AppendU64(TenantPrefix(b, TableClaims, key.Tenant), Ordered(since))
	return AppendString(b, string(key.Session))
}

// CutClaim reads a key of table 08.
func CutClaim(b []byte) (key conversation.SessionKey, since int64, ok bool) {
	if len(b) == 0 || b[0] != TableClaims {
		return key, 0, false
	}
	tenant, rest, ok := CutString(b[1:])
	if !ok || len(rest) < 8 {
		return key, 0, false
	}
	since = Unordered(binary.BigEndian.Uint64(rest))
	session, rest, ok := CutString(rest[8:])
	key = conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(session)}
	return key, since, ok && len(rest) == 0
}

// CutSession reads tenant and session.
func CutSession(b []byte) (key conversation.SessionKey, rest []byte, ok bool) {
	tenant, rest, ok := CutString(b)
	if !ok {
		return key, nil, false
	}
	session, rest, ok := CutString(rest)
	if !ok {
		return key, nil, false
	}
	return conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(session)}, rest, true
}

// TaskOrdinal is the number in "t12-<session>", 0 if there is none. It orders
// tasks of one millisecond: t10 comes after t9.
func TaskOrdinal(task conversation.TaskID) uint32 {
	if len(task) < 2 || task[0] != 't' {
		return 0
	}
	var n uint64
	for _, c := range []byte(task[1:]) {
		if c == '-' {
			break
		}
		if c < '0' || c > '9' {
			return 0
		}
		if n = n*10 + uint64(c-'0'); n > 1<<32-1 {
			return 0
		}
	}
	return uint32(n)
}
