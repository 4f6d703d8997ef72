package transcript

import (
	"fmt"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/author"
	"parley/conversation/policy"
	"parley/conversation/tokens"
)

// Transcript is the log in the form that a model sees: a cache of the shell, fed with
// every event in order, dropped when idle and rebuilt from records.
//
// Entries come into being when a step starts or finishes, so what a step's
// model call is shown is fixed from the step's start on, in every attempt:
//
//   - step_started: what came since the last one (parts of outside runtimes,
//     late results, answers, nudges), then the messages that it reads, verbatim
//     and in order;
//   - step_finished: the answer, and right behind it a result for each of its
//     calls. A result that is still to come stands as a placeholder until then.
//
// What a summary covers is replaced by it (compaction.go); the original request and
// the summary are pinned: they are never left out.
type Transcript struct {
	session                        conversation.SessionID // for the address of whole results; "" = not known
	limit                          int                    // bytes of a call's result
	fileText                       int                    // bytes that are shown of a file's text
	head                           conversation.Seq
	answered                       conversation.Seq // the last step_finished
	base                           conversation.Seq // what lies before was never added, or is summarised
	cleared                        conversation.Seq // what lies up to here is shown to its own task only
	fed                            bool
	entries                        []conversation.Entry // appended to; what a request was given is never written again
	traces                         []trace              // of the entry in the same place; never shared
	counts                         conversation.Counts  // of all entries
	fixed                          int                  // of the last request, beside the entries
	shown                          int                  // of the last request
	left                           int                  // entries that were left out of it
	shared                         bool
	voices                         author.Voices
	lastUser, lastName, lastHeader string                 // of the last message
	origin                         conversation.MessageID // the original request
	pinning                        map[conversation.MessageID]accepted
	pinned                         conversation.MessageID                          // the original request, while Pin looks for its text
	messages                       map[conversation.MessageID]accepted             // not read yet
	open                           map[conversation.TaskID][]openEntry             // read and not resolved
	news                           map[conversation.TaskID][]noted                 // for the task's next step
	reminded                       map[conversation.TaskID]conversation.StepNumber // the last step that a nudge opened
	numbered                       map[conversation.TaskID]int                     // messages that the task has read
	said                           map[conversation.TaskID][]said                  // shown while several messages were open
	alone                          map[conversation.TaskID]*alone                  // tasks whose model is asked for one message alone
	notes                          map[conversation.TaskID]string                  // the note of the open step
	judged                         map[conversation.TaskID]bool                    // the open step is another model's
	slots                          map[slotKey]*slot                               // results to come
	calls                          map[conversation.CallID]*openCall               // running calls and delegations
	asked                          map[conversation.QuestionID]*asked              // open questions of the session's own tasks
	running                        []conversation.CallID                           // the keys of calls, oldest first
	stopped                        map[conversation.TaskID][]conversation.Item     // tasks that are being cancelled, and what was seen of their open step
	ended                          map[conversation.TaskID]conversation.Seq        // tasks whose entries may be left out, and when they ended
	own                            map[conversation.TaskID]own                     // of tasks that have not ended
	trimAt                         int                                             // entries that there may be before the next trim
}

// accepted is a message that no step has read yet.
type accepted struct {
	text string
	seq  conversation.Seq
	from string // the header with its author
	free bool   // it came by a chat platform
	file []attached.File
}

// shown is the message's text, which cannot say what is attached to it.
func (m accepted) shown() string { return attached.Escape(m.text) }

// fromPlatform is true for what came by a chat platform.
func fromPlatform(v conversation.Via) bool {
	return v == conversation.ViaSlack || v == conversation.ViaDiscord || v == conversation.ViaTelegram
}

// trace holds the event, the size and the pin of an entry.
type trace struct {
	seq    conversation.Seq // of the event that made it; of a message, that it was accepted
	counts conversation.Counts
	pin    pinned
	note   bool   // of the open messages: it goes with its task
	from   string // the header of who said it; "" = no user did
}

// own is what is known of an open task's entries. None of them is left out before its
// end, so they are found from the newest one back, without a look at the whole history.
type own struct {
	entries int
	opaque  bool // some have what goes with the task
	notes   bool // some are notes, which go with it
}

type pinned uint8

const (
	pinNone pinned = iota
	pinOrigin
	pinSummary
)

