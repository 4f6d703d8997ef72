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

	"parley/conversation"
	"parley/conversation/policy"
)

// outsideSession opens a session that outside runtimes answer.
func (h *harness) outsideSession(id string, agent conversation.AgentName) conversation.SessionKey {
	h.t.Helper()
	key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(id)}
	h.createAs(key, conversation.Create{Owner: ada, Agent: agent})
	return key
}

// claim claims one message and waits for it for a minute.
func (h *harness) claim(runtime conversation.RuntimeName) (out conversation.HandedOut, ok bool) {
	h.t.Helper()
	got, err := h.e.Claim(h.t.Context(), conversation.ClaimRequest{Tenant: "acme", Runtime: runtime, Wait: time.Minute})
	if err != nil {
		h.t.Errorf("claim of %s: %v", runtime, err)
	}
	if len(got) == 0 {
		return out, false
	}
	return got[0], true
}

func (h *harness) mustClaim(runtime conversation.RuntimeName) conversation.HandedOut {
	h.t.Helper()
	out, ok := h.claim(runtime)
	if !ok {
		h.t.Fatalf("nothing for %s", runtime)
	}
	return out
}

// partOf is a part of a message that was handed out.
func partOf(out conversation.HandedOut, index int, final bool) conversation.AddPart {
	return conversation.AddPart{
		Author: "bot", Source: string(out.Message), Index: conversation.PartIndex(index), Indexed: true, Generation: out.Generation,
		Text: fmt.Sprintf("part %d", index), Final: final,
	}
}

func says(out conversation.HandedOut, s conversation.RuntimeState) conversation.RuntimeSays {
	return conversation.RuntimeSays{Message: out.Message, Status: s, Generation: out.Generation}
}

// A runtime gets the whole text of the oldest message, as it was edited last, durably,
// and answers it under its generation.
func TestClaim(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		long := "a text that is much longer than what a session remembers of it: " + string(make([]byte, 0))
		for range 100 {
			long += "and so on, and so on, "
		}
		older, younger := h.outsideSession("older", "outside"), h.outsideSession("younger", "outside:gpu")
		h.ok(h.tell(older, say("a", "first")))
		time.Sleep(time.Second)
		h.ok(h.tell(younger, say("b", "second")))
		time.Sleep(time.Second)
		h.ok(h.tell(older, conversation.Edit{By: ada, Message: "m1-older", Text: long}))

		out := h.mustClaim("r1")
		if out.Key != older || out.Message != "m1-older" || out.Text != long || out.Author != ada || out.Generation != 1 || out.NextPart != 0 || time.Until(out.Until) != 10*time.Minute {
			t.Errorf("handed out %+v", out)
		}
		if n := h.count(older, conversation.KindRuntimeStatus); n != 1 {
			t.Errorf("%d hand-outs are stored", n)
		}
		got, err := h.e.Claim(t.Context(), conversation.ClaimRequest{Tenant: "acme", Runtime: "r2", Agent: "outside"})
		if len(got) > 0 || err != nil {
			t.Errorf("of the agent outside: %+v, %v", got, err)
		}
		second := h.mustClaim("r2")
		if second.Key != younger {
			t.Errorf("r2 was handed %+v", second)
		}
		h.ok(h.tell(older, says(out, conversation.RuntimeRead)))
		h.ok(h.tell(older, partOf(out, 0, false)))
		late := partOf(out, 1, true)
		late.Generation = 7
		h.refused(h.tell(older, late), conversation.Conflict)
		h.refused(h.tell(older, partOf(out, 3, true)), conversation.Conflict)
		h.ok(h.tell(older, partOf(out, 1, true)))
		h.refused(h.tell(older, partOf(out, 2, true)), conversation.Conflict)
		h.assertComplete(older)
		for event, want := range map[string]float64{"handed_out": 2, "read": 1} {
			if n := h.measured("parley_runtime_events_total", event); n != want {
				t.Errorf("%s: counted %v, not %v", event, n, want)
			}
		}
		for _, reason := range []string{"generation", "gap", "ended"} {
			if n := h.measured("parley_runtime_refusals_total", reason); n != 1 {
				t.Errorf("refused for %s: counted %v", reason, n)
			}
		}
	})
}

