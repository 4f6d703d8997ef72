package machine

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/dedup"
	"parley/conversation/listing"
)

// What users, models and tools do, at random.

// act does one random thing.
func (w *world) act() {
	n := w.nodes[w.order[w.r.IntN(len(w.order))]]
	switch w.r.IntN(20) {
	case 0, 1, 2, 3:
		if w.deep && w.r.IntN(4) > 0 {
			w.delegates()
			return
		}
		w.user()
	case 4, 5, 6, 7:
		w.model(n)
	case 8, 9:
		w.tool(n)
	case 10, 11:
		w.commit(n)
	case 12, 13:
		w.deliver()
	case 14:
		w.tell(n, false)
	case 15:
		w.jump()
		if n.live != nil {
			w.give(n.id, conversation.Tick{})
		}
	case 16:
		if n.live != nil && n.slot || w.r.IntN(2) == 0 {
			n.want = false
			w.give(n.id, conversation.SlotGranted{})
		}
	default:
		w.trouble(n)
	}
}

// delegates lets every delegate take a step.
func (w *world) delegates() {
	for _, id := range slices.Clone(w.order) {
		if n := w.nodes[id]; n.live != nil {
			w.commit(n)
			w.tell(n, true)
			w.deliver()
			w.model(n)
		}
	}
}

// trouble is what a node does to a session.
func (w *world) trouble(n *node) {
	switch w.r.IntN(8) {
	case 0:
		if !w.calm {
			w.crash(n)
		}
	case 1:
		if len(n.durable) > 0 {
			w.give(n.id, conversation.Compacted{Upto: conversation.Seq(w.r.IntN(len(n.durable) + 1)), Summary: fmt.Sprintf("summary at %d", len(n.durable))})
		}
	case 2:
		if n.live != nil && len(n.batch) == 0 && len(n.durable) > 0 {
			w.store(n)
		}
	case 3:
		if n.live != nil && !w.calm && w.r.IntN(2) == 0 {
			w.drain(n)
		}
	case 4:
		if w.r.IntN(8) == 0 {
			w.rest()
		}
	default:
		if len(n.stale) > 0 && len(n.durable) > 0 {
			w.give(n.id, n.stale[w.r.IntN(len(n.stale))])
		}
	}
}

