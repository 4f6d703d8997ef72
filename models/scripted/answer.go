package scripted

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
)

// decision is the answer to a request, before it is streamed.
type decision struct {
	delay time.Duration // the model call takes that long first
	fail  string        // a kind of /fail; Items are then what would have been answered
	items []conversation.Item
	marks []string // the lines that the answer does
	fails []string
}

// The arguments of the engine's tools.
type (
	respondArgs struct {
		Message   string `json:"message"`
		InReplyTo string `json:"inReplyTo"`
	}
	askArgs struct {
		Question string   `json:"question"`
		Blocking bool     `json:"blocking"`
		Choices  []string `json:"choices,omitempty"`
	}
	delegateArgs struct {
		Agent     string `json:"agent"`
		Objective string `json:"objective"`
	}
	parallelArgs struct {
		Jobs []delegateArgs `json:"jobs"`
	}
	amendArgs struct {
		Delegation string `json:"delegation"`
		Text       string `json:"text"`
	}
	coverArgs struct {
		Message  string `json:"messageId"`
		As       string `json:"as"`
		Question string `json:"question,omitempty"`
	}
)

// answer decides the answer. It is a pure function of the request.
//
// Of several messages with lines left the newest goes first; plain messages that one
// step reads go in their order, each answered by name (see takeTurns). Most lines are an
// answer of their own. A line that only covers a message, or is plain text while
// others have lines left, is answered together with the next thing there is to
// do, of this message or another: nothing comes back from it that would make the
// machine ask again, and the lines would be lost.
func (s *script) answer(r *conversation.Request) decision {
	if summary, asked := summarise(r); asked {
		return summary
	}
	t := s.read(r)
	if r.MustCall {
		return t.closing()
	}
	var d decision
	for {
		p, a := t.pick()
		if p == nil {
			return d
		}
		if a.verb != verbLoop || !t.marks[lineMark(p.message, a.line)] { // what stands before a loop counts once
			d.delay += a.delay
			d.fails = append(d.fails, a.fails...)
			for _, text := range a.beside {
				d.text(t, lineMark(p.message, a.line), t.fill(p, a, text, false))
			}
		}
		if n := r.Attempt; n >= 1 && n <= len(d.fails) {
			d.fail = d.fails[n-1]
		}
		more := t.do(&d, p, a)
		for _, item := range d.items {
			if mark, ok := markOf(item.ID); ok {
				t.marks[mark] = true
			}
		}
		if !more {
			return d
		}
	}
}

// pick returns the first program in turn whose next action can go, and that action.
func (t *reading) pick() (*program, *action) {
	for _, p := range t.turns {
		if a := t.next(p); a != nil && t.ready(p, a) {
			return p, a
		}
	}
	return nil, nil
}

// ready reports whether an action can be done now. It cannot if it needs a result that
// is still to come, or, at the wrap-up, if it is a call, because calls are ignored there.
func (t *reading) ready(p *program, a *action) bool {
	if t.request.WrapUp {
		switch a.verb {
		case verbSay, verbPartial, verbParts, verbStream, verbEmpty, verbNoReply, verbPass:
		default:
			return false
		}
	}
	for _, name := range []string{"result", "reply"} {
		if t.needs(a, name) {
			if _, state := t.value(p, a, name); state == waiting {
				return false
			}
		}
	}
	return true
}

// needs reports whether an action uses the variable in a place that is filled.
func (t *reading) needs(a *action, name string) bool {
	if slices.ContainsFunc(a.beside, func(text string) bool { return uses(text, name) }) {
		return true
	}
	visible := func(objective string) bool {
		return uses(objective[:t.script.language.visible(objective, name)], name)
	}
	switch a.verb {
	case verbDelegate:
		return visible(a.text)
	case verbParallel:
		return slices.ContainsFunc(a.jobs, func(j job) bool { return visible(j.objective) })
	default:
		return uses(a.text, name)
	}
}