// N-17: a claim whose answer is lost costs nothing, however often: the same name is
// handed the same again, with the same generation, as long as it gives no sign.
// Rule 9.11c.
func TestLostAnswers(t *testing.T) {
	for _, lease := range []time.Duration{10 * time.Minute, 0} {
		withHarness(t, func(h *harness) { h.cfg.Rules.Policy.OutsideLease = lease }, func(t *testing.T, h *harness) {
			key := h.outsideSession("s1", "outside")
			h.ok(h.tell(key, say("a", "text")))
			for n := range 5 {
				if out := h.mustClaim("r1"); out.Key != key || out.Generation != 1 {
					t.Errorf("lease %s, claim %d: handed out %+v", lease, n, out)
				}
				time.Sleep(time.Minute)
			}
		})
	}
}

// A runtime that fails, claims, and fails again does not use up the hand-outs of a
// message at once: after each failure it waits, and goes out when that is over.
// Rule 9.11f.
func TestClaimAfterAFailure(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		key := h.outsideSession("s1", "outside")
		h.ok(h.tell(key, say("a", "text")))
		h.ok(h.tell(key, says(h.mustClaim("r1"), conversation.RuntimeFailed)))
		failed := time.Now()
		if out := h.mustClaim("r1"); out.Key != key || out.Generation != 2 {
			t.Errorf("handed out %+v", out)
		}
		if pause := time.Since(failed); pause <= 0 || pause > policy.DefaultPolicy().BackoffMin {
			t.Errorf("handed out again after %s", pause)
		}
	})
}

// What waits, who has it, and who has not said yet that he has it: a restart changes
// nothing about that, and costs a lease nothing.
func TestClaimAfterARestart(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		var keys []conversation.SessionKey
		for i := range 4 {
			keys = append(keys, h.outsideSession(fmt.Sprint("s", i), "outside"))
			h.ok(h.tell(keys[i], say("a", "text")))
			time.Sleep(time.Millisecond)
		}
		heard, unheard := h.mustClaim("r1"), h.mustClaim("r2")
		h.ok(h.tell(heard.Key, says(heard, conversation.RuntimeAlive)))
		h.restart()
		if again := h.mustClaim("r2"); again.Key != unheard.Key || again.Generation != 1 {
			t.Errorf("r2 has no sign of life to give again: %+v", again)
		}
		for _, want := range keys[2:] {
			if got := h.mustClaim("r3"); got.Key != want {
				t.Errorf("r3 was handed %+v, not %s", got, want)
			} else {
				h.ok(h.tell(got.Key, says(got, conversation.RuntimeRead)))
			}
		}
		if out, ok := h.claim("r4"); ok {
			t.Errorf("r4 was handed %+v", out)
		}
		h.ok(h.tell(heard.Key, partOf(heard, 0, true)))
	})
}

// N-17: a runtime that dies loses its message within its lease + 5 s, also if the
// session has left memory; the third that dies ends the task, which is told, and the
// next message of the session goes on.
func TestDeadRuntimes(t *testing.T) {
	withHarness(t, func(h *harness) {
		h.cfg.Rules.Policy.OutsideLease = 20 * time.Second
	}, func(t *testing.T, h *harness) {
		key := h.outsideSession("s", "outside")
		h.ok(h.tell(key, say("a", "one")))
		h.ok(h.tell(key, say("b", "two")))
		for generation := 1; generation <= 3; generation++ {
			begun := time.Now()
			out := h.mustClaim(conversation.RuntimeName(fmt.Sprint("r", generation)))
			if out.Message != "m1-s" || int(out.Generation) != generation || int(out.NextPart) != generation-1 {
				t.Fatalf("handed out %+v", out)
			}
			if took := time.Since(begun); generation > 1 && took > 25*time.Second {
				t.Errorf("generation %d came after %v", generation, took)
			}
			h.ok(h.tell(key, partOf(out, generation-1, false)))
			if generation == 2 {
				h.forget(key)
			}
		}
		out := h.mustClaim("r4")
		if out.Message != "m2-s" || out.Generation != 1 {
			t.Errorf("after the end of the first message: %+v", out)
		}
		synctest.Wait() // it is answered before it is counted
		last := h.stored(key)
		resolved := false
		for _, e := range last {
			if b, ok := e.Body.(conversation.MessageResolved); ok {
				resolved = b.Message == "m1-s" && b.How == conversation.ResolvedFailed
			}
		}
		if !resolved {
			t.Errorf("%v", kinds(last))
		}
		for event, want := range map[string]float64{"handed_out": 2, "handed_out_again": 2, "lease_expired": 3} {
			if n := h.measured("parley_runtime_events_total", event); n != want {
				t.Errorf("%s: counted %v, not %v", event, n, want)
			}
		}
	})
}

