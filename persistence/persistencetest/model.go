package persistencetest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/listing"
)

// RunModel does the same random things to a Memory and to a store, with few sessions,
// writers, keys and moments so that they meet, reopens the store in between, and compares
// every answer. begin makes an empty store's place: open opens what is there, and whole, if
// it is not nil, looks at all that is stored in the end. A failure prints the seed; rerun
// with -rapid.seed.
func RunModel(t *testing.T, begin func(t *rapid.T) (open func() conversation.Store, whole func(conversation.Store) error)) {
	rapid.Check(t, func(rt *rapid.T) {
		open, whole := begin(rt)
		m := &pair{t: rt, open: open, model: NewMemory(), heads: map[conversation.SessionKey][]conversation.Head{}}
		m.reopen()
		defer func() { _ = m.db.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"acquire": m.acquire,
			"commit":  m.commit,
			"commit2": m.commit,
			"commit3": m.commit,
			"delete":  m.delete,
			"reopen":  func(*rapid.T) { m.reopen() },
			"lists":   m.lists,
			"":        m.check,
		})
		if whole == nil {
			return
		}
		if err := whole(m.db); err != nil {
			rt.Fatalf("the store contradicts itself:\n%v", err)
		}
	})
}

// pair is a store and the model of it.
type pair struct {
	t     *rapid.T
	open  func() conversation.Store
	db    conversation.Store
	model *Memory
	heads map[conversation.SessionKey][]conversation.Head // every acquisition, old ones too
	last  conversation.SessionKey                         // what the last step touched
}

var (
	modelTenants  = []conversation.TenantID{"a", "b"}
	modelSessions = []conversation.SessionID{"s1", "s1/d1", "s1/d1/d1", "s2", "s3"}
	modelUsers    = []conversation.UserID{"alice", "bob"}
	modelStart    = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
)

func (p *pair) key(t *rapid.T) conversation.SessionKey {
	p.last = conversation.SessionKey{Tenant: rapid.SampledFrom(modelTenants).Draw(t, "tenant"), Session: rapid.SampledFrom(modelSessions).Draw(t, "session")}
	return p.last
}

func (p *pair) reopen() {
	if p.db != nil {
		if err := p.db.Close(); err != nil {
			p.t.Fatalf("close: %v", err)
		}
	}
	p.db = p.open()
}

// same compares two errors by what a caller can tell.
func (p *pair) same(t *rapid.T, what string, got, want error) {
	var a, b *conversation.DuplicateError
	if errors.As(want, &b) && errors.As(got, &a) && *a == *b {
		return
	}
	for _, e := range []error{conversation.ErrFenced, conversation.ErrConflict, conversation.ErrNotFound} {
		if errors.Is(got, e) != errors.Is(want, e) {
			t.Fatalf("%s: %v, the model says %v", what, got, want)
		}
	}
	if (got == nil) != (want == nil) || a != nil != (b != nil) {
		t.Fatalf("%s: %v, the model says %v", what, got, want)
	}
}

func (p *pair) acquire(t *rapid.T) {
	k := p.key(t)
	how := conversation.AcquireHow{Create: rapid.Bool().Draw(t, "create"), IfEpoch: conversation.Epoch(rapid.IntRange(0, 3).Draw(t, "ifEpoch"))}
	want, wantErr := p.model.Acquire(context.Background(), k, how)
	got, gotErr := p.db.Acquire(context.Background(), k, how)
	p.same(t, "acquire", gotErr, wantErr)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("acquire: %+v, the model says %+v", got, want)
	}
	if wantErr == nil {
		p.heads[k] = append(p.heads[k], want)
	}
}

func (p *pair) commit(t *rapid.T) {
	k := p.key(t)
	heads := p.heads[k]
	h := conversation.Head{Epoch: 1}
	i := -1
	if len(heads) > 0 {
		i = len(heads) - 1
		if rapid.IntRange(0, 4).Draw(t, "stale") == 0 {
			i = rapid.IntRange(0, i).Draw(t, "which")
		}
		h = heads[i]
	}
	if rapid.IntRange(0, 9).Draw(t, "conflict") == 0 {
		h.Last = conversation.Seq(rapid.IntRange(0, 9).Draw(t, "after"))
	}
	c := p.aCommit(t, k, h)
	want := p.model.Commit(context.Background(), k, c)
	got := p.db.Commit(context.Background(), k, c)
	p.same(t, "commit", got, want)
	if want == nil && i >= 0 {
		heads[i].Last = h.Last + conversation.Seq(len(c.Events))
	}
}

