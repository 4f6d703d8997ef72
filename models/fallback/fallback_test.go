package fallback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/models/modelstest"
)

// ask makes an attempt at a step, with a stream.
func ask(ctx context.Context, m conversation.Model, attempt int) modelstest.Heard {
	return modelstest.Ask(ctx, m, conversation.Request{Session: "s1", Task: "t1-s1", Step: 1, Attempt: attempt, Stream: true})
}

// A model with fallbacks is a model like any other.
func TestSuite(t *testing.T) {
	modelstest.Run(t, func(t *testing.T, s modelstest.Scenario) (conversation.Model, conversation.Request) {
		m, err := New("route", modelstest.Playing(s), Options{MaxAttempts: 3, Fallback: []conversation.Model{&modelstest.Fake{Name: "other", Turns: []modelstest.FakeTurn{{Says: "wrong"}}}}})
		if err != nil {
			t.Fatal(err)
		}
		return m, s.Request()
	})
}

// Who is asked in which attempt, and what comes of it.
func TestFallback(t *testing.T) {
	answers, breaks := modelstest.FakeTurn{Says: "yes"}, modelstest.FakeTurn{Err: modelstest.Failing(false, 0)}
	refuses, cut := modelstest.FakeTurn{Err: modelstest.Failing(true, 0)}, modelstest.FakeTurn{Cut: true}
	halfway := modelstest.FakeTurn{Says: "hal", Err: modelstest.Failing(false, 0)}
	strange := modelstest.FakeTurn{Err: errors.New("strange")}
	for _, c := range []struct {
		name    string
		models  []modelstest.FakeTurn // the route's own and the fallbacks, each with one behaviour
		attempt int
		asked   string // who was asked, by number
		by      string // who answered; "" = no model
		perm    bool
	}{
		{"the own one answers", []modelstest.FakeTurn{answers, answers}, 1, "0", "0", false},
		{"it fails and is asked again", []modelstest.FakeTurn{breaks, answers}, 1, "0", "", false},
		{"it has the attempt before the last, too", []modelstest.FakeTurn{breaks, answers}, 2, "0", "", false},
		{"the fallback has the last attempt", []modelstest.FakeTurn{breaks, answers}, 3, "1", "1", false},
		{"and those after it", []modelstest.FakeTurn{breaks, answers}, 7, "1", "1", false},
		{"two fallbacks have the last two", []modelstest.FakeTurn{breaks, answers, answers}, 2, "1", "1", false},
		{"the second one", []modelstest.FakeTurn{breaks, breaks, answers}, 3, "2", "2", false},
		{"more fallbacks than attempts: one after the other", []modelstest.FakeTurn{breaks, breaks, breaks, breaks, answers}, 3, "234", "4", false},
		{"a permanent failure does not wait", []modelstest.FakeTurn{refuses, answers}, 1, "01", "1", false},
		{"nobody is left: one could be asked again", []modelstest.FakeTurn{refuses, breaks}, 1, "01", "", false},
		{"nobody is left: no use asking again", []modelstest.FakeTurn{refuses, refuses}, 1, "01", "", true},
		{"never after text was shown", []modelstest.FakeTurn{halfway, answers}, 1, "0", "", false},
		{"not in the last attempt either", []modelstest.FakeTurn{breaks, breaks, halfway, answers, answers}, 3, "2", "", false},
		{"a cut answer is a failure", []modelstest.FakeTurn{breaks, breaks, cut, answers}, 3, "23", "3", false},
		{"a cut answer of the last one", []modelstest.FakeTurn{cut}, 3, "0", "", false},
		{"an error that nobody understands", []modelstest.FakeTurn{strange, answers}, 1, "0", "", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			var models []*modelstest.Fake
			for i, behaviour := range c.models {
				models = append(models, &modelstest.Fake{Name: fmt.Sprint(i), Turns: []modelstest.FakeTurn{behaviour}})
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
				asked += strings.Repeat(f.Name, len(f.Calls()))
			}
			by := ""
			if h.Done != nil {
				by = h.Done.ResponseID
			}
			var known *conversation.ModelError
			perm := errors.As(h.Err, &known) && known.Permanent
			if asked != c.asked || by != c.by || perm != c.perm {
				t.Errorf("asked %q, answered by %q, permanent %v; want %q, %q, %v (%v)", asked, by, perm, c.asked, c.by, c.perm, h.Err)
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
				want := Stats{Calls: int64(strings.Count(asked, number)), Answers: int64(strings.Count(by, number))}
				if n != want {
					t.Errorf("fallback %s has counted %+v, want %+v", number, n, want)
				}
			}
		})
	}
}