// noted is an entry to come, and the event that made it.
type noted struct {
	seq    conversation.Seq
	entry  conversation.Entry
	from   string // the header of who said it; "" = no user did
	report bool   // of the triage agent
	closes bool   // a closing nudge, which lists the open messages itself
}

type openEntry struct {
	id     conversation.MessageID
	number int // by which the model may name it
	text   string
	seq    conversation.Seq        // that it was accepted
	read   conversation.Seq        // that it was read
	step   conversation.StepNumber // that has read it
}

// slotKey identifies a call's place: providers repeat their ids in other
// answers.
type slotKey struct {
	task conversation.TaskID
	call string // the provider's call id
}

// slot is the place of a call's result.
type slot struct {
	sealed bool // the next step has started: a delegation's answer comes as news
	jobs   []*openCall
}

type openCall struct {
	call      conversation.CallID
	modelCall string
	slot      *slot
	task      conversation.TaskID
	tool      string
	agent     conversation.AgentName
	result    string
	done      bool
}

type asked struct {
	task      conversation.TaskID
	modelCall string
	blocking  bool
}

// MaxEntries is the number of entries of ended tasks that a model is shown. As
// many parts of outside runtimes wait for the next step.
const MaxEntries = 300

// New makes an empty transcript that shows results of calls whole.
func New() *Transcript {
	return &Transcript{
		messages: map[conversation.MessageID]accepted{}, open: map[conversation.TaskID][]openEntry{}, news: map[conversation.TaskID][]noted{}, reminded: map[conversation.TaskID]conversation.StepNumber{},
		numbered: map[conversation.TaskID]int{}, said: map[conversation.TaskID][]said{}, alone: map[conversation.TaskID]*alone{}, notes: map[conversation.TaskID]string{}, judged: map[conversation.TaskID]bool{},
		slots: map[slotKey]*slot{}, calls: map[conversation.CallID]*openCall{}, asked: map[conversation.QuestionID]*asked{},
		stopped: map[conversation.TaskID][]conversation.Item{}, ended: map[conversation.TaskID]conversation.Seq{}, own: map[conversation.TaskID]own{},
		trimAt: 2 * MaxEntries,
	}
}

// Of makes an empty transcript that cuts the results of calls as the policy says.
func Of(key conversation.SessionKey, rules *policy.Rules) *Transcript {
	t := New()
	limits := rules.Policy.Context
	t.session, t.limit, t.fileText = key.Session, limits.ToolResult, limits.Files(limits.Budget).Text
	return t
}

// Head is the seq of the last event added.
func (t *Transcript) Head() conversation.Seq { return t.head }

// Add takes the next event; events of the past are ignored.
func (t *Transcript) Add(e conversation.Event) {
	if e.Seq <= t.head {
		return
	}
	if !t.fed {
		t.fed, t.base = true, max(t.base, e.Seq-1)
	}
	t.take(e)
}

// AddOwn takes, before the first Add, an event of a stretch of the log that lies
// before the window: one of these tasks is shown whole. What else the stretch holds
// is ignored, except that a message may have been accepted for another task.
func (t *Transcript) AddOwn(e conversation.Event, tasks []conversation.TaskID) {
	if t.fed || e.Seq <= t.head {
		return
	}
	switch e.Body.(type) {
	case conversation.MessageAccepted, conversation.MessageEdited:
		t.take(e)
	default:
		if slices.Contains(tasks, e.Task) {
			t.take(e)
		}
	}
}

