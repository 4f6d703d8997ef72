// Package move carries a whole installation from one store to another, over a file: from
// the embedded one to PostgreSQL and back.
//
// Out writes the file, or goes on with one that was interrupted, Check reads it without a
// store, In reads it into one. Whatever is
// on the way out is in memory for one frame, one page of a list and one snapshot at most. In
// writes 64 sessions side by side, each in its order, on a goroutine each that ends before
// In returns; it has read at most 16 MiB ahead of them (one attachment may be more), and a snapshot for each. cmd/parley calls
// them; the stores implement Installation.
//
// The file begins with a line of JSON (type, version, log, program, time). Frames follow:
//
//	kind:u8 length:u32 body crc:u32     big endian; crc is CRC-32C of all before it in the frame
//
//	t  an erased session                JSON: tenant, session, epoch, erased
//	s  a session begins                 JSON: tenant, session, last, commit, summary, wake, claim, snapshot_at
//	p  its snapshot, if it has one      the bytes of the store
//	b  a file that is attached to its messages, or waits to be   JSON: hash, name, type, size, at, named
//	d  the next 256 KiB of that file    bytes
//	k  one of its tasks                 a task row of conversation/wire
//	c  how far a user has read          JSON: user, seq
//	r  one of its records, in order     a record of conversation/wire
//	e  it ends                          JSON: records, tasks, cursors, files, sha256 of its frames
//	w  what a channel remembers of a chat  JSON: tenant, channel, chat, revision, session, value
//	f  the feed of a tenant begins      JSON: tenant, last
//	n  one of its entries, in order     JSON: number, at, session, value
//	z  the file ends                    JSON: sessions, erased, records, files, chats, entries, sha256 of the file until here
//
// Erased sessions come first, so that a next session of a name finds its place. Commit ids,
// summaries, claims and values are base64 in JSON, summaries and claims in the encoding of
// conversation/wire. Files come before the records that name them; chats and feeds come last. A program that
// does not know these kinds refuses such a file before it writes anything (ErrNewer), and
// reads one without.
// The keys of parts and messages are not in the file: they follow from the records. Epochs
// of sessions are not either: no writer of one store can write to another.
//
// In writes through Acquire and Commit, like any writer, so another one that starts meanwhile
// fences it. A session has its summary, by which lists find it, with the last commit of all: one
// without is not whole and is gone on with. Chats and entries are compared with what is there,
// one by one.
package move
