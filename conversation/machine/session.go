package machine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/conversation"
)

// Session is the machine: the whole open state of one conversation, and the
// rules by which it changes. It is not safe for concurrent use; its owner is
// the session's actor.
//
// The rules are methods in one file for each family: inbox.go, task.go,
// step.go, parts.go, question.go, call.go, coverage.go, outside.go. Each file
// holds the decisions of its family and the Apply of its events.
type Session struct {
	key    conversation.SessionKey
	rules  *conversation.Rules
	policy *conversation.Policy // the configuration's, or a copy of it with the session's overrides; never written
	state  state

	ticked time.Time // the last Tick: what was due then has been done

	now     time.Time // the clock's, at the last Decide; zero after a load
	drained bool      // the node goes away: a step that opens is parked

	// Of the Decide that is under way.
	slot bool
	out  *deciding // nil between commands: most sessions rest most of the time
}

// deciding is what a Decide brings forth, and what it needs for that.
type deciding struct {
	conversation.Decided
	pending pending
}

// Decide takes a command and says what happens because of it. Each event is
// applied as it is decided (by Apply, which alone changes the state), so the
// session has moved on when Decide returns; the caller's duty is to make the
// events durable before anything of them is seen, and to throw the session away
// if that fails.
func (s *Session) Decide(given conversation.Given, c conversation.Command) conversation.Decided {
	var out deciding
	c = cleaned(c)
	s.out, s.slot = &out, given.Slot || s.key.Session.Depth() > 0
	s.now = conversation.Stamp(given.At)
	if s.now.Before(s.ticked) {
		s.ticked = s.now // what becomes due between the two is not done yet
	}
	err := s.decide(c)
	if err == nil {
		s.settle()
	}
	if err == nil && s.drained {
		s.drain() // a late result has opened another step
	}
	if err != nil {
		out.Decided = conversation.Decided{Err: err, Effects: out.Effects}
	}
	if out.Err == nil && out.Receipt.Seq == 0 {
		out.Receipt.Seq = s.state.Head
	}
	s.out = nil
	return out.Decided
}

func (s *Session) decide(c conversation.Command) *conversation.Error {
	switch c := c.(type) {
	case conversation.Create:
		return s.decideCreate(c)
	case conversation.Tell:
		return s.decideTell(c)
	case conversation.Recovered, conversation.Tick, conversation.SlotGranted, conversation.Drain, conversation.ModelAnswered, conversation.ModelFailed, conversation.ToolDone,
		conversation.DelegationAsked, conversation.DelegationQuestions, conversation.DelegationQuestionClosed, conversation.DelegationDone, conversation.Compacted:
		if s.Exists() {
			s.decideInner(c)
		}
		return nil
	case conversation.Cancel:
		if !s.Exists() {
			return s.absent()
		}
		return s.decideCancel(c)
	}
	if !s.Exists() {
		return s.absent()
	}
	if s.key.Session.Depth() > 0 && !fromParent(c) {
		return conversation.Errorf(conversation.Forbidden, "a delegation's session can only be read")
	}
	switch c := c.(type) {
	case conversation.Say:
		return s.decideSay(c)
	case conversation.Answer:
		return s.decideAnswer(c)
	case conversation.Reply:
		return s.decideReply(c)
	case conversation.Edit:
		return s.decideEdit(c)
	case conversation.Withdraw:
		return s.decideWithdraw(c)
	case conversation.Move:
		return s.decideMove(c)
	case conversation.Update:
		return s.decideUpdate(c)
	case conversation.Close:
		return s.decideClose(c)
	case conversation.Seen:
		return s.decideSeen(c)
	case conversation.AddPart:
		return s.decideAddPart(c)
	default:
		return conversation.Errorf(conversation.Internal, "the command %T is not known", c)
	}
}