func (t *Transcript) take(e conversation.Event) {
	t.head = e.Seq
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		if b.Via != conversation.ViaDelegation { // there the parent speaks for all
			t.voices.Say(uint64(e.Seq), string(b.Author))
		}
		t.messages[b.Message] = accepted{b.Text, e.Seq, t.header(b), fromPlatform(b.Via), b.Files} // an answer is resolved at once
	case conversation.MessageEdited:
		if m, waits := t.messages[b.Message]; waits {
			m.text = b.Text
			t.messages[b.Message] = m
		}
		t.dropReport()
	case conversation.MessageWithdrawn:
		t.dropReport()
	case conversation.MessageMoved:
		t.report(b.Report)
	case conversation.MessageResolved:
		delete(t.messages, b.Message)
		t.open[e.Task] = slices.DeleteFunc(t.open[e.Task], func(o openEntry) bool { return o.id == b.Message })
		t.attribute(e.Task, b.Message, b.Part)
		if a := t.alone[e.Task]; a != nil && a.asked == b.Message {
			a.end()
		}
	case conversation.TaskStatusChanged:
		if b.New.Ended() {
			t.endTask(e.Task)
		}
	case conversation.StepStarted:
		if b.Attempt == 1 {
			t.stepBegins(e.Seq)
			t.stepStarted(e.Task, b)
		}
	case conversation.StepFinished:
		if t.answered = e.Seq; b.Outcome == conversation.StepOK && !t.judged[e.Task] {
			t.stepFinished(e.Task, b)
		}
		delete(t.judged, e.Task)
	case conversation.Asked:
		if b.Delegation == "" && b.Approval == nil && b.Call == "" { // a tool tells what it was answered
			t.asked[b.Question] = &asked{task: e.Task, modelCall: b.ModelCall, blocking: b.Blocking}
		}
		if b.Approval != nil && b.Delegation == "" {
			t.startCall(&openCall{call: b.Approval.Call, modelCall: b.ModelCall, task: e.Task, tool: b.Approval.Tool})
		}
	case conversation.QuestionAnswered:
		text := attached.Escape(b.Text)
		t.questionEnded(b.Question, b.Message, t.messages[b.Message], text, fmt.Sprintf("[answer to question %s: %s]", b.Question, text))
	case conversation.QuestionClosed:
		news := ""
		if b.Reason == conversation.QuestionExpired {
			news = fmt.Sprintf("[question %s expired: no answer]", b.Question)
		}
		t.questionEnded(b.Question, "", accepted{}, "no answer", news)
	case conversation.ToolStarted:
		if c := t.calls[b.Call]; c == nil {
			t.startCall(&openCall{call: b.Call, modelCall: b.ModelCall, task: e.Task, tool: b.Tool})
		}
	case conversation.DelegationStarted:
		t.startCall(&openCall{call: b.Delegation, modelCall: b.ModelCall, task: e.Task, tool: conversation.ToolDelegate, agent: b.Agent})
	case conversation.ToolFinished:
		t.callEnded(b.Call, b.Summary)
	case conversation.DelegationFinished:
		text := b.Summary
		if b.Status != conversation.CallOK {
			text = strings.TrimSuffix(b.Status.String()+": "+b.Summary, ": ")
		}
		t.callEnded(b.Delegation, text)
	case conversation.CoverageNudge:
		t.nudged(e.Task, b)
	case conversation.RuntimeStatus:
		// No model is told of it.
	case conversation.ContextCleared:
		t.Clear(e.Seq)
	case conversation.ContextCompacted:
		t.compact(b)
	case conversation.TaskCancelling:
		t.stopped[e.Task] = nil
	case conversation.PartialResponse:
		t.noteSaid(e.Task, b.Part)
		if shown, stopped := t.stopped[e.Task]; stopped {
			t.stoppedText(e.Task, shown, b.Part)
		} else if b.Cut && e.Task != "" {
			t.tell(e.Task, conversation.Entry{Role: conversation.RoleUser, Task: e.Task, Text: goOnNote})
		} else {
			t.outsidePart(e.Task, b.Part)
		}
	case conversation.Response:
		if b.ResponseKind == conversation.ResponsePlain && !b.Promoted {
			t.outsidePart(e.Task, b.Part)
		}
	}
}

// stoppedText shows what had been seen of an answer that was stopped: no whole answer
// will come that would show it.
// Rule 7.10.
func (t *Transcript) stoppedText(task conversation.TaskID, shown []conversation.Item, p conversation.Part) {
	item := conversation.Item{Kind: conversation.ItemText, Text: p.Text}
	if p.Cut {
		item.Text += stoppedMark
	}
	t.stopped[task] = append(shown, item)
	if p.Cut { // the last one
		t.append(t.head, pinNone, "", conversation.Entry{Role: conversation.RoleAssistant, Task: task, Items: t.stopped[task]})
		t.stopped[task] = nil
	}
}

// goOnNote follows an answer that ended at the model's limit of tokens.
const goOnNote = "[your answer ended at its limit of length: go on exactly where it ended, and repeat nothing]"

// stoppedMark ends the text of an answer that a person has stopped.
const stoppedMark = "\n\n[stopped here by the user]"

