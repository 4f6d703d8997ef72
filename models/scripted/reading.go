package scripted

import (
	"encoding/json"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"parley/conversation"
)

// reading is a request as the model understands it: the programs of the task's messages
// and the progress of each. It is made for one answer.
type reading struct {
	script   *script
	shown    *conversation.Request // as the engine gave it
	request  *conversation.Request
	said     []int               // the places of the task's messages
	programs []*program          // oldest first
	turns    []*program          // in the order in which they may go
	marks    map[string]bool     // "<message>:<line>" of every line that was answered
	begun    map[string]int      // the place of the first answer to a message
	parts    saying              // what was said
	texts    map[string][]string // the marks of a message's texts that are no parts, in order
	calls    map[string][]*call  // by the mark of their line, in order
	asks     []*ask              // in order
	used     map[string]int      // how many items carry a mark
	late     map[string][]string // what delegations brought after their step, by call id
}

// program is a message and the actions that it asks for.
type program struct {
	message conversation.MessageID
	at      int // the message's place among the entries
	plain   bool
	actions []action
	vars    map[string]string // of a rule
	changed []conversation.MessageID
}

// call is a call that the model made.
type call struct {
	id     string
	tool   string
	args   string
	at     int // the place of its answer among the entries
	result string
	ended  int // the place of its result; 0 = it has none yet
}

// ask is a question of this model, in any task of the session.
type ask struct {
	call     *call
	ordinal  int // counts what got a question id, as far as the transcript shows it
	question string
	choices  []string
	reply    string
	answered int // the place of the answer; 0 = none yet
}

// continuing is the result that the transcript shows for a question without an answer
// yet. Other calls without a result have conversation.NoResult.
const continuing = "question sent, continuing"

var (
	startedLine  = regexp.MustCompile(`^delegation (\S+) \(([^()]*)\) started; its result follows$`)
	finishedText = regexp.MustCompile(`(?s)^\[delegation \S+ \([^()]*\) ([a-z]+): (.*)\]$`)
	answeredText = regexp.MustCompile(`(?s)^\[(?:answer to question \S+|question \S+ expired): (.*)\]$`)
)

// read makes a reading of the request.
func (s *script) read(shown *conversation.Request) *reading {
	r := unheaded(shown)
	t := &reading{
		script: s, shown: shown, request: r,
		marks: map[string]bool{}, begun: map[string]int{}, parts: saying{}, used: map[string]int{},
	}
	var (
		byID     map[string]*call
		numbered []*call // what got a question id, in order
		answers  []int   // the places of generated answers
	)
	for at := r.Own; at < len(r.Entries); at++ {
		e := &r.Entries[at]
		if e.Task != r.Task {
			continue // other tasks' programs are over, or wait
		}
		switch e.Role {
		case conversation.RoleAssistant:
			for mark := range strings.FieldsSeq(e.ResponseID) {
				t.record(mark, at)
			}
			for _, item := range e.Items {
				mark, ok := markOf(item.ID)
				if !ok {
					continue
				}
				t.record(mark, at)
				t.used[mark]++
				if item.Kind != conversation.ItemCall {
					t.recordText(mark, item.Text)
					continue
				}
				c := &call{id: item.ID, tool: item.Tool, args: item.Args, at: at}
				if byID == nil {
					byID, t.calls = map[string]*call{}, map[string][]*call{}
				}
				t.calls[mark] = append(t.calls[mark], c)
				byID[c.id] = c
				switch {
				case c.tool == conversation.ToolRespond:
					t.recordPart(c)
				case c.tool == conversation.ToolAsk:
					numbered = append(numbered, c)
					t.asks = append(t.asks, newAsk(c))
				case c.tool == conversation.ToolCover:
					t.recordCover(c)
				case t.approved(c.tool): // an approval is a question, too
					numbered = append(numbered, c)
				}
			}
		case conversation.RoleTool:
			if c := byID[e.CallID]; c != nil && e.Text != conversation.NoResult {
				c.result, c.ended = e.Text, at+1
			}
		case conversation.RoleUser:
			switch {
			case e.Delegation != "":
				if t.late == nil {
					t.late = map[string][]string{}
				}
				t.late[string(e.Delegation)] = append(t.late[string(e.Delegation)], late(e.Text))
			case e.Question != "":
				answers = append(answers, at)
			case e.Message != "":
				t.said = append(t.said, at)
			}
		}
	}
	t.numberCalls(numbered)
	for _, at := range answers {
		t.recordReply(at)
	}
	for _, a := range t.asks {
		// A blocking question's result is its answer; so is the refusal of any question.
		if a.answered == 0 && a.call.ended > 0 && a.call.result != continuing {
			a.reply, a.answered = a.call.result, a.call.ended
		}
	}
	t.writePrograms()
	t.takeTurns()
	return t
}

