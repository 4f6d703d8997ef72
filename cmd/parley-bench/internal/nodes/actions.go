package nodes

import (
	"context"
	"errors"
	"fmt"
	"syscall"
	"time"
)

// figures are times that were measured on the way.
type figures struct {
	thawedEnd []time.Duration // from the thaw after a freeze longer than the lease to the process's end
	drained   []time.Duration // from SIGTERM to the end
}

// leases is so many leases.
func (c *cluster) leases(n float64) time.Duration { return time.Duration(n * float64(c.lease)) }

// do lets one fault happen and be over, and then waits until the cluster is ready.
func (c *cluster) do(ctx context.Context, s step, f *figures) error {
	if err := c.happen(ctx, s, f); err != nil {
		return fmt.Errorf("%s: %w", s, err)
	}
	if err := c.ready(ctx); err != nil {
		return fmt.Errorf("after %s: %w", s, err)
	}
	return nil
}

func (c *cluster) happen(ctx context.Context, s step, f *figures) error {
	hold := c.leases(s.hold)
	n := c.sessions[s.node%len(c.sessions)]
	switch s.what {
	case killed:
		return c.killed(ctx, n, hold)
	case restarted:
		return c.killed(ctx, n, 0)
	case rolled:
		return c.rolled(ctx, hold, f)
	case allKilled:
		return c.allKilled(ctx, hold)
	case gatewayDied:
		return c.killed(ctx, c.gateway, hold)
	case frozen:
		return c.frozen(ctx, n, hold, f)
	case paused:
		return c.paused(ctx, n, hold)
	case left:
		return c.left(ctx, n, hold, f)
	case joined:
		return c.joined(ctx, hold, f)
	case dbFast, dbImmediate, dbFlap:
		return c.without(ctx, s.what, hold)
	case promoted:
		if err := c.database.promote(ctx); err != nil {
			return err
		}
		pause(ctx, hold)
		return c.database.rejoin(ctx)
	}
	return fmt.Errorf("no such fault")
}

func (c *cluster) killed(ctx context.Context, n *node, hold time.Duration) error {
	n.kill()
	pause(ctx, hold)
	return c.start(ctx, n)
}

// slack is what a loaded machine may add to a time that a node promises.
const slack = 3 * time.Second

// frozen freezes a node for longer than its lease: when it wakes it ends within a second.
func (c *cluster) frozen(ctx context.Context, n *node, hold time.Duration, f *figures) error {
	n.freeze()
	pause(ctx, hold)
	n.endable()
	p := n.thaw()
	if p == nil {
		return errors.New("it has ended in its freeze")
	}
	took, err := n.endsWithin(p, time.Second+slack, 1, "a freeze longer than the lease")
	if err != nil {
		return err
	}
	f.thawedEnd = append(f.thawedEnd, took)
	return c.start(ctx, n)
}

// paused freezes it for less: it goes on.
func (c *cluster) paused(ctx context.Context, n *node, hold time.Duration) error {
	n.freeze()
	pause(ctx, hold)
	n.thaw()
	pause(ctx, c.lease) // its end would be told by itself
	return nil
}

// left ends a node with SIGTERM: it hands everything over and ends in time.
func (c *cluster) left(ctx context.Context, n *node, hold time.Duration, f *figures) error {
	if err := c.drain(n, f); err != nil {
		return err
	}
	pause(ctx, hold)
	return c.start(ctx, n)
}

// rolled restarts every node, the gateway too, as an upgrade does: the next one when the
// one before is ready.
func (c *cluster) rolled(ctx context.Context, hold time.Duration, f *figures) error {
	for _, n := range c.all() {
		if err := c.left(ctx, n, hold, f); err != nil {
			return err
		}
		if err := c.ready(ctx); err != nil {
			return fmt.Errorf("with a new %s: %w", n.name, err)
		}
	}
	return nil
}

// allKilled ends all nodes together, as a loss of power does, and starts all of them
// again at the same time.
func (c *cluster) allKilled(ctx context.Context, hold time.Duration) error {
	together := func(do func(*node) error) error {
		all := c.all()
		errs := make(chan error, len(all))
		for _, n := range all {
			go func() { errs <- do(n) }()
		}
		var err error
		for range all {
			err = errors.Join(err, <-errs)
		}
		return err
	}
	err := together(func(n *node) error { n.kill(); return nil })
	pause(ctx, hold)
	return errors.Join(err, together(func(n *node) error { return c.start(ctx, n) }))
}

func (c *cluster) drain(n *node, f *figures) error {
	p := n.endable()
	if p == nil {
		return errors.New("it does not run")
	}
	if err := p.server.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	took, err := n.endsWithin(p, 8*time.Second+slack, 0, "SIGTERM")
	if err == nil {
		f.drained = append(f.drained, took)
	}
	return err
}

// joined lets a node more join, which then leaves.
func (c *cluster) joined(ctx context.Context, hold time.Duration, f *figures) error {
	n, err := c.newNode("extra", false)
	if err != nil {
		return err
	}
	if err := c.start(ctx, n); err != nil {
		return err
	}
	c.mu.Lock()
	c.extra = n
	c.mu.Unlock()
	if err := c.ready(ctx); err != nil {
		return err
	}
	pause(ctx, hold)
	err = c.drain(n, f)
	c.mu.Lock()
	c.extra = nil
	c.mu.Unlock()
	return err
}

// without takes the database away and brings it back. No node ends, and all say that
// they live.
func (c *cluster) without(ctx context.Context, how fault, hold time.Duration) error {
	d := c.database.primary
	stop, back := d.Fast, func() error { return d.Resume(ctx) }
	switch how {
	case dbImmediate:
		stop = d.Immediate
	case dbFlap:
		stop, back = d.Freeze, d.Thaw
	}
	if err := stop(); err != nil {
		return err
	}
	began := time.Now()
	err := c.live(ctx)
	pause(ctx, hold-time.Since(began))
	return errors.Join(err, back())
}