// outsidePart shows what an outside runtime said; our own parts are in the
// answers that they came from.
func (t *Transcript) outsidePart(task conversation.TaskID, p conversation.Part) {
	if task == "" {
		t.tell(task, conversation.Entry{Role: conversation.RoleAssistant, Items: []conversation.Item{{Kind: conversation.ItemText, Text: p.Text}}})
	}
}

// tell notes an entry for the task's next step; "" = for the next step of any.
// What no task waits for is bounded, in number and as the window is: there may be
// no next step.
func (t *Transcript) tell(task conversation.TaskID, e conversation.Entry) { t.tellFrom(task, "", e) }

// tellFrom notes an entry that a user has said.
func (t *Transcript) tellFrom(task conversation.TaskID, from string, e conversation.Entry) {
	news := append(t.news[task], noted{seq: t.head, entry: e, from: from})
	if task == "" {
		news = t.inWindow(news)
	}
	t.news[task] = news
}

// inWindow leaves out of the parts of outside runtimes what lies too far back.
func (t *Transcript) inWindow(news []noted) []noted {
	for len(news) > MaxEntries || len(news) > 0 && news[0].seq+conversation.TranscriptWindow <= t.head {
		news = news[1:]
	}
	return news
}

func (t *Transcript) append(seq conversation.Seq, pin pinned, from string, e conversation.Entry) {
	e.Pinned, e.FileTokens = pin != pinNone, conversation.FileTokens(e.Files, t.fileText)
	if t.voices.Named {
		name(&e, from)
	}
	m := trace{seq: seq, counts: e.Counts(), pin: pin, from: from}
	t.entries, t.traces = append(t.entries, e), append(t.traces, m)
	t.counts = plus(t.counts, m.counts)
	if !t.over(e.Task) {
		mine := t.own[e.Task]
		mine.entries++
		mine.opaque = mine.opaque || slices.ContainsFunc(e.Items, endsWithTask)
		t.own[e.Task] = mine
	}
}

// recount counts an entry again whose text has changed.
func (t *Transcript) recount(i int) {
	now := t.entries[i].Counts()
	t.counts = plus(minus(t.counts, t.traces[i].counts), now)
	t.traces[i].counts = now
}

func plus(a, b conversation.Counts) conversation.Counts {
	return conversation.Counts{Tokens: a.Tokens + b.Tokens, Words: a.Words + b.Words}
}

func minus(a, b conversation.Counts) conversation.Counts {
	return conversation.Counts{Tokens: a.Tokens - b.Tokens, Words: a.Words - b.Words}
}

// ownFrom is the place of the first entry of an open task.
func (t *Transcript) ownFrom(task conversation.TaskID) int {
	rest := t.own[task].entries
	if rest == 0 {
		return len(t.entries)
	}
	for i := len(t.entries) - 1; i > 0; i-- {
		if t.entries[i].Task != task {
			continue
		}
		if rest--; rest == 0 {
			return i
		}
	}
	return 0
}

// endsWithTask is true for an item with something that its provider wants back within the
// task only.
func endsWithTask(item conversation.Item) bool { return item.Opaque != "" && !item.OpaqueStays }

// Pin takes, before all others, the events of the original request, from accepted to
// read: of all that they tell, that request alone is shown.
func (t *Transcript) Pin(e conversation.Event) {
	if t.fed || t.origin != "" {
		return
	}
	if t.pinning == nil {
		t.pinning = map[conversation.MessageID]accepted{}
	}
	switch b := e.Body.(type) {
	case conversation.MessageAccepted:
		t.pinning[b.Message] = accepted{b.Text, e.Seq, t.header(b), fromPlatform(b.Via), b.Files}
		if t.pinned == "" {
			t.pinned = b.Message
		}
	case conversation.MessageEdited:
		m := t.pinning[b.Message]
		m.text = b.Text
		t.pinning[b.Message] = m
	case conversation.StepStarted:
		if !slices.Contains(b.Read, t.pinned) {
			return
		}
		t.origin = t.pinned
		t.ended[e.Task] = e.Seq // a task whose request is pinned like this has ended
		m := t.pinning[t.origin]
		t.append(e.Seq, pinOrigin, m.from, conversation.Entry{Role: conversation.RoleUser, Task: e.Task, Message: t.origin, Text: m.shown(), Files: m.file, Free: m.free})
		t.pinning = nil
	}
}

