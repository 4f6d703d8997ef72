package load

import (
	"context"
	"fmt"
	"io"
	"time"
)

// tables runs the workloads and prints a table for each.
type tables struct {
	sizes
	path, dir string // of the server's program and data
	out       io.Writer
}

func (t *tables) printf(format string, args ...any) { fmt.Fprintf(t.out, format, args...) }

func (t *tables) turns(ctx context.Context) error {
	t.printf("\n### Turns: each client sends `/say x` in its own session and waits for the end of the task\n\n")
	t.printf("| clients | turns/s | p50 | p99 | events/turn | commits/turn | server CPU/turn | client CPU/turn | bare store, 2 commits a turn | turns ÷ store | bare socket, round trips/s | turns ÷ socket |\n")
	t.printf("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, n := range t.turnClients {
		s, err := StartServer(t.path, t.data(fmt.Sprintf("turns-%d", n)))
		if err != nil {
			return err
		}
		before, beforeCommits, err := counted(ctx, s)
		if err != nil {
			s.Kill()
			return err
		}
		own := OwnCPU()
		r, events, err := turns(s, n, t.timed)
		own = OwnCPU() - own
		if err != nil {
			s.Kill()
			return fmt.Errorf("%d clients: %w", n, err)
		}
		after, afterCommits, err := counted(ctx, s)
		if err != nil {
			s.Kill()
			return err
		}
		if err := s.Stop(); err != nil {
			return err
		}
		store, err := storeBaseline(n, 500, t.timed/2)
		if err != nil {
			return err
		}
		echo, err := echoBaseline(n, 100, t.timed/2)
		if err != nil {
			return err
		}
		twoCommits := store.perSecond() / 2
		t.printf("| %d | %.0f | %s | %s | %d | %.1f | %s | %s | %.0f (p50 %s) | %.2f | %.0f (p50 %s) | %.2f |\n",
			n, r.perSecond(), short(r.percentile(0.5)), short(r.percentile(0.99)), events,
			(afterCommits-beforeCommits)/float64(r.count), short((after-before)/time.Duration(max(1, r.count))), short(own/time.Duration(max(1, r.count))),
			twoCommits, short(2*store.percentile(0.5)), r.perSecond()/twoCommits,
			echo.perSecond(), short(echo.percentile(0.5)), r.perSecond()/echo.perSecond())
	}
	t.printf("\nThe bare store commits batches of four keys and 500 bytes with a sync, from as many writers. The bare socket echoes frames of 100 bytes.\n")
	return nil
}

func counted(ctx context.Context, s *Server) (time.Duration, float64, error) {
	commits, err := s.metric(ctx, "parley_store_commit_seconds_count")
	return s.CPU(), commits, err
}

func (t *tables) fan(context.Context) error {
	n := t.followers
	t.printf("\n### Fan-out: one session, %d followers, one sender; a round ends when the last follower has the last event\n\n", n)
	t.printf("| | deliveries/s | round p50 | round p99 |\n|---|---:|---:|---:|\n")
	s, err := StartServer(t.path, t.data("fan"))
	if err != nil {
		return err
	}
	r, perRound, err := fan(s, n, t.timed)
	if err != nil {
		s.Kill()
		return err
	}
	if err := s.Stop(); err != nil {
		return err
	}
	baseline, err := fanBaseline(n, perRound, 200, t.timed/2)
	if err != nil {
		return err
	}
	t.printf("| parley, %d events a round | %.0f | %s | %s |\n", perRound, r.perSecond(), short(r.percentile(0.5)), short(r.percentile(0.99)))
	t.printf("| bare sockets, %d frames of 200 bytes a round, one write each | %.0f | %s | %s |\n", perRound, baseline.perSecond(), short(baseline.percentile(0.5)), short(baseline.percentile(0.99)))
	t.printf("| parley ÷ bare | %.2f | | |\n", r.perSecond()/baseline.perSecond())
	return nil
}

