package chat

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	parley "parley/clients/go"
)

// model is what the terminal shows. It changes in Update only, and asks the server
// for things by commands.
type model struct {
	actions actions
	session string
	title   string
	user    string

	rows      []*row
	head      uint64                         // of the follow: what is open up to there is known from its state
	texts     map[string]string              // of messages, whole
	replied   map[string]bool                // messages that a part is shown as the reply to
	attached  map[string][]parley.Attachment // by message
	drafts    parley.Drafts
	writing   map[string]*writing // how they are shown, by draft
	waiting   []parley.Waiting    // in their order; Excerpt is the whole text where it is known
	questions []parley.Question   // without those of results
	results   callers             // what a program is asked that brought tools
	chosen    string              // by Tab: the question that Enter answers; "" = see target
	looks     map[string]*look    // at approvals, by question
	task      string              // the one that runs
	doing     string              // what it does, in a few words
	status    string              // of the connection; "" = fine
	notice    string
	sessions  []parley.Summary // of the last /sessions
	outgoing  []outgoing

	files   []parley.Attachment // that go with the next message
	input   editor
	editing string // the message whose text is in the input
	args    string // the question whose arguments are in the input
	shown   string // these, as they were put there
	aim     string // the question that Enter answered when the line was begun
	armed   bool   // the next Ctrl+C leaves

	held              bool // the transcript stays where it was scrolled to
	heldRow, heldLine int  // there: the line at the top of the screen

	width, height int
	err           error
}

func newModel(a actions, session string) model {
	return model{actions: a, session: session, replied: map[string]bool{}, attached: map[string][]parley.Attachment{}, writing: map[string]*writing{}, looks: map[string]*look{}, texts: map[string]string{}, width: 80, height: 24}
}

func (m model) Init() tea.Cmd { return nil }

func (m model) Update(msg tea.Msg) (tea.Model, tea.Cmd) {
	begins, aim := m.input.empty(), m.targetID()
	next, cmd := m.update(msg)
	m = next.(model)
	if begins {
		m.aim = aim
	}
	m.look()
	return m, cmd
}

func (m model) update(msg tea.Msg) (tea.Model, tea.Cmd) {
	switch msg := msg.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = max(msg.Width, 10), max(msg.Height, 5)
	case eventMsg:
		if msg.Session == m.session { // else it is one of the session before
			m.apply(parley.Event(msg))
		}
	case connectionMsg:
		m.connection(parley.Connection(msg))
	case noticeMsg:
		m.notice = line(string(msg))
	case sentMsg:
		m.arrived(msg.id, msg.why)
	case attachedMsg:
		m.files = append(m.files, msg...)
		if m.notice == uploading {
			m.notice = ""
		}
	case endedMsg:
		if msg.session == m.session {
			m.err = msg.err
			return m, tea.Quit
		}
	case openedMsg:
		fresh := newModel(m.actions, string(msg))
		fresh.width, fresh.height, fresh.user, fresh.status, fresh.outgoing = m.width, m.height, m.user, m.status, m.outgoing
		if m.editing == "" && m.args == "" { // typed since; these belong to the session before
			fresh.input = m.input
		}
		m.actions.follow(fresh.session)
		return fresh, nil
	case madeMsg:
		if msg.name == m.session {
			m.session = msg.session
			m.actions.follow(m.session)
		}
	case listMsg:
		m.list(msg)
	case tea.PasteMsg:
		m.input.insert(pasted(msg.Content))
	case tea.KeyPressMsg:
		return m.key(msg)
	}
	return m, nil
}

func (m *model) connection(c parley.Connection) {
	switch {
	case c.Up:
		m.status, m.user = "", c.Hello.User
	case c.Final:
		m.err = c.Err
	default:
		m.status = fmt.Sprintf("no connection; the next attempt is in %.0f s at most", c.RetryIn.Seconds()+1)
	}
}

func (m *model) add(kind, id, text string) {
	m.rows = append(m.rows, newRow(kind, id, text))
}

func (m *model) apply(e parley.Event) {
	m.drafts.Apply(e)
	m.tell(e)
	if e.Seq == 0 || e.Seq > m.head { // else the state of the follow knows it
		m.track(e)
	}
}