type state uint8

const (
	absent  state = iota // nothing before the line produces it: the word stays as it is
	waiting              // it is still to come
	ready
)

// value returns the value of $result or $reply at an action of a program.
func (t *reading) value(p *program, at *action, name string) (string, state) {
	if name == "reply" {
		return t.reply(p, at)
	}
	for i := len(p.actions) - 1; i >= 0; i-- {
		a := &p.actions[i]
		if a.line >= at.line || !a.produces("result") {
			continue
		}
		calls := t.calls[lineMark(p.message, a.line)]
		if len(calls) == 0 {
			return "", waiting
		}
		text, ok := t.result(calls[len(calls)-1])
		if !ok {
			return "", waiting
		}
		return text, ready
	}
	return "", absent
}

// reply returns the latest answer to the questions that the program asked since it
// last used one: any of several open questions may be answered first.
func (t *reading) reply(p *program, at *action) (string, state) {
	var group []string
	all := []string{}
	for i := range p.actions {
		a := &p.actions[i]
		if a.line >= at.line {
			break
		}
		if t.needs(a, "reply") {
			group = nil
		}
		if a.produces("reply") {
			group = append(group, lineMark(p.message, a.line))
			all = append(all, lineMark(p.message, a.line))
		}
	}
	if len(group) == 0 {
		group = all
	}
	if len(group) == 0 {
		return "", absent
	}
	var latest *ask
	for _, a := range t.asks {
		mark, _ := markOf(a.call.id)
		for _, m := range group {
			if m == mark && a.answered > 0 && (latest == nil || a.answered > latest.answered) {
				latest = a
			}
		}
	}
	if latest == nil {
		return "", waiting
	}
	return latest.reply, ready
}

// fill puts values into a template.
func (t *reading) fill(p *program, a *action, template string, escape bool) string {
	return expand(template, func(name string) (string, bool) {
		value, ok := p.vars[name]
		raw := name == "args" // JSON already
		if !ok && (name == "result" || name == "reply") {
			var st state
			value, st = t.value(p, a, name)
			ok = st == ready
		}
		if escape && ok && !raw {
			value = strings.TrimSuffix(strings.TrimPrefix(encode(value), `"`), `"`)
		}
		return value, ok
	})
}

// fillObjective fills only the part that belongs to the delegating program: see visible.
func (t *reading) fillObjective(p *program, a *action, objective string) string {
	result := t.script.language.visible(objective, "result")
	reply := t.script.language.visible(objective, "reply")
	near, far := min(result, reply), max(result, reply)
	only := func(text, name string) string {
		return expand(text, func(n string) (string, bool) {
			if n != name {
				return "", false
			}
			value, st := t.value(p, a, n)
			return value, st == ready
		})
	}
	between := "result"
	if reply > result {
		between = "reply"
	}
	return t.fill(p, a, objective[:near], false) + only(objective[near:far], between) + objective[far:]
}

