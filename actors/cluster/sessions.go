package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"iter"
	"time"

	"parley/actors/cluster/internal/lanes"
	"parley/actors/cluster/internal/speech"
	"parley/actors/placement"
	"parley/conversation"
	"parley/conversation/wire"
)

// Service is what clients ask sessions for, on whichever node these live. The gateway's
// interface and the engine fit it.
type Service interface {
	Create(key conversation.SessionKey, c conversation.Create, done func(key conversation.SessionKey, created bool, err error))
	Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error))
	View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error))
	Erase(ctx context.Context, key conversation.SessionKey, as conversation.UserID) error
	Claim(ctx context.Context, r conversation.ClaimRequest) ([]conversation.HandedOut, error)

	Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error]
	Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error)
	Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error]
	Task(ctx context.Context, key conversation.SessionKey, task conversation.TaskID) (conversation.TaskRow, error)
	Tasks(ctx context.Context, f conversation.TaskFilter) iter.Seq2[conversation.TaskRow, error]

	Ready() error
	Health() error
}

// Sessions serves clients of this node, whose sessions may live on any node: what an engine
// alone does for one node. What is read from the store is read here.
func (n *Node) Sessions(engine Runner) Service {
	r := &router{Service: engine, n: n, engine: engine}
	n.router.Store(r)
	n.engine.Store(&engine)
	if relay := n.relay.Load(); relay != nil {
		relay.Serve(engine)
	}
	return r
}

// router sends what clients of this node say to the nodes of the sessions.
type router struct {
	Service // the reads of the store
	n       *Node
	engine  Runner
}

// Tell gives a session a command, on whichever node it lives.
func (r *router) Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error)) {
	c = repeatable(c)
	var receipt conversation.Receipt
	r.do(key, c.Class().Bytes, &request{
		ask: func() []byte { return askTell(key, as, c) },
		here: func(told bool, done func(error)) {
			tell(r.engine, told)(key, as, c, func(got conversation.Receipt, err error) { receipt = got; done(r.n.forNewer(key, err)) })
		},
		there: func(a *answer) (err error) {
			receipt, err = wire.DecodeReceipt(a.Body)
			return err
		},
	}, func(err error) { done(receipt, err) })
}

// Create opens a root session, or finds that it is there.
func (r *router) Create(key conversation.SessionKey, c conversation.Create, done func(key conversation.SessionKey, created bool, err error)) {
	at, made := key, false
	r.do(key, c.Class().Bytes, &request{
		ask: func() []byte { return askCreate(key, c) },
		here: func(told bool, done func(error)) {
			open(r.engine, told)(key, c, func(got conversation.SessionKey, created bool, err error) { at, made = got, created; done(err) })
		},
		there: func(a *answer) error {
			at, made = conversation.SessionKey{Tenant: key.Tenant, Session: a.Session}, a.Created
			return nil
		},
	}, func(err error) { done(at, made, err) })
}

// View shows a session as of its durable head.
func (r *router) View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	var view conversation.View
	r.do(key, 0, &request{
		ask: func() []byte { return askView(key, as) },
		here: func(_ bool, done func(error)) {
			r.engine.View(key, as, func(got conversation.View, err error) { view = got; done(r.n.forNewer(key, err)) })
		},
		there: func(a *answer) (err error) {
			view, err = wire.DecodeView(a.Body)
			return err
		},
	}, func(err error) { done(view, err) })
}

// Erase deletes a session and everything below it.
func (r *router) Erase(ctx context.Context, key conversation.SessionKey, as conversation.UserID) error {
	ended := make(chan error, 1)
	again := false // what was sent again may have been done the first time
	r.do(key, 0, &request{
		ask: func() []byte { return askErase(key, as) },
		here: func(told bool, done func(error)) {
			if !r.n.goErase(func(ctx context.Context) { done(erase(r.engine, told)(ctx, key, as)) }) {
				done(errMoving(nil))
			}
		},
		again: func() { again = true },
	}, func(err error) {
		if refused := conversation.AsError(err); again && refused != nil && refused.Code == conversation.NotFound {
			err = nil
		}
		ended <- err
	})
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
		return conversation.AsError(ctx.Err())
	}
}

// Ready says why nobody can be served now; nil = clients can be.
func (r *router) Ready() error {
	return errors.Join(r.n.Ready(), r.engine.Ready())
}

// request is one thing that is asked of a session, here or on another node.
type request struct {
	ask   func() []byte // for another node
	here  func(told bool, done func(error))
	there func(a *answer) error // reads the answer of another node
	again func()                // it is sent for the second time, or later; nil = nothing to note

	sent bool
}

