package checker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// Swarm is a number of clients of a cluster. Each has a session of its own and goes to
// another node when the one that it talks to is gone, is slow, or just so.
type Swarm struct {
	clients []*client
	nodes   Nodes
	failed  chan error
}

// Nodes says where a cluster takes clients.
type Nodes interface {
	// Any is the address of a node that may be there; "" = there is none at the moment.
	Any(random *rand.Rand) string

	// Current is the address of a node that must know by now whatever was acknowledged
	// by another one; "" = there is none at the moment.
	Current(random *rand.Rand) string
}

// Patience is how long a client of a swarm waits before it tries another node.
const Patience = 4 * time.Second

// NewSwarm makes so many clients; all that they choose is from the seed.
func NewSwarm(clients int, seed uint64, nodes Nodes) *Swarm {
	s := &Swarm{nodes: nodes, failed: make(chan error, clients)}
	for i := range clients {
		cl := newClient(i, seed)
		cl.patience, cl.many = Patience, true
		s.clients = append(s.clients, cl)
	}
	return s
}

// Settings are those of a server that a swarm works on: it waits for short times only,
// and has fewer slots than there are sessions.
func Settings() []string { return append([]string(nil), fastSettings...) }

// JournalConfig is the configuration of a server with the tool whose effects are
// counted in a file, as program (this one) serves it.
func JournalConfig(program, file string) string { return journalConfig(program, file) }

// Failed has an error as soon as a client was answered what it must not be.
func (s *Swarm) Failed() <-chan error { return s.failed }

// Work has all clients perform operations until the context ends.
func (s *Swarm) Work(ctx context.Context) {
	var group sync.WaitGroup
	for _, cl := range s.clients {
		group.Go(func() {
			if err := s.each(ctx, cl, (*client).workFor); err != nil {
				s.failed <- fmt.Errorf("%s, session %s: %w", cl.name, cl.session, err)
			}
		})
	}
	group.Wait()
}