// record notes that the answer at a place did a line.
func (t *reading) record(mark string, at int) {
	t.marks[mark] = true
	if message, _, ok := cutMark(mark); ok {
		if _, known := t.begun[message]; !known {
			t.begun[message] = at
		}
	}
}

// recordText notes a text of a line.
func (t *reading) recordText(mark, text string) {
	t.parts.add(text)
	if message, _, ok := cutMark(mark); ok && !conversation.IsBlank(text) {
		if t.texts == nil {
			t.texts = map[string][]string{}
		}
		t.texts[message] = append(t.texts[message], mark)
	}
}

// recordPart notes the text of a part.
func (t *reading) recordPart(c *call) {
	var args respondArgs
	if json.Unmarshal([]byte(c.args), &args) == nil {
		t.parts.add(args.Message)
	}
}

func newAsk(c *call) *ask {
	a := &ask{call: c}
	var args askArgs
	if json.Unmarshal([]byte(c.args), &args) == nil {
		a.question, a.choices = args.Question, args.Choices
	}
	return a
}

// numberCalls counts the questions as the session does; refused calls asked nothing.
func (t *reading) numberCalls(calls []*call) {
	n := 0
	for _, c := range calls {
		if refused(c) {
			continue
		}
		n++
		for _, a := range t.asks {
			if a.call == c {
				a.ordinal = n
			}
		}
	}
}

// refused reports whether the engine refused a call, or the call failed.
func refused(c *call) bool { return c.ended > 0 && strings.HasPrefix(c.result, "error") }

// approved reports whether each call of the tool must be allowed by a person.
func (t *reading) approved(tool string) bool {
	for _, spec := range t.request.Tools {
		if spec.Name == tool {
			return spec.Approval
		}
	}
	return false
}

// recordCover notes the answer to a question that a coverMessage call of this model gave.
func (t *reading) recordCover(c *call) {
	var args coverArgs
	if json.Unmarshal([]byte(c.args), &args) != nil || args.As != "answer" {
		return
	}
	for i := len(t.asks) - 1; i >= 0; i-- {
		if a := t.asks[i]; a.answered == 0 && (args.Question == "" || a.question == args.Question) {
			a.answered = c.at + 1
			a.reply = t.text(conversation.MessageID(args.Message))
			if choice, ok := a.choose(a.reply); ok {
				a.reply = choice
			}
			return
		}
	}
}

// text returns the text of a message of the task.
func (t *reading) text(message conversation.MessageID) string {
	for _, at := range slices.Backward(t.said) {
		if e := &t.request.Entries[at]; e.Message == message {
			return e.Text
		}
	}
	return ""
}

// recordReply pairs an explicit answer with its question. The transcript names the
// session's question id, which this model never learns; questions are counted
// from 1 in a session, so the count of what was asked is tried first, and the
// oldest one without an answer next.
func (t *reading) recordReply(at int) {
	e := t.request.Entries[at]
	text := e.Text
	if m := answeredText.FindStringSubmatch(text); m != nil {
		text = m[1]
	}
	var oldest, counted *ask
	n, _ := strconv.Atoi(strings.TrimPrefix(string(e.Question), "q"))
	for _, a := range t.asks {
		if a.call.at > at || a.answered > 0 || (a.call.ended > 0 && a.call.result != continuing) {
			continue
		}
		if e.CallID != "" && a.call.id == e.CallID {
			a.reply, a.answered = text, at+1
			return
		}
		if oldest == nil {
			oldest = a
		}
		if a.ordinal == n {
			counted = a
		}
	}
	if counted == nil {
		counted = oldest
	}
	if counted != nil {
		counted.reply, counted.answered = text, at+1
	}
}

