package peers

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// broadcaster is a running program that brings what one client says to all its followers.
type broadcaster interface {
	// follower has a socket that gets every event from now on.
	follower() (*socket, error)
	// sender has a socket and the command by which it causes one event with a text.
	sender() (s *socket, command func(text string) string, err error)
	cpu() time.Duration
	stop()
}

// fan is a workload of the fan-out: bursts of events, and how long to wait from the
// start of one burst to that of the next; 0 is until it has arrived everywhere.
type fan struct {
	followers, bursts, burst int
	every                    time.Duration
	bytes                    int // of one event's frame
}

// fanned is what one run of it says.
type fanned struct {
	cpu, p50, p99, perSecond float64 // µs of the server a delivery; ms until the last follower has the event
	bytes                    float64 // of one event, as it came
}

const mark = "mark"

// marked is a text with the event's number, by which followers know it.
func marked(event, pad int) string {
	return fmt.Sprintf("%s%08d", mark, event) + strings.Repeat("x", max(0, pad))
}

// crowd counts what the followers get.
type crowd struct {
	followers int
	left      []atomic.Int32 // followers that have not seen the event
	arrived   []time.Time    // at the last of them
	bytes     atomic.Int64
	missing   sync.WaitGroup // events
	errs      chan error
}

// follow reads until the socket is closed.
func (c *crowd) follow(s *socket) {
	next := 0
	for {
		b, err := s.read()
		if err != nil {
			c.errs <- err
			return
		}
		if !bytes.Contains(b, []byte(mark)) {
			continue
		}
		c.bytes.Add(int64(len(b)))
		for at := bytes.Index(b, []byte(mark)); at >= 0; at = bytes.Index(b, []byte(mark)) {
			number, err := strconv.Atoi(string(b[at+len(mark) : at+len(mark)+8]))
			if err != nil || number != next {
				c.errs <- fmt.Errorf("event %d where %d is next", number, next)
				return
			}
			if c.left[number].Add(-1) == 0 {
				c.arrived[number] = time.Now()
				c.missing.Done()
			}
			next++
			b = b[at+len(mark)+8:]
		}
	}
}

// refused reads the answers that the sender gets: none may be an error.
func (c *crowd) refused(sender *socket) {
	for {
		b, err := sender.read()
		if err == nil && bytes.Contains(b, []byte(`"error"`)) {
			err = fmt.Errorf("the sender is told %.200s", b)
		}
		if err != nil {
			c.errs <- err
			return
		}
	}
}

// wait waits until every follower has every event that was announced.
func (c *crowd) wait() error {
	done := make(chan struct{})
	go func() { c.missing.Wait(); close(done) }()
	select {
	case <-done:
		return nil
	case err := <-c.errs:
		return err
	case <-time.After(time.Minute):
		return errors.New("the events did not arrive within a minute")
	}
}

// run measures the workload against one program.
func (f fan) run(b broadcaster) (fanned, error) {
	sender, command, err := b.sender()
	if err != nil {
		return fanned{}, err
	}
	defer sender.close()
	pad, err := f.padding(b, sender, command)
	if err != nil {
		return fanned{}, err
	}
	events := f.bursts * f.burst
	c := &crowd{followers: f.followers, left: make([]atomic.Int32, events), arrived: make([]time.Time, events), errs: make(chan error, f.followers+1)}
	for i := range c.left {
		c.left[i].Store(int32(f.followers))
	}
	go c.refused(sender)
	for range f.followers {
		s, err := b.follower()
		if err != nil {
			return fanned{}, err
		}
		defer s.close()
		go c.follow(s)
	}
	sent := make([]time.Time, events)
	used, began := b.cpu(), time.Now()
	ticker := time.NewTicker(max(f.every, 1))
	defer ticker.Stop()
	for burst := range f.bursts {
		var texts []string
		for i := burst * f.burst; i < (burst+1)*f.burst; i++ {
			texts = append(texts, command(marked(i, pad)))
		}
		c.missing.Add(len(texts))
		now := time.Now()
		for i := range texts {
			sent[burst*f.burst+i] = now
		}
		if err := sender.write(texts...); err != nil {
			return fanned{}, err
		}
		if f.every == 0 || burst == f.bursts-1 {
			if err := c.wait(); err != nil {
				return fanned{}, err
			}
			continue
		}
		<-ticker.C
	}
	used = b.cpu() - used
	var late []time.Duration
	for i := range events {
		late = append(late, c.arrived[i].Sub(sent[i]))
	}
	slices.Sort(late)
	deliveries := events * f.followers
	return fanned{
		cpu: each(used, deliveries), p50: milliseconds(nearest(0.5, late)), p99: milliseconds(nearest(0.99, late)),
		perSecond: float64(deliveries) / time.Since(began).Seconds(), bytes: float64(c.bytes.Load()) / float64(deliveries),
	}, nil
}

