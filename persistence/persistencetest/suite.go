package persistencetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/listing"
)

// Run proves a store. open makes an empty one for each sub-test and closes it
// with t.Cleanup. A store that also has
//
//	PutLegacyPart(conversation.SessionKey, conversation.SourceID, conversation.Seq) error
//
// is proved to read part keys from before parts had an index. One that has
//
//	FailReads(conversation.SessionKey, error)
//
// which has everything that is read of a session fail (the error is a hint: a disk
// has its own), until it is called with nil, is proved to know that a commit which
// could not read was not written.
func Run(t *testing.T, open func(t *testing.T) conversation.Store) {
	for _, c := range []struct {
		name string
		run  func(*fixture)
	}{
		{"acquire raises the epoch", acquireRaisesTheEpoch},
		{"N-10 an old writer is fenced", oldWriterIsFenced},
		{"acquire on terms", acquireOnTerms},
		{"the expected sequence", expectedSequence},
		{"N-02 an unknown outcome is resolved by the commit id", unknownOutcome},
		{"a commit that cannot read writes nothing", unreadCommit},
		{"M-10 M-18 a stored key fails the whole commit", duplicates},
		{"M-11 M-13 other parts and other authors are other keys", distinctKeys},
		{"M-12 a part key without an index is part 0", legacyParts},
		{"records by range", recordRanges},
		{"a long log", longLog},
		{"snapshots", snapshots},
		{"commits without events", commitsWithoutEvents},
		{"what is due", due},
		{"N-17 what outside runtimes may claim", claims},
		{"sessions, newest activity first", sessionsByActivity},
		{"sessions in pages", sessionPages},
		{"sessions, oldest first", sessionsOldestFirst},
		{"read cursors never move back", cursors},
		{"marks are each reader's own", marks},
		{"a list of one session", onlyOne},
		{"summaries", summaries},
		{"task rows", taskRows},
		{"task rows in pages", taskPages},
		{"M-25 tenants never meet", tenants},
		{"erase leaves a tombstone", erase},
		{"the name of an erased session is free", eraseAndRenew},
		{"erase takes the sub-sessions along", eraseTree},
		{"a cursor of somewhere else", badCursors},
		{"a context that has ended", endedContext},
		{"a closed store", closedStore},
		{"the log's id", logID},
		{"N-10 activations that steal a session from each other", steal},
		{"readers beside writers", readersBesideWriters},
		{"told: sessions at once", manyAtOnce},
		{"told: what is refused", toldRefusals},
		{"told: a store that closes", toldWhileClosing},
		{"told: readers see what is durable", toldReaders},
		{"which keys may be held", mayHold},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := open(t)
			c.run(&fixture{T: t, Store: s, opened: s, ctx: t.Context()})
		})
		if strings.HasPrefix(c.name, "told: ") {
			continue
		}
		t.Run("told: "+c.name, func(t *testing.T) {
			s := open(t)
			c.run(&fixture{T: t, Store: told{s}, opened: s, ctx: t.Context()})
		})
	}
}

// told is a store whose commits all go the way that tells: for a caller both are the same.
type told struct{ conversation.Store }

func (s told) Commit(ctx context.Context, key conversation.SessionKey, c conversation.Commit) error {
	end := make(chan error, 1)
	s.CommitAsync(ctx, key, &c, func(err error) { end <- err })
	return <-end
}

// fixture is a store with short words for what the tests do to it.
type fixture struct {
	*testing.T
	conversation.Store
	opened conversation.Store // as the caller of Run opened it
	ctx    context.Context
}

// Short names, so that a test reads as a story.
const (
	tenant = conversation.TenantID("acme")
	alice  = conversation.UserID("alice")
	bob    = conversation.UserID("bob")
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time { return noon.Add(time.Duration(seconds * float64(time.Second))) }

func key(id string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: tenant, Session: conversation.SessionID(id)}
}

// said makes n events that follow last.
func said(last conversation.Seq, n int) []conversation.Event {
	events := make([]conversation.Event, n)
	for i := range events {
		seq := last + conversation.Seq(i) + 1
		events[i] = conversation.Event{Seq: seq, At: noon.Add(time.Duration(seq) * time.Millisecond), Body: conversation.MessageAccepted{
			Message: conversation.MessageID(fmt.Sprintf("m%d-s", seq)), ClientMsgID: conversation.ClientMsgID(fmt.Sprintf("c%d", seq)),
			Author: alice, Text: fmt.Sprintf("text %d", seq), Disposition: conversation.Joined, Via: conversation.ViaHTTP,
		}}
	}
	return events
}

func summary(activity time.Time) conversation.Summary {
	return conversation.Summary{Title: "Title", Agent: "coordinator", Owner: alice, CreatedAt: noon, Activity: activity}
}

func part(source string, index int, seq conversation.Seq) conversation.KeyAt {
	return conversation.KeyAt{Key: conversation.Key{Source: conversation.SourceID(source), Part: conversation.PartIndex(index)}, Seq: seq}
}

func client(author conversation.UserID, id string, seq conversation.Seq) conversation.KeyAt {
	return conversation.KeyAt{Key: conversation.Key{Author: author, Client: conversation.ClientMsgID(id)}, Seq: seq}
}

func (f *fixture) acquire(k conversation.SessionKey) conversation.Head {
	f.Helper()
	h, err := f.Acquire(f.ctx, k, conversation.AcquireHow{Create: true})
	if err != nil {
		f.Fatalf("acquire %s: %v", k, err)
	}
	return h
}

// commit writes n more events with whatever change adds.
func (f *fixture) commit(k conversation.SessionKey, h *conversation.Head, n int, change func(*conversation.Commit)) {
	f.Helper()
	if err := f.try(k, h, n, change); err != nil {
		f.Fatalf("commit to %s after %d: %v", k, h.Last, err)
	}
}

func (f *fixture) try(k conversation.SessionKey, h *conversation.Head, n int, change func(*conversation.Commit)) error {
	c := conversation.Commit{
		Epoch: h.Epoch, After: h.Last, ID: conversation.CommitID(fmt.Sprintf("commit-%d-%d", h.Epoch, h.Last)),
		Events: said(h.Last, n), Summary: summary(noon),
	}
	if change != nil {
		change(&c)
	}
	err := f.Commit(f.ctx, k, c)
	if err == nil {
		h.Last += conversation.Seq(n)
		h.LastCommit = c.ID
	}
	return err
}

func (f *fixture) want(err, target error, what string) {
	f.Helper()
	if !errors.Is(err, target) {
		f.Errorf("%s: got error %v, want %v", what, err, target)
	}
}

func (f *fixture) head(k conversation.SessionKey) conversation.Head {
	f.Helper()
	h, err := f.Head(f.ctx, k)
	if err != nil {
		f.Fatalf("head of %s: %v", k, err)
	}
	return h
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatalf("after %d items: %v", len(all), err)
		}
		all = append(all, v)
	}
	return all
}

func failure[T any](seq iter.Seq2[T, error]) error {
	for _, err := range seq {
		if err != nil {
			return err
		}
	}
	return nil
}

// spans shows records as "1-3 4-4".
func (f *fixture) spans(k conversation.SessionKey, r conversation.Range) string {
	f.Helper()
	var out []string
	for _, rec := range collect(f, f.Records(f.ctx, k, r)) {
		out = append(out, fmt.Sprintf("%d-%d", rec.Events[0].Seq, rec.Events[len(rec.Events)-1].Seq))
	}
	return strings.Join(out, " ")
}

func (f *fixture) ids(p conversation.Page) string {
	f.Helper()
	var out []string
	for _, s := range collect(f, f.Sessions(f.ctx, p)) {
		out = append(out, string(s.Key.Session))
	}
	return strings.Join(out, " ")
}

func (f *fixture) dueIDs(until time.Time) string {
	f.Helper()
	var out []string
	for _, k := range collect(f, f.Due(f.ctx, until, conversation.Member{})) {
		out = append(out, string(k.Session))
	}
	return strings.Join(out, " ")
}

