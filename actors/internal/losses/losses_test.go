package losses

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

func named(name string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(name)}
}

func inBubble(t *testing.T, f func(t *testing.T, l *Losses)) {
	synctest.Test(t, func(t *testing.T) {
		f(t, New(Options{Pause: time.Second, MaxPause: 15 * time.Second, Age: time.Hour, Limit: 100}))
	})
}

// A session was lost until it is loaded again, once.
func TestLostUntilLoaded(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Losses) {
		if l.Loaded(named("a")) {
			t.Error("it was never lost")
		}
		l.Note(named("a"))
		time.Sleep(59 * time.Minute)
		if !l.Loaded(named("a")) || l.Loaded(named("a")) {
			t.Error("it was lost, and is there again")
		}
	})
}

// The pauses of one session grow while it is lost again and again, and begin anew afterwards; those
// of others do not.
func TestPauses(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Losses) {
		for _, want := range []time.Duration{1, 2, 4, 8, 15, 15} {
			if got := l.Note(named("a")); got != want*time.Second {
				t.Errorf("%v, not %v s", got, want)
			}
			l.Loaded(named("a"))
			time.Sleep(20 * time.Second)
		}
		if got := l.Note(named("b")); got != time.Second {
			t.Errorf("another one: %v", got)
		}
		time.Sleep(time.Minute)
		if got := l.Note(named("a")); got != time.Second {
			t.Errorf("it has kept for a while: %v", got)
		}
	})
}

// What nobody loads again here is forgotten, by its age and by the number of others.
func TestForgotten(t *testing.T) {
	inBubble(t, func(t *testing.T, l *Losses) {
		l.Note(named("a"))
		time.Sleep(2 * time.Hour)
		if n := l.Count(); n != 0 || l.Loaded(named("a")) {
			t.Errorf("%d are remembered after two hours", n)
		}
		for i := range 1000 {
			l.Note(named(fmt.Sprint(i)))
			time.Sleep(time.Second)
		}
		if n := l.Count(); n > 200 {
			t.Errorf("%d are remembered", n)
		}
		if !l.Loaded(named("999")) || !l.Loaded(named("900")) {
			t.Error("the last ones are not")
		}
		for i := range 100 { // less than the limit, in two ages
			l.Note(named(fmt.Sprint("x", i)))
			time.Sleep(100 * time.Second)
		}
		if n := l.Count(); n > 80 {
			t.Errorf("%d are remembered of two hours", n)
		}
	})
}
