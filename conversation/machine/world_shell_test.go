package machine

import (
	"fmt"
	"maps"
	"reflect"
	"slices"

	"parley/conversation"
	"parley/conversation/transcript"
	"parley/conversation/wire"
)

// What the shell does for a session: its store, its effects, its mail.

// wake loads a passive session: replay, then Recovered, whose commit comes
// before anything else happens.
func (w *world) wake(n *node) {
	if n.live != nil {
		return
	}
	n.live = w.loaded(n)
	n.order = newOrderModel(n.durable)
	if len(n.durable) == 0 {
		return
	}
	n.slot = n.live.Standing().HoldsSlot
	w.decide(n, conversation.Recovered{})
	if len(n.batch) > 0 {
		if early := n.live.Durable(n.durable[len(n.durable)-1].Seq); len(early) > 0 {
			w.fatalf("%s: handed out before it was durable: %s", n.id, describeAll(early))
		}
	}
	w.commit(n)
	if n.live == nil {
		return
	}
	for _, e := range n.live.Outstanding(w.now) {
		started := true
		switch e := e.(type) {
		case conversation.AskModel:
			started = slices.Contains(n.models, e)
		case conversation.RunTool:
			started = slices.Contains(n.tools, e)
		}
		if !started {
			w.fatalf("%s: outstanding after the recovery, and never handed out: %s", n.id, describe(e))
		}
	}
}

// loaded is the session as a process finds it: from its log, or from a snapshot
// of any age and what the log has behind it. Both are the same.
func (w *world) loaded(n *node) *Session {
	if n.snapshot == nil || w.r.IntN(2) == 0 {
		return w.replayed(n.key(), n.durable)
	}
	s, err := Restore(n.key(), w.rules, n.snapshot)
	if err != nil {
		w.fatalf("%s: %v", n.id, err)
	}
	for _, e := range n.durable[n.kept:] {
		if err := s.Apply(e); err != nil {
			w.fatalf("%s: replay behind the snapshot at %d: %v", n.id, n.kept, err)
		}
	}
	if a, b := string(snapshot(w.t, s)), string(snapshot(w.t, w.replayed(n.key(), n.durable))); a != b {
		w.fatalf("%s: the session from the snapshot at %d differs\nsnapshot %s\nlog      %s", n.id, n.kept, a, b)
	}
	return s
}

func (w *world) replayed(key conversation.SessionKey, log []conversation.Event) *Session {
	s := New(key, w.rules)
	for _, e := range log {
		if err := s.Apply(e); err != nil {
			w.fatalf("replay: %v", err)
		}
	}
	return s
}

// commit makes the batch durable, or fails in one of the two ways.
func (w *world) commit(n *node) {
	if n.live == nil || len(n.batch) == 0 && n.live.held.Empty() {
		return
	}
	if !w.friendly && !w.calm && w.r.IntN(25) == 0 { // a failed commit: memory is thrown away
		if w.r.IntN(2) == 0 && len(n.batch) > 0 {
			w.store(n)
		}
		w.crash(n)
		return
	}
	if len(n.batch) > 0 {
		w.store(n)
	}
	// An answer that a crashed activation had asked for may have closed the step.
	n.models = slices.DeleteFunc(n.models, func(m conversation.AskModel) bool { return n.live.state.StepOf(m.Step, m.Attempt) == nil })
	for _, e := range n.live.Durable(n.live.Head()) {
		if !n.live.stillToDo(e) {
			w.fatalf("%s: handed out, but not to be done: %s", n.id, describe(e))
		}
		w.start(n, e)
	}
	if again := n.live.Durable(n.live.Head()); len(again) > 0 {
		w.fatalf("%s: handed out twice: %s", n.id, describeAll(again))
	}
	n.slot = n.live.Standing().HoldsSlot
	for call := range n.asking {
		if t, c := n.live.state.Call(call); c != nil && t.AskedBy(call) == nil {
			w.fatalf("%s: the tool of %s waits for an answer, and nobody is asked", n.id, call)
		}
	}
}

// store writes what is decided, and with it when the session must be in memory
// again. Read cursors and snapshots come without events.
func (w *world) store(n *node) {
	if len(n.batch) > 0 {
		n.durable = append(n.durable, w.throughWire(n)...)
		for _, row := range n.pending {
			n.rows[row.Task] = row
		}
	}
	n.batch, n.pending = nil, nil
	n.due, n.open = n.live.Standing().WakeAt, n.live.Summary().Open
	if w.r.IntN(8) == 0 {
		n.snapshot, n.kept = snapshot(w.t, n.live), len(n.durable)
	}
}

