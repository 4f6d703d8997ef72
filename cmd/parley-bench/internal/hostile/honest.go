package hostile

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// honest is a client that does nothing wrong: a session of its own, which it talks to by
// a socket and reads over HTTP.
type honest struct {
	addr    string
	conn    *load.Conn
	http    *http.Client
	session string
	next    int
	cut     int // how often it lost its socket or was refused
}

// patience is how long an honest client waits for anything.
const patience = 3 * time.Second

func newHonest(addr string) (*honest, error) {
	h := &honest{addr: addr, http: &http.Client{Timeout: patience, Transport: &http.Transport{}}}
	if err := h.connect(); err != nil {
		return nil, err
	}
	var err error
	if h.session, err = h.conn.Create(); err != nil {
		return nil, err
	}
	return h, h.follow()
}

func (h *honest) connect() (err error) {
	h.conn, err = load.Dial(h.addr)
	return err
}

func (h *honest) follow() error {
	_, err := h.conn.Ask("follow", h.session, `{"tail":1}`)
	return err
}

func (h *honest) close() {
	if h.conn != nil {
		h.conn.Close()
	}
	h.http.CloseIdleConnections()
}

// measure does a turn or a request 15 times a second for so long, and returns how long
// each took. What fails took the whole of its patience.
func (h *honest) measure(ctx context.Context, long time.Duration) []time.Duration {
	ctx, cancel := context.WithTimeout(ctx, long)
	defer cancel()
	tick := time.NewTicker(time.Second / 15)
	defer tick.Stop()
	var took []time.Duration
	for {
		select {
		case <-ctx.Done():
			return took
		case <-tick.C:
		}
		began := time.Now()
		err := h.one()
		if err != nil {
			h.cut++
			took = append(took, patience)
			continue
		}
		took = append(took, time.Since(began))
	}
}

// one is the next thing that it does.
func (h *honest) one() error {
	h.next++
	if h.next%2 == 0 {
		response, err := h.http.Get("http://" + h.addr + "/api/sessions/" + h.session)
		if err != nil {
			return err
		}
		defer response.Body.Close()
		if _, err = io.Copy(io.Discard, response.Body); err == nil && response.StatusCode != http.StatusOK {
			err = errors.New(response.Status)
		}
		return err
	}
	if h.conn == nil {
		if err := h.connect(); err != nil {
			h.conn = nil
			return err
		}
		if err := h.follow(); err != nil {
			return err
		}
	}
	if err := h.turn(); err != nil {
		h.conn.Close()
		h.conn = nil
		return err
	}
	return nil
}

// turn says something and waits until its task has ended.
func (h *honest) turn() error {
	if err := h.conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := h.conn.Write("send", h.session, fmt.Sprintf(`{"client_msg_id":"h%d","text":"/say hi"}`, h.next)); err != nil {
		return err
	}
	for {
		f, err := h.conn.Read()
		if err != nil {
			return err
		}
		switch string(f.Type) {
		case "error":
			return errors.New(string(f.Raw))
		case "task_status":
			if f.Ended() {
				return nil
			}
		}
	}
}

// newcomers connect four times a second until the context ends: a socket that says
// hello, and a stream of events.
type newcomers struct{ came, refused atomic.Int32 }

func (n *newcomers) come(ctx context.Context, addr, session string) {
	tick := time.NewTicker(time.Second / 4)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		n.came.Add(1)
		if err := arrive(addr, session); err != nil && ctx.Err() == nil {
			n.refused.Add(1)
		}
	}
}

// arrive is one newcomer.
func arrive(addr, session string) error {
	s, err := dialFrom("", addr)
	if err != nil {
		return err
	}
	defer s.Close()
	if err := s.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if err := upgrade(s, addr); err != nil {
		return err
	}
	if err := hello(s); err != nil {
		return err
	}
	stream, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return err
	}
	defer stream.Close()
	if err := stream.SetDeadline(time.Now().Add(patience)); err != nil {
		return err
	}
	if _, err := io.WriteString(stream, get("/api/sessions/"+session+"/stream", addr)); err != nil {
		return err
	}
	answer, err := http.ReadResponse(newReader(stream), nil)
	if err != nil {
		return err
	}
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	return nil
}

// quantile is the q-th of the sorted times.
func quantile(all []time.Duration, q float64) time.Duration {
	if len(all) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(all))
	return sorted[min(len(sorted)-1, int(q*float64(len(sorted))))]
}
