package a2a

import (
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
)

// noteOf is the name in metadata under which this server says what the protocol has no word for.
const noteOf = "parley"

// tale is what notes tell of a task, as the protocol has it. It takes all notes of the session
// from the task's first event on, in order.
type tale struct {
	place
	run  *exchange.Run
	when time.Time // the status came then
	said []entry
	told []receipt
	free bool // it waits for no answer any more, and for its turn
}

// place is where a task is, as a client calls it.
type place struct {
	address string // of the server
	context string // what the client calls the session
	key     conversation.SessionKey
	task    conversation.TaskID
}

// entry is a message of the task's history.
type entry struct {
	said  *conversation.MessageAccepted // by a user
	asked *conversation.Asked           // by the agent
}

// receipt says what became of a message.
type receipt struct {
	of string // what its client called it
	conversation.MessageResolved
}

func newTale(p place) *tale {
	return &tale{place: p, run: exchange.NewRun("", p.task)}
}

// add takes the next note. true = it is one of the task.
func (t *tale) add(n *exchange.Note) bool {
	if !t.run.Add(n) {
		return false
	}
	switch n.Kind {
	case exchange.Accepted:
		t.hears(n.Event)
	case exchange.Status:
		t.when, t.free = n.Time, false
	case exchange.Closed:
		t.free = t.run.Status == conversation.TaskAwaiting && len(t.questions()) == 0
	case exchange.Asked:
		t.said = append(t.said, entry{asked: &n.Question.Asked})
	case exchange.Resolved:
		b := n.Event.Body.(conversation.MessageResolved)
		t.told = append(t.told, receipt{t.nameOf(b.Message), b})
	}
	return true
}

// hears takes a message that was said to the task.
func (t *tale) hears(e *conversation.Event) {
	b := e.Body.(conversation.MessageAccepted)
	t.said = append(t.said, entry{said: &b})
	if t.when.IsZero() {
		t.when = e.At
	}
}

// nameOf is what its client calls a message, where that came over this protocol.
func (t *tale) nameOf(id conversation.MessageID) string {
	for i := range t.said {
		if s := t.said[i].said; s != nil && s.Message == id {
			return nameOf(s)
		}
	}
	return string(id)
}

func nameOf(s *conversation.MessageAccepted) string {
	name, is := strings.CutPrefix(string(s.ClientMsgID), ours)
	if s.Via != conversation.ViaA2A || !is || strings.HasPrefix(name, hashed) {
		return string(s.Message)
	}
	return name
}

// maxHistory is how many messages are shown of a task's history at most: the last ones.
const maxHistory = 100

// view says what of a task is shown.
type view struct {
	history   int // so many of its last messages; all = as many as are shown at most
	artifacts bool
	number    exchange.Number // 0 = none
}

// appendTask appends the task as it is now.
func (t *tale) appendTask(dst []byte, v view) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Text("id", string(t.task))
		o.Text("contextId", t.context)
		o.Key("status")
		o.Bytes = t.appendStatus(o.Bytes, t.questions())
		if v.artifacts && len(t.run.Texts) > 0 {
			o.Key("artifacts")
			o.Bytes = append(o.Bytes, '[')
			for i, item := range t.run.Texts {
				if i > 0 {
					o.Bytes = append(o.Bytes, ',')
				}
				o.Bytes = appendArtifact(o.Bytes, item, item.Text, true)
			}
			o.Bytes = append(o.Bytes, ']')
		}
		if v.history < 0 || v.history > maxHistory {
			v.history = maxHistory
		}
		if said := t.said[max(0, len(t.said)-v.history):]; len(said) > 0 {
			o.Key("history")
			o.Bytes = append(o.Bytes, '[')
			for i := range said {
				if i > 0 {
					o.Bytes = append(o.Bytes, ',')
				}
				o.Bytes = t.appendEntry(o.Bytes, &said[i])
			}
			o.Bytes = append(o.Bytes, ']')
		}
		note(o, func(o *protocol.Object) {
			o.Text("session", string(t.key.Session))
			number(o, v.number)
			if len(t.told) > 0 {
				o.Key("receipts")
				o.Bytes = append(o.Bytes, '[')
				for i := range t.told {
					if i > 0 {
						o.Bytes = append(o.Bytes, ',')
					}
					o.Bytes = t.told[i].append(o.Bytes)
				}
				o.Bytes = append(o.Bytes, ']')
			}
			t.summary(o)
		})
	})
}

