package service

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

// watched is an Authenticator that takes everything back at once when told.
type watched struct {
	NoAuth
	mu    sync.Mutex
	ended map[int]func()
	gone  bool
}

func (w *watched) Watch(_ *Principal, ended func()) func() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.gone {
		return nil
	}
	n := len(w.ended)
	w.ended[n] = ended
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.ended, n)
	}
}

func (w *watched) takeBack() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.gone = true
	for _, ended := range w.ended {
		go ended()
	}
}

func TestLease(t *testing.T) {
	type world struct {
		w     *watched
		l     *Lease
		until func(life time.Duration) *Principal
	}
	for _, row := range []struct {
		name string
		life time.Duration // 0 = for ever
		do   func(x world)
		at   time.Duration // when it ends
		want *conversation.Error
	}{
		{"for ever", 0, func(world) {}, 0, nil},
		{"expires", time.Second, func(world) {}, time.Second, ErrTokenExpired},
		{"taken back", time.Hour, func(x world) { time.Sleep(time.Minute); x.w.takeBack() }, time.Minute, ErrRevoked},
		{"renewed for longer", time.Second, func(x world) { x.l.Renew(x.until(time.Minute)) }, time.Minute, ErrTokenExpired},
		{"renewed for ever", time.Second, func(x world) { x.l.Renew(&Principal{Credential: "other"}) }, 0, nil},
		{"renewed for less", time.Hour, func(x world) { x.l.Renew(x.until(time.Second)) }, time.Second, ErrTokenExpired},
		{"taken back, then renewed", time.Hour, func(x world) { x.w.takeBack(); synctest.Wait(); x.l.Renew(x.until(time.Minute)) }, 0, ErrRevoked},
		{"renewed with what was taken back", time.Hour, func(x world) { x.w.gone = true; x.l.Renew(x.until(time.Minute)) }, 0, ErrRevoked},
		{"released", time.Second, func(x world) { x.l.Release(); x.w.takeBack() }, 0, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := &watched{ended: map[int]func(){}}
				s := &Services{Auth: w, Now: time.Now}
				began := time.Now()
				until := func(life time.Duration) *Principal {
					p := &Principal{Credential: "k1"}
					if life != 0 {
						p.Expires = time.Now().Add(life)
					}
					return p
				}
				var got []*conversation.Error
				var at time.Duration
				l := s.Lease(until(row.life), func(e *conversation.Error) { got, at = append(got, e), time.Since(began) })
				row.do(world{w, l, until})
				time.Sleep(2 * time.Hour)
				synctest.Wait()
				switch {
				case row.want == nil:
					if len(got) != 0 {
						t.Errorf("it ended: %v", got)
					}
				case len(got) != 1 || got[0] != row.want || at != row.at || l.Over() != row.want:
					t.Errorf("it ended %v after %v, over %v", got, at, l.Over())
				}
				l.Release()
				if len(w.ended) > 0 {
					t.Errorf("%d watches are left", len(w.ended))
				}
			})
		})
	}
}

// Who begins with what is over already learns it from the lease, not from a call.
func TestLeaseOverFromTheBeginning(t *testing.T) {
	w := &watched{ended: map[int]func(){}, gone: true}
	s := &Services{Auth: w, Now: time.Now}
	for _, row := range []struct {
		who  *Principal
		want *conversation.Error
	}{{&Principal{Credential: "k1"}, ErrRevoked}, {&Principal{Expires: time.Now().Add(-time.Second)}, ErrTokenExpired}} {
		l := s.Lease(row.who, func(e *conversation.Error) { t.Errorf("ended with %v", e) })
		if l.Over() != row.want {
			t.Errorf("over: %v, want %v", l.Over(), row.want)
		}
		l.Release()
	}
}

// A timer may be late, because the machine slept: the clock counts.
func TestLeaseLooksAtTheClock(t *testing.T) {
	now := time.Now()
	s := &Services{Auth: NoAuth{}, Now: func() time.Time { return now }}
	l := s.Lease(&Principal{Expires: now.Add(time.Hour)}, func(*conversation.Error) {})
	defer l.Release()
	if l.Over() != nil {
		t.Error("it is over before its end")
	}
	now = now.Add(time.Hour)
	if l.Over() != ErrTokenExpired {
		t.Error("its end is not noticed")
	}
}
