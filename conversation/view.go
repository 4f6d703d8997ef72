package conversation

import (
	"slices"
	"time"
)

// View is a session as of its durable head, for follow and for reads. It holds
// what is open; what has ended is in the log.
type View struct {
	Key       SessionKey
	Log       LogID
	Head      Seq
	Title     string
	Agent     AgentName
	Owner     UserID
	Access    Access
	Policy    Overrides
	Closed    bool
	CreatedAt time.Time
	Tasks     []TaskView
	Inbox     []InboxView
	Questions []QuestionView
	Calls     []CallView
	Drafts    []DraftView // filled by the shell: what streams right now
}

// Visible is true when user may see the session.
func (v View) Visible(user UserID) bool { return v.Owner == user || v.Access == AccessTenant }

// TaskView is a task that has not ended, in the order in which they will run.
type TaskView struct {
	Task       TaskID
	Status     TaskStatus
	Trigger    MessageID
	Cancelling bool
	Steps      int
	CreatedAt  time.Time
}

// InboxView is an accepted message that no model call has seen yet.
type InboxView struct {
	Message    MessageID
	Task       TaskID
	Author     UserID
	Excerpt    string
	AcceptedAt time.Time
}

// QuestionView is an open question and the task that waits for it.
type QuestionView struct {
	Task  TaskID
	Asked Asked
	At    time.Time
}

// CallView is a call without a result yet.
type CallView struct {
	Task     TaskID
	Call     CallID
	Tool     string    // "" for a delegation
	Agent    AgentName // "" for a tool
	Session  SessionID // "" for a tool
	Deadline time.Time
}

// DraftView is the text of a draft so far.
type DraftView struct {
	Task  TaskID
	Draft DraftID
	Text  string
}

// View is what is open, without Log and Drafts.
func (s *Session) View() View {
	st := &s.state
	v := View{
		Key: s.key, Head: st.Head, Title: st.Title, Agent: st.Agent, Owner: st.Owner, Access: st.Access,
		Policy: st.Policy, Closed: st.Closed, CreatedAt: st.Created,
	}
	for _, t := range s.inOrder() {
		id := s.taskID(t.N)
		v.Tasks = append(v.Tasks, TaskView{
			Task: id, Status: t.Status, Trigger: t.Trigger, Cancelling: t.Cancelling != nil, Steps: t.Steps, CreatedAt: t.Created,
		})
		for _, m := range t.Messages {
			if m.Read == 0 {
				v.Inbox = append(v.Inbox, InboxView{Message: m.ID, Task: id, Author: m.Author, Excerpt: Excerpt(m.Text, excerptLength), AcceptedAt: m.At})
			}
		}
		for _, q := range t.Questions {
			v.Questions = append(v.Questions, QuestionView{Task: id, Asked: q.Asked, At: q.At})
		}
		for _, c := range t.Calls {
			if c.Held {
				continue
			}
			cv := CallView{Task: id, Call: c.ID, Tool: c.Tool, Agent: c.Agent, Deadline: c.Deadline}
			if c.delegation() {
				cv.Session = s.key.Session + "/" + SessionID(c.ID)
			}
			v.Calls = append(v.Calls, cv)
		}
	}
	return v
}

// inOrder lists the open tasks as they will run: the RUNNING one, then the
// QUEUED ones, then those that wait for an answer.
func (s *Session) inOrder() []*task {
	rank := func(t *task) int {
		switch t.Status {
		case TaskRunning:
			return -10
		case TaskQueued:
			return -int(t.Order)
		default:
			return 10
		}
	}
	tasks := slices.Clone(s.state.Tasks)
	slices.SortStableFunc(tasks, func(a, b *task) int { return rank(a) - rank(b) })
	return tasks
}

// Summary is the session's entry in lists.
func (s *Session) Summary() Summary {
	st := &s.state
	sum := Summary{
		Key: s.key, Title: st.Title, Agent: st.Agent, Owner: st.Owner, Access: st.Access, Closed: st.Closed,
		CreatedAt: st.Created, Activity: st.Activity, Last: st.Head, Open: len(st.Tasks),
	}
	for _, t := range st.Tasks {
		if t.Status == TaskAwaiting {
			sum.Awaiting++
		}
	}
	return sum
}