func (f *fixture) taskIDs(filter conversation.TaskFilter) string {
	f.Helper()
	var out []string
	for _, r := range collect(f, f.Tasks(f.ctx, filter)) {
		out = append(out, string(r.Task))
	}
	return strings.Join(out, " ")
}

func (f *fixture) equal(got, want any, what string) {
	f.Helper()
	if !reflect.DeepEqual(got, want) {
		f.Errorf("%s:\n got %+v\nwant %+v", what, got, want)
	}
}

func acquireRaisesTheEpoch(f *fixture) {
	k := key("s1")
	_, err := f.Head(f.ctx, k)
	f.want(err, conversation.ErrNotFound, "head of an absent session")
	_, err = f.Acquire(f.ctx, k, conversation.AcquireHow{})
	f.want(err, conversation.ErrNotFound, "acquire of an absent session")

	first := f.acquire(k)
	f.equal(first, conversation.Head{Epoch: 1}, "a new head")
	second := f.acquire(k)
	f.equal(second, conversation.Head{Epoch: 2}, "the head of the second activation")
	f.commit(k, &second, 3, nil)
	third, err := f.Acquire(f.ctx, k, conversation.AcquireHow{})
	if err != nil {
		f.Fatal(err)
	}
	f.equal(third, conversation.Head{Epoch: 3, Last: 3, LastCommit: second.LastCommit}, "the head of the third")
	f.equal(f.head(k), third, "Head")
}

func oldWriterIsFenced(f *fixture) {
	for name, lazy := range map[string]bool{"at once": false, "lazily": true} {
		k := key("s1" + name[:1])
		old := f.acquire(k)
		f.commit(k, &old, 1, nil)
		now, err := f.Acquire(f.ctx, k, conversation.AcquireHow{Lazy: lazy})
		if err != nil {
			f.Fatal(err)
		}
		f.equal(f.head(k), now, "Head, acquired "+name)
		f.fencedBy(k, old, now)
	}
}

// fencedBy has the writer of before and the one of now commit.
func (f *fixture) fencedBy(k conversation.SessionKey, old, now conversation.Head) {
	f.Helper()
	f.want(f.try(k, &old, 1, nil), conversation.ErrFenced, "commit of the old writer")
	f.want(f.try(k, &conversation.Head{Epoch: now.Epoch + 1, Last: 1}, 1, nil), conversation.ErrFenced, "commit with an epoch of the future")
	f.want(f.try(key("never"), &conversation.Head{Epoch: 1}, 1, nil), conversation.ErrFenced, "commit to a session that nobody acquired")
	f.commit(k, &now, 1, nil)
	f.equal(f.spans(k, conversation.Range{}), "1-1 2-2", "records")
}

func acquireOnTerms(f *fixture) {
	k := key("s1")
	_, err := f.Acquire(f.ctx, k, conversation.AcquireHow{Create: true, IfEpoch: 1})
	f.want(err, conversation.ErrNotFound, "acquire of an absent session with an epoch")
	h := f.acquire(k)
	again, err := f.Acquire(f.ctx, k, conversation.AcquireHow{IfEpoch: h.Epoch})
	if err != nil || again.Epoch != h.Epoch+1 {
		f.Fatalf("acquire with the epoch: %+v, %v", again, err)
	}
	_, err = f.Acquire(f.ctx, k, conversation.AcquireHow{IfEpoch: h.Epoch})
	f.want(err, conversation.ErrFenced, "acquire with an old epoch")
	f.equal(f.head(k).Epoch, again.Epoch, "a refused acquisition changes nothing: the epoch")
}

func expectedSequence(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.commit(k, &h, 2, nil)
	for _, after := range []conversation.Seq{0, 1, 3} {
		f.want(f.try(k, &conversation.Head{Epoch: h.Epoch, Last: after}, 1, nil), conversation.ErrConflict, fmt.Sprintf("commit after %d", after))
	}
	f.want(f.try(k, &h, 2, func(c *conversation.Commit) { c.Events[1].Seq = 5 }), conversation.ErrConflict, "a commit with a gap inside")
	f.want(f.try(k, &h, 1, func(c *conversation.Commit) { c.Events[0].Seq = 2 }), conversation.ErrConflict, "a commit whose events do not follow")
	f.equal(f.head(k).Last, conversation.Seq(2), "last seq")
	f.commit(k, &h, 1, nil)
	f.equal(f.spans(k, conversation.Range{}), "1-2 3-3", "records")
}

// unknownOutcome plays both endings of a commit whose answer was lost.
func unknownOutcome(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.commit(k, &h, 1, nil)
	epoch, id := h.Epoch, conversation.CommitID("lost")

	// It was not written: the head has another id, the same After still fits.
	h, err := f.Acquire(f.ctx, k, conversation.AcquireHow{IfEpoch: epoch})
	if err != nil || h.LastCommit == id {
		f.Fatalf("head %+v, %v", h, err)
	}
	named := func(c *conversation.Commit) {
		c.ID = id
		c.Keys = []conversation.KeyAt{part("n1", 0, 2)}
	}
	f.commit(k, &h, 1, named)

	// It was: the head has its id, and repeating it would be a conflict.
	again, err := f.Acquire(f.ctx, k, conversation.AcquireHow{IfEpoch: h.Epoch})
	if err != nil || again.LastCommit != id || again.Last != 2 {
		f.Fatalf("head %+v, %v", again, err)
	}
	f.want(f.try(k, &conversation.Head{Epoch: again.Epoch, Last: 1}, 1, named), conversation.ErrConflict, "the repeated commit")
	f.equal(f.spans(k, conversation.Range{}), "1-1 2-2", "records")
}

// unreadCommit has the reads fail that a commit makes before it writes.
func unreadCommit(f *fixture) {
	sick, ok := f.opened.(interface {
		FailReads(key conversation.SessionKey, err error)
	})
	if !ok {
		f.Skip("this store has no FailReads")
	}
	k := key("s1")
	h := f.acquire(k)
	keyed := func(source string, seq conversation.Seq) func(*conversation.Commit) {
		return func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{part(source, 0, seq)} }
	}
	f.commit(k, &h, 1, keyed("n1", 1))
	sick.FailReads(k, conversation.ErrUnread)
	f.want(f.try(k, &h, 1, keyed("n2", 2)), conversation.ErrUnread, "a commit that cannot read")
	sick.FailReads(k, nil)
	f.commit(k, &h, 1, keyed("n2", 2))
	f.equal(f.spans(k, conversation.Range{}), "1-1 2-2", "records")
}

func duplicates(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.commit(k, &h, 3, func(c *conversation.Commit) {
		c.Keys = []conversation.KeyAt{client(alice, "c1", 1), part("n1", 0, 2), part("n1", 1, 3)}
	})
	before := f.head(k)
	refused := func(what string, keys []conversation.KeyAt, wantKey conversation.Key, wantSeq conversation.Seq) {
		f.Helper()
		err := f.try(k, &h, 1, func(c *conversation.Commit) {
			c.Keys, c.Snapshot, c.WakeAt = keys, []byte("no"), at(1)
			c.Cursors = []conversation.Cursor{{User: alice, Seq: 9}}
			c.Tasks = []conversation.TaskRow{{Task: "t9-s1", Status: conversation.TaskQueued, CreatedAt: noon}}
			c.Summary.Title = "No"
		})
		var dup *conversation.DuplicateError
		if !errors.As(err, &dup) {
			f.Fatalf("%s: got error %v, want a *DuplicateError", what, err)
		}
		f.equal(*dup, conversation.DuplicateError{Key: wantKey, Seq: wantSeq}, what)
	}
	refused("a part again", []conversation.KeyAt{part("n2", 0, 4), part("n1", 1, 4)}, part("n1", 1, 0).Key, 3)
	refused("a client id again", []conversation.KeyAt{client(alice, "c1", 4)}, client(alice, "c1", 0).Key, 1)
	refused("a key twice in one commit", []conversation.KeyAt{part("n3", 0, 4), part("n3", 0, 5)}, part("n3", 0, 0).Key, 4)

	f.equal(f.head(k), before, "the head after refused commits")
	f.equal(f.spans(k, conversation.Range{}), "1-3", "records")
	f.equal(f.dueIDs(at(100)), "", "due")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant}), "", "tasks")
	if s, err := f.Summary(f.ctx, k); err != nil || s.Title != "Title" {
		f.Errorf("summary %+v, %v", s, err)
	}
	seqs, err := f.Find(f.ctx, k, []conversation.Key{part("n2", 0, 0).Key, part("n3", 0, 0).Key, part("n1", 0, 0).Key, client(alice, "c1", 0).Key})
	if err != nil {
		f.Fatal(err)
	}
	f.equal(seqs, []conversation.Seq{0, 0, 2, 1}, "found keys")

	// M-18: what was missing can be completed.
	f.commit(k, &h, 1, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{part("n1", 2, 4)} })
	seqs, _ = f.Find(f.ctx, k, []conversation.Key{part("n1", 2, 0).Key})
	f.equal(seqs, []conversation.Seq{4}, "the completed part")
}