// do has a request done where the session lives. The result that its functions leave is that
// of the last time that it was sent.
func (r *router) do(key conversation.SessionKey, bytes int, q *request, done func(error)) {
	n := r.n
	if !n.standing.ok() {
		done(errOut())
		return
	}
	deadline := time.Now().Add(n.o.RequestTimeout)
	n.lanes.Do(key, &lanes.Job{
		Bytes: bytes,
		Send: func(to conversation.Member, turn lanes.Turn, done func(error)) {
			if q.sent && q.again != nil {
				q.again()
			}
			q.sent = true
			if to == n.self {
				r.here(key, q, turn, done)
				return
			}
			n.ask(to, speech.AppendTurn(q.ask(), turn.Round, turn.Index, turn.Told), time.Until(deadline), n.counted("there", done), q.there)
		},
		Done: done,
	})
}

// here has a request done by this node's own engine.
func (r *router) here(key conversation.SessionKey, q *request, turn lanes.Turn, done func(error)) {
	n := r.n
	done = n.counted("here", done)
	if !n.gate.Enter(n.self, key, turn) {
		done(&lanes.AwayError{})
		return
	}
	q.here(turn.Told, func(err error) {
		if away := n.away(key, err); away != nil {
			n.gate.Shut(n.self, key, turn)
			err = away
		}
		done(err)
	})
}

// counted counts how a request ends.
func (n *Node) counted(to string, done func(error)) func(error) {
	return func(err error) {
		outcome := "ok"
		switch {
		case lanes.Moved(err):
			outcome = "moved"
		case err != nil:
			outcome = "refused"
		}
		n.m.Requests.WithLabelValues(to, outcome).Inc()
		done(err)
	}
}

// repeatable gives a command without a key one of its own: on its way to another node it may
// have to be sent twice, and must take effect once.
func repeatable(c conversation.Command) conversation.Command {
	fresh := func(id *conversation.ClientMsgID) {
		if *id == "" {
			*id = conversation.ClientMsgID("node-" + rand.Text())
		}
	}
	switch c := c.(type) {
	case conversation.Say:
		fresh(&c.ClientMsgID)
		return c
	case conversation.Answer:
		fresh(&c.ClientMsgID)
		return c
	case conversation.Reply:
		fresh(&c.ClientMsgID)
		return c
	case conversation.Cancel:
		fresh(&c.ClientMsgID)
		return c
	case conversation.AddPart:
		if c.Source == "" {
			fresh(&c.ClientMsgID)
		}
		return c
	}
	return c
}

func errMoving(cause error) error {
	err := conversation.Errorf(conversation.Unavailable, "the session cannot be reached right now; please try again in a moment")
	err.RetryAfter, err.Err = time.Second, cause
	return err
}

// forNewer says that a session is another member's if err says that only a newer program can
// read it, and there is a member with one: the same for all who ask. That member is told as if
// the store had said so, and takes the session, which this node has given up, although the
// ring gives it to this node. As long as all keep to the features, nothing of it happens.
func (n *Node) forNewer(key conversation.SessionKey, err error) error {
	if err == nil || !errors.Is(err, conversation.ErrTooNew) {
		return err
	}
	var newer []conversation.Member
	for _, m := range n.Members() {
		if m.Sessions && !m.Dead && !m.Draining && m.Feature > n.o.Feature {
			newer = append(newer, m.Member)
		}
	}
	at, ok := placement.NewRing(newer).Owner(conversation.SessionKey{Tenant: key.Tenant, Session: key.Session.Root()})
	if !ok {
		return err
	}
	n.log.Warn("only a newer member can read a session", "session", key.Session, "tenant", key.Tenant, "member", at.String(), "error", err)
	return errMoving(&placement.ElsewhereError{At: at})
}

// away says whose a session is, if err says that it is not here; nil = it was here. An owner
// that is not the ring's is the store's.
func (n *Node) away(key conversation.SessionKey, err error) *lanes.AwayError {
	var e *placement.ElsewhereError
	switch {
	case errors.As(err, &e):
		key.Session = key.Session.Root()
		ring, _ := n.places.owner(key)
		return &lanes.AwayError{At: e.At, Owns: (e.Owns || e.At != ring) && e.At != conversation.Member{}}
	case errors.Is(err, conversation.ErrFenced):
		return &lanes.AwayError{}
	default:
		return nil
	}
}