// note appends what the protocol has no word for.
func note(o *protocol.Object, write func(o *protocol.Object)) {
	o.Key("metadata")
	o.Bytes = object(o.Bytes, func(o *protocol.Object) {
		o.Key(noteOf)
		o.Bytes = object(o.Bytes, write)
	})
}

func number(o *protocol.Object, n exchange.Number) {
	if n > 0 {
		o.Text("number", n.String())
	}
}

// summary appends what is known of a task in its end.
func (t *tale) summary(o *protocol.Object) {
	if !t.run.Ended() {
		return
	}
	o.Optional("reason", t.run.Reason)
	o.Optional("model", t.run.Model)
	if u := t.run.Usage; u.InputTokens > 0 || u.OutputTokens > 0 {
		o.Key("usage")
		o.Bytes = object(o.Bytes, func(o *protocol.Object) {
			o.Int("inputTokens", int64(u.InputTokens))
			o.Int("outputTokens", int64(u.OutputTokens))
			o.Flag("estimated", u.Estimated)
		})
	}
}

func (r *receipt) append(dst []byte) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Text("messageId", r.of)
		o.Text("message", string(r.Message))
		o.Text("how", r.How.String())
		o.Optional("evidence", r.Evidence.String())
	})
}

// questions are those that the task waits for the answers to.
func (t *tale) questions() []*conversation.QuestionView { return t.run.Waits() }

// state is the word for the task's status.
func (t *tale) state() string {
	if t.free {
		return stateOf(conversation.TaskQueued)
	}
	return stateOf(t.run.Status)
}

// appendStatus appends the task's status, with what is asked.
func (t *tale) appendStatus(dst []byte, questions []*conversation.QuestionView) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Text("state", t.state())
		switch f := t.run.Failure; {
		case len(questions) > 0:
			o.Key("message")
			o.Bytes = t.appendQuestions(o.Bytes, questions)
		case f != nil:
			o.Key("message")
			o.Bytes = t.appendMessage(o.Bytes, string(t.task)+"-failure", false, func(o *protocol.Object) {
				o.Key("parts")
				o.Bytes = append(appendText(append(o.Bytes, '['), f.Message), ']')
				note(o, func(o *protocol.Object) { o.Text("code", string(f.Code)) })
			})
		}
		if !t.when.IsZero() {
			o.Time("timestamp", t.when)
		}
	})
}

// appendMessage appends a message of the agent or of a user.
func (t *tale) appendMessage(dst []byte, id string, user bool, rest func(o *protocol.Object)) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Text("messageId", id)
		o.Text("contextId", t.context)
		o.Text("taskId", string(t.task))
		if user {
			o.Text("role", "ROLE_USER")
		} else {
			o.Text("role", "ROLE_AGENT")
		}
		rest(o)
	})
}

func appendText(dst []byte, text string) []byte {
	return object(dst, func(o *protocol.Object) { o.Text("text", text) })
}

