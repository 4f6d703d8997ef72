package verify

import (
	"bytes"
	"encoding/binary"
	"maps"
	"slices"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/wordblock"
)

// session checks the keys of one session after the other, in the order in which
// they are stored: the head, the snapshot, the records, the keys of parts and of
// messages, the task rows, the cursors.
type session struct {
	*check
	key    conversation.SessionKey
	begun  bool
	head   *layout.Head                // nil = there is none that can be read
	next   conversation.Seq            // the event that the next record has to begin with
	broken bool                        // the records are not whole: what follows from them is not checked
	owed   map[string]conversation.Seq // keys that the events bring and that were not seen yet, encoded
	brings map[string]conversation.Seq // all keys that the events bring
	named  map[string]conversation.Key // the same keys, to be named
}

// see takes the next key of table 02.
func (s *session) see(k, v []byte) {
	key, rest, ok := layout.CutSession(k[1:])
	if !ok || len(rest) == 0 {
		s.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the sessions cannot be read", k)
		return
	}
	if !s.begun || key != s.key {
		s.end()
		*s = session{check: s.check, key: key, begun: true, next: 1}
		if rest[0] != layout.KindHead {
			s.problem(RuleHead, key, "it has keys, but no head")
		}
	}
	switch rest[0] {
	case layout.KindHead:
		s.seeHead(rest, v)
	case layout.KindSnapshot:
		s.seeSnapshot(rest, v)
	case layout.KindRecord:
		s.seeRecord(rest, v)
	case layout.KindPart, layout.KindClient:
		s.seeKey(rest, v)
	case layout.KindTask:
		s.seeTask(rest, v)
	case layout.KindCursor:
		s.seeCursor(rest, v)
	case layout.KindSaid:
		if said, err := layout.CutSaid(rest, v); err != nil || s.head != nil && said.Seq > s.head.Row.Last {
			s.problem(RuleUnknown, key, "what can be found of it is not of its log: event %d", said.Seq)
		}
	case layout.KindSaidTo:
		if to, err := layout.CutSaidTo(v); err != nil || len(rest) != 1 || s.head != nil && to.Through > s.head.Row.Last {
			s.problem(RuleUnknown, key, "it can be searched up to event %d, but its log ends before", to.Through)
		}
	case layout.KindWords:
		if at, ok := layout.CutWordsKey(rest[1:]); !ok || wordblock.Check(v) != nil || s.head != nil && at.Through > s.head.Row.Last {
			s.problem(RuleUnknown, key, "a block of its words cannot be read, or is not of its log")
		} else {
			s.sieved(at, v)
		}
	case layout.KindBlob, layout.KindBlobNamed, layout.KindBlobChunk:
		s.seeBlob(rest, v)
	default:
		s.problem(RuleUnknown, key, "key %x is of no known kind", k)
	}
}

func (s *session) seeHead(rest, v []byte) {
	if s.key.Session.Depth() > 0 {
		s.report.Counts.SubSessions++
	} else {
		s.report.Counts.Sessions++
	}
	h, err := layout.DecodeHead(v)
	if err != nil || len(rest) != 1 {
		s.problem(RuleHead, s.key, "its head cannot be read: %v", err)
		return
	}
	s.head = h
	if h.Row.Epoch == 0 {
		s.problem(RuleHead, s.key, "its head has no epoch")
	}
	if h.Summary != nil {
		if _, err := wire.DecodeSummary(h.Summary); err != nil {
			s.problem(RuleHead, s.key, "its summary cannot be read: %v", err)
		}
	}
	root := s.key.Session.Depth() == 0
	switch _, listed := s.get(layout.KeyActivity(nil, s.key, h.Activity)); {
	case h.Listed && !listed:
		s.problem(RuleActivity, s.key, "its head says that it is listed, but the list of sessions does not have it")
	case root && h.Summary != nil && !h.Listed:
		s.problem(RuleActivity, s.key, "it is not in the list of sessions")
	case h.Listed && h.Latest-h.Activity >= layout.ActivityLag:
		s.problem(RuleActivity, s.key, "the list of sessions has it %d ms before its last activity", h.Latest-h.Activity)
	}
	if !h.Row.WakeAt.IsZero() {
		if _, ok := s.get(layout.KeyDue(nil, s.key, h.Row.WakeAt.UnixMilli())); !ok {
			s.problem(RuleDue, s.key, "it has something to do, but the list of what is due does not have it")
		}
	}
	if claim := h.Row.Claim; claim != nil {
		if _, ok := s.get(layout.KeyClaim(nil, s.key, claim.Since.UnixMilli())); !ok {
			s.problem(RuleClaims, s.key, "task %s may be claimed, but the list of what may be claimed does not have it", claim.Task)
		}
	}
	if !root {
		top := conversation.SessionKey{Tenant: s.key.Tenant, Session: s.key.Session.Root()}
		if _, ok := s.get(layout.KeyHead(nil, top)); !ok {
			s.problem(RuleTree, s.key, "there is no session %s above it", top.Session)
		}
	}
}

