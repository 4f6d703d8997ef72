package load

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"
)

// turns are clients, each with its own session, each sends a message and waits for
// the response and the end of its task before the next. events is the number of
// events that one turn brings a client, on the average.
func turns(l loop, addrs ...string) (r result, events float64, err error) {
	all, sum := 0, 0
	r, err = l.run(func(worker int) (func() (int, error), func(), error) {
		c, err := Dial(addrs[worker%len(addrs)])
		if err != nil {
			return nil, nil, err
		}
		session, err := c.Create()
		if err != nil {
			return nil, nil, err
		}
		if _, _, err := c.follow(session, 0); err != nil {
			return nil, nil, err
		}
		sent := 0
		return func() (int, error) {
			sent++
			_, came, err := c.turn(session, strconv.Itoa(sent), "/say x")
			if worker == 0 {
				all, sum = all+1, sum+came
			}
			return 1, err
		}, c.Close, nil
	})
	return r, float64(sum) / float64(max(1, all)), err
}

// Work has so many clients take turns for d.
func (s *Server) Work(clients int, d time.Duration) error {
	_, _, err := turns(loop{workers: clients, d: d}, s.Addr)
	return err
}

// Turns is how many turns a second so many clients of some servers take in d, and how long
// one of them takes: the median.
func Turns(clients int, d time.Duration, addrs ...string) (perSecond float64, median time.Duration, err error) {
	r, _, err := turns(loop{workers: clients, d: d}, addrs...)
	return r.perSecond(), r.percentile(0.5), err
}

// followers are n sockets that follow a session. Of each event, and how many there
// were in the round, ends says whether it ends the round for that socket. stop closes
// the sockets, and with that ends their readers.
func followers(s *Server, session string, n int, rounds *rounds, ends func(f *Frame, events int) bool) (stop func(), err error) {
	var sockets []*Conn
	stop = func() {
		for _, c := range sockets {
			c.Close()
		}
	}
	for i := range n {
		c, err := Dial(s.Addr)
		if err == nil {
			sockets = append(sockets, c)
			err = c.followTail(session)
		}
		if err != nil {
			stop()
			return nil, fmt.Errorf("follower %d: %w", i, err)
		}
		go func() {
			events, last := 0, uint64(0)
			for {
				f, err := c.Read()
				switch {
				case err != nil:
					rounds.fail(fmt.Errorf("follower %d: %w", i, err))
					return
				case f.Seq == 0:
					continue
				case last != 0 && f.Seq != last+1:
					rounds.fail(fmt.Errorf("follower %d: seq %d after %d", i, f.Seq, last))
					return
				}
				last = f.Seq
				events++
				if ends(f, events) {
					rounds.seen(events)
					events = 0
				}
			}
		}()
	}
	return stop, nil
}

// fan is one session, n followers, one sender. A round is a turn, and ends when every
// follower has every event of it.
func fan(s *Server, n int, d time.Duration) (r result, cpu time.Duration, err error) {
	sender, err := Dial(s.Addr)
	if err != nil {
		return result{}, 0, err
	}
	defer sender.Close()
	session, err := sender.Create()
	if err != nil {
		return result{}, 0, err
	}
	if _, _, err := sender.follow(session, 0); err != nil {
		return result{}, 0, err
	}
	if _, _, err = sender.turn(session, "warm", "/say x"); err != nil {
		return result{}, 0, err
	}
	rounds := newRounds(n)
	stop, err := followers(s, session, n, rounds, func(f *Frame, _ int) bool { return string(f.Type) == "task_status" && f.Ended() })
	if err != nil {
		return result{}, 0, err
	}
	defer stop()
	sent, before := 0, s.CPU()
	r, err = rounds.run(d, 0, func() error {
		sent++
		_, _, err := sender.turn(session, strconv.Itoa(sent), "/say x")
		return err
	})
	return r, s.CPU() - before, err
}

