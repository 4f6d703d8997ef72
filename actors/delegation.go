package actors

import (
	"encoding/json"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// delegate starts or goes on with a delegation: a child actor that speaks to the
// sub-session until that has an answer. What the sub-session has to say comes up
// by its own uplink.
func (s *session) delegate(f conversation.StartDelegation) {
	if pid := s.calls[f.Call]; pid != nil {
		if f.Stop {
			s.e.system.Root.Send(pid, &stopCall{})
		}
		return
	}
	summary := s.machine.Summary()
	child := &delegation{e: s.e, key: s.key, parent: s.self, f: f, owner: summary.Owner, access: summary.Access, stop: f.Stop}
	s.keepCall(f.Call, s.ctx.Spawn(actor.PropsFromProducer(func() actor.Actor { return child })))
}

// amend forwards a text to a running delegation.
func (s *session) amend(f conversation.AmendDelegation) {
	pid := s.calls[f.Delegation]
	if pid == nil {
		s.send(&callEnd{cmd: conversation.ToolDone{Call: f.Call, Status: conversation.CallError, Result: "the delegation has ended"}})
		return
	}
	s.e.system.Root.Send(pid, &amendment{f: f})
}

// The messages of a delegation's child, beside *stopCall and *over.
type (
	route struct {
		deadLetterOK
		f conversation.RouteAnswer
	}
	amendment struct {
		deadLetterOK
		f conversation.AmendDelegation
	}
	tellAgain struct{ deadLetterOK }
	readTexts struct {
		deadLetterOK
		objective string
		amend     *conversation.AmendDelegation
		err       error
	}
)

// delegation is the child actor of one delegation: the one ordered way down.
type delegation struct {
	e         *Engine
	key       conversation.SessionKey // of the parent
	parent    *actor.PID
	f         conversation.StartDelegation
	owner     conversation.UserID
	access    conversation.Access
	stop      bool
	callEnded bool
	queue     deliveryQueue
	timer     *time.Timer
}

// Receive is the actor's.
func (d *delegation) Receive(ctx actor.Context) {
	switch m := ctx.Message().(type) {
	case *actor.Started:
		d.queue = deliveryQueue{e: d.e, self: ctx.Self(), to: conversation.SessionKey{Tenant: d.key.Tenant, Session: d.f.Session}}
		d.tell()
		d.later()
	case *tellAgain:
		if len(d.queue.queue) == 0 {
			d.tell()
		}
		d.later()
	case *readTexts:
		d.read(m)
	case *route:
		d.queue.enqueue(&delivery{id: "answer-" + string(m.f.Question), cmd: conversation.Answer{
			Author: m.f.By, Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID("answer-" + m.f.Question),
			Question: m.f.Question, Text: m.f.Text,
		}})
	case *amendment:
		d.amend(m.f)
	case *stopCall:
		if !d.stop {
			d.stop = true
			d.tell()
		}
	case *callOver:
		d.callEnded = true
	case *deliveryDone:
		d.queue.done(m)
	case *retryDelivery:
		d.queue.retry()
	case *actor.Stopping:
		if d.timer != nil {
			d.timer.Stop()
		}
	}
	if d.callEnded && (!d.stop || len(d.queue.queue) == 0) {
		ctx.Stop(ctx.Self())
	}
}

// later has the sub-session told again: whatever was lost on the way up, a
// repeated tell brings it again.
func (d *delegation) later() {
	root, self := d.e.system.Root, d.queue.self
	d.timer = time.AfterFunc(d.e.cfg.TellEvery, func() { root.Send(self, &tellAgain{}) })
}

// tell tells the sub-session its objective, or to cancel itself.
func (d *delegation) tell() {
	switch {
	case d.stop:
		d.queue.enqueue(&delivery{id: "cancel", cmd: conversation.Cancel{By: conversation.ByParent, Reason: "cancelled by its parent"}, done: d.cancelDone})
	case d.f.Objective == "":
		d.readLog(d.f.Seq, nil)
	default:
		d.queue.enqueue(&delivery{id: "tell", done: d.tellDone, cmd: conversation.Tell{
			Agent: d.f.Agent, Owner: d.owner, Access: d.access, Objective: d.f.Objective,
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

func (d *delegation) report(c conversation.Command) { d.e.system.Root.Send(d.parent, &callEnd{cmd: c}) }

// amend hands a text down; the outcome is the result of the amend call.
func (d *delegation) amend(f conversation.AmendDelegation) {
	if f.Text == "" {
		d.readLog(f.Seq, &f)
		return
	}
	id := "amend-" + string(f.Call)
	d.queue.enqueue(&delivery{id: id, lowPriority: true,
		cmd: conversation.Say{
			Author: d.owner, Via: conversation.ViaDelegation, ClientMsgID: conversation.ClientMsgID(id), Text: f.Text, Mode: conversation.ModeSteer,
		},
		done: func(err *conversation.Error) {
			end := conversation.ToolDone{Call: f.Call, Status: conversation.CallOK, Result: "delivered"}
			if err != nil {
				end.Status, end.Result = conversation.CallError, err.Message
			}
			d.report(end)
		}})
}

// readLog reads a text that only the log has after a recovery.
func (d *delegation) readLog(seq conversation.Seq, amend *conversation.AmendDelegation) {
	e, key, root, self := d.e, d.key, d.e.system.Root, d.queue.self
	e.workers.Go("reading a call", func() {
		m := &readTexts{amend: amend}
		event, err := e.event(key, seq)
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
		root.Send(self, m)
	}, func(err error) { root.Send(self, &readTexts{amend: amend, err: err}) })
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
		d.e.log.Error("the objective of a delegation cannot be read", "session", d.key.Session, "tenant", d.key.Tenant, "call", d.f.Call, "err", m.err)
	}
}

// report hands what a sub-session has to say to its parent: in order, and each
// until the parent has committed what follows from it.
func (s *session) report(effect conversation.Effect) {
	parent, call, ok := s.key.Session.Parent()
	if !ok {
		return
	}
	if s.uplink == nil {
		link := &uplink{queue: deliveryQueue{e: s.e, to: conversation.SessionKey{Tenant: s.key.Tenant, Session: parent}}}
		s.uplink = s.ctx.Spawn(actor.PropsFromProducer(func() actor.Actor { return link }))
	}
	up, root := s.uplink, s.e.system.Root
	switch f := effect.(type) {
	case conversation.Report:
		done := conversation.DelegationDone{
			Delegation: call, Status: f.Status, Summary: f.Summary, Took: time.Since(s.machine.Summary().CreatedAt).Round(time.Millisecond),
		}
		if f.Summary != "" || f.Seq == 0 {
			root.Send(up, &delivery{id: "done", cmd: done})
			return
		}
		e, key := s.e, s.key
		e.workers.Go("reading a result", func() {
			event, err := e.event(key, f.Seq)
			switch b := event.Body.(type) {
			case conversation.Response:
				done.Summary = b.Text
			case conversation.PartialResponse:
				done.Summary = b.Text
			}
			if err != nil { // the parent tells again, and this is repeated
				e.log.Error("the result of a delegation cannot be read", "session", key.Session, "tenant", key.Tenant, "err", err)
				return
			}
			root.Send(up, &delivery{id: "done", cmd: done})
		}, nil)
	case conversation.ReportQuestion:
		q := f.Asked
		root.Send(up, &delivery{id: "asked-" + string(q.Question), cmd: conversation.DelegationAsked{
			Delegation: call, Question: q.Question, Text: q.Text, Choices: q.Choices, ExpiresAt: q.ExpiresAt, Default: q.Default, Approval: q.Approval,
		}})
	case conversation.ReportQuestions:
		root.Send(up, &delivery{id: "questions", cmd: conversation.DelegationQuestions{Delegation: call, Open: f.Open}})
	case conversation.ReportQuestionClosed:
		root.Send(up, &delivery{id: "closed-" + string(f.Question), cmd: conversation.DelegationQuestionClosed{
			Delegation: call, Question: f.Question, Reason: f.Reason, Default: f.Default,
		}})
	}
}
