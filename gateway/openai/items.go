package openai

import (
	"encoding/json"
	"slices"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"

	"github.com/gofiber/fiber/v2"
)

// items are a page of those of a conversation, or the one that is looked for. Each is made of one
// note; no more of them than the page has are in memory, however long the log is.
type items struct {
	list   []listed
	only   string // an id: that one alone; "" = a page
	limit  int
	asc    bool
	after  string
	ended  bool // nothing more belongs to the page
	more   bool
	passed bool                                           // after was met
	asked  map[conversation.QuestionID]conversation.Asked // that are open
	calls  map[conversation.CallID]bool                   // of the caller's own tools
}

type listed struct {
	id   string
	item any
}

// newItems is the page that a request asks for: the newest first, unless order=asc.
func newItems(c *fiber.Ctx) (l *items, err error) {
	l = &items{after: c.Query("after"), asked: map[conversation.QuestionID]conversation.Asked{}, calls: map[conversation.CallID]bool{}}
	if l.limit, err = atLeast(c, "limit", 1, 20, 100); err != nil {
		return nil, err
	}
	switch c.Query("order", "desc") {
	case "asc":
		l.asc = true
	case "desc":
	default:
		return nil, request.Refuse("order", "invalid_value", "order must be asc or desc.")
	}
	return l, nil
}

// know remembers what later notes refer to.
func (l *items) know(n *exchange.Note) {
	if n.Kind == exchange.Asked {
		l.asked[n.Question.Asked.Question] = n.Question.Asked
		if n.Call != nil && n.Call.Callers {
			l.calls[n.Call.ID] = true
		}
	} else if n.Kind == exchange.Closed && n.Question != nil {
		delete(l.asked, n.Question.Asked.Question)
	}
}

// add takes a note, if it is an item.
func (l *items) add(n *exchange.Note) {
	switch n.Kind {
	case exchange.Accepted:
		l.said(n)
	case exchange.TextEnded:
		status := "completed"
		if n.Item.Part.Cut {
			status = statusIncomplete
		}
		l.put(itemID(n.Item), assistant(itemID(n.Item), status, n.Item.Text))
	case exchange.Asked:
		l.put(asked(n.Question, n.Call))
	}
}

// said is a message of a user, or what it answers.
func (l *items) said(n *exchange.Note) {
	b := n.Event.Body.(conversation.MessageAccepted)
	id := messagePrefix + string(b.Message)
	q, answers := l.asked[b.Question]
	switch {
	case answers && l.calls[q.Call]:
		l.put(id, functionOutput{Type: "function_call_output", ID: id, CallID: callID(n.Task, q.Call), Output: b.Text, Status: "completed"})
	case answers && q.Approval != nil:
		if approve, ok := verdict(b.Text); ok {
			l.put(id, approvalResponse{Type: "mcp_approval_response", ID: id, Request: approvalID(n.Task, b.Question), Approve: approve})
			return
		}
		fallthrough
	default:
		content := []any{}
		if b.Text != "" {
			content = append(content, inputText{"input_text", b.Text})
		}
		for _, f := range b.Files {
			content = append(content, map[string]any{"type": "input_file", "file_id": string(f.Hash), "filename": f.Name})
		}
		l.put(id, message{Type: "message", ID: id, Status: "completed", Role: "user", Content: content})
	}
}

// verdict is what the answer of a client to an approval says; ok is false for words, of which the
// session alone knows what they mean.
func verdict(text string) (approve, ok bool) {
	var card struct {
		Approve *bool `json:"approve"`
	}
	if json.Unmarshal([]byte(text), &card) != nil || card.Approve == nil {
		return false, false
	}
	return *card.Approve, true
}

func (l *items) put(id string, item any) {
	full := len(l.list) == l.limit
	switch {
	case l.ended, l.only != "" && l.only != id:
		return
	case id == l.after: // asc begins behind it, and the others end before it
		l.passed, l.ended = true, !l.asc
		return
	case l.asc && l.after != "" && !l.passed:
		return
	case full && l.asc:
		l.more, l.ended = true, true
		return
	case full:
		l.more, l.list = true, append(l.list[:0], l.list[1:]...)
	}
	l.list = append(l.list, listed{id, item})
}

// page answers with the page.
func (l *items) page(c *fiber.Ctx) error {
	if l.after != "" && !l.passed {
		return request.Refuse("after", "invalid_value", "after must be the id of an item of this list.")
	}
	if !l.asc {
		slices.Reverse(l.list)
	}
	p := page{Object: "list", Data: []any{}, HasMore: l.more}
	for _, o := range l.list {
		p.Data = append(p.Data, o.item)
	}
	if n := len(l.list); n > 0 {
		p.FirstID, p.LastID = &l.list[0].id, &l.list[n-1].id
	}
	return c.JSON(p)
}