// appendQuestions appends a message that asks something. Each question is a part.
func (t *tale) appendQuestions(dst []byte, questions []*conversation.QuestionView) []byte {
	return t.appendMessage(dst, string(questions[0].Asked.Question)+"-"+string(t.task), false, func(o *protocol.Object) {
		o.Key("parts")
		o.Bytes = append(o.Bytes, '[')
		for i, q := range questions {
			if i > 0 {
				o.Bytes = append(o.Bytes, ',')
			}
			o.Bytes = appendText(o.Bytes, q.Asked.Text)
		}
		o.Bytes = append(o.Bytes, ']')
		note(o, func(o *protocol.Object) {
			o.Key("questions")
			o.Bytes = append(o.Bytes, '[')
			for i, q := range questions {
				if i > 0 {
					o.Bytes = append(o.Bytes, ',')
				}
				o.Bytes = t.appendQuestion(o.Bytes, &q.Asked)
			}
			o.Bytes = append(o.Bytes, ']')
		})
	})
}

func (t *tale) appendQuestion(dst []byte, q *conversation.Asked) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Text("question", string(q.Question))
		o.Bool("blocking", q.Blocking)
		if len(q.Choices) > 0 {
			o.Key("choices")
			o.Bytes = append(o.Bytes, '[')
			for i, c := range q.Choices {
				if i > 0 {
					o.Bytes = append(o.Bytes, ',')
				}
				o.Bytes = protocol.AppendString(o.Bytes, c)
			}
			o.Bytes = append(o.Bytes, ']')
		}
		o.OptionalTime("expiresAt", q.ExpiresAt)
		if q.Default != nil {
			o.Text("default", *q.Default)
		}
		if a := q.Approval; a != nil {
			o.Key("approval")
			o.Bytes = appendCall(o.Bytes, a.Tool, a.Args)
		}
		for _, c := range t.run.Calls {
			if c.Callers && c.ID == q.Call {
				o.Key("call")
				o.Bytes = appendCall(o.Bytes, c.Tool, c.Args)
			}
		}
	})
}

// appendCall appends a call of a tool: with its arguments, as a value where they are one.
func appendCall(dst []byte, tool, args string) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Text("tool", tool)
		if protocol.ValidJSON([]byte(args)) {
			o.Key("arguments")
			o.Bytes = protocol.AppendCompact(o.Bytes, []byte(args))
			return
		}
		o.Text("arguments", args)
	})
}

// appendEntry appends a message of the history.
func (t *tale) appendEntry(dst []byte, e *entry) []byte {
	if q := e.asked; q != nil {
		return t.appendQuestions(dst, []*conversation.QuestionView{{Asked: *q}})
	}
	s := e.said
	return t.appendMessage(dst, nameOf(s), true, func(o *protocol.Object) {
		o.Key("parts")
		o.Bytes = append(o.Bytes, '[')
		comma := false
		if s.Text != "" || len(s.Files) == 0 {
			o.Bytes, comma = appendText(o.Bytes, s.Text), true
		}
		for _, f := range s.Files {
			if comma {
				o.Bytes = append(o.Bytes, ',')
			}
			comma = true
			o.Bytes = object(o.Bytes, func(o *protocol.Object) {
				o.Text("url", t.address+"/api/blobs/"+string(f.Hash)+"?session="+string(t.key.Session))
				o.Text("filename", f.Name)
				o.Text("mediaType", f.Type)
			})
		}
		o.Bytes = append(o.Bytes, ']')
		note(o, func(o *protocol.Object) {
			o.Text("message", string(s.Message))
			o.Text("author", string(s.Author))
			o.Text("via", s.Via.String())
			o.Optional("question", string(s.Question))
		})
	})
}

// appendArtifact appends an artifact with a piece of its text; ended = it is known what the text is.
func appendArtifact(dst []byte, item *exchange.Item, text string, ended bool) []byte {
	return object(dst, func(o *protocol.Object) {
		o.Text("artifactId", item.ID)
		o.Key("parts")
		o.Bytes = append(appendText(append(o.Bytes, '['), text), ']')
		if !ended {
			return
		}
		note(o, func(o *protocol.Object) {
			o.Text("message", string(item.Part.Message))
			o.Bool("final", item.Final)
			o.Optional("kind", item.Kind.String())
			o.Flag("cut", item.Part.Cut)
		})
	})
}
