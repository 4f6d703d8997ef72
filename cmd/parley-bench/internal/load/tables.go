package load

import (
	"context"
	"fmt"
	"time"

	"parley/cmd/parley-bench/internal/cputime"
	"parley/cmd/parley-bench/internal/report"
)

// sizes say how much a run does.
type sizes struct {
	timed         time.Duration // of each timed measurement
	countClients  int           // of the counted turns
	countTurns    int           // of each of them
	turnClients   []int
	followers     int // of the fan-out
	burst         int // edits at once, for a fifth of the followers
	resuming      int // clients that resume
	missed        int // events that each of them missed
	waiting       []int
	sockets       int          // idle
	memorySamples []heapSample // idle sessions
	activations   int          // sessions
	history       int          // events of each of them
	thread        int          // events of the long session
	openings      int          // how often it is opened
	recovered     int          // messages that are acknowledged before the kill
	cycles        int          // of create, turn, erase
	evictionWait  time.Duration
}

// heapSample is one measurement of memory: so many sessions with so many ended
// tasks each.
type heapSample struct{ tasks, sessions int }

func fullSizes(timed time.Duration) sizes {
	return sizes{
		timed: timed, countClients: 50, countTurns: 60, turnClients: []int{1, 50, 200}, followers: 1000, burst: 100, resuming: 1000, missed: 200,
		waiting: []int{500, 1000}, sockets: 5000, memorySamples: []heapSample{{0, 5000}, {10, 1000}, {100, 500}},
		activations: 100, history: 1000, thread: 100_000, openings: 300, recovered: 10_000, cycles: 6000,
		evictionWait: 2 * time.Second,
	}
}

func smokeSizes() sizes {
	return sizes{
		timed: 100 * time.Millisecond, countClients: 5, countTurns: 4, turnClients: []int{1, 5}, followers: 10, burst: 5, resuming: 10, missed: 20,
		waiting: []int{5}, sockets: 20, memorySamples: []heapSample{{0, 50}, {2, 10}},
		activations: 5, history: 20, thread: 300, openings: 5, recovered: 20, cycles: 60,
		evictionWait: 200 * time.Millisecond,
	}
}

// tables is everything that a run measures.
func (b *bench) tables() []table {
	return []table{
		b.counts(), b.turns(), b.fan(), b.resume(), b.create(), b.queued(), b.activation(), b.thread(), b.recovery(), b.memory(), b.erasing(),
	}
}

// withServer is a row's run: a fresh server that is stopped in the end.
func withServer(do func(ctx context.Context, s *Server) ([]report.Figure, error), set ...string) func(context.Context, variant, string) ([]report.Figure, error) {
	return func(ctx context.Context, v variant, dir string) ([]report.Figure, error) {
		s, err := v.start(dir, set...)
		if err != nil {
			return nil, err
		}
		figures, err := do(ctx, s)
		if err != nil {
			s.Kill()
			return nil, err
		}
		return figures, s.Stop()
	}
}

// measuredTurns are turns with everything that is counted meanwhile.
func measuredTurns(ctx context.Context, s *Server, l loop) ([]report.Figure, error) {
	var since func() (counts, error)
	own := time.Duration(0)
	l.ready = func() (err error) {
		own = cputime.Own()
		since, err = s.watch(ctx)
		return err
	}
	r, events, err := turns(l, s.Addr)
	if err != nil {
		return nil, err
	}
	own = cputime.Own() - own
	c, err := since()
	if err != nil {
		return nil, err
	}
	figures := append(r.figures("turn"), cpuFigure("server CPU/turn", c.cpu, r.count), cpuFigure("client CPU/turn", own, r.count))
	figures = append(figures, report.Figure{Column: "events/turn", Value: events, As: report.Plain, Counted: true})
	return append(figures, c.each(r.count, "turn")...), nil
}

