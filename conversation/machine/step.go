package machine

import (
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/asking"
	"parley/conversation/machine/internal/plan"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Steps: durable from their start to their end. "A model call is in flight" is
// "a step is open". docs/MACHINE.md, section 1.

// startStep opens a step that reads what is unread; a wrap-up reads nothing.
// Rules 1.1, 1.4, 2.20.
func (d *decision) startStep(t *state.Task, wrapUp bool) {
	body := conversation.StepStarted{Step: d.state.Step + 1, Attempt: 1, Agent: d.state.Agent, WrapUp: wrapUp}
	if t.Form == conversation.NudgeJudged {
		body.Agent = conversation.Judge
	}
	if unread := t.UnreadMessages(); !wrapUp && len(unread) > 0 {
		if d.readsOne() { // and what was moved before the task's trigger: its parts have that as their source
			trigger := slices.IndexFunc(unread, func(m *state.Message) bool { return m.ID == t.Trigger })
			unread = unread[:max(trigger, 0)+1]
		}
		for _, m := range unread {
			body.Read = append(body.Read, m.ID)
		}
	}
	d.emit(t, body)
	d.do(d.source().AskModel(t))
	if d.state.Key.Session.Depth() > 0 {
		for _, id := range body.Read { // an amendment ends when it is read
			if id != t.Trigger {
				d.resolve(t, id, conversation.ResolvedMerged, "")
			}
		}
	}
}

// readsOne is true for a session whose steps read one message each: by inbox.read, or as
// long as its agent's model has not named a message.
// Rule 2.20.
func (d *decision) readsOne() bool {
	switch d.rules.ReadOf(d.state.Agent, d.policy.Read) {
	case policy.ReadAll:
		return false
	case policy.ReadOne:
		return d.state.Key.Session.Depth() == 0
	default:
		return d.state.Key.Session.Depth() == 0 && !d.rules.Agent(d.state.Agent).Names && !d.state.Heard.Names(d.state.Agent)
	}
}

// modelAnswered commits a step's answer whole: parts, calls, resolutions.
// Rule 1.11.
func (d *decision) modelAnswered(c conversation.ModelAnswered) {
	t := d.state.StepOf(c.Step, c.Attempt)
	if t == nil {
		return
	}
	if t.Cancelling != nil {
		d.ends().stepStopped(t, conversation.StepFinished{Outcome: conversation.StepCancelled, Model: c.Model, Usage: c.Answer.Usage, Took: c.Took})
		return
	}
	texts, silent := d.texts(c.Step, c.Attempt, c.Answer.Items)
	finished := conversation.StepFinished{
		Step: c.Step, Attempt: c.Attempt, Outcome: conversation.StepOK, Model: c.Model, Usage: c.Answer.Usage, Took: c.Took,
		Stop: c.Answer.Stop, ResponseID: c.Answer.ResponseID, Items: c.Answer.Items,
	}
	form := t.Step.Form
	replied := form == conversation.NudgeQuestion && !plan.HasCalls(c.Answer.Items) && d.obligations().replied(t) != nil
	if plan.Closes(form) || replied {
		finished.Items = slices.DeleteFunc(slices.Clone(finished.Items), func(i conversation.Item) bool { return i.Kind != conversation.ItemCall })
		texts, silent = nil, false
	}
	if plan.Withheld(c.Answer) && len(texts) == 0 && !silent {
		finished.Outcome, finished.Error = conversation.StepError, d.withheld()
		d.failStep(t, finished)
		return
	}
	goesOn := d.cutOff(t, c.Answer, texts)
	if t.Step.WrapUp {
		d.wrappedUp(t, finished, texts)
		return
	}
	asked := plan.Calls(plan.Situation{
		Task: t, Agent: t.Step.Agent, Depth: d.state.Key.Session.Depth(), Rules: d.rules, Policy: d.policy, Now: d.now,
		Questions: asking.People(&d.state), Shown: c.Shown, Form: form,
	}, finished.Items)
	if asked == nil && len(texts) > 0 {
		finished.Decisions = []conversation.Decision{conversation.DecisionAnswer}
	}
	onlyCovers := true
	for _, call := range asked {
		if call.Do == nil {
			continue // text
		}
		if !slices.Contains(finished.Decisions, call.Decision) {
			finished.Decisions = append(finished.Decisions, call.Decision)
		}
		if call.Result != "" {
			finished.Results = append(finished.Results, conversation.CallResult{ID: call.Item.ID, Text: call.Result})
		}
		onlyCovers = onlyCovers && call.Covers
	}
	if plan.Closes(form) {
		d.obligations().closed(t, finished, asked)
		return
	}
	named := false
	if form == conversation.NudgeAlone {
		if !worksOn(finished.Items) {
			texts, named = d.saidAlone(t.Alone, finished.Items, asked, texts)
			onlyCovers = true
		} else if slices.ContainsFunc(texts, func(one pendingText) bool { return t.SaidBefore(d.state.Heard, one.text) }) {
			texts = nil // the same word on the way
		}
	}
	d.finishStep(t, finished, plan.Named(asked))
	if goesOn {
		d.showTexts(t, pending{texts: texts}, cutShort)
		return
	}
	if onlyCovers {
		// The text may be the final answer: settle decides what it is.
		d.pending = pending{task: t, texts: texts, silent: silent, named: named}
		if silent && form == conversation.NudgeAlone { // it is said of that message
			d.resolve(t, t.Alone, conversation.ResolvedDismissed, "")
			d.pending.silent = false
		}
		if len(texts) > 0 {
			d.pending.covered = plan.AnsweredBy(asked)
		} else {
			d.calls().answeredAlready(t, asked)
		}
		for _, call := range asked {
			d.calls().carryOut(t, call)
		}
		return
	}
	d.carryOutInOrder(t, c.Answer.Items, asked, texts)
}

// saidAlone takes what an answer says by respondToUser of the message that it was asked for
// alone as texts of the answer: one message needs no name.
func (d *decision) saidAlone(m conversation.MessageID, items []conversation.Item, asked []plan.Call, texts []pendingText) (all []pendingText, named bool) {
	if asked == nil {
		return texts, false
	}
	for i, item := range items {
		show, says := asked[i].Do.(plan.Show)
		switch {
		case says && (show.Message == "" || show.Message == m):
			all = d.joined(all, pendingText{text: show.Text})
			named = named || show.Message == m
			asked[i].Do = plan.Nothing{}
		case d.isShown(item) && len(texts) > 0:
			all, texts = append(all, texts[0]), texts[1:]
		}
	}
	return all, named
}

// cutOff marks the text of an answer that was cut off: by the provider's filter, or at the
// limit of tokens, unless the model goes on with it, and that is the outcome. What calls
// follow on is no end.
// Rules 3.9, 3.10.
func (d *decision) cutOff(t *state.Task, a conversation.ModelAnswer, texts []pendingText) (goesOn bool) {
	if len(texts) == 0 || plan.HasCalls(a.Items) {
		return false
	}
	switch last := &texts[len(texts)-1]; {
	case plan.Withheld(a):
		last.text += " " + d.policy.Texts.Withheld
	case a.Stop == conversation.StopLength && d.goesOn(t):
		return true
	case a.Stop == conversation.StopLength:
		last.text += plan.Truncated
	}
	return false
}

// withheld is the failure of a step whose answer the model's provider has withheld: a
// sentence for the user.
// Rule 3.10.
func (s *Session) withheld() *conversation.Failure {
	return &conversation.Failure{Code: conversation.Forbidden, Message: s.policy.Texts.Filtered}
}

// goesOn is true for a task whose model goes on with an answer that ended at its limit
// of tokens. A delegate's answer is one text, a task at its step limit has no step left, and
// what answers a nudge is judged first.
// Rule 3.9.
func (d *decision) goesOn(t *state.Task) bool {
	return d.policy.CutAnswer == policy.CutContinue && t.Cuts < plan.MaxCuts && t.Steps < d.maxSteps() && !t.Step.WrapUp && t.Step.Form == conversation.NudgePlain && d.state.Key.Session.Depth() == 0
}

// wrappedUp ends a task with the answer of its last step; calls in it are ignored.
func (d *decision) wrappedUp(t *state.Task, finished conversation.StepFinished, texts []pendingText) {
	finished.Items = slices.DeleteFunc(slices.Clone(finished.Items), func(i conversation.Item) bool { return i.Kind == conversation.ItemCall })
	if len(texts) > 0 {
		finished.Decisions = []conversation.Decision{conversation.DecisionAnswer}
	}
	d.finishStep(t, finished, nil)
	d.completeLimited(t, texts)
}

// finishStep closes the step with its answer, before anything that the answer asks
// for is carried out: it fixes whom its texts are shown as answers to, and judges
// what the answer before said without a name. named are the messages of which this
// answer itself says what became of them.
func (d *decision) finishStep(t *state.Task, finished conversation.StepFinished, named []conversation.MessageID) {
	d.addressee = t.Guess(named)
	said := d.obligations().tryUnnamed(t, finished.Items, named)
	d.emit(t, finished)
	for _, r := range said {
		d.answered(t, r.Message, conversation.PartIndex(r.Item), r.Evidence)
	}
}

// carryOutInOrder decides an answer with calls, after which the task goes on: its
// texts are partial, and texts and calls come in the order in which the model
// gave them.
func (d *decision) carryOutInOrder(t *state.Task, items []conversation.Item, asked []plan.Call, texts []pendingText) {
	if len(texts) == 0 {
		d.calls().answeredAlready(t, asked)
	}
	for i, item := range items {
		switch {
		case asked[i].Do != nil:
			d.calls().carryOut(t, asked[i])
		case len(texts) > 0 && d.isShown(item):
			d.showTexts(t, pending{texts: texts[:1]}, partial)
			texts = texts[1:]
			if len(texts) == 0 {
				d.calls().answeredAlready(t, asked)
			}
		}
	}
	d.calls().answeredAlready(t, asked) // nothing was said before: by this answer's last part
}

// isShown is true for the items that texts has kept.
func (s *Session) isShown(item conversation.Item) bool {
	return item.Kind == conversation.ItemText && !conversation.IsBlank(item.Text) && !s.policy.IsSentinel(item.Text)
}

// modelFailed makes another attempt, or ends the task. What a model that acts has
// done must not be done twice, so it is asked again only if it has done nothing.
// Rules 1.2, 1.3, 1.13.
func (d *decision) modelFailed(c conversation.ModelFailed) {
	t := d.state.StepOf(c.Step, c.Attempt)
	if t == nil {
		return
	}
	if t.Cancelling != nil {
		d.ends().modelStopped(conversation.ModelStopped{Step: c.Step, Attempt: c.Attempt, Usage: c.Usage, Took: c.Took})
		return
	}
	failure, tooLate := d.policy.TooLate(c.Failure, c.RetryAfter)
	if c.Failure.Code == conversation.Forbidden {
		failure = *d.withheld()
	}
	once := d.acts(t.Step) && !c.NothingRan
	if !c.Permanent && !tooLate && !once && t.Step.Errors+1 < d.policy.MaxAttempts {
		again := t.Step.Again(conversation.CauseError)
		again.Error, again.Usage = &failure, c.Usage
		if wait := d.policy.Backoff(t.Step.Errors, c.Jitter, c.RetryAfter); wait > 0 {
			again.NotBefore = d.now.Add(wait)
		}
		d.emit(t, again)
		d.askIfDue(t)
		return
	}
	usage := conversation.Usage{}
	if c.Usage != nil {
		usage = *c.Usage
	}
	d.failStep(t, conversation.StepFinished{
		Step: c.Step, Attempt: c.Attempt, Outcome: conversation.StepError, Model: c.Model, Usage: usage, Took: c.Took, Error: &failure,
	})
}

// failStep closes a step that has no attempt left. A wrap-up's failure shows
// the engine's own notice; any other ends the task in ERROR.
// Rules 1.3, 7.2.
func (d *decision) failStep(t *state.Task, finished conversation.StepFinished) {
	wrapUp, nudged, judged := t.Step.WrapUp, t.Step.Form != conversation.NudgePlain, t.Step.Form == conversation.NudgeJudged
	d.emit(t, finished)
	if wrapUp {
		d.completeLimited(t, nil)
		return
	}
	if nudged && t.LastPart != nil || judged {
		return // what was shown stays, and the task ends as it would have without the nudge
	}
	d.cancelTask(t, conversation.ByError, "the model call failed", finished.Error, false)
}

// askIfDue asks at once when an attempt need not wait.
func (d *decision) askIfDue(t *state.Task) {
	if !t.Step.NotBefore.After(d.now) {
		d.do(d.source().AskModel(t))
	}
}

// resumeStep begins another attempt of a step that was open when the session was
// lost: by the end of its process, or by an owner that lives.
// Rules 1.5, 1.9, 1.13, 1.14.
func (d *decision) resumeStep(t *state.Task, lost conversation.Recovered) {
	st := t.Step
	if st.NotBefore.After(d.now) {
		return // it had not begun
	}
	if d.acts(st) && !st.Parked {
		d.ends().interruptedStep(t)
		return
	}
	again := st.Again(conversation.CauseInterrupted)
	tooOften := ""
	switch {
	case st.Parked:
		again.Cause = conversation.CauseDrain
	case lost.Cause == conversation.CauseMoved:
		again.Cause = conversation.CauseMoved
		if wait := d.policy.Backoff(st.Moves, lost.Jitter, 0); wait > 0 {
			again.NotBefore = d.now.Add(wait)
		}
		if st.Moves >= d.policy.MaxMoved {
			tooOften = "the session was moved too often"
		}
	case st.Interrupts >= d.policy.MaxInterrupts:
		tooOften = "the model call was interrupted too often"
	}
	if tooOften != "" {
		d.failStep(t, conversation.StepFinished{
			Step: st.N, Attempt: st.Attempt, Outcome: conversation.StepError,
			Error: &conversation.Failure{Code: conversation.Unavailable, Message: tooOften},
		})
		return
	}
	d.emit(t, again)
	d.askIfDue(t)
}

// acts is true for the steps of a model that acts on the world.
// Rule 1.13.
func (s *Session) acts(st *state.Step) bool { return s.rules.Agent(st.Agent).Acts }

// drain parks the open step: its attempt was stopped, the next one begins after
// the restart. A model that acts, and that was asked, is never asked again.
// Rules 1.9, 1.13.
func (d *decision) drain() {
	for _, t := range slices.Clone(d.state.Tasks) {
		if st := t.Step; st != nil && t.Cancelling == nil && d.acts(st) && d.asking == st.Name() {
			d.do(conversation.StopModel{Step: st.N})
			d.ends().interruptedStep(t)
			d.settle()
		}
	}
	for _, t := range d.state.Tasks {
		if st := t.Step; st != nil && t.Cancelling == nil && !st.Parked && !st.NotBefore.After(d.now) {
			d.do(conversation.StopModel{Step: st.N})
			d.emit(t, st.Again(conversation.CauseDrain))
		}
	}
}