// A hand-out whose commit has an unknown outcome is found: it is the same runtime's, or
// nobody's.
func TestClaimWithAFailedCommit(t *testing.T) {
	for _, applied := range []bool{false, true} {
		t.Run("written "+strconv.FormatBool(applied), func(t *testing.T) {
			withHarness(t, nil, func(t *testing.T, h *harness) {
				key := h.outsideSession("s", "outside")
				h.ok(h.tell(key, say("a", "one")))
				failed := false
				h.store.FailCommit(func(_ int, _ conversation.SessionKey, c conversation.Commit) (error, bool) {
					if !failed && len(c.Events) > 0 && c.Events[0].Body.Kind() == conversation.KindRuntimeStatus {
						failed = true
						return errors.New("the disk has gone away"), applied
					}
					return nil, false
				})
				out := h.mustClaim("r1")
				if out.Generation != 1 || !failed {
					t.Errorf("handed out %+v", out)
				}
				if n := h.count(key, conversation.KindRuntimeStatus); n != 1 {
					t.Errorf("%d hand-outs are stored", n)
				}
				h.ok(h.tell(key, partOf(out, 0, true)))
			})
		})
	}
}

// A drain, and the end of the engine, answer the claims that wait.
func TestClaimsEndWithTheEngine(t *testing.T) {
	withHarness(t, nil, func(t *testing.T, h *harness) {
		ended := make(chan error, 1)
		go func() {
			_, err := h.e.Claim(context.Background(), conversation.ClaimRequest{Tenant: "acme", Runtime: "r1", Wait: time.Hour})
			ended <- err
		}()
		synctest.Wait()
		if err := h.e.Drain(t.Context()); err != nil {
			t.Error(err)
		}
		if err := <-ended; conversation.AsError(err) == nil || conversation.AsError(err).Code != conversation.Unavailable {
			t.Errorf("a waiting claim got %v", err)
		}
		if _, err := h.e.Claim(t.Context(), conversation.ClaimRequest{Tenant: "acme", Runtime: "r1"}); conversation.AsError(err) == nil {
			t.Error("a claim after the drain got no error")
		}
	})
}