// Finish lets all work end, and repeats what was not answered.
func (s *Swarm) Finish(ctx context.Context, within time.Duration) error {
	deadline := time.Now().Add(within)
	bound, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	errs := make([]error, len(s.clients))
	var group sync.WaitGroup
	for i, cl := range s.clients {
		group.Go(func() {
			ended := false
			cl.until = deadline
			err := s.each(bound, cl, func(cl *client, _ context.Context, addr string) error {
				err := cl.finish(addr, deadline)
				ended = err == nil
				return err
			})
			if err == nil && !ended {
				err = cl.stuck(fmt.Errorf("not within %s", within))
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s, session %s: %w", cl.name, cl.session, err)
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// each goes from node to node until do has ended well, or the context. Only a
// violation is an error: nodes come and go.
func (s *Swarm) each(ctx context.Context, cl *client, do func(*client, context.Context, string) error) error {
	for ctx.Err() == nil {
		cl.elsewhere = s.nodes.Current
		addr := s.nodes.Any(cl.random)
		err := errors.New("no node is there")
		if addr != "" {
			err = do(cl, ctx, addr)
		}
		var violated *violation
		switch code := load.CloseCode(err); {
		case err == nil:
			return nil
		case errors.As(err, &violated):
			return violated
		case code >= 4500 || code == 4000 || code == 1002 || code == 1003 || code == 1007 || code == 1009 || code == 1011:
			return violationf("the connection was closed: %v", err)
		case code != 0:
			cl.counts[fmt.Sprintf("closed with %d", code)]++
		}
		cl.counts["connected again"]++
		rest(ctx, time.Duration(5+cl.random.IntN(45))*time.Millisecond)
	}
	return nil
}

func rest(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// errEnough has a client leave a node for another one.
var errEnough = errors.New("enough of this node")

// workFor performs operations over one connection, some dozens at most.
func (cl *client) workFor(ctx context.Context, addr string) error {
	err := cl.connect(addr, true, func(c *load.Conn) error {
		stop := context.AfterFunc(ctx, c.Close)
		defer stop()
		if err := cl.repeatUnanswered(c); err != nil {
			return err
		}
		for range 5 + cl.random.IntN(60) {
			if ctx.Err() != nil {
				return nil
			}
			if err := cl.burst(c); err != nil {
				return err
			}
			if cl.random.IntN(4) == 0 {
				if err := cl.lookElsewhere(ctx); err != nil {
					return err
				}
			}
			rest(ctx, time.Duration(cl.random.IntN(60))*time.Millisecond)
		}
		return errEnough
	})
	if ctx.Err() != nil {
		var violated *violation
		if errors.As(err, &violated) {
			return violated
		}
		return nil
	}
	return err
}

// lookElsewhere asks another node for the log: an answer of any node has all that
// another one has acknowledged before.
func (cl *client) lookElsewhere(ctx context.Context) error {
	addr := cl.elsewhere(cl.random)
	n := len(cl.history)
	if addr == "" || n == 0 {
		return nil
	}
	last := ""
	for i := len(cl.order) - 1; i >= 0 && last == ""; i-- {
		if cl.acknowledged[cl.order[i]] != "" {
			last = cl.order[i]
		}
	}
	bound, cancel := context.WithTimeout(ctx, cl.patience)
	defer cancel()
	// The last event that was shown, and all that have come since.
	server := &load.Server{Addr: addr}
	page, err := server.Get(bound, fmt.Sprintf("/api/sessions/%s/events?since=%d&limit=200", url.PathEscape(cl.session), n-1))
	if err != nil {
		text := err.Error()
		if strings.Contains(text, ": 404") || strings.Contains(text, ": 500") || strings.Contains(text, ": 400") {
			return violationf("a look at the log: %v", err)
		}
		cl.counts["looks elsewhere that were not answered"]++
		return nil
	}
	cl.counts["looks elsewhere"]++
	if !strings.Contains(string(page), string(cl.history[n-1])) {
		return violationf("seq %d was shown by one node, and another one does not have it so: %s", n, page)
	}
	if last != "" && cl.model.byClientMsgID[last] == nil && !strings.Contains(string(page), `"client_msg_id":"`+last+`"`) {
		if strings.Count(string(page), `"seq":`) < 200 {
			return violationf("%s was acknowledged by one node, and another one does not have it: %s", last, page)
		}
	}
	return nil
}

// Outcome is what a check of a swarm's work has found to be right.
type Outcome struct {
	Acknowledged int            // messages
	Lines        int            // written by tools
	Counts       map[string]int // of events, answers and what else was met
}

// Check compares the log of every session with what its client was told and shown, and
// the lines in the file with the calls in the logs.
func (s *Swarm) Check(ctx context.Context, addr, file string) (Outcome, error) {
	server := &load.Server{Addr: addr}
	o, effects := Outcome{Counts: map[string]int{}}, newSideEffects()
	for _, cl := range s.clients {
		md, err := cl.check(ctx, server, effects)
		if err != nil {
			return o, fmt.Errorf("%s, session %s: %w", cl.name, cl.session, err)
		}
		o.Acknowledged += len(cl.acknowledged)
		for _, some := range []map[string]int{md.counts, cl.counts} {
			for what, n := range some {
				o.Counts[what] += n
			}
		}
	}
	if o.Acknowledged == 0 {
		return o, errors.New("no message was acknowledged: nothing was tested")
	}
	lines, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return o, err
	}
	o.Lines = strings.Count(string(lines), "\n")
	return o, effects.check(string(lines))
}

// Keep writes what each client was shown of its session below a directory: for who looks
// for the cause of a violation.
func (s *Swarm) Keep(dir string) error {
	var errs []error
	for _, cl := range s.clients {
		text := append(bytes.Join(cl.history, []byte("\n")), '\n')
		errs = append(errs, os.WriteFile(filepath.Join(dir, "shown-"+cl.name), text, 0o600))
	}
	return errors.Join(errs...)
}

// Expected are the things that a long run meets.
func Expected() []string { return append([]string(nil), expectedCounts...) }
