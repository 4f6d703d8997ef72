package modelstest

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"parley/conversation"
)

// Fake is a model that answers each call with the next of its turns, the last one
// over and over. It may be used by any number of goroutines.
type Fake struct {
	Name  string // also the id of its answers
	Turns []FakeTurn

	mu      sync.Mutex
	calls   []time.Time
	running int
	most    int
}

// FakeTurn is the course of one call: time, then text, then an error, the answer, or (Cut)
// nothing.
type FakeTurn struct {
	Takes time.Duration
	Says  string
	Err   error
	Cut   bool
	Stop  conversation.StopReason // why the answer ends
}

var _ conversation.Model = (*Fake)(nil)

// Calls returns when each call so far began.
func (f *Fake) Calls() []time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.calls)
}

// Most returns how many calls have run at once, at most.
func (f *Fake) Most() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.most
}

// Label returns the name.
func (f *Fake) Label() string { return f.Name }

// Stream plays the next turn. The text is streamed only if that is wanted.
func (f *Fake) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		f.mu.Lock()
		t := f.Turns[min(len(f.calls), len(f.Turns)-1)]
		f.calls = append(f.calls, time.Now())
		f.running++
		f.most = max(f.most, f.running)
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			f.running--
			f.mu.Unlock()
		}()
		if t.Takes > 0 {
			select {
			case <-time.After(t.Takes):
			case <-ctx.Done():
				yield(conversation.Output{}, ctx.Err())
				return
			}
		}
		if t.Says != "" && r.Stream && !yield(conversation.Output{Delta: t.Says}, nil) {
			return
		}
		switch {
		case t.Err != nil:
			yield(conversation.Output{}, t.Err)
		case !t.Cut:
			yield(conversation.Output{Done: &conversation.ModelAnswer{
				ResponseID: f.Name, Stop: t.Stop, Items: []conversation.Item{{Kind: conversation.ItemText, Text: t.Says}}, Usage: conversation.Usage{InputTokens: 10, OutputTokens: 1},
			}}, nil)
		}
	}
}

// Failing returns the error of a model that has failed, and has counted so many tokens
// of input, one of them cached; 0 = it has not counted.
func Failing(permanent bool, usage int) error {
	e := &conversation.ModelError{Failure: conversation.Failure{Code: conversation.Unavailable, Message: "no luck"}, Permanent: permanent}
	if usage > 0 {
		e.Usage = &conversation.Usage{InputTokens: usage, CachedTokens: 1}
	}
	return e
}

// Playing is a model that plays a scenario of the suite.
type Playing Scenario

var _ conversation.Model = Playing{}

// Label is "scenario".
func (s Playing) Label() string { return "scenario" }

// Stream plays it.
func (s Playing) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
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