// late reads the text of a delegation that ended after its step.
func late(text string) string {
	m := finishedText.FindStringSubmatch(text)
	switch {
	case m == nil:
		return text
	case m[1] == "finished":
		return m[2]
	default:
		return m[1] + ": " + m[2]
	}
}

// result returns the result of a call; ok is false while it is still to come.
func (t *reading) result(c *call) (string, bool) {
	for _, running := range t.request.Running {
		if running.ID == c.id {
			return "", false
		}
	}
	if c.ended == 0 {
		return "", false
	}
	lines := strings.Split(c.result, "\n")
	for i, line := range lines {
		m := startedLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		brought := t.late[m[1]]
		if len(brought) == 0 {
			return "", false
		}
		lines[i] = brought[len(brought)-1]
		if c.tool == conversation.ToolDelegateParallel {
			lines[i] = "[" + m[1] + " " + m[2] + "] " + lines[i]
		}
	}
	return strings.Join(lines, "\n"), true
}

// writePrograms makes the programs of the task's messages.
func (t *reading) writePrograms() {
	var (
		first   *program // of a delegation
		plain   bool     // first is not a program of directives
		changes []conversation.Entry
	)
	for _, at := range t.said {
		e := &t.request.Entries[at]
		p := &program{message: e.Message, at: at}
		delegated := t.request.Depth > 0
		if len(e.Files) > 0 {
			p.actions = []action{{verb: verbSay, line: 1, text: got(e.Files)}}
			p.plain = true
			plain = plain || first == nil
		} else if lines, ok := t.script.language.program(e.Text, delegated); ok && !e.Free {
			p.actions = t.script.language.compile(lines, 1)
		} else if delegated && first != nil {
			changes = append(changes, *e) // a delegate's later messages change its objective
			continue
		} else {
			t.rule(p, strings.TrimSpace(e.Text))
			p.plain = true
			plain = plain || first == nil
		}
		if first == nil {
			first = p
		}
		t.tellWho(p)
		t.programs = append(t.programs, p)
	}
	if plain && t.request.Depth > 0 {
		t.change(first, changes)
	}
}

// takeTurns puts the programs in the order in which they may go: the newest first,
// but plain messages that wait together in their own order (D-01), of which those that
// let others work or ask the user go last: nobody waits for a delegate to be greeted.
// A message whose tool has run waits with those that came meanwhile; one that had let
// others work, or had asked, before a newer one was read does not. Together they keep
// the places that they have among the others.
func (t *reading) takeTurns() {
	t.turns = slices.Clone(t.programs)
	var together []int // places of plain messages, oldest first
	turn := func() {
		var quick, long []*program
		for _, i := range together {
			if p := t.programs[i]; p.isLong() {
				long = append(long, p)
			} else {
				quick = append(quick, p)
			}
		}
		for n, p := range append(quick, long...) {
			t.turns[together[len(together)-1-n]] = p
		}
		together = together[:0]
	}
	for i, p := range t.programs {
		if !p.isAnswered() {
			continue
		}
		if slices.ContainsFunc(together, func(k int) bool {
			before := t.programs[k]
			begun, ok := t.begun[string(before.message)]
			return ok && begun < p.at && before.isLong()
		}) {
			turn()
		}
		together = append(together, i)
	}
	turn()
	slices.Reverse(t.turns)
}

// isAnswered reports whether a message is plain and gets an answer of its own, unlike
// one that changes what another asked for or answers a question: that one must go
// before the line that it changes.
func (p *program) isAnswered() bool {
	return p.plain && p.actions[0].verb != verbChange && p.actions[0].verb != verbAnswer
}