func (b *bench) counts() table {
	clients, each := b.countClients, b.countTurns
	return table{
		name: "counts", first: "clients", title: fmt.Sprintf("Counts: %d clients with %d turns each, whatever the machine does", clients, each),
		note: "Commits and syncs are of the store, keys written are inserts into its memory table. Read and write calls are those of the system, of files and sockets" +
			" (/proc/PID/io); syncs and waits are not among them. Where there is no /proc, or the server has no such metric, it says –.",
		rows: []row{{
			name: fmt.Sprint(clients), about: 2 * time.Second,
			run: withServer(func(ctx context.Context, s *Server) ([]report.Figure, error) {
				figures, err := measuredTurns(ctx, s, loop{workers: clients, each: each})
				return countedOnly(figures), err
			}),
		}},
	}
}

func countedOnly(all []report.Figure) (some []report.Figure) {
	for _, f := range all {
		if f.Counted {
			some = append(some, f)
		}
	}
	return some
}

func (b *bench) turns() table {
	t := table{
		name: "turns", first: "clients", title: "Turns: each client sends `/say x` in its own session and waits for the end of the task",
		note: "The bare store commits two batches of four keys and 500 bytes each for a turn, with a sync, from as many writers. The bare socket echoes a frame of 100 bytes for a turn.",
	}
	for _, n := range b.turnClients {
		t.rows = append(t.rows, row{
			name: fmt.Sprint(n), about: b.timed + 500*time.Millisecond,
			run: withServer(func(ctx context.Context, s *Server) ([]report.Figure, error) {
				return measuredTurns(ctx, s, loop{workers: n, d: b.timed})
			}),
			floors: []floor{
				{name: "bare store", about: b.timed / 3, run: func() ([]report.Figure, error) {
					r, err := storeBaseline(n, 500, b.timed/3)
					if err != nil {
						return nil, err
					}
					return []report.Figure{
						{Column: "turns/s", Value: r.perSecond() / 2, As: report.Whole},
						{Column: "p50", Value: 2 * r.percentile(0.5).Seconds(), As: report.Times},
						{Column: "p99", Value: 2 * r.percentile(0.99).Seconds(), As: report.Times},
					}, nil
				}},
				{name: "bare socket", about: b.timed / 3, run: func() ([]report.Figure, error) {
					r, err := echoBaseline(n, 100, b.timed/3)
					return r.figures("turn"), err
				}},
			},
		})
	}
	return t
}

// deliveries are the figures of a fan-out.
func deliveries(r result, cpu time.Duration) []report.Figure {
	return []report.Figure{
		{Column: "deliveries/s", Value: r.perSecond(), As: report.Whole},
		{Column: "round, p50", Value: r.percentile(0.5).Seconds(), As: report.Times},
		{Column: "round, p99", Value: r.percentile(0.99).Seconds(), As: report.Times},
		cpuFigure("server CPU/delivery", cpu, r.count),
	}
}

func (b *bench) fan() table {
	n, fifth := b.followers, max(1, b.followers/5)
	const everyTurn, frame = 7, 400 // events of a turn; bytes of an event's frame, about
	const twentyASecond = 50 * time.Millisecond
	bare := func(n, perRound, size int, every time.Duration) []floor {
		return []floor{{name: "bare sockets", about: b.timed/3 + time.Second, run: func() ([]report.Figure, error) {
			r, cpu, err := fanBaseline(n, perRound, size, b.timed/3, every)
			return deliveries(r, cpu), err
		}}}
	}
	return table{
		name: "fan", first: "followers of one session", title: "Fan-out: a round ends when the last follower has the last event of it",
		note: "A turn is 7 events and a model's call; an edit of a waiting message is one event and one commit. Bare sockets get as many frames a round, one write each.",
		rows: []row{
			{
				name: fmt.Sprintf("%d, a turn a round", n), about: b.timed + time.Second, floors: bare(n, everyTurn, 200, 0),
				run: withServer(func(_ context.Context, s *Server) ([]report.Figure, error) {
					r, cpu, err := fan(s, n, b.timed)
					return deliveries(r, cpu), err
				}),
			}, {
				name: fmt.Sprintf("%d, a burst of %d edits a round", fifth, b.burst), about: b.timed + time.Second, floors: bare(fifth, b.burst, frame, 0),
				run: withServer(func(_ context.Context, s *Server) ([]report.Figure, error) {
					r, cpu, err := fanEdits(s, fifth, b.burst, b.timed, 0)
					return deliveries(r, cpu), err
				}),
			}, {
				name: fmt.Sprintf("%d, an edit a round, paced: 20 rounds a second", n), about: b.timed + time.Second, floors: bare(n, 1, frame, twentyASecond),
				run: withServer(func(_ context.Context, s *Server) ([]report.Figure, error) {
					r, cpu, err := fanEdits(s, n, 1, b.timed, twentyASecond)
					return deliveries(r, cpu), err
				}),
			},
		},
	}
}