func distinctKeys(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	keys := []conversation.KeyAt{
		part("n1", 0, 1), part("n1", 1, 2), part("n1", 256, 3), part("n", 0, 4), part("n1\x00", 0, 5), part("n1\x00\x01", 0, 6),
		client(alice, "n1", 7), client(bob, "n1", 8), client("alicen", "1", 9), client("alice\x00", "n1", 10),
	}
	f.commit(k, &h, len(keys), func(c *conversation.Commit) { c.Keys = keys })
	var ask []conversation.Key
	var want []conversation.Seq
	for _, kk := range keys {
		ask, want = append(ask, kk.Key), append(want, kk.Seq)
	}
	ask, want = append(ask, part("n1", 2, 0).Key, client(bob, "c9", 0).Key, client("", "n1", 0).Key), append(want, 0, 0, 0)
	got, err := f.Find(f.ctx, k, ask)
	if err != nil {
		f.Fatal(err)
	}
	f.equal(got, want, "found keys")

	other := key("s2") // the same keys in another session
	h2 := f.acquire(other)
	f.commit(other, &h2, len(keys), func(c *conversation.Commit) { c.Keys = keys })
	got, err = f.Find(f.ctx, key("absent"), ask[:2])
	if err != nil {
		f.Fatal(err)
	}
	f.equal(got, []conversation.Seq{0, 0}, "keys of an absent session")
}

func legacyParts(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.commit(k, &h, 2, func(c *conversation.Commit) {
		c.Keys = []conversation.KeyAt{{Key: conversation.Key{Source: "n0"}, Seq: 1}} // M-13: no index given
	})
	seqs, err := f.Find(f.ctx, k, []conversation.Key{part("n0", 0, 0).Key})
	if err != nil {
		f.Fatal(err)
	}
	f.equal(seqs, []conversation.Seq{1}, "a key stored without an index, found with index 0")

	old, ok := f.opened.(interface {
		PutLegacyPart(conversation.SessionKey, conversation.SourceID, conversation.Seq) error
	})
	if !ok {
		return // a store that was born with part indexes has no old keys
	}
	if err := old.PutLegacyPart(k, "old", 2); err != nil {
		f.Fatal(err)
	}
	seqs, err = f.Find(f.ctx, k, []conversation.Key{part("old", 0, 0).Key, part("old", 1, 0).Key})
	if err != nil {
		f.Fatal(err)
	}
	f.equal(seqs, []conversation.Seq{2, 0}, "an old key: the read path")
	var dup *conversation.DuplicateError
	err = f.try(k, &h, 1, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{part("old", 0, 3)} })
	if !errors.As(err, &dup) || dup.Seq != 2 {
		f.Errorf("an old key: the write path: %v", err)
	}
	f.commit(k, &h, 1, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{part("old", 1, 3)} })
}

func recordRanges(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	for _, n := range []int{1, 3, 1, 4, 2} { // 1-1 2-4 5-5 6-9 10-11
		f.commit(k, &h, n, nil)
	}
	for _, c := range []struct {
		r    conversation.Range
		want string
	}{
		{conversation.Range{}, "1-1 2-4 5-5 6-9 10-11"},
		{conversation.Range{Limit: 2}, "1-1 2-4"},
		{conversation.Range{After: 1}, "2-4 5-5 6-9 10-11"},
		{conversation.Range{After: 2}, "2-4 5-5 6-9 10-11"},
		{conversation.Range{After: 4}, "5-5 6-9 10-11"},
		{conversation.Range{After: 10}, "10-11"},
		{conversation.Range{After: 11}, ""},
		{conversation.Range{After: 99}, ""},
		{conversation.Range{Before: 1}, ""},
		{conversation.Range{Before: 2}, "1-1"},
		{conversation.Range{Before: 3}, "1-1 2-4"},
		{conversation.Range{Before: 6}, "1-1 2-4 5-5"},
		{conversation.Range{Before: 99}, "1-1 2-4 5-5 6-9 10-11"},
		{conversation.Range{After: 6, Before: 8}, "6-9"},
		{conversation.Range{After: 7, Before: 8}, ""},
		{conversation.Range{After: 8, Before: 3}, ""},
		{conversation.Range{Reverse: true}, "10-11 6-9 5-5 2-4 1-1"},
		{conversation.Range{Reverse: true, Limit: 2}, "10-11 6-9"},
		{conversation.Range{Reverse: true, Before: 11}, "10-11 6-9 5-5 2-4 1-1"},
		{conversation.Range{Reverse: true, Before: 10}, "6-9 5-5 2-4 1-1"},
		{conversation.Range{Reverse: true, Before: 8, Limit: 1}, "6-9"},
		{conversation.Range{Reverse: true, After: 3}, "10-11 6-9 5-5 2-4"},
		{conversation.Range{Reverse: true, After: 3, Before: 4}, ""},
		{conversation.Range{Reverse: true, After: 3, Before: 5}, "2-4"},
		{conversation.Range{Reverse: true, After: 4, Before: 99, Limit: 9}, "10-11 6-9 5-5"},
		{conversation.Range{Limit: 1 << 40}, "1-1 2-4 5-5 6-9 10-11"}, // never preallocated
	} {
		f.equal(f.spans(k, c.r), c.want, fmt.Sprintf("%+v", c.r))
	}
	f.equal(f.spans(key("absent"), conversation.Range{}), "", "records of an absent session")

	recs := collect(f, f.Records(f.ctx, k, conversation.Range{After: 1, Limit: 1}))
	f.equal(recs, []conversation.Record{{ID: "commit-1-1", Events: said(1, 3)}}, "a record comes back whole and equal")
	for range f.Records(f.ctx, k, conversation.Range{}) {
		break // a caller may stop at once
	}
}

func longLog(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	big := strings.Repeat("x", 20<<10)
	for i := range 300 {
		f.commit(k, &h, 1+i%3, func(c *conversation.Commit) {
			if i%5 == 0 {
				body := c.Events[0].Body.(conversation.MessageAccepted)
				body.Text = big
				c.Events[0].Body = body
			}
		})
	}
	for _, reverse := range []bool{false, true} {
		next := conversation.Seq(1)
		if reverse {
			next = h.Last
		}
		n := 0
		for rec, err := range f.Records(f.ctx, k, conversation.Range{Reverse: reverse}) {
			if err != nil {
				f.Fatal(err)
			}
			first, last := rec.Events[0].Seq, rec.Events[len(rec.Events)-1].Seq
			if !reverse && first != next || reverse && last != next {
				f.Fatalf("reverse %v: record %d-%d where %d was next", reverse, first, last, next)
			}
			next = last + 1
			if reverse {
				next = first - 1
			}
			n++
		}
		f.equal(n, 300, "records")
	}
	f.equal(len(collect(f, f.Records(f.ctx, k, conversation.Range{Limit: 250}))), 250, "limited records")
}

