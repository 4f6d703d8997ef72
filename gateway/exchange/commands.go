package exchange

import (
	"context"
	"errors"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"
)

// Find is the session that a client calls by a name: the id of one that it may see, or the
// name by which it has opened one (Open). The error is service.ErrNoSession where there is none.
func (x *Exchange) Find(ctx context.Context, who *service.Principal, name string) (conversation.SessionKey, conversation.Summary, error) {
	key, bad := who.Key(name)
	if bad == nil {
		row, err := x.Visible(ctx, who, key)
		if !absent(err) {
			return key, row, err
		}
	}
	if name == "" || len(name) > protocol.MaxClientMsgID {
		return key, conversation.Summary{}, service.ErrNoSession
	}
	key = service.NewSessionKey(who, name)
	row, err := x.Visible(ctx, who, key)
	if absent(err) {
		err = service.ErrNoSession
	}
	return key, row, err
}

// absent is true for the errors of a session that is not there, or not for who asks.
func absent(err error) bool {
	var refusal *conversation.Error
	return errors.Is(err, conversation.ErrNotFound) || errors.As(err, &refusal) && refusal.Code == conversation.NotFound
}

// FindOrOpen is the session of a name, which is opened if there is none: a name of the
// client's own, then, as with client_session_id of the protocol. "" opens a new one.
func (x *Exchange) FindOrOpen(ctx context.Context, who *service.Principal, name string, c conversation.Create) (key conversation.SessionKey, opened bool, err error) {
	if name != "" {
		if key, _, err = x.Find(ctx, who, name); !absent(err) {
			return key, false, err
		}
	}
	if len(name) > protocol.MaxClientMsgID {
		return key, false, conversation.Errorf(conversation.BadRequest, "the name of a session must be at most %d bytes", protocol.MaxClientMsgID)
	}
	return x.Open(who, protocol.Create{ClientID: name, Create: c})
}

// Said is what a client says.
type Said struct {
	Via         conversation.Via
	ID          conversation.ClientMsgID // the client's own; said again under the same it takes effect once
	Text        string
	InReplyTo   conversation.MessageID
	Mode        conversation.Mode
	TraceParent string
	Files       []protocol.NamedFile // uploaded to the session before
}

// Say gives a session a message. The receipt comes when it is stored, and tells also of a
// repetition what came of the first delivery.
func (x *Exchange) Say(ctx context.Context, who *service.Principal, key conversation.SessionKey, s Said) (conversation.Receipt, error) {
	if bad := service.Writable(key); bad != nil {
		return conversation.Receipt{}, bad
	}
	if len(s.Files) == 0 || s.Text != "" {
		if bad := protocol.CheckText("the message", &s.Text, x.Limits); bad != nil {
			return conversation.Receipt{}, bad
		}
	}
	files, err := x.Attached(key, s.Files)
	if err != nil {
		return conversation.Receipt{}, err
	}
	return x.HTTP.Say(ctx, key, conversation.Say{
		Author: who.User, AuthorName: who.Name, Via: s.Via, ClientMsgID: s.ID, Text: s.Text, Files: files,
		InReplyTo: s.InReplyTo, Mode: s.Mode, TraceParent: service.TraceParent(s.TraceParent),
	})
}

// Answered is a client's answer to an open question.
type Answered struct {
	Via      conversation.Via
	ID       conversation.ClientMsgID
	Question conversation.QuestionID
	Text     string
}

// Answer answers an open question. A repetition under the same ID is told what came of the first.
func (x *Exchange) Answer(ctx context.Context, who *service.Principal, key conversation.SessionKey, a Answered) (conversation.Receipt, error) {
	if bad := service.Writable(key); bad != nil {
		return conversation.Receipt{}, bad
	}
	if bad := protocol.CheckText("the answer", &a.Text, x.Limits); bad != nil {
		return conversation.Receipt{}, bad
	}
	r, err := x.Tell(ctx, key, who.User, conversation.Answer{
		Author: who.User, AuthorName: who.Name, Via: a.Via, ClientMsgID: a.ID, Question: a.Question, Text: a.Text,
	})
	if err == nil && r.Duplicate {
		err = x.CompleteReply(ctx, key, &r)
	}
	return r, err
}

// The answers to approvals.
const (
	Approve = "approve"
	Decline = "decline"
)

// Cancel ends a task. That it has ended already is no error: the status says so.
func (x *Exchange) Cancel(ctx context.Context, who *service.Principal, key conversation.SessionKey, task conversation.TaskID, id conversation.ClientMsgID, reason string) (conversation.Receipt, error) {
	if bad := service.Writable(key); bad != nil {
		return conversation.Receipt{}, bad
	}
	r, err := x.Tell(ctx, key, who.User, conversation.Cancel{Task: task, By: conversation.ByUser, Author: who.User, ClientMsgID: id, Reason: reason})
	if absent(err) {
		row, found := x.TaskRow(ctx, who, key, task)
		if found != nil {
			return r, found
		}
		if row.Status.Ended() {
			return conversation.Receipt{Task: task, OldStatus: row.Status, NewStatus: row.Status}, nil
		}
	}
	if err == nil && r.Duplicate {
		r.OldStatus, err = x.StatusBefore(ctx, key, r.Task, r.Seq)
	}
	return r, err
}

// ErrNoTask answers for a task that does not exist, and for one that the user may not see.
var ErrNoTask = &conversation.Error{Code: conversation.NotFound, Message: "there is no such task"}

// TaskKey is the session of a task, by its id.
func TaskKey(who *service.Principal, task conversation.TaskID) (conversation.SessionKey, error) {
	session, ok := task.Session()
	if !ok {
		return conversation.SessionKey{}, ErrNoTask
	}
	key, bad := who.Key(string(session))
	if bad != nil {
		return key, ErrNoTask
	}
	return key, nil
}

// TaskRow is the row of a task that who may see.
func (x *Exchange) TaskRow(ctx context.Context, who *service.Principal, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error) {
	if _, err := x.Visible(ctx, who, key); err != nil {
		if absent(err) {
			err = ErrNoTask
		}
		return conversation.TaskRow{}, err
	}
	row, err := x.Sessions.Task(ctx, key, task)
	if absent(err) {
		err = ErrNoTask
	}
	return row, err
}