// throughWire is the batch as another process reads it: the same.
func (w *world) throughWire(n *node) []conversation.Event {
	record, err := wire.DecodeRecord(wire.AppendRecord(nil, conversation.Record{ID: "c", Events: n.batch}))
	if err != nil {
		w.fatalf("%s: %v", n.id, err)
	}
	if !reflect.DeepEqual(record.Events, n.batch) {
		for i := range n.batch {
			if a, b := n.batch[i], record.Events[i]; !reflect.DeepEqual(a, b) {
				w.fatalf("%s: an event is not read as it was written\nwritten %#v\nread    %#v", n.id, a, b)
			}
		}
	}
	for _, row := range n.pending {
		if read, err := wire.DecodeTaskRow(wire.AppendTaskRow(nil, row)); err != nil || !reflect.DeepEqual(read, row) {
			w.fatalf("%s: the row %+v is read as %+v: %v", n.id, row, read, err)
		}
	}
	return record.Events
}

// asking tells a decision of the model call that runs, and of what was shown of it.
func (w *world) asking(n *node, in *conversation.Inputs) {
	if len(n.models) == 0 {
		return
	}
	ask := n.models[0]
	in.Asking = conversation.Attempt{Step: ask.Step, N: ask.Attempt}
	for i := range w.r.IntN(3) {
		in.Shown = append(in.Shown, conversation.DraftView{Draft: conversation.Draft(ask.Step, ask.Attempt, i), Text: fmt.Sprintf("shown %d ", i)})
	}
}

// release does what must not wait for the commit.
func (w *world) release(n *node, e conversation.Effect) {
	switch e := e.(type) {
	case conversation.StopModel:
		n.models = slices.DeleteFunc(n.models, func(m conversation.AskModel) bool {
			if m.Step == e.Step && w.r.IntN(3) == 0 { // its answer may be under way already
				n.stale = append(n.stale, conversation.ModelAnswered{Step: m.Step, Attempt: m.Attempt})
			}
			if m.Step == e.Step {
				w.post(n.id, conversation.ModelStopped{Step: m.Step, Attempt: m.Attempt})
			}
			return m.Step == e.Step
		})
	case conversation.StopCall:
		w.stopCall(n, e.Call)
	case conversation.RefuseDelegation:
		w.post(n.below(e.Delegation), conversation.Cancel{By: conversation.ByParent})
	}
}

func (n *node) below(d conversation.CallID) conversation.SessionID {
	return n.id + "/" + conversation.SessionID(d)
}

func (w *world) stopCall(n *node, id conversation.CallID) {
	if n.stopped == nil {
		n.stopped = map[conversation.CallID]bool{}
	}
	n.stopped[id] = true
	delete(n.asking, id)
	if id[0] == 'd' {
		w.post(n.below(id), conversation.Cancel{By: conversation.ByParent})
		if sub := w.nodes[n.below(id)]; sub == nil || len(sub.durable)+len(sub.batch) == 0 {
			w.post(n.id, conversation.DelegationDone{Delegation: id, Status: conversation.CallCancelled, Summary: "cancelled"})
		}
		return
	}
	n.tools = slices.DeleteFunc(n.tools, func(c conversation.RunTool) bool { return c.Call == id })
	n.amends = slices.DeleteFunc(n.amends, func(c conversation.AmendDelegation) bool { return c.Call == id })
	w.post(n.id, conversation.ToolDone{Call: id, Status: conversation.CallCancelled, Result: "cancelled"})
}