// decideInner takes the commands that come from the shell itself: nobody waits
// for their answer, and one that is out of date changes nothing.
func (s *Session) decideInner(c conversation.Command) {
	switch c := c.(type) {
	case conversation.Recovered:
		s.recover()
	case conversation.Tick:
		s.tick()
	case conversation.Drain:
		s.drained = true
	case conversation.ModelAnswered:
		s.modelAnswered(c)
	case conversation.ModelFailed:
		s.modelFailed(c)
	case conversation.ToolDone:
		s.toolDone(c)
	case conversation.DelegationAsked:
		s.delegationAsked(c)
	case conversation.DelegationQuestions:
		s.delegationQuestions(c)
	case conversation.DelegationQuestionClosed:
		s.delegationQuestionClosed(c)
	case conversation.DelegationDone:
		s.delegationDone(c)
	case conversation.Compacted:
		s.compacted(c)
	case conversation.SlotGranted:
		// The slot is in Given; settle uses it.
	}
}

// fromParent is true for what a parent session may tell a sub-session.
func fromParent(c conversation.Command) bool {
	switch c := c.(type) {
	case conversation.Say:
		return c.Via == conversation.ViaDelegation
	case conversation.Answer:
		return c.Via == conversation.ViaDelegation
	case conversation.Seen:
		return true
	default:
		return false
	}
}

func (s *Session) absent() *conversation.Error {
	return conversation.Errorf(conversation.NotFound, "there is no such session")
}

// emit decides an event: it is applied at once and goes into the commit.
func (s *Session) emit(t *task, body conversation.EventBody) conversation.Event {
	if t == nil {
		return s.emitOf("", body)
	}
	return s.emitOf(s.taskID(t.N), body)
}

// emitOf decides an event of a task that may be born by it.
func (s *Session) emitOf(task conversation.TaskID, body conversation.EventBody) conversation.Event {
	e := conversation.Event{Seq: s.state.Head + 1, At: s.at(), Task: task, Body: stored(body)}
	if err := s.Apply(e); err != nil {
		panic("conversation: decided an event that does not apply: " + err.Error())
	}
	s.out.Events = append(s.out.Events, e)
	return e
}

// at is the time of what happens now. A clock may be set back; a session's time
// does not go back. What is to happen later is reckoned from the clock itself:
// else a clock that was an hour ahead would keep each retry waiting for an hour.
func (s *Session) at() time.Time {
	if s.now.Before(s.state.Last) {
		return s.state.Last
	}
	return s.now
}

// stored rounds a body to what the store keeps (milliseconds; nil for empty), so
// that a replayed session equals the live one.
func stored(body conversation.EventBody) conversation.EventBody {
	switch b := body.(type) {
	case conversation.SessionCreated:
		if len(b.Policy) == 0 {
			b.Policy = nil
		}
		return b
	case conversation.StepStarted:
		b.NotBefore = stampOrZero(b.NotBefore)
		return b
	case conversation.StepFinished:
		b.Took = b.Took.Truncate(time.Millisecond)
		if len(b.Items) == 0 {
			b.Items = nil
		}
		return b
	case conversation.TaskCancelling:
		b.Until = stampOrZero(b.Until)
		return b
	case conversation.Asked:
		b.ExpiresAt = stampOrZero(b.ExpiresAt)
		if len(b.Choices) == 0 {
			b.Choices = nil
		}
		return b
	case conversation.ToolFinished:
		b.Took = b.Took.Truncate(time.Millisecond)
		return b
	case conversation.DelegationFinished:
		b.Took = b.Took.Truncate(time.Millisecond)
		return b
	default:
		return body
	}
}

func stampOrZero(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return conversation.Stamp(t)
}

// cleaned makes what models and tools say valid UTF-8, which is all that the
// store and the screens can show, and gives each call of an answer an id of its
// own, which is how its result is paired.
func cleaned(c conversation.Command) conversation.Command {
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	switch c := c.(type) {
	case conversation.ModelAnswered:
		items := make([]conversation.Item, len(c.Answer.Items))
		for i, item := range c.Answer.Items {
			item.Text, item.Args, item.Tool, item.ID = valid(item.Text), valid(item.Args), valid(item.Tool), valid(item.ID)
			same := func(other conversation.Item) bool { return other.Kind == conversation.ItemCall && other.ID == item.ID }
			for n := i; item.Kind == conversation.ItemCall && (item.ID == "" || slices.ContainsFunc(items[:i], same)); n++ {
				item.ID = fmt.Sprintf("call-%d-%d", c.Step, n)
			}
			items[i] = item
		}
		c.Answer.Items = items
		return c
	case conversation.ToolDone:
		c.Result = valid(c.Result)
		return c
	case conversation.DelegationDone:
		c.Summary = valid(c.Summary)
		return c
	default:
		return c
	}
}

