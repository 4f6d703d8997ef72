package machine

import (
	"strings"

	"parley/conversation"
	"parley/conversation/policy"
)

func (d *decision) decideCreate(c conversation.Create) *conversation.Error {
	if d.state.Key.Session.Depth() > 0 { // it would never get its objective
		return conversation.Errorf(conversation.Forbidden, "a delegation's session is opened by its parent alone")
	}
	if d.Exists() {
		d.out.Receipt.Duplicate = true
		return nil
	}
	if c.Agent == "" {
		c.Agent = conversation.Coordinator
	}
	if _, ok := d.rules.Agents[c.Agent]; !ok {
		return conversation.Errorf(conversation.BadRequest, "there is no agent %q", c.Agent)
	}
	if _, err := d.rules.Policy.With(c.Policy); err != nil {
		return err
	}
	if len(c.Policy) == 0 {
		c.Policy = nil
	}
	d.emit(nil, conversation.SessionCreated{Title: c.Title, Agent: c.Agent, Owner: c.Owner, Access: c.Access, Policy: c.Policy})
	return nil
}

func (d *decision) decideUpdate(c conversation.Update) *conversation.Error {
	up := conversation.SessionUpdated{}
	if c.Title != nil && *c.Title != d.state.Title {
		up.Title = c.Title
	}
	if c.Access != nil && *c.Access != d.state.Access {
		up.Access = c.Access
	}
	for key, value := range c.Policy {
		removed := strings.TrimSpace(string(value)) == "null" || value == nil
		if !removed {
			if _, err := d.rules.Policy.With(conversation.Overrides{key: value}); err != nil {
				return err
			}
		} else if !policy.Overridable(key) {
			_, err := d.rules.Policy.With(conversation.Overrides{key: value})
			return err
		}
		old, had := d.state.Policy[key]
		if removed && !had || !removed && had && string(old) == string(value) {
			continue
		}
		if up.Policy == nil {
			up.Policy = conversation.Overrides{}
		}
		if removed {
			value = []byte("null")
		}
		up.Policy[key] = value
	}
	if up.Title != nil || up.Access != nil || up.Policy != nil {
		d.emit(nil, up)
	}
	d.out.Receipt.Policy = d.state.Policy
	return nil
}

// Rule 9.13.
func (d *decision) decideClose(c conversation.Close) *conversation.Error {
	if !d.state.Closed {
		d.emit(nil, conversation.SessionClosed(c))
	}
	return nil
}

// decideClear makes tasks that begin from now on see nothing of what was before.
func (d *decision) decideClear(c conversation.Clear) *conversation.Error {
	d.emit(nil, conversation.ContextCleared{By: c.By})
	return nil
}

func (d *decision) decideSeen(c conversation.Seen) *conversation.Error {
	if c.Seq > d.state.Head {
		return conversation.Errorf(conversation.BadRequest, "seq %d is beyond the session's head %d", c.Seq, d.state.Head)
	}
	d.out.Cursors = append(d.out.Cursors, conversation.Cursor(c))
	return nil
}

// compacted takes a summary. One that is blank, or of no more than the last one
// covers, has nothing to replace.
// Rule 9.14.
func (d *decision) compacted(c conversation.Compacted) {
	last := conversation.Seq(0)
	if d.state.Compacted != nil {
		last = d.state.Compacted.Upto
	}
	if c.Upto > last && c.Upto < d.state.Head && !conversation.IsBlank(c.Summary) {
		d.emit(nil, conversation.ContextCompacted{Upto: c.Upto, TokensBefore: c.TokensBefore, TokensAfter: c.TokensAfter, Summary: c.Summary})
	}
}
