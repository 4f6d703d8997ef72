package unreadable

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
)

type gauge float64

func (g *gauge) Set(v float64) { *g = gauge(v) }

func key(i int) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprint("s", i))}
}

// with runs f in a bubble with a memory, its gauge and its log.
func with(t *testing.T, f func(t *testing.T, s *Sessions, shown *gauge, log *bytes.Buffer)) {
	synctest.Test(t, func(t *testing.T) {
		var shown gauge
		var log bytes.Buffer
		f(t, New(slog.New(slog.NewTextHandler(&log, nil)), &shown), &shown, &log)
	})
}

// The pauses begin with the third failure and grow to an hour; a failure that says
// nothing about what is stored counts for nothing.
func TestPauses(t *testing.T) {
	with(t, func(t *testing.T, s *Sessions, shown *gauge, _ *bytes.Buffer) {
		s.Failed(key(1), Load, errors.New("the line is dead"))
		if s.Count() != 0 {
			t.Fatal("an outage counts as damage")
		}
		for i, want := range []time.Duration{0, 0, 1, 2, 4, 8, 16, 32, 60, 60} {
			s.Failed(key(1), Load, fmt.Errorf("event 7: %w", conversation.ErrDamaged))
			pause := time.Duration(0)
			for s.LeaveAlone(key(1)) {
				time.Sleep(time.Minute)
				pause++
			}
			if pause != want {
				t.Errorf("failure %d: left alone for %d minutes, want %d", i+1, pause, want)
			}
		}
		if s.LeaveAlone(key(2)) || s.Count() != 1 || *shown != 1 {
			t.Errorf("another session, %d known, %v shown", s.Count(), *shown)
		}
	})
}

func TestForgets(t *testing.T) {
	for _, c := range []struct {
		name   string
		failed Stage
		then   func(*Sessions)
		left   int
	}{
		{"loaded again", Load, func(s *Sessions) { s.Worked(key(1), Load) }, 0},
		{"loaded again, and it could not commit", Commit, func(s *Sessions) { s.Worked(key(1), Load) }, 1},
		{"committed", Commit, func(s *Sessions) { s.Worked(key(1), Commit) }, 0},
		{"another one was loaded", Load, func(s *Sessions) { s.Worked(key(2), Commit) }, 1},
		{"erased", Commit, func(s *Sessions) { s.Gone(key(1)) }, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			with(t, func(t *testing.T, s *Sessions, shown *gauge, _ *bytes.Buffer) {
				for range patience {
					s.Failed(key(1), c.failed, conversation.ErrTooNew)
				}
				c.then(s)
				if s.Count() != c.left || int(*shown) != c.left || s.LeaveAlone(key(1)) != (c.left == 1) {
					t.Errorf("%d known, %v shown, left alone %v", s.Count(), *shown, s.LeaveAlone(key(1)))
				}
			})
		})
	}
}

// A damaged table with many sessions fills neither the log nor the memory.
func TestMany(t *testing.T) {
	with(t, func(t *testing.T, s *Sessions, _ *gauge, log *bytes.Buffer) {
		for i := range 2 * most {
			s.Failed(key(i), Load, conversation.ErrDamaged)
			if i%100 == 99 {
				time.Sleep(100 * time.Millisecond) // 20 s in all
			}
		}
		for range 60 {
			time.Sleep(15 * time.Second)
			s.Report()
		}
		if s.Count() != most {
			t.Errorf("%d are remembered", s.Count())
		}
		if n := strings.Count(log.String(), "level=ERROR"); n < 15 || n > 25 {
			t.Errorf("%d lines", n)
		}
		if want := fmt.Sprintf("sessions=%d failures=%d", most, 2*most); !strings.Contains(log.String(), want) {
			t.Errorf("no line says %q", want)
		}
	})
}
