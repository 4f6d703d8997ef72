package nodes

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// cluster is some nodes that run sessions, and one that is a gateway only, on one database.
type cluster struct {
	database *database
	lease    time.Duration
	base     string // where the nodes' directories are
	program  string
	config   string   // what every node's config.toml holds
	more     []string // settings of every node

	mu       sync.Mutex
	sessions []*node
	gateway  *node // nil = there is none
	extra    *node // nil = there is none
	failed   chan error
	watch    *watchers
	running  context.Context
}

// open starts the database and the nodes. audit has the database note every write.
func (c *cluster) open(ctx context.Context, nodes int, gateway, audit bool) (err error) {
	c.failed, c.running = make(chan error, 64), ctx
	c.watch = &watchers{over: c.over}
	if c.database, err = openDatabase(ctx); err != nil {
		return err
	}
	for i := range nodes {
		n, err := c.newNode(fmt.Sprintf("node-%d", i+1), false)
		if err != nil {
			return err
		}
		c.sessions = append(c.sessions, n)
		if err := c.start(ctx, n); err != nil {
			return err
		}
		if i == 0 && audit { // it has made the tables
			if err := c.database.audited(ctx); err != nil {
				return err
			}
		}
	}
	if gateway {
		if c.gateway, err = c.newNode("gateway", true); err == nil {
			err = c.start(ctx, c.gateway)
		}
		if err != nil {
			return err
		}
	}
	return c.ready(ctx)
}

// newNode makes a node that is not started.
func (c *cluster) newNode(name string, gateway bool) (*node, error) {
	set := func(run int) []string {
		port, err := freePort()
		if err != nil {
			port = "0" // the node says what is wrong with it
		}
		own := []string{
			"store.postgres=" + c.database.as(fmt.Sprintf("%s.%d", name, run)),
			"cluster.listen=127.0.0.1:" + port, "cluster.name=chaos", "cluster.node=" + name, "cluster.insecure=true",
			"cluster.lease=" + c.lease.String(), "drain.timeout=3s", "log.level=info",
		}
		if gateway {
			own = append(own, "cluster.gateway_only=true")
		}
		return slices.Concat(own, c.more)
	}
	return newNode(c.base, name, c.program, c.config, set)
}

// freePort is one that nobody listens on.
func freePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	_, port, err := net.SplitHostPort(l.Addr().String())
	return port, errors.Join(err, l.Close())
}

// over notes what must not be.
func (c *cluster) over(err error) {
	select {
	case c.failed <- err:
	default: // the first few are enough
	}
}

// start starts a node's process, and watches it.
func (c *cluster) start(ctx context.Context, n *node) error {
	if err := n.start(c.over); err != nil {
		return err
	}
	if p := n.now(); p != nil {
		c.watch.watch(ctx, n, p)
	}
	return nil
}

// all are the nodes, started or not.
func (c *cluster) all() []*node {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Clone(c.sessions)
	for _, n := range []*node{c.gateway, c.extra} {
		if n != nil {
			all = append(all, n)
		}
	}
	return all
}

// Any implements checker.Nodes.
func (c *cluster) Any(random *rand.Rand) string {
	var addrs []string
	for _, n := range c.all() {
		addrs = append(addrs, n.addr())
	}
	return anyOf(random, addrs)
}

// Current implements checker.Nodes. A node that was frozen may answer from before for one
// lease at most.
func (c *cluster) Current(random *rand.Rand) string {
	var addrs []string
	for _, n := range c.all() {
		addrs = append(addrs, n.current(2*c.lease))
	}
	return anyOf(random, addrs)
}

// ready waits until every process that runs says that it is ready.
func (c *cluster) ready(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 10*c.lease+20*time.Second)
	defer cancel()
	for _, n := range c.all() {
		for {
			p := n.now()
			if p == nil {
				break
			}
			status, body, err := get(ctx, p.server.Addr, "/readyz")
			if err == nil && status == http.StatusOK {
				break
			}
			if !pause(ctx, 20*time.Millisecond) {
				return violationf("%s is not ready: %d %s (%v)", n.name, status, body, err)
			}
		}
	}
	return nil
}

// live finds a node that says that it does not live although it runs.
func (c *cluster) live(ctx context.Context) error {
	for _, n := range c.all() {
		addr := n.current(0)
		if addr == "" {
			continue
		}
		bound, cancel := context.WithTimeout(ctx, 5*time.Second)
		status, body, err := get(bound, addr, "/livez")
		cancel()
		if (err != nil || status != http.StatusOK) && n.current(0) == addr {
			return violationf("%s runs and its /livez says %d %s (%v)", n.name, status, body, err)
		}
	}
	return nil
}

// close ends everything.
func (c *cluster) close() error {
	for _, n := range c.all() {
		n.kill()
	}
	if c.database == nil {
		return nil
	}
	return c.database.close()
}

func get(ctx context.Context, addr, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(io.LimitReader(response.Body, 2000))
	return response.StatusCode, string(text), err
}

// pause waits, and is false when there is nothing to wait for.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
