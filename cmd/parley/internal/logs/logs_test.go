package logs

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"parley/metrics"
)

// written is what a log has written; timers write, too.
type written struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (w *written) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.Write(p)
}

func (w *written) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.b.String()
}

func opened(limit int) (*Handler, *written, *metrics.Log) {
	b := &written{}
	m := metrics.NewLog(prometheus.NewRegistry())
	return New(slog.NewTextHandler(b, &slog.HandlerOptions{Level: slog.LevelDebug}), limit, m), b, m
}

func times(b *written, text string) int { return strings.Count(b.String(), text) }

// Warnings that repeat are left out and counted, whatever their values; when the window is
// over one line says how many, and it begins anew.
func TestRepeatedLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b, m := opened(3)
		log := slog.New(h).With("room", "models")
		for i := range 100 {
			log.Warn("it failed", "session", i)
			time.Sleep(10 * time.Millisecond)
		}
		log.Error("it failed")
		slog.New(h).With("room", "tools").Warn("it failed")
		log.Warn("something else")
		if n := times(b, `msg="it failed"`); n != 5 {
			t.Errorf("%d lines:\n%s", n, b)
		}
		time.Sleep(Window)
		synctest.Wait()
		if n := times(b, "times=97"); n != 1 || times(b, `message="it failed"`) != 1 || times(b, "room=models") != 6 || times(b, "within=10s") != 1 {
			t.Errorf("what was left out is said %d times:\n%s", n, b)
		}
		log.Warn("it failed", "session", "again")
		if times(b, "session=again") != 1 {
			t.Errorf("the next window has not begun:\n%s", b)
		}
		if left := testutil.ToFloat64(m.Suppressed.WithLabelValues("warn")); left != 97 {
			t.Errorf("%v are counted as left out", left)
		}
		if written := testutil.ToFloat64(m.Lines.WithLabelValues("warn")); int(written) != times(b, "level=WARN") {
			t.Errorf("%v are counted, %d written", written, times(b, "level=WARN"))
		}
	})
}

// Each line at INFO tells of something else, and none is left out: the ends of tasks, requests.
func TestLinesThatAreNeverLeftOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b, m := opened(1)
		log := slog.New(h)
		for range 100 {
			log.Info("task ended")
			log.Debug("part persisted")
		}
		if times(b, "task ended") != 100 || times(b, "part persisted") != 100 || testutil.ToFloat64(m.Lines.WithLabelValues("info")) != 100 {
			t.Errorf("%d and %d lines", times(b, "task ended"), times(b, "part persisted"))
		}
		all, b, _ := opened(0)
		for range 100 {
			slog.New(all).Error("it failed")
		}
		if times(b, "it failed") != 100 {
			t.Errorf("%d lines without a limit", times(b, "it failed"))
		}
	})
}

// At the end what was left out is said, and nothing is left out any more.
func TestFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b, _ := opened(1)
		log := slog.New(h)
		for range 5 {
			log.Warn("it failed")
		}
		h.Flush()
		log.Warn("it failed")
		log.Warn("it failed")
		time.Sleep(2 * Window)
		synctest.Wait()
		if times(b, "times=4") != 1 || times(b, `msg="it failed"`) != 3 {
			t.Errorf("%s", b)
		}
	})
}

// Few kinds of lines are remembered, and lines of the others are written.
func TestKindsAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h, b, _ := opened(1)
		log := slog.New(h)
		for i := range 3 * maxKinds {
			log.Warn(fmt.Sprint("message ", i))
		}
		if n := times(b, "\n"); n != 3*maxKinds || len(h.state.kinds) > maxKinds {
			t.Errorf("%d lines, %d kinds", n, len(h.state.kinds))
		}
		time.Sleep(Window)
		synctest.Wait()
		log.Warn("one more")
		if len(h.state.kinds) != 1 {
			t.Errorf("%d kinds after the window", len(h.state.kinds))
		}
	})
}

// Levels between the named ones are counted with the next lower one.
func TestLevels(t *testing.T) {
	for level, want := range map[slog.Level]string{-8: "debug", -4: "debug", -1: "debug", 0: "info", 3: "info", 4: "warn", 7: "warn", 8: "error", 100: "error"} {
		if got := name(named(level)); got != want || name(level) != want {
			t.Errorf("%d counts as %s, want %s", level, got, want)
		}
	}
}

// A line that is written costs nothing more than it did.
func TestHandlerCostsNothing(t *testing.T) {
	h, _, _ := opened(10)
	plain := slog.New(slog.NewTextHandler(new(bytes.Buffer), nil))
	log := slog.New(h)
	line := func(l *slog.Logger) func() { return func() { l.Info("task ended", "session", "s") } }
	if with, without := testing.AllocsPerRun(200, line(log)), testing.AllocsPerRun(200, line(plain)); with > without+0.5 {
		t.Errorf("%v allocations, %v without", with, without)
	}
}