// start does an acquiring effect whose commit is durable.
func (w *world) start(n *node, e conversation.Effect) {
	parent, call, _ := n.id.Parent()
	switch e := e.(type) {
	case conversation.AskModel:
		n.models = once(w, n, n.models, e)
		if len(n.models) > 1 {
			w.fatalf("two model calls in %s: %v", n.id, n.models)
		}
		w.request(n, e)
	case conversation.RunTool:
		w.startTool(n, e)
	case conversation.AmendDelegation:
		e.Text = "amended"
		n.amends = once(w, n, n.amends, e)
	case conversation.StartDelegation:
		w.startDelegation(n, e)
	case conversation.RouteAnswer:
		w.post(n.below(e.Delegation), conversation.Answer{Author: e.By, Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID("answer-" + e.Question), Question: e.Question, Text: e.Text})
	case conversation.AnswerTool:
		if !n.asking[e.Call] {
			w.fatalf("%s: the tool of %s is answered, and has not asked", n.id, e.Call)
		}
		delete(n.asking, e.Call)
	case conversation.Report:
		w.post(parent, conversation.DelegationDone{Delegation: call, Status: e.Status, Summary: "result of " + string(n.id)})
	case conversation.ReportQuestion:
		a := e.Asked
		w.post(parent, conversation.DelegationAsked{Delegation: call, Question: a.Question, Text: a.Text, Choices: a.Choices, ExpiresAt: a.ExpiresAt, Default: a.Default, Approval: a.Approval})
	case conversation.ReportQuestions:
		w.post(parent, conversation.DelegationQuestions{Delegation: call, Open: e.Open})
	case conversation.ReportQuestionClosed:
		w.post(parent, conversation.DelegationQuestionClosed{Delegation: call, Question: e.Question, Reason: e.Reason, Default: e.Default})
	case conversation.WantSlot:
		n.want = true
	}
}

// once adds what is handed out to what is in progress; it must not be there yet.
func once[E interface {
	comparable
	conversation.Effect
}](w *world, n *node, all []E, e E) []E {
	if slices.Contains(all, e) {
		w.fatalf("%s: handed out twice: %s", n.id, describe(e))
	}
	return append(all, e)
}

func (w *world) startTool(n *node, e conversation.RunTool) {
	e.Args = ""
	if n.stopped[e.Call] {
		w.fatalf("%s: the call %s is started after it was stopped", n.id, e.Call)
	}
	n.tools = once(w, n, n.tools, e)
	if e.Tool == "clock" {
		return // it may run again
	}
	key := string(n.id) + "/" + string(e.Call)
	if w.ran[key]++; w.ran[key] > 1 {
		w.fatalf("the tool call %s ran twice", key)
	}
}

func (w *world) startDelegation(n *node, e conversation.StartDelegation) {
	e.Objective = ""
	if e.Stop {
		w.stopCall(n, e.Call)
		return
	}
	if n.stopped[e.Call] {
		w.fatalf("%s: the delegation %s is started after it was stopped", n.id, e.Call)
	}
	n.tells = once(w, n, n.tells, e)
}

// post sends a message between sessions or from a child: it may get lost or
// come twice while the world is not friendly.
func (w *world) post(to conversation.SessionID, c conversation.Command) {
	lossy := !w.calm && !w.friendly
	if lossy && w.r.IntN(10) == 0 {
		return
	}
	w.box = append(w.box, mail{to, c})
	if lossy && w.r.IntN(10) == 0 {
		w.box = append(w.box, mail{to, c})
	}
}

func (w *world) deliver() {
	if len(w.box) == 0 {
		return
	}
	m := w.box[0]
	w.box = w.box[1:]
	target := w.nodes[m.to]
	if target == nil || len(target.durable)+len(target.batch) == 0 {
		if _, tell := m.c.(conversation.Tell); !tell {
			if _, isCancel := m.c.(conversation.Cancel); isCancel {
				if parent, call, ok := m.to.Parent(); ok {
					w.post(parent, conversation.DelegationDone{Delegation: call, Status: conversation.CallCancelled, Summary: "cancelled"})
				}
			}
			return
		}
	}
	d := w.give(m.to, m.c)
	if say, ok := m.c.(conversation.Say); ok && say.Via == conversation.ViaDelegation { // an amendment's outcome goes back
		parent, _, _ := m.to.Parent()
		status := conversation.CallOK
		if d.Err != nil {
			status = conversation.CallError
		}
		w.post(parent, conversation.ToolDone{Call: conversation.CallID(say.ClientMsgID), Status: status, Result: "amendment"})
	}
}