func (s *session) seeSnapshot(rest, v []byte) {
	s.report.Counts.Snapshots++
	if s.head == nil {
		return
	}
	if len(rest) != 1 {
		s.problem(RuleUnknown, s.key, "it has a second snapshot")
		return
	}
	if s.head.Row.SnapshotAt > s.head.Row.Last {
		s.problem(RuleSnapshot, s.key, "its snapshot is as of event %d, but its log ends at %d", s.head.Row.SnapshotAt, s.head.Row.Last)
		return
	}
	if s.o.Snapshot == nil {
		return
	}
	at, err := s.o.Snapshot(s.key, v)
	switch {
	case err != nil:
		s.report.UnusedSnapshots++
	case at != s.head.Row.SnapshotAt:
		s.problem(RuleSnapshot, s.key, "its snapshot is as of event %d, but its head says %d", at, s.head.Row.SnapshotAt)
	}
}

func (s *session) seeRecord(rest, v []byte) {
	s.report.Counts.Records++
	if len(rest) != 9 {
		s.problem(RuleUnknown, s.key, "the key of a record cannot be read")
		return
	}
	named := conversation.Seq(binary.BigEndian.Uint64(rest[1:]))
	record, err := wire.DecodeRecord(v)
	if err != nil {
		s.problem(RuleRecords, s.key, "the record that ends with event %d cannot be read: %v", named, err)
		s.next, s.broken = named+1, true
		return
	}
	first, last := record.Events[0].Seq, record.Events[len(record.Events)-1].Seq
	for i, e := range record.Events {
		if e.Seq != first+conversation.Seq(i) {
			s.problem(RuleRecords, s.key, "inside of the record that ends with event %d the events are not in order", named)
			s.broken = true
			break
		}
	}
	switch {
	case last != named:
		s.problem(RuleRecords, s.key, "the record of events %d to %d is stored under %d", first, last, named)
		s.broken = true
	case first > s.next:
		s.problem(RuleRecords, s.key, "events %d to %d are missing", s.next, first-1)
		s.broken = true
	case first < s.next:
		s.problem(RuleRecords, s.key, "events %d to %d are stored twice", first, min(last, s.next-1))
		s.broken = true
	}
	s.next = max(s.next, named+1, last+1)
	s.report.Counts.Events += int64(len(record.Events))
	s.seeAttached(record.Events)
	if s.o.Keys != nil {
		s.bring(s.o.Keys(record.Events))
	}
}

// bring notes the keys of a record's events.
func (s *session) bring(keys []conversation.KeyAt) {
	if len(keys) > 0 && s.owed == nil {
		s.owed, s.brings, s.named = map[string]conversation.Seq{}, map[string]conversation.Seq{}, map[string]conversation.Key{}
	}
	for _, k := range keys {
		at := string(layout.KeyUnique(nil, s.key, k.Key))
		s.owed[at], s.brings[at], s.named[at] = k.Seq, k.Seq, k.Key
	}
}