// tell writes an event into the transcript.
func (m *model) tell(e parley.Event) {
	switch b := e.Body.(type) {
	case *parley.Followed:
		if b.Again && !b.Resumed {
			m.rows, m.held = nil, false
			clear(m.texts)
			clear(m.replied)
			m.add("note", "", "the server has another log of this session (restored?): it is shown anew")
		}
	case *parley.Synced: // of open questions that are older than what is shown
		for i := range m.questions {
			m.ask(&m.questions[i])
		}
	case *parley.MessageAccepted:
		kind := "you"
		if m.user != "" && b.Author != m.user {
			kind = "other"
		}
		text := b.Text
		if words, is := verdict(text); is && b.Question != "" {
			text = words
		}
		if kind == "other" {
			name := b.Name
			if name == "" {
				name = b.Author
			}
			text = line(name) + ": " + text
		}
		m.add(kind, b.Message, withFiles(text, b.Attachments))
		if len(b.Attachments) > 0 {
			m.attached[b.Message] = b.Attachments
		}
		m.learn(b.Message, b.Text)
	case *parley.MessageEdited:
		if r := m.find(b.Message); r != nil {
			r.change(withFiles(b.Text, m.attached[b.Message]))
		}
		m.learn(b.Message, b.Text)
	case *parley.MessageResolved:
		if _, known := m.texts[b.Message]; b.How == "unanswered" && known && !m.replied[b.Message] { // of an older one its reply may be older, too
			m.add("note", noAnswer+b.Message, "the message got no answer")
		}
		if word := map[string]string{"failed": "failed", "cancelled": "was stopped", "withdrawn": "was withdrawn"}[b.How]; word != "" {
			m.add("note", "", "the message "+word)
		}
	case *parley.TaskStatus:
		if b.NewStatus == "ERROR" && b.Error != nil {
			m.add("note", "", "failed: "+b.Error.Message)
		}
	case *parley.PartialResponse:
		m.said(b.Part)
	case *parley.Response:
		m.said(b.Part)
	case *parley.ToolStarted:
		m.results.started(b)
	case *parley.ToolFinished:
		m.results.finished(b)
	case *parley.Question:
		if m.results.asked(b) {
			m.add("note", "", m.results.note(b))
			return
		}
		m.ask(b)
	case *parley.ContextCleared:
		m.add("note", "", "from here on models do not see what was before")
	case *parley.SessionClosed:
		m.add("note", "", "the session is closed: it takes no more messages")
	case *parley.Gone:
		m.add("note", "", "the session was erased; /new opens another one")
	}
}

// track keeps what is open.
func (m *model) track(e parley.Event) {
	switch b := e.Body.(type) {
	case *parley.Followed:
		m.status, m.head, m.title = "", b.Head, line(b.State.Title)
		m.open(b.State)
	case *parley.SessionUpdated:
		if b.Title != nil {
			m.title = line(*b.Title)
		}
	case *parley.Interrupted:
		m.status = "the connection is lost; connecting again"
	case *parley.MessageAccepted:
		m.arrived(b.ClientMsgID, "")
		if b.Disposition != "answered" {
			m.wait(parley.Waiting{Message: b.Message, Task: e.Task, Author: b.Author, Excerpt: b.Text})
		}
	case *parley.MessageMoved:
		m.move(b.Message, b.Before)
	case *parley.MessageWithdrawn:
		m.unwait(b.Message)
	case *parley.MessageResolved:
		m.unwait(b.Message)
	case *parley.StepStarted:
		for _, id := range b.Read {
			m.unwait(id)
		}
		m.doing = line(b.Agent) + " thinks"
	case *parley.ToolStarted:
		m.doing = line(b.Tool) + " runs"
	case *parley.DelegationStarted:
		m.doing = line(b.Agent) + " works on a part of it"
	case *parley.TaskStatus:
		switch {
		case b.NewStatus == "RUNNING":
			m.task = b.Task
		case m.task == b.Task || m.task == "":
			m.task, m.doing = "", ""
		}
	case *parley.Question:
		m.unask(b.ID)
		if !m.results.asked(b) {
			m.questions = append(m.questions, *b)
		}
	case *parley.QuestionAnswered:
		m.unask(b.Question)
	case *parley.QuestionClosed:
		m.unask(b.Question)
	}
}

// open takes what is open from the state of a follow. It has the beginnings of texts
// only: those that came as events stay.
func (m *model) open(state parley.State) {
	m.task = ""
	for _, t := range state.Tasks {
		if t.Status == "RUNNING" {
			m.task = t.Task
		}
	}
	before := m.waiting
	m.waiting = slices.Clone(state.Inbox)
	for i, w := range m.waiting {
		if text, known := m.texts[w.Message]; known {
			m.waiting[i].Excerpt = text
		}
	}
	for _, w := range before {
		if !slices.ContainsFunc(m.waiting, func(now parley.Waiting) bool { return now.Message == w.Message }) {
			m.unwait(w.Message)
		}
	}
	asked := make([]parley.Question, 0, len(state.Questions))
	m.results.open(state)
	for _, q := range state.Questions {
		if !m.results.asked(&q.Question) {
			asked = append(asked, q.Question)
		}
	}
	for _, q := range m.questions {
		if !slices.ContainsFunc(asked, func(now parley.Question) bool { return now.ID == q.ID }) {
			m.unask(q.ID)
		}
	}
	m.questions = asked
}

