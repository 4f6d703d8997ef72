package pebble

import (
	"encoding/binary"
	"strings"

	"parley/conversation"
)

// The layout. Every key starts with the byte of its table; a session is one
// contiguous range of table 02, so that erasing it is one range deletion and
// exporting it one scan.
//
//	key                                          value
//	00 "schema"                                  u32: the layout version, written at creation, checked at open
//	00 "log"                                     the store's log id
//	02 tenant session 01                         head: listed activity, head row (epoch, last, last commit, due), summary
//	02 tenant session 02                         snapshot: the machine's state as of the head row's snapshot seq
//	02 tenant session 10 seq:u64                 the record of one commit, under the LAST seq of its events
//	02 tenant session 20 source part:u32         u64 seq: the event that owns the part key
//	02 tenant session 20 source                  u64 seq: the same from before parts had an index; it is part 0
//	02 tenant session 21 author client           u64 seq: the event that owns the client key
//	02 tenant session 30 ↓ordinal:u32 task       task row
//	02 tenant session 31 user                    u64 seq: how far the user has read
//	03 tenant ↓activity session                  –   root sessions, newest activity first
//	04 due tenant session                        –   sessions with something to do, the longest due first
//	05 tenant ↓created ↓ordinal:u32 task         status byte, session: tasks of root sessions, newest first
//	06 tenant session                            u64 epoch: tombstone of an erased session
//
// A string (tenant, session, source, author, client, task, user) is its bytes
// with 00 written as 00 FF, ended by 00 01: order is kept and no encoded string
// is a prefix of another. u32 and u64 are big endian; a time is its Unix
// milliseconds with the sign bit flipped, so that order is kept before 1970 too;
// ↓ is the complement, which turns the order round. The table and kind bytes are
// stored: do not reorder, never reuse.
//
// The comparer is Pebble's default (plain bytes), so that the pebble debugging
// tool reads a user's directory.
const (
	tableMeta      = 0x00
	tableSession   = 0x02
	tableActivity  = 0x03
	tableDue       = 0x04
	tableTasks     = 0x05
	tableTombstone = 0x06

	kindHead     = 0x01
	kindSnapshot = 0x02
	kindRecord   = 0x10
	kindPart     = 0x20
	kindClient   = 0x21
	kindTask     = 0x30
	kindCursor   = 0x31
)

// layoutVersion is the version of the table above. A program refuses a store of
// a newer one.
const layoutVersion = 1

var (
	keySchema = []byte("\x00schema")
	keyLog    = []byte("\x00log")
)

// appendString appends s so that encoded strings sort like s and none is a
// prefix of another.
func appendString(b []byte, s string) []byte {
	return append(appendOpenString(b, s), 0x00, 0x01)
}