// padding is how much text makes an event's frame as large as it shall be.
func (f fan) padding(b broadcaster, sender *socket, command func(string) string) (int, error) {
	s, err := b.follower()
	if err != nil {
		return 0, err
	}
	defer s.close()
	var got []byte
	for i := range 2 { // centrifuge's first event says more than those after it
		if err := sender.write(command(marked(i, 0))); err != nil {
			return 0, err
		}
		if got, err = s.has(mark); err != nil {
			return 0, err
		}
	}
	return f.bytes - len(got), nil
}

// parleyFan is a session whose queued message is edited: one durable event and one
// synced commit for each.
type parleyFan struct {
	parley
	session string
	message string // waits in the session, to be edited; "" = not yet
}

func startParleyFan(program string) func(context.Context, string) (broadcaster, error) {
	return func(_ context.Context, dir string) (broadcaster, error) {
		s, err := load.StartServer(program, filepath.Join(dir, "data"))
		if err != nil {
			return nil, err
		}
		c, err := load.Dial(s.Addr)
		if err != nil {
			s.Kill()
			return nil, err
		}
		defer c.Close()
		session, err := c.Create()
		if err != nil {
			s.Kill()
			return nil, err
		}
		return &parleyFan{parley: parley{s}, session: session}, nil
	}
}

func (p *parleyFan) dial() (*socket, error) {
	s, err := dial(p.server.Addr, "/ws", "parley.v1")
	if err != nil {
		return nil, err
	}
	if err = s.write(`{"type":"hello","id":"1","data":{"proto":1,"client":{"name":"parley-bench","version":"1"}}}`); err == nil {
		_, err = s.has(`"re":"1"`)
	}
	return s, err
}

func (p *parleyFan) follower() (*socket, error) {
	s, err := p.dial()
	if err != nil {
		return nil, err
	}
	if err = s.write(`{"type":"follow","id":"2","session":"` + p.session + `","data":{"tail":1}}`); err == nil {
		_, err = s.has(`"type":"synced"`)
	}
	return s, err
}

func (p *parleyFan) sender() (*socket, func(string) string, error) {
	s, err := p.dial()
	if err != nil {
		return nil, nil, err
	}
	say := func(id, text string) ([]byte, error) {
		if err := s.write(`{"type":"send","id":"` + id + `","session":"` + p.session + `","data":{"client_msg_id":"` + id + `","text":"` + text + `","mode":"queue"}}`); err != nil {
			return nil, err
		}
		return s.has(`"re":"` + id + `"`)
	}
	edit := func(text string) string {
		return `{"type":"edit","id":"4","session":"` + p.session + `","data":{"message":"` + p.message + `","text":"` + text + `"}}`
	}
	if p.message != "" {
		return s, edit, nil
	}
	if _, err = say("2", `/wait 1h\n/say x`); err != nil { // what is sent now waits behind it
		return nil, nil, err
	}
	answer, err := say("3", "waits")
	if err != nil {
		return nil, nil, err
	}
	var queued struct {
		Data struct{ Message, Disposition string }
	}
	if err := json.Unmarshal(answer, &queued); err != nil || queued.Data.Disposition != "queued" {
		return nil, nil, fmt.Errorf("the message to edit is not queued: %s", answer)
	}
	p.message = queued.Data.Message
	return s, edit, nil
}

// centrifuge is the library in a process of its own; a publication is kept in memory.
type centrifuge struct {
	*process
	addr string
}

func startCentrifuge(program string) func(context.Context, string) (broadcaster, error) {
	return func(context.Context, string) (broadcaster, error) {
		p, addr, err := startListening(program)
		return centrifuge{p, addr}, err
	}
}

func (c centrifuge) stop() { c.kill() }

func (c centrifuge) dial() (*socket, error) {
	s, err := dial(c.addr, "/", "")
	if err != nil {
		return nil, err
	}
	if err = s.write(`{"id":1,"connect":{}}`); err == nil {
		_, err = s.has(`"id":1,`)
	}
	return s, err
}

func (c centrifuge) follower() (*socket, error) {
	s, err := c.dial()
	if err != nil {
		return nil, err
	}
	if err = s.write(`{"id":2,"subscribe":{"channel":"session"}}`); err == nil {
		_, err = s.has(`"id":2,`)
	}
	return s, err
}

func (c centrifuge) sender() (*socket, func(string) string, error) {
	s, err := c.dial()
	return s, func(text string) string {
		return `{"id":3,"publish":{"channel":"session","data":{"message":"m","text":"` + text + `"}}}`
	}, err
}
