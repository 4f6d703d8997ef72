package machine

import (
	"slices"
	"time"

	"parley/conversation"
)

// Steps: durable from their start to their end. "A model call is in flight" is
// "a step is open". machine.md, section 1.

// startStep opens a step that reads everything unread; a wrap-up reads nothing.
func (s *Session) startStep(t *task, wrapUp bool) {
	body := conversation.StepStarted{Step: s.state.Step + 1, Attempt: 1, Agent: s.state.Agent, WrapUp: wrapUp}
	if !wrapUp {
		for _, m := range t.Messages {
			if m.Read == 0 && !m.Kept {
				body.Read = append(body.Read, m.ID)
			}
		}
	}
	s.emit(t, body)
	s.do(s.askModel(t))
	if s.key.Session.Depth() > 0 {
		for _, id := range body.Read { // an amendment ends when it is read
			if id != t.Trigger {
				s.resolve(t, id, conversation.ResolvedMerged, nil, "")
			}
		}
	}
}

func (s *Session) askModel(t *task) conversation.Effect {
	st := t.Step
	return conversation.AskModel{Task: s.taskID(t.N), Step: st.N, Attempt: st.Attempt, Agent: st.Agent, Upto: st.Seq, WrapUp: st.WrapUp}
}

func (s *Session) applyStepStarted(e conversation.Event, t *task, b conversation.StepStarted) {
	s.state.Step = max(s.state.Step, b.Step)
	if t == nil {
		return
	}
	if b.Attempt == 1 {
		t.Step = &step{N: b.Step, Attempt: 1, Seq: e.Seq, Read: b.Read, Agent: b.Agent, WrapUp: b.WrapUp, NotBefore: b.NotBefore}
		t.LastStep, t.Round, t.News = b.Step, false, false
		t.Steps++
		next := 0 // they are read in their order
		for _, m := range t.Messages {
			inOrder := next < len(b.Read) && b.Read[next] == m.ID
			if inOrder {
				next++
			}
			if inOrder || slices.Contains(b.Read[next:], m.ID) {
				m.Read, m.ReadBy = e.Seq, b.Step
			}
		}
		// What was read stands before what waits (kept replies).
		slices.SortStableFunc(t.Messages, func(a, b *message) int { return boolOrder(a.Read == 0) - boolOrder(b.Read == 0) })
		return
	}
	st := t.Step
	if st == nil {
		return
	}
	st.Attempt, st.NotBefore = b.Attempt, b.NotBefore
	// A drain parks the step; the next start of it, after the restart, carries
	// the same cause and is the one that runs.
	st.Parked = b.Cause == conversation.CauseDrain && !st.Parked
	switch b.Cause {
	case conversation.CauseError:
		st.Errors++
	case conversation.CauseInterrupted:
		st.Interrupts++
	}
}

func boolOrder(b bool) int {
	if b {
		return 1
	}
	return 0
}

// applyStepFinished closes the step. The results that its own answer brings at
// once ("delivered", "question sent, continuing") are unseen; what a
// coverMessage says is not.
func (s *Session) applyStepFinished(t *task, b conversation.StepFinished) {
	if t == nil {
		return
	}
	t.Step = nil
	shown := false
	for _, item := range b.Items {
		if item.Kind != conversation.ItemCall {
			shown = true
			continue
		}
		shown = true
		if item.Tool != conversation.ToolCover && slices.ContainsFunc(b.Results, func(r conversation.CallResult) bool { return r.ID == item.ID }) {
			t.Round = true
		}
	}
	if shown || b.Outcome != conversation.StepOK {
		t.Empties = 0
	} else {
		t.Empties++
	}
}

// stepOf finds the task whose open step a model call speaks of; an answer for
// another step or attempt is stale.
func (s *Session) stepOf(n conversation.StepNumber, attempt int) *task {
	for _, t := range s.state.Tasks {
		if t.Step != nil && t.Step.N == n && t.Step.Attempt == attempt && !t.Step.Parked {
			return t
		}
	}
	return nil
}

// modelAnswered commits a step's answer whole: parts, calls, resolutions.
func (s *Session) modelAnswered(c conversation.ModelAnswered) {
	t := s.stepOf(c.Step, c.Attempt)
	if t == nil {
		return
	}
	wrapUp := t.Step.WrapUp
	texts, silent := s.texts(c.Step, c.Attempt, c.Answer.Items)
	finished := conversation.StepFinished{
		Step: c.Step, Attempt: c.Attempt, Outcome: conversation.StepOK, Model: c.Model, Usage: c.Answer.Usage, Took: c.Took,
		ResponseID: c.Answer.ResponseID, Items: c.Answer.Items,
	}
	if wrapUp {
		finished.Items = slices.DeleteFunc(slices.Clone(finished.Items), func(i conversation.Item) bool { return i.Kind == conversation.ItemCall })
		if len(texts) > 0 {
			finished.Decisions = []conversation.Decision{conversation.DecisionAnswer}
		}
		s.emit(t, finished)
		s.completeLimited(t, texts)
		return
	}
	calls := s.plan(t, c.Answer.Items)
	if len(calls) == 0 && len(texts) > 0 {
		finished.Decisions = []conversation.Decision{conversation.DecisionAnswer}
	}
	onlyCovers := true
	for _, p := range calls {
		if !slices.Contains(finished.Decisions, p.decision) {
			finished.Decisions = append(finished.Decisions, p.decision)
		}
		if p.result != "" {
			finished.Results = append(finished.Results, conversation.CallResult{ID: p.item.ID, Text: p.result})
		}
		onlyCovers = onlyCovers && p.covers
	}
	if len(finished.Items) == 0 {
		finished.Items = nil
	}
	s.emit(t, finished)
	if onlyCovers {
		// The text may be the final answer: settle decides what it is.
		for _, p := range calls {
			p.run()
		}
		s.out.pending = pending{task: t, texts: texts, silent: silent}
		return
	}
	// With any other call the task goes on, so the text is partial: in the
	// order in which the model gave it.
	next := 0
	for i, item := range c.Answer.Items {
		if item.Kind == conversation.ItemCall {
			if calls[0].item.ID == item.ID && calls[0].at == i {
				calls[0].run()
				calls = calls[1:]
			}
			continue
		}
		if next < len(texts) && s.isShown(item) {
			s.showText(t, texts[next])
			next++
		}
	}
}