func (p *pair) aCommit(t *rapid.T, k conversation.SessionKey, h conversation.Head) conversation.Commit {
	when := rapid.Custom(func(t *rapid.T) time.Time {
		return modelStart.Add(time.Duration(rapid.IntRange(0, 30).Draw(t, "when")) * 250 * time.Millisecond)
	})
	c := conversation.Commit{Epoch: h.Epoch, After: h.Last, ID: conversation.CommitID(fmt.Sprintf("c%d", rapid.Uint32().Draw(t, "id")))}
	for i := range rapid.IntRange(0, 3).Draw(t, "events") {
		c.Events = append(c.Events, conversation.Event{Seq: h.Last + conversation.Seq(i) + 1, At: when.Draw(t, "at"), Body: conversation.SessionClosed{Reason: "r"}})
	}
	for range rapid.IntRange(0, 2).Draw(t, "keys") {
		key := conversation.Key{Source: rapid.SampledFrom([]conversation.SourceID{"n1", "n2"}).Draw(t, "source"), Part: conversation.PartIndex(rapid.IntRange(0, 3).Draw(t, "part"))}
		if rapid.Bool().Draw(t, "client") {
			key = conversation.Key{Author: rapid.SampledFrom(modelUsers).Draw(t, "author"), Client: conversation.ClientMsgID(fmt.Sprint(rapid.IntRange(0, 9).Draw(t, "client id")))}
		}
		c.Keys = append(c.Keys, conversation.KeyAt{Key: key, Seq: h.Last + 1})
	}
	for range rapid.IntRange(0, 2).Draw(t, "tasks") {
		n := rapid.IntRange(1, 12).Draw(t, "task")
		c.Tasks = append(c.Tasks, conversation.TaskRow{
			Task: conversation.TaskID(fmt.Sprintf("t%d-%s", n, k.Session)), Status: conversation.TaskStatus(rapid.IntRange(1, 6).Draw(t, "status")),
			CreatedAt: modelStart.Add(time.Duration(n/3) * time.Second), Last: c.After, // a task's creation never changes
		})
	}
	for range rapid.IntRange(0, 2).Draw(t, "cursors") {
		c.Cursors = append(c.Cursors, conversation.Cursor{User: rapid.SampledFrom(modelUsers).Draw(t, "user"), Seq: conversation.Seq(rapid.IntRange(0, 20).Draw(t, "seen"))})
		mark := rapid.SampledFrom([]listing.Marks{0, listing.Pinned, listing.Archived}).Draw(t, "mark")
		c.Cursors[len(c.Cursors)-1].Marking = listing.Marking{}.With(mark, rapid.Bool().Draw(t, "on"))
	}
	if rapid.IntRange(0, 3).Draw(t, "snapshot") == 0 {
		c.Snapshot = []byte(fmt.Sprint(rapid.Byte().Draw(t, "snapshot byte")))
	}
	if rapid.IntRange(0, 5).Draw(t, "summary") > 0 {
		c.Summary = conversation.Summary{Title: "T", Owner: "alice", CreatedAt: modelStart, Activity: when.Draw(t, "activity"), Open: rapid.IntRange(0, 3).Draw(t, "open")}
	}
	if rapid.Bool().Draw(t, "wake") {
		c.WakeAt = when.Draw(t, "wakeAt")
	}
	return c
}

func (p *pair) delete(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "really") > 0 {
		return // else little lives long
	}
	k := p.key(t)
	p.same(t, "delete", p.db.Delete(context.Background(), k), p.model.Delete(context.Background(), k))
}

func listOf[T any](seq iter.Seq2[T, error]) (all []T, err error) {
	for v, err := range seq {
		if err != nil {
			return all, err
		}
		all = append(all, v)
	}
	return all, nil
}

