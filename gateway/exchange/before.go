package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"slices"
	"strings"

	"parley/conversation"
	"parley/gateway/service"
)

// A client brings settings of its session with what it says, and some say several things at once. What
// can be known is asked before any of it is done.

// Repeats is true for what a client has said before under the same id, whatever the session does
// by now. fingerprint is that of its text and files (package attached). It fails with a conflict if
// something else was said under the id. Nothing is stored: it is an answer to no question, which the
// session knows or refuses.
func (x *Exchange) Repeats(ctx context.Context, who *service.Principal, key conversation.SessionKey, id conversation.ClientMsgID, fingerprint string) (bool, error) {
	r, err := x.Tell(ctx, key, who.User, conversation.Answer{Author: who.User, ClientMsgID: id, Text: fingerprint})
	switch {
	case err == nil:
		return r.Duplicate, nil
	case conversation.AsError(err).Code == conversation.NotFound:
		return false, nil // there is no such question: the id is a new one
	}
	return false, err
}

// Changed are those of the policies said that differ from what a session's are.
func Changed(are, said conversation.Overrides) conversation.Overrides {
	changed := conversation.Overrides{}
	for key, value := range said {
		if !sameJSON(value, are[key]) {
			changed[key] = value
		}
	}
	return changed
}

// Settings are what a session is set to with what is said: with "" no agent is named, with null a
// policy is taken away.
type Settings struct {
	Agent  conversation.AgentName
	Policy conversation.Overrides
}

// Differ are those settings that differ from what a session has.
func (s Settings) Differ(v conversation.View) Settings {
	d := Settings{Policy: Changed(v.Policy, s.Policy)}
	if s.Agent != v.Agent {
		d.Agent = s.Agent
	}
	return d
}

// None is true when nothing is to be set.
func (s Settings) None() bool { return s.Agent == "" && len(s.Policy) == 0 }

// Set changes what a session is set to, where it differs, as the owner of a session may: nobody's
// rights lift ceilings here. back takes the change back, for a request that is refused behind it:
// what nobody else has set since, and nothing if somebody has said something, for that counts on it. It
// gives back the refusal, with what went wrong besides.
func (x *Exchange) Set(ctx context.Context, who *service.Principal, v conversation.View, said Settings) (back func(refusal error) error, err error) {
	change, was := said.Differ(v), Settings{Policy: conversation.Overrides{}}
	for key := range change.Policy {
		was.Policy[key] = v.Policy[key]
	}
	if change.Agent != "" {
		was.Agent = v.Agent
	}
	nothing := func(refusal error) error { return refusal }
	if change.None() {
		return nothing, nil
	}
	update := func(s Settings) (conversation.Receipt, error) {
		return x.Tell(ctx, v.Key, who.User, conversation.Update{By: who.User, Agent: s.Agent, Policy: s.Policy})
	}
	set, err := update(change)
	if err != nil {
		return nothing, err
	}
	return func(refusal error) error {
		if refusal != nil && !StoresNothing(refusal) {
			return refusal
		}
		was, err := x.untouched(ctx, v.Key, set.Seq, was)
		if err == nil && !was.None() {
			_, err = update(was)
		}
		if err != nil {
			return errors.Join(refusal, err)
		}
		return refusal
	}, nil
}

// untouched are those settings that were made by an event, and by none behind it. None are where a
// message was accepted since, or the event is another one: then nothing was changed.
func (x *Exchange) untouched(ctx context.Context, key conversation.SessionKey, set conversation.Seq, s Settings) (Settings, error) {
	ours := false
	for e, err := range x.Events(ctx, key, max(set, 1)-1, 0) {
		if err != nil {
			return Settings{}, err
		}
		switch b := e.Body.(type) {
		case conversation.SessionUpdated:
			if e.Seq == set {
				ours = true
				continue
			}
			if b.Agent != "" {
				s.Agent = ""
			}
			for name := range b.Policy {
				delete(s.Policy, name)
			}
		case conversation.MessageAccepted:
			return Settings{}, nil
		}
	}
	if !ours {
		return Settings{}, nil
	}
	return s, nil
}

// CheckMode refuses a mode that the configuration does not allow. A server that does not say what it
// offers leaves that to its sessions.
func (x *Exchange) CheckMode(m conversation.Mode) *conversation.Error {
	if m == conversation.ModeDefault || len(x.Offer.Modes) == 0 || slices.Contains(x.Offer.Modes, m.String()) {
		return nil
	}
	return conversation.Errorf(conversation.BadRequest, "mode must be one of %s (inbox.allowed_modes)", strings.Join(x.Offer.Modes, ", "))
}

// ErrClosed refuses a message to a session that is closed, before the session is asked.
var ErrClosed = &conversation.Error{Code: conversation.SessionIsClosed, Message: "the session is closed and takes no more messages"}

// sameJSON is true for two values that are the same, however they are written.
func sameJSON(a, b json.RawMessage) bool {
	if bytes.Equal(a, b) {
		return true
	}
	var x, y any
	return len(b) > 0 && json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y)
}

// StoresNothing is true for an error of a command that was not done, and will not be.
func StoresNothing(err error) bool {
	switch conversation.AsError(err).Code {
	case conversation.Timeout, conversation.Unavailable, conversation.Internal:
		return false
	}
	return true
}