// do adds an effect.
func (s *Session) do(e conversation.Effect) { s.out.Effects = append(s.out.Effects, e) }

// Apply changes the state by an event. Decide uses it, and replay: recovery is
// the same code over the same events. It never looks at the configuration. An
// error means that the log is not one that this program wrote.
func (s *Session) Apply(e conversation.Event) error {
	if e.Seq != s.state.Head+1 {
		return fmt.Errorf("event %d of %s follows %d", e.Seq, s.key, s.state.Head)
	}
	st := &s.state
	t := s.task(e.Task)
	switch b := e.Body.(type) {
	case conversation.SessionCreated:
		st.Title, st.Agent, st.Owner, st.Access, st.Policy = b.Title, b.Agent, b.Owner, b.Access, b.Policy
		st.Created, st.Activity, st.FreeSince = e.At, e.At, e.At
		s.refreshPolicy()
	case conversation.SessionUpdated:
		s.applyUpdated(b)
	case conversation.SessionClosed:
		st.Closed = true
	case conversation.MessageAccepted:
		s.applyAccepted(e, t, b)
	case conversation.MessageEdited:
		if _, m := s.message(b.Message); m != nil {
			m.Words = significantWords(b.Text)
			if m.Text = b.Text; !m.Kept {
				m.Text = conversation.Excerpt(b.Text, rememberedText)
			}
		}
	case conversation.MessageWithdrawn:
		s.applyWithdrawn(t, b)
	case conversation.MessageMoved:
		s.applyMoved(b)
	case conversation.MessageResolved:
		if mt, _ := s.message(b.Message); mt != nil {
			mt.drop(b.Message)
		}
	case conversation.TaskStatusChanged:
		if t != nil && b.New.Ended() {
			st.taskEnds(t, e.Seq)
		}
		s.applyStatus(e, t, b)
	case conversation.TaskCancelling:
		s.applyCancelling(e, t, b)
	case conversation.StepStarted:
		if _, m := s.first(b); m != nil {
			st.Origin = &origin{Accepted: m.Seq, Read: e.Seq}
		}
		s.applyStepStarted(e, t, b)
	case conversation.StepFinished:
		s.applyStepFinished(t, b)
	case conversation.PartialResponse:
		s.applyPart(e, t, b.Part, false)
	case conversation.Response:
		s.applyPart(e, t, b.Part, b.Promoted)
		if s.key.Session.Depth() > 0 {
			st.Final = &final{Response: e.Seq}
		}
	case conversation.Asked:
		s.applyAsked(e, t, b)
	case conversation.QuestionAnswered:
		s.applyQuestionAnswered(b)
	case conversation.QuestionClosed:
		s.applyQuestionClosed(b)
	case conversation.ToolStarted:
		s.applyToolStarted(e, t, b)
	case conversation.ToolFinished:
		s.applyCallEnded(t, b.Call)
	case conversation.DelegationStarted:
		s.applyDelegationStarted(e, t, b)
	case conversation.DelegationFinished:
		s.applyCallEnded(t, b.Delegation)
	case conversation.CoverageNudge:
		if t != nil {
			t.Nudges, t.News = b.Nudge, true
		}
	case conversation.ContextCompacted:
		s.applyCompacted(b)
	default:
		return fmt.Errorf("event %d of %s: %w", e.Seq, s.key, conversation.ErrTooNew)
	}
	st.Head, st.Last = e.Seq, e.At
	return nil
}

// settle brings the session to rest after a command: machine.md, section 2.
// It ends because each round closes a question, opens a step, starts, parks or
// ends a task, and no round undoes what another did.
func (s *Session) settle() {
	if !s.Exists() {
		return
	}
	for s.settleOnce() {
	}
	if t := s.runnable(); t != nil && s.running() == nil && !s.slot {
		s.do(conversation.WantSlot{Task: s.taskID(t.N)})
	}
}