func (t *Transcript) stepStarted(task conversation.TaskID, b conversation.StepStarted) {
	for key, sl := range t.slots {
		if key.task == task {
			sl.sealed = true
		}
	}
	t.news[""] = t.inWindow(t.news[""])
	closes := false
	for _, of := range []conversation.TaskID{"", task} { // "": what outside runtimes said meanwhile
		for _, n := range t.news[of] {
			if len(n.entry.Nudge) > 0 {
				t.reminded[task] = b.Step
			}
			closes = closes || n.closes
			t.append(n.seq, pinNone, n.from, n.entry)
		}
		delete(t.news, of)
	}
	if len(b.Read) > 0 {
		delete(t.alone, task)
	}
	for _, id := range b.Read {
		t.numbered[task]++
		m, known := t.messages[id]
		if !known {
			continue // before the window
		}
		delete(t.messages, id)
		if id == t.origin {
			continue // it was pinned
		}
		pin := pinNone
		if t.origin == "" && m.seq > t.cleared && (b.Step == 1 || t.cleared > 0) {
			pin, t.origin = pinOrigin, id
		}
		t.append(m.seq, pin, m.from, conversation.Entry{Role: conversation.RoleUser, Task: task, Message: id, Text: m.shown(), Files: m.file, Free: m.free})
		t.open[task] = append(t.open[task], openEntry{id, t.numbered[task], m.text, m.seq, t.head, b.Step})
	}
	delete(t.notes, task) // of a step that said nothing
	if note := t.note(task, b.Step); note != "" && !closes {
		t.notes[task] = note
	}
	t.trim()
}

// Rule 2.15.
func (t *Transcript) stepFinished(task conversation.TaskID, b conversation.StepFinished) {
	// Blank text says nothing, and there are providers that refuse it.
	items := slices.DeleteFunc(slices.Clone(b.Items), func(i conversation.Item) bool { return i.Kind == conversation.ItemText && conversation.IsBlank(i.Text) })
	if len(items) == 0 && b.ResponseID == "" {
		return
	}
	t.keepNote(task)
	t.append(t.head, pinNone, "", conversation.Entry{Role: conversation.RoleAssistant, Task: task, ResponseID: b.ResponseID, Items: items})
	for _, item := range items {
		if item.Kind != conversation.ItemCall {
			continue
		}
		entry := conversation.Entry{Role: conversation.RoleTool, Task: task, CallID: item.ID, Text: conversation.NoResult}
		for _, r := range b.Results {
			if r.ID == item.ID {
				entry.Text = r.Text
			}
		}
		t.append(t.head, pinNone, "", entry)
		if entry.Text == conversation.NoResult {
			t.slots[slotKey{task, item.ID}] = &slot{}
		}
	}
}

// setResult fills a call's place: the newest of its task with that id.
// Rule 2.15.
func (t *Transcript) setResult(task conversation.TaskID, modelCall, from, text string, files []attached.File) {
	for i := len(t.entries) - 1; i >= 0; i-- {
		if e := &t.entries[i]; e.Role == conversation.RoleTool && e.Task == task && e.CallID == modelCall {
			if t.shared { // a request still shows the old one
				t.entries, t.shared = slices.Clone(t.entries), false
			}
			t.entries[i].Text, t.traces[i].from = text, from
			t.entries[i].Files, t.entries[i].FileTokens = files, conversation.FileTokens(files, t.fileText)
			if t.voices.Named {
				name(&t.entries[i], from)
			}
			t.recount(i)
			return
		}
	}
}

func (t *Transcript) startCall(c *openCall) {
	t.calls[c.call] = c
	t.running = append(t.running, c.call)
	if sl := t.slots[slotKey{c.task, c.modelCall}]; sl != nil {
		c.slot, sl.jobs = sl, append(sl.jobs, c)
		t.setResult(c.task, c.modelCall, "", sl.text(), nil)
	}
}

