package actors

import (
	"cmp"
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/mail"
	"parley/conversation"
)

// modelCall is one attempt of a model call: a goroutine owned by the session. It
// ends exactly once: with an answer or a failure for the session's mailbox, or
// silently when the session stops it.
type modelCall struct {
	e      *Engine
	key    conversation.SessionKey
	self   *actor.PID     // the session
	after  *atomic.Uint64 // the session's last published event
	ask    conversation.AskModel
	label  string
	began  time.Time
	cancel context.CancelFunc

	heldBack func(text string) bool // it may still become a no-reply sentinel

	mu         sync.Mutex
	ended      bool
	lastOutput time.Time // when the model said something last
	drafts     []*draft  // by item
	timer      *time.Timer
	lastShown  time.Time // when text was shown last
}

// draft is the streamed text of one item.
type draft struct {
	text     []byte
	shown    int // bytes
	runes    int // shown code points
	released bool
}

// modelEnd is how a model call ended.
type modelEnd struct {
	mail.DeadLetterOK
	call   *modelCall
	cmd    conversation.Command
	drafts []conversation.DraftDropped
}

func draw() float64 { return rand.Float64() }

// startModel begins an attempt. Its step_started is durable.
func (s *session) startModel(ask conversation.AskModel) {
	if s.model != nil {
		if s.model.ask == ask {
			return
		}
		s.dropDrafts(s.model.stop())
	}
	e := s.e
	c := &modelCall{e: e, key: s.key, self: s.self, after: s.published, ask: ask, began: time.Now()}
	c.lastOutput = c.began
	c.heldBack = s.machine.Policy().SentinelPrefix
	s.model = c
	model, ok := e.deps.Models[e.rules.Agents[ask.Agent].Model]
	if !ok {
		c.end("permanent", c.failure(conversation.Internal, "no model is configured for this agent", true))
		return
	}
	c.label = model.Label()
	request := s.cache.transcript.Request(s.key, e.rules, ask)
	e.m.RequestTokens.Observe(float64(s.cache.transcript.Shown()))
	s.compact()
	ctx, cancel := context.WithCancel(e.workCtx)
	c.cancel = cancel
	e.deps.Publisher.Show(s.key, s.durable, conversation.Thinking{Task: ask.Task, Agent: ask.Agent, Step: ask.Step})
	e.workers.Go("a model call", func() {
		defer cancel()
		c.run(ctx, model, request)
	}, func(error) {
		c.end("panic", c.failure(conversation.Internal, "something went wrong while asking the model", false))
	})
}

// run asks the model. A model that ignores its cancelled context does not keep
// the attempt from ending in time.
func (c *modelCall) run(ctx context.Context, model conversation.Model, request conversation.Request) {
	for out, err := range model.Stream(ctx, request) {
		switch {
		case err != nil:
			c.failed(err)
			return
		case out.Done != nil:
			c.end("ok", conversation.ModelAnswered{
				Step: c.ask.Step, Attempt: c.ask.Attempt, Model: cmp.Or(out.Done.Model, c.label), Answer: *out.Done, Took: time.Since(c.began),
			})
			return
		default:
			c.delta(out.Item, out.Delta)
		}
	}
	c.end("cut", c.failure(conversation.Unavailable, "the model's answer ended in the middle", false))
}

// due is when the model has been too slow, unless it says something before. The
// session's timer looks then: one of its own would cost each call more than the
// rest of it does.
func (c *modelCall) due() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return earlier(c.lastOutput.Add(c.e.cfg.ModelIdle), c.began.Add(c.e.cfg.ModelLimit))
}

// overdue ends the attempt if the model has been too slow.
func (c *modelCall) overdue(now time.Time) {
	if c.due().After(now) {
		return
	}
	sentence := "the model said nothing for too long"
	if !c.began.Add(c.e.cfg.ModelLimit).After(now) {
		sentence = "the model took too long"
	}
	c.end("timeout", c.failure(conversation.Timeout, sentence, false))
	if c.cancel != nil {
		c.cancel()
	}
}

func (c *modelCall) failure(code conversation.Code, sentence string, permanent bool) conversation.ModelFailed {
	f := conversation.ModelFailed{
		Step: c.ask.Step, Attempt: c.ask.Attempt, Model: c.label, Permanent: permanent, Jitter: draw(),
		Failure: conversation.Failure{Code: code, Message: sentence},
	}
	f.Took = time.Since(c.began)
	return f
}

// failed ends the attempt with an adapter's error. One that the adapter did not
// understand is told to nobody but the log.
func (c *modelCall) failed(err error) {
	var known *conversation.ModelError
	if !errors.As(err, &known) {
		if !errors.Is(err, context.Canceled) {
			c.e.log.Error("a model call failed", "session", c.key.Session, "tenant", c.key.Tenant, "model", c.label, "err", err)
		}
		c.end("error", c.failure(conversation.Unavailable, "the model could not be asked", false))
		return
	}
	if known.Err != nil {
		c.e.log.Warn("a model call failed", "session", c.key.Session, "tenant", c.key.Tenant, "model", c.label,
			"code", known.Failure.Code, "err", known.Err)
	}
	f := c.failure(known.Failure.Code, known.Failure.Message, known.Permanent)
	f.Model, f.RetryAfter, f.Usage = cmp.Or(known.Model, c.label), known.RetryAfter, known.Usage
	outcome := "error"
	if known.Permanent {
		outcome = "permanent"
	}
	c.end(outcome, f)
}