// do adds an action to the answer; it returns true when the answer may hold
// more than this.
func (t *reading) do(d *decision, p *program, a *action) (more bool) {
	mark := lineMark(p.message, a.line)
	d.mark(t, mark)
	text := func() string { return t.fill(p, a, a.text, false) }
	switch a.verb {
	case verbSay:
		if uses(a.text, "changes") {
			for _, message := range p.changed {
				d.mark(t, lineMark(message, 1))
			}
		}
		t.say(d, p, mark, text(), t.request.WrapUp || t.isLastStep())
	case verbPartial:
		t.say(d, p, mark, text(), t.request.WrapUp)
	case verbParts:
		for part := range strings.SplitSeq(a.text, "|") {
			d.text(t, mark, strings.TrimSpace(t.fill(p, a, part, false)))
		}
		return true
	case verbStream:
		d.text(t, mark, strings.TrimSuffix(strings.Repeat(a.text+" ", a.n), " "))
		return true
	case verbNoReply:
		d.text(t, mark, "NO_REPLY")
		return true
	case verbEmpty:
	case verbPass:
		return true
	case verbAsk, verbAskOpen:
		d.call(t, mark, conversation.ToolAsk, encode(askArgs{text(), a.verb == verbAsk, a.choices}))
	case verbTool:
		d.call(t, mark, t.fill(p, a, a.name, false), t.fill(p, a, a.text, true))
	case verbLoop:
		d.call(t, mark, t.loopTool(), "{}")
	case verbDelegate:
		d.call(t, mark, conversation.ToolDelegate, encode(delegateArgs{a.name, t.fillObjective(p, a, a.text)}))
	case verbParallel:
		var args parallelArgs
		for _, j := range a.jobs {
			args.Jobs = append(args.Jobs, delegateArgs{j.agent, t.fillObjective(p, a, j.objective)})
		}
		d.call(t, mark, conversation.ToolDelegateParallel, encode(args))
	case verbAmend:
		d.call(t, mark, conversation.ToolAmend, encode(amendArgs{t.delegation(a.n), text()}))
	case verbCover:
		d.call(t, mark, conversation.ToolCover, encode(coverArgs{Message: t.open(a.n), As: a.as}))
		return true
	case verbAnswer:
		d.call(t, mark, conversation.ToolCover, encode(coverArgs{string(p.message), "answer", quotable(a.text)}))
		t.closeQuestion(p, a.text)
		return true
	case verbChange:
		t.acknowledgeChange(d, p, mark)
	case verbRedo:
		if other, target := t.target(p); other != nil {
			t.replaceObjective(d, p, other, target)
		} else {
			return true
		}
	}
	return false
}

// say answers with text: as the final answer, or as a part on the way. A plain message
// whose answer is like one that another has got already is answered by name at the end,
// too: without a name it would be taken for a repetition.
func (t *reading) say(d *decision, p *program, mark, text string, final bool) {
	if final && (t.request.WrapUp || !p.plain || !t.parts.like(text)) {
		d.text(t, mark, text)
		return
	}
	d.call(t, mark, conversation.ToolRespond, encode(respondArgs{text, string(p.message)}))
}

// isLastStep reports whether no message of the task has lines left and no call is running.
func (t *reading) isLastStep() bool {
	if len(t.request.Running) > 0 {
		return false
	}
	for _, p := range t.programs {
		if t.next(p) != nil {
			return false
		}
	}
	return true
}

// loopTool returns a tool that /loop may call without end, such as the harmless clock.
func (t *reading) loopTool() string {
	const clock = "clock"
	first := clock
	for _, spec := range t.request.Tools {
		if spec.Name == clock {
			return clock
		}
		if first == clock && !isEngineTool(spec.Name) {
			first = spec.Name
		}
	}
	return first
}

// isEngineTool reports whether the machine executes the tool itself.
func isEngineTool(tool string) bool {
	switch tool {
	case conversation.ToolRespond, conversation.ToolAsk, conversation.ToolAmend, conversation.ToolCover:
		return true
	default:
		return strings.HasPrefix(tool, conversation.ToolDelegate)
	}
}

// delegations returns the running ones, oldest first.
func (t *reading) delegations() []conversation.RunningCall {
	var out []conversation.RunningCall
	for _, c := range t.request.Running {
		if c.Tool == conversation.ToolDelegate || c.Tool == conversation.ToolDelegateParallel {
			out = append(out, c)
		}
	}
	return out
}

// delegation returns the id of the n-th running delegation; the number itself if
// there is none, which the engine then refuses.
func (t *reading) delegation(n int) string {
	if running := t.delegations(); n <= len(running) {
		return string(running[n-1].Call)
	}
	return strconv.Itoa(n)
}

// open returns the id of the open message with an ordinal, or the number itself.
func (t *reading) open(n int) string {
	for _, m := range t.request.Open {
		if m.Ordinal == n {
			return string(m.Message)
		}
	}
	return strconv.Itoa(n)
}

