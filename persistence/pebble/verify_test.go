package pebble

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
	check "parley/persistence/pebble/internal/verify"
)

// whole fails if the parts of a store contradict each other. The keys of the
// crash tests' commits are those of their events; other tests take what they like.
func whole(db *DB, keys bool) error {
	how := VerifyHow{Snapshot: func(conversation.SessionKey, []byte) (conversation.Seq, error) {
		return 0, errors.New("not the machine's")
	}}
	if keys {
		how.Keys = conversation.Keys
	}
	report, err := db.Verify(context.Background(), how)
	if err != nil {
		return err
	}
	var errs []error
	for _, p := range report.Problems {
		// Tests make sub-sessions without roots. Keys, rows and cursors that name
		// events which are not there are the caller's fault, not the store's.
		foreign := strings.Contains(p.Sentence, "but the log ends at") || p.Rule == check.RuleKeys
		if p.Rule != check.RuleTree && (keys || !foreign) {
			errs = append(errs, errors.New(p.String()))
		}
	}
	return errors.Join(errs...)
}

// clean checks a store of a test before it is closed.
func clean(t *testing.T, db *DB) *DB {
	t.Cleanup(func() {
		if err := whole(db, false); err != nil && !errors.Is(err, conversation.ErrClosed) {
			t.Errorf("the store contradicts itself:\n%v", err)
		}
	})
	return db
}

