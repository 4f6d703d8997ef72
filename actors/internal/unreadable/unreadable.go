package unreadable

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"parley/conversation"
)

const (
	patience     = 3                // failures before a session is left alone
	firstPause   = time.Minute      // for how long then
	longestPause = time.Hour        // and at most
	lineEvery    = time.Second      // between two lines about single sessions
	summaryEvery = 10 * time.Minute // between two lines that count
	most         = 10_000           // sessions that are remembered
)

// Stage says what could not be done with a session.
type Stage uint8

// The stages. A session that was loaded may still meet damage when it commits.
const (
	Load Stage = iota
	Commit
)

// Sessions remembers which sessions cannot be read.
type Sessions struct {
	log   *slog.Logger
	gauge interface{ Set(float64) }

	count atomic.Int64 // of known; most engines look at nothing else

	mu        sync.Mutex
	known     map[conversation.SessionKey]*entry
	failures  int // since the last summary
	unnamed   int // sessions without a line of their own, since the last one
	lastLine  time.Time
	summaryAt time.Time // of the last one
}

type entry struct {
	stage    Stage
	failures int
	pause    time.Duration
	until    time.Time
}

// New makes an empty memory that shows its size on gauge.
func New(log *slog.Logger, gauge interface{ Set(float64) }) *Sessions {
	return &Sessions{log: log, gauge: gauge, known: map[conversation.SessionKey]*entry{}}
}

// Cause is true for errors that say of a session that it cannot be read, however
// often it is tried.
func Cause(err error) bool {
	return errors.Is(err, conversation.ErrDamaged) || errors.Is(err, conversation.ErrTooNew)
}

// Count is how many sessions are known not to be readable.
func (s *Sessions) Count() int { return int(s.count.Load()) }

// Failed notes that a session could not be read. Errors that are no Cause are not noted.
func (s *Sessions) Failed(key conversation.SessionKey, stage Stage, err error) {
	if !Cause(err) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	s.failures++
	e := s.known[key]
	if e == nil {
		s.line(now, key, err)
		if len(s.known) >= most {
			return
		}
		e = &entry{}
		s.known[key] = e
		s.changed()
	}
	e.stage = max(e.stage, stage)
	if e.failures++; e.failures >= patience {
		e.pause = min(max(2*e.pause, firstPause), longestPause)
		e.until = now.Add(e.pause)
	}
}

// line writes about one session, unless it has just done so. The caller holds mu.
func (s *Sessions) line(now time.Time, key conversation.SessionKey, err error) {
	if now.Sub(s.lastLine) < lineEvery {
		s.unnamed++
		return
	}
	if s.summaryAt.IsZero() {
		s.summaryAt = now
	}
	s.log.Error("what is stored of a session cannot be read; it is left as it is",
		"session", key.Session, "tenant", key.Tenant, "others", s.unnamed, "error", err)
	s.lastLine, s.unnamed = now, 0
}

// Worked notes that a session could be loaded, or could commit: nothing is wrong
// with it up to that stage.
func (s *Sessions) Worked(key conversation.SessionKey, stage Stage) {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if e := s.known[key]; e != nil && e.stage <= stage {
		s.forget(key)
	}
}

// Gone forgets a session that is not there any more.
func (s *Sessions) Gone(key conversation.SessionKey) { s.Worked(key, Commit) }

func (s *Sessions) forget(key conversation.SessionKey) {
	delete(s.known, key)
	s.changed()
}

func (s *Sessions) changed() {
	s.count.Store(int64(len(s.known)))
	s.gauge.Set(float64(len(s.known)))
}

// LeaveAlone is true while a session is not worth another try.
func (s *Sessions) LeaveAlone(key conversation.SessionKey) bool {
	if s.count.Load() == 0 {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	e := s.known[key]
	return e != nil && e.failures >= patience && time.Now().Before(e.until)
}

// Report writes a line about all of them, once in a while. The engine calls it with
// every scan.
func (s *Sessions) Report() {
	if s.count.Load() == 0 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if now := time.Now(); now.Sub(s.summaryAt) >= summaryEvery {
		s.log.Error("sessions cannot be read because of what is stored of them; an operator has to look at the store",
			"sessions", len(s.known), "failures", s.failures)
		s.summaryAt, s.failures = now, 0
	}
}
