package chaos

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// Runtimes is the command that kills runtimes and the server; its fields are its flags.
type Runtimes struct {
	Server     string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Messages   int           `help:"Messages." default:"100000"`
	Sessions   int           `help:"Sessions (default: one for 50 messages)."`
	Workers    int           `help:"Processes that are runtimes." default:"4"`
	Senders    int           `help:"Connections that send." default:"4"`
	Seed       uint64        `help:"Of the random choices (default: from the clock)."`
	Lease      time.Duration `help:"outside.lease." default:"2s"`
	KillWorker time.Duration `help:"A worker is killed about this often." default:"2s"`
	KillServer time.Duration `help:"The server is killed about this often." default:"20s"`
	Finish     time.Duration `help:"How long what is left may take after the last kill." default:"120s"`
}

// Run kills runtimes and the server, lets the work end, and judges every log.
func (r *Runtimes) Run(ctx context.Context) error { return r.run(ctx, os.Stdout) }

func (r *Runtimes) run(ctx context.Context, out io.Writer) error {
	path, cleanup, err := load.BuildServer(r.Server)
	if err != nil {
		return err
	}
	defer cleanup()
	if r.Seed == 0 {
		r.Seed = uint64(time.Now().UnixNano())
	}
	if r.Sessions == 0 {
		r.Sessions = max(4, r.Messages/50)
	}
	rerun := fmt.Sprintf("parley-bench runtimes --messages %d --sessions %d --workers %d --lease %s --kill-worker %s --kill-server %s --seed %d",
		r.Messages, r.Sessions, r.Workers, r.Lease, r.KillWorker, r.KillServer, r.Seed)
	fmt.Fprintln(out, "rerun:", rerun)
	base, err := os.MkdirTemp("", "parley-chaos-")
	if err != nil {
		return err
	}
	c := newRun(r, path, base, out)
	err = c.all(ctx)
	c.end()
	if err != nil {
		return fmt.Errorf("%w\nrerun: %s\nthe data directory is kept: %s", err, rerun, base)
	}
	return os.RemoveAll(base)
}

// chaosRun is one run of the command.
type chaosRun struct {
	*Runtimes
	path, base string
	out        io.Writer
	began      time.Time
	random     *rand.Rand
	place      *place
	server     *load.Server
	workers    []*exec.Cmd
	started    int // workers, ever
	killed     struct{ workers, servers int }
	ended      chan int // the place of a worker that has ended
	talks      []*conversation
	sending    int        // senders that have not ended
	sentAll    chan error // a sender has ended
	sent       atomic.Int64
	peace      time.Time // since when nothing is killed; zero = it is
	looks      int
}

func newRun(r *Runtimes, path, base string, out io.Writer) *chaosRun {
	c := &chaosRun{
		Runtimes: r, path: path, base: base, out: out, began: time.Now(),
		random: rand.New(rand.NewPCG(r.Seed, 1)), place: &place{filepath.Join(base, "address")},
		workers: make([]*exec.Cmd, r.Workers), ended: make(chan int, r.Workers), talks: make([]*conversation, r.Sessions),
		sending: r.Senders, sentAll: make(chan error, r.Senders),
	}
	for i := range c.talks {
		c.talks[i] = &conversation{name: "talk-" + strconv.Itoa(i)}
	}
	for n := range r.Messages {
		o := order{number: n, parts: 1 + c.random.IntN(3), fate: plain}
		switch c.random.IntN(4000) {
		case 0, 1:
			o.fate = kills
		case 2, 3:
			o.fate = fails
		}
		t := c.talks[c.random.IntN(len(c.talks))]
		t.said = append(t.said, said{order: o})
	}
	return c
}

// settings make the server give up a silent runtime soon, and take what it is given.
func (c *chaosRun) settings() []string {
	return []string{
		"outside.lease=" + c.Lease.String(), "retry.max_attempts=" + strconv.Itoa(attempts), "retry.backoff_min=5ms", "retry.backoff_max=100ms",
		"inbox.max_queued=100000", "log.level=error",
	}
}

func (c *chaosRun) startServer() (err error) {
	if c.server, err = load.StartServer(c.path, filepath.Join(c.base, "data"), c.settings()...); err != nil {
		return err
	}
	return c.place.set(c.server.Addr)
}

