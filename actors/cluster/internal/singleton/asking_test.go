package singleton

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

var errBroken = errors.New("the link is broken")

// net is switches that reach each other, more or less.
type net struct {
	mu    sync.Mutex
	nodes map[conversation.Member]*Switch
	owner map[conversation.Member]conversation.Member // as each node sees it
	runs  map[conversation.Member]Answerer
	lossy *rand.Rand // nil = nothing gets lost
}

func self(name string) conversation.Member {
	return conversation.Member{Node: conversation.NodeID(name), Incarnation: 1}
}

func newNet(names ...string) *net {
	n := &net{nodes: map[conversation.Member]*Switch{}, owner: map[conversation.Member]conversation.Member{}, runs: map[conversation.Member]Answerer{}}
	for _, name := range names {
		me := self(name)
		n.owner[me] = self(names[0])
		n.nodes[me] = NewSwitch(SwitchOptions{
			Self: me, Log: slog.New(slog.DiscardHandler),
			Owner:  func(string) (conversation.Member, bool) { n.mu.Lock(); defer n.mu.Unlock(); return n.owner[me], true },
			Answer: func(string) Answerer { n.mu.Lock(); defer n.mu.Unlock(); return n.runs[me] },
			Send:   func(to conversation.Member, body []byte) { n.nodes[to].Receive(me, body, nil) },
			Request: func(to conversation.Member, body []byte, _ time.Duration, done func([]byte, error)) {
				n.request(me, to, body, done)
			},
		})
	}
	return n
}

func (n *net) dice(sides int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.lossy == nil {
		return -1
	}
	return n.lossy.IntN(sides)
}

func (n *net) request(from, to conversation.Member, body []byte, done func([]byte, error)) {
	switch n.dice(10) {
	case 0:
		done(nil, fmt.Errorf("%w: %w", member.ErrNotRunning, errBroken)) // it was not sent
		return
	case 1:
		go func() { time.Sleep(time.Second); done(nil, errBroken) }() // it was lost
		return
	case 2:
		n.nodes[to].Receive(from, body, func([]byte) { done(nil, errBroken) }) // the answer was
		return
	}
	n.nodes[to].Receive(from, body, func(b []byte) { done(b, nil) })
}

func (n *net) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

func deaf(context.Context, []byte) ([]byte, error) { return nil, nil }

// Any node asks the one that runs it, and hears what that says and asks meanwhile.
func TestAsk(t *testing.T) {
	for _, asker := range []string{"a", "b"} {
		t.Run("by "+asker, func(t *testing.T) {
			n := newNet("a", "b")
			n.runs[self("a")] = func(ctx context.Context, body []byte, back Back) ([]byte, bool) {
				back.Tell([]byte("working"))
				name, err := back.Ask(ctx, []byte("who?"))
				if err != nil {
					t.Error(err)
				}
				return fmt.Appendf(nil, "%s, %s", body, name), true
			}
			var mu sync.Mutex
			var told []string
			hear := func(_ context.Context, body []byte) ([]byte, error) {
				mu.Lock()
				defer mu.Unlock()
				told = append(told, string(body))
				return []byte("Ada"), nil
			}
			got, err := n.nodes[self(asker)].Ask(t.Context(), "s", []byte("hello"), 0, hear)
			if err != nil || string(got) != "hello, Ada" || strings.Join(told, " ") != "working who?" {
				t.Errorf("%s, %v; told %q", got, err, told)
			}
		})
	}
}

// What ends a request without an answer.
func TestAskEnds(t *testing.T) {
	for _, asker := range []string{"a", "b"} {
		for name, c := range map[string]struct {
			answer func(ctx context.Context, end func()) ([]byte, bool)
			want   error
		}{
			"nobody runs it":        {nil, member.ErrNotRunning},
			"it takes none":         {func(context.Context, func()) ([]byte, bool) { return nil, false }, member.ErrNotRunning},
			"it panics":             {func(context.Context, func()) ([]byte, bool) { panic("boom") }, member.ErrUnanswered},
			"it says too much":      {func(context.Context, func()) ([]byte, bool) { return make([]byte, maxBody+1), true }, member.ErrUnanswered},
			"nobody waits any more": {func(ctx context.Context, end func()) ([]byte, bool) { end(); <-ctx.Done(); return nil, true }, context.Canceled},
		} {
			t.Run(name+" by "+asker, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					n := newNet("a", "b")
					ctx, end := context.WithCancel(t.Context())
					defer end()
					if c.answer != nil {
						n.runs[self("a")] = func(ctx context.Context, _ []byte, _ Back) ([]byte, bool) { return c.answer(ctx, end) }
					}
					if _, err := n.nodes[self(asker)].Ask(ctx, "s", nil, time.Second, deaf); !errors.Is(err, c.want) {
						t.Errorf("%v, not %v", err, c.want)
					}
					synctest.Wait() // nothing of it is left
					if left := len(n.nodes[self("a")].taken) + len(n.nodes[self("b")].asked); left != 0 {
						t.Errorf("%d requests are left", left)
					}
				})
			})
		}
	}
	if _, err := newNet("a").nodes[self("a")].Ask(t.Context(), "s", make([]byte, maxBody+1), 0, deaf); !errors.Is(err, errTooLarge) {
		t.Errorf("a request that is too large: %v", err)
	}
}