func (b *bench) resume() table {
	n, missed := b.resuming, b.missed
	t := table{
		name: "resume", first: "clients", title: fmt.Sprintf("Resume: %d clients come back at once after %d missed events each", n, missed),
		note: "Bare sockets get frames of the same size, in one write each.",
	}
	synced := func(r result, cpu time.Duration) []report.Figure {
		return []report.Figure{
			{Column: "events/s", Value: r.perSecond(), As: report.Whole},
			{Column: "synced, p50", Value: r.percentile(0.5).Seconds(), As: report.Times},
			{Column: "synced, p99", Value: r.percentile(0.99).Seconds(), As: report.Times},
			{Column: "all", Value: r.took.Seconds(), As: report.Times},
			cpuFigure("server CPU/event", cpu, r.count),
		}
	}
	for _, one := range []bool{false, true} {
		name, about := "each in its own session", 7*time.Second
		if one {
			name, about = "all in one session", 2*time.Second
		}
		size := 0
		t.rows = append(t.rows, row{
			name: name, about: about,
			run: withServer(func(_ context.Context, s *Server) ([]report.Figure, error) {
				r, cpu, frameBytes, err := resume(s, n, missed, one)
				size = frameBytes
				return synced(r, cpu), err
			}),
			floors: []floor{{name: "bare sockets", about: time.Second, run: func() ([]report.Figure, error) {
				r, cpu, err := bulkBaseline(n, missed, size)
				return synced(r, cpu), err
			}}},
		})
	}
	return t
}

func (b *bench) create() table {
	t := table{name: "create", first: "clients", title: "A new session with its first turn, one after the other"}
	for _, n := range []int{b.turnClients[0], b.turnClients[min(1, len(b.turnClients)-1)]} {
		t.rows = append(t.rows, row{
			name: fmt.Sprint(n), about: b.timed + 500*time.Millisecond,
			run: withServer(func(ctx context.Context, s *Server) ([]report.Figure, error) {
				var since func() (counts, error)
				r, err := created(s, loop{workers: n, d: b.timed, ready: func() (err error) { since, err = s.watch(ctx); return err }})
				if err != nil {
					return nil, err
				}
				c, err := since()
				if err != nil {
					return nil, err
				}
				return append(append(r.figures("session"), cpuFigure("server CPU/session", c.cpu, r.count)), c.each(r.count, "session")...), nil
			}),
		})
	}
	return t
}

func (b *bench) queued() table {
	t := table{name: "queued", first: "messages that wait", title: "Queued: messages wait in one session behind a task that runs; then it is cancelled"}
	for _, n := range b.waiting {
		t.rows = append(t.rows, row{
			name: fmt.Sprint(n), about: 2 * time.Second,
			run: withServer(func(ctx context.Context, s *Server) ([]report.Figure, error) { return queued(ctx, s, n) }, "inbox.max_queued=0"),
		})
	}
	return t
}

