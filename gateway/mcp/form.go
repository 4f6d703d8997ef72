package mcp

import (
	"context"
	"encoding/json"
	"strconv"
	"strings"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/service"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// formMark begins the ids of the requests that show forms.
const formMark = "form:"

// elicitation is a question as a form for the host's user.
func elicitation(q *conversation.QuestionView) *sdk.ElicitParams {
	text, field := q.Asked.Text, map[string]any{"type": "string", "title": "Answer", "minLength": 1}
	name := "answer"
	switch {
	case q.Asked.Approval != nil:
		name, field = "approve", map[string]any{"type": "boolean", "title": "Approve"}
		text += "\n\n" + q.Asked.Approval.Args
	case len(q.Asked.Choices) > 0:
		field = map[string]any{"type": "string", "title": "Answer", "enum": q.Asked.Choices}
	}
	return &sdk.ElicitParams{Mode: "form", Message: text, RequestedSchema: map[string]any{
		"type": "object", "properties": map[string]any{name: field}, "required": []string{name},
	}}
}

// readFormID is what the id of a form says.
func readFormID(id jsonrpc.ID) (forms string, q conversation.QuestionID, session string, ok bool) {
	text, is := id.Raw().(string)
	if !is {
		return "", "", "", false
	}
	text, marked := strings.CutPrefix(text, formMark)
	parts := strings.SplitN(text, ":", 3)
	if !marked || len(parts) != 3 || parts[0] == "" || parts[1] == "" {
		return "", "", "", false
	}
	return parts[0], conversation.QuestionID(parts[1]), parts[2], true
}

// responded takes what the host's user has done with a form. The call that has shown it may wait
// on another node, or be gone: it sees the answer in the log.
func (m *way) responded(who *service.Principal, r *jsonrpc.Response) error {
	forms, question, session, ok := readFormID(r.ID)
	if !ok {
		return conversation.Errorf(conversation.BadRequest, "no request of this server has this id")
	}
	key, bad := who.Key(session)
	if bad != nil {
		return bad
	}
	ctx, cancel := m.Deadline()
	defer cancel()
	if _, err := m.Visible(ctx, who, key); err != nil {
		return err
	}
	var answer sdk.ElicitResult // a host that could not ask has not answered
	if r.Error == nil && json.Unmarshal(r.Result, &answer) != nil {
		return conversation.Errorf(conversation.BadRequest, "the result must be one of elicitation/create")
	}
	// The call that waits sees the answer in the log before it is known here whether it was taken.
	answered := answer.Action != ""
	tell := func() {
		if w := m.calls.find(callID{forms, jsonrpc.ID{}}); w != nil {
			w.tell(func() { w.answers[text(r.ID)] = answered })
		}
	}
	tell()
	defer tell()
	view, err := m.View(ctx, key, who.User)
	if err != nil {
		answered = false
		return err
	}
	answered = true // if it is not open any more, another client was first
	for i := range view.Questions {
		if q := view.Questions[i].Asked; q.Question == question {
			answered, err = m.take(ctx, who, key, q, &answer)
		}
	}
	return err
}

func text(id jsonrpc.ID) string { s, _ := id.Raw().(string); return s }

// take gives a session what the host's user has answered. A user who does not want to answer
// leaves the question open: ok is false then. Who declines an approval declines the call.
func (m *way) take(ctx context.Context, who *service.Principal, key conversation.SessionKey, q conversation.Asked, r *sdk.ElicitResult) (ok bool, err error) {
	text := ""
	switch {
	case q.Approval != nil && r.Action == "accept":
		approve, _ := r.Content["approve"].(bool)
		text = `{"approve":` + strconv.FormatBool(approve) + `}`
	case q.Approval != nil && r.Action == "decline":
		text = `{"approve":false}`
	case r.Action == "accept":
		text, _ = r.Content["answer"].(string)
	}
	if text == "" {
		return false, nil
	}
	_, err = m.Answer(ctx, who, key, exchange.Answered{Via: conversation.ViaMCP, ID: clientID("form", string(key.Session)+":"+string(q.Question)), Question: q.Question, Text: text})
	if err != nil && conversation.AsError(err).Code == conversation.QuestionNotOpen {
		return true, nil // another client was first
	}
	return err == nil, err
}
