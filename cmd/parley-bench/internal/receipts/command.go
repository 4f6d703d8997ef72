package receipts

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// Receipts is the command that holds conversations and judges their receipts; its
// fields are its flags.
type Receipts struct {
	Server      string        `help:"The server's program (default: it is built)." placeholder:"PATH"`
	Config      string        `help:"Its configuration, with the model to be judged (default: the scripted model)." placeholder:"FILE"`
	Model       string        `help:"The block [models.NAME] of the configuration (default: its model.default)." placeholder:"NAME"`
	URL         string        `name:"url" help:"A server that runs already, in place of one that is started." placeholder:"http://127.0.0.1:8080"`
	StandIn     string        `help:"Start a chat model made of rules in this process, and judge that: ${enum}." enum:",careful,plain,repeats,sentence" default:""`
	Everyday    int           `help:"Everyday conversations, each in three settings; 0 for none." default:"24"`
	Only        string        `help:"Only conversations whose name contains this." placeholder:"TEXT"`
	Seed        uint64        `help:"Of the random moments, and of which everyday conversations are held." default:"1"`
	Runs        int           `help:"How often each conversation is held, each time with another seed." default:"1"`
	Parallel    int           `help:"Conversations at once." default:"4"`
	Timeout     time.Duration `help:"Of one conversation; what is open then counts as unanswered." default:"3m"`
	MinTrue     float64       `help:"Fail if fewer than this many percent of the receipts are true." placeholder:"PERCENT"`
	PriceIn     float64       `help:"Price of a million input tokens." placeholder:"PRICE"`
	PriceCached float64       `help:"Price of a million input tokens from the provider's cache (default: as the others)." placeholder:"PRICE"`
	PriceOut    float64       `help:"Price of a million output tokens." placeholder:"PRICE"`
	JSON        bool          `name:"json" help:"Print the report as JSON, with every message and its part."`
}

// Run holds the conversations and prints the report: progress goes to standard error.
func (r *Receipts) Run(ctx context.Context) error { return r.run(ctx, os.Stdout, os.Stderr) }

func (r *Receipts) run(ctx context.Context, out, progress io.Writer) error {
	result, err := r.judge(ctx, progress)
	if err != nil {
		return err
	}
	if r.JSON {
		err = result.json(out)
	} else {
		result.table(out, r.prices())
	}
	if err == nil && ctx.Err() != nil {
		return fmt.Errorf("it was interrupted after %d conversations", len(result.Conversations))
	}
	if err == nil && result.Total.share() < r.MinTrue {
		err = fmt.Errorf("%.1f %% of the receipts are true, and at least %g %% must be", result.Total.share(), r.MinTrue)
	}
	return err
}

func (r *Receipts) prices() prices {
	p := prices{r.PriceIn, r.PriceCached, r.PriceOut}
	if p.cached == 0 {
		p.cached = p.in
	}
	return p
}

// judge starts what is to be started, holds all conversations and sums them up.
func (r *Receipts) judge(ctx context.Context, progress io.Writer) (*report, error) {
	talks, err := readTalks(embedded)
	if err != nil {
		return nil, err
	}
	talks = slices.DeleteFunc(talks, func(t talk) bool { return !strings.Contains(t.Name, r.Only) })
	more, err := everydayTalks(max(0, r.Everyday), r.Seed, r.Only)
	if err != nil {
		return nil, err
	}
	talks = append(talks, more...)
	if r.Timeout <= 0 || r.MinTrue < 0 || r.MinTrue > 100 || r.PriceIn < 0 || r.PriceCached < 0 || r.PriceOut < 0 {
		return nil, fmt.Errorf("--timeout %s must be more than 0, --min-true %g from 0 to 100, and no price less than 0", r.Timeout, r.MinTrue)
	}
	if len(talks) == 0 || r.Everyday < 0 || r.Runs < 1 || r.Parallel < 1 {
		return nil, fmt.Errorf("there is nothing to do: %d conversations %q, --everyday %d, --runs %d, --parallel %d", len(talks), r.Only, r.Everyday, r.Runs, r.Parallel)
	}
	server, stop, err := r.serve(talks)
	if err != nil {
		return nil, err
	}
	defer stop()
	if r.URL != "" { // else it was just started
		if _, err := server.Get(ctx, "/api/sessions"); err != nil {
			return nil, fmt.Errorf("--url: %w", err)
		}
	}
	began := time.Now()
	all := make([]account, len(talks)*r.Runs)
	result := &report{Seed: r.Seed}
	next := make(chan int)
	var said sync.Mutex
	var workers sync.WaitGroup
	for range min(r.Parallel, len(all)) {
		workers.Go(func() {
			for i := range next {
				a, model := r.hold(ctx, server, &talks[i%len(talks)], i/len(talks))
				said.Lock()
				all[i] = a
				if model != "" {
					result.Model = model
				}
				fmt.Fprintln(progress, a.line())
				said.Unlock()
			}
		})
	}
	for i := range all {
		if ctx.Err() == nil { // what was held is reported also when somebody interrupts
			next <- i
		}
	}
	close(next)
	workers.Wait()
	for i := range all {
		if all[i].Run > 0 {
			result.Conversations = append(result.Conversations, all[i])
			result.Total.add(all[i].counts)
		}
	}
	result.Everyday = result.everyday()
	result.Elapsed = time.Since(began).Seconds()
	if server.Log != nil && result.Total.Failed+result.Total.Unanswered > 0 {
		fmt.Fprintf(progress, "the server's log:\n%s", server.Log)
	}
	return result, nil
}

