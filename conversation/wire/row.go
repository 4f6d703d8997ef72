package wire

import (
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/wire/internal/pb"
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
	var p pb.TaskRow
	if err := decodeMessage(b, &p); err != nil {
		return conversation.TaskRow{}, fmt.Errorf("task row: %w", err)
	}
	var r reader
	row := conversation.TaskRow{
		Key:       sessionKey(p.Tenant, p.Session),
		Task:      conversation.TaskID(p.Task),
		Status:    r.taskStatus(p.Status),
		Agent:     conversation.AgentName(p.Agent),
		Owner:     conversation.UserID(p.Owner),
		Trigger:   conversation.MessageID(p.Trigger),
		CreatedAt: readTime(p.CreatedAt),
		UpdatedAt: readTime(p.UpdatedAt),
		First:     conversation.Seq(p.First),
		Last:      conversation.Seq(p.Last),
		Error:     readFailure(p.Error),
	}
	if r.err != nil {
		return conversation.TaskRow{}, fmt.Errorf("task row: %w", r.err)
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
	return w.b
}

// DecodeSummary reads what AppendSummary wrote; Seen is 0. Errors wrap
// conversation.ErrTooNew or ErrCorrupt.
func DecodeSummary(b []byte) (conversation.Summary, error) {
	var p pb.Summary
	if err := decodeMessage(b, &p); err != nil {
		return conversation.Summary{}, fmt.Errorf("summary: %w", err)
	}
	var r reader
	s := conversation.Summary{
		Key:       sessionKey(p.Tenant, p.Session),
		Title:     p.Title,
		Agent:     conversation.AgentName(p.Agent),
		Owner:     conversation.UserID(p.Owner),
		Access:    r.access(p.Access),
		Closed:    p.Closed,
		CreatedAt: readTime(p.CreatedAt),
		Activity:  readTime(p.Activity),
		Last:      conversation.Seq(p.Last),
		Open:      int(p.Open),
		Awaiting:  int(p.Awaiting),
	}
	if r.err != nil {
		return conversation.Summary{}, fmt.Errorf("summary: %w", r.err)
	}
	return s, nil
}

// HeadRow is what a store keeps at the end of a session's log. The snapshot
// itself has a key of its own: it is read once per activation, the head with
// every commit.
type HeadRow struct {
	Epoch      conversation.Epoch
	Last       conversation.Seq
	LastCommit conversation.CommitID
	SnapshotAt conversation.Seq
	WakeAt     time.Time // the session's entry in the index of what is due; zero = none
	Erased     bool      // a tombstone: only Epoch counts
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
	return w.b
}

// DecodeHead reads what AppendHead wrote. Errors wrap conversation.ErrTooNew or
// ErrCorrupt.
func DecodeHead(b []byte) (HeadRow, error) {
	var p pb.HeadRow
	if err := decodeMessage(b, &p); err != nil {
		return HeadRow{}, fmt.Errorf("head: %w", err)
	}
	return HeadRow{
		Epoch:      conversation.Epoch(p.Epoch),
		Last:       conversation.Seq(p.Last),
		LastCommit: conversation.CommitID(p.LastCommit),
		SnapshotAt: conversation.Seq(p.SnapshotAt),
		WakeAt:     readTime(p.WakeAt),
		Erased:     p.Erased,
	}, nil
}

func sessionKey(tenant, session string) conversation.SessionKey {
	return conversation.SessionKey{
		Tenant:  conversation.TenantID(tenant),
		Session: conversation.SessionID(session),
	}
}
