package parley

import (
	"encoding/json"
	"fmt"
	"time"

	"parley/clients/go/internal/refusal"
)

// An Event is what happened in a session that is followed, or what this package
// says of the follow itself ([Followed], [Interrupted]).
//
// Durable events have a Seq, from 1 without gaps; those without one are for display
// only and are never stored.
type Event struct {
	Type    string
	Session string
	Seq     uint64
	After   uint64    // of an event without a Seq: the last durable event before it
	Time    time.Time // zero if the event has none
	Task    string    // "" if it belongs to none

	// Body is a pointer to the struct of Type: *MessageAccepted, *Response, ….
	// A type that this package does not know has a *Unknown.
	Body Body

	// Raw is the frame as it came; nil for what this package says itself.
	Raw json.RawMessage
}

// A Body is the data of an event: a pointer to a struct of this package.
type Body any

// Unknown is the data of an event of a newer server, as they came.
type Unknown struct{ Data json.RawMessage }

// Types of events that this package makes itself.
const (
	TypeFollowed    = "followed"
	TypeInterrupted = "interrupted"
)

// Followed says that a session is followed (again): its state as of Head. The events
// up to Head come next, then [Synced]. All drafts that were shown before are over.
type Followed struct {
	Session string `json:"session"`
	Log     string `json:"log"`
	Head    uint64 `json:"head"`
	First   uint64 `json:"first"` // the first event that comes

	// Resumed is true when First is behind the last event that was seen. When it is
	// false and Again is true, what was shown before does not count any more: Reason
	// says why ("other_log" after a restore, "ahead").
	Resumed bool   `json:"resumed"`
	Reason  string `json:"reason,omitempty"`
	State   State  `json:"state"`

	Again bool `json:"-"` // there was a follow before, which this one continues
}

// Interrupted says that the connection has ended; the client connects again.
type Interrupted struct{ Err error }

// Redactable is a text, or nothing at all where the user may not see it (scope
// read:tools).
type Redactable struct {
	Text     string
	Redacted bool
}

// UnmarshalJSON reads a string or {"redacted":true}.
func (r *Redactable) UnmarshalJSON(b []byte) error {
	if len(b) > 0 && b[0] == '"' {
		return json.Unmarshal(b, &r.Text)
	}
	var hidden struct {
		Redacted bool `json:"redacted"`
	}
	if err := json.Unmarshal(b, &hidden); err != nil {
		return err
	}
	r.Redacted = hidden.Redacted
	return nil
}

// MarshalJSON is the opposite of UnmarshalJSON.
func (r Redactable) MarshalJSON() ([]byte, error) {
	if r.Redacted {
		return []byte(`{"redacted":true}`), nil
	}
	return json.Marshal(r.Text)
}

// Failure says why something failed.
type Failure struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Usage is what a model call has cost.
type Usage struct {
	InputTokens  int  `json:"input_tokens"`
	OutputTokens int  `json:"output_tokens"`
	CachedTokens int  `json:"cached_tokens,omitempty"`
	Estimated    bool `json:"estimated,omitempty"`
}

// Policy are policies of a session by their dotted keys: "inbox.mode". In a change,
// nil takes an override back.
type Policy map[string]any

// Approval is the call that a question is about. Args are JSON as it is, a string
// where it is no JSON or was cut, or {"redacted":true}.
type Approval struct {
	Call string          `json:"call"`
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args"`
}

