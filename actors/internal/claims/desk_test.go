package claims

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/metrics"
)

// sessions stand in for the engine: what the store lists, and sessions that hand out
// at once, unless they are told to answer otherwise.
type sessions struct {
	t    *testing.T
	desk *Desk

	mu      sync.Mutex
	stored  map[conversation.SessionID]conversation.Claimable
	refuse  map[conversation.SessionID]error
	handed  map[conversation.SessionID]int // hand-outs to another runtime
	reads   int
	listing func() // called in the middle of a list
	asking  func() // called when a session is asked
	failing error
}

func newSessions(t *testing.T) *sessions {
	s := &sessions{t: t, stored: map[conversation.SessionID]conversation.Claimable{}, refuse: map[conversation.SessionID]error{}, handed: map[conversation.SessionID]int{}}
	s.desk = New(Options{List: s.list, HandOut: s.handOut, Event: s.event, Metrics: metrics.NewActors(prometheus.NewRegistry())})
	t.Cleanup(s.desk.Close)
	return s
}

func at(id string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(id)}
}

func (s *sessions) list(_ context.Context, tenant conversation.TenantID) iter.Seq2[conversation.ClaimableAt, error] {
	return func(yield func(conversation.ClaimableAt, error) bool) {
		s.mu.Lock()
		s.reads++
		var all []conversation.ClaimableAt
		if tenant == "acme" {
			for id, c := range s.stored {
				all = append(all, conversation.ClaimableAt{Key: at(string(id)), Claimable: c})
			}
		}
		listing, failing := s.listing, s.failing
		s.listing = nil
		s.mu.Unlock()
		slices.SortFunc(all, func(a, b conversation.ClaimableAt) int { return a.Since.Compare(b.Since) })
		if listing != nil {
			listing()
		}
		if failing != nil {
			yield(conversation.ClaimableAt{}, failing)
			return
		}
		for _, c := range all {
			if !yield(c, nil) {
				return
			}
		}
	}
}

// handOut does what a session does: it stores, tells the desk, and answers.
func (s *sessions) handOut(key conversation.SessionKey, c conversation.HandOut, done func(conversation.Receipt, error)) {
	if asking := s.asking; asking != nil {
		s.asking = nil
		asking()
	}
	s.mu.Lock()
	stored, ok := s.stored[key.Session]
	err := s.refuse[key.Session]
	if err == nil && (!ok || stored.Runtime != "" && stored.Runtime != c.Runtime) {
		err = conversation.Errorf(conversation.Conflict, "it is not to be had")
	}
	anew := err == nil && stored.Runtime == "" // the same hand-out again stores nothing, and says nothing
	if anew {
		s.handed[key.Session]++
		stored.Runtime = c.Runtime
		s.stored[key.Session] = stored
	}
	s.mu.Unlock()
	if anew {
		s.desk.Set(key, &stored)
	}
	go done(conversation.Receipt{Message: conversation.MessageID("m1-" + key.Session)}, err)
}

// event is the message of a session that has one.
func (s *sessions) event(_ context.Context, key conversation.SessionKey, _ conversation.Seq) (conversation.Event, error) {
	if key.Session == "unreadable" {
		return conversation.Event{}, conversation.ErrUnread
	}
	return conversation.Event{Body: conversation.MessageAccepted{Text: "text of " + string(key.Session)}}, nil
}

// waits makes a message of a session wait that is so many seconds old.
func (s *sessions) waits(id string, second int, change func(*conversation.Claimable)) {
	c := conversation.Claimable{Task: conversation.TaskID("t1-" + id), Agent: "outside", Since: time.Unix(int64(second), 0)}
	if change != nil {
		change(&c)
	}
	s.mu.Lock()
	s.stored[conversation.SessionID(id)] = c
	s.mu.Unlock()
	s.desk.Set(at(id), &c)
}

// waitsUnsaid makes a message wait in a session of another node, whose word is lost.
func (s *sessions) waitsUnsaid(id string, second int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stored[conversation.SessionID(id)] = conversation.Claimable{Task: conversation.TaskID("t1-" + id), Agent: "outside", Since: time.Unix(int64(second), 0)}
}

// gone: the session's runtime has said something, or its task has ended.
func (s *sessions) gone(id string) {
	s.mu.Lock()
	delete(s.stored, conversation.SessionID(id))
	s.mu.Unlock()
	s.desk.Set(at(id), nil)
}

