package load

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"parley/cmd/parley-bench/internal/report"
)

// queued is a session in which n messages wait behind a task: what it costs to send
// each, to follow the session then, and to work them off.
func queued(ctx context.Context, s *Server, n int) ([]report.Figure, error) {
	c, err := Dial(s.Addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	session, _, err := c.createWaiting()
	if err != nil {
		return nil, err
	}
	before, began := s.CPU(), time.Now()
	for i := 1; i < n; i++ { // one waits already
		if _, err := c.Ask("send", session, `{"client_msg_id":"`+strconv.Itoa(i)+`","text":"/say x","mode":"queue"}`); err != nil {
			return nil, err
		}
	}
	sent, sentCPU := time.Since(began), s.CPU()-before
	follows, err := repeat(5, func() error {
		_, _, err := c.followAt(session, `{"tail":50}`)
		return err
	}, func() error {
		_, err := c.Ask("unfollow", session, `{}`)
		return err
	})
	if err != nil {
		return nil, err
	}
	if err := c.followTail(session); err != nil {
		return nil, err
	}
	before, began = s.CPU(), time.Now()
	if _, err := c.Write("cancel", session, `{}`); err != nil {
		return nil, err
	}
	for ended := 0; ended < n+1; { // the first one, too
		f, err := c.Read()
		switch {
		case err != nil:
			return nil, err
		case string(f.Type) == "error":
			return nil, fmt.Errorf("cancel: %s", f.Raw)
		case f.Seq > 0 && string(f.Type) == "task_status" && f.Ended():
			ended++
		}
		if err := ctx.Err(); err != nil {
			return nil, err
		}
	}
	drained, drainedCPU := time.Since(began), s.CPU()-before
	each := func(d time.Duration) float64 { return d.Seconds() / float64(n) }
	return []report.Figure{
		{Column: "sent, each", Value: each(sent), As: report.Times},
		{Column: "server CPU", Value: each(sentCPU), As: report.Times},
		{Column: "follow, p50", Value: follows.percentile(0.5).Seconds(), As: report.Times},
		{Column: "worked off, each", Value: each(drained), As: report.Times},
		{Column: "server CPU, each", Value: each(drainedCPU), As: report.Times},
	}, nil
}

// created is clients that open one session after the other, each with its first turn.
func created(s *Server, l loop) (result, error) {
	return l.run(func(int) (func() (int, error), func(), error) {
		c, err := Dial(s.Addr)
		if err != nil {
			return nil, nil, err
		}
		return func() (int, error) {
			session, err := c.Create()
			if err != nil {
				return 0, err
			}
			if _, _, err := c.follow(session, 0); err != nil {
				return 0, err
			}
			_, _, err = c.turn(session, "1", "/say x")
			return 1, err
		}, c.Close, nil
	})
}

// idleSockets is what each of n sockets that follow a session takes of the server,
// the first n and the next n.
func idleSockets(ctx context.Context, v variant, dir string, n int) ([]report.Figure, error) {
	s, err := v.start(dir)
	if err != nil {
		return nil, err
	}
	defer s.Kill()
	own, err := Dial(s.Addr)
	if err != nil {
		return nil, err
	}
	defer own.Close()
	session, err := own.Create()
	if err != nil {
		return nil, err
	}
	resident := func() (rss, heap float64, err error) {
		if heap, err = s.Heap(ctx); err != nil {
			return 0, 0, err
		}
		rss, err = s.Metric(ctx, "process_resident_memory_bytes")
		return rss, heap, err
	}
	var figures []report.Figure
	beforeRSS, beforeHeap, err := resident()
	if err != nil {
		return nil, err
	}
	for _, which := range []string{"the first", "the next"} {
		for i := range n {
			c, err := Dial(s.Addr)
			if err != nil {
				return nil, fmt.Errorf("socket %d: %w", i, err)
			}
			defer c.Close()
			if err := c.followTail(session); err != nil {
				return nil, err
			}
		}
		rss, heap, err := resident()
		if err != nil {
			return nil, err
		}
		figures = append(figures, report.Figure{Column: which + ": resident bytes a socket", Value: (rss - beforeRSS) / float64(n), As: report.Whole},
			report.Figure{Column: which + ": live heap", Value: (heap - beforeHeap) / float64(n), As: report.Whole})
		beforeRSS, beforeHeap = rss, heap
	}
	return figures, nil
}
