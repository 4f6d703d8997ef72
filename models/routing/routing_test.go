package routing

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/models/modelstest"
)

// fake answers each call with the next of its turns, the last one over and over.
type fake struct {
	name  string
	turns []turn
	mu    sync.Mutex
	calls []time.Time
	now   int // calls that run
	most  int
}

// turn is how one call goes: time, then text, then an error, the answer, or (cut)
// nothing.
type turn struct {
	takes time.Duration
	says  string
	err   error
	cut   bool
}

func (f *fake) Label() string { return f.name }

func (f *fake) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		f.mu.Lock()
		t := f.turns[min(len(f.calls), len(f.turns)-1)]
		f.calls = append(f.calls, time.Now())
		f.now++
		f.most = max(f.most, f.now)
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			f.now--
			f.mu.Unlock()
		}()
		if t.takes > 0 {
			select {
			case <-time.After(t.takes):
			case <-ctx.Done():
				yield(conversation.Output{}, ctx.Err())
				return
			}
		}
		if t.says != "" && r.Stream && !yield(conversation.Output{Delta: t.says}, nil) {
			return
		}
		switch {
		case t.err != nil:
			yield(conversation.Output{}, t.err)
		case !t.cut:
			yield(conversation.Output{Done: &conversation.ModelAnswer{
				ResponseID: f.name, Items: []conversation.Item{{Kind: conversation.ItemText, Text: t.says}}, Usage: conversation.Usage{InputTokens: 10, OutputTokens: 1},
			}}, nil)
		}
	}
}

func failing(permanent bool, usage int) error {
	e := &conversation.ModelError{Failure: conversation.Failure{Code: conversation.Unavailable, Message: "no luck"}, Permanent: permanent}
	if usage > 0 {
		e.Usage = &conversation.Usage{InputTokens: usage}
	}
	return e
}

// heard is a stream, read to its end.
type heard struct {
	text  string
	lives int
	done  *conversation.ModelAnswer
	err   error
}

func ask(ctx context.Context, m conversation.Model, attempt int) (h heard) {
	r := conversation.Request{Session: "s1", Task: "t1-s1", Step: 1, Attempt: attempt, Stream: true}
	for out, err := range m.Stream(ctx, r) {
		switch {
		case err != nil:
			h.err = err
		case out.Done != nil:
			h.done = out.Done
		case out.Delta != "":
			h.text += out.Delta
		default:
			h.lives++
		}
	}
	return h
}

