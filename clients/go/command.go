package parley

import (
	"encoding/json"
	"time"
)

// Hello is what the server says of itself and of the user.
type Hello struct {
	Conn        string `json:"conn"`
	Proto       int    `json:"proto"`
	User        string `json:"user"`
	Tenant      string `json:"tenant"`
	Node        string `json:"node"`
	Version     string `json:"version"`
	Model       string `json:"model"`
	HeartbeatMS int64  `json:"heartbeat_ms"`
	Limits      Limits `json:"limits"`

	Agents   []Agent  `json:"agents"`   // whom a session may be made for, the default one first
	Modes    []string `json:"modes"`    // that a session or a message may choose
	Starters []string `json:"starters"` // texts to begin a conversation with
}

// Agent is one whom a session may be made for.
type Agent struct {
	Name        string `json:"name"`
	Description string `json:"description,omitempty"`
	Model       string `json:"model"`          // its label
	Like        string `json:"like,omitempty"` // the agent that it is like, on another model; "" = it is one of its own
}

// Limits are those of the server; 0 = none.
type Limits struct {
	FrameBytes                      int     `json:"frame_bytes"`
	TextBytes                       int     `json:"text_bytes"`
	CommandsPerSecond               float64 `json:"commands_per_second"`
	CommandsBurst                   int     `json:"commands_burst"`
	ControlFramesPerSecond          float64 `json:"control_frames_per_second"`
	ControlFramesBurst              int     `json:"control_frames_burst"`
	FollowsPerConnection            int     `json:"follows_per_connection"`
	ConnectionsPerUser              int     `json:"connections_per_user"`
	ConnectionsPerTenant            int     `json:"connections_per_tenant"`
	Connections                     int     `json:"connections"`
	ConnectionsPerAddress           int     `json:"connections_per_address"`
	ConnectionsBeforeHello          int     `json:"connections_before_hello"`
	ConnectionsBeforeHelloByAddress int     `json:"connections_before_hello_per_address"`
	ReplayPage                      int     `json:"replay_page"`
	MembersPerSession               int     `json:"members_per_session"`
	AttachmentBytes                 int     `json:"attachment_bytes"`
	AttachmentsPerMessage           int     `json:"attachments_per_message"`
}

// State is what is open in a session.
type State struct {
	Title     string            `json:"title"`
	Agent     string            `json:"agent"`
	Owner     string            `json:"owner"`
	Access    string            `json:"access"`
	Policy    Policy            `json:"policy"`
	Members   map[string]string `json:"members,omitempty"`
	Closed    bool              `json:"closed,omitempty"`
	Tasks     []OpenTask        `json:"tasks"` // in the order in which they will run
	Inbox     []Waiting         `json:"inbox"`
	Questions []OpenQuestion    `json:"questions"`
	Calls     []OpenCall        `json:"calls"`
}

// OpenTask is a task that has not ended.
type OpenTask struct {
	Task       string    `json:"task"`
	Status     string    `json:"status"` // QUEUED, RUNNING, AWAITING_RESPONSE
	Trigger    string    `json:"trigger"`
	Cancelling bool      `json:"cancelling,omitempty"`
	Steps      int       `json:"steps"`
	CreatedAt  time.Time `json:"created_at"`
}

// Waiting is a message that no model call has seen yet.
type Waiting struct {
	Message    string    `json:"message"`
	Task       string    `json:"task,omitempty"`
	Author     string    `json:"author"`
	Excerpt    string    `json:"excerpt"`
	AcceptedAt time.Time `json:"accepted_at"`
}

// OpenQuestion is a question that has no answer yet.
type OpenQuestion struct {
	Question
	Task    string    `json:"task,omitempty"`
	AskedAt time.Time `json:"asked_at"`
}

// OpenCall is a tool call or delegation without a result yet.
type OpenCall struct {
	Call     string     `json:"call"`
	Task     string     `json:"task,omitempty"`
	Tool     string     `json:"tool,omitempty"`
	Agent    string     `json:"agent,omitempty"`
	Session  string     `json:"session,omitempty"`
	Deadline *time.Time `json:"deadline,omitempty"`
	Caller   bool       `json:"caller,omitempty"` // as in ToolStarted
}

// NewSession is what a session is created with.
type NewSession struct {
	// ClientSessionID makes a repetition harmless: it finds the same session. Create
	// makes one if it is empty.
	ClientSessionID string `json:"client_session_id,omitempty"`
	Title           string `json:"title,omitempty"`
	Agent           string `json:"agent,omitempty"` // "" = the default one
	Access          string `json:"access,omitempty"`
	Policy          Policy `json:"policy,omitempty"`
}

