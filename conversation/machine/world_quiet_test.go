package machine

import (
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// A world that rests, and one that comes to its end.

// rest lets everything that is on its way arrive, and then asks of each session
// what it waits for. Nothing is lost meanwhile, no model and no tool answers, and
// no process starts again: what a session needs a restart for is a mistake.
func (w *world) rest() {
	before := w.friendly
	w.friendly = true
	w.setClockRight()
	for round := 0; ; round++ {
		busy := false
		for _, id := range slices.Clone(w.order) {
			n := w.nodes[id]
			if n.live == nil && (n.due.IsZero() || n.due.After(w.now)) {
				continue
			}
			w.wake(n)
			w.commit(n)
			if round < 4 {
				w.tell(n, w.calm)
			}
			if at := n.live.Standing().NextTick; !at.IsZero() && !at.After(w.now) {
				busy = true
				w.give(id, conversation.Tick{})
			}
		}
		if len(w.box) == 0 && !busy {
			break
		}
		for len(w.box) > 0 {
			w.deliver()
		}
		if round > 100 {
			w.fatalf("it does not rest")
		}
	}
	for _, id := range w.order {
		if n := w.nodes[id]; n.live != nil {
			w.reasons(n)
			w.questionsAgree(n)
		}
	}
	w.met.see("rested")
	w.friendly = before
}

// setClockRight ends what a clock that was set back puts off: the store looks for
// what is due by its own clock.
func (w *world) setClockRight() {
	if w.now.Before(w.latest) {
		w.now = w.latest
	}
}

// reasons: each task that has not ended waits for something that is under way, or
// for a time that the session is woken at.
func (w *world) reasons(n *node) {
	st := n.live.Standing()
	for _, t := range n.live.state.Tasks {
		why := ""
		switch {
		case t.Cancelling != nil:
			why = w.stopping(n, t)
		case t.Status == conversation.TaskQueued:
			why = w.queued(n, t)
		case t.Status == conversation.TaskAwaiting:
			if len(t.Questions) > 0 {
				why = "its user"
			}
		case n.live.state.Agent.Outside():
			why = "its runtime"
		default:
			why = w.running(n, t)
		}
		if why == "" {
			w.fatalf("%s: %s is %s and waits for nothing; %+v", n.id, n.live.state.TaskID(t.N), t.Status, st)
		}
	}
}

func (w *world) stopping(n *node, t *state.Task) string {
	if (t.Step != nil || len(t.Calls) > 0) && !n.live.Standing().NextTick.IsZero() {
		return "its calls to end"
	}
	return ""
}

func (w *world) queued(n *node, t *state.Task) string {
	switch {
	case n.live.state.Running() != nil:
		return "its turn"
	case t.NotBefore.After(w.now) && !n.live.Standing().NextTick.IsZero():
		return "its time"
	case n.want && n.live.Standing().WantsSlot:
		return "a slot"
	}
	return ""
}

func (w *world) running(n *node, t *state.Task) string {
	if st := t.Step; st != nil {
		asked := slices.ContainsFunc(n.models, func(m conversation.AskModel) bool { return m.Step == st.N && m.Attempt == st.Attempt })
		if asked {
			return "its model"
		}
		if st.NotBefore.After(w.now) && !n.live.Standing().NextTick.IsZero() {
			return "the next attempt"
		}
		return ""
	}
	for _, c := range t.Calls {
		if !w.underWay(n, c) {
			w.fatalf("%s: nobody works at the call %s", n.id, c.ID)
		}
	}
	if len(t.Calls) > 0 {
		return "its calls"
	}
	return ""
}

// underWay: a tool runs, a delegate has its objective, or the order to stop was
// given, after which the call's own time bounds it.
func (w *world) underWay(n *node, c *state.Call) bool {
	switch {
	case c.Held:
		return true
	case n.stopped[c.ID]:
		return !n.live.Standing().NextTick.IsZero()
	case c.Delegation():
		sub := w.nodes[n.below(c.ID)]
		return sub != nil && sub.live != nil && len(sub.live.state.Tasks) > 0
	case c.Tool == conversation.ToolAmend:
		return slices.ContainsFunc(n.amends, func(a conversation.AmendDelegation) bool { return a.Call == c.ID })
	default:
		return slices.ContainsFunc(n.tools, func(r conversation.RunTool) bool { return r.Call == c.ID })
	}
}

// questionsAgree: what a delegation asks is open here, and nothing else is.
func (w *world) questionsAgree(n *node) {
	for _, q := range n.live.View().Questions {
		if q.Asked.Delegation == "" {
			continue
		}
		sub := w.nodes[n.below(q.Asked.Delegation)]
		if sub == nil || sub.live == nil {
			w.fatalf("%s asks %s for a delegation that does not run", n.id, q.Asked.Question)
		}
		if _, open := sub.live.state.Question(state.Inner(q.Asked.Question)); open == nil {
			w.fatalf("%s asks %s, which %s does not", n.id, q.Asked.Question, sub.id)
		}
	}
	for _, t := range n.live.state.Tasks {
		for _, c := range t.Calls {
			if !c.Delegation() || t.Stops(n.live.maxSteps()) || n.stopped[c.ID] {
				continue
			}
			sub := w.nodes[n.below(c.ID)]
			if sub == nil || sub.live == nil {
				continue
			}
			for _, q := range sub.live.View().Questions {
				if t.Question(state.Outer(c.ID, q.Asked.Question)) == nil {
					w.fatalf("%s does not show %s of its delegation %s", n.id, q.Asked.Question, c.ID)
				}
			}
		}
	}
}

// finish is the friendly world: most times the process starts again, and then
// there are no failures, every question is answered, every call ends, time goes
// on. It is as stern as the shell: sessions are in memory only when the store says
// that they are due or somebody speaks to them, and tasks start only with a slot
// that was asked for. After the start nobody works or answers for a delegation
// that is not waited for: such a one must be told to stop.
func (w *world) finish() {
	w.friendly = true
	w.setClockRight()
	w.restarted = w.r.IntN(4) > 0
	for _, id := range w.order {
		if n := w.nodes[id]; n.live != nil {
			w.commit(n)
			if w.restarted {
				w.crash(n)
			}
		}
	}
	if w.restarted {
		w.loadDue()
	}
	for round := 0; w.finishRound(round); round++ {
		w.now = w.now.Add(time.Second)
		if round > 2000 {
			w.endless()
		}
	}
	for _, id := range w.order {
		w.givenIsUnchanged(w.nodes[id])
	}
}

// finishRound is one second of the friendly world; false when all has ended.
func (w *world) finishRound(round int) bool {
	busy := false
	for _, id := range slices.Clone(w.order) {
		n := w.nodes[id]
		if len(n.durable) == 0 {
			continue
		}
		busy = busy || n.open > 0
		visited := id == "s" && n.open > 0 && round%10 == 9 // its user looks whether there are questions
		if n.live == nil && (n.due.IsZero() || n.due.After(w.now)) && !visited {
			continue
		}
		w.wake(n)
		w.commit(n)
		w.work(n)
		busy = busy || len(n.live.View().Tasks) > 0
		if id == "s" {
			w.attend(n)
		} else {
			for _, q := range n.live.View().Questions { // a proxy repeats until it is heard
				w.start(n, conversation.ReportQuestion{Asked: q.Asked})
			}
		}
	}
	busy = busy || len(w.box) > 0
	for len(w.box) > 0 {
		w.deliver()
	}
	return busy
}

// work is what the shell of one session does in a second.
func (w *world) work(n *node) {
	if n.want {
		n.want = false
		w.give(n.id, conversation.SlotGranted{})
	}
	for len(n.models) > 0 && w.awaited(n.id) {
		w.model(n)
	}
	for len(n.tools) > 0 && w.awaited(n.id) {
		w.tool(n)
	}
	w.tell(n, false)
	if at := n.live.Standing().NextTick; !at.IsZero() && !at.After(w.now) {
		w.give(n.id, conversation.Tick{})
	}
}

// attend is what the user and an outside runtime do for the root session.
func (w *world) attend(root *node) {
	v := root.live.View()
	if v.Agent.Outside() && len(v.Tasks) > 0 {
		w.outside(v)
	}
	for _, q := range v.Questions {
		w.said++
		w.give("s", conversation.Answer{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("c", w.said)), Question: q.Asked.Question, Text: "yes"})
	}
}