func (s *sessions) claim(r conversation.ClaimRequest) string {
	s.t.Helper()
	r.Tenant = "acme"
	given, err := s.desk.Claim(s.t.Context(), r)
	if err != nil {
		s.t.Errorf("claim: %v", err)
	}
	var ids []string
	for _, g := range given {
		ids = append(ids, string(g.Key.Session))
	}
	return strings.Join(ids, " ")
}

func (s *sessions) want(got, want, what string) {
	s.t.Helper()
	if got != want {
		s.t.Errorf("%s: %q, not %q", what, got, want)
	}
}

func TestDesk(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s *sessions)
	}{
		{"the oldest first, and each once", func(t *testing.T, s *sessions) {
			s.waits("b", 2, nil)
			s.waits("d", 4, nil)
			s.waits("a", 1, nil)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "a", "of what the store lists")
			s.waits("c", 3, nil)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2", Limit: 2}), "b c", "with a limit")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r3", Limit: 9}), "d", "what is left")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r4"}), "", "nothing is left")
			if s.reads != 1 {
				t.Errorf("the list was read %d times", s.reads)
			}
		}},
		{"a lost answer is given again, and only to the same name", func(_ *testing.T, s *sessions) {
			s.waits("a", 1, nil)
			s.waits("b", 2, nil)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "a", "first")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "b", "another name")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "a", "the same name")
			s.gone("a") // it has given a sign of life
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "", "after a sign of life")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "b", "the other is not concerned")
		}},
		{"what was handed out before the start is found again", func(_ *testing.T, s *sessions) {
			s.stored["a"] = conversation.Claimable{Agent: "outside", Since: time.Unix(1, 0), Runtime: "r1"}
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "", "another name")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "a", "the same name")
		}},
		{"agents", func(_ *testing.T, s *sessions) {
			gpu := func(c *conversation.Claimable) { c.Agent = "outside:gpu" }
			s.waits("a", 1, nil)
			s.waits("b", 2, gpu)
			s.waits("c", 3, gpu)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Agent: "outside:gpu"}), "b", "of one agent")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Agent: "outside"}), "a", "of the other")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2", Agent: "outside"}), "", "no more of that")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "c", "of any")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Agent: "outside:gpu", Limit: 3}), "b", "again, of one agent")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Limit: 3}), "a b", "again, of any")
		}},
		{"claims wait in their order", func(_ *testing.T, s *sessions) {
			got := make([]string, 3)
			var all sync.WaitGroup
			for i := range got {
				agent := conversation.AgentName("")
				if i == 1 {
					agent = "outside:gpu"
				}
				all.Go(func() {
					got[i] = s.claim(conversation.ClaimRequest{Runtime: conversation.RuntimeName(fmt.Sprint("r", i)), Agent: agent, Wait: 30 * time.Second})
				})
				synctest.Wait()
			}
			time.Sleep(time.Second)
			s.waits("a", 1, nil)
			synctest.Wait()
			s.waits("b", 2, nil)
			s.waits("c", 3, nil)
			all.Wait()
			s.want(strings.Join(got, ","), "a,,b", "first come, first served, as far as the agent is theirs")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r9"}), "c", "what nobody has waited for")
		}},
		{"a wait ends", func(t *testing.T, s *sessions) {
			begun := time.Now()
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Wait: 30 * time.Second}), "", "nothing")
			if took := time.Since(begun); took != 30*time.Second {
				t.Errorf("it has waited for %v", took)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			if _, err := s.desk.Claim(ctx, conversation.ClaimRequest{Tenant: "acme", Runtime: "r1", Wait: 30 * time.Second}); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a client that has gone: %v", err)
			}
			s.waits("a", 1, nil)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "a", "nobody waits any more")
			go func() { time.Sleep(time.Second); s.desk.Close() }()
			begun = time.Now()
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2", Wait: time.Hour, Agent: "outside:x"}), "", "closed")
			if took := time.Since(begun); took != time.Second {
				t.Errorf("after the end it has waited for %v", took)
			}
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2", Wait: time.Hour}), "", "after the end")
		}},
		{"not before its time", func(t *testing.T, s *sessions) {
			s.waits("a", 1, func(c *conversation.Claimable) { c.From = time.Now().Add(3 * time.Second) })
			s.waits("b", 2, func(c *conversation.Claimable) { c.From = time.Now().Add(time.Second) })
			begun := time.Now()
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "", "at once")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Wait: time.Minute}), "b", "the first one")
			s.gone("b")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Wait: time.Minute}), "a", "the second one")
			if took := time.Since(begun); took != 3*time.Second {
				t.Errorf("after %v", took)
			}
		}},
		{"sessions that refuse", func(t *testing.T, s *sessions) {
			s.waits("a", 1, nil)
			s.waits("b", 2, nil)
			s.waits("c", 3, nil)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r0", Agent: "outside:x"}), "", "the list is in memory")
			s.refuse["a"] = conversation.Errorf(conversation.Unavailable, "not now")
			s.refuse["b"] = conversation.Errorf(conversation.NotFound, "erased")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "c", "the next one that has something")
			delete(s.refuse, "b")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "", "one that does not come back by itself")
			delete(s.refuse, "a")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2", Wait: 5 * time.Second}), "a", "one that was away")
			s.waits("b", 2, nil)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2", Limit: 3}), "a b", "one that says so again")
		}},
		{"what is said while the session is asked", func(t *testing.T, s *sessions) {
			s.waits("a", 1, nil)
			s.asking = func() {
				s.waits("a", 1, nil) // a commit of before
				s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "", "another claim")
			}
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "a", "the first claim")
			if s.handed["a"] != 1 {
				t.Errorf("it was handed out %d times", s.handed["a"])
			}
		}},
		{"what is said while the list is read", func(t *testing.T, s *sessions) {
			s.stored["a"] = conversation.Claimable{Agent: "outside", Since: time.Unix(1, 0)}
			s.stored["b"] = conversation.Claimable{Agent: "outside", Since: time.Unix(2, 0)}
			s.listing = func() {
				s.gone("a")
				s.waits("c", 0, nil)
			}
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Limit: 5}), "c b", "the newest word counts")
		}},
		{"a list that cannot be read", func(t *testing.T, s *sessions) {
			s.waits("a", 1, nil)
			s.failing = errors.New("broken")
			if _, err := s.desk.Claim(t.Context(), conversation.ClaimRequest{Tenant: "acme", Runtime: "r1"}); err == nil {
				t.Error("it was read")
			}
			s.failing = nil
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "a", "later")
		}},
		{"a message that cannot be read", func(t *testing.T, s *sessions) {
			s.waits("unreadable", 1, nil)
			s.waits("b", 2, nil)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Limit: 2}), "b", "beside another")
			if out, err := s.desk.Claim(t.Context(), conversation.ClaimRequest{Tenant: "acme", Runtime: "r1"}); len(out) > 0 || !errors.Is(err, conversation.ErrUnread) {
				t.Errorf("alone: %+v, %v", out, err)
			}
		}},
		{"a tenant without claims costs nothing", func(t *testing.T, s *sessions) {
			s.waits("a", 1, func(c *conversation.Claimable) { c.From = time.Now().Add(time.Hour) })
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "", "not yet")
			time.Sleep(keepShelf + time.Second)
			s.waits("b", 2, nil)
			if n := len(s.desk.shelves); n != 0 {
				t.Errorf("%d lists are in memory", n)
			}
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "b", "read again")
			given, err := s.desk.Claim(t.Context(), conversation.ClaimRequest{Tenant: "another", Runtime: "r1"})
			if len(given) > 0 || err != nil || s.reads != 3 {
				t.Errorf("another tenant: %v, %v; %d reads", given, err, s.reads)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { c.run(t, newSessions(t)) })
		})
	}
}