// drain is a node that goes away in order.
func (w *world) drain(n *node) {
	w.commit(n)
	if n.live == nil {
		return
	}
	w.decide(n, conversation.Drain{})
	w.deliver() // what others say meanwhile
	w.commit(n)
	w.crash(n)
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

// user does what clients do, to the root session.
func (w *world) user() {
	root := w.nodes["s"]
	w.wake(root)
	if root.live == nil {
		return
	}
	if !root.live.Exists() { // its first commit has failed
		if w.give("s", w.create).Err != nil {
			w.create.Policy = nil
		}
		return
	}
	w.said++
	u := client{world: w, root: root, v: root.live.View(), id: conversation.ClientMsgID(fmt.Sprint("c", w.said))}
	if u.v.Agent.Outside() && len(u.v.Tasks) > 0 && w.r.IntN(2) == 0 {
		w.outside(u.v)
		return
	}
	switch w.r.IntN(32) {
	case 0, 1:
		w.give("s", conversation.Edit{By: "u", Message: u.message(), Text: "edited " + u.text()})
	case 2, 3:
		w.give("s", conversation.Withdraw{By: "u", Message: u.message()})
	case 4, 5, 6:
		m := conversation.Move{By: "u", Message: u.message()}
		if w.r.IntN(2) == 0 {
			m.Before = u.message()
		}
		w.give("s", m)
	case 7, 8:
		u.cancel()
	case 9, 10, 11, 12:
		u.answer()
	case 13, 14:
		if len(u.v.Tasks) > 0 {
			w.give("s", conversation.Reply{Author: "u", Via: conversation.ViaHTTP, ClientMsgID: u.id, Task: oneOf(w, u.v.Tasks).Task, Text: oneOf(w, []string{"yes", "no", "blue"})})
		}
	case 15:
		u.settings()
	case 16, 17:
		u.part()
	default:
		u.say()
	}
}

// client is one command of a user, who sees the root session.
type client struct {
	*world
	root *node
	v    conversation.View
	id   conversation.ClientMsgID
}

func oneOf[T any](w *world, all []T) T { return all[w.r.IntN(len(all))] }

func (u client) text() string {
	if u.speaks != nil {
		said := []string{"Please"}
		for range 2 + u.r.IntN(3) {
			said = append(said, messageWord(u.r.IntN(vocabulary)))
		}
		return strings.Join(said, " ") + "."
	}
	return fmt.Sprintf("message number %d about topic%d", u.said, u.r.IntN(5))
}

// message is one that waits, most times.
func (u client) message() conversation.MessageID {
	if len(u.v.Inbox) > 0 && u.r.IntN(8) > 0 {
		return oneOf(u.world, u.v.Inbox).Message
	}
	return conversation.MessageID(fmt.Sprintf("m%d-s", 1+u.r.IntN(10)))
}

func (u client) say() {
	say := conversation.Say{Author: "u", Via: oneOf(u.world, []conversation.Via{conversation.ViaWebSocket, conversation.ViaWebSocket, conversation.ViaSlack}), ClientMsgID: u.id, Text: u.text()}
	if u.r.IntN(3) == 0 {
		say.Mode = conversation.Mode(1 + u.r.IntN(5))
	}
	switch {
	case u.r.IntN(8) == 0:
		say.InReplyTo = u.message()
	case len(u.v.Questions) > 0 && u.r.IntN(3) == 0:
		say.Text = oneOf(u.world, []string{"yes", "no!", "red", "Light blue.", "2", "3", "green"})
		if u.r.IntN(3) == 0 {
			say.InReplyTo = conversation.MessageID(oneOf(u.world, u.v.Questions).Asked.Question)
		}
	}
	d := u.give("s", say)
	if d.Err != nil || u.r.IntN(5) > 0 || u.root.live == nil {
		return
	}
	again := u.give("s", say)
	if u.root.live != nil && again.Err == nil && d.Receipt.Message != "" && again.Receipt.Duplicate && again.Receipt.Message != d.Receipt.Message {
		u.fatalf("the same message got two ids: %s and %s", d.Receipt.Message, again.Receipt.Message)
	}
}

func (u client) cancel() {
	c := conversation.Cancel{By: conversation.ByUser, Drop: u.r.IntN(3) == 0}
	if len(u.v.Tasks) > 0 && u.r.IntN(2) == 0 {
		c.Task = oneOf(u.world, u.v.Tasks).Task
	}
	if u.r.IntN(2) == 0 {
		c.Author, c.ClientMsgID = "u", u.id
	}
	if len(u.cancels) > 0 && u.r.IntN(3) == 0 {
		c = oneOf(u.world, u.cancels) // its client has not seen the answer
	}
	if d := u.give("s", c); d.Err == nil && c.ClientMsgID != "" && !d.Receipt.Duplicate {
		u.world.cancels = append(u.world.cancels, c)
	}
}

// answer answers a question by its id, or the newest one by its command.
func (u client) answer() {
	answers := []string{"yes", "no", "red", `{"path":"/x"}`}
	if u.r.IntN(4) == 0 {
		u.give("s", conversation.Say{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: u.id, Text: "/answer " + oneOf(u.world, answers)})
		return
	}
	if len(u.v.Questions) > 0 {
		q := oneOf(u.world, u.v.Questions).Asked
		u.give("s", conversation.Answer{Author: "u", Via: conversation.ViaWebSocket, ClientMsgID: u.id, Question: q.Question, Text: oneOf(u.world, answers)})
	}
}

// settings are what a user does to the session itself.
func (u client) settings() {
	switch u.r.IntN(9) {
	case 0:
		if u.r.IntN(6) == 0 {
			u.give("s", conversation.Close{Reason: "enough"})
			return
		}
		u.give("s", conversation.Clear{By: "u"})
		u.give("s", conversation.Mark{User: "u", Marking: listing.Marking{Set: listing.Pinned}})
	case 1, 2:
		u.give("s", conversation.Seen{User: "u", Seq: conversation.Seq(u.r.IntN(int(u.v.Head) + 2))})
	case 3:
		title := fmt.Sprintf("title %d", u.r.IntN(3))
		u.give("s", conversation.Update{Title: &title})
	case 4:
		u.give("s", conversation.Update{Agent: oneOf(u.world, []conversation.AgentName{
			conversation.Coordinator, conversation.Coordinator, "developer", "researcher", "mute", conversation.External, "nobody",
		})})
	default:
		u.give("s", conversation.Update{Policy: u.overrides()})
	}
}

// overrides are policies that a session may have of its own, some of them not
// with that value, some of them taken back.
func (w *world) overrides() conversation.Overrides {
	choices := []struct {
		key    string
		values []string
	}{
		{"inbox.mode", []string{`"steer"`, `"queue"`, `"collect"`, `"interrupt"`, `"reject"`}},
		{"inbox.collect_window", []string{`"1s"`, `"5s"`}},
		{"inbox.max_queued", []string{`3`, `8`}},
		{"inbox.read", []string{`"auto"`, `"one"`, `"all"`}},
		{"coverage.mode", []string{`"strict"`, `"seen"`, `"off"`}},
		{"coverage.max_nudges", []string{`0`, `1`, `2`}},
		{"task.max_steps", []string{`1`, `3`, `5`}},
		{"reply.on_busy", []string{`"conflict"`, `"queue"`}},
		{"empty_answer", []string{`"apologise"`, `"silent"`, `"retry"`}},
		{"no_reply.sentinels", []string{`["NO_REPLY"]`, `[ "NO_REPLY", "<nothing>" ]`}},
		{"parts.enabled", []string{`true`, `false`}},
		{"delegation.max_parallel", []string{`1`, `2`}},
		{"delegation.max_depth", []string{`1`, `2`}},
		{"retry.max_attempts", []string{`1`, `2`}},
		{"tools.caller", []string{`[{"name":"clock"},{"name":"weather"}]`, `[{"name":"weather"}]`}},
		{"instructions", []string{`"Be brief."`}},
	}
	o := conversation.Overrides{}
	for range 1 + w.r.IntN(2) {
		c := oneOf(w, choices)
		o[c.key] = json.RawMessage(oneOf(w, append(c.values[:len(c.values):len(c.values)], "null")))
	}
	return o
}

// part is what an outside runtime says: of a message, or on its own.
func (u client) part() {
	if u.r.IntN(4) == 0 {
		part := conversation.AddPart{Author: "r", ClientMsgID: u.id, Text: "a plain " + u.text(), Final: u.r.IntN(4) == 0}
		for range 1 + u.r.IntN(2) {
			u.give("s", part)
		}
		return
	}
	if u.r.IntN(4) == 0 {
		u.partApart()
		return
	}
	u.say()
}

// partApart delivers a part of a source that is no message: the next one, one that is
// stored, or one that leaves a gap. The store knows which it is.
func (u client) partApart() {
	c := conversation.AddPart{Author: "r", Source: oneOf(u.world, []string{"ticket", "build"}), Indexed: true, Text: "outside " + u.text(), Final: u.r.IntN(4) == 0}
	log := u.nodes["s"].log()
	stored := make([]conversation.Seq, 0, 8)
	for _, e := range log {
		if p, once := partOf(e.Body); once && p.Source == conversation.SourceID("ext:"+c.Source) {
			stored = append(stored, e.Seq)
		}
	}
	n := conversation.PartIndex(len(stored))
	if c.Index = n; u.r.IntN(3) == 0 {
		c.Index = conversation.PartIndex(u.r.IntN(len(stored) + 4))
	}
	if c.Index < n {
		c.Duplicate = dedup.Of(c, log[stored[c.Index]-1])
	} else if before := u.nodes["s"].live.PartBefore(c); before != nil {
		c.NextFree, _ = dedup.NextPart(*before, func(keys []conversation.Key) ([]conversation.Seq, error) {
			seqs := make([]conversation.Seq, len(keys))
			for i, k := range keys {
				if k.Part < n {
					seqs[i] = stored[k.Part]
				}
			}
			return seqs, nil
		})
	}
	d := u.give("s", c)
	if u.nodes["s"].live == nil || d.Err != nil && conversation.AsError(d.Err).Code != conversation.Conflict {
		return
	}
	switch gap := c.Index > n; {
	case gap != (d.Err != nil), gap && (d.Err.NextPart == nil || *d.Err.NextPart != n):
		u.fatalf("part %d of %s behind %d parts: %v", c.Index, c.Source, n, d.Err)
	case !gap && d.Receipt.Duplicate != (c.Index < n):
		u.fatalf("part %d of %s behind %d parts: %+v", c.Index, c.Source, n, d.Receipt)
	}
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
			RetryAfter: oneOf(w, []time.Duration{0, 0, 0, 10 * time.Second, time.Hour}),
		})
		return
	}
	c := conversation.ModelAnswered{Step: ask.Step, Attempt: ask.Attempt, Model: "test", Answer: conversation.ModelAnswer{Items: w.modelAnswer(n, ask)}}
	if !w.friendly && w.speaks == nil {
		c.Answer.Stop = oneOf(w, []conversation.StopReason{0, 0, 0, 0, 0, 0, 0, 0, conversation.StopLength, conversation.StopLength, conversation.StopLength, conversation.StopFiltered})
	}
	n.stale = append(n.stale, c)
	w.give(n.id, c)
}

