// Package wire is the one encoding of events and rows, for disk and cluster:
// protobuf behind a format byte. events.proto and store.proto are its published
// schema, with the rules for changing it: any protobuf tool can read a backup.
//
// The code is written by hand, on top of protowire. A file holds a family of
// messages, and there each message's append function stands beside its read
// function, so that a new field is two lines in one place:
//
//	session.go   session_created, session_updated, session_closed
//	message.go   message_accepted to message_resolved
//	task.go      tasks, steps, coverage, compaction
//	part.go      partial_response, response
//	question.go  question to question_closed
//	call.go      tool calls and delegations
//	value.go     what several of them hold: failures, usage, items, overrides
//	event.go     an event around its body
//	record.go    a record: what one commit stored
//	row.go       the rows that stores keep beside the records
//
// peer.proto is the schema of what crosses between nodes beside them, and is never stored:
// command.go, answer.go and view.go, whose messages are described once for both
// directions (fields.go).
//
// writer.go and reader.go hold the fields' types. The code that protoc makes of
// the schema (internal/pb) is linked into this package's tests only. They hold
// the two against each other: for every value the same bytes, and for any bytes,
// damaged ones too, the same value or the same refusal.
//
// # Use
//
// Append functions add to a slice and return it, as append does; the same value
// always gives the same bytes. Decode functions keep nothing of the bytes that
// they are given, so these may be a buffer of the store's that changes later.
// They never panic, and they take memory in proportion to the bytes: what they
// cannot read is ErrCorrupt, or conversation.ErrTooNew when a newer program
// wrote it. All of them may be called from any goroutine.
//
// Decoding gives the encoded value again, with these limits: times and durations have
// milliseconds and times are UTC, a time at exactly 1970-01-01T00:00:00Z is no
// time, an empty slice or map comes back nil, and text that is not UTF-8 comes
// back with U+FFFD in the place of each byte that is not.
//
// The callers are the stores, and the nodes of a cluster.
package wire

//go:generate sh generate.sh

import "errors"

// format is the first byte of every encoded value. A value that older programs
// must not read in the old way gets another one.
const format = 0x01

// ErrCorrupt is wrapped by every Decode error that is not conversation.ErrTooNew:
// the bytes are damaged, or are something else than the caller takes them for.
var ErrCorrupt = errors.New("the stored bytes cannot be read")