// Two desks share a store, as those of two nodes do, and what one says to the other is
// lost: a runtime that waits for the other's session gets its message a few seconds later.
func TestLostOffers(t *testing.T) {
	for _, c := range []struct {
		name string
		run  func(t *testing.T, s *sessions)
	}{
		{"a claim that waits", func(t *testing.T, s *sessions) {
			go func() { time.Sleep(time.Second); s.waitsUnsaid("a", 1) }()
			begun := time.Now()
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Wait: 2 * lookAgain}), "a", "the lost offer")
			if took := time.Since(begun); took != lookAgain {
				t.Errorf("after %v", took)
			}
		}},
		{"claims that do not wait", func(_ *testing.T, s *sessions) {
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "", "before")
			s.waitsUnsaid("a", 1)
			time.Sleep(lookAgain + time.Millisecond)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "a", "the lost offer")
		}},
		{"of what was handed out by the other desk, and is over", func(_ *testing.T, s *sessions) {
			s.waits("a", 1, func(c *conversation.Claimable) { c.Runtime = "r1" })
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "", "it is another's")
			s.waitsUnsaid("a", 1) // its lease has run out
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2", Wait: 2 * lookAgain}), "a", "after that")
			s.mu.Lock()
			delete(s.stored, "a")
			s.mu.Unlock()
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r3", Wait: 2 * lookAgain}), "", "it has ended")
			if n := len(s.desk.shelves["acme"].entries); n != 0 {
				s.t.Errorf("%d are believed to wait", n)
			}
		}},
		{"what is said while the list is read counts more", func(_ *testing.T, s *sessions) {
			s.waits("a", 1, func(c *conversation.Claimable) { c.From = time.Now().Add(time.Hour) })
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "", "not yet")
			s.waitsUnsaid("b", 2)
			s.listing = func() {
				s.gone("b")
				s.waits("c", 3, nil)
			}
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Wait: time.Minute}), "c", "the newest word")
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r2"}), "", "what is gone")
		}},
		{"a session that was away is not asked more often", func(t *testing.T, s *sessions) {
			s.waits("a", 1, nil)
			s.refuse["a"] = conversation.Errorf(conversation.Unavailable, "not now")
			asked := 0
			hand := s.desk.o.HandOut
			s.desk.o.HandOut = func(key conversation.SessionKey, c conversation.HandOut, done func(conversation.Receipt, error)) {
				asked++
				hand(key, c, done)
			}
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Wait: time.Minute - time.Millisecond}), "", "it does not answer")
			if asked != 60 {
				t.Errorf("asked %d times in a minute", asked)
			}
		}},
		{"the list cannot be read for a while", func(_ *testing.T, s *sessions) {
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "", "before")
			s.waitsUnsaid("a", 1)
			s.failing = errors.New("broken")
			go func() { time.Sleep(3*lookAgain - time.Second); s.mu.Lock(); s.failing = nil; s.mu.Unlock() }()
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Wait: time.Minute}), "a", "then")
		}},
		{"nobody waits: nothing is read", func(t *testing.T, s *sessions) {
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "", "nothing")
			time.Sleep(time.Hour)
			s.mu.Lock()
			reads := s.reads
			s.mu.Unlock()
			if reads != 2 {
				t.Errorf("the list was read %d times", reads)
			}
			s.waits("a", 1, nil)
			s.want(s.claim(conversation.ClaimRequest{Runtime: "r1"}), "a", "later")
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newSessions(t)
				s.desk = New(Options{
					List: s.list, HandOut: s.handOut, Event: s.event, Metrics: metrics.NewActors(prometheus.NewRegistry()),
					Told: func(conversation.SessionKey, *conversation.Claimable) {},
				})
				defer s.desk.Close()
				c.run(t, s)
			})
		})
	}
}