// The durable events.
type (
	// SessionCreated is the first event of a session.
	SessionCreated struct {
		Title  string `json:"title"`
		Agent  string `json:"agent"`
		Owner  string `json:"owner"`
		Access string `json:"access"`
		Policy Policy `json:"policy"`
	}
	// SessionUpdated has what changed. A member with an empty role is none any more.
	SessionUpdated struct {
		Title   *string            `json:"title,omitempty"`
		Agent   string             `json:"agent,omitempty"`
		Access  string             `json:"access,omitempty"`
		Policy  Policy             `json:"policy,omitempty"`
		Members map[string]*string `json:"members,omitempty"`
	}
	// SessionClosed says that the session takes no more messages.
	SessionClosed struct {
		Reason string `json:"reason"`
	}
	// MessageAccepted is what somebody said.
	MessageAccepted struct {
		Message     string `json:"message"`
		ClientMsgID string `json:"client_msg_id"`
		Author      string `json:"author"`
		Name        string `json:"name,omitempty"`
		Text        string `json:"text"`
		Disposition string `json:"disposition"` // started, queued, joined, answered
		Via         string `json:"via"`
		Mode        string `json:"mode,omitempty"`
		InReplyTo   string `json:"in_reply_to,omitempty"`
		Question    string `json:"question,omitempty"`

		Attachments []Attachment `json:"attachments,omitempty"`
	}
	// MessageEdited is the new text of a message that nothing has read yet.
	MessageEdited struct {
		Message string `json:"message"`
		Text    string `json:"text"`
	}
	// MessageWithdrawn says that a message was taken back.
	MessageWithdrawn struct {
		Message string `json:"message"`
		Heir    string `json:"heir,omitempty"`
	}
	// MessageMoved says that a waiting message has another place; Before = "" is the front.
	MessageMoved struct {
		Message string `json:"message"`
		Before  string `json:"before,omitempty"`
	}
	// MessageResolved is what became of a message. There is exactly one for each.
	MessageResolved struct {
		Message  string `json:"message"`
		How      string `json:"how"` // answered, merged, dismissed, withdrawn, cancelled, failed, unanswered
		Evidence string `json:"evidence,omitempty"`
		Part     *int   `json:"part,omitempty"`
		Question string `json:"question,omitempty"`
	}
	// TaskStatus is a change of a task. Without OldStatus it creates a task of leftovers.
	TaskStatus struct {
		Task      string   `json:"task"`
		Trigger   string   `json:"trigger"`
		OldStatus string   `json:"old_status,omitempty"`
		NewStatus string   `json:"new_status"`
		Messages  []string `json:"messages,omitempty"`
		Reason    string   `json:"reason,omitempty"`
		Error     *Failure `json:"error,omitempty"`
	}
	// TaskCancelling says that a task is being stopped.
	TaskCancelling struct {
		Task   string    `json:"task"`
		By     string    `json:"by"`
		Until  time.Time `json:"until"`
		Reason string    `json:"reason,omitempty"`
	}
	// StepStarted is the beginning of a model call, which sees the messages in Read.
	StepStarted struct {
		Step      int        `json:"step"`
		Attempt   int        `json:"attempt"`
		Agent     string     `json:"agent"`
		Read      []string   `json:"read"`
		Cause     string     `json:"cause,omitempty"`
		Error     *Failure   `json:"error,omitempty"`
		Usage     *Usage     `json:"usage,omitempty"`
		NotBefore *time.Time `json:"not_before,omitempty"`
	}
	// StepFinished is the end of a step.
	StepFinished struct {
		Step      int      `json:"step"`
		Attempt   int      `json:"attempt"`
		Outcome   string   `json:"outcome"` // ok, error, cancelled, unknown
		Decisions []string `json:"decisions"`
		Model     string   `json:"model"`
		Usage     Usage    `json:"usage"`
		MS        int64    `json:"ms"`
		Stop      string   `json:"stop,omitempty"`
		Error     *Failure `json:"error,omitempty"`
	}
	// Part is one message of the assistant. Source and Index are its key; a plain
	// message of an outside runtime has neither.
	Part struct {
		Message   string `json:"message"`
		Source    string `json:"source,omitempty"`
		Index     *int   `json:"part,omitempty"`
		Text      string `json:"text"`
		InReplyTo string `json:"in_reply_to,omitempty"`
		Guessed   bool   `json:"guessed,omitempty"` // the engine guessed InReplyTo
		Cut       bool   `json:"cut,omitempty"`     // the text ended before its end
		Draft     string `json:"draft,omitempty"`   // the draft that it grew from
	}
	// PartialResponse is a part of a task that goes on.
	PartialResponse struct{ Part }
	// Response is the last part of a task.
	Response struct {
		Part
		Final    bool   `json:"final"`
		Kind     string `json:"kind,omitempty"` // error, limit, empty: not the model's own answer
		Promoted bool   `json:"promoted,omitempty"`
	}
	// Question is what a task asks.
	Question struct {
		ID         string     `json:"question"`
		Text       string     `json:"text"`
		Blocking   bool       `json:"blocking"`
		About      string     `json:"about,omitempty"`
		Choices    []string   `json:"choices,omitempty"`
		ExpiresAt  *time.Time `json:"expires_at,omitempty"`
		Default    *string    `json:"default,omitempty"`
		Delegation string     `json:"delegation,omitempty"`
		Call       string     `json:"call,omitempty"` // the call of a tool that asks
		Approval   *Approval  `json:"approval,omitempty"`
	}
	// QuestionAnswered is the answer that counts; By is a user, or "default".
	QuestionAnswered struct {
		Question string `json:"question"`
		Message  string `json:"message,omitempty"`
		Text     string `json:"text"`
		By       string `json:"by"`
	}
	// QuestionClosed says that a question needs no answer any more.
	QuestionClosed struct {
		Question string `json:"question"`
		Reason   string `json:"reason"`
	}
	// ToolStarted is the start of a tool call.
	ToolStarted struct {
		Call       string          `json:"call"`
		Tool       string          `json:"tool"`
		Args       json.RawMessage `json:"args"`
		Deadline   time.Time       `json:"deadline,omitzero"` // zero = none
		Delegation string          `json:"delegation,omitempty"`
		Caller     bool            `json:"caller,omitempty"` // whoever talks to the session runs it: a question names the call, and its answer is the result
	}
	// ToolFinished is its end.
	ToolFinished struct {
		Call    string     `json:"call"`
		Status  string     `json:"status"` // ok, error, timeout, cancelled, denied, unknown
		Summary Redactable `json:"summary"`
		MS      int64      `json:"ms"`
	}
	// DelegationStarted is an objective that another agent was given, in a session of its own.
	DelegationStarted struct {
		Delegation string     `json:"delegation"`
		Agent      string     `json:"agent"`
		Objective  Redactable `json:"objective"`
		Session    string     `json:"session"`
		Deadline   time.Time  `json:"deadline"`
	}
	// DelegationFinished is its end.
	DelegationFinished struct {
		Delegation string     `json:"delegation"`
		Status     string     `json:"status"` // ok, failed, timeout, cancelled
		Summary    Redactable `json:"summary"`
		MS         int64      `json:"ms"`
	}
	// CoverageNudge reminds the model of messages without an answer.
	CoverageNudge struct {
		Messages  []string `json:"messages"`
		Questions []string `json:"questions,omitempty"`
		Nudge     int      `json:"nudge"`
		Form      string   `json:"form,omitempty"` // question, closing, alone, judged
	}
	// ContextCompacted says that models are shown a summary of what is up to Upto.
	ContextCompacted struct {
		Upto         uint64 `json:"upto"`
		TokensBefore int    `json:"tokens_before"`
		TokensAfter  int    `json:"tokens_after"`
	}
	// RuntimeStatus is what an outside runtime says of a message.
	RuntimeStatus struct {
		Message    string     `json:"message"`
		Status     string     `json:"status"`
		Generation int        `json:"generation"`
		Runtime    string     `json:"runtime,omitempty"`
		Until      *time.Time `json:"until,omitempty"`
		Error      string     `json:"error,omitempty"`
	}
	// ContextCleared says that no model sees what was before.
	ContextCleared struct {
		By string `json:"by"`
	}
)