// wait puts a message behind the others of its task; those of the task that runs come first.
func (m *model) wait(w parley.Waiting) {
	m.unwait(w.Message)
	at := len(m.waiting)
	for i, other := range m.waiting {
		switch {
		case other.Task == w.Task:
			at = i + 1
		case w.Task == m.task && other.Task != m.task && at == len(m.waiting):
			at = i
		}
	}
	m.waiting = slices.Insert(slices.Clone(m.waiting), at, w)
}

// learn keeps the whole text of a message.
func (m *model) learn(message, text string) {
	m.texts[message] = text
	for i := range m.waiting {
		if m.waiting[i].Message == message {
			m.waiting[i].Excerpt = text
		}
	}
}

// whole says whether a waiting message is known with its whole text.
func (m *model) whole(w parley.Waiting) bool {
	_, known := m.texts[w.Message]
	return known || !strings.HasSuffix(w.Excerpt, "…")
}

// move puts a waiting message before another one, "" = to the front; a task that has
// not begun goes there with all its messages. So the server does it.
func (m *model) move(message, before string) {
	task := func(id string) string {
		for _, w := range m.waiting {
			if w.Message == id {
				return w.Task
			}
		}
		return ""
	}
	mine, other := task(message), task(before)
	if !slices.ContainsFunc(m.waiting, func(w parley.Waiting) bool { return w.Message == message }) {
		return
	}
	put := func(which, place func(parley.Waiting) bool) {
		var moved, rest []parley.Waiting
		for _, w := range m.waiting {
			if which(w) {
				moved = append(moved, w)
			} else {
				rest = append(rest, w)
			}
		}
		if at := slices.IndexFunc(rest, place); at >= 0 {
			m.waiting = slices.Insert(rest, at, moved...)
		} else {
			m.waiting = append(rest, moved...)
		}
	}
	if before == "" || mine == other {
		put(func(w parley.Waiting) bool { return w.Message == message },
			func(w parley.Waiting) bool { return w.Task == mine && (before == "" || w.Message == before) })
	}
	if mine != m.task && mine != other {
		put(func(w parley.Waiting) bool { return w.Task == mine },
			func(w parley.Waiting) bool {
				return before == "" && w.Task != m.task || before != "" && w.Task == other
			})
	}
}

// find is the row of a message; nil = it has none.
func (m *model) find(message string) *row {
	for _, r := range m.rows {
		if r.id == message && r.kind != "question" {
			return r
		}
	}
	return nil
}

// noAnswer begins the id of the note that a message got no answer.
const noAnswer = "no answer to "

// said shows a part. One that becomes the last of its task comes again, under its name.
func (m *model) said(p parley.Part) {
	m.replied[p.InReplyTo] = true
	note := noAnswer + p.InReplyTo
	if at := slices.IndexFunc(m.rows, func(r *row) bool { return r.id == note }); at >= 0 {
		m.rows = slices.Delete(slices.Clone(m.rows), at, at+1)
		if at < m.heldRow {
			m.heldRow--
		}
	}
	text := p.Text
	if p.Cut {
		text += "\n(it ended before its end)"
	}
	if r := m.find(p.Message); r != nil && p.Message != "" {
		r.change(text)
		return
	}
	m.add("agent", p.Message, text)
}

func (m *model) unwait(id string) {
	m.waiting = slices.DeleteFunc(slices.Clone(m.waiting), func(w parley.Waiting) bool { return w.Message == id })
	if m.editing == id {
		m.editing, m.notice = "", "it was read already: Enter sends the text as another message"
	}
}

func (m *model) list(rows []parley.Summary) {
	m.sessions = rows
	var b strings.Builder
	for i, s := range rows {
		title := line(s.Title)
		if title == "" {
			title = "(no title)"
		}
		fmt.Fprintf(&b, "%2d. %s  %s\n", i+1, line(s.Session), title)
	}
	b.WriteString("/open 1 opens the first one")
	m.add("note", "", b.String())
}

