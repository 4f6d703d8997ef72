package machine

import (
	"cmp"

	"parley/conversation"
	"parley/conversation/machine/internal/settings"
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
	agent, err := settings.Agent(d.rules, c.Agent)
	if err != nil {
		return err
	}
	_, lifted, err := d.configured(agent).With(c.Policy, c.Admin)
	if err != nil {
		return err
	}
	if err := d.rules.CheckOwn(agent, c.Policy); err != nil {
		return err
	}
	d.emit(nil, conversation.SessionCreated{Title: c.Title, Agent: agent, Owner: c.Owner, Access: c.Access, Policy: policy.Canonical(c.Policy), Lifted: lifted})
	return nil
}

func (d *decision) decideUpdate(c conversation.Update) *conversation.Error {
	up, some, err := settings.Changes(&d.state, d.rules, d.configured(cmp.Or(c.Agent, d.state.Agent)), c)
	if err != nil {
		return err
	}
	if some {
		d.emit(nil, up)
	}
	d.out.Receipt.Policy = d.state.Policy
	return nil
}

// decideClose ends nothing: what was accepted comes to its end, and what that needs
// stays allowed.
// Rule 9.13.
func (d *decision) decideClose(c conversation.Close) *conversation.Error {
	if !d.state.Closed {
		d.emit(nil, conversation.SessionClosed(c))
	}
	return nil
}

// decideClear makes tasks that begin from now on see nothing of what was before. Where
// nothing has come since the last clear, that one is meant.
// Rule 9.15.
func (d *decision) decideClear(c conversation.Clear) *conversation.Error {
	if d.state.Cleared == 0 || d.state.Cleared < d.state.Head {
		d.emit(nil, conversation.ContextCleared{By: c.By})
	}
	d.out.Receipt.Seq = d.state.Cleared
	return nil
}

func errClosed() *conversation.Error {
	return conversation.Errorf(conversation.SessionIsClosed, "the session is closed and takes no more messages")
}

func (d *decision) decideSeen(c conversation.Seen) *conversation.Error {
	if c.Seq > d.state.Head {
		return conversation.Errorf(conversation.BadRequest, "seq %d is beyond the session's head %d", c.Seq, d.state.Head)
	}
	d.out.Cursors = append(d.out.Cursors, conversation.Cursor{User: c.User, Seq: c.Seq})
	return nil
}

// compacted takes a summary. One that is blank, or of no more than the last one
// covers, has nothing to replace; one of before a clear must not be seen.
// Rules 9.14, 9.15.
func (d *decision) compacted(c conversation.Compacted) {
	last := d.state.Cleared
	if d.state.Compacted != nil {
		last = max(last, d.state.Compacted.Upto)
	}
	if c.Upto > last && c.Upto < d.state.Head && !conversation.IsBlank(c.Summary) {
		d.emit(nil, conversation.ContextCompacted{Upto: c.Upto, TokensBefore: c.TokensBefore, TokensAfter: c.TokensAfter, Summary: c.Summary})
	}
}
