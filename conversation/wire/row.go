package wire

import (
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/listing"
)

// AppendTaskRow adds the encoding of row to dst.
func AppendTaskRow(dst []byte, row conversation.TaskRow) []byte {
	w := newWriter(dst)
	w.text(1, string(row.Key.Tenant))
	w.text(2, string(row.Key.Session))
	w.text(3, string(row.Task))
	w.uint(4, uint64(row.Status))
	w.text(5, string(row.Agent))
	w.text(6, string(row.Owner))
	w.text(7, string(row.Trigger))
	w.time(8, row.CreatedAt)
	w.time(9, row.UpdatedAt)
	w.uint(10, uint64(row.First))
	w.uint(11, uint64(row.Last))
	w.failure(12, row.Error)
	return w.b
}

// DecodeTaskRow reads what AppendTaskRow wrote. Errors wrap
// conversation.ErrTooNew or ErrCorrupt.
func DecodeTaskRow(b []byte) (conversation.TaskRow, error) {
	var (
		row    conversation.TaskRow
		damage error
	)
	r := newReader(b, &damage)
	for r.next() {
		switch r.number {
		case 1:
			text(&r, &row.Key.Tenant)
		case 2:
			text(&r, &row.Key.Session)
		case 3:
			text(&r, &row.Task)
		case 4:
			enum(&r, &row.Status, conversation.TaskCancelled)
		case 5:
			text(&r, &row.Agent)
		case 6:
			text(&r, &row.Owner)
		case 7:
			text(&r, &row.Trigger)
		case 8:
			moment(&r, &row.CreatedAt)
		case 9:
			moment(&r, &row.UpdatedAt)
		case 10:
			unsigned(&r, &row.First)
		case 11:
			unsigned(&r, &row.Last)
		case 12:
			r.failure(&row.Error)
		}
	}
	if err := r.end(); err != nil {
		return conversation.TaskRow{}, fmt.Errorf("task row: %w", err)
	}
	return row, nil
}

// AppendSummary adds the encoding of s, without Seen, to dst.
func AppendSummary(dst []byte, s conversation.Summary) []byte {
	w := newWriter(dst)
	w.text(1, string(s.Key.Tenant))
	w.text(2, string(s.Key.Session))
	w.text(3, s.Title)
	w.text(4, string(s.Agent))
	w.text(5, string(s.Owner))
	w.uint(6, uint64(s.Access))
	w.bool(7, s.Closed)
	w.time(8, s.CreatedAt)
	w.time(9, s.Activity)
	w.uint(10, uint64(s.Last))
	w.int(11, int64(s.Open))
	w.int(12, int64(s.Awaiting))
	w.members(13, s.Members)
	w.int(14, int64(s.Running))
	w.int(15, int64(s.Asking))
	w.bytes(16, string(s.Parts))
	return w.b
}

// DecodeSummary reads what AppendSummary wrote; Seen is 0. Errors wrap
// conversation.ErrTooNew or ErrCorrupt.
func DecodeSummary(b []byte) (conversation.Summary, error) {
	var (
		s      conversation.Summary
		parts  string
		damage error
	)
	r := newReader(b, &damage)
	for r.next() {
		switch r.number {
		case 1:
			text(&r, &s.Key.Tenant)
		case 2:
			text(&r, &s.Key.Session)
		case 3:
			text(&r, &s.Title)
		case 4:
			text(&r, &s.Agent)
		case 5:
			text(&r, &s.Owner)
		case 6:
			enum(&r, &s.Access, conversation.AccessTenant)
		case 7:
			boolean(&r, &s.Closed)
		case 8:
			moment(&r, &s.CreatedAt)
		case 9:
			moment(&r, &s.Activity)
		case 10:
			unsigned(&r, &s.Last)
		case 11:
			integer(&r, &s.Open)
		case 12:
			integer(&r, &s.Awaiting)
		case 13:
			r.members(&s.Members)
		case 14:
			integer(&r, &s.Running)
		case 15:
			integer(&r, &s.Asking)
		case 16:
			opaque(&r, &parts)
		}
	}
	if err := r.end(); err != nil {
		return conversation.Summary{}, fmt.Errorf("summary: %w", err)
	}
	if parts != "" {
		s.Parts = listing.Parts(parts)
	}
	return s, nil
}

// SummaryActivity reads the activity alone of what AppendSummary wrote, in milliseconds.
// Of a damaged summary it reads what it can: DecodeSummary says what is wrong.
func SummaryActivity(b []byte) int64 {
	var (
		at     time.Time
		damage error
	)
	r := newReader(b, &damage)
	for r.next() {
		if r.number == 9 {
			moment(&r, &at)
		}
	}
	return at.UnixMilli()
}

// HeadRow is the row of a session's newest state: its writer, the end of its log,
// its snapshot's place and its wake-up. The snapshot
// itself has a key of its own: it is read once per activation, the head with
// every commit.
type HeadRow struct {
	Epoch      conversation.Epoch
	Last       conversation.Seq
	LastCommit conversation.CommitID
	SnapshotAt conversation.Seq
	WakeAt     time.Time               // the session's entry in the index of what is due; zero = none
	Erased     bool                    // a tombstone: only Epoch counts
	Claim      *conversation.Claimable // the session's entry in the index of what may be claimed; nil = none
	Stored     uint64                  // bytes that the session counts for; 0 = it is older than the count
}

// AppendHead adds the encoding of h to dst.
func AppendHead(dst []byte, h HeadRow) []byte {
	w := newWriter(dst)
	w.uint(1, uint64(h.Epoch))
	w.uint(2, uint64(h.Last))
	w.text(3, string(h.LastCommit))
	w.uint(4, uint64(h.SnapshotAt))
	w.time(5, h.WakeAt)
	w.bool(6, h.Erased)
	if c := h.Claim; c != nil {
		at := w.begin(7)
		w.text(1, string(c.Task))
		w.text(2, string(c.Agent))
		w.time(3, c.Since)
		w.text(4, string(c.Runtime))
		w.time(5, c.From)
		w.end(at)
	}
	w.uint(8, h.Stored)
	return w.b
}

// claim reads what AppendHead wrote of a claim.
func (r *reader) claim(into **conversation.Claimable) {
	m, ok := r.message()
	if !ok {
		return
	}
	if *into == nil {
		*into = &conversation.Claimable{}
	}
	c := *into
	for m.next() {
		switch m.number {
		case 1:
			text(&m, &c.Task)
		case 2:
			text(&m, &c.Agent)
		case 3:
			moment(&m, &c.Since)
		case 4:
			text(&m, &c.Runtime)
		case 5:
			moment(&m, &c.From)
		}
	}
}

// DecodeHead reads what AppendHead wrote. Errors wrap conversation.ErrTooNew or
// ErrCorrupt.
func DecodeHead(b []byte) (HeadRow, error) {
	var (
		h      HeadRow
		damage error
	)
	r := newReader(b, &damage)
	for r.next() {
		switch r.number {
		case 1:
			unsigned(&r, &h.Epoch)
		case 2:
			unsigned(&r, &h.Last)
		case 3:
			text(&r, &h.LastCommit)
		case 4:
			unsigned(&r, &h.SnapshotAt)
		case 5:
			moment(&r, &h.WakeAt)
		case 6:
			boolean(&r, &h.Erased)
		case 7:
			r.claim(&h.Claim)
		case 8:
			unsigned(&r, &h.Stored)
		}
	}
	if err := r.end(); err != nil {
		return HeadRow{}, fmt.Errorf("head: %w", err)
	}
	return h, nil
}