// The ephemeral events.
type (
	// Synced says that all events up to Head have come; what follows is live.
	Synced struct {
		Head uint64 `json:"head"`
	}
	// Delta is a piece of an answer while it is written; At counts code points. [Drafts] joins them.
	Delta struct {
		Draft string `json:"draft"`
		At    int    `json:"at"`
		Text  string `json:"text"`
	}
	// DraftDropped says that nothing comes of a draft.
	DraftDropped struct {
		Draft string `json:"draft"`
	}
	// DraftState is the whole text of a draft so far.
	DraftState struct {
		Draft string `json:"draft"`
		Text  string `json:"text"`
	}
	// Rendered is a part as sanitised HTML (cap "html").
	Rendered struct {
		Message string `json:"message"`
		HTML    string `json:"html"`
	}
	// Progress is a word of a tool while it runs.
	Progress struct {
		Call    string     `json:"call"`
		Note    Redactable `json:"note"`
		Percent *int       `json:"percent,omitempty"`
	}
	// Thinking says that a model has begun and not written yet.
	Thinking struct {
		Agent string `json:"agent"`
		Step  int    `json:"step"`
	}
	// Typing says that a user types.
	Typing struct {
		User string `json:"user"`
		On   bool   `json:"on"`
	}
	// Gone says that the session was erased, or may not be seen any more; the follow has ended.
	Gone struct {
		Reason string `json:"reason"`
	}
)