// fanEdits is the same with rounds of so many edits of a message that waits: one
// event and one commit each, and no model. every is the least time between two rounds.
func fanEdits(s *Server, n, edits int, d, every time.Duration) (r result, cpu time.Duration, err error) {
	sender, err := Dial(s.Addr)
	if err != nil {
		return result{}, 0, err
	}
	defer sender.Close()
	session, message, err := sender.createWaiting()
	if err != nil {
		return result{}, 0, err
	}
	rounds := newRounds(n)
	stop, err := followers(s, session, n, rounds, func(_ *Frame, events int) bool { return events == edits })
	if err != nil {
		return result{}, 0, err
	}
	defer stop()
	text, number := strings.Repeat("x", 200), 0
	before := s.CPU()
	r, err = rounds.run(d, every, func() error {
		last := ""
		for range edits {
			number++
			var err error
			if last, err = sender.Write("edit", session, fmt.Sprintf(`{"message":%q,"text":"%d %s"}`, message, number, text)); err != nil {
				return err
			}
		}
		return sender.answers(last)
	})
	cpu = s.CPU() - before
	if err == nil {
		_, err = sender.Ask("cancel", session, `{}`) // or the server's stop would wait for the task
	}
	return r, cpu, err
}

// resume is n clients that come back at once after they have missed so many events or
// a few more: each in its own session, or all in one.
func resume(s *Server, n, missed int, one bool) (r result, cpu time.Duration, frameBytes int, err error) {
	many := n
	if one {
		many = 1
	}
	sessions, err := grow(s, many, func(events int) bool { return events >= missed+1 })
	if err != nil {
		return result{}, 0, 0, err
	}
	clients := make([]*Conn, n)
	for i := range clients {
		if clients[i], err = Dial(s.Addr); err != nil {
			return result{}, 0, 0, err
		}
		defer clients[i].Close()
	}
	before := s.CPU()
	r, err = allAtOnce(n, func(i int) (int, error) {
		session := sessions[i%many]
		events, head, err := clients[i].follow(session.id, session.head-uint64(missed))
		switch {
		case err != nil:
			return 0, err
		case events != missed || head != session.head:
			return 0, fmt.Errorf("resume: %d events up to %d, want %d up to %d", events, head, missed, session.head)
		}
		return events, nil
	})
	return r, s.CPU() - before, sessions[0].frameBytes, err
}

// grown is a session with a history.
type grown struct {
	id         string
	head       uint64
	frameBytes int // of one event, on the average
}

// grow makes n sessions with turns until enough says so of each one's head.
func grow(s *Server, n int, enough func(head int) bool) ([]grown, error) {
	return inParallel(s, n, func(c *Conn, _ int) (grown, error) { return c.grow(enough) })
}

// inParallel does n things over a few sockets.
func inParallel[T any](s *Server, n int, do func(c *Conn, i int) (T, error)) ([]T, error) {
	const workers = 32
	results, errs := make([]T, n), make([]error, workers)
	next := make(chan int, n)
	for i := range n {
		next <- i
	}
	close(next)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			c, err := Dial(s.Addr)
			if err != nil {
				errs[w] = err
				return
			}
			defer c.Close()
			for i := range next {
				if results[i], errs[w] = do(c, i); errs[w] != nil {
					return
				}
			}
		})
	}
	group.Wait()
	return results, errors.Join(errs...)
}

func (c *Conn) grow(enough func(head int) bool) (grown, error) {
	id, err := c.Create()
	if err != nil {
		return grown{}, err
	}
	if _, _, err := c.follow(id, 0); err != nil {
		return grown{}, err
	}
	g := grown{id: id, head: 1}
	for sent := 0; !enough(int(g.head)); sent++ {
		_, events, err := c.turn(id, strconv.Itoa(sent), "/say x")
		if err != nil {
			return grown{}, err
		}
		g.head += uint64(events)
		g.frameBytes = len(c.frame.Raw)
	}
	_, err = c.Ask("unfollow", id, `{}`)
	return g, err
}

// perSession is the heap that one idle session takes in memory, with `tasks`
// ended tasks in its log: the growth over n of them.
func perSession(ctx context.Context, v variant, dir string, n, tasks int, eviction time.Duration) (float64, error) {
	s, err := v.start(dir, "session.idle=1h", "session.cache_idle=100ms")
	if err != nil {
		return 0, err
	}
	defer s.Kill()
	// As many before them fill pools and caches of the process.
	if _, err := grow(s, n, endedTasks(tasks)); err != nil {
		return 0, err
	}
	if err := waitForEviction(ctx, eviction); err != nil {
		return 0, err
	}
	before, err := s.Heap(ctx)
	if err != nil {
		return 0, err
	}
	if _, err := grow(s, n, endedTasks(tasks)); err != nil {
		return 0, err
	}
	if err := waitForEviction(ctx, eviction); err != nil {
		return 0, err
	}
	after, err := s.Heap(ctx)
	return (after - before) / float64(n), err
}