// isLong reports whether the program lets others work or asks the user.
func (p *program) isLong() bool {
	return slices.ContainsFunc(p.actions, func(a action) bool {
		return a.verb == verbDelegate || a.verb == verbParallel || a.verb == verbAsk || a.verb == verbAskOpen
	})
}

// rule writes the program of a plain message.
func (t *reading) rule(p *program, text string) {
	mark := lineMark(p.message, 1)
	if a := t.answers(p, text, mark); a != nil {
		p.actions = []action{*a}
		return
	}
	objective, added := text, ""
	if t.request.Depth > 0 {
		objective, added, _ = strings.Cut(text, "\n") // see changed
		added = strings.TrimSpace(added)
	}
	rule, groups := t.script.find(t.request, objective)
	p.vars = map[string]string{
		"text": objective, "quote": conversation.Excerpt(objective, 200), "agent": string(t.request.Agent),
		"first": t.firstText(), "changes": added,
	}
	if rule == nil {
		unknown := t.script.session
		if t.request.Depth > 0 {
			unknown = t.script.delegation
		}
		p.actions = []action{{verb: verbSay, line: 1, text: unknown}}
		return
	}
	value := objective
	for i, group := range groups {
		if i > 0 && i <= 9 {
			p.vars[strconv.Itoa(i)] = group
		}
		if i == 1 && group != "" {
			value = group
		}
	}
	p.actions = rule.do
	missing := ""
	for i, name := range rule.needs {
		spec, ok := offeredTool(t.request, name)
		if !ok && missing == "" {
			missing = name
		}
		if i == 0 {
			p.vars["tool"], p.vars["args"] = spec.Name, argsFor(spec.Schema, value)
		}
	}
	// A program that was begun is gone on with, whatever tools the wrap-up has.
	switch {
	case t.marks[lineMark(p.message, otherwiseFrom)]:
		p.actions = rule.otherwise
	case t.hasBegun(p.message):
		p.actions = append(p.actions[:len(p.actions):len(p.actions)], t.remainingActions(p)...)
	case missing != "":
		p.actions = rule.otherwise
		p.vars["tool"] = missing
	case rule.do[0].verb == verbChange && !t.changeable(p):
		p.actions = rule.otherwise
	}
}

// remainingActions returns the actions that are left when a delegation ended just before
// a message's amendment reached it: the delegation is made again.
func (t *reading) remainingActions(p *program) []action {
	if p.actions[0].verb != verbChange {
		return nil
	}
	for _, c := range t.calls[lineMark(p.message, p.actions[0].line)] {
		if c.tool == conversation.ToolAmend && (refused(c) || strings.Contains(c.result, "cannot be amended")) {
			return []action{{verb: verbRedo, line: p.actions[0].line + 1}}
		}
	}
	return nil
}

// hasBegun reports whether a line of the message was answered.
func (t *reading) hasBegun(message conversation.MessageID) bool {
	for mark := range t.marks {
		if m, _, ok := cutMark(mark); ok && m == string(message) {
			return true
		}
	}
	return false
}

// answers tells whether a plain message answers an open question: it names one
// of its choices; or the question has none, and no rule knows the text. D-16:
// no id is needed.
func (t *reading) answers(p *program, text, mark string) *action {
	for _, c := range t.calls[mark] {
		var args coverArgs
		if c.tool == conversation.ToolCover && json.Unmarshal([]byte(c.args), &args) == nil && args.As == "answer" {
			return &action{verb: verbAnswer, line: 1, text: args.Question} // done already
		}
	}
	if t.hasBegun(p.message) {
		return nil
	}
	isKnown := sync.OnceValue(func() bool {
		rule, _ := t.script.find(t.request, text)
		return rule != nil
	})
	for i := len(t.asks) - 1; i >= 0; i-- {
		a := t.asks[i]
		if a.answered > 0 || a.call.ended == 0 || a.call.at > p.at || !t.isOwnQuestion(a) {
			continue
		}
		if _, chosen := a.choose(text); chosen || (len(a.choices) == 0 && !isKnown()) {
			return &action{verb: verbAnswer, line: 1, text: a.question}
		}
	}
	return nil
}

