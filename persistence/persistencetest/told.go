package persistencetest

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"parley/conversation"
)

// commitTold sends a commit and returns what it will be told.
func (f *fixture) commitTold(k conversation.SessionKey, c conversation.Commit) <-chan error {
	f.Helper()
	end := make(chan error, 2) // a second answer does not block, and is found
	f.CommitAsync(f.ctx, k, &c, func(err error) { end <- err })
	return end
}

// after makes a commit of n events that follow h, with a key for each.
func after(h conversation.Head, n int) conversation.Commit {
	c := conversation.Commit{
		Epoch: h.Epoch, After: h.Last, ID: conversation.CommitID(fmt.Sprintf("told-%d-%d", h.Epoch, h.Last)),
		Events: said(h.Last, n), Summary: summary(noon), WakeAt: at(float64(h.Last)),
	}
	for _, e := range c.Events {
		c.Keys = append(c.Keys, part("told", int(e.Seq), e.Seq))
	}
	return c
}

// manyAtOnce has many sessions commit one thing after the other, each as soon as it is
// told of the one before.
func manyAtOnce(f *fixture) {
	const sessions, commits = 60, 15
	ends := make(chan func(), sessions)
	left := sessions
	var send func(k conversation.SessionKey, h conversation.Head, n int)
	send = func(k conversation.SessionKey, h conversation.Head, n int) {
		c := after(h, 1+n%3)
		f.CommitAsync(f.ctx, k, &c, func(err error) {
			ends <- func() { // done must not call the store
				if err != nil {
					f.Errorf("commit %d to %s: %v", n, k, err)
				}
				if h.Last += conversation.Seq(len(c.Events)); err != nil || n == commits {
					left--
					return
				}
				send(k, h, n+1)
			}
		})
	}
	for i := range sessions {
		id := fmt.Sprintf("s%d", i/2)
		if i%2 == 1 {
			id += "/d1"
		}
		send(key(id), f.acquire(key(id)), 1)
	}
	for left > 0 {
		(<-ends)()
	}
	for i := range sessions / 2 {
		for _, id := range []string{fmt.Sprintf("s%d", i), fmt.Sprintf("s%d/d1", i)} {
			events := 0
			for _, rec := range collect(f, f.Records(f.ctx, key(id), conversation.Range{})) {
				events += len(rec.Events)
			}
			if h := f.head(key(id)); h.Last != 30 || events != 30 {
				f.Errorf("%s: last %d with %d events, want 30", id, h.Last, events)
			}
		}
	}
}

// toldRefusals are told what Commit would have returned, once each, and write nothing.
func toldRefusals(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	f.want(<-f.commitTold(k, after(h, 2)), nil, "the first commit")
	f.want(<-f.commitTold(k, after(h, 1)), conversation.ErrConflict, "a commit after an old seq")
	was := h
	was.Last = 2
	again := after(was, 1)
	again.Keys[0].Key.Part = 1
	var dup *conversation.DuplicateError
	if err := <-f.commitTold(k, again); !errors.As(err, &dup) || dup.Seq != 1 {
		f.Errorf("a key again: %v", err)
	}
	live := f.ctx
	ended, cancel := context.WithCancel(f.ctx)
	cancel()
	f.ctx = ended
	f.want(<-f.commitTold(k, after(was, 1)), context.Canceled, "a commit whose context has ended")
	f.ctx = live

	// Fenced while it is under way, or before: what is told agrees with the log.
	first := f.commitTold(k, after(was, 1))
	now := f.acquire(k)
	err := <-first
	if err == nil != (now.Last == 3) || err != nil && !errors.Is(err, conversation.ErrFenced) {
		f.Errorf("a commit beside an acquisition that found seq %d: %v", now.Last, err)
	}
	f.want(<-f.commitTold(k, after(was, 1)), conversation.ErrFenced, "a commit of the old epoch")
	f.equal(f.head(k).Last, now.Last, "last seq")
	f.want(<-f.commitTold(k, after(now, 1)), nil, "a commit of the new epoch")
	if err := f.Delete(f.ctx, k); err != nil {
		f.Fatal(err)
	}
	now.Last++
	f.want(<-f.commitTold(k, after(now, 1)), conversation.ErrFenced, "a commit to an erased session")
	if len(first) != 0 {
		f.Errorf("told twice: %v", <-first)
	}
}