// seeKey checks the key of a part or of a client's message.
func (s *session) seeKey(rest, v []byte) {
	s.report.Counts.Keys++
	key, ok := layout.CutUnique(rest)
	if !ok {
		s.problem(RuleUnknown, s.key, "key %x of a part or message cannot be read", rest)
		return
	}
	if s.head == nil {
		return
	}
	seq, ok := cutSeq(v)
	if !ok || seq == 0 || seq > s.head.Row.Last {
		s.problem(RuleKeys, s.key, "%s belongs to event %d, but the log has events 1 to %d", key, seq, s.head.Row.Last)
		return
	}
	if s.o.Keys == nil || s.broken {
		return
	}
	at := string(layout.KeyUnique(nil, s.key, key))
	want, ok := s.brings[at]
	switch {
	case !ok:
		s.problem(RuleKeys, s.key, "%s is stored, but no event brought it", key)
	case want != seq:
		s.problem(RuleKeys, s.key, "%s belongs to event %d, but is stored for %d", key, want, seq)
	}
	delete(s.owed, at)
}

func cutSeq(v []byte) (conversation.Seq, bool) {
	if len(v) != 8 {
		return 0, false
	}
	return conversation.Seq(binary.BigEndian.Uint64(v)), true
}

func (s *session) seeTask(rest, v []byte) {
	s.report.Counts.Tasks++
	row, err := wire.DecodeTaskRow(v)
	if err != nil {
		s.problem(RuleTasks, s.key, "the row of a task cannot be read: %v", err)
		return
	}
	if !bytes.Equal(layout.KeyTask(nil, s.key, row.Task), append(layout.SessionPrefix(nil, s.key), rest...)) {
		s.problem(RuleTasks, s.key, "the row of task %s is stored under another task", row.Task)
		return
	}
	if s.head != nil && (row.First > s.head.Row.Last || row.Last > s.head.Row.Last) {
		s.problem(RuleTasks, s.key, "task %s names event %d, but the log ends at %d", row.Task, max(row.First, row.Last), s.head.Row.Last)
	}
	if s.key.Session.Depth() > 0 {
		return
	}
	listed, ok := s.get(layout.KeyTaskTime(nil, s.key.Tenant, row.CreatedAt.UnixMilli(), row.Task))
	if !ok || !bytes.Equal(listed, append([]byte{byte(row.Status)}, s.key.Session...)) {
		s.problem(RuleTasks, s.key, "the list of all tasks does not have task %s as it is", row.Task)
	}
}

func (s *session) seeCursor(rest, v []byte) {
	s.report.Counts.Cursors++
	user, left, ok := layout.CutString(rest[1:])
	cur, fits := layout.CutCursor(v)
	switch {
	case !ok || !fits || len(left) > 0:
		s.problem(RuleUnknown, s.key, "the cursor of a reader cannot be read")
	case s.head != nil && cur.Seq > s.head.Row.Last:
		s.problem(RuleCursors, s.key, "%q has read up to event %d, but the log ends at %d", user, cur.Seq, s.head.Row.Last)
	}
}

// end checks what can be said once all keys of a session were seen.
func (s *session) end() {
	if !s.begun || s.head == nil {
		return
	}
	if last := s.head.Row.Last; s.next != last+1 {
		s.problem(RuleRecords, s.key, "its records end at event %d, its head at %d", s.next-1, last)
		return
	}
	if s.broken {
		return
	}
	if s.head.Row.SnapshotAt > 0 {
		if _, ok := s.get(layout.KeySnapshot(nil, s.key)); !ok {
			s.problem(RuleSnapshot, s.key, "its head names a snapshot, but there is none")
		}
	}
	for _, at := range slices.Sorted(maps.Keys(s.owed)) {
		s.problem(RuleKeys, s.key, "event %d brought %s, but the key is not stored", s.owed[at], s.named[at])
	}
}