// Rule 2.16.
func (t *Transcript) callEnded(id conversation.CallID, result string) {
	c := t.calls[id]
	if c == nil {
		return
	}
	delete(t.calls, id)
	t.running = slices.DeleteFunc(t.running, func(other conversation.CallID) bool { return other == id })
	result = cutResult(t.session, id, result, t.limit)
	c.done, c.result = true, result
	sl := c.slot
	if sl != nil && !sl.sealed {
		t.setResult(c.task, c.modelCall, "", sl.text(), nil)
	} else {
		t.tell(c.task, conversation.Entry{
			Role: conversation.RoleUser, Task: c.task, Delegation: id, Text: fmt.Sprintf("[delegation %s (%s) finished: %s]", id, c.agent, result),
		})
	}
	key := slotKey{c.task, c.modelCall}
	if sl != nil && t.slots[key] == sl && !slices.ContainsFunc(sl.jobs, func(j *openCall) bool { return !j.done }) {
		delete(t.slots, key)
	}
}

// text is a call's result as far as it is known.
func (sl *slot) text() string {
	lines := make([]string, 0, len(sl.jobs))
	for _, c := range sl.jobs {
		switch {
		case !c.done && c.agent != "":
			lines = append(lines, fmt.Sprintf("delegation %s (%s) started; its result follows", c.call, c.agent))
		case !c.done:
			lines = append(lines, conversation.NoResult)
		case len(sl.jobs) > 1:
			lines = append(lines, fmt.Sprintf("[%s %s] %s", c.call, c.agent, c.result))
		default:
			lines = append(lines, c.result)
		}
	}
	return strings.Join(lines, "\n")
}

// questionEnded pairs a blocking question's call with its answer; the answer to
// a non-blocking one is news, unless the model gave it by a message that it had
// read.
func (t *Transcript) questionEnded(id conversation.QuestionID, by conversation.MessageID, m accepted, result, news string) {
	q := t.asked[id]
	if q == nil {
		return
	}
	delete(t.asked, id)
	if q.blocking && q.modelCall == "" { // asked in plain text
		if news != "" {
			t.tellFrom(q.task, m.from, conversation.Entry{Role: conversation.RoleUser, Task: q.task, Question: id, Text: result, Files: m.file})
		}
		return
	}
	if q.blocking {
		t.setResult(q.task, q.modelCall, m.from, result, m.file)
		delete(t.slots, slotKey{q.task, q.modelCall})
		return
	}
	read := slices.ContainsFunc(t.open[q.task], func(o openEntry) bool { return o.id == by })
	if news != "" && !read {
		t.tellFrom(q.task, m.from, conversation.Entry{Role: conversation.RoleUser, Task: q.task, Question: id, CallID: q.modelCall, Text: news, Files: m.file})
	}
}

func (t *Transcript) endTask(task conversation.TaskID) {
	delete(t.open, task)
	delete(t.news, task)
	delete(t.stopped, task)
	delete(t.reminded, task)
	delete(t.numbered, task)
	delete(t.said, task)
	delete(t.alone, task)
	delete(t.notes, task)
	delete(t.judged, task)
	for key := range t.slots {
		if key.task == task {
			delete(t.slots, key)
		}
	}
	t.ended[task] = t.head
	t.dropCleared()
	t.dropNotes(task)
	t.dropOpaque(task)
	delete(t.own, task)
	if len(t.ended) > len(t.entries)+MaxEntries {
		t.forget() // tasks end without having been shown, too
	}
}

// dropOpaque lets go of what providers wanted back within the task only.
func (t *Transcript) dropOpaque(task conversation.TaskID) {
	if !t.own[task].opaque {
		return
	}
	for i := t.ownFrom(task); i < len(t.entries); i++ {
		if e := &t.entries[i]; e.Task != task || !slices.ContainsFunc(e.Items, endsWithTask) {
			continue
		}
		if t.shared { // a request still shows it
			t.entries, t.shared = slices.Clone(t.entries), false
		}
		e := &t.entries[i]
		e.Items = slices.Clone(e.Items)
		for k := range e.Items {
			if endsWithTask(e.Items[k]) {
				e.Items[k].Opaque, e.Items[k].OpaqueBy = "", ""
			}
		}
		t.recount(i)
	}
}