func snapshots(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.commit(k, &h, 2, func(c *conversation.Commit) { c.Snapshot = []byte("two") })
	f.commit(k, &h, 1, nil)
	got := f.head(k)
	f.equal(got, conversation.Head{Epoch: 1, Last: 3, LastCommit: "commit-1-2", Snapshot: []byte("two"), SnapshotAt: 2}, "head")
	got.Snapshot[0] = 'X' // the caller's own
	f.commit(k, &h, 1, nil)
	got = f.acquire(k)
	f.equal(string(got.Snapshot), "two", "snapshot")
	got.Snapshot = nil
	f.commit(k, &got, 1, func(c *conversation.Commit) { c.Snapshot = []byte("five") })
	again := f.head(k)
	f.equal([]any{string(again.Snapshot), again.SnapshotAt}, []any{"five", conversation.Seq(5)}, "the newer snapshot")

	empty := key("s2") // before the first event
	h = f.acquire(empty)
	f.commit(empty, &h, 0, func(c *conversation.Commit) { c.Snapshot = []byte("none") })
	f.equal(string(f.head(empty).Snapshot), "none", "a snapshot of nothing")
}

func commitsWithoutEvents(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.commit(k, &h, 2, nil)
	f.commit(k, &h, 0, func(c *conversation.Commit) {
		c.ID = "nothing"
		c.Snapshot = []byte("as of two")
		c.Cursors = []conversation.Cursor{{User: bob, Seq: 2}}
		c.Summary = conversation.Summary{} // a summary that was never made leaves the stored one
	})
	f.equal(f.spans(k, conversation.Range{}), "1-2", "records")
	got := f.head(k)
	f.equal([]any{got.Last, got.LastCommit, got.SnapshotAt}, []any{conversation.Seq(2), conversation.CommitID("nothing"), conversation.Seq(2)}, "head")
	f.equal(collect(f, f.Sessions(f.ctx, conversation.Page{Tenant: tenant, For: bob}))[0].Seen, conversation.Seq(2), "cursor")
	if s, err := f.Summary(f.ctx, k); err != nil || s.Title != "Title" {
		f.Errorf("summary %+v, %v", s, err)
	}
	f.commit(k, &h, 1, nil)
	f.equal(f.spans(k, conversation.Range{}), "1-2 3-3", "records")
}

func due(f *fixture) {
	heads := map[string]*conversation.Head{}
	wake := func(id string, when time.Time) {
		f.Helper()
		if heads[id] == nil {
			h := f.acquire(key(id))
			heads[id] = &h
		}
		f.commit(key(id), heads[id], 1, func(c *conversation.Commit) { c.WakeAt = when })
	}
	wake("late", at(30))
	wake("early", at(10))
	wake("same-b", at(20))
	wake("same-a", at(20))
	wake("root/d1", at(5))
	wake("past", time.Date(1969, 1, 1, 0, 0, 0, 0, time.UTC))
	wake("never", time.Time{})
	f.equal(f.dueIDs(at(20)), "past root/d1 early same-a same-b", "due at 20 s")
	f.equal(f.dueIDs(at(19.999)), "past root/d1 early", "due before 20 s")
	f.equal(f.dueIDs(at(1000)), "past root/d1 early same-a same-b late", "all")

	wake("early", time.Time{})
	wake("late", at(1))
	wake("same-a", at(20)) // unchanged
	f.equal(f.dueIDs(at(1000)), "past late root/d1 same-a same-b", "after moves")
	h := f.acquire(key("same-a"))
	heads["same-a"] = &h
	f.equal(f.dueIDs(at(1000)), "past late root/d1 same-a same-b", "an acquisition changes nothing")
	if err := f.Delete(f.ctx, key("late")); err != nil {
		f.Fatal(err)
	}
	f.equal(f.dueIDs(at(1000)), "past root/d1 same-a same-b", "after an erasure")
	for range 300 {
		id := fmt.Sprintf("x%03d", len(heads))
		wake(id, at(50))
	}
	f.equal(len(collect(f, f.Due(f.ctx, at(50), conversation.Member{}))), 304, "many")
}

// claims: what outside runtimes may claim is listed by tenant, the oldest first, as
// the last commit of its session said it.
func claims(f *fixture) {
	heads := map[string]*conversation.Head{}
	claim := func(id string, c *conversation.Claimable) {
		f.Helper()
		if heads[id] == nil {
			h := f.acquire(key(id))
			heads[id] = &h
		}
		f.commit(key(id), heads[id], 1, func(commit *conversation.Commit) { commit.Claim = c })
	}
	since := func(task string, at time.Time) *conversation.Claimable {
		return &conversation.Claimable{Task: conversation.TaskID(task), Agent: "outside", Since: at}
	}
	list := func() string {
		f.Helper()
		var ids []string
		for _, c := range collect(f, f.Claimable(f.ctx, tenant)) {
			ids = append(ids, fmt.Sprintf("%s:%s", c.Key.Session, c.Task))
		}
		return strings.Join(ids, " ")
	}
	claim("late", since("t1-late", at(30)))
	claim("early", since("t1-early", at(10)))
	claim("same-b", since("t1-same-b", at(20)))
	claim("same-a", since("t1-same-a", at(20)))
	claim("none", nil)
	f.equal(list(), "early:t1-early same-a:t1-same-a same-b:t1-same-b late:t1-late", "the oldest first")
	f.equal(len(collect(f, f.Claimable(f.ctx, "another"))), 0, "of another tenant")

	whole := conversation.Claimable{Task: "t2-early", Agent: "outside:gpu", Since: at(40), Runtime: "r1", From: at(50)}
	claim("early", &whole)
	f.equal(collect(f, f.Claimable(f.ctx, tenant))[3], conversation.ClaimableAt{Key: key("early"), Claimable: whole}, "every field")
	claim("same-a", nil)
	claim("late", since("t1-late", at(30))) // unchanged
	f.equal(list(), "same-b:t1-same-b late:t1-late early:t2-early", "after changes")
	h := f.acquire(key("same-b"))
	heads["same-b"] = &h
	f.equal(list(), "same-b:t1-same-b late:t1-late early:t2-early", "an acquisition changes nothing")
	claim("same-b", nil)
	if err := f.Delete(f.ctx, key("late")); err != nil {
		f.Fatal(err)
	}
	f.equal(list(), "early:t2-early", "after an end and an erasure")
	for range 300 {
		id := fmt.Sprintf("x%03d", len(heads))
		claim(id, since("t1-"+id, at(60)))
	}
	f.equal(len(collect(f, f.Claimable(f.ctx, tenant))), 301, "many")
}

// active commits a part: activity that is no user's message.
func (f *fixture) active(id string, heads map[string]*conversation.Head, when time.Time) {
	f.Helper()
	if heads[id] == nil {
		h := f.acquire(key(id))
		heads[id] = &h
	}
	f.commit(key(id), heads[id], 1, func(c *conversation.Commit) {
		c.Events[0].Body = conversation.PartialResponse{Part: conversation.Part{Message: "p1", Source: "m1", Text: "Hello"}}
		c.Summary = summary(when)
	})
}

func sessionsByActivity(f *fixture) {
	page := conversation.Page{Tenant: tenant}
	heads := map[string]*conversation.Head{}
	f.equal(f.ids(page), "", "an empty store")
	f.acquire(key("acquired")) // never committed: not a session to show
	f.active("a", heads, at(1))
	f.active("b", heads, at(2))
	f.active("c", heads, at(2)) // a tie: by id
	f.active("a/d1", heads, at(9))
	f.equal(f.ids(page), "b c a", "newest first, without sub-sessions")

	// Any activity moves its session, none moves it back.
	f.active("a", heads, at(2))
	f.equal(f.ids(page), "a b c", "a tie")
	f.active("b", heads, at(2.001))
	f.equal(f.ids(page), "b a c", "b 1 ms after a")
	f.active("b", heads, at(2.001))
	f.active("b", heads, at(1.5))
	f.equal(f.ids(page), "b a c", "b without news")
	f.commit(key("c"), heads["c"], 1, func(c *conversation.Commit) { c.Summary = summary(at(3)) })
	f.equal(f.ids(page), "c b a", "c with a message")

	for id, want := range map[string]time.Time{"a": at(2), "b": at(2.001), "c": at(3)} {
		for _, s := range collect(f, f.Sessions(f.ctx, page)) {
			if s.Key == key(id) && !s.Activity.Equal(want) {
				f.Errorf("%s: listed at %v, want %v", s.Key, s.Activity, want)
			}
		}
	}
	if err := f.Delete(f.ctx, key("b")); err != nil {
		f.Fatal(err)
	}
	f.equal(f.ids(page), "c a", "after an erasure")
}