func compare[T any](p *pair, t *rapid.T, what string, got, want iter.Seq2[T, error]) {
	g, gotErr := listOf(got)
	w, wantErr := listOf(want)
	p.same(t, what, gotErr, wantErr)
	if !reflect.DeepEqual(g, w) {
		t.Fatalf("%s:\n%+v\nthe model says\n%+v", what, g, w)
	}
}

// lists compares lists with random filters, limits and cursors.
func (p *pair) lists(t *rapid.T) {
	ctx := context.Background()
	when := modelStart.Add(time.Duration(rapid.IntRange(-1, 31).Draw(t, "until")) * 250 * time.Millisecond)
	compare(p, t, "due", p.db.Due(ctx, when, conversation.Member{}), p.model.Due(ctx, when, conversation.Member{}))

	page := conversation.Page{Tenant: rapid.SampledFrom(modelTenants).Draw(t, "tenant"), Oldest: rapid.Bool().Draw(t, "oldest"), Limit: rapid.IntRange(0, 3).Draw(t, "limit")}
	page.For = rapid.SampledFrom(append(modelUsers, "")).Draw(t, "for")
	if rapid.Bool().Draw(t, "cursor") {
		page.Cursor = fmt.Sprintf("%d.%s", when.UnixMilli(), rapid.SampledFrom(modelSessions).Draw(t, "behind"))
	}
	compare(p, t, fmt.Sprintf("sessions %+v", page), p.db.Sessions(ctx, page), p.model.Sessions(ctx, page))

	f := conversation.TaskFilter{Tenant: page.Tenant, Limit: page.Limit, Status: conversation.TaskStatus(rapid.IntRange(0, 6).Draw(t, "status"))}
	if rapid.Bool().Draw(t, "of one") {
		f.Session = rapid.SampledFrom(modelSessions).Draw(t, "session")
	}
	if n := rapid.IntRange(0, 12).Draw(t, "behind task"); n > 0 {
		s := f.Session
		if s == "" {
			s = "s1"
		}
		f.Cursor = conversation.TaskRow{Task: conversation.TaskID(fmt.Sprintf("t%d-%s", n, s)), CreatedAt: modelStart.Add(time.Duration(n/3) * time.Second)}.PageCursor()
	}
	compare(p, t, fmt.Sprintf("tasks %+v", f), p.db.Tasks(ctx, f), p.model.Tasks(ctx, f))
}

// check compares everything about the session that was touched last.
func (p *pair) check(t *rapid.T) {
	ctx, k := context.Background(), p.last
	gotHead, gotErr := p.db.Head(ctx, k)
	wantHead, wantErr := p.model.Head(ctx, k)
	p.same(t, "head", gotErr, wantErr)
	if !reflect.DeepEqual(gotHead, wantHead) {
		t.Fatalf("head of %s: %+v, the model says %+v", k, gotHead, wantHead)
	}
	gotSum, gotErr := p.db.Summary(ctx, k)
	wantSum, wantErr := p.model.Summary(ctx, k)
	p.same(t, "summary", gotErr, wantErr)
	if !reflect.DeepEqual(gotSum, wantSum) {
		t.Fatalf("summary of %s: %+v, the model says %+v", k, gotSum, wantSum)
	}
	r := conversation.Range{
		After: conversation.Seq(rapid.IntRange(0, 6).Draw(t, "after")), Before: conversation.Seq(rapid.IntRange(0, 9).Draw(t, "before")),
		Limit: rapid.IntRange(0, 3).Draw(t, "limit"), Reverse: rapid.Bool().Draw(t, "reverse"),
	}
	compare(p, t, fmt.Sprintf("records %+v", r), p.db.Records(ctx, k, r), p.model.Records(ctx, k, r))
	keys := []conversation.Key{{Source: "n1"}, {Source: "n1", Part: 2}, {Source: "n2", Part: 1}, {Author: "alice", Client: "1"}, {Author: "bob", Client: "2"}}
	got, gotErr := p.db.Find(ctx, k, keys)
	want, wantErr := p.model.Find(ctx, k, keys)
	p.same(t, "find", gotErr, wantErr)
	if !reflect.DeepEqual(got, want) {
		t.Fatalf("keys of %s: %v, the model says %v", k, got, want)
	}
}
