package calls

import (
	"encoding/json"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/actors/internal/delivery"
	"parley/actors/internal/mail"
	"parley/conversation"
)

// The messages of a delegation's child, beside *stop and *over.
type (
	answer struct {
		mail.DeadLetterOK
		f conversation.RouteAnswer
	}
	amendment struct {
		mail.DeadLetterOK
		f conversation.AmendDelegation
	}
	tellAgain struct{ mail.DeadLetterOK }
	readTexts struct {
		mail.DeadLetterOK
		objective string
		amend     *conversation.AmendDelegation
		err       error
	}
)

// delegation is the child actor of one delegation: the one ordered way down.
type delegation struct {
	env       *Env
	key       conversation.SessionKey // of the parent
	parent    *actor.PID
	f         conversation.StartDelegation
	as        conversation.Tell // what the parent passes on of itself
	stop      bool
	callEnded bool
	self      *actor.PID
	queue     *delivery.Queue // to the sub-session
	timer     *time.Timer
}

// Receive takes one message of the actor's mailbox.
func (d *delegation) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		d.self = ctx.Self()
		d.queue = d.env.queue(d.self, conversation.SessionKey{Tenant: d.key.Tenant, Session: d.f.Session})
		d.tell()
		d.scheduleTell()
	case *tellAgain:
		if d.queue.Empty() {
			d.tell()
		}
		d.scheduleTell()
	case *readTexts:
		d.read(m)
	case *answer:
		d.queue.Enqueue(&delivery.Delivery{ID: "answer-" + string(m.f.Question), Command: conversation.Answer{
			Author: m.f.By, Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID("answer-" + m.f.Question),
			Question: m.f.Question, Text: m.f.Text,
		}})
	case *amendment:
		d.amend(m.f)
	case *stop:
		if !d.stop {
			d.stop = true
			d.tell()
		}
	case *over:
		d.callEnded = true
	case *actor.Stopping:
		if d.timer != nil {
			d.timer.Stop()
		}
	default:
		d.queue.Handle(m)
	}
	if d.callEnded && (!d.stop || d.queue.Empty()) {
		ctx.Stop(ctx.Self())
	}
}

// scheduleTell sends the objective to the sub-session again later: the repeated
// command brings every answer again that was lost on the way up.
func (d *delegation) scheduleTell() {
	env, self := d.env, d.self
	d.timer = time.AfterFunc(d.env.TellEvery, func() { env.Send(self, &tellAgain{}) })
}

// tell tells the sub-session its objective, or to cancel itself.
func (d *delegation) tell() {
	switch {
	case d.stop:
		d.queue.Enqueue(&delivery.Delivery{ID: "cancel", Command: conversation.Cancel{By: conversation.ByParent, Reason: "cancelled by its parent"}, Done: d.cancelDone})
	case d.f.Objective == "":
		d.readLog(d.f.Seq, nil)
	default:
		d.queue.Enqueue(&delivery.Delivery{ID: "tell", Done: d.tellDone, Command: conversation.Tell{
			Agent: d.f.Agent, Owner: d.as.Owner, Access: d.as.Access, Policy: d.as.Policy, Lifted: d.as.Lifted, Objective: d.f.Objective,
		}})
	}
}

// tellDone: a sub-session that refuses its objective for good will never answer.
func (d *delegation) tellDone(err *conversation.Error) {
	if err != nil {
		d.done(conversation.CallFailed, "the delegation could not start: "+err.Message)
	}
}

// cancelDone: a sub-session that is not there, or has nothing to cancel, has stopped.
func (d *delegation) cancelDone(err *conversation.Error) {
	if err != nil {
		d.done(conversation.CallCancelled, "cancelled")
	}
}

func (d *delegation) done(status conversation.CallStatus, summary string) {
	d.report(conversation.DelegationDone{Delegation: d.f.Call, Status: status, Summary: summary})
}

func (d *delegation) report(c conversation.Command) { d.env.Send(d.parent, &End{Command: c}) }

// amend hands a text down; the outcome is the result of the amend call.
func (d *delegation) amend(f conversation.AmendDelegation) {
	if f.Text == "" {
		d.readLog(f.Seq, &f)
		return
	}
	id := "amend-" + string(f.Call)
	d.queue.Enqueue(&delivery.Delivery{ID: id, LowPriority: true,
		Command: conversation.Say{
			Author: d.as.Owner, Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID(id), Text: f.Text, Mode: conversation.ModeSteer,
		},
		Done: func(err *conversation.Error) {
			end := conversation.ToolDone{Call: f.Call, Status: conversation.CallOK, Result: "delivered"}
			if err != nil {
				end.Status, end.Result = conversation.CallError, err.Message
			}
			d.report(end)
		}})
}

// readLog reads a text that only the log has after a recovery.
func (d *delegation) readLog(seq conversation.Seq, amend *conversation.AmendDelegation) {
	env, key, self := d.env, d.key, d.self
	env.Go("reading a call", func() {
		m := &readTexts{amend: amend}
		event, err := env.Event(key, seq)
		switch b := event.Body.(type) {
		case conversation.DelegationStarted:
			m.objective = b.Objective
		case conversation.ToolStarted:
			var args struct {
				Text string `json:"text"`
			}
			if err == nil {
				err = json.Unmarshal([]byte(b.Args), &args)
			}
			if amend != nil {
				amend.Text = args.Text
			}
		}
		m.err = err
		env.Send(self, m)
	}, func(err error) { env.Send(self, &readTexts{amend: amend, err: err}) })
}

func (d *delegation) read(m *readTexts) {
	switch {
	case m.amend != nil && (m.err != nil || m.amend.Text == ""):
		d.report(conversation.ToolDone{Call: m.amend.Call, Status: conversation.CallError, Result: "the text could not be read"})
	case m.amend != nil:
		d.amend(*m.amend)
	case m.objective != "":
		d.f.Objective = m.objective
		d.tell()
	default:
		// The next tellAgain reads again.
		d.env.Log.Error("the objective of a delegation cannot be read", "session", d.key.Session, "tenant", d.key.Tenant, "call", d.f.Call, "error", m.err)
	}
}
