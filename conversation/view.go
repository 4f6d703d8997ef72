package conversation

import (
	"slices"
	"time"

	"parley/conversation/access"
	"parley/conversation/attached"
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
	Members   map[UserID]access.Role // besides the owner; nil = none
	Policy    Overrides
	Closed    bool
	CreatedAt time.Time
	Tasks     []TaskView
	Inbox     []InboxView
	Questions []QuestionView
	Calls     []CallView
	Drafts    []DraftView // filled by the shell: what streams right now
}

// Role is what a user of the session's tenant is to it.
func (v View) Role(user UserID) access.Role {
	return access.Of(user, v.Owner, v.Access == AccessTenant, v.Members)
}

// AsksCaller is true for an open question by which the session's caller is asked for the
// result of a tool that it runs. People are not asked it.
func (v View) AsksCaller(q Asked) bool {
	return q.Call != "" && slices.ContainsFunc(v.Calls, func(c CallView) bool { return c.Call == q.Call && c.Caller })
}

// TaskView is a task that has not ended. Views list tasks in the order in which
// they will run: the RUNNING one, the QUEUED ones, then those that wait for an
// answer.
type TaskView struct {
	Task       TaskID
	Status     TaskStatus
	Trigger    MessageID
	Cancelling bool
	Steps      int
	CreatedAt  time.Time
}

// InboxView is an accepted message that no model call has seen yet. It leaves the
// inbox when a step reads it, or when it is resolved unread.
type InboxView struct {
	Message    MessageID
	Task       TaskID
	Author     UserID
	Excerpt    string
	AcceptedAt time.Time
	Files      []attached.File
}

// QuestionView is an open question and the task that waits for it.
type QuestionView struct {
	Task  TaskID
	Asked Asked
	At    time.Time
}

// CallView is a call that runs: a tool or a delegation without a result yet. One
// that waits for an approval is not listed; its question is.
type CallView struct {
	Task     TaskID
	Call     CallID
	Tool     string    // "" for a delegation
	Agent    AgentName // "" for a tool
	Session  SessionID // "" for a tool
	Deadline time.Time
	Caller   bool // the session's caller runs the tool
}

// DraftView is the text of a draft so far. It is not stored: a draft ends as a
// part, or it is dropped.
type DraftView struct {
	Task  TaskID
	Draft DraftID
	Text  string
}

// HandedOut is a message that a claim has given to an outside runtime, under a
// lease.
type HandedOut struct {
	Key        SessionKey
	Message    MessageID
	Author     UserID
	AuthorName string
	Text       string
	Generation uint32
	Until      time.Time // when the lease ends; zero = never
	NextPart   PartIndex // more than 0: a runtime before has said something already
}

// ClaimRequest asks for messages that wait for an outside runtime.
type ClaimRequest struct {
	Tenant  TenantID
	Runtime RuntimeName
	Agent   AgentName // "outside" or "outside:NAME"; "" = any
	Limit   int
	Wait    time.Duration // how long to wait if nothing waits
}
