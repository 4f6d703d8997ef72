package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// bench runs the workloads and writes their tables.
type bench struct {
	path, dir string
	d         time.Duration // of a timed measurement
	scale     int           // counts are divided by it
	out       io.Writer
}

func (b *bench) printf(format string, args ...any) { fmt.Fprintf(b.out, format, args...) }

func (b *bench) turns(ctx context.Context) error {
	b.printf("\n### Turns: each client sends `/say x` in its own session and waits for the end of the task\n\n")
	b.printf("| clients | turns/s | p50 | p99 | events/turn | commits/turn | server CPU/turn | client CPU/turn | bare store, 2 commits a turn | turns ÷ store | bare socket, round trips/s | turns ÷ socket |\n")
	b.printf("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, n := range []int{1, 50, 200} {
		s, err := startServer(b.path, b.data(fmt.Sprintf("turns-%d", n)))
		if err != nil {
			return err
		}
		before, beforeCommits, err := counted(ctx, s)
		if err != nil {
			s.kill()
			return err
		}
		own := ownCPU()
		r, events, err := turns(s, n, b.d)
		own = ownCPU() - own
		if err != nil {
			s.kill()
			return fmt.Errorf("%d clients: %w", n, err)
		}
		after, afterCommits, err := counted(ctx, s)
		if err != nil {
			s.kill()
			return err
		}
		if err := s.stop(); err != nil {
			return err
		}
		store, err := storeFloor(n, 500, b.d/2)
		if err != nil {
			return err
		}
		echo, err := echoFloor(n, 100, b.d/2)
		if err != nil {
			return err
		}
		twoCommits := store.perSecond() / 2
		b.printf("| %d | %.0f | %s | %s | %d | %.1f | %s | %s | %.0f (p50 %s) | %.2f | %.0f (p50 %s) | %.2f |\n",
			n, r.perSecond(), short(r.percentile(0.5)), short(r.percentile(0.99)), events,
			(afterCommits-beforeCommits)/float64(r.count), short((after-before)/time.Duration(max(1, r.count))), short(own/time.Duration(max(1, r.count))),
			twoCommits, short(2*store.percentile(0.5)), r.perSecond()/twoCommits,
			echo.perSecond(), short(echo.percentile(0.5)), r.perSecond()/echo.perSecond())
	}
	b.printf("\nThe bare store commits batches of four keys and 500 bytes with a sync, from as many writers. The bare socket echoes frames of 100 bytes.\n")
	return nil
}

func counted(ctx context.Context, s *server) (time.Duration, float64, error) {
	commits, err := s.metric(ctx, "parley_store_commit_seconds_count")
	return s.cpu(), commits, err
}

func (b *bench) fan(context.Context) error {
	n := 1000 / b.scale
	b.printf("\n### Fan-out: one session, %d followers, one sender; a round ends when the last follower has the last event\n\n", n)
	b.printf("| | deliveries/s | round p50 | round p99 |\n|---|---:|---:|---:|\n")
	s, err := startServer(b.path, b.data("fan"))
	if err != nil {
		return err
	}
	r, perRound, err := fan(s, n, b.d)
	if err != nil {
		s.kill()
		return err
	}
	if err := s.stop(); err != nil {
		return err
	}
	floor, err := fanFloor(n, perRound, 200, b.d/2)
	if err != nil {
		return err
	}
	b.printf("| parley, %d events a round | %.0f | %s | %s |\n", perRound, r.perSecond(), short(r.percentile(0.5)), short(r.percentile(0.99)))
	b.printf("| bare sockets, %d frames of 200 bytes a round, one write each | %.0f | %s | %s |\n", perRound, floor.perSecond(), short(floor.percentile(0.5)), short(floor.percentile(0.99)))
	b.printf("| parley ÷ bare | %.2f | | |\n", r.perSecond()/floor.perSecond())
	return nil
}

func (b *bench) resume(context.Context) error {
	n, missed := 1000/b.scale, 200
	b.printf("\n### Resume: %d clients, each in its own session, come back at once after %d missed events\n\n", n, missed)
	b.printf("| | events/s | synced p50 | synced p99 | all |\n|---|---:|---:|---:|---:|\n")
	s, err := startServer(b.path, b.data("resume"))
	if err != nil {
		return err
	}
	r, frameBytes, err := resume(s, n, missed)
	if err != nil {
		s.kill()
		return err
	}
	if err := s.stop(); err != nil {
		return err
	}
	floor, err := bulkFloor(n, missed, frameBytes)
	if err != nil {
		return err
	}
	b.printf("| parley | %.0f | %s | %s | %s |\n", r.perSecond(), short(r.percentile(0.5)), short(r.percentile(0.99)), short(r.took))
	b.printf("| bare sockets, frames of %d bytes, one write each | %.0f | %s | %s | %s |\n", frameBytes, floor.perSecond(), short(floor.percentile(0.5)), short(floor.percentile(0.99)), short(floor.took))
	b.printf("| parley ÷ bare | %.2f | | | |\n", r.perSecond()/floor.perSecond())
	return nil
}

func (b *bench) memory(ctx context.Context) error {
	b.printf("\n### Memory: live heap of one idle session in memory\n\n")
	b.printf("| ended tasks in its log | sessions | bytes a session |\n|---:|---:|---:|\n")
	for _, m := range []struct{ tasks, sessions int }{{0, 5000}, {10, 1000}, {100, 500}} {
		n := m.sessions / b.scale
		bytes, err := perSession(ctx, b.path, b.data(fmt.Sprintf("memory-%d", m.tasks)), n, m.tasks)
		if err != nil {
			return err
		}
		b.printf("| %d | %d | %.0f |\n", m.tasks, n, bytes)
	}
	return nil
}

func (b *bench) activation(ctx context.Context) error {
	n, events := 100/b.scale, 1000
	b.printf("\n### Activation: from message to acknowledgement, session of %d events\n\n", events)
	b.printf("| | p50 | p99 |\n|---|---:|---:|\n")
	cold, warm, err := activation(ctx, b.path, b.data("activation"), n, events)
	if err != nil {
		return err
	}
	b.printf("| not in memory (files warm), %d sessions | %s | %s |\n", n, short(cold.percentile(0.5)), short(cold.percentile(0.99)))
	b.printf("| in memory | %s | %s |\n", short(warm.percentile(0.5)), short(warm.percentile(0.99)))
	return nil
}

func (b *bench) recovery(ctx context.Context) error {
	n := 10_000 / b.scale
	b.printf("\n### Recovery: kill -9 with %d acknowledged messages, a session each, under work\n\n", n)
	b.printf("| from the start of the next process until | all RUNNING before | one RUNNING, all others QUEUED |\n|---|---:|---:|\n")
	var listens, running [2]time.Duration
	for i, queued := range []bool{false, true} {
		var err error
		if listens[i], running[i], err = recovery(ctx, b.path, b.data(fmt.Sprintf("recovery-%v", queued)), n, queued); err != nil {
			return err
		}
	}
	b.printf("| it listens | %s | %s |\n", short(listens[0]), short(listens[1]))
	b.printf("| all %d are RUNNING, their model calls asked | %s | %s |\n", n, short(running[0]), short(running[1]))
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