// toldWhileClosing closes the store beside commits: each is told once, and after Close
// none is written any more.
func toldWhileClosing(f *fixture) {
	const sessions = 20
	var all []<-chan error
	heads := make([]conversation.Head, sessions)
	for i := range sessions {
		heads[i] = f.acquire(key(fmt.Sprintf("s%d", i)))
	}
	var closed sync.WaitGroup
	for i := range sessions {
		if i == sessions/2 {
			closed.Go(func() {
				if err := f.Close(); err != nil {
					f.Errorf("close: %v", err)
				}
			})
		}
		all = append(all, f.commitTold(key(fmt.Sprintf("s%d", i)), after(heads[i], 1)))
	}
	for i, end := range all {
		if err := <-end; err != nil && !errors.Is(err, conversation.ErrClosed) {
			f.Errorf("commit %d: %v", i, err)
		}
	}
	closed.Wait()
	f.want(<-f.commitTold(key("s0"), after(heads[0], 1)), conversation.ErrClosed, "a commit to a closed store")
	for i, end := range all {
		if len(end) != 0 {
			f.Errorf("commit %d was told twice: %v", i, <-end)
		}
	}
}

// toldReaders reads beside commits that are under way: what was told is there, and
// nothing is there in part.
func toldReaders(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	for range 40 {
		end := f.commitTold(k, after(h, 3))
		for told := false; !told; {
			select {
			case err := <-end:
				if told = true; err != nil {
					f.Fatal(err)
				}
				h.Last += 3
			default:
			}
			head := f.head(k)
			found, err := f.Find(f.ctx, k, []conversation.Key{part("told", int(h.Last), 0).Key})
			if err != nil || told && found[0] != h.Last || head.Last < h.Last || head.Last > h.Last+3 || head.Last%3 != 0 {
				f.Fatalf("told of %d: the head is at %d, its key at %v: %v", h.Last, head.Last, found, err)
			}
			last := conversation.Seq(0)
			for _, rec := range collect(f, f.Records(f.ctx, k, conversation.Range{})) {
				last = rec.Events[len(rec.Events)-1].Seq
			}
			if last < head.Last {
				f.Fatalf("the head is at %d, the records end at %d", head.Last, last)
			}
		}
	}
}

// mayHold never says no to a stored key, whoever stored it.
func mayHold(f *fixture) {
	k := key("s1")
	h := f.acquire(k)
	var stored []conversation.Key
	check := func(when string) {
		f.Helper()
		for _, s := range stored {
			if !f.MayHold(k, s) {
				f.Fatalf("%s: %s is stored, and MayHold says no", when, s)
			}
		}
	}
	for i := range 8 {
		c := after(h, 50)
		c.Keys = append(c.Keys, client(alice, fmt.Sprintf("c%d", i), h.Last+1))
		f.want(<-f.commitTold(k, c), nil, "commit")
		h.Last += 50
		for _, at := range c.Keys {
			stored = append(stored, at.Key)
		}
		check(fmt.Sprintf("%d keys", len(stored)))
	}
	again := f.acquire(k)
	check("acquired again")
	if old, ok := f.opened.(interface {
		PutLegacyPart(key conversation.SessionKey, source conversation.SourceID, seq conversation.Seq) error
	}); ok {
		if err := old.PutLegacyPart(k, "old", 1); err != nil {
			f.Fatal(err)
		}
		stored = append(stored, part("old", 0, 0).Key)
		check("an old key")
	}
	f.want(<-f.commitTold(k, after(again, 1)), nil, "commit")
	check("after all")
}
