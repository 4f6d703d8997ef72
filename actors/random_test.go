package actors

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/actors/internal/refusal"
	"parley/conversation"
)

// N-01, N-02: random users, models, tools, failing commits, crashes, drains and
// lost memory; then faults end. Everything comes to its end, nothing that
// was acknowledged is lost, nothing was shown that is not stored, and every
// command was answered exactly once.
func TestRandomLives(t *testing.T) {
	seeds, first := 40, uint64(time.Now().UnixNano()%1_000_000)
	if s := os.Getenv("PARLEY_SEED"); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		seeds, first = 1, n
	}
	if testing.Short() {
		seeds = min(seeds, 5)
	}
	for i := range seeds {
		seed := first + uint64(i)
		ok := t.Run(fmt.Sprint(seed), func(t *testing.T) { randomLife(t, seed) })
		if !ok {
			t.Fatalf("again with: PARLEY_SEED=%d go test -run TestRandomLives ./actors", seed)
		}
	}
}

type life struct {
	*harness
	random *rand.Rand
	keys   []conversation.SessionKey

	mu      sync.Mutex // a late answer comes at any time
	answers []*answer
	acked   map[conversation.SessionKey]map[conversation.MessageID]string
	n       int
}

// next numbers what is told.
func (l *life) next() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
	return l.n
}

// expect keeps answers that must come.
func (l *life) expect(answers ...*answer) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.answers = append(l.answers, answers...)
}

func randomLife(t *testing.T, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 1))
	withHarness(t, func(h *harness) {
		h.cfg.MaxConcurrent = 1 + random.IntN(3)
		h.cfg.Rules.Policy.MaxInterrupts = 1000
		h.cfg.Rules.Policy.MaxAttempts = 1000
		h.cfg.SnapshotEvery = 5 + random.IntN(50)
		h.cfg.SnapshotOnIdle = 1 + random.IntN(10)
		h.tools = map[string]conversation.Tool{
			"quick": &actorstest.Tool{Is: conversation.ToolSpec{Name: "quick", Idempotent: true}, Do: func(context.Context, conversation.ToolCall) (string, error) {
				return "ok", nil
			}},
			"slow": &actorstest.Tool{Is: conversation.ToolSpec{Name: "slow"}, Do: func(ctx context.Context, _ conversation.ToolCall) (string, error) {
				select {
				case <-ctx.Done():
					return "", ctx.Err()
				case <-time.After(20 * time.Second):
					return "at last", nil
				}
			}},
			"asked": &actorstest.Tool{Is: conversation.ToolSpec{Name: "asked", Approval: true}, Do: func(context.Context, conversation.ToolCall) (string, error) {
				return "ok", nil
			}},
		}
	}, func(t *testing.T, h *harness) {
		l := &life{harness: h, random: random, acked: map[conversation.SessionKey]map[conversation.MessageID]string{}}
		for i := range 3 {
			l.keys = append(l.keys, session2(i))
			h.create(session2(i))
		}
		for range 150 {
			l.step()
		}
		l.waitUntilIdle()
		l.check()
	})
}

func (l *life) step() {
	h, random := l.harness, l.random
	key := l.keys[random.IntN(len(l.keys))]
	switch random.IntN(24) {
	case 0, 1, 2, 3, 4, 5, 6:
		n := l.next()
		id := fmt.Sprint(n)
		if random.IntN(5) == 0 {
			id = fmt.Sprint(1 + random.IntN(n)) // perhaps a repetition
		}
		l.say(key, conversation.Say{
			Author: ada, ClientMsgID: conversation.ClientMsgID(id), Text: "message " + id, Mode: conversation.Mode(random.IntN(6)),
		})
	case 7, 8, 9, 10, 11, 12, 13:
		if open := h.model.Open(); len(open) > 0 {
			l.speak(open[random.IntN(len(open))])
		}
	case 14:
		l.expect(h.tell(key, conversation.Cancel{By: conversation.ByUser, Drop: random.IntN(2) == 0}))
	case 15:
		m := conversation.MessageID(fmt.Sprintf("m%d-%s", 1+random.IntN(l.next()), key.Session))
		for _, c := range []conversation.Command{
			conversation.Withdraw{By: ada, Message: m}, conversation.Edit{By: ada, Message: m, Text: "edited"}, conversation.Move{By: ada, Message: m},
		} {
			if random.IntN(3) == 0 {
				l.expect(h.tell(key, c))
			}
		}
	case 16:
		l.answerQuestions(key)
	case 17:
		l.expect(h.tell(key, conversation.AddPart{
			Author: ada, Source: fmt.Sprint(random.IntN(5)), Index: conversation.PartIndex(random.IntN(3)), Text: "part",
		}), h.tell(key, conversation.Seen{User: ada, Seq: 1}))
	case 18:
		h.store.FailCommit(nil)
		if random.IntN(2) == 0 {
			faults := []error{conversation.ErrFull, conversation.ErrConflict, errLine, errLine, errLine}
			h.store.FailCommit(func(n int, _ conversation.SessionKey, _ conversation.Commit) (error, bool) {
				if n%3 != 0 {
					return nil, false
				}
				err := faults[n/3%len(faults)]
				return err, errors.Is(err, errLine) && n%2 == 0
			})
		}
	case 19:
		h.e.registry.Deliver(key, &unloadNow{reason: "idle", err: refusal.Unreachable()}, false)
	case 20:
		if random.IntN(4) == 0 {
			if random.IntN(2) == 0 {
				ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
				_ = h.e.Drain(ctx) // a failing store may keep it from its end
				cancel()
			}
			h.restart()
		}
	case 21:
		time.Sleep(time.Duration(random.IntN(1200)) * time.Second)
	default:
		time.Sleep(time.Duration(random.IntN(5000)) * time.Millisecond)
	}
	if random.IntN(3) > 0 {
		synctest.Wait()
	}
}