// What failed models counted is part of what the answer, or the failure, cost.
func TestUsageOfFailuresCounts(t *testing.T) {
	first := &modelstest.Fake{Name: "first", Turns: []modelstest.FakeTurn{{Err: modelstest.Failing(true, 5)}}}
	for _, c := range []struct {
		last modelstest.FakeTurn
		want conversation.Usage
	}{
		{modelstest.FakeTurn{Says: "yes"}, conversation.Usage{InputTokens: 15, CachedTokens: 1, OutputTokens: 1}},
		{modelstest.FakeTurn{Err: modelstest.Failing(false, 7)}, conversation.Usage{InputTokens: 12, CachedTokens: 2}},
	} {
		m, err := New("route", first, Options{Fallback: []conversation.Model{&modelstest.Fake{Name: "last", Turns: []modelstest.FakeTurn{c.last}}}, MaxAttempts: 3})
		if err != nil {
			t.Fatal(err)
		}
		h := ask(t.Context(), m, 1)
		var known *conversation.ModelError
		var got conversation.Usage
		if h.Done != nil {
			got = h.Done.Usage
		} else if errors.As(h.Err, &known) && known.Usage != nil {
			got = *known.Usage
		}
		if got != c.want {
			t.Errorf("%+v, want %+v", got, c.want)
		}
	}
}

// An answer says who gave it when that is not the route's own model, so that
// events name the model that really answered.
func TestAnswerNamesItsModel(t *testing.T) {
	for _, c := range []struct {
		own  modelstest.FakeTurn
		want string
	}{{modelstest.FakeTurn{Says: "mine"}, ""}, {modelstest.FakeTurn{Err: modelstest.Failing(true, 0)}, "last"}} {
		own := &modelstest.Fake{Name: "own", Turns: []modelstest.FakeTurn{c.own}}
		m, err := New("route", own, Options{Fallback: []conversation.Model{&modelstest.Fake{Name: "last", Turns: []modelstest.FakeTurn{{Says: "yours"}}}}, MaxAttempts: 3})
		if err != nil {
			t.Fatal(err)
		}
		if h := ask(t.Context(), m, 1); h.Done == nil || h.Done.Model != c.want {
			t.Errorf("answered by %+v, want %q", h.Done, c.want)
		}
	}
}

// A cancelled call asks no other model.
func TestCancelledCallDoesNotFallBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		other := &modelstest.Fake{Name: "other", Turns: []modelstest.FakeTurn{{Says: "wrong"}}}
		m, err := New("route", &modelstest.Fake{Name: "own", Turns: []modelstest.FakeTurn{{Takes: time.Hour}}}, Options{Fallback: []conversation.Model{other}, MaxAttempts: 1})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if h := ask(ctx, m, 1); !errors.Is(h.Err, context.DeadlineExceeded) || len(other.Calls()) != 0 {
			t.Errorf("%+v, the other was asked %d times", h, len(other.Calls()))
		}
	})
}

func TestWrongOptions(t *testing.T) {
	f := &modelstest.Fake{Name: "f"}
	if _, err := New("r", nil, Options{MaxAttempts: 1}); err == nil {
		t.Error("no model")
	}
	if _, err := New("r", f, Options{MaxAttempts: 1, Fallback: []conversation.Model{nil}}); err == nil {
		t.Error("no fallback")
	}
	if _, err := New("r", f, Options{}); err == nil {
		t.Error("no attempts")
	}
}

// N-07: after a model that acts no other is asked, unless it has certainly done nothing.
// The failure says whether that is so.
func TestActingModelsAreAskedOnce(t *testing.T) {
	failing := func(permanent, nothingRan bool) modelstest.FakeTurn {
		return modelstest.FakeTurn{Err: &conversation.ModelError{Permanent: permanent, NothingRan: nothingRan}}
	}
	answers, cut := modelstest.FakeTurn{Says: "yes"}, modelstest.FakeTurn{Cut: true}
	for _, c := range []struct {
		name       string
		own, other modelstest.FakeTurn
		acts       []bool
		attempt    int
		asked      string
		nothingRan bool
	}{
		{"it has failed", failing(true, false), answers, []bool{true, false}, 1, "0", false},
		{"it could not be started", failing(true, true), answers, []bool{true, false}, 1, "01", false},
		{"its answer was cut", cut, answers, []bool{true, false}, 1, "0", false},
		{"only its fallback acts", failing(true, false), failing(true, false), []bool{false, true}, 1, "01", false},
		{"and could not be started", failing(true, false), failing(true, true), []bool{false, true}, 1, "01", true},
		{"nor was asked", failing(false, false), answers, []bool{false, true}, 1, "0", true},
		{"in the last attempt", failing(false, false), failing(false, false), []bool{false, true}, 2, "1", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			own, other := &modelstest.Fake{Turns: []modelstest.FakeTurn{c.own}}, &modelstest.Fake{Turns: []modelstest.FakeTurn{c.other}}
			m, err := New("route", own, Options{Fallback: []conversation.Model{other}, Acts: c.acts, MaxAttempts: 2})
			if err != nil {
				t.Fatal(err)
			}
			h := ask(t.Context(), m, c.attempt)
			if asked := strings.Repeat("0", len(own.Calls())) + strings.Repeat("1", len(other.Calls())); asked != c.asked {
				t.Errorf("asked %q, want %q", asked, c.asked)
			}
			var failure *conversation.ModelError
			if errors.As(h.Err, &failure) && failure.NothingRan != c.nothingRan {
				t.Errorf("nothing ran: %v", failure.NothingRan)
			}
		})
	}
}