// A route is a model like any other.
func TestSuite(t *testing.T) {
	modelstest.Run(t, func(t *testing.T, s modelstest.Scenario) (conversation.Model, conversation.Request) {
		limited, err := NewLimited(scenario(s), Limits{MaxConcurrent: 1, Calls: 1000, Per: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		m, err := New("route", limited, Options{MaxAttempts: 3, Fallback: []conversation.Model{&fake{name: "other", turns: []turn{{says: "wrong"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return m, s.Request()
	})
}

// scenario plays a scenario of the suite.
type scenario modelstest.Scenario

func (s scenario) Label() string { return "scenario" }

func (s scenario) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(conversation.Output{}, err)
			return
		}
		answer := conversation.ModelAnswer{Items: slices.Clone(s.Items), Usage: conversation.Usage{InputTokens: 1, OutputTokens: 1}}
		for i := range answer.Items {
			item := &answer.Items[i]
			if item.Kind == conversation.ItemCall {
				item.ID = fmt.Sprint("call_", i)
				continue
			}
			if !r.Stream {
				continue
			}
			text := item.Text
			if s.Cut || s.Hold {
				text = text[:len(text)/2]
			}
			if item.Streamed = true; !yield(conversation.Output{Item: i, Delta: text}, nil) {
				return
			}
			if s.Hold {
				<-ctx.Done()
				yield(conversation.Output{}, ctx.Err())
				return
			}
			if s.Cut {
				return
			}
		}
		yield(conversation.Output{Done: &answer}, nil)
	}
}

// Who is asked in which attempt, and what comes of it.
func TestFallback(t *testing.T) {
	answers, breaks := turn{says: "yes"}, turn{err: failing(false, 0)}
	refuses, cut := turn{err: failing(true, 0)}, turn{cut: true}
	halfway := turn{says: "hal", err: failing(false, 0)}
	strange := turn{err: errors.New("strange")}
	for _, c := range []struct {
		name    string
		models  []turn // the route's own and the fallbacks, each with one behaviour
		attempt int
		asked   string // who was asked, by number
		by      string // who answered; "" = nobody
		perm    bool
	}{
		{"the own one answers", []turn{answers, answers}, 1, "0", "0", false},
		{"it fails and is asked again", []turn{breaks, answers}, 1, "0", "", false},
		{"it has the attempt before the last, too", []turn{breaks, answers}, 2, "0", "", false},
		{"the fallback has the last attempt", []turn{breaks, answers}, 3, "1", "1", false},
		{"and those after it", []turn{breaks, answers}, 7, "1", "1", false},
		{"two fallbacks have the last two", []turn{breaks, answers, answers}, 2, "1", "1", false},
		{"the second one", []turn{breaks, breaks, answers}, 3, "2", "2", false},
		{"more fallbacks than attempts: one after the other", []turn{breaks, breaks, breaks, breaks, answers}, 3, "234", "4", false},
		{"a permanent failure does not wait", []turn{refuses, answers}, 1, "01", "1", false},
		{"nobody is left: one could be asked again", []turn{refuses, breaks}, 1, "01", "", false},
		{"nobody is left: no use asking again", []turn{refuses, refuses}, 1, "01", "", true},
		{"never after text was shown", []turn{halfway, answers}, 1, "0", "", false},
		{"not in the last attempt either", []turn{breaks, breaks, halfway, answers, answers}, 3, "2", "", false},
		{"a cut answer is a failure", []turn{breaks, breaks, cut, answers}, 3, "23", "3", false},
		{"a cut answer of the last one", []turn{cut}, 3, "0", "", false},
		{"an error that nobody understands", []turn{strange, answers}, 1, "0", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var models []*fake
			for i, behaviour := range c.models {
				models = append(models, &fake{name: fmt.Sprint(i), turns: []turn{behaviour}})
			}
			var fallback []conversation.Model
			for _, f := range models[1:] {
				fallback = append(fallback, f)
			}
			var log bytes.Buffer
			m, err := New("route", models[0], Options{Fallback: fallback, MaxAttempts: 3, Logger: slog.New(slog.NewTextHandler(&log, nil))})
			if err != nil {
				t.Fatal(err)
			}
			h := ask(t.Context(), m, c.attempt)
			asked := ""
			for _, f := range models {
				asked += strings.Repeat(f.name, len(f.calls))
			}
			by := ""
			if h.done != nil {
				by = h.done.ResponseID
			}
			var known *conversation.ModelError
			perm := errors.As(h.err, &known) && known.Permanent
			if asked != c.asked || by != c.by || perm != c.perm {
				t.Errorf("asked %q, answered by %q, permanent %v; want %q, %q, %v (%v)", asked, by, perm, c.asked, c.by, c.perm, h.err)
			}
			// The log says who answered if it was not the route's own.
			if said := strings.Contains(log.String(), "a fallback model has answered"); said != (by != "" && by != "0") {
				t.Errorf("the log says %s", log.String())
			}
			if m.Label() != "0" {
				t.Errorf("the label is %q", m.Label())
			}
			for i, n := range m.Fallbacks() {
				number := fmt.Sprint(i + 1)
				want := FallbackStats{Calls: int64(strings.Count(asked, number)), Answers: int64(strings.Count(by, number))}
				if n != want {
					t.Errorf("fallback %s has counted %+v, want %+v", number, n, want)
				}
			}
		})
	}
}

// What failed models counted is part of what the answer, or the failure, cost.
func TestUsageOfFailuresCounts(t *testing.T) {
	first := &fake{name: "first", turns: []turn{{err: failing(true, 5)}}}
	for _, c := range []struct {
		last turn
		want int
	}{{turn{says: "yes"}, 15}, {turn{err: failing(false, 7)}, 12}} {
		m, err := New("route", first, Options{Fallback: []conversation.Model{&fake{name: "last", turns: []turn{c.last}}}, MaxAttempts: 3})
		if err != nil {
			t.Fatal(err)
		}
		h := ask(t.Context(), m, 1)
		var known *conversation.ModelError
		got := 0
		if h.done != nil {
			got = h.done.Usage.InputTokens
		} else if errors.As(h.err, &known) && known.Usage != nil {
			got = known.Usage.InputTokens
		}
		if got != c.want {
			t.Errorf("%d tokens, want %d", got, c.want)
		}
	}
}

// An answer says who gave it when that is not the route's own model, so that
// events name the model that really answered.
func TestAnswerNamesItsModel(t *testing.T) {
	for _, c := range []struct {
		own  turn
		want string
	}{{turn{says: "mine"}, ""}, {turn{err: failing(true, 0)}, "last"}} {
		own := &fake{name: "own", turns: []turn{c.own}}
		m, err := New("route", own, Options{Fallback: []conversation.Model{&fake{name: "last", turns: []turn{{says: "yours"}}}}, MaxAttempts: 3})
		if err != nil {
			t.Fatal(err)
		}
		if h := ask(t.Context(), m, 1); h.done == nil || h.done.Model != c.want {
			t.Errorf("answered by %+v, want %q", h.done, c.want)
		}
	}
}

// A cancelled call asks nobody else.
func TestCancelledCallDoesNotFallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &fake{name: "other", turns: []turn{{says: "wrong"}}}
		m, err := New("route", &fake{name: "own", turns: []turn{{takes: time.Hour}}}, Options{Fallback: []conversation.Model{other}, MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if h := ask(ctx, m, 1); !errors.Is(h.err, context.DeadlineExceeded) || len(other.calls) != 0 {
			t.Errorf("%+v, the other was asked %d times", h, len(other.calls))
		}
	})
}

func limited(t *testing.T, f *fake, limits Limits) *Limited {
	t.Helper()
	l, err := NewLimited(f, limits)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// No more than max_concurrent calls at once; those who wait get their turn in
// order; who gives up leaves no hole.
func TestConcurrency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "f", turns: []turn{{takes: time.Second, says: "yes"}}}
		l := limited(t, f, Limits{MaxConcurrent: 2})
		began := time.Now()
		var order []int
		var mu sync.Mutex
		var all sync.WaitGroup
		for i := range 6 {
			all.Go(func() {
				if h := ask(t.Context(), l, 1); h.err != nil || h.done == nil {
					t.Errorf("call %d: %+v", i, h)
				}
				mu.Lock()
				order = append(order, i/2)
				mu.Unlock()
			})
			synctest.Wait() // they come one after the other
		}
		ctx, cancel := context.WithCancel(t.Context())
		var gone heard
		all.Go(func() { gone = ask(ctx, l, 1) })
		synctest.Wait()
		if s := l.Stats(); s != (Stats{Running: 2, Waiting: 5, Calls: 2}) {
			t.Errorf("while they wait: %+v", s)
		}
		cancel()
		synctest.Wait()
		if !errors.Is(gone.err, context.Canceled) {
			t.Errorf("the one that gave up: %+v", gone)
		}
		all.Wait()
		if f.most != 2 || time.Since(began) != 3*time.Second || !slices.IsSorted(order) {
			t.Errorf("%d at once, %s in all, in the order %v", f.most, time.Since(began), order)
		}
		if s := l.Stats(); s != (Stats{Calls: 6, Waited: 4, GaveUp: 1}) {
			t.Errorf("in the end: %+v", s)
		}
	})
}

