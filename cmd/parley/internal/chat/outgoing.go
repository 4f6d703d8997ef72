package chat

import (
	"crypto/rand"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"

	parley "parley/clients/go"
)

// outgoing is what a person has sent and the server has not confirmed. It is shown, it
// comes back when it is refused, and who leaves before is told what it was.
type outgoing struct {
	id    string
	text  string
	files []parley.Attachment

	question string // whose call text are the arguments of; "" = it is none of these
	message  string // that text is the new one of
}

// shown is it on one line.
func (o outgoing) shown() string {
	text := line(withFiles(o.text, o.files))
	switch {
	case o.question != "":
		return "approved with " + text
	case o.message != "":
		return "changed to: " + text
	}
	return text
}

// sentMsg is the end of something outgoing; why is "" if the server has it.
type sentMsg struct{ id, why string }

// out keeps something until its end is known, and names it.
func (m *model) out(o outgoing) string {
	o.id = rand.Text()
	m.outgoing = append(slices.Clone(m.outgoing), o)
	return o.id
}

// arrived takes away what the server has, or brings back what it has refused.
func (m *model) arrived(id, why string) {
	i := slices.IndexFunc(m.outgoing, func(o outgoing) bool { return o.id == id })
	if i < 0 {
		return
	}
	o := m.outgoing[i]
	m.outgoing = slices.Delete(slices.Clone(m.outgoing), i, i+1)
	if why == "" {
		return
	}
	if !m.input.empty() || m.editing != "" { // something else is typed meanwhile
		m.add("note", "", "not sent: "+why+"\n"+withFiles(o.text, o.files))
		m.files = append(m.files, o.files...)
		return
	}
	m.add("note", "", "not sent: "+why)
	m.files = append(m.files, o.files...)
	switch {
	case o.question != "" && !slices.ContainsFunc(m.questions, func(q parley.Question) bool { return q.ID == o.question }):
		return // arguments are of no use without their question
	case o.question != "":
		m.args, m.shown = o.question, "" // what was refused is not the call as it is
	case slices.ContainsFunc(m.waiting, func(w parley.Waiting) bool { return w.Message == o.message }):
		m.editing = o.message
	}
	m.input.set(Clean(o.text))
}

// say sends a message, with the files that wait for it.
func (m model) say(text string) (tea.Model, tea.Cmd) {
	files := m.files
	m.files = nil
	id := m.out(outgoing{text: text, files: files})
	return m, m.actions.say(parley.Message{ClientMsgID: id, Text: text, Attachments: files})
}

// reply answers a question.
func (m model) reply(question, text string) (tea.Model, tea.Cmd) {
	id := m.out(outgoing{text: text})
	return m, m.actions.say(parley.Message{ClientMsgID: id, Question: question, Text: text})
}

// approve allows a call, with args instead of its own if they are not "", or refuses it.
func (m model) approve(question string, yes bool, args string) (tea.Model, tea.Cmd) {
	o := outgoing{text: args, question: question}
	if args == "" {
		o = outgoing{text: map[bool]string{true: "yes", false: "no"}[yes]}
	}
	return m, m.actions.approve(m.out(o), question, yes, args)
}

// edit gives a waiting message another text.
func (m model) edit(message, text string) (tea.Model, tea.Cmd) {
	return m, m.actions.edit(m.out(outgoing{text: text, message: message}), message, text)
}

// A sending is how the remote side knows the end of something outgoing.
type sending struct {
	done chan struct{}
	why  string // of done
}

func (s *sending) end(why string) {
	s.why = why
	close(s.done)
}

// lastMoment is how long who leaves waits for what was sent just before.
const lastMoment = 2 * time.Second

// lost waits a moment for what is outgoing and says what the server has not confirmed.
func (r *remote) lost(m model) []outgoing {
	patience := time.NewTimer(lastMoment)
	defer patience.Stop()
	if m.status != "" { // there is no connection
		patience.Reset(0)
	}
	var lost []outgoing
	over := false
	for _, o := range m.outgoing {
		r.mu.Lock()
		s := r.sendings[o.id]
		r.mu.Unlock()
		if s == nil {
			continue
		}
		if !over {
			select {
			case <-s.done:
			case <-patience.C:
				over = true
			}
		}
		select {
		case <-s.done:
			if s.why != "" {
				lost = append(lost, o)
			}
		default:
			lost = append(lost, o)
		}
	}
	return lost
}

// printLost tells who leaves what is gone with the program.
func printLost(to io.Writer, lost []outgoing) {
	fmt.Fprintln(to, "parley: the server has not confirmed this, and it is kept nowhere else:")
	for _, o := range lost {
		text := Clean(withFiles(o.text, o.files))
		if o.question != "" || o.message != "" {
			text = Clean(o.shown())
		}
		fmt.Fprintln(to, "  "+strings.ReplaceAll(text, "\n", "\n  "))
	}
}