// key does what a key means now.
func (m model) key(k tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	name := k.String()
	switch name {
	case "pgup", "pgdown":
		m.turn(name)
		return m, nil
	case "ctrl+c":
	default:
		m.armed, m.notice = false, ""
	}
	switch name {
	case "ctrl+c":
		if m.armed || m.err != nil {
			return m, tea.Quit
		}
		m.armed, m.notice = true, ""
		if m.task == "" {
			return m, nil
		}
		m.notice = "stopping; who leaves before lets the work go on at the server"
		return m, m.actions.stop()
	case "ctrl+d":
		if m.input.empty() {
			return m, tea.Quit
		}
	case "esc":
		m.editing, m.args, m.files = "", "", nil
		m.input.set("")
	case "enter":
		return m.enter()
	case "tab":
		m.choose()
	case "alt+enter", "shift+enter", "ctrl+j":
		m.input.insert("\n")
	case "up":
		if m.input.empty() {
			for i := len(m.waiting) - 1; i >= 0; i-- {
				if w := m.waiting[i]; m.user == "" || w.Author == m.user {
					if !m.whole(w) {
						m.notice = fmt.Sprintf("only the beginning of this text is known here: /edit %d TEXT gives it another one", i+1)
						break
					}
					m.editing = w.Message
					m.input.set(Clean(w.Excerpt))
					m.notice = "editing what waits: Enter changes it, Esc leaves it"
					break
				}
			}
		}
	default:
		m.input.key(name, Clean(k.Text))
	}
	return m, nil
}

// enter does what stands in the input.
func (m model) enter() (tea.Model, tea.Cmd) {
	text := strings.TrimSpace(m.input.text())
	if text == "" && (len(m.files) == 0 || m.editing != "" || m.args != "") {
		return m, nil
	}
	if m.args != "" && !json.Valid([]byte(text)) {
		m.notice = "this is no JSON"
		return m, nil
	}
	m.held = false
	slash := strings.HasPrefix(text, "/")
	if m.args == "" && m.editing == "" && !slash {
		if next, cmd, taken := m.answer(text); taken {
			return next, cmd
		}
	}
	m.input.set("")
	switch {
	case m.args != "":
		question := m.args
		m.args = ""
		if text == m.shown { // the call as it is, not our copy of it
			text = ""
		}
		return m.approve(question, true, text)
	case m.editing != "":
		message := m.editing
		m.editing = ""
		return m.edit(message, text)
	case strings.HasPrefix(text, "//"): // a message that begins with a slash
		return m.say(text[1:])
	case slash:
		return m.command(text)
	}
	return m.say(text)
}

const uploading = "uploading"

const help = `Enter sends, also while an answer is written. Alt+Enter begins a line. Page Up and Page Down scroll.
1 to 9 and Enter choose an answer, Tab the question. y and Enter approve a call, n refuses it, e changes it first.
Up, in an empty line, edits the newest message that waits. Ctrl+C stops what runs; twice leaves.
/new            another session            /sessions       the newest ones
/open ID        one of them, or its number /stop           stop what runs
/edit N TEXT    change what waits          /withdraw N     take it back
/clear          models forget what was     /say TEXT       a message, not the answer to the question
/attach FILE    a file for the next message; Esc takes the files away again
/quit           leave; work goes on at the server
A scripted demo model has commands of its own: begin those with two slashes, //say hello.`

// command does what a line that begins with a slash says.
func (m model) command(text string) (tea.Model, tea.Cmd) {
	name, rest, _ := strings.Cut(text, " ")
	rest = strings.TrimSpace(rest)
	switch name {
	case "/help":
		m.add("note", "", help)
	case "/quit", "/exit":
		return m, tea.Quit
	case "/new":
		return m, m.actions.open("")
	case "/sessions":
		return m, m.actions.list()
	case "/open":
		if n, err := strconv.Atoi(rest); err == nil && n >= 1 && n <= len(m.sessions) {
			rest = m.sessions[n-1].Session
		}
		if rest == "" {
			m.notice = "/open needs a session; /sessions shows them"
			return m, nil
		}
		return m, m.actions.open(rest)
	case "/stop":
		return m, m.actions.stop()
	case "/clear":
		return m, m.actions.clear()
	case "/say":
		if rest != "" {
			return m.say(rest)
		}
	case "/attach":
		if rest == "" {
			m.notice = "/attach needs a file"
			return m, nil
		}
		m.notice = uploading
		return m, m.actions.attach(rest)
	case "/edit", "/withdraw":
		number, words, _ := strings.Cut(rest, " ")
		n, err := strconv.Atoi(number)
		if err != nil || n < 1 || n > len(m.waiting) {
			m.notice = "no message with this number waits"
			return m, nil
		}
		if name == "/withdraw" {
			return m, m.actions.withdraw(m.waiting[n-1].Message)
		}
		if strings.TrimSpace(words) == "" {
			m.notice = "/edit needs a number and the new text"
			return m, nil
		}
		return m.edit(m.waiting[n-1].Message, strings.TrimSpace(words))
	default:
		m.notice = "there is no command " + name + "; /help shows them, and two slashes begin a message with one"
		m.input.set(text)
	}
	return m, nil
}