// modelAnswer invents an answer: anything from silence to several calls.
func (w *world) modelAnswer(n *node, ask conversation.AskModel) []conversation.Item {
	if w.speaks != nil && n.id == "s" {
		calls := noCall
		if !w.friendly {
			calls = oneOf(w, []round{noCall, noCall, noCall, aTool, twoTools, aDelegation})
		}
		return w.speaker.answer(hear(n.log(), ask), calls, *w.speaks)
	}
	if w.friendly {
		return []conversation.Item{{Kind: conversation.ItemText, Text: "final answer about everything"}}
	}
	var items []conversation.Item
	for i := range w.r.IntN(4) {
		items = append(items, w.item(fmt.Sprintf("k%d.%d.%d", ask.Step, ask.Attempt, i)))
	}
	return items
}

func (w *world) item(id string) conversation.Item {
	call := func(tool, format string, args ...any) conversation.Item {
		return conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: tool, Args: fmt.Sprintf(format, args...)}
	}
	k := 1 + w.r.IntN(3)
	kind := w.r.IntN(18)
	if w.deep && w.r.IntN(2) == 0 {
		kind = 2 + w.r.IntN(5)
	}
	switch kind {
	case 0:
		return call(conversation.ToolRespond, `{"message":"part about topic%d","inReplyTo":%d}`, k, k)
	case 1:
		return call(conversation.ToolRespond, `{"message":"to nobody"}`)
	case 2:
		return call(conversation.ToolAsk, `{"question":"which one?","blocking":%v%s}`, w.r.IntN(2) == 0, oneOf(w, []string{"", `,"choices":["Red","Light blue"]`}))
	case 3:
		return call(conversation.ToolAsk, `{"question":"soon?","blocking":false,"expiresIn":"3s"%s}`, oneOf(w, []string{"", `,"default":"never mind"`}))
	case 4, 5:
		return call(conversation.ToolDelegate, `{"agent":%q,"objective":"do it"%s}`, oneOf(w, []string{"developer", "researcher", "nobody"}), oneOf(w, []string{"", `,"deadline":"5s"`}))
	case 6:
		return call(conversation.ToolDelegateParallel, `{"jobs":[{"agent":"developer","objective":"a"},{"agent":"researcher","objective":"b"}]}`)
	case 7:
		return call(conversation.ToolAmend, `{"delegation":"d%d","text":"change it"}`, k)
	case 8, 9:
		return call(conversation.ToolCover, `{"messageId":%d,"as":%q%s}`, k, oneOf(w, []string{"amendment", "duplicate", "dismissed", "answer", "answered", "open", "wrong"}), oneOf(w, []string{"", "", `,"part":1`, `,"part":9`}))
	case 10:
		return call("clock", `{}`)
	case 11:
		return call("mail", `{"to":"max"}`)
	case 12:
		return call("rm", `{"path":"/tmp/x"}`)
	case 13:
		return call("rm", `{}`)
	case 17: // there is one while the session's caller brings it
		return call("weather", `{"city":"Oslo"}`)
	case 14:
		return conversation.Item{Kind: conversation.ItemText, Text: oneOf(w, []string{"", "  ", "NO_REPLY", "@u NO_REPLY"})}
	default:
		return conversation.Item{Kind: conversation.ItemText, Text: fmt.Sprintf("text about topic%d", w.r.IntN(5))}
	}
}