func (s *Session) settleOnce() bool {
	for _, t := range s.state.Tasks {
		if t.Cancelling != nil {
			if t.Step == nil && len(t.Calls) == 0 {
				s.end(t)
				return true
			}
			continue
		}
		switch t.Status {
		case conversation.TaskRunning:
			if s.state.Agent != conversation.Outside && s.advance(t) {
				return true
			}
		case conversation.TaskAwaiting:
			if !s.awaits(t) {
				s.setStatus(t, conversation.TaskQueued, "", nil)
				return true
			}
		}
	}
	if s.running() == nil {
		if t := s.runnable(); t != nil && (s.slot || s.state.Agent == conversation.Outside) {
			s.setStatus(t, conversation.TaskRunning, "", nil)
			return true
		}
	}
	return false
}

func (s *Session) decideCreate(c conversation.Create) *conversation.Error {
	if s.key.Session.Depth() > 0 { // it would never be told its objective
		return conversation.Errorf(conversation.Forbidden, "a delegation's session is opened by its parent alone")
	}
	if s.Exists() {
		s.out.Receipt.Duplicate = true
		return nil
	}
	if c.Agent == "" {
		c.Agent = conversation.Coordinator
	}
	if _, ok := s.rules.Agents[c.Agent]; !ok {
		return conversation.Errorf(conversation.BadRequest, "there is no agent %q", c.Agent)
	}
	if _, err := s.rules.Policy.With(c.Policy); err != nil {
		return err
	}
	if len(c.Policy) == 0 {
		c.Policy = nil
	}
	s.emit(nil, conversation.SessionCreated{Title: c.Title, Agent: c.Agent, Owner: c.Owner, Access: c.Access, Policy: c.Policy})
	return nil
}

func (s *Session) decideUpdate(c conversation.Update) *conversation.Error {
	up := conversation.SessionUpdated{}
	if c.Title != nil && *c.Title != s.state.Title {
		up.Title = c.Title
	}
	if c.Access != nil && *c.Access != s.state.Access {
		up.Access = c.Access
	}
	for key, value := range c.Policy {
		removed := strings.TrimSpace(string(value)) == "null" || value == nil
		if !removed {
			if _, err := s.rules.Policy.With(conversation.Overrides{key: value}); err != nil {
				return err
			}
		} else if !conversation.Overridable(key) {
			_, err := s.rules.Policy.With(conversation.Overrides{key: value})
			return err
		}
		old, had := s.state.Policy[key]
		if removed && !had || !removed && had && string(old) == string(value) {
			continue
		}
		if up.Policy == nil {
			up.Policy = conversation.Overrides{}
		}
		if removed {
			value = []byte("null")
		}
		up.Policy[key] = value
	}
	if up.Title != nil || up.Access != nil || up.Policy != nil {
		s.emit(nil, up)
	}
	s.out.Receipt.Policy = s.state.Policy
	return nil
}

func (s *Session) applyUpdated(b conversation.SessionUpdated) {
	st := &s.state
	if b.Title != nil {
		st.Title = *b.Title
	}
	if b.Access != nil {
		st.Access = *b.Access
	}
	if b.Policy == nil {
		return
	}
	next := conversation.Overrides{} // a new map: receipts and views may still hold the old one
	for key, value := range st.Policy {
		next[key] = value
	}
	for key, value := range b.Policy {
		if string(value) == "null" {
			delete(next, key)
		} else {
			next[key] = value
		}
	}
	if len(next) == 0 {
		next = nil
	}
	st.Policy = next
	s.refreshPolicy()
}

func (s *Session) decideClose(c conversation.Close) *conversation.Error {
	if !s.state.Closed {
		s.emit(nil, conversation.SessionClosed(c))
	}
	return nil
}

func (s *Session) decideSeen(c conversation.Seen) *conversation.Error {
	if c.Seq > s.state.Head {
		return conversation.Errorf(conversation.BadRequest, "seq %d is beyond the session's head %d", c.Seq, s.state.Head)
	}
	s.out.Cursors = append(s.out.Cursors, conversation.Cursor(c))
	return nil
}