// end hands the outcome to the session, behind everything that was streamed.
func (c *modelCall) end(outcome string, cmd conversation.Command) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		c.e.countUnused(cmd)
		return
	}
	c.show()
	c.finish(outcome)
	c.e.system.Root.Send(c.self, &modelEnd{call: c, cmd: cmd, drafts: c.shownDrafts()})
}

// stop ends the attempt without a word: nothing of it is shown any more when
// stop has returned. The drafts that were shown are the caller's to end.
func (c *modelCall) stop() []conversation.DraftDropped {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return nil
	}
	c.finish("cancelled")
	if c.cancel != nil {
		c.cancel()
	}
	return c.shownDrafts()
}

// finish is the one way to the end. The caller holds mu.
func (c *modelCall) finish(outcome string) {
	c.ended = true
	if c.timer != nil {
		c.timer.Stop()
	}
	c.e.m.ModelCalls.WithLabelValues(outcome).Inc()
	c.e.m.ModelSeconds.WithLabelValues(outcome).Observe(time.Since(c.began).Seconds())
}

// delta gathers text and shows it: the first at once, then every so often. Without
// text it is a sign of life.
func (c *modelCall) delta(item int, text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	c.lastOutput = now
	if c.ended || text == "" || item < 0 || item > maxItems {
		return
	}
	for len(c.drafts) <= item {
		c.drafts = append(c.drafts, &draft{})
	}
	d := c.drafts[item]
	d.text = append(d.text, text...)
	if c.timer != nil {
		return // it will be shown soon
	}
	wait := c.e.cfg.DeltaEvery - now.Sub(c.lastShown)
	if wait <= 0 {
		c.show()
		return
	}
	c.timer = time.AfterFunc(wait, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.timer = nil
		if !c.ended {
			c.show()
		}
	})
}

// maxItems bounds what a broken adapter can make us keep.
const maxItems = 1024

// show hands on all text that may be shown. The caller holds mu.
func (c *modelCall) show() {
	for item, d := range c.drafts {
		if !d.released && c.heldBack(string(d.text)) {
			continue
		}
		d.released = true
		end := wholeRunes(d.text)
		if end == d.shown {
			continue
		}
		text := string(d.text[d.shown:end])
		c.e.deps.Publisher.Show(c.key, conversation.Seq(c.after.Load()), conversation.Delta{
			Task: c.ask.Task, Draft: conversation.Draft(c.ask.Step, c.ask.Attempt, item), At: d.runes, Text: text,
		})
		c.e.m.Deltas.Inc()
		d.shown = end
		d.runes += utf8.RuneCountInString(text)
		c.lastShown = time.Now()
	}
}

func (c *modelCall) shownDrafts() []conversation.DraftDropped {
	var ids []conversation.DraftDropped
	for item, d := range c.drafts {
		if d.shown > 0 {
			ids = append(ids, conversation.DraftDropped{Task: c.ask.Task, Draft: conversation.Draft(c.ask.Step, c.ask.Attempt, item)})
		}
	}
	return ids
}

// wholeRunes is how many bytes of text end on a whole character.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if utf8.FullRune(text[i:]) {
				return len(text)
			}
			return i
		}
	}
	return len(text)
}

// modelEnded takes the outcome of the session's model call; one of a call that
// was stopped meanwhile is stale.
func (s *session) modelEnded(m *modelEnd) {
	if s.phase == phaseUnloaded || s.model != m.call {
		s.e.countUnused(m.cmd)
		return
	}
	s.model = nil
	s.accept(&envelope{cmd: m.cmd, drafts: m.drafts})
}

// draftViews are the texts that stream right now.
func (s *session) draftViews() []conversation.DraftView {
	c := s.model
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	var views []conversation.DraftView
	for item, d := range c.drafts {
		if d.shown > 0 {
			views = append(views, conversation.DraftView{
				Task: c.ask.Task, Draft: conversation.Draft(c.ask.Step, c.ask.Attempt, item), Text: string(d.text[:d.shown]),
			})
		}
	}
	return views
}

// dropDrafts says that drafts became nothing that stays.
func (s *session) dropDrafts(ids []conversation.DraftDropped) {
	for _, dropped := range ids {
		s.e.deps.Publisher.Show(s.key, s.durable, dropped)
	}
}

// withoutPart are the drafts that no part of a commit takes the place of.
func withoutPart(drafts []conversation.DraftDropped, events []conversation.Event) []conversation.DraftDropped {
	if len(drafts) == 0 {
		return nil
	}
	return slices.DeleteFunc(drafts, func(d conversation.DraftDropped) bool {
		return slices.ContainsFunc(events, func(e conversation.Event) bool {
			switch b := e.Body.(type) {
			case conversation.PartialResponse:
				return b.Draft == d.Draft
			case conversation.Response:
				return b.Draft == d.Draft
			default:
				return false
			}
		})
	})
}