// startWorker starts a worker at its place and tells c.ended of its end.
func (c *chaosRun) startWorker(i int) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	c.started++
	n := strconv.Itoa(c.started)
	cmd := exec.Command(self, "worker", "--place", c.place.file, "--name", "w"+n, "--journal", filepath.Join(c.base, "journal-"+n),
		"--seed", strconv.FormatUint(c.Seed+uint64(c.started), 10), "--lease", c.Lease.String())
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return err
	}
	c.workers[i] = cmd
	go func() {
		_ = cmd.Wait()
		c.ended <- i
	}()
	return nil
}

// startAll starts the server, the workers and the senders; stop ends the senders.
func (c *chaosRun) startAll(ctx context.Context) (stop func(), err error) {
	if err := c.startServer(); err != nil {
		return nil, err
	}
	for i := range c.workers {
		if err := c.startWorker(i); err != nil {
			return nil, err
		}
	}
	sending, stop := context.WithCancel(ctx)
	for i := range c.Senders {
		s := &sender{place: c.place, random: rand.New(rand.NewPCG(c.Seed, uint64(i)+2)), sent: &c.sent}
		for k := i; k < len(c.talks); k += c.Senders {
			s.talks = append(s.talks, c.talks[k])
		}
		go func() { c.sentAll <- s.run(sending) }()
	}
	return stop, nil
}

// all is the run: chaos, then peace, then judgement.
func (c *chaosRun) all(ctx context.Context) error {
	stop, err := c.startAll(ctx)
	if err != nil {
		return err
	}
	defer stop()
	nextWorker, nextServer := c.soon(c.KillWorker), c.soon(c.KillServer)
	look := time.NewTicker(time.Second)
	defer look.Stop()
	for {
		var err error
		done := false
		select {
		case <-ctx.Done():
			err = ctx.Err()
		case err = <-c.sentAll:
			c.sending--
		case i := <-c.ended:
			err = c.replace(i)
		case <-nextWorker:
			if c.peace.IsZero() {
				_ = c.workers[c.random.IntN(len(c.workers))].Process.Kill()
			}
			nextWorker = c.soon(c.KillWorker)
		case <-nextServer:
			if c.peace.IsZero() {
				err = c.killServer()
			}
			nextServer = c.soon(c.KillServer)
		case <-look.C:
			done, err = c.look(ctx)
		}
		if err != nil {
			return err
		}
		if done {
			return c.judge(ctx)
		}
	}
}

// replace starts a worker in the place of one that was killed.
func (c *chaosRun) replace(i int) error {
	if state := c.workers[i].ProcessState; state.Exited() {
		return fmt.Errorf("worker %d ended by itself: %s\n%s", i, state, c.violations())
	}
	c.killed.workers++
	return c.startWorker(i)
}

func (c *chaosRun) killServer() error {
	c.server.Kill()
	c.killed.servers++
	if err := c.startServer(); err != nil {
		return fmt.Errorf("start %d: %w", c.killed.servers+1, err)
	}
	return nil
}

// look ends the killing when nearly all is done, and is true when all is, or when
// what is left has had its time.
func (c *chaosRun) look(ctx context.Context) (done bool, err error) {
	left, err := c.open(ctx)
	if err != nil {
		return false, err
	}
	if c.looks++; c.looks%15 == 0 {
		fmt.Fprintf(c.out, "%s: %d of %d sent, %d open; %d runtimes and %d servers killed\n",
			time.Since(c.began).Round(time.Second), c.sent.Load(), c.Messages, left, c.killed.workers, c.killed.servers)
	}
	if c.peace.IsZero() {
		if c.sending == 0 && left <= c.Messages/50 && c.killed.servers > 0 {
			c.peace = time.Now()
		}
		return false, nil
	}
	return left == 0 || time.Since(c.peace) > c.Finish, nil
}

// soon fires after d, more or less.
func (c *chaosRun) soon(d time.Duration) <-chan time.Time {
	return time.After(d/2 + time.Duration(c.random.Int64N(int64(d)+1)))
}

// open is the number of tasks that have not ended.
func (c *chaosRun) open(ctx context.Context) (n int, err error) {
	for cursor := ""; ; {
		page, err := c.server.Get(ctx, "/api/sessions?limit=200&cursor="+cursor)
		if err != nil {
			return 0, err
		}
		var list struct {
			Items []struct {
				OpenTasks int `json:"open_tasks"`
			}
			NextCursor string `json:"next_cursor"`
		}
		if err := json.Unmarshal(page, &list); err != nil {
			return 0, err
		}
		for _, s := range list.Items {
			n += s.OpenTasks
		}
		if cursor = list.NextCursor; cursor == "" {
			return n, nil
		}
	}
}