func sessionPages(f *fixture) {
	heads := map[string]*conversation.Head{}
	var want []string
	for i := range 30 {
		id := fmt.Sprintf("s%02d", i)
		f.active(id, heads, at(float64(2*(i/3)))) // threes of one moment
	}
	for i := 27; i >= 0; i -= 3 {
		want = append(want, fmt.Sprintf("s%02d", i), fmt.Sprintf("s%02d", i+1), fmt.Sprintf("s%02d", i+2))
	}
	for _, limit := range []int{1, 2, 7, 29, 30, 31, 0} {
		var got []string
		p := conversation.Page{Tenant: tenant, Limit: limit}
		for {
			page := collect(f, f.Sessions(f.ctx, p))
			if limit > 0 && len(page) > limit {
				f.Fatalf("%d sessions in a page of %d", len(page), limit)
			}
			for _, s := range page {
				got = append(got, string(s.Key.Session))
			}
			if len(page) == 0 || limit == 0 {
				break
			}
			p.Cursor = page[len(page)-1].PageCursor()
		}
		f.equal(got, want, fmt.Sprintf("pages of %d", limit))
	}

	// A list that was asked for once may be walked twice.
	list := f.Sessions(f.ctx, conversation.Page{Tenant: tenant, Limit: 5})
	f.equal(collect(f, list), collect(f, list), "the same list again")

	// A cursor stays good when its session moves.
	p := conversation.Page{Tenant: tenant, Limit: 3}
	page := collect(f, f.Sessions(f.ctx, p))
	p.Cursor = page[2].PageCursor()
	f.active(string(page[2].Key.Session), heads, at(1000))
	f.equal(f.ids(p), strings.Join(want[3:6], " "), "the page behind a session that moved")
}

func sessionsOldestFirst(f *fixture) {
	for i := range 12 {
		k := conversation.SessionKey{Tenant: conversation.TenantID(fmt.Sprintf("tenant%d", i%4)), Session: conversation.SessionID(fmt.Sprintf("s%02d", i))}
		h := f.acquire(k)
		f.commit(k, &h, 1, func(c *conversation.Commit) { c.Summary = summary(at(float64(100 - 5*i))) })
	}
	all := "s11 s10 s09 s08 s07 s06 s05 s04 s03 s02 s01 s00"
	f.equal(f.ids(conversation.Page{Oldest: true}), all, "oldest first, all tenants")
	f.equal(f.ids(conversation.Page{Oldest: true, Tenant: "tenant1"}), all, "whatever the tenant")
	var got []string
	p := conversation.Page{Oldest: true, Limit: 5}
	for {
		page := collect(f, f.Sessions(f.ctx, p))
		if len(page) == 0 {
			break
		}
		for _, s := range page {
			got = append(got, string(s.Key.Session))
		}
		p.Cursor = page[len(page)-1].PageCursor()
	}
	f.equal(strings.Join(got, " "), all, "in pages of 5")
}

func cursors(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.commit(k, &h, 9, nil)
	seen := func(user conversation.UserID) conversation.Seq {
		f.Helper()
		list := collect(f, f.Sessions(f.ctx, conversation.Page{Tenant: tenant, For: user}))
		if len(list) != 1 {
			f.Fatalf("%d sessions", len(list))
		}
		return list[0].Seen
	}
	move := func(cs ...conversation.Cursor) {
		f.Helper()
		f.commit(k, &h, 0, func(c *conversation.Commit) { c.Cursors = cs })
	}
	f.equal(seen(alice), conversation.Seq(0), "before")
	move(conversation.Cursor{User: alice, Seq: 5})
	move(conversation.Cursor{User: alice, Seq: 3}, conversation.Cursor{User: bob, Seq: 1})
	f.equal([]conversation.Seq{seen(alice), seen(bob), seen("")}, []conversation.Seq{5, 1, 0}, "cursors")
	move(conversation.Cursor{User: alice, Seq: 7}, conversation.Cursor{User: alice, Seq: 6}, conversation.Cursor{User: bob, Seq: 2}, conversation.Cursor{User: bob, Seq: 4})
	f.equal([]conversation.Seq{seen(alice), seen(bob)}, []conversation.Seq{7, 4}, "several in one commit")
	if s, err := f.Summary(f.ctx, k); err != nil || s.Seen != 0 {
		f.Errorf("Summary fills Seen of nobody: %+v, %v", s, err)
	}
}

// marks changes what readers have marked a session with: it moves no read cursor, and one that
// moves takes no mark away.
func marks(f *fixture) {
	k, pinned, archived := key("s1"), listing.Pinned, listing.Archived
	h := f.acquire(k)
	f.commit(k, &h, 9, nil)
	type has struct {
		Seen  conversation.Seq
		Marks listing.Marks
	}
	of := func(user conversation.UserID) has {
		f.Helper()
		list := collect(f, f.Sessions(f.ctx, conversation.Page{Tenant: tenant, For: user}))
		if len(list) != 1 {
			f.Fatalf("%d sessions", len(list))
		}
		one := collect(f, f.Sessions(f.ctx, conversation.Page{Tenant: tenant, For: user, Only: "s1"}))
		f.equal(one, list, "the row of one")
		return has{list[0].Seen, list[0].Marks}
	}
	change := func(user conversation.UserID, set, unset listing.Marks) conversation.Cursor {
		return conversation.Cursor{User: user, Marking: listing.Marking{Set: set, Unset: unset}}
	}
	for _, x := range []struct {
		name       string
		cursors    []conversation.Cursor
		alice, bob has
	}{
		{"nothing", nil, has{}, has{}},
		{"what is not marked is unmarked", []conversation.Cursor{change(alice, 0, pinned)}, has{}, has{}},
		{"before anything is read", []conversation.Cursor{change(alice, pinned, 0)}, has{0, pinned}, has{}},
		{"again", []conversation.Cursor{change(alice, pinned, 0)}, has{0, pinned}, has{}},
		{"another one", []conversation.Cursor{change(alice, archived, 0), change(bob, archived, 0)}, has{0, pinned | archived}, has{0, archived}},
		{"reading", []conversation.Cursor{{User: alice, Seq: 5}, {User: bob, Seq: 2}}, has{5, pinned | archived}, has{2, archived}},
		{"one of two is taken away", []conversation.Cursor{change(alice, 0, archived)}, has{5, pinned}, has{2, archived}},
		{"one for the other", []conversation.Cursor{change(alice, archived, pinned)}, has{5, archived}, has{2, archived}},
		{
			"several in one commit",
			[]conversation.Cursor{change(bob, pinned, 0), {User: bob, Seq: 7}, change(bob, 0, pinned|archived), change(bob, pinned, 0), {User: bob, Seq: 6}},
			has{5, archived}, has{7, pinned},
		},
		{"the last one counts", []conversation.Cursor{change(bob, 0, pinned), change(bob, pinned, 0), change(bob, 0, pinned)}, has{5, archived}, has{7, 0}},
	} {
		f.commit(k, &h, 0, func(c *conversation.Commit) { c.Cursors = x.cursors })
		f.equal([]has{of(alice), of(bob), of("")}, []has{x.alice, x.bob, {}}, x.name)
	}
	f.commit(k, &h, 1, func(c *conversation.Commit) { c.Summary.Marks = pinned })
	f.equal([]has{of(alice), of(bob)}, []has{{5, archived}, {7, 0}}, "a summary has none of its own")
	if s, err := f.Summary(f.ctx, k); err != nil || s.Marks != 0 {
		f.Errorf("Summary fills Marks of nobody: %+v, %v", s, err)
	}
	f.want(f.Delete(f.ctx, k), nil, "delete")
	again := f.acquire(key("s2"))
	f.commit(key("s2"), &again, 1, nil)
	f.equal(collect(f, f.Sessions(f.ctx, conversation.Page{Tenant: tenant, For: alice}))[0].Marks, listing.Marks(0), "another session")
}