// tool lets a tool call end.
func (w *world) tool(n *node) {
	if len(n.tools) == 0 || n.live == nil {
		return
	}
	i := w.r.IntN(len(n.tools))
	c := n.tools[i]
	if w.toolAsks(n, c.Call) {
		return
	}
	delete(n.asking, c.Call)
	n.tools = append(n.tools[:i:i], n.tools[i+1:]...)
	done := conversation.ToolDone{Call: c.Call, Status: oneOf(w, []conversation.CallStatus{conversation.CallOK, conversation.CallError, conversation.CallTimeout}), Result: "tool result"}
	n.stale = append(n.stale, done)
	w.give(n.id, done)
}

// toolAsks lets a tool that runs ask the user, or give up its question.
func (w *world) toolAsks(n *node, call conversation.CallID) bool {
	if w.friendly || w.r.IntN(2) == 0 {
		return false
	}
	if n.asking[call] {
		w.give(n.id, conversation.ToolAskEnds{Call: call})
		return true
	}
	if n.asking == nil {
		n.asking = map[conversation.CallID]bool{}
	}
	n.asking[call] = true
	w.give(n.id, conversation.ToolAsks{Call: call, Text: oneOf(w, []string{"which table?", "which table?", " "}), Choices: oneOf(w, [][]string{nil, {"Red", "Light blue"}})})
	return true
}
