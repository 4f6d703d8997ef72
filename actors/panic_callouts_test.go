package actors

import (
	"context"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/actors/actorstest"
	"parley/conversation"
)

// fuse makes what the engine calls panic, where a test says so.
type fuse struct {
	mu    sync.Mutex
	where string
	left  int // panics that are still to come
	blown int // panics so far
}

// set has the next n calls of where panic.
func (f *fuse) set(where string, n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.where, f.left, f.blown = where, n, 0
}

func (f *fuse) at(where string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.where == where && f.left > 0 {
		f.left--
		f.blown++
		panic("panic at " + where)
	}
}

// The four things that an engine is given, each with a fuse.
type (
	fusedPublisher struct {
		conversation.Publisher
		*fuse
	}
	fusedStore struct {
		conversation.Store
		*fuse
	}
	fusedModel struct {
		*fuse
	}
	fusedLog struct {
		slog.Handler
		*fuse
	}
)

func (p fusedPublisher) Publish(key conversation.SessionKey, epoch conversation.Epoch, events []conversation.Event) {
	p.at("Publish")
	p.Publisher.Publish(key, epoch, events)
}

func (p fusedPublisher) Show(key conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq, e conversation.Ephemeral) {
	p.at(fmt.Sprintf("Show %T", e))
	p.Publisher.Show(key, epoch, after, e)
}

func (p fusedPublisher) Stored(key conversation.SessionKey, epoch conversation.Epoch, head conversation.Seq) {
	p.at("Stored")
	p.Publisher.Stored(key, epoch, head)
}

func (p fusedPublisher) Audience(root conversation.SessionKey, epoch conversation.Epoch, now conversation.Summary) {
	p.at("Audience")
	p.Publisher.Audience(root, epoch, now)
}

func (p fusedPublisher) Gone(key conversation.SessionKey, reason string) {
	p.at("Gone")
	p.Publisher.Gone(key, reason)
}

func (s fusedStore) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	s.at("Acquire")
	return s.Store.Acquire(ctx, key, how)
}

func (s fusedStore) Commit(ctx context.Context, key conversation.SessionKey, c conversation.Commit) error {
	s.at("before Commit")
	err := s.Store.Commit(ctx, key, c)
	s.at("after Commit")
	return err
}

// CommitAsync tells its end before it returns, if it does not panic before.
func (s fusedStore) CommitAsync(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) {
	s.at("before Commit")
	err := s.Store.Commit(ctx, key, *c)
	s.at("after Commit")
	done(err)
}

func (s fusedStore) Room(inner bool) error {
	if inner { // without, the caller's own goroutine asks
		s.at("Room")
	}
	return s.Store.Room(inner)
}

func (s fusedStore) MayHold(key conversation.SessionKey, k conversation.Key) bool {
	s.at("MayHold")
	s.Store.MayHold(key, k)
	return true // so that Find is asked
}

func (s fusedStore) Find(ctx context.Context, key conversation.SessionKey, keys []conversation.Key) ([]conversation.Seq, error) {
	s.at("Find")
	return s.Store.Find(ctx, key, keys)
}

func (s fusedStore) Head(ctx context.Context, key conversation.SessionKey) (conversation.Head, error) {
	s.at("Head")
	return s.Store.Head(ctx, key)
}

func (s fusedStore) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	s.at("Records")
	return s.Store.Records(ctx, key, r)
}

func (s fusedStore) Due(ctx context.Context, until time.Time, of conversation.Member) iter.Seq2[conversation.SessionKey, error] {
	s.at("Due")
	return s.Store.Due(ctx, until, of)
}

func (s fusedStore) Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error] {
	s.at("Sessions")
	return s.Store.Sessions(ctx, p)
}

func (m *fusedModel) Label() string {
	m.at("Label")
	return "fused"
}

