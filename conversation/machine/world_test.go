package machine

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

var (
	worldSeed     = flag.Uint64("world.seed", 0, "run the property test of this seed alone, once")
	worldCommands = flag.Int("world.commands", 600_000, "random commands in all")
)

// TestWorld drives sessions with random commands, crashes between any two
// commits, failed commits, stale and doubled deliveries and clock jumps, then
// lets a friendly world bring everything to its end and looks at the logs:
// docs/MACHINE.md, section 10. N-01 N-02 N-07 N-08 D-26 M-16 M-18 M-33
//
// Its files: world_test.go is the world and its store; world_commands_test.go is
// what users, models and tools do; world_shell_test.go is what the shell does;
// world_quiet_test.go lets the world rest, and brings it to its end. The judges:
// world_state_test.go after each command, world_order_test.go of the order of
// tasks and messages, world_log_test.go of a log that has come to its end, and
// world_counts_test.go of whether the run has met each rule at all.
func TestWorld(t *testing.T) {
	met := counts{}
	if *worldSeed != 0 {
		newWorld(t, *worldSeed, met).run()
		return
	}
	base := uint64(time.Now().UnixNano())
	total := *worldCommands
	if testing.Short() {
		total /= 20
	}
	done := 0
	for i := uint64(0); done < total; i++ {
		w := newWorld(t, base+i, met)
		w.run()
		done += w.commands
		if t.Failed() {
			return
		}
	}
	t.Logf("%d commands from seed %d", done, base)
	met.judge(t, done)
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
	box       []mail // between sessions
	commands  int
	create    conversation.Create
	friendly  bool
	speaks    *voice // the root's model speaks of its messages, as speaker; nil = anything at all
	speaker   speaker
	deep      bool // agents delegate and ask more than they answer
	calm      bool // nothing is lost and nothing crashes, so that what is told once must do
	restarted bool // the process has started again before the friendly end
	said      int
	cancels   []conversation.Cancel // with ids, as clients repeat them
	ran       map[string]int        // non-idempotent tool runs by session and call
	met       counts
}

// node is one session and its shell.
type node struct {
	id       conversation.SessionID
	durable  []conversation.Event // as they came back from the wire
	rows     map[conversation.TaskID]conversation.TaskRow
	snapshot []byte // a cache of the log up to kept
	kept     int

	live    *Session             // nil = passive
	batch   []conversation.Event // decided, not durable
	pending []conversation.TaskRow
	order   *orderModel // what the live session should do next
	shown   *transcript.Transcript
	given   []givenRequest
	models  []conversation.AskModel
	tools   []conversation.RunTool
	amends  []conversation.AmendDelegation
	tells   []conversation.StartDelegation
	slot    bool
	stale   []conversation.Command       // delivered before; may come again
	stopped map[conversation.CallID]bool // told to stop in this activation
	told    map[conversation.CallID]bool // objectives that were sent in this activation
	asking  map[conversation.CallID]bool // tools that wait for an answer
	want    bool                         // a slot is waited for
	due     time.Time                    // what the store has of it: when it must be in memory,
	open    int                          // and how many tasks have not ended
}

type mail struct {
	to conversation.SessionID
	c  conversation.Command
}

func newWorld(t *testing.T, seed uint64, met counts) *world {
	r := rand.New(rand.NewPCG(seed, 7))
	w := &world{
		t: t, seed: seed, r: r, rules: worldRules(r), now: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC),
		nodes: map[conversation.SessionID]*node{}, ran: map[string]int{}, met: met,
	}
	w.latest, w.calm = w.now, r.IntN(4) == 0
	agent := conversation.Coordinator
	if r.IntN(12) == 0 {
		agent = conversation.External
	} else if r.IntN(12) == 0 {
		agent = "mute"
	}
	w.add("s")
	if w.deep = r.IntN(6) == 0; w.deep {
		w.rules.Policy.MaxDepth = 3
	}
	if r.IntN(4) == 0 {
		w.speaks, w.speaker = &voice{seed: seed, r: r}, oneOf(w, speakers())
	}
	w.create = conversation.Create{Owner: "u", Agent: agent}
	if r.IntN(4) == 0 {
		w.create.Policy = w.overrides()
	}
	w.give("s", w.create)
	return w
}

