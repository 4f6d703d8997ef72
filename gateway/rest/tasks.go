package rest

import (
	"context"
	"errors"
	"strings"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// postTask starts a task: always one of its own, after what waits already.
func (s *API) postTask(c *fiber.Ctx) error {
	var prompt *string
	var session, agent, clientID string
	err := door.ReadBody(c, func(m protocol.Member) error {
		switch string(m.Name) {
		case "prompt":
			return m.TextPointer(&prompt)
		case "session":
			return m.ID(&session)
		case "agent":
			return m.ID(&agent)
		case "client_msg_id":
			return m.ClientID(&clientID)
		}
		return nil
	})
	if err != nil {
		return err
	}
	who := door.Principal(c)
	bad := protocol.CheckText("prompt", prompt, s.Limits)
	if bad == nil {
		bad = protocol.CheckClientID(clientID)
	}
	if bad == nil && session != "" && agent != "" {
		bad = conversation.Errorf(conversation.BadRequest, "agent is for a new session; %s has its own", session)
	}
	if bad != nil {
		return unseenTask(s, who, session, bad)
	}
	repeatable := clientID != "" || c.Get("Idempotency-Key") != ""
	id, err := door.ClientMsgID(c, clientID, "task")
	if err != nil {
		return unseenTask(s, who, session, err)
	}
	key, opened, err := s.taskSession(who, session, agent, id, repeatable)
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	r, err := s.Say(ctx, key, conversation.Say{
		Author: who.User, AuthorName: who.Name, Via: conversation.ViaHTTP, ClientMsgID: id, Text: *prompt, Mode: conversation.ModeQueue,
		TraceParent: service.TraceParent(c.Get(service.TraceHeader)),
	})
	if err != nil {
		// The engine has refused the command, so nothing of it is stored. The session
		// goes too, unless the client has a name for it and will come back to it.
		if opened && !repeatable && conversation.AsError(err).Code == conversation.Overloaded {
			err = errors.Join(err, s.Sessions.Erase(ctx, key, who.User))
		}
		return err
	}
	status := conversation.TaskQueued
	if r.Disposition == conversation.Started {
		status = conversation.TaskRunning
	}
	if r.Duplicate {
		if row, err := s.Sessions.Task(ctx, key, r.Task); err == nil {
			status = row.Status
		}
	}
	c.Set(fiber.HeaderLocation, "/api/tasks/"+string(r.Task))
	return reply(c, fiber.StatusAccepted, func(o *protocol.Object) {
		o.Text("task_id", string(r.Task))
		o.Text("session", string(key.Session))
		o.Text("status", status.String())
	})
}

// unseenTask is what a request for a task in a session is refused with: if the user may
// not see the session, it is not there. The body names it, not the path.
func unseenTask(s *API, who *service.Principal, session string, refusal error) error {
	if session == "" {
		return refusal
	}
	key, bad := who.Key(session)
	if bad != nil {
		return bad
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	return s.Unseen(ctx, who, key, refusal)
}

// taskSession is the session for a new task: the one that is named, or a new one.
// With a repeatable id it is the same new one each time.
func (s *API) taskSession(who *service.Principal, session, agent string, id conversation.ClientMsgID, repeatable bool) (key conversation.SessionKey, opened bool, err error) {
	if session != "" {
		key, bad := who.Key(session)
		if bad == nil {
			bad = service.Writable(key)
		}
		if bad != nil {
			return key, false, unseenTask(s, who, session, bad)
		}
		return key, false, nil
	}
	create := protocol.Create{Create: conversation.Create{Agent: conversation.AgentName(agent)}}
	if repeatable {
		create.ClientID = "task:" + string(id)
	}
	return s.Open(who, create)
}

// taskOf is the task that a request names.
func taskOf(c *fiber.Ctx) (conversation.SessionKey, conversation.TaskID, error) {
	id, err := door.Param(c, "taskId")
	if err != nil {
		return conversation.SessionKey{}, "", err
	}
	task := conversation.TaskID(id)
	session, ok := task.Session()
	if !ok {
		return conversation.SessionKey{}, "", errNoTask
	}
	key, bad := door.Principal(c).Key(string(session))
	if bad != nil {
		return key, "", errNoTask
	}
	return key, task, nil
}

var errNoTask = &conversation.Error{Code: conversation.NotFound, Message: "there is no such task"}

// taskRow is the row of a task that the caller may see.
func (s *API) taskRow(ctx context.Context, who *service.Principal, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error) {
	if _, err := s.Visible(ctx, who, key); err != nil {
		return conversation.TaskRow{}, noTask(err)
	}
	row, err := s.Sessions.Task(ctx, key, task)
	return row, noTask(err)
}

// noTask calls a session that is not there a task that is not there.
func noTask(err error) error {
	var e *conversation.Error
	if errors.Is(err, conversation.ErrNotFound) || (errors.As(err, &e) && e.Code == conversation.NotFound) {
		return errNoTask
	}
	return err
}

func (s *API) readTask(c *fiber.Ctx) error {
	key, task, err := taskOf(c)
	if err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	row, err := s.taskRow(ctx, who, key, task)
	if err != nil {
		return err
	}
	t, err := s.task(ctx, row)
	if err != nil {
		return err
	}
	return reply(c, fiber.StatusOK, func(o *protocol.Object) { protocol.AppendTask(o, t, who.Redact()) })
}

func (s *API) listTasks(c *fiber.Ctx) error {
	who := door.Principal(c)
	cursors := s.Cursors.For(who, "tasks")
	limit, cursor, err := paging(c)
	if err == nil {
		cursor, err = cursors.Show(cursor)
	}
	if err != nil {
		return unseenTask(s, who, c.Query("session"), err)
	}
	filter := conversation.TaskFilter{Tenant: who.Tenant, Cursor: cursor}
	if word := c.Query("status"); word != "" {
		status, ok := conversation.ParseTaskStatus(word)
		if !ok {
			return unseenTask(s, who, c.Query("session"), conversation.Errorf(conversation.BadRequest, "status must be QUEUED, RUNNING, AWAITING_RESPONSE, COMPLETE, ERROR or CANCELLED"))
		}
		filter.Status = status
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	if session := c.Query("session"); session != "" {
		key, bad := who.Key(session)
		if bad != nil {
			return bad
		}
		if _, err := s.Visible(ctx, who, key); err != nil {
			return err
		}
		filter.Session = key.Session
	}
	rows, next, err := s.visibleTasks(ctx, who, filter, limit)
	if err != nil {
		return err
	}
	tasks, err := readTasks(ctx, s.Services, rows)
	if err != nil {
		return err
	}
	page := newList(s.Services, 0)
	for i, t := range tasks {
		if !page.add(func(b []byte) []byte {
			o := protocol.NewObject(b)
			protocol.AppendTask(&o, t, who.Redact())
			return o.Close()
		}) {
			tasks = tasks[:i]
			break
		}
	}
	if n := len(tasks); n < len(rows) {
		next = rows[n-1].PageCursor()
	}
	return page.send(c, cursors.Hide(next))
}

// visibleTasks collects a page of the rows that the caller may see. They are
// collected before their logs are read: no iterator is open inside another.
func (s *API) visibleTasks(ctx context.Context, who *service.Principal, f conversation.TaskFilter, limit int) (rows []conversation.TaskRow, next string, err error) {
	seen := make(map[conversation.SessionKey]bool)
	looked := 0
	last := conversation.TaskRow{}
	for row, err := range s.Sessions.Tasks(ctx, f) {
		if err != nil {
			return nil, "", err
		}
		if looked++; looked > maxLooked {
			return rows, last.PageCursor(), nil
		}
		if row.Owner != who.User {
			may, known := seen[row.Key]
			if !known {
				_, err := s.Visible(ctx, who, row.Key)
				may = err == nil
				seen[row.Key] = may
			}
			if !may {
				last = row
				continue
			}
		}
		if len(rows) == limit {
			return rows, last.PageCursor(), nil
		}
		rows, last = append(rows, row), row
	}
	return rows, "", nil
}

// postReply is the reply protocol: it answers the question that a task waits for.
func (s *API) postReply(c *fiber.Ctx) error {
	key, task, err := taskOf(c)
	if err != nil {
		return err
	}
	var text *string
	var given string
	err = door.ReadBody(c, func(m protocol.Member) error {
		switch string(m.Name) {
		case "reply":
			return m.TextPointer(&text)
		case "client_msg_id":
			return m.ClientID(&given)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if bad := protocol.CheckText("reply", text, s.Limits); bad != nil {
		return bad
	}
	if bad := protocol.CheckClientID(given); bad != nil {
		return bad
	}
	id, err := door.ClientMsgID(c, given, "reply:"+string(task))
	if err != nil {
		return err
	}
	if bad := service.Writable(key); bad != nil {
		return bad
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	r, err := s.Tell(ctx, key, who.User, conversation.Reply{
		Author: who.User, AuthorName: who.Name, Via: conversation.ViaHTTP, ClientMsgID: id, Task: task, Text: strings.TrimSpace(*text),
	})
	if err != nil {
		var e *conversation.Error
		if errors.As(err, &e) && e.Code == conversation.TaskNotAwaiting && e.TaskStatus == 0 {
			// The session keeps nothing of an ended task; its row says what it is.
			if row, none := s.Sessions.Task(ctx, key, task); none == nil {
				err = &conversation.Error{Code: e.Code, Message: e.Message, TaskStatus: row.Status}
			}
		}
		return noTask(err)
	}
	if r.OldStatus == 0 || r.NewStatus == 0 {
		if err := s.CompleteReply(ctx, key, &r); err != nil {
			return err
		}
	}
	status := fiber.StatusOK
	if r.Deferred {
		status = fiber.StatusAccepted
	}
	return reply(c, status, func(o *protocol.Object) {
		o.Bool("success", true)
		o.Text("task_id", string(task))
		o.Text("old_status", r.OldStatus.String())
		o.Text("new_status", r.NewStatus.String())
		o.Flag("kept", r.Deferred)
	})
}

func (s *API) cancelTask(c *fiber.Ctx) error {
	key, task, err := taskOf(c)
	if err != nil {
		return err
	}
	b, err := door.Body(c)
	if err != nil {
		return err
	}
	cancelled, bad := protocol.ReadCancel(b)
	if bad == nil {
		bad = service.Writable(key)
	}
	if bad != nil {
		return bad
	}
	cancelled.Task = task
	if cancelled.ClientMsgID, err = door.IdempotencyKey(c, "cancel-task:"+string(task)); err != nil {
		return err
	}
	ctx, cancel := s.Deadline()
	defer cancel()
	who := door.Principal(c)
	r, err := s.cancel(ctx, key, who.User, cancelled)
	if err != nil {
		var e *conversation.Error
		if errors.As(err, &e) && e.Code == conversation.NotFound {
			row, found := s.taskRow(ctx, who, key, task)
			if found == nil && row.Status.Ended() {
				return &conversation.Error{Code: conversation.Conflict, Message: "the task has ended already", TaskStatus: row.Status}
			}
		}
		return noTask(err)
	}
	if r.OldStatus.Ended() {
		return &conversation.Error{Code: conversation.Conflict, Message: "the task has ended already", TaskStatus: r.OldStatus}
	}
	return reply(c, fiber.StatusAccepted, func(o *protocol.Object) {
		o.Text("task_id", string(task))
		o.Text("old_status", r.OldStatus.String())
	})
}