// Stream uses the tool in the first call for a message, and answers in the second.
// It takes its time, so that the text is shown as drafts.
func (m *fusedModel) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		m.at("Stream")
		for i := range 3 {
			if !yield(conversation.Output{Delta: fmt.Sprintf("word %d ", i)}, nil) {
				return
			}
			select {
			case <-ctx.Done():
				yield(conversation.Output{}, ctx.Err())
				return
			case <-time.After(20 * time.Millisecond): // less than the pause between two drafts
			}
		}
		m.at("Stream's end")
		items := []conversation.Item{actorstest.Streamed("word 0 word 1 word 2 ")}
		if last := r.Entries[len(r.Entries)-1]; last.Role == conversation.RoleUser && r.Task != "" {
			items = []conversation.Item{actorstest.Use("k", "hammer", `{}`)}
		}
		yield(conversation.Output{Done: &conversation.ModelAnswer{Items: items}}, nil)
	}
}

func (fusedLog) Enabled(context.Context, slog.Level) bool { return true }

func (l fusedLog) Handle(context.Context, slog.Record) error {
	l.at("Log")
	return nil
}

func (l fusedLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// withFuse runs f with an engine around which everything can be made to panic.
func withFuse(t *testing.T, f func(t *testing.T, h *harness, p *fuse)) {
	t.Helper()
	p := &fuse{}
	withHarness(t, func(h *harness) {
		h.publish = fusedPublisher{h.pub, p}
		h.through = fusedStore{h.store, p}
		h.models = map[string]conversation.Model{"": &fusedModel{fuse: p}}
		h.log = fusedLog{slog.DiscardHandler, p}
		h.tools = map[string]conversation.Tool{"hammer": &actorstest.Tool{
			Is: conversation.ToolSpec{Name: "hammer", Idempotent: true},
			Do: func(_ context.Context, c conversation.ToolCall) (string, error) {
				p.at("Run")
				c.Progress("half", nil)
				return "done", nil
			},
		}}
		h.cfg.RetentionAge = 24 * time.Hour
		h.cfg.Rules.Policy.MaxAttempts = 1000
		h.cfg.Rules.Policy.MaxInterrupts = 1000
		h.cfg.MaxConcurrent = 2
	}, func(t *testing.T, h *harness) { f(t, h, p) })
}

// spent is what one user does with one session, and with another one that is erased.
func (h *harness) spend(p *fuse, round string) (acked []conversation.ClientMsgID, answers []*answer) {
	told := func(key conversation.SessionKey, c conversation.Command) {
		a := &answer{}
		answers = append(answers, a)
		h.e.Tell(key, ada, c, func(_ conversation.Receipt, err error) {
			a.mu.Lock()
			a.times++
			a.mu.Unlock()
			if s, ok := c.(conversation.Say); ok && err == nil && key == mainKey {
				acked = append(acked, s.ClientMsgID)
			}
			p.at("done")
		})
		synctest.Wait()
	}
	stopped := func() { // a model call is stopped in the middle of its text
		time.Sleep(30 * time.Millisecond)
		synctest.Wait()
	}
	told(mainKey, say(round+"a", "work"))
	time.Sleep(5 * time.Second)
	told(mainKey, say(round+"b", "more work"))
	stopped()
	told(mainKey, conversation.Cancel{By: conversation.ByUser})
	told(mainKey, conversation.AddPart{Author: ada, Source: "n" + round, Text: "x"}) // asks the store for its key
	told(mainKey, conversation.Seen{User: ada, Seq: 1})
	told(mainKey, say(round+"c", "even more work"))
	stopped()
	h.forget(mainKey) // leaves in the middle of its text
	h.e.View(mainKey, ada, func(conversation.View, error) { p.at("done") })
	time.Sleep(time.Minute)
	other := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID("bbbbbbbbbbbbbbb" + round)}
	h.e.Create(other, conversation.Create{Owner: ada}, func(conversation.SessionKey, bool, error) { p.at("done") })
	told(other, say("a", "work"))
	stopped()
	_ = h.e.Erase(h.t.Context(), other, ada)
	time.Sleep(time.Minute)
	told(mainKey, say(round+"d", "hello again"))
	time.Sleep(time.Hour) // idle sessions leave
	synctest.Wait()
	return acked, answers
}

