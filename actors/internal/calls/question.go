package calls

import (
	"context"
	"time"

	"parley/actors/internal/mail"
	"parley/conversation"
	"parley/conversation/fit"
)

// The messages of a tool's child about its questions.
type (
	// toolAsks comes from the tool's goroutine, which waits for the reply.
	toolAsks struct {
		mail.DeadLetterOK
		question conversation.ToolQuestion
		reply    chan toolReply // holds one
	}
	// gaveUp says that the tool does not wait for the reply any more.
	gaveUp struct {
		mail.DeadLetterOK
		asked *toolAsks
	}
	// toolReply is what became of a question.
	toolReply struct {
		mail.DeadLetterOK
		conversation.AnswerTool
	}
)

// asker is the way of a tool's questions to its session. The session answers each
// command ToolAsks once, so there is one at a time; others wait for their turn. The
// zero value has none.
type asker struct {
	open    *toolAsks   // asked; nil = none
	waiting []*toolAsks // to be asked after it, oldest first
}

// asks is the tool's own side: it puts the question into the child's mailbox and waits.
func (e *Env) asks(call context.Context, send func(any)) func(context.Context, conversation.ToolQuestion) (string, error) {
	return func(ctx context.Context, q conversation.ToolQuestion) (string, error) {
		if q.Text = fit.Middle(q.Text, e.ToolOutput); e.tooLong(q.Choices) {
			return "", conversation.ErrNoAnswer
		}
		asked := &toolAsks{question: q, reply: make(chan toolReply, 1)}
		send(asked)
		var over error
		select {
		case reply := <-asked.reply:
			if !reply.Answered {
				return "", conversation.ErrNoAnswer
			}
			return reply.Text, nil
		case <-ctx.Done():
			over = ctx.Err()
		case <-call.Done():
			over = call.Err()
		}
		send(&gaveUp{asked: asked})
		return "", over
	}
}

// tooLong is true for choices that are more than a tool may say at once.
func (e *Env) tooLong(choices []string) bool {
	bytes := 0
	for _, choice := range choices {
		bytes += len(choice)
	}
	return e.ToolOutput > 0 && bytes > e.ToolOutput
}

// asks takes a question of the tool. The call's time stands still from now on.
func (c *tool) asks(m *toolAsks) {
	if c.ended {
		return
	}
	if c.asker.open != nil {
		c.asker.waiting = append(c.asker.waiting, m)
		return
	}
	c.asker.open = m
	c.limits.pause()
	c.waits.Store(true)
	c.env.Send(c.parent, &End{Command: conversation.ToolAsks{Call: c.f.Call, Text: m.question.Text, Choices: m.question.Choices}})
}

// gaveUp closes the question that the tool does not wait for; its end is told as usual.
func (c *tool) gaveUp(m *gaveUp) {
	if c.asker.open == m.asked {
		c.env.Send(c.parent, &End{Command: conversation.ToolAskEnds{Call: c.f.Call}})
		return
	}
	for i, waiting := range c.asker.waiting {
		if waiting == m.asked {
			c.asker.waiting = append(c.asker.waiting[:i:i], c.asker.waiting[i+1:]...)
			return
		}
	}
}

// replied gives the tool what became of its question. The call's time goes on.
func (c *tool) replied(m *toolReply) {
	asked := c.asker.open
	if asked == nil {
		return
	}
	c.asker.open = nil
	c.waits.Store(false)
	c.limits.resume(m.Deadline)
	asked.reply <- *m
	if len(c.asker.waiting) > 0 {
		next := c.asker.waiting[0]
		c.asker.waiting = c.asker.waiting[1:]
		c.asks(next)
	}
}

// limits end a call whose time is over: first the tool is told, then it is given up.
type limits struct {
	tell, giveUp *time.Timer
	grace        time.Duration // from the one to the other
	left         time.Duration // of the time until tell, while the call's time stands still
	deadline     time.Time
}

func (l *limits) start(deadline time.Time, grace time.Duration, tell, giveUp func()) {
	l.deadline, l.grace = deadline, grace
	l.tell = time.AfterFunc(time.Until(deadline), tell)
	l.giveUp = time.AfterFunc(time.Until(deadline)+grace, giveUp)
}

// pause lets the call's time stand still.
func (l *limits) pause() {
	l.left = time.Until(l.deadline)
	l.tell.Stop()
	l.giveUp.Stop()
}

// resume lets it go on, to the deadline that the session now has; zero = as much as was left.
func (l *limits) resume(deadline time.Time) {
	if l.deadline = deadline; deadline.IsZero() {
		l.deadline = time.Now().Add(l.left)
	}
	l.tell.Reset(time.Until(l.deadline))
	l.giveUp.Reset(time.Until(l.deadline) + l.grace)
}

func (l *limits) stop() {
	l.tell.Stop()
	l.giveUp.Stop()
}