// A Message is what is said to a session, or the answer to one of its questions.
type Message struct {
	Session string `json:"session"`
	Text    string `json:"text"`

	// ClientMsgID is the author's own name of the message. Send makes one if it is
	// empty; who gives it decides what is the same message.
	ClientMsgID string `json:"client_msg_id"`
	InReplyTo   string `json:"in_reply_to,omitempty"`
	Mode        string `json:"mode,omitempty"`     // steer, queue, collect, interrupt, reject; "" = the session's
	Question    string `json:"question,omitempty"` // what it answers; "" = it is a message

	Attachments []Attachment `json:"attachments,omitempty"`
}

// Receipt says what became of a message when it was accepted.
type Receipt struct {
	Message     string `json:"message"`
	Seq         uint64 `json:"seq"`
	Duplicate   bool   `json:"duplicate"`             // it had been accepted before
	Disposition string `json:"disposition,omitempty"` // of a message: started, queued, joined, answered
	Task        string `json:"task,omitempty"`
	OldStatus   string `json:"old_status,omitempty"` // of an answer: its task's
	NewStatus   string `json:"new_status,omitempty"`
}

// Cancel is what is to be stopped.
type Cancel struct {
	Task   string `json:"task,omitempty"` // "" = the one that runs, else the newest that waits for an answer
	Reason string `json:"reason,omitempty"`

	// DropWaiting ends the messages that wait as well.
	DropWaiting bool `json:"-"`
}

// MarshalJSON writes the command's data.
func (c Cancel) MarshalJSON() ([]byte, error) {
	type plain Cancel
	out := struct {
		plain
		Waiting string `json:"waiting,omitempty"`
	}{plain: plain(c)}
	if c.DropWaiting {
		out.Waiting = "drop"
	}
	return json.Marshal(out)
}

// Cancelled is the task that is being stopped; its end comes as events.
type Cancelled struct {
	Task      string `json:"task,omitempty"`
	OldStatus string `json:"old_status,omitempty"`
}

// Changed is the answer to a change of policies.
type Changed struct {
	Seq    uint64 `json:"seq"`
	Policy Policy `json:"policy"` // all overrides that count now
}

// Listed is a changed row of the list of sessions, see [Client.Watch]; of one that is Gone
// only Session is known.
type Listed struct {
	Summary
	Gone bool `json:"gone,omitempty"`
}

// Attachment is a file of a message; to send one, Hash is enough.
type Attachment struct {
	Hash string `json:"hash"`
	Name string `json:"name,omitempty"`
	Type string `json:"type,omitempty"` // as in Content-Type
	Size int64  `json:"size,omitempty"` // bytes
}

// Claim asks for messages of outside sessions (scope runtime).
type Claim struct {
	Runtime string `json:"runtime"`
	Agent   string `json:"agent,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Wait    string `json:"wait,omitempty"` // "30s"
}

// Claimed is a message that a runtime was given, under a lease.
type Claimed struct {
	Session    string    `json:"session"`
	Message    string    `json:"message"`
	Text       string    `json:"text"`
	Author     string    `json:"author"`
	Name       string    `json:"name,omitempty"`
	Generation int       `json:"generation"`
	Until      time.Time `json:"until"`
	NextPart   int       `json:"next_part"`
	ContextURL string    `json:"context_url"`

	Attachments []Attachment `json:"attachments,omitempty"`
}

// ChatEntry is what has happened in a chat of a platform, see [Client.WatchChats].
type ChatEntry struct {
	Number    uint64      `json:"number"`
	Topic     string      `json:"topic"`
	Timestamp time.Time   `json:"timestamp"`
	Source    string      `json:"source"`
	Severity  string      `json:"severity"`
	Summary   string      `json:"summary"`
	Details   ChatDetails `json:"details"`
	Project   string      `json:"project"`
}

// ChatDetails say where and what it was.
type ChatDetails struct {
	Channel   string `json:"channel"`
	Chat      string `json:"chat"`
	Session   string `json:"session,omitempty"`
	User      string `json:"user,omitempty"`
	Message   string `json:"message,omitempty"`
	InReplyTo string `json:"in_reply_to,omitempty"`
	Seq       uint64 `json:"seq,omitempty"`
	Text      string `json:"text,omitempty"`
	Final     bool   `json:"final,omitempty"`
	Uncertain bool   `json:"uncertain,omitempty"`
	Code      string `json:"code,omitempty"`
	Error     string `json:"error,omitempty"`
}

// FeedStart is where a watch of chats begins.
type FeedStart struct {
	Head    uint64 `json:"head"`
	First   uint64 `json:"first"`
	Resumed bool   `json:"resumed"`
	Reason  string `json:"reason,omitempty"`
}

// commands are the types of protocol v1 that this package sends; a test holds them
// against the protocol.
var commands = []string{
	"hello", "create", "follow", "unfollow", "send", "answer", "edit", "withdraw", "move", "clear", "cancel", "policy", "claim",
	"seen", "typing", "refresh", "ping", "watch_chats", "unwatch_chats", "watch", "unwatch",
}