func (b *bench) activation() table {
	n, events := b.activations, b.history
	return table{
		name: "activation", first: "", title: fmt.Sprintf("Activation: from message to acknowledgement, %d sessions of %d events", n, events),
		rows: []row{{
			name: "files warm", about: 6 * time.Second,
			run: func(ctx context.Context, v variant, dir string) ([]report.Figure, error) {
				cold, warm, err := activation(ctx, v, dir, n, events, b.evictionWait)
				return []report.Figure{
					{Column: "not in memory, p50", Value: cold.percentile(0.5).Seconds(), As: report.Times},
					{Column: "p99", Value: cold.percentile(0.99).Seconds(), As: report.Times},
					{Column: "in memory, p50", Value: warm.percentile(0.5).Seconds(), As: report.Times},
					{Column: "in memory, p99", Value: warm.percentile(0.99).Seconds(), As: report.Times},
				}, err
			},
		}},
	}
}

func (b *bench) thread() table {
	return table{
		name: "thread", first: "", title: fmt.Sprintf("Long thread: a session of %d events is opened, %d times", b.sizes.thread, b.openings),
		rows: []row{{
			name: "open", about: 14 * time.Second, once: true,
			run: withServer(func(ctx context.Context, s *Server) ([]report.Figure, error) {
				tail, paint, err := thread(ctx, s, b.sizes.thread, b.openings)
				return []report.Figure{
					{Column: "its last 50 events, on an open socket, p50", Value: tail.percentile(0.5).Seconds(), As: report.Times},
					{Column: "p99", Value: tail.percentile(0.99).Seconds(), As: report.Times},
					{Column: "all that the page asks for before its first paint, p50", Value: paint.percentile(0.5).Seconds(), As: report.Times},
					{Column: "paint, p99", Value: paint.percentile(0.99).Seconds(), As: report.Times},
				}, err
			}),
		}},
	}
}

func (b *bench) recovery() table {
	n := b.recovered
	t := table{
		name: "recovery", first: "before the kill", title: fmt.Sprintf("Recovery: kill -9 with %d acknowledged messages, a session each, under work", n),
		note: "From the start of the next process until it listens, and until all are RUNNING with their model's call asked.",
	}
	for _, queued := range []bool{false, true} {
		name := "all RUNNING"
		if queued {
			name = "one RUNNING, all others QUEUED"
		}
		t.rows = append(t.rows, row{
			name: name, about: 5 * time.Second,
			run: func(ctx context.Context, v variant, dir string) ([]report.Figure, error) {
				listens, running, err := recovery(ctx, v, dir, n, queued)
				return []report.Figure{
					{Column: "it listens", Value: listens.Seconds(), As: report.Times},
					{Column: "all RUNNING", Value: running.Seconds(), As: report.Times},
				}, err
			},
		})
	}
	return t
}

func (b *bench) memory() table {
	t := table{name: "memory", first: "idle", title: "Memory of what is idle", note: "Of a session it is live heap, of a socket resident memory and live heap, each after a collection."}
	t.rows = append(t.rows, row{
		name: fmt.Sprintf("%d sockets that follow a session, and %d more", b.sockets, b.sockets), about: 7 * time.Second, once: true,
		run: func(ctx context.Context, v variant, dir string) ([]report.Figure, error) {
			return idleSockets(ctx, v, dir, b.sockets)
		},
	})
	for _, m := range b.memorySamples {
		t.rows = append(t.rows, row{
			name:  fmt.Sprintf("%d sessions with %d ended tasks", m.sessions, m.tasks),
			about: 2*b.evictionWait + time.Duration(m.sessions*(1+m.tasks))*200*time.Microsecond, once: true,
			run: func(ctx context.Context, v variant, dir string) ([]report.Figure, error) {
				bytes, err := perSession(ctx, v, dir, m.sessions, m.tasks, b.evictionWait)
				return []report.Figure{{Column: "bytes a session", Value: bytes, As: report.Whole}}, err
			},
		})
	}
	return t
}

func (b *bench) erasing() table {
	return table{
		name: "erasing", first: "cycles", title: "Erasing: 8 clients create a session, take a turn in it and erase it, again and again",
		rows: []row{{
			name: fmt.Sprint(b.cycles), about: time.Duration(b.cycles) * 1500 * time.Microsecond,
			run: withServer(func(ctx context.Context, s *Server) ([]report.Figure, error) { return erasing(ctx, s, b.cycles) }),
		}},
	}
}