// A model that wants to be left alone for longer than the engine waits is passed over, at
// once and until then; what it says within that is the engine's business.
func TestPassedOver(t *testing.T) {
	later := func(d time.Duration) modelstest.FakeTurn {
		return modelstest.FakeTurn{Err: &conversation.ModelError{Failure: conversation.Failure{Code: conversation.RateLimited, Message: "later"}, RetryAfter: d}}
	}
	answers, refuses := modelstest.FakeTurn{Says: "yes"}, modelstest.FakeTurn{Err: modelstest.Failing(true, 0)}
	for _, c := range []struct {
		name   string
		models []modelstest.FakeTurn
		asked  []string // at the first attempt, at once again, and an hour later
		perm   bool     // what the first attempt failed with
	}{
		{"in an hour", []modelstest.FakeTurn{later(time.Hour), answers}, []string{"01", "1", "01"}, false},
		{"within what the engine waits", []modelstest.FakeTurn{later(5 * time.Minute), answers}, []string{"0", "0", "0"}, false},
		{"nobody is left that could be asked again", []modelstest.FakeTurn{later(time.Hour), refuses}, []string{"01", "1", "01"}, true},
		{"all want to be left alone: the last one is asked", []modelstest.FakeTurn{later(time.Hour), later(2 * time.Hour)}, []string{"01", "1", "01"}, true},
		{"a later one", []modelstest.FakeTurn{refuses, later(time.Hour), answers}, []string{"012", "02", "012"}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var fakes []*modelstest.Fake
				var models []conversation.Model
				for i, turn := range c.models {
					fake := &modelstest.Fake{Name: fmt.Sprint(i), Turns: []modelstest.FakeTurn{turn}}
					fakes, models = append(fakes, fake), append(models, fake)
				}
				m, err := New("route", models[0], Options{Fallback: models[1:], MaxAttempts: 3, MaxRetryAfter: 5 * time.Minute})
				if err != nil {
					t.Fatal(err)
				}
				for i, want := range c.asked {
					if i == 2 {
						<-time.After(time.Hour)
					}
					before := make([]int, len(fakes))
					for n, f := range fakes {
						before[n] = len(f.Calls())
					}
					h := ask(t.Context(), m, 1)
					asked := ""
					for n, f := range fakes {
						asked += strings.Repeat(fmt.Sprint(n), len(f.Calls())-before[n])
					}
					if asked != want {
						t.Errorf("round %d: %s were asked, want %s", i, asked, want)
					}
					var known *conversation.ModelError
					if i == 0 && errors.As(h.Err, &known) && known.Permanent != c.perm {
						t.Errorf("permanent %v", known.Permanent)
					}
				}
			})
		})
	}
}

// The last attempt is the fallback's; while that wants to be left alone, it is the route's
// own model's.
func TestFallbackIsPassedOver(t *testing.T) {
	own := &modelstest.Fake{Name: "0", Turns: []modelstest.FakeTurn{{Says: "yes"}}}
	other := &modelstest.Fake{Name: "1", Turns: []modelstest.FakeTurn{{Err: &conversation.ModelError{RetryAfter: time.Hour}}}}
	m, err := New("route", own, Options{Fallback: []conversation.Model{other}, MaxAttempts: 3, MaxRetryAfter: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct{ own, other int }{{0, 1}, {1, 1}} {
		if ask(t.Context(), m, 3); len(own.Calls()) != want.own || len(other.Calls()) != want.other {
			t.Errorf("round %d: %d and %d calls", i, len(own.Calls()), len(other.Calls()))
		}
	}
}