// onlyOne reads the row of one session as a list shows it to a reader.
func onlyOne(f *fixture) {
	k := key("s1")
	only := func(page conversation.Page) []conversation.Summary {
		f.Helper()
		return collect(f, f.Sessions(f.ctx, page))
	}
	page := conversation.Page{Tenant: tenant, For: alice, Only: "s1"}
	f.equal(len(only(page)), 0, "an absent session")
	h := f.acquire(k)
	f.equal(len(only(page)), 0, "a session without a commit")
	f.commit(k, &h, 5, func(c *conversation.Commit) { c.Cursors = []conversation.Cursor{{User: alice, Seq: 3}} })
	other := f.acquire(key("s2"))
	f.commit(key("s2"), &other, 1, nil)
	for range 2 {
		all := collect(f, f.Sessions(f.ctx, conversation.Page{Tenant: tenant, For: alice}))
		if i := slices.IndexFunc(all, func(s conversation.Summary) bool { return s.Key == k }); len(all) != 2 || i < 0 {
			f.Errorf("the list has %d rows", len(all))
		} else {
			f.equal(only(page), all[i:i+1], "the row of one")
		}
		page.Cursor, page.Limit = "0.zz", 7
	}
	sub := key("s1/c1")
	hs := f.acquire(sub)
	f.commit(sub, &hs, 1, nil)
	page.Only = sub.Session
	f.equal(len(only(page)), 0, "a sub-session is in no list")
	page.Tenant, page.Only = "another", "s1"
	f.equal(len(only(page)), 0, "in another tenant")
	f.want(f.Delete(f.ctx, k), nil, "delete")
	page.Tenant = tenant
	f.equal(len(only(page)), 0, "an erased session")
}

func summaries(f *fixture) {
	k := key("s1")
	_, err := f.Summary(f.ctx, k)
	f.want(err, conversation.ErrNotFound, "summary of an absent session")
	h := f.acquire(k)
	_, err = f.Summary(f.ctx, k)
	f.want(err, conversation.ErrNotFound, "summary before the first commit")
	want := conversation.Summary{
		Title: "Größe", Agent: "coordinator", Owner: alice, Access: conversation.AccessTenant, Closed: true,
		CreatedAt: noon, Activity: at(3.25), Open: 3, Awaiting: 1,
	}
	f.commit(k, &h, 4, func(c *conversation.Commit) { c.Summary = want })
	want.Key, want.Last = k, 4 // the store knows these best
	got, err := f.Summary(f.ctx, k)
	if err != nil {
		f.Fatal(err)
	}
	f.equal(got, want, "summary")
	f.equal(collect(f, f.Sessions(f.ctx, conversation.Page{Tenant: tenant})), []conversation.Summary{want}, "list")

	sub := key("s1/d1")
	hs := f.acquire(sub)
	f.commit(sub, &hs, 1, nil)
	if s, err := f.Summary(f.ctx, sub); err != nil || s.Key != sub {
		f.Errorf("summary of a sub-session: %+v, %v", s, err)
	}
}

func row(task string, status conversation.TaskStatus, created time.Time) conversation.TaskRow {
	return conversation.TaskRow{
		Task: conversation.TaskID(task), Status: status, Agent: "coordinator", Owner: alice, Trigger: "m1-s",
		CreatedAt: created, UpdatedAt: created.Add(time.Second), First: 1, Last: 2,
	}
}

func taskRows(f *fixture) {
	h1, h2, hs := f.acquire(key("s1")), f.acquire(key("s2")), f.acquire(key("s1/d1"))
	put := func(id string, h *conversation.Head, rows ...conversation.TaskRow) {
		f.Helper()
		f.commit(key(id), h, 1, func(c *conversation.Commit) { c.Tasks = rows })
	}
	failed := row("t1-s1", conversation.TaskError, at(1))
	failed.Error = &conversation.Failure{Code: conversation.Timeout, Message: "too slow"}
	put("s1", &h1, row("t1-s1", conversation.TaskQueued, at(1)))
	put("s1", &h1, row("t1-s1", conversation.TaskRunning, at(1)))
	put("s2", &h2, row("t1-s2", conversation.TaskAwaiting, at(2)), row("t2-s2", conversation.TaskQueued, at(4)))
	put("s1/d1", &hs, row("t1-s1/d1", conversation.TaskRunning, at(3)))
	put("s1", &h1, failed, row("t9-s1", conversation.TaskQueued, at(5)), row("t10-s1", conversation.TaskRunning, at(5)))

	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant}), "t10-s1 t9-s1 t2-s2 t1-s2 t1-s1", "all root tasks, newest first")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant, Status: conversation.TaskQueued}), "t9-s1 t2-s2", "queued")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant, Status: conversation.TaskComplete}), "", "complete")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant, Session: "s1"}), "t10-s1 t9-s1 t1-s1", "of one session")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant, Session: "s1", Status: conversation.TaskError}), "t1-s1", "of one session and status")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant, Session: "s1/d1"}), "t1-s1/d1", "of a sub-session that is asked for")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant, Session: "absent"}), "", "of an absent session")

	failed.Key = key("s1")
	got, err := f.Task(f.ctx, key("s1"), "t1-s1")
	if err != nil {
		f.Fatal(err)
	}
	f.equal(got, failed, "the row")
	if _, err := f.Task(f.ctx, key("s1/d1"), "t1-s1/d1"); err != nil {
		f.Errorf("the row of a sub-session: %v", err)
	}
	_, err = f.Task(f.ctx, key("s1"), "t5-s1")
	f.want(err, conversation.ErrNotFound, "an absent task")
	_, err = f.Task(f.ctx, key("absent"), "t1-absent")
	f.want(err, conversation.ErrNotFound, "a task of an absent session")

	if err := f.Delete(f.ctx, key("s1")); err != nil {
		f.Fatal(err)
	}
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: tenant}), "t2-s2 t1-s2", "after an erasure")
}

func taskPages(f *fixture) {
	h1, h2 := f.acquire(key("s1")), f.acquire(key("s2"))
	var all, ofOne, running []string
	for i := 1; i <= 20; i++ {
		when := at(float64(i / 4)) // fours of one moment
		status := conversation.TaskComplete
		if i%3 == 0 {
			status = conversation.TaskRunning
		}
		f.commit(key("s1"), &h1, 1, func(c *conversation.Commit) {
			c.Tasks = []conversation.TaskRow{row(fmt.Sprintf("t%d-s1", i), status, when)}
		})
		f.commit(key("s2"), &h2, 1, func(c *conversation.Commit) {
			c.Tasks = []conversation.TaskRow{row(fmt.Sprintf("t%d-s2", i), status, when)}
		})
	}
	for i := 20; i >= 1; i-- {
		one, two := fmt.Sprintf("t%d-s1", i), fmt.Sprintf("t%d-s2", i)
		all, ofOne = append(all, one, two), append(ofOne, one)
		if i%3 == 0 {
			running = append(running, one, two)
		}
	}
	for _, c := range []struct {
		filter conversation.TaskFilter
		want   []string
	}{
		{conversation.TaskFilter{Tenant: tenant}, all},
		{conversation.TaskFilter{Tenant: tenant, Session: "s1"}, ofOne},
		{conversation.TaskFilter{Tenant: tenant, Status: conversation.TaskRunning}, running},
	} {
		for _, limit := range []int{1, 3, 7, 100} {
			var got []string
			for filter := c.filter; ; {
				filter.Limit = limit
				page := collect(f, f.Tasks(f.ctx, filter))
				if len(page) > limit {
					f.Fatalf("%d rows in a page of %d", len(page), limit)
				}
				if len(page) == 0 {
					break
				}
				for _, r := range page {
					got = append(got, string(r.Task))
				}
				filter.Cursor = page[len(page)-1].PageCursor()
			}
			f.equal(got, c.want, fmt.Sprintf("%+v in pages of %d", c.filter, limit))
		}
	}
}

