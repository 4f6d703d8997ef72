package peers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"time"
)

// resumer is a program whose clients come back and are brought what they have missed.
type resumer interface {
	broadcaster
	// client has a socket that follows nothing yet.
	client() (*socket, error)
	// position is where what happens from now on begins.
	position() (at string, err error)
	// resumption is the command that brings a client everything since then, and what
	// the last frame holds that it brings.
	resumption(at string) (command, last string)
}

// resume is a workload: clients that come back at once, each of which has missed events.
type resume struct{ clients, events, pad int }

// resumed is what one run of it says.
type resumed struct{ cpu, seconds float64 } // µs of the server an event; until the last client has everything

func (r resumed) ofCPU() float64     { return r.cpu }
func (r resumed) ofSeconds() float64 { return r.seconds }

// run measures the workload against one program.
func (w resume) run(b resumer) (resumed, error) {
	at, err := b.position()
	if err != nil {
		return resumed{}, err
	}
	if err := w.fill(b); err != nil {
		return resumed{}, err
	}
	var clients []*socket
	for range w.clients {
		s, err := b.client()
		if err != nil {
			return resumed{}, err
		}
		defer s.close()
		clients = append(clients, s)
	}
	command, last := b.resumption(at)
	done := make(chan error, len(clients))
	used, began := b.cpu(), time.Now()
	for _, s := range clients {
		go func() {
			err := s.write(command)
			if err == nil {
				err = s.missed(w.events, last)
			}
			done <- err
		}()
	}
	for range clients {
		err = errors.Join(err, <-done)
	}
	took := time.Since(began)
	return resumed{cpu: each(b.cpu()-used, w.clients*w.events), seconds: took.Seconds()}, err
}

// fill makes the events that will be missed.
func (w resume) fill(b resumer) error {
	watcher, err := b.follower()
	if err != nil {
		return err
	}
	defer watcher.close()
	sender, command, err := b.sender()
	if err != nil {
		return err
	}
	defer sender.close()
	for i := range w.events {
		if err := sender.write(command(marked(i, w.pad))); err != nil {
			return err
		}
		if _, err := watcher.has(marked(i, 0)); err != nil {
			return err
		}
	}
	return nil
}

// missed reads until the last frame, by which so many events must have come.
func (s *socket) missed(n int, last string) error {
	if err := s.conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
		return err
	}
	for {
		b, err := s.read()
		if err != nil {
			return fmt.Errorf("%w, %d events before the end", err, n)
		}
		n -= bytes.Count(b, []byte(mark))
		if !bytes.Contains(b, []byte(last)) {
			continue
		}
		if n > 0 {
			return fmt.Errorf("%d events did not come", n)
		}
		return nil
	}
}

var (
	headOf   = regexp.MustCompile(`"head":(\d+)`)
	epochOf  = regexp.MustCompile(`"epoch":"([^"]*)"`)
	offsetOf = regexp.MustCompile(`"offset":(\d+)`)
)

func (p *parleyFan) client() (*socket, error) { return p.dial() }

func (p *parleyFan) position() (string, error) {
	sender, _, err := p.sender() // its messages are no event of the workload
	if err != nil {
		return "", err
	}
	sender.close()
	s, err := p.dial()
	if err != nil {
		return "", err
	}
	defer s.close()
	if err := s.write(`{"type":"follow","id":"2","session":"` + p.session + `","data":{"tail":1}}`); err != nil {
		return "", err
	}
	answer, err := s.has(`"re":"2"`)
	if err != nil {
		return "", err
	}
	if head := headOf.FindSubmatch(answer); head != nil {
		return string(head[1]), nil
	}
	return "", fmt.Errorf("no head in %s", answer)
}

func (p *parleyFan) resumption(at string) (command, last string) {
	return `{"type":"follow","id":"2","session":"` + p.session + `","data":{"since":` + at + `}}`, `"type":"synced"`
}

func (c centrifuge) client() (*socket, error) { return c.dial() }

func (c centrifuge) position() (string, error) {
	s, err := c.dial()
	if err != nil {
		return "", err
	}
	defer s.close()
	if err := s.write(`{"id":2,"subscribe":{"channel":"session"}}`); err != nil {
		return "", err
	}
	answer, err := s.has(`"id":2,`)
	if err != nil {
		return "", err
	}
	epoch, offset := epochOf.FindSubmatch(answer), "0"
	if epoch == nil {
		return "", fmt.Errorf("no epoch in %s", answer)
	}
	if found := offsetOf.FindSubmatch(answer); found != nil {
		offset = string(found[1])
	}
	return `"epoch":"` + string(epoch[1]) + `","offset":` + offset, nil
}

func (c centrifuge) resumption(at string) (command, last string) {
	return `{"id":2,"subscribe":{"channel":"session","recover":true,` + at + `}}`, `"recovered":true`
}

const resumeConditions = `
### Resume: %d clients come back at once, each has missed %d events of one session

parley reads them from its log, which is on the disk; centrifuge recovers them from its history in memory. Both on sockets that are open already.

| | server CPU, µs an event | until the last client has everything, s |
|---|---|---|
`

// resumes measures both sides in turn.
func (r *report) resumes(ctx context.Context, server string) error {
	r.printf(resumeConditions, r.back.clients, r.back.events)
	sides := []fanSide{{"parley", startParleyFan(server)}}
	missing := r.programs.noFan
	if missing == nil {
		sides = append(sides, fanSide{"centrifuge", startCentrifuge(r.programs.centrifuge)})
	}
	cpu, seconds := map[string]spread{}, map[string]spread{}
	for range r.Rounds {
		for i, s := range sides {
			if s.start == nil {
				continue
			}
			m, err := r.oneResume(ctx, s.start)
			switch {
			case err != nil && i == 0:
				return fmt.Errorf("%s: %w", s.name, err)
			case err != nil:
				missing, sides[i].start = err, nil
			default:
				cpu[s.name], seconds[s.name] = append(cpu[s.name], m.ofCPU()), append(seconds[s.name], m.ofSeconds())
			}
		}
	}
	for _, s := range sides {
		if len(cpu[s.name]) > 0 {
			r.printf("| %s | %s | %s |\n", s.name, cpu[s.name].show("%.2f"), seconds[s.name].show("%.2f"))
		}
	}
	if missing != nil {
		r.printf("| centrifuge | NOT RUN: %s | |\n", oneLine(missing))
		return nil
	}
	r.printf("\n| parley ÷ centrifuge: server CPU an event | time | goal of parley's time |\n|---|---|---|\n| %s | %s | < %.1f s: %s |\n",
		over(cpu["parley"], cpu["centrifuge"], "%.2f"), over(seconds["parley"], seconds["centrifuge"], "%.2f"), resumeGoal, verdict(seconds["parley"].median() < resumeGoal))
	return nil
}

func (r *report) oneResume(ctx context.Context, start func(context.Context, string) (broadcaster, error)) (resumed, error) {
	dir, err := r.fresh()
	if err != nil {
		return resumed{}, err
	}
	defer os.RemoveAll(dir)
	b, err := start(ctx, dir)
	if err != nil {
		return resumed{}, err
	}
	defer b.stop()
	again, ok := b.(resumer)
	if !ok {
		return resumed{}, errors.New("it does not resume")
	}
	m, err := r.back.run(again)
	return m, firstOf(err, ctx.Err())
}