// compacted takes a summary. One that is blank, or of no more than the last one
// covers, has nothing to replace.
func (s *Session) compacted(c conversation.Compacted) {
	last := conversation.Seq(0)
	if s.state.Compacted != nil {
		last = s.state.Compacted.Upto
	}
	if c.Upto > last && c.Upto < s.state.Head && !conversation.IsBlank(c.Summary) {
		s.emit(nil, conversation.ContextCompacted{Upto: c.Upto, TokensBefore: c.TokensBefore, TokensAfter: c.TokensAfter, Summary: c.Summary})
	}
}

// recover decides what becomes of what was open when the process ended:
// machine.md, section 1.
func (s *Session) recover() {
	for _, t := range append([]*task(nil), s.state.Tasks...) {
		for _, c := range append([]*call(nil), t.Calls...) {
			switch {
			case c.delegation() || c.Held:
			case t.Cancelling != nil && c.Idempotent:
				s.finishTool(t, c, conversation.CallCancelled, "cancelled", 0)
			case !c.Idempotent:
				s.finishTool(t, c, conversation.CallUnknown, "outcome unknown: the server stopped while this call ran; it may or may not have taken effect", 0)
			}
		}
		if t.Step != nil {
			s.resumeStep(t)
		}
		if t.Cancelling != nil {
			s.stopCalls(t)
		}
		if s.key.Session.Depth() > 0 {
			s.reportQuestions(t) // the parent may not wait for us any more, and then says so
		}
	}
}

// tick does what has become due.
func (s *Session) tick() {
	before := s.ticked
	s.ticked = s.now
	for _, t := range append([]*task(nil), s.state.Tasks...) {
		if st := t.Step; st != nil && st.NotBefore.After(before) && !st.NotBefore.After(s.now) && !st.Parked {
			s.do(s.askModel(t))
		}
		for _, q := range append([]*question(nil), t.Questions...) {
			if at := q.Asked.ExpiresAt; q.own() && !at.IsZero() && !at.After(s.now) {
				s.expire(t, q)
			}
		}
		s.tickCalls(t)
	}
	if t := s.runnable(); t != nil && s.running() == nil && s.policy.MaxWait > 0 &&
		!s.waitingSince(t).Add(s.policy.MaxWait).After(s.now) && !s.slot {
		s.cancelTask(t, conversation.ByError, "no capacity", &conversation.Failure{Code: conversation.Overloaded, Message: s.policy.Texts.Overloaded}, false)
	}
}

// waitingSince is when a runnable task began to wait for nothing but a slot.
func (s *Session) waitingSince(t *task) time.Time {
	since := t.Updated
	for _, at := range []time.Time{s.state.FreeSince, t.NotBefore} {
		if at.After(since) {
			since = at
		}
	}
	return since
}

// Outstanding derives from the state every acquiring effect that must be in
// progress now. After a load it is what to start. It holds no attempt whose
// time is still to come: the Tick at NextTick returns that.
func (s *Session) Outstanding(now time.Time) []conversation.Effect {
	now = conversation.Stamp(now)
	var all []conversation.Effect
	for _, t := range s.state.Tasks {
		if st := t.Step; st != nil && !st.Parked && !st.NotBefore.After(now) {
			all = append(all, s.askModel(t))
		}
		for _, c := range t.Calls {
			all = append(all, s.callEffects(t, c)...)
		}
	}
	if s.wantsSlot(now) {
		all = append(all, conversation.WantSlot{Task: s.taskID(s.runnableAt(now).N)})
	}
	return all
}

// Wants is true while an acquiring effect that Decide returned is still called
// for: a cancel, an end or another attempt may have come while its commit was
// in flight. What goes on for a while must be outstanding, texts aside; a thing
// that is only said must still be true.
func (s *Session) Wants(e conversation.Effect) bool {
	switch f := e.(type) {
	case conversation.AskModel:
	case conversation.RunTool:
		f.Args = ""
		e = f
	case conversation.AmendDelegation:
		f.Text = ""
		e = f
	case conversation.StartDelegation:
		f.Objective = ""
		e = f
	case conversation.WantSlot:
		return s.wantsSlot(s.clock())
	case conversation.RouteAnswer:
		_, c := s.call(f.Delegation)
		return c != nil
	case conversation.Report:
		return s.state.Final != nil && s.state.Final.Status != 0
	case conversation.ReportQuestion:
		_, q := s.question(f.Asked.Question)
		return q != nil
	case conversation.ReportQuestions:
		return len(s.state.Tasks) > 0
	case conversation.ReportQuestionClosed, conversation.Triage:
		return true
	}
	return slices.Contains(s.Outstanding(s.clock()), e)
}