// endedTasks is true of a head that comes after so many turns.
func endedTasks(tasks int) func(int) bool {
	const eventsATurn = 7
	return func(head int) bool { return head >= 1+tasks*eventsATurn }
}

// waitForEviction lets transcripts leave memory (session.cache_idle above).
func waitForEviction(ctx context.Context, wait time.Duration) error {
	select {
	case <-time.After(wait):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// activation measures how long the answer to a message takes, from a session of so
// many events that is not in memory (cold) and from the same one right after (warm).
func activation(ctx context.Context, v variant, dir string, n, events int, eviction time.Duration) (cold, warm result, err error) {
	s, err := v.start(dir, "session.idle=500ms", "session.idle_jitter=0s", "session.cache_idle=100ms")
	if err != nil {
		return cold, warm, err
	}
	defer s.Kill()
	sessions, err := grow(s, n, func(head int) bool { return head >= events })
	if err != nil {
		return cold, warm, err
	}
	if err := waitForEviction(ctx, eviction); err != nil {
		return cold, warm, err
	}
	c, err := Dial(s.Addr)
	if err != nil {
		return cold, warm, err
	}
	defer c.Close()
	ask := func(session, id string) (time.Duration, error) {
		began := time.Now()
		_, err := c.Ask("send", session, `{"client_msg_id":"`+id+`","text":"/say x"}`)
		return time.Since(began), err
	}
	for _, g := range sessions {
		for i, r := range []*result{&cold, &warm} {
			took, err := ask(g.id, "again"+strconv.Itoa(i))
			if err != nil {
				return cold, warm, err
			}
			r.count++
			r.times = append(r.times, took)
		}
	}
	return cold, warm, nil
}

// The metrics by which recovery counts tasks.
const (
	runningNow = "parley_admission_slots_in_use"
	waitingNow = "parley_admission_waiters"
	askedAgain = `parley_model_retries_total{cause="interrupted"}`
	becameSo   = `parley_task_status_total{status="RUNNING"}`
)

// recovery kills a server that has acknowledged n messages, in a session each,
// whose tasks all wait for a model that takes an hour: RUNNING, or, with queued,
// QUEUED behind a single one that runs. It measures from the start of the next
// process until it listens, and until all n are RUNNING with a model call that
// was asked in that process.
func recovery(ctx context.Context, v variant, dir string, n int, queued bool) (listens, running time.Duration, err error) {
	set, ran := []string{}, n
	if queued {
		set, ran = append(set, "admission.max_concurrent=1"), 1
	}
	s, err := v.start(dir, set...)
	if err != nil {
		return 0, 0, err
	}
	_, err = inParallel(s, n, func(c *Conn, _ int) (string, error) {
		session, err := c.Create()
		if err != nil {
			return "", err
		}
		_, err = c.Ask("send", session, `{"client_msg_id":"1","text":"/wait 1h\n/say x"}`)
		return session, err
	})
	if err == nil {
		err = reached(ctx, s, map[string]int{runningNow: ran, waitingNow: n - ran})
	}
	s.Kill()
	if err != nil {
		return 0, 0, fmt.Errorf("before the kill: %w", err)
	}
	began := time.Now()
	if s, err = v.start(dir); err != nil {
		return 0, 0, err
	}
	defer s.Kill()
	listens = time.Since(began)
	if err := reached(ctx, s, map[string]int{runningNow: n, askedAgain: ran, becameSo: n - ran}); err != nil {
		return listens, 0, fmt.Errorf("after the kill: %w", err)
	}
	return listens, time.Since(began), nil
}

// reached waits until metrics have their values.
func reached(ctx context.Context, s *Server, want map[string]int) error {
	began := time.Now()
	for {
		missing := ""
		for name, n := range want {
			has, err := s.Metric(ctx, name)
			if err != nil {
				return err
			}
			if int(has) != n {
				missing = fmt.Sprintf("%s is %v, not %d", name, has, n)
			}
		}
		switch {
		case missing == "":
			return nil
		case time.Since(began) > time.Minute:
			return fmt.Errorf("after a minute %s", missing)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