// closeQuestion notes that the message answers the newest open question of that text,
// so that the line that waits for it can go in the same answer.
func (t *reading) closeQuestion(p *program, question string) {
	for i := len(t.asks) - 1; i >= 0; i-- {
		if a := t.asks[i]; a.answered == 0 && a.question == question {
			a.answered = len(t.request.Entries) + 1
			a.reply = strings.TrimSpace(t.request.Entries[p.at].Text)
			if choice, ok := a.choose(a.reply); ok {
				a.reply = choice
			}
			return
		}
	}
}

// target returns the newest other program that delegates and has not answered yet
// with the delegation's result, and the delegating action.
func (t *reading) target(p *program) (*program, *action) {
	for i := len(t.programs) - 1; i >= 0; i-- {
		other := t.programs[i]
		next := t.next(other)
		if other.message == p.message || next == nil {
			continue
		}
		for k := len(other.actions) - 1; k >= 0; k-- {
			a := &other.actions[k]
			if a.verb != verbDelegate || a.line > next.line {
				continue
			}
			if a.line < next.line || t.ready(other, a) {
				return other, a
			}
		}
	}
	return nil, nil
}

// changeable reports whether there is something that the message can change.
func (t *reading) changeable(p *program) bool {
	if len(t.delegations()) > 0 {
		return true
	}
	other, _ := t.target(p)
	return other != nil
}

// acknowledgeChange lets the message change what is being worked on (D-17): the newest
// running delegation gets it as an amendment; one that is about to be made gets
// it with its objective; one whose result the user has not seen yet is
// made again. Either way one answer will cover both messages.
func (t *reading) acknowledgeChange(d *decision, p *program, mark string) {
	text := p.vars["text"]
	if running := t.delegations(); len(running) > 0 {
		newest := running[len(running)-1]
		d.call(t, mark, conversation.ToolAmend, encode(amendArgs{string(newest.Call), text}))
	} else if other, a := t.target(p); other != nil {
		t.replaceObjective(d, p, other, a)
	}
	d.call(t, mark, conversation.ToolCover, encode(coverArgs{Message: string(p.message), As: "amendment"}))
}

// replaceObjective delegates what another program does, with p's text added to the
// objective. The call carries the other line's mark, so that the other program goes on
// with its results.
func (t *reading) replaceObjective(d *decision, p, other *program, a *action) {
	line := lineMark(other.message, a.line)
	d.mark(t, line)
	objective := ""
	var before delegateArgs
	if calls := t.calls[line]; len(calls) > 0 && json.Unmarshal([]byte(calls[len(calls)-1].args), &before) == nil {
		objective = before.Objective
	} else {
		objective = t.fillObjective(other, a, a.text)
	}
	d.call(t, line, conversation.ToolDelegate, encode(delegateArgs{a.name, objective + "\n" + p.vars["text"]}))
}

// quotable returns the question as a quote by which the engine finds it: a beginning of
// at least four bytes. "" means the newest question.
func quotable(question string) string {
	if len(question) < 4 || strings.Trim(question, "\"' ") != question {
		return ""
	}
	return question
}

// mark notes that the answer includes a line.
func (d *decision) mark(t *reading, mark string) {
	t.marks[mark] = true
	d.marks = append(d.marks, mark)
}

func (d *decision) text(t *reading, mark, text string) {
	d.items = append(d.items, conversation.Item{Kind: conversation.ItemText, ID: t.id(mark), Text: text})
}

func (d *decision) call(t *reading, mark, tool, args string) {
	d.items = append(d.items, conversation.Item{Kind: conversation.ItemCall, ID: t.id(mark), Tool: tool, Args: args})
}

// id returns the next item id of a line.
func (t *reading) id(mark string) string {
	n := t.used[mark]
	t.used[mark] = n + 1
	return itemID(mark, n)
}