// isOwnQuestion reports whether the question was asked for a message of this task.
func (t *reading) isOwnQuestion(a *ask) bool {
	mark, _ := markOf(a.call.id)
	message, _, _ := cutMark(mark)
	for _, p := range t.programs {
		if string(p.message) == message {
			return true
		}
	}
	return false
}

// choose finds the one choice that the text names as words.
func (a *ask) choose(text string) (choice string, ok bool) {
	for _, c := range a.choices {
		if !containsWord(text, c) {
			continue
		}
		if ok {
			return "", false
		}
		choice, ok = c, true
	}
	return choice, ok
}

func containsWord(text, word string) bool {
	pattern, err := regexp.Compile(`(?i)(?:^|[^\pL\pN])` + regexp.QuoteMeta(word) + `(?:$|[^\pL\pN])`)
	return err == nil && pattern.MatchString(text)
}

// firstText returns the first thing that a user said in the transcript.
func (t *reading) firstText() string {
	for _, e := range t.request.Entries {
		if e.Role == conversation.RoleUser && e.Message != "" {
			return conversation.Excerpt(e.Text, 200)
		}
	}
	return ""
}

// change lets a delegate's later messages change what its first one makes it
// say. While the first program still has lines they change those; when it has
// said everything, its last line is said again with the change.
func (t *reading) change(first *program, changes []conversation.Entry) {
	texts := []string{}
	if first.vars["changes"] != "" {
		texts = append(texts, first.vars["changes"])
	}
	for _, e := range changes {
		texts = append(texts, strings.TrimSpace(e.Text))
		if !t.marks[lineMark(e.Message, 1)] {
			first.changed = append(first.changed, e.Message)
		}
	}
	first.vars["changes"] = ""
	if len(texts) > 0 {
		first.vars["changes"] = expand(t.script.changes, func(name string) (string, bool) {
			return strings.Join(texts, "; "), name == "text"
		})
	}
	if len(first.changed) == 0 || t.next(first) != nil {
		return
	}
	for i := len(first.actions) - 1; i >= 0; i-- {
		if last := first.actions[i]; uses(last.text, "changes") {
			newest := first.changed[len(first.changed)-1]
			last.line, last.modifier = 1, modifier{}
			t.programs = append(t.programs, &program{
				message: newest, at: first.at, actions: []action{last}, vars: first.vars, changed: first.changed,
			})
			return
		}
	}
}

// next returns the first action of a program that is still to be answered; nil = none.
func (t *reading) next(p *program) *action {
	for i := range p.actions {
		a := &p.actions[i]
		if a.verb == verbLoop || !t.marks[lineMark(p.message, a.line)] {
			return a
		}
	}
	return nil
}

// lineMark names a line of a message. Items carry it as their id, answers carry
// the marks of all their lines as response id.
func lineMark(message conversation.MessageID, line int) string {
	return string(message) + ":" + strconv.Itoa(line)
}

// itemID names an item: its line's mark, and a number if it is not the first one of the line.
func itemID(mark string, n int) string {
	if n == 0 {
		return mark
	}
	return mark + "." + strconv.Itoa(n)
}

// markOf returns the mark in an item's id; ok is false for ids of other models.
func markOf(id string) (mark string, ok bool) {
	message, line, ok := cutMark(id)
	if !ok {
		return "", false
	}
	line, _, _ = strings.Cut(line, ".")
	if _, err := strconv.Atoi(line); err != nil {
		return "", false
	}
	return message + ":" + line, true
}

func cutMark(mark string) (message, line string, ok bool) {
	i := strings.LastIndexByte(mark, ':')
	if i <= 0 {
		return "", "", false
	}
	return mark[:i], mark[i+1:], true
}
