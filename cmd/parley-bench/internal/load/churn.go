package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"parley/cmd/parley-bench/internal/report"
)

// A Churn makes sessions, takes a turn in each while it follows, and erases each once
// as many newer ones live.
type Churn struct {
	Workers int
	Live    int           // sessions that stay
	Cycles  int           // 0 = as many as go into the time
	For     time.Duration // 0 = all cycles
	Rate    float64       // cycles a second; 0 = as fast as it goes
	Done    func(cycles int) error
}

// Run runs it. Done is called after each cycle, by one worker at a time.
func (c Churn) Run(ctx context.Context, s *Server) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var next, ended atomic.Int64
	var group sync.WaitGroup
	var calling sync.Mutex
	errs := make([]error, c.Workers)
	began := time.Now()
	one := func(w int) error {
		conn, err := Dial(s.Addr)
		if err != nil {
			return err
		}
		defer conn.Close()
		var own []string
		for {
			i := int(next.Add(1))
			if c.Cycles > 0 && i > c.Cycles || c.For > 0 && time.Since(began) > c.For || ctx.Err() != nil {
				return nil
			}
			if c.Rate > 0 {
				select {
				case <-time.After(time.Until(began.Add(time.Duration(float64(i) / c.Rate * float64(time.Second))))):
				case <-ctx.Done():
					return nil
				}
			}
			session, err := conn.Create()
			if err != nil {
				return err
			}
			if _, _, err := conn.follow(session, 0); err != nil {
				return err
			}
			if _, _, err := conn.turn(session, "1", "/say x"); err != nil {
				return err
			}
			if own = append(own, session); len(own) > c.Live/c.Workers {
				if err := s.erase(ctx, own[0]); err != nil {
					return err
				}
				own = own[1:]
			}
			calling.Lock()
			if c.Done != nil {
				err = c.Done(int(ended.Add(1)))
			}
			calling.Unlock()
			if err != nil {
				return err
			}
		}
	}
	for w := range c.Workers {
		group.Go(func() {
			if errs[w] = one(w); errs[w] != nil {
				cancel()
			}
		})
	}
	group.Wait()
	return errors.Join(errs...)
}

// erase erases a session.
func (s *Server) erase(ctx context.Context, session string) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodDelete, "http://"+s.Addr+"/api/sessions/"+session, nil)
	if err != nil {
		return err
	}
	response, err := many.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode/100 != 2 {
		err = fmt.Errorf("erase %s: %s: %.200s", session, response.Status, answer)
	}
	return err
}

// many keeps a connection for each worker.
var many = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}

// erasing is cycles of create, turn and erase by 8 clients: how fast they are, and
// what each takes of the processor, at the beginning and at the end.
func erasing(ctx context.Context, s *Server, cycles int) ([]report.Figure, error) {
	part := max(1, cycles/6)
	type mark struct {
		at  time.Time
		cpu time.Duration
	}
	marks := map[int]mark{}
	err := Churn{Workers: 8, Cycles: cycles, Done: func(done int) error {
		if done%part == 0 {
			marks[done] = mark{time.Now(), s.CPU()}
		}
		return nil
	}}.Run(ctx, s)
	if err != nil {
		return nil, err
	}
	first, begin, before, last := marks[part], marks[2*part], marks[part*(cycles/part-1)], marks[part*(cycles/part)]
	early, late := (begin.cpu-first.cpu).Seconds()/float64(part), (last.cpu-before.cpu).Seconds()/float64(part)
	return []report.Figure{
		{Column: "cycles/s, the second sixth", Value: float64(part) / begin.at.Sub(first.at).Seconds(), As: report.Whole},
		{Column: "the last sixth", Value: float64(part) / last.at.Sub(before.at).Seconds(), As: report.Whole},
		{Column: "server CPU/cycle, the second sixth", Value: early, As: report.Times},
		{Column: "server CPU/cycle, the last sixth", Value: late, As: report.Times},
		{Column: "last ÷ second", Value: late / early, As: report.Plain},
	}, nil
}
