package machine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

var (
	worldSeed     = flag.Uint64("world.seed", 0, "run the property test of this seed alone, once")
	worldCommands = flag.Int("world.commands", 1_000_000, "random commands in all")
)

// TestWorld drives sessions with random commands, crashes between any two
// commits, failed commits, stale and doubled deliveries and clock jumps, then
// lets a friendly world bring everything to its end and looks at the logs:
// docs/MACHINE.md, section 10. N-01 N-02 N-07 N-08 D-26 M-16 M-18 M-33
func TestWorld(t *testing.T) {
	if *worldSeed != 0 {
		newWorld(t, *worldSeed).run()
		return
	}
	base := uint64(time.Now().UnixNano())
	total := *worldCommands
	if testing.Short() {
		total /= 20
	}
	done := 0
	for i := uint64(0); done < total; i++ {
		w := newWorld(t, base+i)
		w.run()
		done += w.commands
		if t.Failed() {
			return
		}
	}
	t.Logf("%d commands from seed %d", done, base)
}

// world is a root session and its sub-sessions, with everything that the shell
// would do for them, badly.
type world struct {
	t         *testing.T
	seed      uint64
	r         *rand.Rand
	rules     *policy.Rules
	now       time.Time
	latest    time.Time // that the clock has ever said
	nodes     map[conversation.SessionID]*node
	order     []conversation.SessionID
	commands  int
	friendly  bool
	restarted bool // the process has started again before the friendly end
	said      int
	cancels   []conversation.Cancel // with ids, as clients repeat them
	ran       map[string]int        // non-idempotent tool runs by session and call
}

// node is one session and its shell.
type node struct {
	id      conversation.SessionID
	durable []conversation.Event
	live    *Session             // nil = passive
	batch   []conversation.Event // decided, not durable
	waiting []mail               // to other sessions, of the batch
	models  []conversation.AskModel
	tools   []conversation.RunTool
	amends  []conversation.AmendDelegation
	tells   []conversation.StartDelegation
	slot    bool
	stale   []conversation.Command // delivered before; may come again
	answers []conversation.RouteAnswer
	stopped map[conversation.CallID]bool // told to stop in this activation
	want    bool                         // a slot is waited for
	due     time.Time                    // what the store has of it: when it must be in memory,
	open    int                          // and how many tasks have not ended
}

type mail struct {
	to conversation.SessionID
	c  conversation.Command
}

func newWorld(t *testing.T, seed uint64) *world {
	rules := testRules()
	r := rand.New(rand.NewPCG(seed, 7))
	rules.Policy.MaxSteps = 1 + r.IntN(8)
	rules.Policy.MaxAttempts = 1 + r.IntN(3)
	rules.Policy.MaxInterrupts = 1 + r.IntN(4)
	rules.Policy.Coverage = policy.Coverage(r.IntN(3))
	rules.Policy.EmptyAnswer = policy.EmptyAnswer(r.IntN(3))
	rules.Policy.ReplyOnBusy = policy.ReplyOnBusy(r.IntN(2))
	rules.Policy.PartsEnabled = r.IntN(4) > 0
	rules.Policy.MaxParallel = 1 + r.IntN(4)
	rules.Policy.MaxQueued = 5 + r.IntN(20)
	rules.Policy.MaxDepth = 1 + r.IntN(3)
	if r.IntN(4) == 0 {
		rules.Policy.MaxWait = time.Minute
	}
	w := &world{
		t: t, seed: seed, r: r, rules: rules, now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC),
		nodes: map[conversation.SessionID]*node{}, ran: map[string]int{},
	}
	w.latest = w.now
	agent := conversation.Coordinator
	if r.IntN(12) == 0 {
		agent = conversation.External
	} else if r.IntN(12) == 0 {
		agent = "mute"
	}
	w.add("s")
	w.give("s", conversation.Create{Owner: "u", Agent: agent})
	return w
}

func (w *world) add(id conversation.SessionID) *node {
	if n := w.nodes[id]; n != nil {
		return n
	}
	n := &node{id: id}
	w.nodes[id] = n
	w.order = append(w.order, id)
	return n
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	var log strings.Builder
	for _, id := range w.order {
		fmt.Fprintf(&log, "--- %s\n", id)
		for _, e := range w.nodes[id].durable {
			fmt.Fprintf(&log, "%3d %s %s %s\n", e.Seq, e.Body.Kind(), e.Task, body(e.Body))
		}
	}
	w.t.Fatalf("%s\nseed %d; again: go test ./conversation/machine -run TestWorld -world.seed=%d\n%s",
		fmt.Sprintf(format, args...), w.seed, w.seed, log.String())
}

func (w *world) run() {
	for range 30 + w.r.IntN(250) {
		w.act()
	}
	w.finish()
	w.judge()
}

