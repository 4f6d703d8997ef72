package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
)

// What a row keeps of messages, questions and people: as much as somebody may still refer to
// by an edit, a reply, a button or a mention.
const (
	keptMessages  = 200
	keptQuestions = 50
	keptPeople    = 100
)

// stateVersion is the version of state as rows hold it.
const stateVersion = 1

// state is the value of a chat's row. Names are short because there are up to 200 of some.
type state struct {
	Version int                    `json:"v"`
	Session conversation.SessionID `json:"session"`
	Log     conversation.LogID     `json:"log"`
	To      Address                `json:"to"`
	Group   bool                   `json:"group,omitempty"`

	// Everything through Seq was shown; of the event after it, Pieces pieces. At is the time of
	// the newest event that was dealt with, for a log that has changed under us.
	Seq    conversation.Seq `json:"seq"`
	At     time.Time        `json:"at"`
	Pieces int              `json:"pieces,omitempty"`
	// Sending is the piece that may be on its way: what became of it is unknown after a crash.
	Sending *sending `json:"sending,omitempty"`
	// Closed says why nothing is sent there until somebody writes again; "" = it is open.
	Closed string `json:"closed,omitempty"`

	Last      MessageName `json:"last,omitempty"` // the newest message that was taken
	Said      []saidAs    `json:"said,omitempty"`
	Posted    []postedAs  `json:"posted,omitempty"`
	Questions []question  `json:"questions,omitempty"`
	People    []Person    `json:"people,omitempty"`
	Tokens    int         `json:"tokens,omitempty"` // counts questions with choices, for their buttons
}

// sending is a piece that was about to be sent.
type sending struct {
	Nonce string    `json:"nonce"`
	Since time.Time `json:"since"`
}

// saidAs is a message of the platform and what it is in the session.
type saidAs struct {
	Name    MessageName            `json:"n"`
	Message conversation.MessageID `json:"m"`
	By      string                 `json:"b,omitempty"` // the platform's id of who has said it
}

// postedAs is a message that we have posted and the part that it shows.
type postedAs struct {
	Name    MessageName            `json:"n"`
	Message conversation.MessageID `json:"m"`
}

// question is a question as it stands in the chat.
type question struct {
	Name    MessageName             `json:"n"`
	ID      conversation.QuestionID `json:"q"`
	Token   int                     `json:"t,omitempty"`
	Text    string                  `json:"text,omitempty"` // as it was sent, encoded; for its close
	Choices []string                `json:"c,omitempty"`
	Closed  bool                    `json:"closed,omitempty"`
}

// keep appends to a list and drops the oldest beyond n.
func keep[T any](list []T, one T, n int) []T {
	list = append(list, one)
	if len(list) > n {
		list = slices.Delete(list, 0, len(list)-n)
	}
	return list
}

func (s *state) said(name MessageName) (conversation.MessageID, bool) {
	for _, m := range slices.Backward(s.Said) {
		if m.Name == name {
			return m.Message, true
		}
	}
	return "", false
}

// saidBy is who has said a message; "" = it is not known.
func (s *state) saidBy(name MessageName) string {
	for _, m := range slices.Backward(s.Said) {
		if m.Name == name {
			return m.By
		}
	}
	return ""
}

// as is the platform's name of a message of the session; "" = it is not known.
func (s *state) as(message conversation.MessageID) MessageName {
	for _, m := range slices.Backward(s.Said) {
		if m.Message == message {
			return m.Name
		}
	}
	return ""
}

func (s *state) posted(name MessageName) conversation.MessageID {
	for _, m := range slices.Backward(s.Posted) {
		if m.Name == name {
			return m.Message
		}
	}
	return ""
}

func (s *state) question(match func(question) bool) *question {
	for i := len(s.Questions) - 1; i >= 0; i-- {
		if match(s.Questions[i]) {
			return &s.Questions[i]
		}
	}
	return nil
}

// met remembers somebody, with his name of today, as the newest.
func (s *state) met(p Person) {
	if p.ID == "" {
		return
	}
	s.People = slices.DeleteFunc(s.People, func(q Person) bool { return q.ID == p.ID })
	s.People = keep(s.People, p, keptPeople)
}

// row is a chat's state and the row that it is stored in. The mutex of its chat guards it.
type row struct {
	store chats.Store
	key   chats.Key
	rev   chats.Revision
	state state
}

// errReplaced says that another node writes this channel's rows.
var errReplaced = errors.New("another process runs this channel")

// read makes state what the row's value says.
func (r *row) read(from chats.Row) error {
	var s state
	if err := json.Unmarshal(from.Value, &s); err != nil {
		return fmt.Errorf("the row of chat %s cannot be read: %w", r.key.Chat, err)
	}
	if s.Version > stateVersion {
		return fmt.Errorf("the row of chat %s was written by a newer version", r.key.Chat)
	}
	r.rev, r.state = from.Revision, s
	return nil
}

// save stores the state with what change makes of it, and entries for the feed. If it fails
// the state is as before, and errors other than errReplaced mean that it may be tried again:
// a save whose outcome is unknown is looked up until it is known, or ctx ends.
func (r *row) save(ctx context.Context, change func(*state), entries ...chats.Entry) error {
	next := r.state.clone()
	change(&next)
	next.Version = stateVersion
	value, err := json.Marshal(next)
	if err != nil {
		return fmt.Errorf("writing the row of chat %s: %w", r.key.Chat, err)
	}
	for len(value) > chats.MaxValue && next.forget() { // very long names and questions
		if value, err = json.Marshal(next); err != nil {
			return err
		}
	}
	err = r.store.Save(ctx, r.key.Tenant, []chats.Row{{Key: r.key, Revision: r.rev, Session: next.Session, Value: value}}, entries)
	switch {
	case err == nil:
	case errors.Is(err, chats.ErrStale):
		return errReplaced
	case errors.Is(err, chats.ErrErased):
		return errErased
	case errors.Is(err, conversation.ErrFull) || errors.Is(err, conversation.ErrClosed):
		return err
	default:
		stored, lookErr := r.store.Load(ctx, r.key)
		for pause := pauses(); lookErr != nil; stored, lookErr = r.store.Load(ctx, r.key) {
			if wait(ctx, pause()) != nil {
				return errors.Join(err, lookErr)
			}
		}
		switch {
		case stored.Revision == r.rev:
			return err // it was not written
		case stored.Revision != r.rev+1 || !bytes.Equal(stored.Value, value):
			return errReplaced
		}
	}
	r.rev++
	r.state = next
	return nil
}

// clone is a copy whose lists may be changed.
func (s *state) clone() state {
	c := *s
	c.Said, c.Posted, c.People = slices.Clone(s.Said), slices.Clone(s.Posted), slices.Clone(s.People)
	c.Questions = slices.Clone(s.Questions)
	return c
}

// forget drops the older half of what is kept; false = there is nothing left to drop.
func (s *state) forget() bool {
	if len(s.Said)+len(s.Posted)+len(s.Questions)+len(s.People) == 0 {
		return false
	}
	s.Said, s.Posted = s.Said[(len(s.Said)+1)/2:], s.Posted[(len(s.Posted)+1)/2:]
	s.Questions, s.People = s.Questions[(len(s.Questions)+1)/2:], s.People[(len(s.People)+1)/2:]
	return true
}