func (s *Session) wantsSlot(now time.Time) bool {
	return s.key.Session.Depth() == 0 && s.state.Agent != conversation.Outside && s.running() == nil && s.runnableAt(now) != nil
}

// NextDue is when the session must be loaded if it is not: a time that has
// passed while anything is open that only a loaded session can bring to its
// end, else the next deadline; the zero time = nothing to do.
func (s *Session) NextDue() time.Time {
	if s.Busy() || s.key.Session.Depth() > 0 && len(s.state.Tasks) > 0 {
		if s.clock().Before(s.state.Last) {
			return s.clock()
		}
		return s.state.Last
	}
	return s.NextTick()
}

// NextTick is when a loaded session needs a Tick; the zero time = not at all.
// An answer in the past means at once.
func (s *Session) NextTick() time.Time {
	var next time.Time
	sooner := func(at time.Time) {
		if !at.IsZero() && (next.IsZero() || at.Before(next)) {
			next = at
		}
	}
	done := s.ticked // only a Tick does what has become due
	for _, t := range s.state.Tasks {
		if t.Step != nil && t.Step.NotBefore.After(done) && !t.Step.Parked {
			sooner(t.Step.NotBefore)
		}
		if t.Status == conversation.TaskQueued && t.NotBefore.After(done) {
			sooner(t.NotBefore)
		}
		for _, q := range t.Questions {
			if q.own() {
				sooner(q.Asked.ExpiresAt)
			}
		}
		if t.Cancelling != nil && len(t.Calls) > 0 {
			sooner(t.Cancelling.Until)
			continue
		}
		for _, c := range t.Calls {
			sooner(s.callDue(c))
		}
	}
	if s.policy.MaxWait > 0 && s.running() == nil {
		if t := s.runnableAt(s.clock()); t != nil {
			sooner(s.waitingSince(t).Add(s.policy.MaxWait))
		}
	}
	return next
}

// clock is the time that the session has last heard of. A Tick may bring no
// event, and yet what it made runnable is due from then on.
func (s *Session) clock() time.Time {
	if s.now.IsZero() {
		return s.state.Last
	}
	return s.now
}

// Head is the seq of the last applied event.
func (s *Session) Head() conversation.Seq { return s.state.Head }

// Key names the session.
func (s *Session) Key() conversation.SessionKey { return s.key }

// Policy is the session's effective policy.
func (s *Session) Policy() conversation.Policy { return *s.policy }

// Exists is false until the first event was applied.
func (s *Session) Exists() bool { return s.state.Head > 0 }

// Visible is true when user may see the session.
func (s *Session) Visible(user conversation.UserID) bool {
	return s.state.Owner == user || s.state.Access == conversation.AccessTenant
}

// NeedsLookup is true when only the store can say whether a client's message is
// new: the command then needs its Duplicate hint.
func (s *Session) NeedsLookup(author conversation.UserID, id conversation.ClientMsgID) bool {
	if !s.state.Forgotten || id == "" {
		return false
	}
	_, known := s.state.recall(author, id)
	return !known
}

// Busy is true while a step or a call is open, or a task wants a slot: the
// session must stay in memory. A task of an outside runtime has none of these.
func (s *Session) Busy() bool {
	for _, t := range s.state.Tasks {
		if t.Step != nil || t.Cancelling != nil {
			return true
		}
		for _, c := range t.Calls {
			if !c.Held {
				return true
			}
		}
	}
	return s.running() == nil && s.runnableAt(s.clock()) != nil
}

// HoldsSlot is true while a root task is RUNNING.
func (s *Session) HoldsSlot() bool {
	return s.key.Session.Depth() == 0 && s.state.Agent != conversation.Outside && s.running() != nil
}

// WouldQueue is true when a new task could not start at once even with a free
// slot: another one runs, or waits before it.
func (s *Session) WouldQueue() bool { return s.running() != nil || s.runnableAt(s.clock()) != nil }