// A desk that is alone hears everything: it reads its list once.
func TestAloneReadsOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t)
		s.want(s.claim(conversation.ClaimRequest{Runtime: "r1", Wait: 9 * time.Minute}), "", "nothing")
		if s.reads != 1 {
			t.Errorf("the list was read %d times", s.reads)
		}
	})
}

// Many claims at once: each message goes to one of them.
func TestClaimsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSessions(t)
		const messages, runtimes = 2000, 40
		for i := range messages / 2 {
			s.waits(fmt.Sprintf("s%04d", i), i, nil)
		}
		var all sync.WaitGroup
		for r := range runtimes {
			all.Go(func() {
				for {
					got := s.claim(conversation.ClaimRequest{Runtime: conversation.RuntimeName(fmt.Sprint("r", r)), Limit: 1 + r%3, Wait: 10 * time.Second})
					if got == "" {
						return
					}
					for _, id := range strings.Fields(got) {
						s.gone(id)
					}
				}
			})
		}
		for i := messages / 2; i < messages; i++ {
			s.waits(fmt.Sprintf("s%04d", i), i, nil)
		}
		all.Wait()
		for i := range messages {
			if id := fmt.Sprintf("s%04d", i); s.handed[conversation.SessionID(id)] != 1 {
				t.Errorf("%s was handed out %d times", id, s.handed[conversation.SessionID(id)])
			}
		}
	})
}