// worldRules are small limits, so that runs of a few hundred commands meet them.
func worldRules(r *rand.Rand) *policy.Rules {
	rules := testRules()
	p := &rules.Policy
	p.MaxSteps = 1 + r.IntN(8)
	if a := rules.Agents["developer"]; r.IntN(2) == 0 {
		a.MaxSteps = 1 + r.IntN(p.MaxSteps)
		rules.Agents["developer"] = a
	}
	p.MaxAttempts = 1 + r.IntN(3)
	p.MaxInterrupts = 1 + r.IntN(4)
	p.MaxNudges = r.IntN(3)
	if r.IntN(4) == 0 {
		rules.Judge = &policy.Profile{Name: conversation.Judge, Prompt: transcript.JudgePrompt}
	}
	p.Coverage = policy.Coverage(r.IntN(3))
	p.EmptyAnswer = policy.EmptyAnswer(r.IntN(3))
	p.ReplyOnBusy = policy.ReplyOnBusy(r.IntN(2))
	p.PartsEnabled = r.IntN(4) > 0
	p.MaxParallel = 1 + r.IntN(4)
	p.MaxAsks = r.IntN(4)
	p.MaxQueued = 5 + r.IntN(20)
	p.MaxDepth = 1 + r.IntN(3)
	p.OutsideLease = time.Duration(r.IntN(4)) * 10 * time.Second
	if r.IntN(4) == 0 {
		p.MaxWait = time.Minute
	}
	if r.IntN(3) == 0 {
		p.Channels[conversation.ViaSlack] = conversation.Mode(1 + r.IntN(5))
	}
	return rules
}

func (w *world) add(id conversation.SessionID) *node {
	if n := w.nodes[id]; n != nil {
		return n
	}
	n := &node{id: id, rows: map[conversation.TaskID]conversation.TaskRow{}}
	w.nodes[id] = n
	w.order = append(w.order, id)
	return n
}

func (n *node) key() conversation.SessionKey {
	return conversation.SessionKey{Tenant: "default", Session: n.id}
}

// log is everything that the live session has decided.
func (n *node) log() []conversation.Event {
	return append(n.durable[:len(n.durable):len(n.durable)], n.batch...)
}

func (w *world) fatalf(format string, args ...any) {
	w.t.Helper()
	var log strings.Builder
	for _, id := range w.order {
		fmt.Fprintf(&log, "--- %s\n", id)
		for _, e := range w.nodes[id].durable {
			fmt.Fprintf(&log, "%3d %s %s %s\n", e.Seq, e.Body.Kind(), e.Task, body(e.Body))
		}
		for _, e := range w.nodes[id].batch {
			fmt.Fprintf(&log, "%3d? %s %s %s\n", e.Seq, e.Body.Kind(), e.Task, body(e.Body))
		}
	}
	w.t.Fatalf("%s\nseed %d; again: go test ./conversation/machine -run TestWorld -world.seed=%d\n%s",
		fmt.Sprintf(format, args...), w.seed, w.seed, log.String())
}

func (w *world) run() {
	for range 30 + w.r.IntN(250) {
		w.act()
	}
	if w.r.IntN(2) == 0 {
		w.rest()
	}
	w.finish()
	w.judge()
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
	in := conversation.Inputs{At: w.now, Slot: slot}
	w.asking(n, &in)
	d := n.live.Decide(in, c)
	if d.Err != nil && len(d.Events) > 0 {
		w.fatalf("%s was refused with events", c.Name())
	}
	w.met.decision(c, d)
	n.batch = append(n.batch, d.Events...)
	n.pending = append(n.pending, d.Rows...)
	for _, e := range d.Release {
		w.release(n, e)
	}
	w.judgeDecision(n, c, d)
	w.invariants(n)
	if _, tick := c.(conversation.Tick); tick && w.r.IntN(4) == 0 && n.live.Standing().NextTick.After(w.now) {
		if again := n.live.Decide(in, c); len(again.Events) > 0 {
			w.fatalf("%s: a second Tick at the same time: %s", n.id, body(again.Events[0].Body))
		}
	}
	return d
}

// crash loses a session's memory and everything that ran for it.
func (w *world) crash(n *node) {
	w.givenIsUnchanged(n)
	for _, m := range n.models {
		n.stale = append(n.stale, conversation.ModelAnswered{Step: m.Step, Attempt: m.Attempt})
	}
	n.live, n.batch, n.pending, n.order, n.shown = nil, nil, nil, nil, nil
	n.models, n.tools, n.amends, n.tells = nil, nil, nil, nil
	n.stopped, n.told, n.asking, n.want = nil, nil, nil, false
}