// Giving up at the moment of getting the slot passes it on.
func TestSlotThatNobodyWantsAnyMore(t *testing.T) {
	g := &gate{free: 1}
	first, second, third := g.ask(), g.ask(), g.ask()
	if !first.granted() || second.granted() {
		t.Fatal("the first has the slot")
	}
	g.leave()
	if !second.granted() {
		t.Fatal("the second has it next")
	}
	g.giveUp(second)
	if !third.granted() {
		t.Fatal("the third was forgotten")
	}
	g.leave()
	if g.free != 1 || len(g.queue) != 0 {
		t.Errorf("%d are free, %d wait", g.free, len(g.queue))
	}
}

// The rate holds from both sides: what it allows begins at once, the rest later.
func TestRate(t *testing.T) {
	for _, c := range []struct {
		limits Limits
		want   []time.Duration // when calls begin that come all at once
	}{
		{Limits{Calls: 60, Per: time.Minute}, []time.Duration{0, 1, 2, 3}},
		{Limits{Calls: 2, Per: time.Second}, []time.Duration{0, 0, 500 * time.Millisecond, time.Second}},
		{Limits{Calls: 60, Per: time.Minute, Burst: 3}, []time.Duration{0, 0, 0, 1}},
		{Limits{}, []time.Duration{0, 0, 0, 0}},
	} {
		synctest.Test(t, func(t *testing.T) {
			f := &fake{name: "f", turns: []turn{{says: "yes"}}}
			l := limited(t, f, c.limits)
			began := time.Now()
			var all sync.WaitGroup
			for range c.want {
				all.Go(func() { ask(t.Context(), l, 1) })
			}
			all.Wait()
			for i, at := range f.calls {
				want := c.want[i]
				if want < time.Millisecond {
					want *= time.Second
				}
				if got := at.Sub(began).Round(time.Millisecond); got != want {
					t.Errorf("%+v: call %d began after %s, want %s", c.limits, i, got, want)
				}
			}
		})
	}
}