// appendOpenString is appendString without the end: the common prefix of every
// string that starts with s.
func appendOpenString(b []byte, s string) []byte {
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

// cutString reads one string from the front of b; ok is false if there is none.
func cutString(b []byte) (s string, rest []byte, ok bool) {
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

func appendU32(b []byte, v uint32) []byte { return binary.BigEndian.AppendUint32(b, v) }
func appendU64(b []byte, v uint64) []byte { return binary.BigEndian.AppendUint64(b, v) }

// ordered maps a time in milliseconds to an unsigned number of the same order.
func ordered(ms int64) uint64  { return uint64(ms) ^ 1<<63 }
func unordered(v uint64) int64 { return int64(v ^ 1<<63) }
func after(prefix []byte) []byte { // the smallest key behind every key with the prefix
	end := append([]byte(nil), prefix...)
	for i := len(end) - 1; i >= 0; i-- {
		if end[i] != 0xff {
			end[i]++
			return end[:i+1]
		}
	}
	return nil
}

// sessionPrefix is the common prefix of all keys of one session in table 02.
func sessionPrefix(b []byte, key conversation.SessionKey) []byte {
	b = append(b, tableSession)
	b = appendString(b, string(key.Tenant))
	return appendString(b, string(key.Session))
}

// subsPrefix is the common prefix of all keys of the sub-sessions of a session.
func subsPrefix(b []byte, key conversation.SessionKey) []byte {
	b = append(b, tableSession)
	b = appendString(b, string(key.Tenant))
	return appendOpenString(b, string(key.Session)+"/")
}

func keyHead(b []byte, key conversation.SessionKey) []byte {
	return append(sessionPrefix(b, key), kindHead)
}

func keySnapshot(b []byte, key conversation.SessionKey) []byte {
	return append(sessionPrefix(b, key), kindSnapshot)
}

func keyRecord(b []byte, key conversation.SessionKey, last conversation.Seq) []byte {
	return appendU64(append(sessionPrefix(b, key), kindRecord), uint64(last))
}

// keyUnique is the key of a part or of a client message.
func keyUnique(b []byte, key conversation.SessionKey, k conversation.Key) []byte {
	if k.Source == "" {
		b = append(sessionPrefix(b, key), kindClient)
		return appendString(appendString(b, string(k.Author)), string(k.Client))
	}
	return appendU32(keyLegacyPart(b, key, k.Source), uint32(k.Part))
}

// keyLegacyPart is a part key from before parts had an index.
func keyLegacyPart(b []byte, key conversation.SessionKey, source conversation.SourceID) []byte {
	return appendString(append(sessionPrefix(b, key), kindPart), string(source))
}

func keyTask(b []byte, key conversation.SessionKey, task conversation.TaskID) []byte {
	b = append(sessionPrefix(b, key), kindTask)
	return appendString(appendU32(b, ^taskOrdinal(task)), string(task))
}

func keyCursor(b []byte, key conversation.SessionKey, user conversation.UserID) []byte {
	return appendString(append(sessionPrefix(b, key), kindCursor), string(user))
}

func tenantPrefix(b []byte, table byte, tenant conversation.TenantID) []byte {
	return appendString(append(b, table), string(tenant))
}

func keyActivity(b []byte, key conversation.SessionKey, ms int64) []byte {
	b = appendU64(tenantPrefix(b, tableActivity, key.Tenant), ^ordered(ms))
	return appendString(b, string(key.Session))
}

// cutActivity reads a key of table 03.
func cutActivity(b []byte) (key conversation.SessionKey, ms int64, ok bool) {
	if len(b) == 0 || b[0] != tableActivity {
		return key, 0, false
	}
	tenant, rest, ok := cutString(b[1:])
	if !ok || len(rest) < 8 {
		return key, 0, false
	}
	ms = unordered(^binary.BigEndian.Uint64(rest))
	session, rest, ok := cutString(rest[8:])
	key = conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(session)}
	return key, ms, ok && len(rest) == 0
}

func keyDue(b []byte, key conversation.SessionKey, ms int64) []byte {
	b = appendU64(append(b, tableDue), ordered(ms))
	return appendString(appendString(b, string(key.Tenant)), string(key.Session))
}

// cutDue reads a key of table 04.
func cutDue(b []byte) (key conversation.SessionKey, ms int64, ok bool) {
	if len(b) < 9 || b[0] != tableDue {
		return key, 0, false
	}
	ms = unordered(binary.BigEndian.Uint64(b[1:]))
	key, rest, ok := cutSession(b[9:])
	return key, ms, ok && len(rest) == 0
}

func keyTaskTime(b []byte, tenant conversation.TenantID, created int64, task conversation.TaskID) []byte {
	b = appendU64(tenantPrefix(b, tableTasks, tenant), ^ordered(created))
	return appendString(appendU32(b, ^taskOrdinal(task)), string(task))
}

// cutTaskTime reads the task's id and its time from a key of table 05.
func cutTaskTime(b []byte) (task conversation.TaskID, created int64, ok bool) {
	if len(b) == 0 || b[0] != tableTasks {
		return "", 0, false
	}
	_, rest, ok := cutString(b[1:])
	if !ok || len(rest) < 12 {
		return "", 0, false
	}
	created = unordered(^binary.BigEndian.Uint64(rest))
	id, rest, ok := cutString(rest[12:])
	return conversation.TaskID(id), created, ok && len(rest) == 0
}

func keyTombstone(b []byte, key conversation.SessionKey) []byte {
	b = appendString(append(b, tableTombstone), string(key.Tenant))
	return appendString(b, string(key.Session))
}

// cutSession reads tenant and session.
func cutSession(b []byte) (key conversation.SessionKey, rest []byte, ok bool) {
	tenant, rest, ok := cutString(b)
	if !ok {
		return key, nil, false
	}
	session, rest, ok := cutString(rest)
	if !ok {
		return key, nil, false
	}
	return conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(session)}, rest, true
}

// taskOrdinal is the number in "t12-<session>", 0 if there is none. It orders
// tasks of one millisecond: t10 comes after t9.
func taskOrdinal(task conversation.TaskID) uint32 {
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