// A request waits until some node runs it, and follows it to another one.
func TestAskWaits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet("a", "b", "c")
		go func() {
			time.Sleep(3 * time.Second)
			n.set(func() { n.owner[self("c")] = self("b") })
			n.nodes[self("c")].Changed(func(conversation.Member) bool { return true })
			time.Sleep(3 * time.Second)
			n.set(func() {
				n.runs[self("b")] = func(context.Context, []byte, Back) ([]byte, bool) { return []byte("here"), true }
			})
		}()
		if got, err := n.nodes[self("c")].Ask(t.Context(), "s", nil, 10*time.Second, deaf); err != nil || string(got) != "here" {
			t.Errorf("%s, %v", got, err)
		}
	})
}

// What is under way when the singleton ends has no answer; what a node asks that is gone is
// ended.
func TestAskStopped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := newNet("a", "b")
		causes := make(chan error, 2)
		n.runs[self("a")] = func(ctx context.Context, _ []byte, _ Back) ([]byte, bool) {
			<-ctx.Done()
			causes <- context.Cause(ctx)
			return []byte("too late"), true
		}
		ask := func() chan error {
			ended := make(chan error, 1)
			go func() { _, err := n.nodes[self("b")].Ask(t.Context(), "s", nil, time.Second, deaf); ended <- err }()
			synctest.Wait()
			return ended
		}
		ended := ask()
		n.nodes[self("a")].Stopped("other")
		n.nodes[self("a")].Stopped("s")
		if err := <-ended; !errors.Is(err, member.ErrUnanswered) || !errors.Is(<-causes, errStopped) {
			t.Error(err)
		}
		ended = ask()
		n.nodes[self("a")].Changed(func(m conversation.Member) bool { return m != self("b") })
		if err := <-causes; !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		<-ended
	})
}

// Whatever gets lost, a request is carried out once at most; an answer means that it was, and
// ErrNotRunning that it was not.
func TestAskAtMostOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		seed := rand.Uint64()
		t.Logf("seed %d", seed)
		n := newNet("a", "b", "c")
		n.lossy = rand.New(rand.NewPCG(seed, 1))
		var mu sync.Mutex
		times := map[string]int{}
		for m := range n.nodes {
			n.runs[m] = func(_ context.Context, body []byte, _ Back) ([]byte, bool) {
				if n.dice(4) == 0 {
					return nil, false
				}
				mu.Lock()
				defer mu.Unlock()
				times[string(body)]++
				return body, true
			}
		}
		counts := map[string]int{}
		for i := range 600 {
			body := fmt.Sprint(i)
			n.set(func() { n.owner[self("c")] = self([]string{"a", "b"}[i%2]) })
			got, err := n.nodes[self("c")].Ask(t.Context(), "s", []byte(body), time.Duration(i%3)*10*time.Millisecond, deaf)
			mu.Lock()
			did := times[body]
			mu.Unlock()
			switch {
			case err == nil && (did != 1 || string(got) != body):
				t.Fatalf("%s was answered %s and done %d times", body, got, did)
			case errors.Is(err, member.ErrNotRunning) && did != 0:
				t.Fatalf("%s was not run and done %d times", body, did)
			case did > 1:
				t.Fatalf("%s was done %d times: %v", body, did, err)
			}
			counts[fmt.Sprint(errors.Is(err, member.ErrUnanswered), errors.Is(err, member.ErrNotRunning), did)]++
		}
		if len(counts) < 4 { // answered; unanswered and done; unanswered and not; not run
			t.Errorf("not all ends were seen: %v", counts)
		}
	})
}