// wake loads a passive session: replay, then Recovered, whose commit comes
// before anything else happens.
func (w *world) wake(n *node) {
	if n.live != nil {
		return
	}
	n.live = New(conversation.SessionKey{Tenant: "default", Session: n.id}, w.rules)
	for _, e := range n.durable {
		if err := n.live.Apply(e); err != nil {
			w.fatalf("replay: %v", err)
		}
	}
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

// give delivers a command to a session.
func (w *world) give(id conversation.SessionID, c conversation.Command) conversation.Decided {
	n := w.add(id)
	w.wake(n)
	if n.live == nil {
		return conversation.Decided{}
	}
	d := w.decide(n, c)
	if w.friendly || w.r.IntN(2) == 0 {
		w.commit(n)
	}
	return d
}

func (w *world) decide(n *node, c conversation.Command) conversation.Decided {
	w.commands++
	slot := n.slot || !w.friendly && w.r.IntN(4) > 0
	if _, granted := c.(conversation.SlotGranted); granted {
		slot = true
	}
	d := n.live.Decide(conversation.Inputs{At: w.now, Slot: slot}, c)
	if d.Err != nil && len(d.Events) > 0 {
		w.fatalf("%s was refused with events", c.Name())
	}
	n.batch = append(n.batch, d.Events...)
	w.soon(n, d.Events)
	for _, e := range d.Release {
		w.release(n, e)
	}
	w.invariants(n)
	return d
}

// release does what must not wait for the commit.
func (w *world) release(n *node, e conversation.Effect) {
	switch e := e.(type) {
	case conversation.StopModel:
		n.models = slices.DeleteFunc(n.models, func(m conversation.AskModel) bool {
			if m.Step == e.Step && w.r.IntN(3) == 0 { // its answer may be under way already
				n.stale = append(n.stale, conversation.ModelAnswered{Step: m.Step, Attempt: m.Attempt})
			}
			return m.Step == e.Step
		})
	case conversation.StopCall:
		w.stopCall(n, e.Call)
	case conversation.RefuseDelegation:
		w.post(n.id+"/"+conversation.SessionID(e.Delegation), conversation.Cancel{By: conversation.ByParent})
	}
}

// soon: what is to happen later is reckoned from the clock as it is now, even if
// it has been set back.
func (w *world) soon(n *node, events []conversation.Event) {
	for _, e := range events {
		switch b := e.Body.(type) {
		case conversation.StepStarted:
			if b.Cause == conversation.CauseError && b.NotBefore.After(w.now.Add(w.rules.Policy.BackoffMax)) {
				w.fatalf("%s: at %v the retry %d waits until %v", n.id, w.now, e.Seq, b.NotBefore)
			}
		case conversation.ToolStarted:
			if b.Deadline.After(w.now.Add(w.rules.Policy.ToolTimeout)) {
				w.fatalf("%s: at %v the call %s may take until %v", n.id, w.now, b.Call, b.Deadline)
			}
		case conversation.MessageAccepted:
			if b.NotBefore.After(w.now.Add(w.rules.Policy.CollectWindow)) {
				w.fatalf("%s: at %v the message %s waits until %v", n.id, w.now, b.Message, b.NotBefore)
			}
		}
	}
}

func (w *world) stopCall(n *node, id conversation.CallID) {
	if n.stopped == nil {
		n.stopped = map[conversation.CallID]bool{}
	}
	n.stopped[id] = true
	if id[0] == 'd' {
		w.post(n.id+"/"+conversation.SessionID(id), conversation.Cancel{By: conversation.ByParent})
		if sub := w.nodes[n.id+"/"+conversation.SessionID(id)]; sub == nil || len(sub.durable)+len(sub.batch) == 0 {
			w.post(n.id, conversation.DelegationDone{Delegation: id, Status: conversation.CallCancelled, Summary: "cancelled"})
		}
		return
	}
	n.tools = slices.DeleteFunc(n.tools, func(c conversation.RunTool) bool { return c.Call == id })
	n.amends = slices.DeleteFunc(n.amends, func(c conversation.AmendDelegation) bool { return c.Call == id })
	w.post(n.id, conversation.ToolDone{Call: id, Status: conversation.CallCancelled, Result: "cancelled"})
}

// post sends a message between sessions or from a child: it may get lost or
// come twice while the world is not friendly.
func (w *world) post(to conversation.SessionID, c conversation.Command) {
	n := w.add("mail")
	if !w.friendly && w.r.IntN(10) == 0 {
		return
	}
	n.waiting = append(n.waiting, mail{to, c})
	if !w.friendly && w.r.IntN(10) == 0 {
		n.waiting = append(n.waiting, mail{to, c})
	}
}

// commit makes the batch durable, or fails in one of the two ways.
func (w *world) commit(n *node) {
	if n.live == nil || len(n.batch) == 0 && len(n.live.held) == 0 {
		return
	}
	if !w.friendly && w.r.IntN(25) == 0 { // a failed commit: memory is thrown away
		if w.r.IntN(2) == 0 && len(n.batch) > 0 {
			w.store(n)
		}
		w.crash(n)
		return
	}
	if len(n.batch) > 0 {
		w.store(n)
	}
	n.batch = nil
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
}

// store writes what is decided, and with it when the session must be in memory
// again. Read cursors and snapshots come without events.
func (w *world) store(n *node) {
	n.durable = append(n.durable, n.batch...)
	n.due, n.open = n.live.Standing().WakeAt, n.live.Summary().Open
}

// crash loses a session's memory and everything that ran for it.
func (w *world) crash(n *node) {
	for _, m := range n.models {
		n.stale = append(n.stale, conversation.ModelAnswered{Step: m.Step, Attempt: m.Attempt})
	}
	n.live, n.batch, n.models, n.tools, n.amends, n.tells, n.answers = nil, nil, nil, nil, nil, nil, nil
	n.stopped, n.want = nil, false
}

// start does an acquiring effect whose commit is durable.
func (w *world) start(n *node, e conversation.Effect) {
	switch e := e.(type) {
	case conversation.AskModel:
		if slices.Contains(n.models, e) {
			w.fatalf("%s: handed out twice: %s", n.id, describe(e))
		}
		n.models = append(n.models, e)
		if len(n.models) > 1 {
			w.fatalf("two model calls in %s: %v", n.id, n.models)
		}
		w.paired(n, e)
	case conversation.RunTool:
		e.Args = ""
		if slices.Contains(n.tools, e) {
			w.fatalf("%s: handed out twice: %s", n.id, describe(e))
		}
		if n.stopped[e.Call] {
			w.fatalf("%s: the call %s is started after it was stopped", n.id, e.Call)
		}
		n.tools = append(n.tools, e)
		if e.Tool != "clock" {
			key := string(n.id) + "/" + string(e.Call)
			if w.ran[key]++; w.ran[key] > 1 {
				w.fatalf("the tool call %s ran twice", key)
			}
		}
	case conversation.AmendDelegation:
		e.Text = "amended"
		if slices.Contains(n.amends, e) {
			w.fatalf("%s: handed out twice: %s", n.id, describe(e))
		}
		n.amends = append(n.amends, e)
	case conversation.StartDelegation:
		e.Objective = ""
		if e.Stop {
			w.stopCall(n, e.Call)
			return
		}
		if n.stopped[e.Call] {
			w.fatalf("%s: the delegation %s is started after it was stopped", n.id, e.Call)
		}
		if slices.Contains(n.tells, e) {
			w.fatalf("%s: handed out twice: %s", n.id, describe(e))
		}
		n.tells = append(n.tells, e)
	case conversation.RouteAnswer:
		w.post(n.id+"/"+conversation.SessionID(e.Delegation), conversation.Answer{Author: e.By, Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID("answer-" + e.Question), Question: e.Question, Text: e.Text})
	case conversation.Report:
		parent, call, _ := n.id.Parent()
		w.post(parent, conversation.DelegationDone{Delegation: call, Status: e.Status, Summary: "result of " + string(n.id)})
	case conversation.ReportQuestion:
		parent, call, _ := n.id.Parent()
		a := e.Asked
		w.post(parent, conversation.DelegationAsked{Delegation: call, Question: a.Question, Text: a.Text, Choices: a.Choices, ExpiresAt: a.ExpiresAt, Default: a.Default, Approval: a.Approval})
	case conversation.ReportQuestions:
		parent, call, _ := n.id.Parent()
		w.post(parent, conversation.DelegationQuestions{Delegation: call, Open: e.Open})
	case conversation.ReportQuestionClosed:
		parent, call, _ := n.id.Parent()
		w.post(parent, conversation.DelegationQuestionClosed{Delegation: call, Question: e.Question, Reason: e.Reason, Default: e.Default})
	case conversation.WantSlot:
		n.want = true
	}
}

// paired: every call that a model is shown has its result.
func (w *world) paired(n *node, ask conversation.AskModel) {
	if w.r.IntN(8) > 0 {
		return
	}
	tr := transcript.New()
	for _, e := range n.durable {
		tr.Add(e)
	}
	r := tr.Request(conversation.SessionKey{Tenant: "default", Session: n.id}, w.rules, ask)
	all := r.All()
	if n.live.Head() == conversation.Seq(len(n.durable)) { // a transcript of what is left of the log shows the same
		live, rebuilt := fmt.Sprintf("%+v", r), fmt.Sprintf("%+v", windowed(n.live, w.rules, n.durable).Request(n.live.Key(), w.rules, ask))
		if live != rebuilt {
			w.fatalf("%s: the rebuilt transcript of step %d differs, compacted %+v, ended %+v\nlive    %s\nrebuilt %s", n.id, ask.Step, n.live.state.Compacted, n.live.state.Ended, live, rebuilt)
		}
	}
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

// act does one random thing.
func (w *world) act() {
	n := w.nodes[w.order[w.r.IntN(len(w.order))]]
	if n.id == "mail" {
		w.deliver()
		return
	}
	switch w.r.IntN(20) {
	case 0, 1, 2, 3:
		w.user()
	case 4, 5, 6, 7:
		w.model(n)
	case 8, 9:
		w.tool(n)
	case 10, 11:
		w.commit(n)
	case 12:
		w.deliver()
	case 13:
		w.tell(n)
	case 14:
		w.jump()
		if n.live != nil {
			w.give(n.id, conversation.Tick{})
		}
	case 15:
		if n.live != nil && n.slot || w.r.IntN(2) == 0 {
			w.give(n.id, conversation.SlotGranted{})
		}
	case 16:
		if w.r.IntN(3) == 0 {
			w.crash(n)
		} else if len(n.durable) > 0 {
			w.give(n.id, conversation.Compacted{Upto: conversation.Seq(w.r.IntN(len(n.durable) + 1)), Summary: fmt.Sprintf("summary at %d", len(n.durable))})
		}
	case 17:
		if n.live != nil && len(n.batch) == 0 && len(n.durable) > 0 && w.r.IntN(2) == 0 {
			w.store(n)
			return
		}
		if len(n.stale) > 0 && len(n.durable) > 0 {
			w.give(n.id, n.stale[w.r.IntN(len(n.stale))])
		}
	case 18:
		if n.live != nil && w.r.IntN(4) == 0 {
			w.commit(n)
			if n.live != nil {
				w.decide(n, conversation.Drain{})
				w.deliver() // what others say meanwhile
				w.commit(n)
				w.crash(n)
			}
		}
	default:
		w.deliver()
	}
}

func (w *world) jump() {
	switch w.r.IntN(6) {
	case 0:
		back := time.Duration(w.r.IntN(5000)) * time.Millisecond
		if w.r.IntN(8) == 0 { // it was wrong, and is set right
			back = time.Duration(w.r.IntN(3600)) * time.Second
		}
		w.now = w.now.Add(-back)
	case 1:
		w.now = w.now.Add(time.Duration(w.r.IntN(900)) * time.Second)
	default:
		w.now = w.now.Add(time.Duration(w.r.IntN(4000)) * time.Millisecond)
	}
	if w.now.After(w.latest) {
		w.latest = w.now
	}
}

func (w *world) deliver() {
	box := w.add("mail")
	if len(box.waiting) == 0 {
		return
	}
	m := box.waiting[0]
	box.waiting = box.waiting[1:]
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

// tell repeats what a proxy repeats: tells and amendments.
func (w *world) tell(n *node) {
	for _, d := range n.tells {
		if n.live == nil || !n.live.stillToDo(d) {
			continue
		}
		w.post(d.Session, conversation.Tell{Agent: d.Agent, Owner: "u", Objective: "objective of " + string(d.Session)})
	}
	for _, a := range n.amends {
		if n.live == nil || !n.live.stillToDo(a) {
			continue
		}
		w.post(n.id+"/"+conversation.SessionID(a.Delegation), conversation.Say{Author: "u", Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID(a.Call), Text: a.Text})
	}
}

// user does what clients do, to the root session.
func (w *world) user() {
	root := w.nodes["s"]
	w.wake(root)
	if root.live == nil {
		return
	}
	v := root.live.View()
	w.said++
	id := conversation.ClientMsgID(fmt.Sprint("c", w.said))
	text := fmt.Sprintf("message number %d about topic%d", w.said, w.r.IntN(5))
	any := func(n int) int { return w.r.IntN(n) }
	someMessage := func() conversation.MessageID {
		if len(v.Inbox) > 0 && any(8) > 0 {
			return v.Inbox[any(len(v.Inbox))].Message
		}
		return conversation.MessageID(fmt.Sprintf("m%d-s", 1+any(10)))
	}
	switch any(14) {
	case 0:
		w.give("s", conversation.Edit{By: "u", Message: someMessage(), Text: "edited " + text})
	case 1:
		w.give("s", conversation.Withdraw{By: "u", Message: someMessage()})
	case 2:
		m := conversation.Move{By: "u", Message: someMessage()}
		if any(2) == 0 {
			m.Before = someMessage()
		}
		w.give("s", m)
	case 3:
		c := conversation.Cancel{By: conversation.ByUser, Drop: any(3) == 0}
		if len(v.Tasks) > 0 && any(2) == 0 {
			c.Task = v.Tasks[any(len(v.Tasks))].Task
		}
		if any(2) == 0 {
			c.Author, c.ClientMsgID = "u", id
		}
		if len(w.cancels) > 0 && any(3) == 0 {
			c = w.cancels[any(len(w.cancels))] // its client has not seen the answer
		}
		if d := w.give("s", c); d.Err == nil && c.ClientMsgID != "" && !d.Receipt.Duplicate {
			w.cancels = append(w.cancels, c)
		}
	case 4, 5:
		if len(v.Questions) > 0 {
			q := v.Questions[any(len(v.Questions))].Asked
			answers := []string{"yes", "no", "red", `{"path":"/x"}`}
			w.give("s", conversation.Answer{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: id, Question: q.Question, Text: answers[any(len(answers))]})
		}
	case 6:
		if len(v.Tasks) > 0 {
			w.give("s", conversation.Reply{Author: "u", Via: conversation.ViaHTTP, ClientMsgID: id, Task: v.Tasks[any(len(v.Tasks))].Task, Text: []string{"yes", "no", "blue"}[any(3)]})
		}
	case 7:
		if any(4) == 0 {
			part := conversation.AddPart{Author: "r", ClientMsgID: id, Text: "a plain " + text, Final: any(4) == 0}
			for range 1 + any(2) {
				w.give("s", part)
			}
			return
		}
		if v.Agent == conversation.External && len(v.Tasks) > 0 {
			w.outside(v)
			return
		}
		fallthrough
	default:
		mode := conversation.ModeDefault
		if any(3) == 0 {
			mode = conversation.Mode(1 + any(5))
		}
		d := w.give("s", conversation.Say{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: id, Text: text, Mode: mode})
		if d.Err == nil && any(5) == 0 && root.live != nil {
			again := w.give("s", conversation.Say{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: id, Text: text, Mode: mode})
			if root.live != nil && again.Err == nil && d.Receipt.Message != "" && again.Receipt.Duplicate && again.Receipt.Message != d.Receipt.Message {
				w.fatalf("the same message got two ids: %s and %s", d.Receipt.Message, again.Receipt.Message)
			}
		}
	}
}

func (w *world) outside(v conversation.View) {
	t := v.Tasks[0]
	n := w.nodes["s"]
	next := conversation.PartIndex(0)
	for _, e := range append(slices.Clone(n.durable), n.batch...) {
		switch b := e.Body.(type) {
		case conversation.PartialResponse:
			if b.Source == conversation.SourceID(t.Trigger) {
				next++
			}
		case conversation.Response:
			if b.Source == conversation.SourceID(t.Trigger) {
				next++
			}
		}
	}
	w.give("s", conversation.AddPart{Author: "r", Source: string(t.Trigger), Index: next, Text: "outside part", Final: w.friendly || w.r.IntN(3) == 0})
}

// model lets a model call end.
func (w *world) model(n *node) {
	if len(n.models) == 0 || n.live == nil {
		return
	}
	ask := n.models[0]
	n.models = n.models[1:]
	if !w.friendly && w.r.IntN(8) == 0 {
		w.give(n.id, conversation.ModelFailed{
			Step: ask.Step, Attempt: ask.Attempt, Failure: conversation.Failure{Code: conversation.Timeout, Message: "slow"}, Permanent: w.r.IntN(6) == 0, Jitter: w.r.Float64(),
		})
		return
	}
	c := conversation.ModelAnswered{Step: ask.Step, Attempt: ask.Attempt, Model: "test", Answer: conversation.ModelAnswer{Items: w.answer(n, ask)}}
	n.stale = append(n.stale, c)
	w.give(n.id, c)
}

// answer invents an answer: anything from silence to several calls.
func (w *world) answer(n *node, ask conversation.AskModel) []conversation.Item {
	if w.friendly {
		return []conversation.Item{{Kind: conversation.ItemText, Text: "final answer about everything"}}
	}
	var items []conversation.Item
	for i := range w.r.IntN(4) {
		id := fmt.Sprintf("k%d.%d.%d", ask.Step, ask.Attempt, i)
		call := func(tool, format string, args ...any) {
			items = append(items, conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: tool, Args: fmt.Sprintf(format, args...)})
		}
		k := 1 + w.r.IntN(3)
		switch w.r.IntN(17) {
		case 0:
			call(conversation.ToolRespond, `{"message":"part about topic%d","inReplyTo":%d}`, k, k)
		case 1:
			call(conversation.ToolRespond, `{"message":"to nobody"}`)
		case 2:
			call(conversation.ToolAsk, `{"question":"which one?","blocking":%v}`, w.r.IntN(2) == 0)
		case 3:
			call(conversation.ToolAsk, `{"question":"soon?","blocking":false,"expiresIn":"3s"%s}`, []string{"", `,"default":"never mind"`}[w.r.IntN(2)])
		case 4, 5:
			call(conversation.ToolDelegate, `{"agent":%q,"objective":"do it"%s}`, []string{"developer", "researcher", "nobody"}[w.r.IntN(3)], []string{"", `,"deadline":"5s"`}[w.r.IntN(2)])
		case 6:
			call(conversation.ToolDelegateParallel, `{"jobs":[{"agent":"developer","objective":"a"},{"agent":"researcher","objective":"b"}]}`)
		case 7:
			call(conversation.ToolAmend, `{"delegation":"d%d","text":"change it"}`, k)
		case 8, 9:
			call(conversation.ToolCover, `{"messageId":%d,"as":%q}`, k, []string{"amendment", "duplicate", "dismissed", "answer", "wrong"}[w.r.IntN(5)])
		case 10:
			call("clock", `{}`)
		case 11:
			call("mail", `{"to":"max"}`)
		case 12:
			call("rm", `{"path":"/tmp/x"}`)
		case 13:
			call("rm", `{}`)
		case 14:
			items = append(items, conversation.Item{Kind: conversation.ItemText, Text: []string{"", "  ", "NO_REPLY", "@u NO"}[w.r.IntN(4)]})
		default:
			items = append(items, conversation.Item{Kind: conversation.ItemText, Text: fmt.Sprintf("text about topic%d", w.r.IntN(5))})
		}
	}
	return items
}

// tool lets a tool call end.
func (w *world) tool(n *node) {
	if len(n.tools) == 0 || n.live == nil {
		return
	}
	i := w.r.IntN(len(n.tools))
	c := n.tools[i]
	n.tools = slices.Delete(n.tools, i, i+1)
	done := conversation.ToolDone{Call: c.Call, Status: []conversation.CallStatus{conversation.CallOK, conversation.CallError, conversation.CallTimeout}[w.r.IntN(3)], Result: "tool result"}
	n.stale = append(n.stale, done)
	w.give(n.id, done)
}

// invariants hold after every single command.
func (w *world) invariants(n *node) {
	running, steps := 0, 0
	for _, t := range n.live.state.Tasks {
		if t.Status == conversation.TaskRunning {
			running++
		}
		if t.Step != nil {
			steps++
			if n.live.drained && !t.Step.Parked && !t.Step.NotBefore.After(w.now) {
				w.fatalf("%s: step %d is open after a drain", n.id, t.Step.N)
			}
			if t.Status != conversation.TaskRunning {
				w.fatalf("%s: %s has an open step and is %s", n.id, n.live.state.TaskID(t.N), t.Status)
			}
		}
		if t.Status.Ended() {
			w.fatalf("%s: an ended task is still there", n.id)
		}
		if wrong := wronglyAwaiting(n.live, t); wrong != "" {
			w.fatalf("%s: %s: %s", n.id, n.live.state.TaskID(t.N), wrong)
		}
	}
	if running > 1 || steps > 1 {
		w.fatalf("%s: %d tasks RUNNING, %d steps open", n.id, running, steps)
	}
	if w.r.IntN(16) > 0 {
		return
	}
	again := New(n.live.Key(), w.rules)
	for _, e := range append(slices.Clone(n.durable), n.batch...) {
		if err := again.Apply(e); err != nil {
			w.fatalf("replay: %v", err)
		}
	}
	if a, b := string(snapshot(w.t, n.live)), string(snapshot(w.t, again)); a != b {
		w.fatalf("%s: replayed state differs\nlive   %s\nreplay %s", n.id, a, b)
	}
	if a, b := describeAll(n.live.Outstanding(w.now)), describeAll(again.Outstanding(w.now)); a != b {
		w.fatalf("%s: Outstanding(replayed) differs\nlive   %s\nreplay %s", n.id, a, b)
	}
	for _, e := range n.live.Outstanding(w.now) {
		if !n.live.stillToDo(e) {
			w.fatalf("%s: outstanding, but not wanted: %s", n.id, describe(e))
		}
		if !goesOn(e) {
			w.fatalf("%s: outstanding, and a recovery would hand it out twice: %s", n.id, describe(e))
		}
	}
}

func describeAll(effects []conversation.Effect) string {
	var all []string
	for _, e := range effects {
		all = append(all, describe(e))
	}
	return strings.Join(all, "; ")
}

// finish is the friendly world: most times the process starts again, and then
// there are no failures, every question is answered, every call ends, time goes
// on. It is as stern as the shell: sessions are in memory only when the store says
// that they are due or somebody speaks to them, and tasks start only with a slot
// that was asked for. After the start nobody works or answers for a delegation
// that is not waited for: such a one must be told to stop.
func (w *world) finish() {
	w.friendly = true
	if w.now.Before(w.latest) {
		w.now = w.latest
	}
	w.restarted = w.r.IntN(4) > 0
	for _, id := range w.order {
		if n := w.nodes[id]; n.id != "mail" && n.live != nil {
			w.commit(n)
			if w.restarted {
				w.crash(n)
			}
		}
	}
	if w.restarted {
		w.loadDue()
	}
	for round := 0; ; round++ {
		busy := false
		for _, id := range slices.Clone(w.order) {
			n := w.nodes[id]
			if id == "mail" || len(n.durable) == 0 {
				continue
			}
			busy = busy || n.open > 0
			visited := id == "s" && n.open > 0 && round%10 == 9 // its user looks whether there are questions
			if n.live == nil && (n.due.IsZero() || n.due.After(w.now)) && !visited {
				continue
			}
			w.wake(n)
			w.commit(n)
			if n.want {
				n.want = false
				w.give(id, conversation.SlotGranted{})
			}
			for len(n.models) > 0 && w.awaited(id) {
				w.model(n)
			}
			for len(n.tools) > 0 && w.awaited(id) {
				w.tool(n)
			}
			w.tell(n)
			if at := n.live.Standing().NextTick; !at.IsZero() && !at.After(w.now) {
				w.give(id, conversation.Tick{})
			}
			v := n.live.View()
			busy = busy || len(v.Tasks) > 0
			if id != "s" {
				for _, q := range v.Questions { // a proxy repeats until it is heard
					w.start(n, conversation.ReportQuestion{Asked: q.Asked})
				}
				continue
			}
			if v.Agent == conversation.External && len(v.Tasks) > 0 {
				w.outside(v)
			}
			for _, q := range v.Questions {
				w.said++
				w.give("s", conversation.Answer{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: conversation.ClientMsgID(fmt.Sprint("c", w.said)), Question: q.Asked.Question, Text: "yes"})
			}
		}
		if box := w.add("mail"); len(box.waiting) > 0 {
			busy = true
			for len(box.waiting) > 0 {
				w.deliver()
			}
		}
		if !busy {
			return
		}
		w.now = w.now.Add(time.Second)
		if round > 2000 {
			for _, id := range w.order {
				n := w.nodes[id]
				w.t.Logf("%s: %d tasks, due %v, now %v", id, n.open, n.due, w.now)
				if n.live != nil {
					w.t.Logf("%s: %+v due %v tick %v outstanding %s", id, n.live.View().Tasks, n.live.Standing().WakeAt, n.live.Standing().NextTick, describeAll(n.live.Outstanding(w.now)))
				}
			}
			w.fatalf("it does not end")
		}
	}
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
	box := w.add("mail")
	box.waiting = nil
	for _, id := range slices.Clone(w.order) {
		if n := w.nodes[id]; !n.due.IsZero() && !n.due.After(w.now) {
			w.wake(n)
			w.tell(n)
		}
	}
	for len(box.waiting) > 0 {
		w.deliver()
	}
	for _, id := range w.order {
		n := w.nodes[id]
		if n.live == nil {
			continue
		}
		for _, q := range n.live.View().Questions {
			if q.Asked.Delegation == "" {
				continue
			}
			sub := w.nodes[id+"/"+conversation.SessionID(q.Asked.Delegation)]
			if sub == nil || sub.live == nil {
				w.fatalf("%s asks %s for a delegation that does not run", id, q.Asked.Question)
			}
			if _, open := sub.live.state.Question(state.Inner(q.Asked.Question)); open == nil {
				w.fatalf("%s asks %s, which %s does not", id, q.Asked.Question, sub.id)
			}
		}
	}
}

// judge reads the logs of a world that has come to its end.
func (w *world) judge() {
	for _, id := range w.order {
		n := w.nodes[id]
		if id == "mail" {
			continue
		}
		if n.live != nil && (n.live.Standing().HoldsSlot || n.live.Standing().Busy) {
			w.fatalf("%s: still busy at the end", id)
		}
		w.judgeLog(n)
	}
}

func (w *world) judgeLog(n *node) {
	type taskLog struct {
		trigger   conversation.MessageID
		status    conversation.TaskStatus
		responses int
		shown     bool
		steps     int  // since the one that last read a message or an answer from outside
		answered  bool // a question of its own, since its last step
		openStep  bool
	}
	accepted, resolved, read := map[conversation.MessageID]bool{}, map[conversation.MessageID]conversation.Resolution{}, map[conversation.MessageID]bool{}
	questions, calls := map[conversation.QuestionID]conversation.TaskID{}, map[conversation.CallID]conversation.TaskID{}
	tasks := map[conversation.TaskID]*taskLog{}
	parts := map[conversation.SourceID]conversation.PartIndex{}
	clients := map[conversation.Key]bool{}
	var last time.Time
	for i, e := range n.durable {
		if e.Seq != conversation.Seq(i+1) {
			w.fatalf("%s: seq %d at place %d", n.id, e.Seq, i+1)
		}
		if e.At.Before(last) {
			w.fatalf("%s: time goes back at %d", n.id, e.Seq)
		}
		last = e.At
		for _, k := range conversation.Keys([]conversation.Event{e}) {
			if clients[k.Key] {
				w.fatalf("%s: %s twice", n.id, k.Key)
			}
			clients[k.Key] = true
		}
		tl := tasks[e.Task]
		if tl != nil && tl.status.Ended() {
			w.fatalf("%s: event %d belongs to a task that has ended", n.id, e.Seq)
		}
		part := func(p conversation.Part) {
			if p.Source == "" {
				return
			}
			if p.Index != parts[p.Source] {
				w.fatalf("%s: part %d of %s comes after %d parts", n.id, p.Index, p.Source, parts[p.Source])
			}
			parts[p.Source]++
		}
		switch b := e.Body.(type) {
		case conversation.MessageAccepted:
			accepted[b.Message] = true
			if (b.Disposition == conversation.Started || b.Disposition == conversation.Queued) && !b.Deferred {
				tasks[e.Task] = &taskLog{trigger: b.Message, status: conversation.TaskQueued}
			}
		case conversation.MessageResolved:
			if !accepted[b.Message] {
				w.fatalf("%s: %s resolved before it was accepted", n.id, b.Message)
			}
			if how, twice := resolved[b.Message]; twice {
				w.fatalf("%s: %s resolved twice: %s and %s", n.id, b.Message, how, b.How)
			}
			if b.How == conversation.ResolvedAnswered && !read[b.Message] && !w.isOutside(n) {
				w.fatalf("%s: %s answered unread", n.id, b.Message)
			}
			resolved[b.Message] = b.How
		case conversation.TaskStatusChanged:
			if b.Old == 0 {
				tasks[e.Task] = &taskLog{trigger: b.Trigger, status: conversation.TaskQueued}
				break
			}
			if tl.status != b.Old {
				w.fatalf("%s: task %s goes from %s, but is %s", n.id, e.Task, b.Old, tl.status)
			}
			tl.status = b.New
			if !b.New.Ended() {
				break
			}
			for q, t := range questions {
				if t == e.Task {
					w.fatalf("%s: task %s ended with question %s open", n.id, e.Task, q)
				}
			}
			for c, t := range calls {
				if t == e.Task {
					w.fatalf("%s: task %s ended with call %s open", n.id, e.Task, c)
				}
			}
			want := 0
			if b.New == conversation.TaskError || b.New == conversation.TaskComplete && tl.shown {
				want = 1
			}
			if tl.responses != want {
				w.fatalf("%s: task %s ended %s with %d responses instead of %d", n.id, e.Task, b.New, tl.responses, want)
			}
			if tl.openStep {
				w.fatalf("%s: task %s ended with an open step", n.id, e.Task)
			}
		case conversation.StepStarted:
			if b.Attempt == 1 {
				if tl.steps++; len(b.Read) > 0 || tl.answered {
					tl.steps = 1
				}
				tl.answered = false
				if tl.openStep {
					w.fatalf("%s: two open steps in %s", n.id, e.Task)
				}
				if tl.steps > w.rules.Policy.MaxSteps+1 {
					w.fatalf("%s: %d steps in %s", n.id, tl.steps, e.Task)
				}
			}
			tl.openStep = true
			for _, m := range b.Read {
				read[m] = true
			}
		case conversation.StepFinished:
			tl.openStep = false
		case conversation.PartialResponse:
			part(b.Part)
			if tl != nil {
				tl.shown = true
			}
		case conversation.Response:
			if tl != nil {
				tl.responses++
				tl.shown = true
			}
			if !b.Promoted {
				part(b.Part)
			}
		case conversation.Asked:
			questions[b.Question] = e.Task
		case conversation.QuestionAnswered:
			if asker := tasks[questions[b.Question]]; asker != nil && b.Message != "" && !read[b.Message] && state.Inner(b.Question) == b.Question {
				asker.answered = true
			}
			delete(questions, b.Question)
		case conversation.QuestionClosed:
			delete(questions, b.Question)
		case conversation.ToolStarted:
			calls[b.Call] = e.Task
		case conversation.ToolFinished:
			delete(calls, b.Call)
		case conversation.DelegationStarted:
			calls[b.Delegation] = e.Task
		case conversation.DelegationFinished:
			delete(calls, b.Delegation)
		}
	}
	for m := range accepted {
		if _, ok := resolved[m]; !ok {
			w.fatalf("%s: %s was never resolved", n.id, m)
		}
	}
	for id, tl := range tasks {
		if !tl.status.Ended() {
			w.fatalf("%s: task %s ended up %s", n.id, id, tl.status)
		}
	}
	if n.id != "s" && len(tasks) > 1 {
		w.fatalf("%s: %d tasks in a sub-session", n.id, len(tasks))
	}
}

func (w *world) isOutside(n *node) bool {
	c, ok := n.durable[0].Body.(conversation.SessionCreated)
	return ok && c.Agent == conversation.External
}