// bodies make the struct of each type of event.
var bodies = map[string]func() Body{
	"session_created":     func() Body { return &SessionCreated{} },
	"session_updated":     func() Body { return &SessionUpdated{} },
	"session_closed":      func() Body { return &SessionClosed{} },
	"message_accepted":    func() Body { return &MessageAccepted{} },
	"message_edited":      func() Body { return &MessageEdited{} },
	"message_withdrawn":   func() Body { return &MessageWithdrawn{} },
	"message_moved":       func() Body { return &MessageMoved{} },
	"message_resolved":    func() Body { return &MessageResolved{} },
	"task_status":         func() Body { return &TaskStatus{} },
	"task_cancelling":     func() Body { return &TaskCancelling{} },
	"step_started":        func() Body { return &StepStarted{} },
	"step_finished":       func() Body { return &StepFinished{} },
	"partial_response":    func() Body { return &PartialResponse{} },
	"response":            func() Body { return &Response{} },
	"question":            func() Body { return &Question{} },
	"question_answered":   func() Body { return &QuestionAnswered{} },
	"question_closed":     func() Body { return &QuestionClosed{} },
	"tool_started":        func() Body { return &ToolStarted{} },
	"tool_finished":       func() Body { return &ToolFinished{} },
	"delegation_started":  func() Body { return &DelegationStarted{} },
	"delegation_finished": func() Body { return &DelegationFinished{} },
	"coverage_nudge":      func() Body { return &CoverageNudge{} },
	"context_compacted":   func() Body { return &ContextCompacted{} },
	"runtime_status":      func() Body { return &RuntimeStatus{} },
	"context_cleared":     func() Body { return &ContextCleared{} },
	"synced":              func() Body { return &Synced{} },
	"delta":               func() Body { return &Delta{} },
	"draft_dropped":       func() Body { return &DraftDropped{} },
	"draft_state":         func() Body { return &DraftState{} },
	"rendered":            func() Body { return &Rendered{} },
	"progress":            func() Body { return &Progress{} },
	"thinking":            func() Body { return &Thinking{} },
	"typing":              func() Body { return &Typing{} },
	"gone":                func() Body { return &Gone{} },
	"hb":                  func() Body { return &hb{} },
	"goaway":              func() Body { return &goaway{} },
	"chat":                func() Body { return &ChatEntry{} },
	"chats_gone":          func() Body { return &chatsGone{} },
	"listed":              func() Body { return &Listed{} },
}

// About the connection.
type (
	hb struct {
		TS time.Time `json:"ts"`
	}
	goaway struct {
		Code      int    `json:"code"`
		Reason    string `json:"reason"`
		RetryInMS int64  `json:"retry_in_ms"`
	}
	chatsGone struct {
		Reason string `json:"reason"`
	}
)

// Decode reads an event as a socket, a stream or a page of the log has it. It never
// fails for a type or a member that it does not know.
func Decode(frame []byte) (Event, error) {
	var f frameIn
	if err := json.Unmarshal(frame, &f); err != nil {
		return Event{}, fmt.Errorf("parley: a frame that is no JSON object: %w", err)
	}
	return f.event(frame), nil
}

// frameIn is any frame of the server.
type frameIn struct {
	Type    string           `json:"type"`
	Re      *string          `json:"re"`
	Session string           `json:"session"`
	Seq     uint64           `json:"seq"`
	After   uint64           `json:"after"`
	TS      *time.Time       `json:"ts"`
	Task    string           `json:"task"`
	Data    json.RawMessage  `json:"data"`
	Error   *refusal.Refusal `json:"error"`
}

// event is the frame as an event. Data that do not fit the type's struct are kept as they are.
func (f *frameIn) event(raw []byte) Event {
	e := Event{Type: f.Type, Session: f.Session, Seq: f.Seq, After: f.After, Task: f.Task, Raw: raw, Body: &Unknown{Data: f.Data}}
	if f.TS != nil {
		e.Time = *f.TS
	}
	if makes := bodies[f.Type]; makes != nil && len(f.Data) > 0 {
		if body := makes(); json.Unmarshal(f.Data, body) == nil {
			e.Body = body
		}
	}
	return e
}
