package find

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
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
