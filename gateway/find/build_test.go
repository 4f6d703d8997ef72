package find

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/search"
	"parley/metrics"
)

// Run takes all sessions into the index, also those that were there before, and then those that
// go on; one that cannot be read is not in the way.
func TestRunBringsTheIndexUpToTheLogs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		talks := map[string]*talk{}
		for i := range 20 {
			w.now = w.now.Add(time.Second)
			name := fmt.Sprintf("s%02d", i)
			talks[name] = w.session(key([]string{"acme", "zeus"}[i%2], name), "ann")
			for range 40 * i {
				w.say(talks[name], "common")
			}
		}
		w.store.FailReads(talks["s03"].sum.Key, conversation.ErrDamaged)
		m := metrics.NewSearch(prometheus.NewRegistry())
		f := New(w.store, w, Options{Messages: true}, m)
		ctx, cancel := context.WithCancel(t.Context())
		go f.Run(ctx)
		behind := func() (all []string) {
			synctest.Wait()
			w.mu.Lock()
			defer w.mu.Unlock()
			for name, s := range talks {
				if w.upto[s.sum.Key] != s.last {
					all = append(all, name)
				}
			}
			return all
		}
		if left := behind(); len(left) != 1 || left[0] != "s03" || count(m.LeftOut) != 1 {
			t.Errorf("after the start %v are behind", left)
		}
		w.now = w.now.Add(time.Second)
		w.say(talks["s05"], "more")
		if left := behind(); len(left) != 2 {
			t.Errorf("at once %v are behind", left)
		}
		time.Sleep(buildEvery)
		if left := behind(); len(left) != 1 || count(m.Sessions) != 21 {
			t.Errorf("later %v are behind, %v sessions were looked at", left, count(m.Sessions))
		}
		w.store.FailReads(talks["s05"].sum.Key, conversation.ErrUnread)
		w.now = w.now.Add(time.Second)
		w.say(talks["s07"], "more") // it stands behind the one that cannot be read now
		w.store.FailReads(talks["s07"].sum.Key, conversation.ErrUnread)
		time.Sleep(buildEvery)
		synctest.Wait()
		w.store.FailReads(talks["s07"].sum.Key, nil)
		time.Sleep(buildEvery)
		if left := behind(); len(left) != 1 || count(m.BuildErrors) != 1 {
			t.Errorf("after a failure %v are behind, %v failures", left, count(m.BuildErrors))
		}
		cancel()
		synctest.Wait()
	})
}

// follower is a guide that notes what goes on; it does not know where to look.
type follower struct {
	*world
	followed, whole int
	noted           map[conversation.SessionKey]bool // true = it cannot be kept
}

func (f *follower) Follow() {
	f.followed, f.whole, f.noted = f.followed+1, 0, map[conversation.SessionKey]bool{}
}
func (f *follower) Whole() { f.whole++ }

func (f *follower) Unread(k conversation.SessionKey) { f.noted[k] = true }

func (f *follower) Behind(_ context.Context, most int) (all []conversation.SessionKey, whole bool, err error) {
	for k, t := range f.of {
		if f.upto[k] < t.last && !f.noted[k] && len(all) < most {
			all = append(all, k)
		}
	}
	return all, f.whole > 0, nil
}

func (f *follower) Where(context.Context, conversation.TenantID, conversation.UserID, search.Query, string, int) (w search.Where, ok bool, err error) {
	return w, false, nil
}

// With a guide all sessions are looked at once, then those that it names, until it has lost them.
func TestBuildFollowsAGuide(t *testing.T) {
	w := newWorld()
	for i := range 600 {
		w.say(w.session(key("acme", fmt.Sprintf("s%03d", i)), "ann"), "text")
	}
	broken := key("acme", "s003")
	w.store.FailReads(broken, conversation.ErrDamaged)
	m := metrics.NewSearch(prometheus.NewRegistry())
	g := &follower{world: w}
	f := New(w.store, g, Options{Messages: true}, m)
	round := func(looked float64, behind int) {
		t.Helper()
		before := count(m.Sessions)
		if err := f.Build(t.Context()); err != nil {
			t.Error(err)
		}
		n := 0
		for k, t := range w.of {
			if w.upto[k] < t.last {
				n++
			}
		}
		if is := count(m.Sessions) - before; is != looked || n != behind || g.whole != 1 {
			t.Errorf("%v sessions were looked at instead of %v, %d are behind, whole %d", is, looked, n, g.whole)
		}
	}
	round(600, 1)
	if !g.noted[broken] {
		t.Error("a session that cannot be read is not noted")
	}
	round(0, 1)
	for i := 4; i < 300; i++ {
		w.do(w.session(key("acme", fmt.Sprintf("s%03d", i)), "ann"), conversation.SessionUpdated{}) // the list does not show it
	}
	round(296, 1)
	g.whole = 0 // it has lost them
	w.store.FailReads(broken, nil)
	round(600, 0)
	if g.followed != 2 {
		t.Errorf("it was followed %d times", g.followed)
	}
	unread := count(m.LeftOut)
	w.say(w.of[broken], "more")
	w.say(w.of[key("acme", "s001")], "more")
	w.store.FailReads(broken, conversation.ErrDamaged)
	round(2, 1)
	if count(m.LeftOut) != unread+1 {
		t.Error("a session that cannot be read any more is not counted")
	}
	delete(g.noted, broken)
	w.store.FailReads(broken, conversation.ErrUnread)
	if err := f.Build(t.Context()); err == nil {
		t.Error("a store that cannot be asked is no error")
	}
	w.store.FailReads(broken, nil)
	round(1, 0)
}
