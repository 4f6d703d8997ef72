package wire

import (
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/wire/internal/pb"
)

// AppendTaskRow adds the encoding of row to dst.
func AppendTaskRow(dst []byte, row conversation.TaskRow) []byte {
	return appendMessage(dst, &pb.TaskRow{
		Tenant:    string(row.Key.Tenant),
		Session:   string(row.Key.Session),
		Task:      string(row.Task),
		Status:    uint32(row.Status),
		Agent:     string(row.Agent),
		Owner:     string(row.Owner),
		Trigger:   string(row.Trigger),
		CreatedAt: putTime(row.CreatedAt),
		UpdatedAt: putTime(row.UpdatedAt),
		First:     uint64(row.First),
		Last:      uint64(row.Last),
		Error:     putFailure(row.Error),
	})
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
	return appendMessage(dst, &pb.Summary{
		Tenant:    string(s.Key.Tenant),
		Session:   string(s.Key.Session),
		Title:     s.Title,
		Agent:     string(s.Agent),
		Owner:     string(s.Owner),
		Access:    uint32(s.Access),
		Closed:    s.Closed,
		CreatedAt: putTime(s.CreatedAt),
		Activity:  putTime(s.Activity),
		Last:      uint64(s.Last),
		Open:      int64(s.Open),
		Awaiting:  int64(s.Awaiting),
	})
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
	return appendMessage(dst, &pb.HeadRow{
		Epoch:      uint64(h.Epoch),
		Last:       uint64(h.Last),
		LastCommit: string(h.LastCommit),
		SnapshotAt: uint64(h.SnapshotAt),
		WakeAt:     putTime(h.WakeAt),
		Erased:     h.Erased,
	})
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
