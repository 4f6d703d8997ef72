package logs

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"parley/metrics"
)

const (
	// Window is the time in which repeated lines are counted.
	Window = 10 * time.Second
	// maxKinds bounds the kinds of lines that are remembered. Messages are texts of the
	// program, so there are fewer; one that is not remembered is written.
	maxKinds = 1024
)

// Handler writes lines by another handler.
//
// A line is a repetition of another one if level, room and message are the same, at
// WARN or above. What differs between them (which session, which model) does not make
// them new: what is broken is broken for a thousand sessions at once, and the first few
// say which. Lines at INFO and below are never left out. Each of them tells of another
// thing that was done (a task has ended, a request was answered): a log that lacks some
// of them is of no use, and level and log.requests are the ways to have fewer.
//
// When a window ends in which lines were left out, one line says how many.
type Handler struct {
	to    slog.Handler
	room  string
	state *state
}

// state is shared by all handlers that were made of one.
type state struct {
	limit   int
	plain   slog.Handler // without the attributes of any
	lines   map[slog.Level]levelCounts
	mu      sync.Mutex
	kinds   map[kind]*count
	flushed bool
}

type levelCounts struct{ written, left func() }

type kind struct {
	level slog.Level
	room  string
	text  string
}

type count struct {
	ends  time.Time
	seen  int
	left  int
	timer *time.Timer // nil = nothing was left out in this window
}

// New makes a handler that lets at most limit lines of a kind through in a Window; 0 = all.
func New(to slog.Handler, limit int, m *metrics.Log) *Handler {
	s := &state{limit: limit, plain: to, lines: map[slog.Level]levelCounts{}, kinds: map[kind]*count{}}
	for _, level := range []slog.Level{slog.LevelDebug, slog.LevelInfo, slog.LevelWarn, slog.LevelError} {
		s.lines[level] = levelCounts{written: m.Lines.WithLabelValues(name(level)).Inc, left: m.Suppressed.WithLabelValues(name(level)).Inc}
	}
	return &Handler{to: to, state: s}
}

// name is a level's label.
func name(l slog.Level) string {
	switch {
	case l >= slog.LevelError:
		return "error"
	case l >= slog.LevelWarn:
		return "warn"
	case l >= slog.LevelInfo:
		return "info"
	}
	return "debug"
}

// named is the level that counts a level.
func named(l slog.Level) slog.Level {
	return min(max(l-(l%4+4)%4, slog.LevelDebug), slog.LevelError)
}

// Enabled implements slog.Handler.
func (h *Handler) Enabled(ctx context.Context, l slog.Level) bool { return h.to.Enabled(ctx, l) }

// Handle implements slog.Handler.
func (h *Handler) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelWarn && h.state.limit > 0 && !h.state.admit(kind{r.Level, h.room, r.Message}) {
		h.state.lines[named(r.Level)].left()
		return nil
	}
	h.state.lines[named(r.Level)].written()
	return h.to.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (h *Handler) WithAttrs(list []slog.Attr) slog.Handler {
	out := &Handler{to: h.to.WithAttrs(list), room: h.room, state: h.state}
	for _, a := range list {
		if a.Key == "room" {
			out.room = a.Value.String()
		}
	}
	return out
}

// WithGroup implements slog.Handler.
func (h *Handler) WithGroup(group string) slog.Handler {
	return &Handler{to: h.to.WithGroup(group), room: h.room, state: h.state}
}

// admit counts a line; false = it is left out.
func (s *state) admit(k kind) bool {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.kinds[k]
	switch {
	case c == nil && len(s.kinds) >= maxKinds && !s.sweep(now):
		return true
	case c == nil:
		c = &count{ends: now.Add(Window)}
		s.kinds[k] = c
	case c.timer == nil && !now.Before(c.ends):
		c.ends, c.seen = now.Add(Window), 0
	}
	if c.seen++; c.seen <= s.limit || s.flushed {
		return true
	}
	if c.left++; c.timer == nil {
		c.timer = time.AfterFunc(c.ends.Sub(now), func() { s.ended(k) })
	}
	return false
}

// sweep forgets kinds of which nothing was left out, and whose window is over; true if
// there were any.
func (s *state) sweep(now time.Time) bool {
	n := len(s.kinds)
	for k, c := range s.kinds {
		if c.timer == nil && !now.Before(c.ends) {
			delete(s.kinds, k)
		}
	}
	return len(s.kinds) < n
}

// ended says what was left out of a window. The next line begins another one.
func (s *state) ended(k kind) {
	s.mu.Lock()
	c := s.kinds[k]
	if c == nil || c.timer == nil { // Flush has said it
		s.mu.Unlock()
		return
	}
	left := c.left
	delete(s.kinds, k)
	s.mu.Unlock()
	s.say(k, left)
}

func (s *state) say(k kind, left int) {
	r := slog.NewRecord(time.Now(), k.level, "lines of the log were left out: the same message came too often", 0)
	if k.room != "" {
		r.AddAttrs(slog.String("room", k.room))
	}
	r.AddAttrs(slog.String("message", k.text), slog.Int("times", left), slog.Duration("within", Window))
	s.lines[named(k.level)].written()
	_ = s.plain.Handle(context.Background(), r)
}

// Flush says what was left out so far, and leaves nothing out any more.
func (h *Handler) Flush() {
	s := h.state
	s.mu.Lock()
	s.flushed = true
	left := map[kind]int{}
	for k, c := range s.kinds {
		if c.timer != nil {
			c.timer.Stop()
			left[k] = c.left
		}
	}
	clear(s.kinds)
	s.mu.Unlock()
	for k, n := range left {
		s.say(k, n)
	}
}