func (t *tables) resume(context.Context) error {
	n, missed := t.resuming, t.missed
	t.printf("\n### Resume: %d clients, each in its own session, come back at once after %d missed events\n\n", n, missed)
	t.printf("| | events/s | synced p50 | synced p99 | all |\n|---|---:|---:|---:|---:|\n")
	s, err := StartServer(t.path, t.data("resume"))
	if err != nil {
		return err
	}
	r, frameBytes, err := resume(s, n, missed)
	if err != nil {
		s.Kill()
		return err
	}
	if err := s.Stop(); err != nil {
		return err
	}
	baseline, err := bulkBaseline(n, missed, frameBytes)
	if err != nil {
		return err
	}
	t.printf("| parley | %.0f | %s | %s | %s |\n", r.perSecond(), short(r.percentile(0.5)), short(r.percentile(0.99)), short(r.took))
	t.printf("| bare sockets, frames of %d bytes, one write each | %.0f | %s | %s | %s |\n", frameBytes, baseline.perSecond(), short(baseline.percentile(0.5)), short(baseline.percentile(0.99)), short(baseline.took))
	t.printf("| parley ÷ bare | %.2f | | | |\n", r.perSecond()/baseline.perSecond())
	return nil
}

func (t *tables) memory(ctx context.Context) error {
	t.printf("\n### Memory: live heap of one idle session in memory\n\n")
	t.printf("| ended tasks in its log | sessions | bytes a session |\n|---:|---:|---:|\n")
	for _, m := range t.memorySamples {
		n := m.sessions
		bytes, err := perSession(ctx, t.path, t.data(fmt.Sprintf("memory-%d", m.tasks)), n, m.tasks, t.evictionWait)
		if err != nil {
			return err
		}
		t.printf("| %d | %d | %.0f |\n", m.tasks, n, bytes)
	}
	return nil
}

func (t *tables) activation(ctx context.Context) error {
	n, events := t.activations, t.history
	t.printf("\n### Activation: from message to acknowledgement, session of %d events\n\n", events)
	t.printf("| | p50 | p99 |\n|---|---:|---:|\n")
	cold, warm, err := activation(ctx, t.path, t.data("activation"), n, events, t.evictionWait)
	if err != nil {
		return err
	}
	t.printf("| not in memory (files warm), %d sessions | %s | %s |\n", n, short(cold.percentile(0.5)), short(cold.percentile(0.99)))
	t.printf("| in memory | %s | %s |\n", short(warm.percentile(0.5)), short(warm.percentile(0.99)))
	return nil
}

func (t *tables) thread(ctx context.Context) error {
	t.printf("\n### Long thread: a session of %d events is opened, %d times\n\n", t.sizes.thread, t.openings)
	t.printf("| | p50 | p99 |\n|---|---:|---:|\n")
	s, err := StartServer(t.path, t.data("thread"))
	if err != nil {
		return err
	}
	defer s.Kill()
	tail, paint, err := thread(ctx, s, t.sizes.thread, t.openings)
	if err != nil {
		return err
	}
	t.printf("| its last 50 events, on an open socket | %s | %s |\n", short(tail.percentile(0.5)), short(tail.percentile(0.99)))
	t.printf("| all that the page asks for before its first paint | %s | %s |\n", short(paint.percentile(0.5)), short(paint.percentile(0.99)))
	return nil
}

func (t *tables) recovery(ctx context.Context) error {
	n := t.recovered
	t.printf("\n### Recovery: kill -9 with %d acknowledged messages, a session each, under work\n\n", n)
	t.printf("| from the start of the next process until | all RUNNING before | one RUNNING, all others QUEUED |\n|---|---:|---:|\n")
	var listens, running [2]time.Duration
	for i, queued := range []bool{false, true} {
		var err error
		if listens[i], running[i], err = recovery(ctx, t.path, t.data(fmt.Sprintf("recovery-%v", queued)), n, queued); err != nil {
			return err
		}
	}
	t.printf("| it listens | %s | %s |\n", short(listens[0]), short(listens[1]))
	t.printf("| all %d are RUNNING, their model calls asked | %s | %s |\n", n, short(running[0]), short(running[1]))
	return nil
}

// short rounds to three digits, for people.
func short(d time.Duration) string {
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < time.Second:
		return d.Round(10 * time.Microsecond).String()
	default:
		return d.Round(10 * time.Millisecond).String()
	}
}