func tenants(f *fixture) {
	ours := key("s1")
	theirs := conversation.SessionKey{Tenant: "other", Session: "s1"}
	h := f.acquire(ours)
	f.commit(ours, &h, 2, func(c *conversation.Commit) {
		c.Keys = []conversation.KeyAt{part("n1", 0, 1)}
		c.Tasks = []conversation.TaskRow{row("t1-s1", conversation.TaskRunning, noon)}
	})
	_, err := f.Head(f.ctx, theirs)
	f.want(err, conversation.ErrNotFound, "head of the same id in another tenant")
	ht := f.acquire(theirs)
	f.equal(ht, conversation.Head{Epoch: 1}, "a new session of the same id")
	f.commit(theirs, &ht, 1, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{part("n1", 0, 1)} })
	f.equal([]string{f.spans(ours, conversation.Range{}), f.spans(theirs, conversation.Range{})}, []string{"1-2", "1-1"}, "records")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: "other"}), "", "their tasks")
	f.equal(f.taskIDs(conversation.TaskFilter{Tenant: "other", Session: "s1"}), "", "their tasks by session")
	f.equal(f.ids(conversation.Page{Tenant: "oth"}), "", "a tenant whose name is the beginning of another's")
	if err := f.Delete(f.ctx, theirs); err != nil {
		f.Fatal(err)
	}
	f.equal(f.spans(ours, conversation.Range{}), "1-2", "records after the other tenant's erasure")
	f.equal(f.ids(conversation.Page{Tenant: tenant}), "s1", "list")
}

func erase(f *fixture) {
	k := key("s1")
	f.want(f.Delete(f.ctx, k), conversation.ErrNotFound, "erase an absent session")
	h := f.acquire(k)
	f.commit(k, &h, 3, func(c *conversation.Commit) {
		c.Keys, c.Snapshot, c.WakeAt = []conversation.KeyAt{part("n1", 0, 1)}, []byte("x"), at(1)
		c.Cursors = []conversation.Cursor{{User: alice, Seq: 2}}
		c.Tasks = []conversation.TaskRow{row("t1-s1", conversation.TaskRunning, noon)}
	})
	if err := f.Delete(f.ctx, k); err != nil {
		f.Fatal(err)
	}
	f.want(f.try(k, &h, 1, nil), conversation.ErrFenced, "commit of the writer of before")
	_, err := f.Acquire(f.ctx, k, conversation.AcquireHow{IfEpoch: h.Epoch})
	f.want(err, conversation.ErrNotFound, "acquire with the epoch of before")
	_, err = f.Acquire(f.ctx, k, conversation.AcquireHow{Create: true})
	f.want(err, conversation.ErrNotFound, "create after erase")
	_, err = f.Head(f.ctx, k)
	f.want(err, conversation.ErrNotFound, "head")
	_, err = f.Summary(f.ctx, k)
	f.want(err, conversation.ErrNotFound, "summary")
	_, err = f.Task(f.ctx, k, "t1-s1")
	f.want(err, conversation.ErrNotFound, "task")
	f.want(f.Delete(f.ctx, k), conversation.ErrNotFound, "erase again")
	f.equal([]string{
		f.spans(k, conversation.Range{}), f.ids(conversation.Page{Tenant: tenant, For: alice}), f.ids(conversation.Page{Oldest: true}),
		f.dueIDs(at(99)), f.taskIDs(conversation.TaskFilter{Tenant: tenant}), f.taskIDs(conversation.TaskFilter{Tenant: tenant, Session: "s1"}),
	}, make([]string, 6), "what is left")
	seqs, err := f.Find(f.ctx, k, []conversation.Key{part("n1", 0, 0).Key})
	if err != nil {
		f.Fatal(err)
	}
	f.equal(seqs, []conversation.Seq{0}, "keys")
}

// The next session of an erased one's name is another one: nothing of the first
// meets it, and it is made in its turn only.
func eraseAndRenew(f *fixture) {
	first, second, third := key("s1"), key("s1_2"), key("s1_3")
	erased := func(want ...bool) {
		f.Helper()
		for i, k := range []conversation.SessionKey{first, second, third} {
			is, err := f.Erased(f.ctx, k)
			if err != nil || is != want[i] {
				f.Errorf("%s is erased: %v, %v", k, is, err)
			}
		}
	}
	absent := func(k conversation.SessionKey) {
		f.Helper()
		_, err := f.Acquire(f.ctx, k, conversation.AcquireHow{Create: true})
		f.want(err, conversation.ErrNotFound, "create "+string(k.Session))
	}
	absent(second)
	old := f.acquire(first)
	f.commit(first, &old, 3, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{part("n1", 0, 1)} })
	erased(false, false, false)
	absent(second)
	if err := f.Delete(f.ctx, first); err != nil {
		f.Fatal(err)
	}
	erased(true, false, false)
	absent(third)
	h := f.acquire(second)
	f.commit(second, &h, 1, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{part("n1", 0, 1)} })
	f.want(f.try(first, &old, 1, nil), conversation.ErrFenced, "the writer of the first one")
	f.equal(f.spans(second, conversation.Range{}), "1-1", "what the second one holds")
	if err := f.Delete(f.ctx, second); err != nil {
		f.Fatal(err)
	}
	erased(true, true, false)
	absent(first)
	absent(second)
	h = f.acquire(third)
	f.commit(third, &h, 1, nil)
	erased(true, true, false)
}

func eraseTree(f *fixture) {
	heads := map[string]*conversation.Head{}
	for _, id := range []string{"s1", "s1/d1", "s1/d1/d1", "s1/d2", "s1-x", "s10", "s1x/d1", "s"} {
		h := f.acquire(key(id))
		f.commit(key(id), &h, 1, func(c *conversation.Commit) { c.WakeAt = at(1) })
		heads[id] = &h
	}
	// Below the root first: only that branch goes.
	if err := f.Delete(f.ctx, key("s1/d1")); err != nil {
		f.Fatal(err)
	}
	f.equal(f.dueIDs(at(9)), "s s1 s1-x s1/d2 s10 s1x/d1", "due after the erasure of a branch")
	f.want(f.try(key("s1/d1/d1"), heads["s1/d1/d1"], 1, nil), conversation.ErrFenced, "a writer below")
	if err := f.Delete(f.ctx, key("s1")); err != nil {
		f.Fatal(err)
	}
	f.equal(f.dueIDs(at(9)), "s s1-x s10 s1x/d1", "due after the erasure of the tree")
	for _, id := range []string{"s1", "s1/d2"} {
		f.want(f.try(key(id), heads[id], 1, nil), conversation.ErrFenced, "a writer of "+id)
		f.equal(f.spans(key(id), conversation.Range{}), "", "records of "+id)
	}
	for _, id := range []string{"s1/d1", "s1/d2", "s1/d7", "s1/d7/d1"} { // d7 never was
		_, err := f.Acquire(f.ctx, key(id), conversation.AcquireHow{Create: true})
		f.want(err, conversation.ErrNotFound, "create "+id+" below an erased root")
	}
	for _, id := range []string{"s1-x", "s10", "s1x/d1", "s"} { // the neighbours live
		f.commit(key(id), heads[id], 1, nil)
	}
}