// TestPanicAtEachCallOut: whatever the engine calls may panic, once or for a while:
// nothing leaks, nothing that was acknowledged is lost, each command is answered
// once, and afterwards the session works and the node drains.
func TestPanicAtEachCallOut(t *testing.T) {
	takes := []string{ // the session goes on taking commands
		"done", "Publish", "Stored", "Gone", "Show conversation.Thinking", "Show conversation.Delta", "Show conversation.DraftDropped",
		"Show conversation.Progress", "Run", "Label", "Stream", "Stream's end", "Log", "Room", "MayHold", "Head", "Due", "Sessions",
	}
	refuses := []string{"Acquire", "before Commit", "after Commit", "Find", "Records"}
	for _, where := range append(takes, refuses...) {
		for _, n := range []int{1, 2, 1 << 30} {
			t.Run(fmt.Sprintf("%s %d times", where, n), func(t *testing.T) {
				withFuse(t, func(t *testing.T, h *harness, p *fuse) {
					h.create(mainKey)
					p.set(where, n)
					acked, answers := h.spend(p, "1")
					if p.blown == 0 {
						t.Fatal("it was never called: the test shows nothing")
					}
					if slices.Contains(takes, where) && len(acked) != 4 {
						t.Errorf("meanwhile only %q are taken", acked)
					}
					p.set("", 0)
					time.Sleep(time.Hour)
					more, also := h.spend(p, "2")
					if len(more) != 4 {
						t.Errorf("afterwards only %q are taken", more)
					}
					for i, a := range append(answers, also...) {
						if times, _, _ := a.get(); times != 1 {
							t.Errorf("command %d was answered %d times", i, times)
						}
					}
					h.assertKept(append(acked, more...))
					if n := h.slots(); n != 0 {
						t.Errorf("%d slots are used and nothing runs", n)
					}
					h.assertDrains()
				})
			})
		}
	}
}

// assertKept wants each acknowledged message to be stored, to have one answer or
// to be cancelled, and everything stored to be published.
func (h *harness) assertKept(acked []conversation.ClientMsgID) {
	h.t.Helper()
	stored := map[conversation.ClientMsgID]int{}
	open := map[conversation.MessageID]bool{}
	for _, e := range h.stored(mainKey) {
		switch b := e.Body.(type) {
		case conversation.MessageAccepted:
			stored[b.ClientMsgID]++
			open[b.Message] = true
		case conversation.MessageResolved:
			delete(open, b.Message)
		}
	}
	for _, id := range acked {
		if stored[id] != 1 {
			h.t.Errorf("message %s was acknowledged and is stored %d times", id, stored[id])
		}
	}
	for id := range open {
		h.t.Errorf("message %s was never resolved", id)
	}
	h.assertComplete(mainKey)
}

// assertDrains wants the node to drain in its time, and no actor to be left.
func (h *harness) assertDrains() {
	h.t.Helper()
	began := time.Now()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Hour)
	defer cancel()
	if err := h.e.Drain(ctx); err != nil || time.Since(began) > h.cfg.DrainTimeout {
		h.t.Errorf("the drain has ended after %v with %v", time.Since(began), err)
	}
	if n := h.e.registry.Count(); n != 0 {
		h.t.Errorf("%d sessions are in memory", n)
	}
	for _, bucket := range h.e.system.ProcessRegistry.LocalPIDs.LocalPIDs {
		for _, id := range bucket.Keys() {
			if id != "eventstream" && id != "deadletter" && !strings.HasPrefix(id, "guardian") {
				h.t.Errorf("the actor %q is left", id)
			}
		}
	}
}
