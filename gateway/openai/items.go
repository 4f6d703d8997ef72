package openai

import (
	"encoding/json"
	"slices"

	"parley/conversation"
	"parley/gateway/exchange"

	"github.com/gofiber/fiber/v2"
)

// items are those of a conversation, oldest first. Each is made of one note.
type items struct {
	list  []listed
	asked map[conversation.QuestionID]conversation.Asked // that were asked so far
	calls map[conversation.CallID]bool                   // of the caller's own tools
}

type listed struct {
	id   string
	item any
}

func newItems() *items {
	return &items{asked: map[conversation.QuestionID]conversation.Asked{}, calls: map[conversation.CallID]bool{}}
}

// know remembers what later notes refer to.
func (l *items) know(n *exchange.Note) {
	if n.Kind == exchange.Asked {
		l.asked[n.Question.Asked.Question] = n.Question.Asked
		if n.Call != nil && n.Call.Callers {
			l.calls[n.Call.ID] = true
		}
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

func (l *items) put(id string, item any) { l.list = append(l.list, listed{id, item}) }

// page answers with a page of the items, as the query has it: the newest first, unless
// order=asc.
func (l *items) page(c *fiber.Ctx) error {
	limit, err := atLeast(c, "limit", 1, 20, 100)
	if err != nil {
		return err
	}
	list := l.list
	switch c.Query("order", "desc") {
	case "desc":
		slices.Reverse(list)
	case "asc":
	default:
		return refuse("order", "invalid_value", "order must be asc or desc.")
	}
	if after := c.Query("after"); after != "" {
		i := slices.IndexFunc(list, func(o listed) bool { return o.id == after })
		if i < 0 {
			return refuse("after", "invalid_value", "after must be the id of an item of this list.")
		}
		list = list[i+1:]
	}
	p := page{Object: "list", Data: []any{}, HasMore: len(list) > limit}
	for _, o := range list[:min(limit, len(list))] {
		p.Data = append(p.Data, o.item)
		if p.FirstID == nil {
			p.FirstID = pointer(o.id)
		}
		p.LastID = pointer(o.id)
	}
	return c.JSON(p)
}