func (l *life) say(key conversation.SessionKey, c conversation.Say) {
	a := &answer{}
	l.expect(a)
	l.e.Tell(key, ada, c, func(r conversation.Receipt, err error) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.times++
		if err == nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.acked[key] == nil {
				l.acked[key] = map[conversation.MessageID]string{}
			}
			l.acked[key][r.Message] = string(c.ClientMsgID)
		}
	})
	synctest.Wait()
}

// speak gives a model call something to say.
func (l *life) speak(c *actorstest.ModelCall) {
	text := actorstest.Streamed("some text")
	use := func(tool, args string) conversation.Item {
		return actorstest.Use(fmt.Sprint("x", l.random.Uint32()), tool, args)
	}
	switch l.random.IntN(14) {
	case 0:
		c.Fail(errLine)
	case 1:
		c.Cut()
	case 2:
		c.Answer()
	case 3:
		c.Answer(actorstest.Text("NO_REPLY"))
	case 4:
		c.Answer(use(conversation.ToolRespond, `{"message":"one thing","inReplyTo":1}`), text)
	case 5:
		c.Answer(use("quick", `{}`), use("slow", `{}`))
	case 6:
		c.Answer(use("asked", `{}`))
	case 7:
		c.Answer(use(conversation.ToolAsk, `{"question":"Which?"}`))
	case 8:
		c.Answer(use(conversation.ToolAsk, `{"question":"By the way?","blocking":false,"expiresIn":"10m"}`))
	case 9:
		c.Answer(use(conversation.ToolDelegate, `{"agent":"researcher","objective":"dig"}`))
	case 10:
		c.Answer(use(conversation.ToolDelegateParallel, `{"jobs":[{"agent":"researcher","objective":"a"},{"agent":"researcher","objective":"b","deadline":"1m"}]}`))
	case 11:
		c.Answer(use(conversation.ToolAmend, `{"delegation":"d1","text":"and more"}`))
	default:
		c.Delta(0, "some")
		c.Answer(text)
	}
}

func (l *life) answerQuestions(key conversation.SessionKey) {
	l.e.View(key, ada, func(v conversation.View, err error) {
		if err != nil {
			return
		}
		for _, q := range v.Questions {
			l.expect(l.tell(key, conversation.Answer{
				Author: ada, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("q", l.next())), Question: q.Asked.Question, Text: "yes",
			}))
		}
	})
	synctest.Wait()
}

// waitUntilIdle has no more faults, answers every question and call, and waits.
func (l *life) waitUntilIdle() {
	l.store.FailCommit(nil)
	for range 400 {
		synctest.Wait()
		open := 0
		for _, c := range l.model.Open() {
			c.Answer(actorstest.Text("the end"))
			open++
		}
		synctest.Wait()
		busy := false
		for _, key := range l.everyone() {
			var idle atomic.Bool // an answer may come later: then it is not known yet
			l.e.View(key, ada, func(v conversation.View, err error) { idle.Store(err == nil && len(v.Tasks) == 0) })
			synctest.Wait()
			if !idle.Load() {
				busy = true
				if key.Session.Depth() == 0 {
					l.answerQuestions(key)
				}
			}
		}
		if !busy && open == 0 {
			time.Sleep(time.Minute)
			if synctest.Wait(); len(l.model.Open()) == 0 {
				return
			}
		}
		time.Sleep(5 * time.Second)
	}
	for _, key := range l.everyone() {
		if v := l.view(key); len(v.Tasks) > 0 {
			l.t.Errorf("%s does not come to its end: %+v, questions %+v, calls %+v", key, v.Tasks, v.Questions, v.Calls)
		}
	}
}

// everyone lists all sessions that were ever stored.
func (l *life) everyone() []conversation.SessionKey {
	known := map[conversation.SessionKey]bool{}
	var keys []conversation.SessionKey
	for _, c := range l.store.Commits() {
		if !known[c.Key] {
			known[c.Key] = true
			keys = append(keys, c.Key)
		}
	}
	return keys
}

func (l *life) check() {
	t := l.t
	for i, a := range l.answers {
		if times, _, _ := a.get(); times != 1 {
			t.Errorf("command %d was answered %d times", i, times)
		}
	}
	for _, key := range l.everyone() {
		stored := l.stored(key)
		accepted, resolved := map[conversation.MessageID]bool{}, map[conversation.MessageID]int{}
		for i, e := range stored {
			if e.Seq != conversation.Seq(i+1) {
				t.Fatalf("%s: event %d has seq %d", key, i, e.Seq)
			}
			switch b := e.Body.(type) {
			case conversation.MessageAccepted:
				accepted[b.Message] = true
			case conversation.MessageResolved:
				resolved[b.Message]++
			}
		}
		for m := range accepted {
			if resolved[m] != 1 {
				t.Errorf("%s: %s was resolved %d times", key, m, resolved[m])
			}
		}
		for m := range l.acked[key] {
			if !accepted[m] {
				t.Errorf("%s: %s was acknowledged and is not stored", key, m)
			}
		}
		var last conversation.Seq
		for _, e := range l.pub.Events(key) {
			if e.Seq <= last || int(e.Seq) > len(stored) || stored[e.Seq-1].Body.Kind() != e.Body.Kind() {
				t.Errorf("%s: %s was published as %d after %d, and is not what is stored", key, e.Body.Kind(), e.Seq, last)
			}
			last = e.Seq
		}
	}
}