// verified is a small store with one of everything: a root session with a legacy
// part key, a sub-session, a snapshot, a reader, and a session that was erased.
func verified(t *testing.T) *DB {
	t.Helper()
	db := openMem(t, vfs.NewMem(), testOptions(t))
	ctx := t.Context()
	for _, s := range []int{0, 2, 3, 4} { // 3 is a delegation of 2
		k := crashKey(s)
		h, err := db.Acquire(ctx, k, conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		for range 5 {
			c := crashCommit(k, h.Epoch, h.Last)
			c.Events = append(c.Events, conversation.Event{Seq: following(h.Last) + 1, At: crashTime0(h.Last), Body: conversation.MessageAccepted{
				Message: "m", Author: "alice", ClientMsgID: conversation.ClientMsgID(fmt.Sprint("c", h.Last)),
			}})
			c.Keys = conversation.Keys(c.Events)
			if c.Snapshot != nil {
				c.Snapshot = fmt.Appendf(nil, "%s#%d", k.Session, following(h.Last)+1)
			}
			if err := db.Commit(ctx, k, c); err != nil {
				t.Fatal(err)
			}
			h.Last = c.Events[len(c.Events)-1].Seq
		}
	}
	if err := db.Delete(ctx, crashKey(4)); err != nil {
		t.Fatal(err)
	}
	legacy := conversation.Key{Source: "n", Part: 1}
	return withoutPartIndex(t, db, crashKey(0), legacy)
}

// withoutPartIndex stores a part as it was before parts had an index: as event 1
// under its source alone.
func withoutPartIndex(t *testing.T, db *DB, k conversation.SessionKey, was conversation.Key) *DB {
	t.Helper()
	e := conversation.Event{Seq: 1, At: crashTime0(1), Body: conversation.PartialResponse{Part: conversation.Part{Message: "p1", Source: "old"}}}
	err := errors.Join(
		db.p.Delete(layout.KeyUnique(nil, k, was), pebble.Sync),
		db.p.Set(layout.KeyLegacyPart(nil, k, "old"), layout.AppendU64(nil, 1), pebble.Sync),
		db.p.Set(layout.KeyRecord(nil, k, 1), wire.AppendRecord(nil, conversation.Record{ID: "old", Events: []conversation.Event{e}}), pebble.Sync),
	)
	if err != nil {
		t.Fatal(err)
	}
	// The first record held events 1 and 2 and a message: it begins with 2 now.
	record := layout.KeyRecord(nil, k, 2)
	v, closer, err := db.p.Get(record)
	if err != nil {
		t.Fatal(err)
	}
	r, err := wire.DecodeRecord(v)
	if err != nil {
		t.Fatal(err)
	}
	_ = closer.Close()
	r.Events = r.Events[1:]
	if err := db.p.Set(record, wire.AppendRecord(nil, r), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	return db
}

var snapshotOfTest = func(_ conversation.SessionKey, b []byte) (conversation.Seq, error) {
	var seq conversation.Seq
	_, at, _ := strings.Cut(string(b), "#")
	_, err := fmt.Sscan(at, &seq)
	return seq, err
}

// One damage for each thing that a store may not contradict itself in: it is
// found, under its rule, and the sentence names the session.
func TestVerifyFindsDamage(t *testing.T) {
	root, sub, gone := crashKey(2), crashKey(3), crashKey(4)
	set := func(k, v []byte) func(*DB) error { return func(db *DB) error { return db.p.Set(k, v, pebble.Sync) } }
	drop := func(k []byte) func(*DB) error { return func(db *DB) error { return db.p.Delete(k, pebble.Sync) } }
	head := func(k conversation.SessionKey, change func(*layout.Head)) func(*DB) error {
		return func(db *DB) error {
			h, err := loadHead(db.p, k)
			if err != nil {
				return err
			}
			change(h)
			return db.p.Set(layout.KeyHead(nil, k), layout.AppendHead(nil, h, wire.AppendHead(nil, h.Row)), pebble.Sync)
		}
	}
	record := func(k conversation.SessionKey, last conversation.Seq, change func(*conversation.Record)) func(*DB) error {
		return func(db *DB) error {
			v, closer, err := db.p.Get(layout.KeyRecord(nil, k, last))
			if err != nil {
				return err
			}
			r, err := wire.DecodeRecord(v)
			if err := errors.Join(err, closer.Close()); err != nil {
				return err
			}
			change(&r)
			return db.p.Set(layout.KeyRecord(nil, k, last), wire.AppendRecord(nil, r), pebble.Sync)
		}
	}
	row := func(k conversation.SessionKey, change func(*conversation.TaskRow)) func(*DB) error {
		return func(db *DB) error {
			r, err := taskRow(db.p, k, crashTask(k, 1))
			if err != nil {
				return err
			}
			at := layout.KeyTask(nil, k, r.Task)
			change(&r)
			return db.p.Set(at, wire.AppendTaskRow(nil, r), pebble.Sync)
		}
	}
	seq := func(n uint64) []byte { return layout.AppendU64(nil, n) }
	part := conversation.Key{Source: "n", Part: 1}
	later := crashTime0(99).UnixMilli()
	for _, c := range []struct {
		name   string
		rule   check.Rule
		damage func(*DB) error
		says   string
	}{
		{"no damage", "", func(*DB) error { return nil }, ""},
		{"head gone", check.RuleHead, drop(layout.KeyHead(nil, root)), "session acme/s2: it has keys, but no head"},
		{"head unreadable", check.RuleHead, set(layout.KeyHead(nil, root), []byte{1}), "its head cannot be read"},
		{"head without epoch", check.RuleHead, head(root, func(h *layout.Head) { h.Row.Epoch = 0 }), "no epoch"},
		{"summary unreadable", check.RuleHead, head(root, func(h *layout.Head) { h.Summary = []byte{0xff} }), "summary"},
		{"first record gone", check.RuleRecords, drop(layout.KeyRecord(nil, root, 2)), "events 1 to 2 are missing"},
		{"last record gone", check.RuleRecords, drop(layout.KeyRecord(nil, root, lastOfTest)), "its records end at"},
		{"record too many", check.RuleRecords, set(layout.KeyRecord(nil, root, 99), wire.AppendRecord(nil, conversation.Record{ID: "x", Events: []conversation.Event{{Seq: 99, At: crashTime0(1), Body: conversation.SessionClosed{}}}})), "are missing"},
		{"record unreadable", check.RuleRecords, set(layout.KeyRecord(nil, root, 2), []byte{1, 2, 3}), "ends with event 2 cannot be read"},
		{"record twice", check.RuleRecords, set(layout.KeyRecord(nil, root, 1), wire.AppendRecord(nil, conversation.Record{ID: "x", Events: []conversation.Event{{Seq: 1, At: crashTime0(1), Body: conversation.SessionClosed{}}}})), "events 1 to 1 are stored twice"},
		{"record under another seq", check.RuleRecords, record(root, 2, func(r *conversation.Record) { r.Events = r.Events[:1] }), "stored under 2"},
		{"events out of order", check.RuleRecords, record(root, 2, func(r *conversation.Record) { r.Events[0].Seq = 7 }), "not in order"},
		{"part key gone", check.RuleKeys, drop(layout.KeyUnique(nil, root, part)), "event 1 brought part (n, 1)"},
		{"client key gone", check.RuleKeys, drop(layout.KeyUnique(nil, root, conversation.Key{Author: "alice", Client: "c0"})), "event 2 brought message (alice, c0)"},
		{"legacy part key gone", check.RuleKeys, drop(layout.KeyLegacyPart(nil, crashKey(0), "old")), "event 1 brought part (old, 0)"},
		{"part key of another event", check.RuleKeys, set(layout.KeyUnique(nil, root, part), seq(2)), "belongs to event 1, but is stored for 2"},
		{"part key of no event", check.RuleKeys, set(layout.KeyUnique(nil, root, conversation.Key{Source: "x"}), seq(1)), "no event brought it"},
		{"part key beyond the log", check.RuleKeys, set(layout.KeyUnique(nil, root, part), seq(999)), "belongs to event 999"},
		{"snapshot of the future", check.RuleSnapshot, head(root, func(h *layout.Head) { h.Row.SnapshotAt = h.Row.Last + 1 }), "its log ends at"},
		{"snapshot of another event", check.RuleSnapshot, set(layout.KeySnapshot(nil, root), []byte("s2#1")), "as of event 1"},
		{"snapshot gone", check.RuleSnapshot, drop(layout.KeySnapshot(nil, root)), "there is none"},
		{"task row gone", check.RuleTasks, drop(layout.KeyTask(nil, root, crashTask(root, 1))), "the session has no such row"},
		{"task row unreadable", check.RuleTasks, set(layout.KeyTask(nil, root, crashTask(root, 1)), []byte{1, 2}), "cannot be read"},
		{"task row of another task", check.RuleTasks, row(root, func(r *conversation.TaskRow) { r.Task = "t9-s2" }), "under another task"},
		{"task row beyond the log", check.RuleTasks, row(root, func(r *conversation.TaskRow) { r.Last = 999 }), "names event 999"},
		{"task row with another status", check.RuleTasks, row(root, func(r *conversation.TaskRow) { r.Status = conversation.TaskComplete }), "does not have task"},
		{"task not listed", check.RuleTasks, drop(layout.KeyTaskTime(nil, "acme", crashTime0(1).UnixMilli(), crashTask(root, 1))), "does not have task"},
		{"task listed that is not there", check.RuleTasks, set(layout.KeyTaskTime(nil, "acme", 5, "t1-s9"), []byte("\x02s9")), "the session has no such row"},
		{"session not listed", check.RuleActivity, head(root, func(h *layout.Head) { h.Listed = false }), "it is not in the list"},
		{"list entry gone", check.RuleActivity, func(db *DB) error {
			h, err := loadHead(db.p, root)
			return errors.Join(err, db.p.Delete(layout.KeyActivity(nil, root, h.Activity), pebble.Sync))
		}, "the list of sessions does not have it"},
		{"listed twice", check.RuleActivity, set(layout.KeyActivity(nil, root, later), nil), "at a place that its head does not name"},
		{"listed, but not there", check.RuleActivity, set(layout.KeyActivity(nil, gone, later), nil), "at a place"},
		{"not due", check.RuleDue, func(db *DB) error {
			h, err := loadHead(db.p, root)
			return errors.Join(err, db.p.Delete(layout.KeyDue(nil, root, h.Row.WakeAt.UnixMilli()), pebble.Sync))
		}, "it has something to do"},
		{"due twice", check.RuleDue, set(layout.KeyDue(nil, root, later), nil), "at a time"},
		{"claimable, not listed", check.RuleClaims, head(root, func(h *layout.Head) {
			h.Row.Claim = &conversation.Claimable{Task: "t1-s2", Agent: "outside", Since: crashTime0(3)}
		}), "task t1-s2 may be claimed"},
		{"listed, not claimable", check.RuleClaims, set(layout.KeyClaim(nil, root, later), nil), "at a time"},
		{"listed, but not there, as claimable", check.RuleClaims, set(layout.KeyClaim(nil, gone, later), nil), "at a time"},
		{"claim unreadable", check.RuleUnknown, set([]byte{layout.TableClaims, 1}, nil), "of what may be claimed"},
		{"read too far", check.RuleCursors, set(layout.KeyCursor(nil, root, "bob"), seq(999)), `"bob" has read up to event 999`},
		{"root gone", check.RuleTree, func(db *DB) error {
			prefix := layout.SessionPrefix(nil, root)
			return db.p.DeleteRange(prefix, layout.After(prefix), pebble.Sync)
		}, "session acme/s2/d1: there is no session s2 above it"},
		{"erased, but not gone", check.RuleTombstones, set(layout.KeyCursor(nil, gone, "bob"), seq(0)), "session acme/s4: it was erased"},
		{"sub-session of an erased one", check.RuleTombstones, set(layout.KeyTombstone(nil, root), seq(9)), "are left"},
		{"tombstone unreadable", check.RuleUnknown, set(layout.KeyTombstone(nil, gone), nil), "tombstone"},
		{"cleared, but not erased", check.RuleTombstones, set(layout.KeyUncleared(nil, root), nil), "it was not erased"},
		{"erased session unreadable", check.RuleUnknown, set([]byte{layout.TableUncleared, 1}, nil), "of the erased sessions"},
		{"unknown table", check.RuleUnknown, set([]byte{0x99, 1}, nil), "belongs to no table"},
		{"unknown kind", check.RuleUnknown, set(append(layout.SessionPrefix(nil, sub), 0x77), nil), "of no known kind"},
		{"unknown key of the store", check.RuleUnknown, set([]byte("\x00nonsense"), nil), "belongs to nothing"},
		{"part key unreadable", check.RuleUnknown, set(append(layout.SessionPrefix(nil, root), layout.KindPart, 'x'), seq(1)), "cannot be read"},
		{"cursor unreadable", check.RuleUnknown, set(layout.KeyCursor(nil, root, "bob"), []byte{1}), "the cursor"},
	} {
		t.Run(c.name, func(t *testing.T) {
			db := verified(t)
			if err := c.damage(db); err != nil {
				t.Fatal(err)
			}
			report, err := db.Verify(t.Context(), VerifyHow{Keys: conversation.Keys, Snapshot: snapshotOfTest, Limit: 1000})
			if err != nil {
				t.Fatal(err)
			}
			if c.rule == "" {
				if report.All() > 0 {
					t.Errorf("problems of a store without damage: %v", report.Problems)
				}
				t.Logf("%+v", report.Counts)
				return
			}
			if !slices.ContainsFunc(report.Problems, func(p check.Problem) bool { return p.Rule == c.rule && strings.Contains(p.String(), c.says) }) {
				t.Errorf("no problem of the rule %s says %q; found: %v", c.rule, c.says, report.Problems)
			}
		})
	}
}

// lastOfTest is the last event of each session of verified.
const lastOfTest = 14

// A flipped bit in a table is found by its checksum.
func TestVerifyReadsEveryBlock(t *testing.T) {
	fs := filledStore(t, 300, true)
	flip(t, fs, ".sst", func(size int) int { return size / 3 })
	db, err := openReadOnlyOn(fs, "store", testOptions(t))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close() }()
	report, err := db.Verify(t.Context(), VerifyHow{Limit: 3})
	if err != nil || report.All() == 0 || report.Problems[0].Rule != check.RuleLevels {
		t.Errorf("%v, %v", report.Problems, err)
	}
	if n := len(report.Problems); n > 3 || strings.Contains(report.Problems[0].Sentence, "\n") {
		t.Errorf("%d problems, the first %q", n, report.Problems[0])
	}
	if _, err := check.Count(t.Context(), db.p, nil); err == nil {
		t.Error("a damaged table was counted without a word")
	}
}
