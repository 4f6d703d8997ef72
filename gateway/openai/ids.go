package openai

import (
	"strconv"
	"strings"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"
	"parley/gateway/service"
)

// The prefixes of ids. What is behind them is ours: a session, a task, an item.
const (
	responsePrefix     = "resp_"
	conversationPrefix = "conv_"
	messagePrefix      = "msg_"
	callPrefix         = "call_"
	functionPrefix     = "fc_"
	approvalPrefix     = "mcpr_"
	completionPrefix   = "chatcmpl-"
)

// reference is what the id of a response says.
type reference struct {
	task conversation.TaskID
	from conversation.Seq // the event that began the stretch; 0 = the task's first one
}

func (r reference) id() string { return responsePrefix + r.name() }

// name is the id without its prefix.
func (r reference) name() string {
	if r.from == 0 {
		return string(r.task)
	}
	return string(r.task) + "." + strconv.FormatUint(uint64(r.from), 10)
}

// readReference reads the id of a response.
func readReference(id string) (r reference, ok bool) {
	rest, ok := strings.CutPrefix(id, responsePrefix)
	if !ok {
		return r, false
	}
	task, seq, later := strings.Cut(rest, ".")
	if later {
		n, err := strconv.ParseUint(seq, 10, 53)
		if err != nil || n == 0 || seq[0] == '0' {
			return r, false
		}
		r.from = conversation.Seq(n)
	}
	r.task = conversation.TaskID(task)
	_, ok = r.task.Session()
	return r, ok
}

// sessionOf is the session that the id of a conversation names.
func sessionOf(who *service.Principal, id string) (conversation.SessionKey, error) {
	rest, ok := strings.CutPrefix(id, conversationPrefix)
	if ok {
		if key, bad := who.Key(rest); bad == nil {
			return key, nil
		}
	}
	return conversation.SessionKey{}, service.ErrNoSession
}

func conversationID(session conversation.SessionID) string {
	return conversationPrefix + string(session)
}

// callID names a call of the caller's own tools, and the task that waits for its result.
func callID(task conversation.TaskID, call conversation.CallID) string {
	return callPrefix + string(call) + "-" + string(task)
}

// readCallID reads what callID, or approvalID, writes.
func readCallID(id, prefix string) (task conversation.TaskID, what string, ok bool) {
	rest, ok := strings.CutPrefix(id, prefix)
	if !ok {
		return "", "", false
	}
	what, name, ok := strings.Cut(rest, "-")
	task = conversation.TaskID(name)
	_, named := task.Session()
	return task, what, ok && named && what != ""
}

// readAnswered reads what an answer of a client is to.
func readAnswered(a request.Given) (task conversation.TaskID, what string, ok bool) {
	if a.Approval {
		return readCallID(a.ID, approvalPrefix)
	}
	return readCallID(a.ID, callPrefix)
}

// approvalID names a question whether a call may be made, and the task that waits for it.
func approvalID(task conversation.TaskID, q conversation.QuestionID) string {
	return approvalPrefix + string(q) + "-" + string(task)
}

// itemID is the id of a message of the assistant.
func itemID(i *exchange.Item) string { return messagePrefix + i.ID }