func (w *world) endless() {
	for _, id := range w.order {
		n := w.nodes[id]
		w.t.Logf("%s: %d tasks, due %v, now %v", id, n.open, n.due, w.now)
		if n.live != nil {
			w.t.Logf("%s: %+v due %v tick %v outstanding %s", id, n.live.View().Tasks, n.live.Standing().WakeAt, n.live.Standing().NextTick, describeAll(n.live.Outstanding(w.now)))
		}
	}
	w.fatalf("it does not end")
}

// awaited is false for a sub-session whose parent has ended the delegation.
func (w *world) awaited(id conversation.SessionID) bool {
	parent, call, sub := id.Parent()
	return !sub || !w.restarted || !slices.ContainsFunc(w.nodes[parent].durable, func(e conversation.Event) bool {
		b, ended := e.Body.(conversation.DelegationFinished)
		return ended && b.Delegation == call
	})
}

// loadDue is the start of a process: what is due is loaded and says what it has
// to say. After that no session asks anything for a delegation that the
// delegation does not ask.
func (w *world) loadDue() {
	w.box = nil
	for _, id := range slices.Clone(w.order) {
		if n := w.nodes[id]; !n.due.IsZero() && !n.due.After(w.now) {
			w.wake(n)
			w.tell(n, false)
		}
	}
	for len(w.box) > 0 {
		w.deliver()
	}
	for _, id := range w.order {
		if n := w.nodes[id]; n.live != nil {
			w.questionsAgree(n)
		}
	}
}