// isShown is true for the items that texts has kept.
func (s *Session) isShown(item conversation.Item) bool {
	return item.Kind == conversation.ItemText && !conversation.IsBlank(item.Text) && !s.policy.IsSentinel(item.Text)
}

// modelFailed makes another attempt, or ends the task.
func (s *Session) modelFailed(c conversation.ModelFailed) {
	t := s.stepOf(c.Step, c.Attempt)
	if t == nil {
		return
	}
	failure := c.Failure
	if !c.Permanent && t.Step.Errors+1 < s.policy.MaxAttempts {
		again := conversation.StepStarted{
			Step: c.Step, Attempt: c.Attempt + 1, Agent: t.Step.Agent, Read: t.Step.Read, Cause: conversation.CauseError,
			Error: &failure, Usage: c.Usage, WrapUp: t.Step.WrapUp,
		}
		if wait := s.backoff(t.Step.Errors, c.Jitter, c.RetryAfter); wait > 0 {
			again.NotBefore = s.now.Add(wait)
		}
		s.emit(t, again)
		s.askIfDue(t)
		return
	}
	usage := conversation.Usage{}
	if c.Usage != nil {
		usage = *c.Usage
	}
	s.failStep(t, conversation.StepFinished{
		Step: c.Step, Attempt: c.Attempt, Outcome: conversation.StepError, Model: c.Model, Usage: usage, Took: c.Took, Error: &failure,
	})
}

// failStep closes a step that has no attempt left. A wrap-up's failure is told
// by the engine's own notice; any other ends the task in ERROR.
func (s *Session) failStep(t *task, finished conversation.StepFinished) {
	wrapUp := t.Step.WrapUp
	s.emit(t, finished)
	if wrapUp {
		s.completeLimited(t, nil)
		return
	}
	s.cancelTask(t, conversation.ByError, "the model call failed", finished.Error, false)
}

// askIfDue asks at once when an attempt need not wait.
func (s *Session) askIfDue(t *task) {
	if !t.Step.NotBefore.After(s.now) {
		s.do(s.askModel(t))
	}
}

// backoff is exponential with full jitter, and at least what the provider asked
// for, within retry.backoff_max.
func (s *Session) backoff(retries int, jitter float64, retryAfter time.Duration) time.Duration {
	limit := s.policy.BackoffMin
	for range retries {
		limit = min(2*limit, s.policy.BackoffMax)
	}
	limit = min(limit, s.policy.BackoffMax)
	wait := max(time.Duration(jitter*float64(limit)), min(retryAfter, s.policy.BackoffMax))
	return wait.Round(time.Millisecond)
}

// resumeStep begins another attempt of a step that was open when the process
// ended.
func (s *Session) resumeStep(t *task) {
	st := t.Step
	if st.NotBefore.After(s.now) {
		return // it had not begun
	}
	again := conversation.StepStarted{Step: st.N, Attempt: st.Attempt + 1, Agent: st.Agent, Read: t.Step.Read, Cause: conversation.CauseInterrupted, WrapUp: st.WrapUp}
	if st.Parked {
		again.Cause = conversation.CauseDrain
	} else if st.Interrupts >= s.policy.MaxInterrupts {
		s.failStep(t, conversation.StepFinished{
			Step: st.N, Attempt: st.Attempt, Outcome: conversation.StepError,
			Error: &conversation.Failure{Code: conversation.Unavailable, Message: "the model call was interrupted too often"},
		})
		return
	}
	s.emit(t, again)
	s.do(s.askModel(t))
}

// drain parks the open step: its attempt was stopped, the next one begins after
// the restart.
func (s *Session) drain() {
	for _, t := range s.state.Tasks {
		if st := t.Step; st != nil && !st.Parked && !st.NotBefore.After(s.now) {
			s.do(conversation.StopModel{Step: st.N})
			s.emit(t, conversation.StepStarted{Step: st.N, Attempt: st.Attempt + 1, Agent: st.Agent, Read: t.Step.Read, Cause: conversation.CauseDrain, WrapUp: st.WrapUp})
		}
	}
}