func badCursors(f *fixture) {
	for _, cursor := range []string{"x", "12", "12x.s1", ".s1", "99999999999999999999.s1"} {
		var e *conversation.Error
		err := failure(f.Sessions(f.ctx, conversation.Page{Tenant: tenant, Cursor: cursor}))
		if !errors.As(err, &e) || e.Code != conversation.BadRequest {
			f.Errorf("sessions behind %q: %v", cursor, err)
		}
		err = failure(f.Tasks(f.ctx, conversation.TaskFilter{Tenant: tenant, Cursor: cursor}))
		if !errors.As(err, &e) || e.Code != conversation.BadRequest {
			f.Errorf("tasks behind %q: %v", cursor, err)
		}
	}
	f.equal(f.ids(conversation.Page{Tenant: tenant, Cursor: "0."}), "", "behind the end")
	// A store may have no text for what no session is called: then it says so.
	for _, cursor := range []string{"0.\xff", "0.a\x00b", "5.\xc3("} {
		for what, err := range map[string]error{
			"sessions": failure(f.Sessions(f.ctx, conversation.Page{Tenant: tenant, Cursor: cursor})),
			"tasks":    failure(f.Tasks(f.ctx, conversation.TaskFilter{Tenant: tenant, Cursor: cursor})),
		} {
			if e := new(conversation.Error); err != nil && (!errors.As(err, &e) || e.Code != conversation.BadRequest) {
				f.Errorf("%s behind %q: %v", what, cursor, err)
			}
		}
	}
}

func endedContext(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	live := f.ctx
	f.ctx = ended
	f.want(f.try(k, &h, 1, nil), context.Canceled, "commit")
	_, err := f.Acquire(f.ctx, k, conversation.AcquireHow{})
	f.want(err, context.Canceled, "acquire")
	f.want(failure(f.Records(f.ctx, k, conversation.Range{})), context.Canceled, "records")
	f.want(f.Delete(f.ctx, k), context.Canceled, "delete")
	f.ctx = live
	f.equal(f.head(k), h, "the head")
}

func closedStore(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.commit(k, &h, 3, nil)
	// A store may be closed in the middle of a walk: the walk ends with an error,
	// or it had read everything already, but it never ends short in silence.
	n, last := 0, error(nil)
	for _, err := range f.Records(f.ctx, k, conversation.Range{}) {
		if err != nil {
			last = err
			break
		}
		n++
		if err := f.Close(); err != nil {
			f.Fatal(err)
		}
	}
	if n == 0 || last != nil && !errors.Is(last, conversation.ErrClosed) {
		f.Errorf("%d records, error %v", n, last)
	}
	if err := f.Close(); err != nil {
		f.Errorf("close again: %v", err)
	}
	f.want(f.try(k, &h, 1, nil), conversation.ErrClosed, "commit")
	_, err := f.Acquire(f.ctx, k, conversation.AcquireHow{Create: true})
	f.want(err, conversation.ErrClosed, "acquire")
	_, err = f.Head(f.ctx, k)
	f.want(err, conversation.ErrClosed, "head")
	_, err = f.Find(f.ctx, k, nil)
	f.want(err, conversation.ErrClosed, "find")
	_, err = f.Summary(f.ctx, k)
	f.want(err, conversation.ErrClosed, "summary")
	_, err = f.Task(f.ctx, k, "t1-s1")
	f.want(err, conversation.ErrClosed, "task")
	f.want(failure(f.Records(f.ctx, k, conversation.Range{})), conversation.ErrClosed, "records")
	f.want(failure(f.Sessions(f.ctx, conversation.Page{Tenant: tenant})), conversation.ErrClosed, "sessions")
	f.want(failure(f.Tasks(f.ctx, conversation.TaskFilter{Tenant: tenant})), conversation.ErrClosed, "tasks")
	f.want(failure(f.Due(f.ctx, noon, conversation.Member{})), conversation.ErrClosed, "due")
	f.want(failure(f.Claimable(f.ctx, tenant)), conversation.ErrClosed, "claimable")
	f.want(f.Delete(f.ctx, k), conversation.ErrClosed, "delete")
}

func logID(f *fixture) {
	if first, again := f.LogID(), f.LogID(); first == "" || again != first {
		f.Errorf("log id %q, then %q", first, again)
	}
}

// steal lets eight activations take one session from each other while all of
// them try to store the same forty parts. A fenced one stops; the next one is a
// new activation.
func steal(f *fixture) {
	const writers, parts = 8, 40
	k := key("s1")
	var wg sync.WaitGroup
	acked := make([][parts]conversation.Seq, writers)
	for w := range writers {
		wg.Go(func() {
			for next := 0; next < parts; {
				h, err := f.Acquire(f.ctx, k, conversation.AcquireHow{Create: true})
				if err != nil {
					f.Errorf("writer %d: acquire: %v", w, err)
					return
				}
				for next < parts {
					p := part("n1", next, h.Last+1)
					var dup *conversation.DuplicateError
					err := f.try(k, &h, 1, func(c *conversation.Commit) { c.Keys = []conversation.KeyAt{p} })
					switch {
					case err == nil:
						acked[w][next] = p.Seq
						next++
					case errors.As(err, &dup):
						acked[w][next] = dup.Seq
						next++
					case errors.Is(err, conversation.ErrFenced):
					default:
						f.Errorf("writer %d: part %d: %v", w, next, err)
						return
					}
					if errors.Is(err, conversation.ErrFenced) {
						break
					}
				}
			}
		})
	}
	wg.Wait()
	h := f.head(k)
	f.equal(h.Last, conversation.Seq(parts), "last seq: each part once")
	next := conversation.Seq(1)
	for _, rec := range collect(f, f.Records(f.ctx, k, conversation.Range{})) {
		for _, e := range rec.Events {
			f.equal(e.Seq, next, "gapless")
			next++
		}
	}
	for i := range parts {
		for w := range writers {
			if acked[w][i] == 0 || acked[w][i] != acked[0][i] {
				f.Fatalf("part %d: writer %d was told seq %d, writer 0 was told %d", i, w, acked[w][i], acked[0][i])
			}
		}
	}
}

// readersBesideWriters reads everything there is while sessions of one tree are
// written and erased: nothing fails, and no log is ever seen with a gap.
func readersBesideWriters(f *fixture) {
	var writers, readers sync.WaitGroup
	stop := make(chan struct{})
	ids := []string{"s1", "s1/d1", "s1/d2", "s2", "s3"}
	for _, id := range ids {
		writers.Go(func() {
			h := f.acquire(key(id))
			for i := range 60 {
				err := f.try(key(id), &h, 2, func(c *conversation.Commit) {
					c.WakeAt, c.Summary = at(float64(i%3)), summary(at(float64(i)))
					c.Tasks = []conversation.TaskRow{row(fmt.Sprintf("t%d-%s", i, id), conversation.TaskRunning, at(float64(i)))}
				})
				if err != nil && id == "s3" && errors.Is(err, conversation.ErrFenced) {
					return // erased below
				}
				if err != nil {
					f.Errorf("%s: %v", id, err)
					return
				}
				if id == "s3" && i == 30 {
					if err := f.Delete(f.ctx, key(id)); err != nil {
						f.Errorf("erase: %v", err)
					}
				}
			}
		})
	}
	for range 3 {
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				for _, id := range ids {
					next := conversation.Seq(1)
					for rec, err := range f.Records(f.ctx, key(id), conversation.Range{}) {
						if errors.Is(err, conversation.ErrNotFound) {
							break // erased in the middle of the walk
						}
						if err != nil || rec.Events[0].Seq != next {
							f.Errorf("%s: %v, seq %d expected", id, err, next)
							return
						}
						next += conversation.Seq(len(rec.Events))
					}
				}
				for _, err := range []error{
					failure(f.Sessions(f.ctx, conversation.Page{Tenant: tenant, For: alice})), failure(f.Sessions(f.ctx, conversation.Page{Oldest: true})),
					failure(f.Tasks(f.ctx, conversation.TaskFilter{Tenant: tenant})), failure(f.Due(f.ctx, at(100), conversation.Member{})),
				} {
					if err != nil {
						f.Error(err)
						return
					}
				}
			}
		})
	}
	writers.Wait()
	close(stop)
	readers.Wait()
	for _, id := range ids[:4] {
		f.equal(f.head(key(id)).Last, conversation.Seq(120), "last seq of "+id)
	}
}
