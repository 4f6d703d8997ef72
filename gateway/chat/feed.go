package chat

import (
	"encoding/json"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
)

// Topic names a kind of feed entry.
type Topic string

// The topics.
const (
	TopicMessage  Topic = "chat.message"  // somebody has written
	TopicResponse Topic = "chat.response" // an answer, or a part of one, was generated and sent
	TopicError    Topic = "chat.error"    // an answer could not be generated, or not be sent
)

// Severity says how much an entry matters.
type Severity string

// The severities.
const (
	Info    Severity = "info"
	Warning Severity = "warning"
	Bad     Severity = "error"
)

// Happening is an entry of the feed, as it is stored, streamed and sent to webhooks.
type Happening struct {
	Topic     Topic    `json:"topic"`
	Timestamp string   `json:"timestamp"` // RFC 3339, milliseconds, UTC, as all times of the protocol
	Source    string   `json:"source"`    // "chat:" and the channel
	Severity  Severity `json:"severity"`
	Summary   string   `json:"summary"`
	Details   Details  `json:"details"`
	Project   string   `json:"project"` // the tenant
}

// Details say what an entry is about.
type Details struct {
	Channel   chats.Channel          `json:"channel"`
	Chat      chats.Chat             `json:"chat"` // its key: "telegram:42"
	Session   conversation.SessionID `json:"session,omitempty"`
	User      conversation.UserID    `json:"user,omitempty"`
	Message   conversation.MessageID `json:"message,omitempty"`     // of the session: what was said, or the part
	InReplyTo conversation.MessageID `json:"in_reply_to,omitempty"` // of a part
	Seq       conversation.Seq       `json:"seq,omitempty"`
	Text      string                 `json:"text,omitempty"` // at most maxFeedText bytes
	Final     bool                   `json:"final,omitempty"`
	Uncertain bool                   `json:"uncertain,omitempty"` // it was perhaps sent twice
	Code      conversation.Code      `json:"code,omitempty"`
	Error     string                 `json:"error,omitempty"`
}

// maxFeedText bounds the text of an entry; the whole one is in the session.
const maxFeedText = 16 << 10

// entry makes an entry of the feed.
func (r *room) entry(t Topic, s Severity, summary string, d Details) chats.Entry {
	r.mu.Lock()
	d.Session = r.row.state.Session
	r.mu.Unlock()
	d.Channel, d.Chat = r.c.Name(), r.row.key.Chat
	if len(d.Text) > maxFeedText {
		d.Text = longest(d.Text, func(s string) bool { return len(s)+len(Truncated) <= maxFeedText }) + Truncated
	}
	now := r.c.d.Now().UTC().Truncate(time.Millisecond)
	value, _ := json.Marshal(Happening{ // strings, numbers and a time: it cannot fail
		Topic: t, Timestamp: now.Format("2006-01-02T15:04:05.000Z"), Source: "chat:" + string(r.c.Name()), Severity: s,
		Summary: summary, Details: d, Project: string(r.c.settings.Tenant),
	})
	return chats.Entry{At: now, Session: d.Session, Value: value}
}