// serve returns the server that is judged. Its data directory goes with it.
func (r *Receipts) serve(talks []talk) (*load.Server, func(), error) {
	if r.URL != "" {
		if r.Server != "" || r.Config != "" || r.Model != "" || r.StandIn != "" {
			return nil, nil, fmt.Errorf("--url names a server that runs already: --server, --config, --model and --stand-in have no effect on it")
		}
		u, err := url.Parse(r.URL)
		if err != nil || u.Scheme != "http" || u.Host == "" {
			return nil, nil, fmt.Errorf("--url must be like http://127.0.0.1:8080, not %q", r.URL)
		}
		return &load.Server{Addr: u.Host}, func() {}, nil
	}
	program, cleanup, err := load.BuildServer(r.Server)
	if err != nil {
		return nil, nil, err
	}
	base, err := os.MkdirTemp("", "parley-receipts-")
	if err != nil {
		cleanup()
		return nil, nil, err
	}
	undo := []func(){cleanup, func() { os.RemoveAll(base) }}
	stop := func() {
		for _, f := range slices.Backward(undo) {
			f()
		}
	}
	var args, set []string
	switch {
	case r.StandIn != "" && r.Config != "":
		stop()
		return nil, nil, fmt.Errorf("--stand-in has a configuration of its own: --config has no effect")
	case r.StandIn != "":
		address, end, err := startStandIn(r.StandIn, talks)
		if err != nil {
			stop()
			return nil, nil, err
		}
		undo = append(undo, end)
		file := filepath.Join(base, "config.toml") // the server finds it beside its data
		if err := os.WriteFile(file, []byte(standInConfig(address)), 0o600); err != nil {
			stop()
			return nil, nil, err
		}
	case r.Config != "":
		file, err := filepath.Abs(r.Config)
		if err != nil {
			stop()
			return nil, nil, err
		}
		args = []string{"--config", file}
	}
	if r.Model != "" {
		set = append(set, "model.default="+r.Model)
	}
	server, err := load.Launch{Path: program, Data: filepath.Join(base, "data"), More: args, Set: set}.Start()
	if err != nil {
		stop()
		return nil, nil, err
	}
	undo = append(undo, func() { _ = server.Stop() }) // its data is thrown away
	return server, stop, nil
}

// hold plays one conversation, and names the model.
func (r *Receipts) hold(ctx context.Context, server *load.Server, t *talk, run int) (a account, model string) {
	ctx, cancel := context.WithTimeoutCause(ctx, r.Timeout, fmt.Errorf("it was not over after %s", r.Timeout))
	defer cancel()
	began := time.Now()
	p := &play{talk: t, history: newHistory(), refused: map[int]bool{}, random: rand.New(rand.NewPCG(r.Seed+uint64(run), hash(t.Name)))}
	err := p.all(ctx, server)
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	a = p.account(r.prices(), time.Since(began), err)
	a.Run = run + 1
	return a, p.history.model
}

// hash gives each conversation random numbers of its own, whatever others there are.
func hash(s string) uint64 {
	h := uint64(14695981039346656037) // FNV-1a
	for _, b := range []byte(s) {
		h = (h ^ uint64(b)) * 1099511628211
	}
	return h
}
