package chat

import (
	"context"
	"errors"
	"sync"

	"parley/conversation"
	"parley/conversation/chats"
)

// room is one chat of a channel, and the session that it shows.
type room struct {
	c *Channel

	queue   []func(*room) // updates that wait for those before them
	working bool

	saving chan struct{} // holds a token of who saves, perhaps for long; taken before mu
	mu     sync.Mutex    // guards the rest
	row    row
	loaded bool                   // the row was read, or there is none
	feet   context.CancelFunc     // ends the follower; nil = nobody follows
	of     conversation.SessionID // the session that it follows
	typing context.CancelFunc     // ends the sign that an answer is being made; nil = there is none
}

func (c *Channel) newRoom(key chats.Chat) *room {
	return &room{c: c, saving: make(chan struct{}, 1), row: row{store: c.d.Store, key: chats.Key{Tenant: c.settings.Tenant, Channel: c.Name(), Chat: key}}}
}

// alone waits until nobody else saves the chat's row, and lets nobody else until free is called.
func (r *room) alone(ctx context.Context) (free func(), err error) {
	select {
	case r.saving <- struct{}{}:
		return func() { <-r.saving }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// load reads the chat's row if that was not done; known = there is one.
func (r *room) load(ctx context.Context) (known bool, err error) {
	free, err := r.alone(ctx)
	if err != nil {
		return false, err
	}
	defer free()
	r.mu.Lock()
	loaded, rev := r.loaded || r.row.rev > 0, r.row.rev
	r.mu.Unlock()
	if loaded {
		return rev > 0, nil
	}
	return r.loadLocked(ctx)
}

// reload forgets what is known of the row and reads it again.
func (r *room) reload(ctx context.Context) error {
	free, err := r.alone(ctx)
	if err != nil {
		return err
	}
	defer free()
	_, err = r.loadLocked(ctx)
	return err
}

func (r *room) loadLocked(ctx context.Context) (known bool, err error) {
	var stored chats.Row
	if err := r.c.again(ctx, "read", func() (err error) { stored, err = r.row.store.Load(ctx, r.row.key); return err }); err != nil {
		return false, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.loaded = true
	if stored.Revision == 0 {
		r.row.rev, r.row.state = 0, state{}
		return false, nil
	}
	return true, r.row.read(stored)
}

// save stores the chat's state with a change, and entries for the feed. It is tried until it
// is done; the error is that ctx has ended, or that this process may not write any more.
func (r *room) save(ctx context.Context, change func(*state), entries ...chats.Entry) error {
	free, err := r.alone(ctx)
	if err != nil {
		return err
	}
	defer free()
	return r.c.again(ctx, "save", func() error {
		r.mu.Lock()
		next := r.row // others may read the state while it is written
		r.mu.Unlock()
		err := next.save(ctx, change, entries...)
		if errors.Is(err, errReplaced) || errors.Is(err, errErased) {
			return r.replaced(ctx, err)
		}
		if err == nil {
			r.mu.Lock()
			r.row.rev, r.row.state = next.rev, next.state
			r.mu.Unlock()
		}
		return err
	})
}

// replaced finds out why the row is not ours any more: it was erased with its session, or
// another process writes it.
func (r *room) replaced(ctx context.Context, err error) error {
	stored, lookErr := r.row.store.Load(ctx, r.row.key)
	switch {
	case lookErr != nil:
		return lookErr
	case stored.Revision != 0:
		r.c.ended(err)
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.row.rev, r.row.state = 0, state{People: r.row.state.People}
	return errErased
}

// errErased says that a chat's row is gone, with its session.
var errErased = errors.New("the chat's session was erased")

// note adds an entry to the feed.
func (r *room) note(ctx context.Context, entries ...chats.Entry) error {
	return r.c.again(ctx, "save", func() error {
		err := r.row.store.Save(ctx, r.row.key.Tenant, nil, entries)
		if errors.Is(err, chats.ErrErased) {
			return nil // nobody is to read it any more
		}
		return err
	})
}

// again does f until it is done, or cannot be done: what may pass is tried until ctx ends.
func (c *Channel) again(ctx context.Context, doing string, f func() error) error {
	pause := pauses()
	for {
		err := f()
		var e *conversation.Error
		switch {
		case err == nil || errors.Is(err, errReplaced) || errors.Is(err, errErased) || errors.Is(err, conversation.ErrClosed):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.As(err, &e) && !transient(e):
			return err
		}
		c.d.Metrics.Retries.WithLabelValues(string(c.Name()), doing).Inc()
		c.d.Logger.Debug("trying again", "doing", doing, "error", c.clean(err))
		if wait(ctx, pause()) != nil {
			return ctx.Err()
		}
	}
}

// tell gives the chat's session a command, until it is taken or refused.
func (r *room) tell(ctx context.Context, what conversation.Command) (receipt conversation.Receipt, err error) {
	r.mu.Lock()
	key := r.session()
	r.mu.Unlock()
	err = r.c.again(ctx, "tell", func() error {
		type answer struct {
			receipt conversation.Receipt
			err     error
		}
		told := make(chan answer, 1)
		r.c.d.Engine.Tell(key, r.c.owner.User, what, func(receipt conversation.Receipt, err error) { told <- answer{receipt, err} })
		select {
		case a := <-told:
			receipt = a.receipt
			return r.c.refusal(a.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return receipt, err
}

// create opens the chat's session, or finds it.
func (r *room) create(ctx context.Context, key conversation.SessionKey, what conversation.Create) (made conversation.SessionKey, err error) {
	err = r.c.again(ctx, "create", func() error {
		type answer struct {
			key conversation.SessionKey
			err error
		}
		told := make(chan answer, 1)
		r.c.d.Engine.Create(key, what, func(key conversation.SessionKey, _ bool, err error) { told <- answer{key, err} })
		select {
		case a := <-told:
			made = a.key
			return r.c.refusal(a.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return made, err
}

// view shows the chat's session.
func (r *room) view(ctx context.Context) (v conversation.View, err error) {
	r.mu.Lock()
	key := r.session()
	r.mu.Unlock()
	err = r.c.again(ctx, "view", func() error {
		type answer struct {
			view conversation.View
			err  error
		}
		told := make(chan answer, 1)
		r.c.d.Engine.View(key, r.c.owner.User, func(v conversation.View, err error) { told <- answer{v, err} })
		select {
		case a := <-told:
			v = a.view
			return r.c.refusal(a.err)
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	return v, err
}

// session is the key of the chat's session. The caller holds mu.
func (r *room) session() conversation.SessionKey {
	return conversation.SessionKey{Tenant: r.row.key.Tenant, Session: r.row.state.Session}
}

// refusal is an error of the engine as a person may be told of it.
func (c *Channel) refusal(err error) error {
	if err == nil {
		return nil
	}
	return c.d.Refusal(err)
}

// gone is true for the error of a session that is not there.
func gone(err error) bool {
	var e *conversation.Error
	return errors.As(err, &e) && e.Code == conversation.NotFound
}

// reply answers an update with a text that is not in the session.
func (r *room) reply(ctx context.Context, u Update, text string) error {
	if u.Reply != nil {
		if err := u.Reply(ctx, text); err == nil {
			return nil
		}
	}
	for i, piece := range pieces(text, OverflowSplit, r.fits(nil)) {
		o := Outgoing{Text: r.c.traits.Encode(piece, nil)}
		if i == 0 && u.Group && u.Kind == Said && !u.Command {
			o.ReplyTo = u.Name
		}
		if _, err := r.c.platform.Send(ctx, u.To, o); err != nil {
			// It is no answer of an agent: losing it is better than saying it twice.
			r.c.fault("reply", err)
			r.c.d.Logger.Warn("a reply was not sent", "chat", string(r.row.key.Chat), "error", r.c.clean(err))
			return nil
		}
	}
	return nil
}

// fits judges whether a piece of text fits one message of the platform.
func (r *room) fits(people []Person) func(string) bool {
	t := r.c.traits
	return func(s string) bool { return t.Measure(t.Encode(s, people)) <= t.Limit }
}

// react shows the state of a message; it is a kindness, and not tried again.
func (r *room) react(ctx context.Context, name MessageName, what Reaction) {
	if !r.c.settings.Reactions || !r.c.traits.Reactions || name == "" {
		return
	}
	r.mu.Lock()
	to := r.row.state.To
	r.mu.Unlock()
	if err := r.c.platform.React(ctx, to, name, what); err != nil && ctx.Err() == nil {
		r.c.fault("react", err)
	}
}