// N-17: runtimes that die, hang, answer late and twice, lose answers, and a server that
// is killed at random moments: each message ends, answered with its parts in order, or
// in ERROR after three dead runtimes; nothing is doubled, nothing is blocked.
func TestRandomRuntimes(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	if s, err := strconv.ParseUint(os.Getenv("PARLEY_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("again: PARLEY_SEED=%d go test ./actors -run TestRandomRuntimes", seed)
	rounds := 20
	if testing.Short() {
		rounds = 4
	}
	for round := range rounds {
		withHarness(t, func(h *harness) {
			h.cfg.Rules.Policy.OutsideLease = 30 * time.Second
			h.cfg.Idle, h.cfg.CacheIdle = 20*time.Second, 10*time.Second
		}, func(_ *testing.T, h *harness) {
			(&runtimes{harness: h, r: rand.New(rand.NewPCG(seed, uint64(round)))}).run()
		})
		if t.Failed() {
			return
		}
	}
}

// runtimes is a world of outside runtimes.
type runtimes struct {
	*harness
	server atomic.Pointer[Engine] // the one that runs, or the last one that did
	r      *rand.Rand
	mu     sync.Mutex
	name   int
}

const (
	runtimeSessions = 12
	runtimeMessages = 5 // in each session
)

func (w *runtimes) n(n int) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.r.IntN(n)
}

func (w *runtimes) run() {
	w.server.Store(w.e)
	var keys []conversation.SessionKey
	for i := range runtimeSessions {
		keys = append(keys, w.outsideSession(fmt.Sprint("s", i), "outside"))
		for m := range runtimeMessages {
			w.ok(w.tell(keys[i], say(fmt.Sprint("m", m), fmt.Sprint("message ", m))))
		}
	}
	for w.open(keys) > 0 {
		w.name++
		if w.name > 4000 {
			w.t.Errorf("%d messages are blocked", w.open(keys))
			return
		}
		var lives sync.WaitGroup
		for range 1 + w.n(4) {
			w.name++
			name := conversation.RuntimeName(fmt.Sprint("r", w.name))
			lives.Go(func() { w.live(name) })
		}
		if w.n(10) == 0 {
			time.Sleep(time.Duration(w.n(5000)) * time.Millisecond)
			w.restart()
			w.server.Store(w.e)
		}
		lives.Wait()
	}
	for _, key := range keys {
		w.judge(key)
	}
}

// live is the life of one process: it claims and works, and perhaps dies.
func (w *runtimes) live(name conversation.RuntimeName) {
	for {
		got, err := w.server.Load().Claim(context.Background(), conversation.ClaimRequest{Tenant: "acme", Runtime: name, Limit: 1 + w.n(3), Wait: 5 * time.Second})
		if err != nil || len(got) == 0 {
			return
		}
		if w.n(8) == 0 {
			continue // the answer is lost: it has no sign to give, and claims again
		}
		for _, out := range got {
			if !w.work(out) {
				return
			}
		}
	}
}

// work answers one message; false: the process dies.
func (w *runtimes) work(out conversation.HandedOut) (alive bool) {
	parts := 1 + w.n(3)
	for i := int(out.NextPart); i < max(parts, int(out.NextPart)+1); i++ {
		if w.n(3) == 0 {
			w.say(out.Key, says(out, []conversation.RuntimeState{conversation.RuntimeRead, conversation.RuntimeAlive}[w.n(2)]))
		}
		switch w.n(24) {
		case 0, 1:
			return false
		case 2:
			time.Sleep(time.Duration(20+w.n(40)) * time.Second) // it hangs, and goes on as if nothing was
		case 3:
			w.say(out.Key, says(out, conversation.RuntimeFailed))
			return true
		}
		part := partOf(out, i, i+1 >= parts)
		for range 1 + w.n(2) { // the answer to the first one is lost
			if !w.say(out.Key, part) {
				return true // another has it now
			}
		}
		if part.Final {
			return true
		}
	}
	return true
}

// say tells a session something until it is taken or refused for good.
func (w *runtimes) say(key conversation.SessionKey, c conversation.Command) (taken bool) {
	for {
		done := make(chan error, 1)
		w.server.Load().Tell(key, "", c, func(_ conversation.Receipt, err error) { done <- err })
		err := conversation.AsError(<-done)
		if err == nil || !err.Retryable() {
			return err == nil
		}
		time.Sleep(time.Second)
	}
}

// open counts the messages that have not ended.
func (w *runtimes) open(keys []conversation.SessionKey) (n int) {
	for _, key := range keys {
		n += runtimeMessages - w.count(key, conversation.KindMessageResolved)
	}
	return n
}

// judge reads a session's log: every message has ended once, with its parts, each
// once and in order, and what failed was handed out three times.
func (w *runtimes) judge(key conversation.SessionKey) {
	parts, handed, ended := map[conversation.SourceID]int{}, map[conversation.MessageID]int{}, map[conversation.MessageID]conversation.Resolution{}
	part := func(p conversation.Part, promoted bool) {
		if promoted {
			return
		}
		if int(p.Index) != parts[p.Source] {
			w.t.Errorf("%s: part %d of %s after %d others", key, p.Index, p.Source, parts[p.Source])
		}
		parts[p.Source]++
	}
	for _, e := range w.stored(key) {
		switch b := e.Body.(type) {
		case conversation.PartialResponse:
			part(b.Part, false)
		case conversation.Response:
			part(b.Part, b.Promoted)
		case conversation.RuntimeStatus:
			if b.Status == conversation.RuntimeHandedOut {
				handed[b.Message] = max(handed[b.Message], int(b.Generation))
			}
		case conversation.MessageResolved:
			if ended[b.Message] != 0 {
				w.t.Errorf("%s: %s has ended twice", key, b.Message)
			}
			ended[b.Message] = b.How
			switch {
			case b.How == conversation.ResolvedFailed && handed[b.Message] != 3:
				w.t.Errorf("%s: %s failed after %d hand-outs", key, b.Message, handed[b.Message])
			case b.How != conversation.ResolvedFailed && b.How != conversation.ResolvedAnswered:
				w.t.Errorf("%s: %s is %s", key, b.Message, b.How)
			case b.How == conversation.ResolvedAnswered && (b.Evidence != conversation.EvidenceNamed || parts[conversation.SourceID(b.Message)] == 0):
				w.t.Errorf("%s: %s is answered with %d parts, evidence %s", key, b.Message, parts[conversation.SourceID(b.Message)], b.Evidence)
			}
		}
	}
	if len(ended) != runtimeMessages {
		w.t.Errorf("%s: %d messages have ended", key, len(ended))
	}
}
