package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Attacker is the hidden command that attacks, in a process of its own: what it costs
// must not be the honest client's, and its end ends everything that it holds.
type Attacker struct {
	Name string        `arg:"" help:"The attack."`
	Addr string        `help:"The server's address."`
	For  time.Duration `help:"How long."`
}

// Run prepares, says so, waits for a line on standard input, attacks, says what it did,
// and holds what it has until standard input ends.
func (c *Attacker) Run(ctx context.Context) error {
	if host, _, err := net.SplitHostPort(c.Addr); err != nil || !strings.HasPrefix(host, "127.") {
		return fmt.Errorf("only servers on the loopback are attacked, not %q", c.Addr)
	}
	for _, a := range attacks() {
		if a.name != c.Name {
			continue
		}
		in := bufio.NewReader(os.Stdin)
		at := &attacking{addr: c.Addr}
		if a.prepare != nil {
			if err := a.prepare(at); err != nil {
				return fmt.Errorf("prepare: %w", err)
			}
		}
		fmt.Fprintln(os.Stdout, "ready")
		if _, err := in.ReadString('\n'); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, c.For)
		defer cancel()
		a.run(ctx, at)
		fmt.Fprintln(os.Stdout, at.did())
		_, err := io.Copy(io.Discard, in)
		return err
	}
	return fmt.Errorf("there is no attack %q", c.Name)
}

// attacking is what an attack holds and has done.
type attacking struct {
	addr    string
	session string

	mu    sync.Mutex
	conns []net.Conn

	done, refused atomic.Int64
	what          string // that was done so often
}

// source is the n-th address that attackers have; the honest client has 127.0.0.1.
func source(n int) string { return fmt.Sprintf("127.0.1.%d", 1+n%200) }

// did says what was done.
func (a *attacking) did() string {
	s := fmt.Sprintf("%d %s", a.done.Load(), a.what)
	if n := a.refused.Load(); n > 0 {
		s += fmt.Sprintf(", %d refused", n)
	}
	return s
}

// pause lets time go by: the rate of an attack is part of it.
func pause(ctx context.Context, long time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(long):
	}
}

// hold keeps a connection until the end.
func (a *attacking) hold(c net.Conn) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.conns = append(a.conns, c)
}

// count counts something that was tried.
func (a *attacking) count(err error) {
	if err != nil {
		a.refused.Add(1)
		return
	}
	a.done.Add(1)
}

// many does something n times, at most so many a second, with so many at a time.
func (a *attacking) many(ctx context.Context, n, perSecond, atOnce int, do func(i int) error) {
	tick := time.NewTicker(max(time.Second/time.Duration(perSecond), time.Microsecond))
	defer tick.Stop()
	room := make(chan struct{}, atOnce)
	var all sync.WaitGroup
	defer all.Wait()
	for i := range n {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		select {
		case room <- struct{}{}:
		case <-ctx.Done():
			return
		}
		all.Go(func() {
			a.count(do(i))
			<-room
		})
	}
}

// socket is a WebSocket that has said hello, from the n-th address.
func (a *attacking) socket(n int) (*net.TCPConn, error) {
	c, err := dialFrom(source(n), a.addr)
	if err != nil {
		return nil, err
	}
	a.hold(c)
	if err = c.SetDeadline(time.Now().Add(patience)); err == nil {
		if err = upgrade(c, a.addr); err == nil {
			err = hello(c)
		}
	}
	if err != nil {
		return nil, err
	}
	return c, c.SetDeadline(time.Time{})
}

// request sends one request from the n-th address and does not read the answer.
func (a *attacking) request(n int, request string) (*net.TCPConn, error) {
	c, err := dialFrom(source(n), a.addr)
	if err != nil {
		return nil, err
	}
	a.hold(c)
	_, err = io.WriteString(c, request)
	return c, err
}

// tell does a request and reads the answer; 429 and 503 are tried again for some time.
// For preparations: each comes from another address, so as not to meet the limits.
func (a *attacking) tell(n int, request string) (string, error) {
	for give := time.Now().Add(6 * time.Second); ; {
		c, err := dialFrom(source(n), a.addr)
		if err != nil {
			return "", err
		}
		status, body, err := exchange(c, request)
		switch {
		case err != nil:
			return "", err
		case status < 300:
			return body, nil
		case status != http.StatusTooManyRequests && status != http.StatusServiceUnavailable || time.Now().After(give):
			return "", fmt.Errorf("%d: %.200s", status, body)
		}
		n++
		pause(context.Background(), 100*time.Millisecond)
	}
}

// exchange does one request and closes the connection.
func exchange(c *net.TCPConn, request string) (status int, body string, err error) {
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(2 * patience)); err != nil {
		return 0, "", err
	}
	if _, err := io.WriteString(c, request); err != nil {
		return 0, "", err
	}
	answer, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		return 0, "", err
	}
	b, err := io.ReadAll(answer.Body)
	return answer.StatusCode, string(b), err
}

// attackerProcess is the running child.
type attackerProcess struct {
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Scanner
}

// launch starts the attacker, and waits until it is prepared.
func launch(ctx context.Context, name, addr string, long time.Duration) (*attackerProcess, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	p := &attackerProcess{cmd: exec.CommandContext(ctx, "nice", "-n", "10", self, "attacker", name, "--addr", addr, "--for", long.String())}
	p.cmd.Stderr = os.Stderr
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.lines = bufio.NewScanner(out)
	if !p.lines.Scan() || p.lines.Text() != "ready" {
		p.end()
		return nil, errors.New("the attacker did not get ready")
	}
	return p, nil
}

// begin lets it attack.
func (p *attackerProcess) begin() error {
	_, err := io.WriteString(p.in, "\n")
	return err
}

// said waits for what it says it did.
func (p *attackerProcess) said() string {
	if !p.lines.Scan() {
		return "it ended"
	}
	return p.lines.Text()
}

// end ends it, and with it all that it holds.
func (p *attackerProcess) end() {
	p.in.Close()
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}
