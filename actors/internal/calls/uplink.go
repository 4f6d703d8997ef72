package calls

import (
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/delivery"
	"parley/conversation"
)

// queue makes a delivery queue of the actor self to another session of the tree.
func (e *Env) queue(self *actor.PID, to conversation.SessionKey) *delivery.Queue {
	return delivery.New(delivery.Options{
		Tell:  func(c conversation.Command, done func(error)) { e.Tell(to, c, done) },
		Post:  func(m any) { e.Send(self, m) },
		Pause: e.TellRetry, MaxPause: e.TellEvery,
	})
}

// Uplink is the way of a sub-session to its parent. The zero value is not
// started yet.
type Uplink struct{ pid *actor.PID }

// Report hands what a sub-session has to say to its parent: in order, and each
// until the parent has committed what follows from it. created is when the
// sub-session began.
func (u *Uplink) Report(env *Env, of Session, created time.Time, effect conversation.Effect) {
	parent, call, ok := of.Key.Session.Parent()
	if !ok {
		return
	}
	if u.pid == nil {
		child := &uplink{env: env, to: conversation.SessionKey{Tenant: of.Key.Tenant, Session: parent}}
		u.pid = of.Spawner.Spawn(actor.PropsFromProducer(func() actor.Actor { return child }))
	}
	up := u.pid
	switch f := effect.(type) {
	case conversation.Report:
		done := conversation.DelegationDone{
			Delegation: call, Status: f.Status, Summary: f.Summary, Took: max(0, time.Since(created).Round(time.Millisecond)), // the clock may have been set back
		}
		if f.Summary != "" || f.Seq == 0 {
			env.Send(up, &delivery.Delivery{ID: "done", Command: done})
			return
		}
		key := of.Key
		env.Go("reading a result", func() {
			event, err := env.Event(key, f.Seq)
			switch b := event.Body.(type) {
			case conversation.Response:
				done.Summary = b.Text
			case conversation.PartialResponse:
				done.Summary = b.Text
			}
			if err != nil { // the parent tells again, and this is repeated
				env.Log.Error("the result of a delegation cannot be read", "session", key.Session, "tenant", key.Tenant, "error", err)
				return
			}
			env.Send(up, &delivery.Delivery{ID: "done", Command: done})
		}, nil)
	case conversation.ReportQuestion:
		q := f.Asked
		env.Send(up, &delivery.Delivery{ID: "asked-" + string(q.Question), Command: conversation.DelegationAsked{
			Delegation: call, Question: q.Question, Text: q.Text, Choices: q.Choices, ExpiresAt: q.ExpiresAt, Default: q.Default, Approval: q.Approval,
		}})
	case conversation.ReportQuestions:
		env.Send(up, &delivery.Delivery{ID: "questions", Command: conversation.DelegationQuestions{Delegation: call, Open: f.Open}})
	case conversation.ReportQuestionClosed:
		env.Send(up, &delivery.Delivery{ID: "closed-" + string(f.Question), Command: conversation.DelegationQuestionClosed{
			Delegation: call, Question: f.Question, Reason: f.Reason, Default: f.Default,
		}})
	}
}

// Terminated takes the end of a child; true if it was the uplink's. The parent
// tells its delegations again, and then hears everything again by a new one.
func (u *Uplink) Terminated(pid *actor.PID) bool {
	if u.pid == nil || !u.pid.Equal(pid) {
		return false
	}
	u.pid = nil
	return true
}

// uplink is the child actor by which a sub-session speaks to its parent.
type uplink struct {
	env   *Env
	to    conversation.SessionKey
	queue *delivery.Queue
}

// Receive takes one message of the actor's mailbox.
func (u *uplink) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		u.queue = u.env.queue(ctx.Self(), u.to)
	case *delivery.Delivery:
		u.queue.Enqueue(m)
	default:
		u.queue.Handle(m)
	}
}