// tell says what a proxy says, and repeats it unless only what is new is wanted:
// tells, orders to stop, amendments.
func (w *world) tell(n *node, onlyNew bool) {
	if n.live == nil {
		return
	}
	post := func(call conversation.CallID, to conversation.SessionID, c conversation.Command) {
		if n.told[call] && onlyNew {
			return
		}
		if n.told == nil {
			n.told = map[conversation.CallID]bool{}
		}
		n.told[call] = true
		w.post(to, c)
	}
	for _, d := range n.tells {
		if n.live.stillToDo(d) {
			post(d.Call, d.Session, conversation.Tell{Agent: d.Agent, Owner: "u", Policy: n.live.Inherited(), Objective: "objective of " + string(d.Session)})
		}
	}
	for _, id := range slices.Sorted(maps.Keys(n.stopped)) { // the order to stop may have been lost
		if _, c := n.live.state.Call(id); c != nil && c.Delegation() {
			post("stop of "+id, n.below(id), conversation.Cancel{By: conversation.ByParent})
		}
	}
	for _, a := range n.amends {
		if n.live.stillToDo(a) {
			post(a.Call, n.below(a.Delegation), conversation.Say{Author: "u", Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID(a.Call), Text: a.Text})
		}
	}
}

// givenRequest is a request, and what it said when it was given.
type givenRequest struct {
	request conversation.Request
	text    string
}

// request shows a step's model what it is asked, now and then: from the one
// transcript that lives as long as the session is in memory.
func (w *world) request(n *node, ask conversation.AskModel) {
	if w.r.IntN(8) > 0 || n.live.Head() != conversation.Seq(len(n.durable)) {
		return
	}
	if n.shown == nil {
		n.shown = transcript.Of(n.key(), w.rules)
		if w.r.IntN(2) == 0 { // as a session that was idle reads it again
			n.shown = windowed(n.live, w.rules, n.durable)
		}
	}
	for _, e := range n.durable[n.shown.Head():] {
		n.shown.Add(e)
	}
	r := n.shown.RequestWith(n.key(), w.rules, n.live.Own(), ask)
	live := inWords(w.t, r)
	if rebuilt := inWords(w.t, windowed(n.live, w.rules, n.durable).RequestWith(n.key(), w.rules, n.live.Own(), ask)); live != rebuilt {
		w.fatalf("%s: the rebuilt transcript of step %d differs, compacted %+v, ended %+v\nlive    %s\nrebuilt %s", n.id, ask.Step, n.live.state.Compacted, n.live.state.Ended, live, rebuilt)
	}
	w.paired(n, ask, r.All())
	w.cleared(n, ask, r.All())
	n.given = append(n.given, givenRequest{r, live})
	if len(n.given) > 4 {
		w.givenIsUnchanged(n)
	}
}

// paired: every call that a model is shown has its result.
func (w *world) paired(n *node, ask conversation.AskModel, all []conversation.Entry) {
	for i, e := range all {
		if e.Role != conversation.RoleAssistant {
			continue
		}
		for _, item := range e.Items {
			if item.Kind != conversation.ItemCall {
				continue
			}
			ok := slices.ContainsFunc(all[i+1:], func(o conversation.Entry) bool { return o.Role == conversation.RoleTool && o.CallID == item.ID })
			if !ok {
				w.fatalf("%s: the call %s of step %d is shown without a result", n.id, item.ID, ask.Step)
			}
		}
		if e.Task == ask.Task {
			for _, o := range all[i+1:] {
				if o.Role == conversation.RoleTool && o.Task == ask.Task && o.Text == conversation.NoResult {
					w.fatalf("%s: step %d is shown a call of its own task without its result", n.id, ask.Step)
				}
			}
		}
	}
}

// cleared: a step is shown nothing from before the last clear but what is its own
// task's.
func (w *world) cleared(n *node, ask conversation.AskModel, all []conversation.Entry) {
	said := map[conversation.MessageID]bool{} // since the clear
	for _, e := range n.durable {
		switch b := e.Body.(type) {
		case conversation.ContextCleared:
			said = map[conversation.MessageID]bool{}
			w.met.see("cleared")
		case conversation.MessageAccepted:
			said[b.Message] = true
		}
	}
	for _, e := range all {
		if e.Message != "" && !said[e.Message] && e.Task != ask.Task && slices.ContainsFunc(n.durable, isClear) {
			w.fatalf("%s: step %d of %s is shown %s, which was said before the clear", n.id, ask.Step, ask.Task, e.Message)
		}
	}
}

func isClear(e conversation.Event) bool { return e.Body.Kind() == conversation.KindContextCleared }

// givenIsUnchanged: a request that was given is read by another goroutine, and is
// never written to.
func (w *world) givenIsUnchanged(n *node) {
	for _, g := range n.given {
		if now := inWords(w.t, g.request); now != g.text {
			w.fatalf("%s: the request of step %d has changed\ngiven %s\nnow   %s", n.id, g.request.Step, g.text, now)
		}
	}
	n.given = nil
}