// Who waits for the rate and is cancelled gives place and turn back, at once.
func TestRateIsCancellable(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "f", turns: []turn{{says: "yes"}}}
		l := limited(t, f, Limits{Calls: 1, Per: time.Minute, MaxConcurrent: 1})
		ask(t.Context(), l, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		began := time.Now()
		if h := ask(ctx, l, 1); !errors.Is(h.err, context.DeadlineExceeded) || time.Since(began) != time.Second {
			t.Errorf("%+v after %s", h, time.Since(began))
		}
		if h := ask(t.Context(), l, 1); h.done == nil || time.Since(began) != time.Minute {
			t.Errorf("the next one: %+v after %s", h, time.Since(began))
		}
	})
}

// The engine gives up a model that says nothing; one that waits for its turn says
// that it lives. A caller that stops reading is let go.
func TestSignsOfLifeWhileWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fake{name: "f", turns: []turn{{takes: 35 * time.Second, says: "yes"}}}
		l := limited(t, f, Limits{MaxConcurrent: 1})
		var all sync.WaitGroup
		all.Go(func() { ask(t.Context(), l, 1) })
		synctest.Wait()
		all.Go(func() {
			for range l.Stream(t.Context(), conversation.Request{Stream: true}) {
				return
			}
		})
		synctest.Wait()
		all.Go(func() {
			for out := range l.Stream(t.Context(), conversation.Request{}) {
				if out.Done == nil {
					t.Errorf("%+v though no stream was wanted", out)
				}
			}
		})
		if h := ask(t.Context(), l, 1); h.lives < 3 || h.done == nil {
			t.Errorf("%+v", h)
		}
		all.Wait()
		if l.Stats().Running != 0 || l.gate.free != 1 {
			t.Errorf("a slot is lost: %+v", l.Stats())
		}
	})
}

func TestWrongOptions(t *testing.T) {
	f := &fake{name: "f"}
	if _, err := New("r", nil, Options{MaxAttempts: 1}); err == nil {
		t.Error("no model")
	}
	if _, err := New("r", f, Options{MaxAttempts: 1, Fallback: []conversation.Model{nil}}); err == nil {
		t.Error("no fallback")
	}
	if _, err := New("r", f, Options{}); err == nil {
		t.Error("no attempts")
	}
	for _, l := range []Limits{{MaxConcurrent: -1}, {Calls: -1}, {Calls: 1}, {Burst: 1}, {Calls: 1, Per: 1, Burst: -1}} {
		if _, err := NewLimited(f, l); err == nil {
			t.Errorf("%+v is taken", l)
		}
	}
	if _, err := NewLimited(nil, Limits{}); err == nil {
		t.Error("no model to limit")
	}
}