// trim leaves out the oldest entries of ended tasks, in whole units: it cuts
// before a message, never between a call and its result. Pinned entries stay, and
// so do those of tasks that are open, wherever they stand. It bounds the memory in
// use; an entry that it drops before a summary covers it is only in the log.
func (t *Transcript) trim() {
	if len(t.entries) <= t.trimAt {
		return
	}
	cut, newer := 0, 0 // newer: entries of ended tasks from the cut on
	for i := len(t.entries) - 1; i > 0 && cut == 0; i-- {
		if !t.mayGo(i) {
			continue
		}
		newer++
		if e := &t.entries[i]; newer >= MaxEntries && e.Role == conversation.RoleUser && e.Message != "" {
			cut = i
		}
	}
	entries, ms := make([]conversation.Entry, 0, len(t.entries)), make([]trace, 0, len(t.entries))
	for i := range t.entries {
		if i >= cut || !t.mayGo(i) {
			entries, ms = append(entries, t.entries[i]), append(ms, t.traces[i])
		} else {
			t.counts = minus(t.counts, t.traces[i].counts)
		}
	}
	t.entries, t.traces, t.shared = entries, ms, false
	// What stays of open tasks is not looked through again for each new entry.
	t.trimAt = max(2*MaxEntries, len(entries)+MaxEntries)
	t.forget()
}

// mayGo is true for an entry that may be left out: it is not pinned, and its task has ended.
func (t *Transcript) mayGo(i int) bool {
	return t.traces[i].pin == pinNone && t.over(t.entries[i].Task)
}

// forget drops ended tasks of which nothing is left to be shown.
func (t *Transcript) forget() {
	present := map[conversation.TaskID]conversation.Seq{}
	for _, e := range t.entries {
		if end, ended := t.ended[e.Task]; ended {
			present[e.Task] = end
		}
	}
	t.ended = present
}

// Request makes the request of an AskModel effect. The step must have
// been started by the events added so far; what was added since does not show,
// except that a summary may have come, which is of other tasks. A request that is
// over the budget is shown less: see fit.
func (t *Transcript) Request(key conversation.SessionKey, rules *policy.Rules, ask conversation.AskModel) conversation.Request {
	return t.RequestWith(key, rules, nil, ask)
}

// RequestWith is Request for a session that brings something of its own; nil = nothing. It
// is what the session's policies say now: a transcript may begin after they were set.
func (t *Transcript) RequestWith(key conversation.SessionKey, rules *policy.Rules, own *policy.Own, ask conversation.AskModel) conversation.Request {
	if ask.Form == conversation.NudgeJudged {
		return t.judging(key, rules, ask)
	}
	profile := rules.Agent(ask.Agent)
	t.shared = true
	r := conversation.Request{
		Session: key.Session, Task: ask.Task, Agent: ask.Agent, Depth: key.Session.Depth(), System: profile.Prompt,
		Step: ask.Step, Attempt: ask.Attempt, WrapUp: ask.WrapUp, Stream: true,
		Open: t.openOf(ask.Task),
	}
	for _, id := range t.running {
		if c := t.calls[id]; c.task == ask.Task {
			r.Running = append(r.Running, conversation.RunningCall{Call: id, ID: c.modelCall, Tool: c.tool, Agent: c.agent})
		}
	}
	always := own.Beside(rules.AlwaysOf(ask.Agent, r.Depth, ToolsFor), profile)
	switch r.Tools = always.Tools; {
	case ask.Form == conversation.NudgeClosing:
		r.MustCall = true
		r.Tools, r.Forbidden = closingTools(always.Tools, t.open[ask.Task], t.said[ask.Task])
	case ask.WrapUp:
		r.Tools, r.Forbidden = nil, always.Tools
		r.Last = append(r.Last, conversation.Entry{Role: conversation.RoleUser, Task: ask.Task, Text: "[wrap up: this is the last step of the task. Say in one answer what was done and what is left.]"})
	}
	r.Note = t.notes[ask.Task]
	if r.Named = t.voices.Named; r.Named && r.System != "" {
		r.System += whoSpeaks
	}
	if own != nil {
		r.System = withWishes(r.System, own.Instructions)
	}
	t.fixed = always.Tokens + tokens.Of(r.System) - tokens.Of(profile.Prompt) + conversation.EntriesTokens(r.Last) + tokens.Of(r.Note)
	limits, small := rules.ContextOf(ask.Agent)
	if r.Entries = t.fit(ask.Task, limits.Budget, small); len(r.Entries) > 0 && &r.Entries[0] == &t.entries[0] && len(r.Entries) == len(t.entries) {
		r.Own, r.Counted = t.ownFrom(ask.Task), t.counts
	}
	return r
}
