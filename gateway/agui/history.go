package agui

import (
	"slices"
	"strings"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// Bounds of what is read of a session when a run begins.
const (
	historyEvents = 1000    // the newest; what lies before them is left as the client has it
	historyBytes  = 2 << 20 // of texts, likewise: a client takes no event above 10 MB
)

// history is what a session's newest events make of its messages, up to where a run begins.
type history struct {
	session conversation.SessionID
	user    conversation.UserID // who is shown it
	whole   bool                // it goes back to the session's first event
	said    []said
	at      map[string]int  // where in said a message is, by its id
	known   map[string]bool // calls, and their results
	bytes   int

	message map[conversation.MessageID]string // of a message of the session, its id
	hidden  map[conversation.QuestionID]bool  // questions whose answers are no words: of approvals and of calls

	// Of the whole log, where a run may begin:

	begins map[string]start // by the id of a user's message, or of a call whose result is there
}

// said is a message of the user or of the assistant.
type said struct {
	id, role, name, text string
	message              conversation.MessageID
}

// start is where a run begins, and what it follows.
type start struct {
	message conversation.MessageID // "" = whatever the task's trigger is
	task    conversation.TaskID
	seq     conversation.Seq // the event that the client brought
	said    bool             // by a message, which is the client's own
}

func newHistory(session conversation.SessionID, user conversation.UserID, whole bool) *history {
	return &history{
		session: session, user: user, whole: whole, at: map[string]int{}, known: map[string]bool{},
		message: map[conversation.MessageID]string{}, hidden: map[conversation.QuestionID]bool{}, begins: map[string]start{},
	}
}

// callMark begins the keys of calls in begins: an id of the client's never has it.
const callMark = protocol.OwnMark

// add takes a note. shown = it lies before the run's beginning, so it belongs into the list.
func (h *history) add(n *exchange.Note, shown bool) {
	switch n.Kind {
	case exchange.Accepted:
		b := n.Event.Body.(conversation.MessageAccepted)
		id := string(b.Message)
		if name, is := nameOf(&b, h.user); is {
			id = name
		}
		h.message[b.Message] = id
		if b.Question != "" && h.hidden[b.Question] {
			return
		}
		h.begins[id] = start{message: b.Message, task: n.Task, seq: n.Event.Seq, said: true}
		if name := b.AuthorName; shown {
			if name == "" {
				name = string(b.Author)
			}
			h.put(said{id: id, role: "user", name: name, text: b.Text, message: b.Message})
		}
	case exchange.Other:
		switch b := n.Event.Body.(type) {
		case conversation.MessageEdited:
			if i, is := h.at[h.message[b.Message]]; is {
				h.said[i].text = b.Text
			}
		case conversation.MessageWithdrawn:
			h.remove(h.message[b.Message])
		}
	case exchange.TextEnded:
		if shown {
			h.put(said{id: n.Item.ID, role: "assistant", text: n.Item.Text})
		}
	case exchange.CallBegan:
		if shown {
			h.known[string(n.Call.ID)] = true
		}
	case exchange.CallEnded:
		if shown {
			h.known[string(n.Call.ID)+resultSuffix] = true
		}
		if n.Call.Callers {
			h.begins[callMark+string(n.Call.ID)] = start{task: n.Task, seq: n.Event.Seq}
		}
	case exchange.Asked:
		a := n.Question.Asked
		if h.hidden[a.Question] = a.Approval != nil || n.Call != nil && n.Call.Callers; a.Approval != nil && shown {
			h.known[string(a.Approval.Call)] = true
		}
	case exchange.Closed:
		if b, is := n.Event.Body.(conversation.QuestionAnswered); is {
			h.begins[callMark+string(b.Question)] = start{task: n.Task, seq: n.Event.Seq}
		}
	}
}

func (h *history) put(s said) {
	h.at[s.id] = len(h.said)
	h.said = append(h.said, s)
	h.bytes += len(s.text)
}

func (h *history) remove(id string) {
	if i, is := h.at[id]; is {
		h.said[i].role = ""
		delete(h.at, id)
	}
}

// bound forgets the oldest messages that are too many to be shown.
func (h *history) bound(most int) {
	for i := 0; h.bytes > most && i < len(h.said); i++ {
		h.bytes -= len(h.said[i].text)
		h.remove(h.said[i].id)
		h.whole = false
	}
}

// ours is true for the id of a message that we have shown.
func (h *history) ours(id string) bool {
	return strings.HasSuffix(strings.TrimSuffix(id, resultSuffix), "-"+string(h.session))
}

// snapshots are the lists of messages that bring a client's list to what the session says. None
// if it lacks nothing and shows nothing that does not count. There are two where something lies
// between messages that the client has: clients put what they lack at the end of their list, so
// the first takes away what follows.
func (h *history) snapshots(have []message) [][]byte {
	anchor := slices.IndexFunc(have, func(m message) bool { return h.has(m.ID) })
	switch {
	case anchor >= 0 && !h.whole:
	case h.whole:
		anchor = 0 // nothing is older than what is known
	default:
		anchor = len(have)
	}
	list := slices.Clone(have[:anchor])
	changed := false
	// Behind each message of the session follow those that only the client has.
	behind := map[string][]message{}
	mine, last := map[string]message{}, ""
	order := -1
	for _, m := range have[anchor:] {
		i, is := h.at[m.ID]
		switch {
		case is:
			if s := h.said[i]; s.role != m.Role || s.role == "assistant" && s.text != m.Content.Text {
				changed = true
			} else {
				mine[m.ID] = m
			}
			changed = changed || i < order
			order, last = i, m.ID
		case h.ours(m.ID) && !h.known[m.ID]:
			changed = true // it did not come to its end: it is told again, or counts no more
		default:
			behind[last] = append(behind[last], m)
		}
	}
	list = append(list, behind[""]...)
	for _, s := range h.said {
		if s.role == "" {
			continue
		}
		m, has := mine[s.id]
		if !has {
			changed = true
			m = message{ID: s.id, Raw: s.json()}
		}
		list = append(append(list, m), behind[s.id]...)
	}
	if !changed {
		return nil
	}
	all := [][]byte{appendMessages(nil, list)}
	if !inOrder(have, list) {
		same := 0
		for same < len(list) && same < len(have) && list[same].ID == have[same].ID {
			same++
		}
		all = append([][]byte{appendMessages(nil, list[:same])}, all...)
	}
	return all
}

// inOrder is true when a client that has some messages has all of list in its order, once it has
// taken away what is not in it and put what it lacks at the end.
func inOrder(have, list []message) bool {
	place := map[string]int{}
	for i, m := range list {
		place[m.ID] = i
	}
	next := 0
	for _, m := range have {
		if i, is := place[m.ID]; is {
			if i != next {
				return false
			}
			next++
		}
	}
	return true
}

// has is true for a message of the session.
func (h *history) has(id string) bool {
	_, is := h.at[id]
	return is || h.known[id]
}

func (s *said) json() []byte {
	o := protocol.NewObject(nil)
	o.Text("id", s.id)
	o.Text("role", s.role)
	o.Optional("name", s.name)
	o.Text("content", s.text)
	return o.Close()
}

// appendMessages appends a list of messages, each as it came.
func appendMessages(dst []byte, list []message) []byte {
	dst = append(dst, '[')
	for i, m := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = protocol.AppendCompact(dst, m.Raw) // an event is one line
	}
	return append(dst, ']')
}