// end kills what still runs.
func (c *chaosRun) end() {
	for _, w := range c.workers {
		if w != nil {
			_ = w.Process.Kill()
		}
	}
	if c.server != nil {
		c.server.Kill()
	}
}

// judge starts the server once more, so that the log is what is on the disk, and reads all of it.
func (c *chaosRun) judge(ctx context.Context) error {
	took := time.Since(c.began)
	c.end()
	if err := c.startServer(); err != nil {
		return err
	}
	n, err := c.notes()
	if err != nil {
		return err
	}
	all, err := c.judgeAll(ctx, n)
	if err != nil {
		return err
	}
	c.report(all, n, took)
	if !all.clean() || len(n.violations) > 0 {
		return errors.New("what was promised did not hold:\n" + strings.Join(slices.Concat(all.examples, n.violations[:min(20, len(n.violations))]), "\n"))
	}
	return nil
}

// notes are what all workers have written down.
func (c *chaosRun) notes() (*notes, error) {
	n := &notes{parts: map[string][]acknowledged{}, handouts: map[string][]handout{}, counts: map[string]int{}}
	for i := range c.started {
		text, err := os.ReadFile(filepath.Join(c.base, "journal-"+strconv.Itoa(i+1)))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was killed before it began
		}
		if err == nil {
			err = n.read(bytes.NewReader(text))
		}
		if err != nil {
			return nil, err
		}
	}
	return n, nil
}

// violations are those that the workers met.
func (c *chaosRun) violations() string {
	n, err := c.notes()
	if err != nil {
		return err.Error()
	}
	return strings.Join(n.violations[:min(20, len(n.violations))], "\n")
}

// judgeAll judges the sessions, some at a time.
func (c *chaosRun) judgeAll(ctx context.Context, n *notes) (*verdict, error) {
	var group sync.WaitGroup
	var mu sync.Mutex
	all, next := &verdict{}, make(chan *conversation)
	var failed error
	for range 4 {
		group.Go(func() {
			for t := range next {
				v, err := judge(ctx, c.server, t, n)
				mu.Lock()
				if err != nil {
					failed = errors.Join(failed, fmt.Errorf("session %s: %w", t.session, err))
				} else {
					all.add(v)
				}
				mu.Unlock()
			}
		})
	}
	for _, t := range c.talks {
		next <- t
	}
	close(next)
	group.Wait()
	return all, failed
}

func (c *chaosRun) report(v *verdict, n *notes, took time.Duration) {
	fmt.Fprintf(c.out, "%d messages in %d sessions, %d runtimes and %d servers killed, in %s (%.0f messages/s)\n",
		c.sent.Load(), len(c.talks), c.killed.workers, c.killed.servers, took.Round(time.Second), float64(c.sent.Load())/took.Seconds())
	fmt.Fprintf(c.out, "lost %d, doubled %d, blocked %d, otherwise wrong %d, answers that the contract does not allow %d\n", v.lost, v.doubled, v.blocked, v.wrong, len(n.violations))
	fmt.Fprintf(c.out, "%d answered with %d parts after %d hand-outs; in ERROR, and told: %d whose %d runtimes died or gave up, %d that a runtime could not do\n",
		v.answered, v.parts, v.handouts, v.deaths, attempts, v.given)
	if slices.Sort(v.again); len(v.again) > 0 {
		fmt.Fprintf(c.out, "what a silent runtime had was handed out again %s after its lease (median; %s at most, servers killed meanwhile included)\n",
			v.again[len(v.again)/2], v.again[len(v.again)-1])
	}
	for _, what := range slices.Sorted(maps.Keys(n.counts)) {
		fmt.Fprintf(c.out, "%8d %s\n", n.counts[what], what)
	}
	for _, what := range expected {
		if n.counts[what] == 0 {
			fmt.Fprintln(c.out, "NOT TESTED this time:", what)
		}
	}
}

// expected are the things that a long run meets.
var expected = []string{
	"another text under a stored pair", "refused: a gap", "refused: a part under a generation that is over",
	"said alive", "said failed", "said read", "stalled", "stored before",
}
