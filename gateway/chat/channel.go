package chat

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"strings"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"
	"parley/metrics"
)

// Engine holds the methods of the engine that a channel calls; service.Sessions has them.
type Engine interface {
	fanout.Source
	Create(key conversation.SessionKey, c conversation.Create, done func(key conversation.SessionKey, created bool, err error))
	Tell(key conversation.SessionKey, as conversation.UserID, c conversation.Command, done func(conversation.Receipt, error))
}

// Settings are the configuration of one channel: [channels.NAME].
type Settings struct {
	Tenant     conversation.TenantID
	All        bool // answer = "all": in groups, too, every message is meant for the bot
	Overflow   Overflow
	Allow      Lists
	UserRate   int  // messages of one person in a minute; 0 = no limit
	Reactions  bool // the state of messages is shown by reactions
	MaxChats   int  // chats that are followed at a time; 0 = no limit
	MaxWaiting int  // updates that wait at a time, of all chats
}

// Lists are who may do what; nil or empty = nobody, "*" = everybody.
type Lists struct {
	Chats, Users, Readers, Workspaces []string
}

// Deps are what a channel works with.
type Deps struct {
	Engine  Engine
	Hub     *fanout.Hub
	Limits  protocol.Limits
	Store   chats.Store
	Metrics *metrics.Chats
	Logger  *slog.Logger
	Now     func() time.Time
	// Refusal makes of an error of the engine what a person may be told.
	Refusal func(error) *conversation.Error
}

// Channel joins the chats of one platform with sessions. Run runs it; of one channel, one may
// run at a time, which the revisions of its rows hold as well.
type Channel struct {
	platform Platform
	traits   Traits
	settings Settings
	d        Deps
	owner    service.Principal // whose the sessions are
	rates    *service.Rates
	strange  *strangers

	mu    sync.Mutex // guards what follows, and queue and working of rooms; before a room's mu
	chats map[chats.Chat]*room
	stop  context.CancelCauseFunc // of the run; nil = it does not run
	wg    sync.WaitGroup          // all that a run has started
	slots chan struct{}           // of updates that wait
}

// New makes a channel for a platform.
func New(p Platform, s Settings, d Deps) *Channel {
	t := p.Traits()
	if d.Now == nil {
		d.Now = time.Now
	}
	d.Logger = d.Logger.With("channel", string(t.Channel))
	c := &Channel{
		platform: p, traits: t, settings: s, d: d,
		// No credential gives anybody this user id: those of [[auth.keys]] and tokens may not
		// begin with "channel:".
		owner:   service.Principal{Tenant: s.Tenant, User: conversation.UserID("channel:" + string(t.Channel))},
		rates:   service.NewRates(float64(s.UserRate)/60, s.UserRate),
		strange: newStrangers(),
	}
	return c
}

// Name is the channel's name in the configuration, in metrics and in keys of chats.
func (c *Channel) Name() chats.Channel { return c.traits.Channel }

// Run receives and delivers until ctx ends, and ends with everything that it has started. A
// platform that fails is tried again for ever; the error is of what cannot be mended so.
func (c *Channel) Run(ctx context.Context) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	c.mu.Lock()
	if c.stop != nil {
		c.mu.Unlock()
		return errors.New("the channel runs already")
	}
	c.stop, c.chats = stop, map[chats.Chat]*room{}
	c.slots = make(chan struct{}, max(c.settings.MaxWaiting, 1))
	c.mu.Unlock()
	defer func() {
		stop(nil)
		c.wg.Wait()
		c.mu.Lock()
		c.stop, c.chats = nil, nil
		c.mu.Unlock()
		c.d.Metrics.Connected.WithLabelValues(string(c.Name())).Set(0)
		c.d.Metrics.Followed.WithLabelValues(string(c.Name())).Set(0)
	}()
	if err := c.resume(ctx); err != nil {
		return err
	}
	pause := pauses()
	for {
		began := c.d.Now()
		c.d.Metrics.Connected.WithLabelValues(string(c.Name())).Set(1)
		err := c.platform.Run(ctx, desk{c, ctx})
		c.d.Metrics.Connected.WithLabelValues(string(c.Name())).Set(0)
		if ctx.Err() != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errReplaced) {
				return cause
			}
			return nil
		}
		if c.d.Now().Sub(began) > longestPause {
			pause = pauses()
		}
		rest := pause()
		var f *Failure
		if errors.As(err, &f) {
			rest = max(rest, f.After)
		}
		c.fault("receive", err)
		c.d.Logger.Warn("the platform does not let us receive; trying again", "error", c.clean(err), "pause", rest)
		if wait(ctx, rest) != nil {
			return nil
		}
	}
}

// resume follows all chats that the channel knows, as far as MaxChats lets it.
func (c *Channel) resume(ctx context.Context) error {
	n := 0
	for stored, err := range c.d.Store.Rows(ctx, c.settings.Tenant, c.Name()) {
		if err != nil {
			return fmt.Errorf("reading the channel's chats: %w", err)
		}
		if stored.Chat == "" {
			continue
		}
		r := c.newRoom(stored.Chat)
		if err := r.row.read(stored); err != nil {
			c.d.Logger.Error("a chat is left alone", "chat", string(stored.Chat), "error", err)
			continue
		}
		if n++; c.settings.MaxChats > 0 && n > c.settings.MaxChats {
			c.d.Logger.Warn("more chats than max_chats are known; the others are followed again when somebody writes there", "max_chats", c.settings.MaxChats)
			break
		}
		c.mu.Lock()
		c.chats[stored.Chat] = r
		c.mu.Unlock()
		r.follow(ctx)
	}
	return nil
}

// chatKey is a chat's key from the platform's id of it.
func (c *Channel) chatKey(id string) chats.Chat { return chats.Chat(string(c.Name()) + ":" + id) }

// ended says that the run cannot go on.
func (c *Channel) ended(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.stop != nil {
		c.stop(err)
	}
}

// fault counts an error of the channel.
func (c *Channel) fault(doing string, err error) {
	reason := "unknown"
	var f *Failure
	if errors.As(err, &f) {
		reason = f.Trouble.String()
	}
	c.d.Metrics.Errors.WithLabelValues(string(c.Name()), doing, reason).Inc()
}

// clean is an error's text for the log. Adapters take secrets out of their errors; this keeps
// it to a line.
func (c *Channel) clean(err error) string {
	if err == nil {
		return "it ended without an error"
	}
	line := strings.ReplaceAll(err.Error(), "\n", " ")
	if len(line) > 500 {
		line = strings.ToValidUTF8(line[:500], "") + "…"
	}
	return line
}

// desk is the channel as its platform sees it.
type desk struct {
	c   *Channel
	ctx context.Context
}

// Take implements Desk.
func (d desk) Take(ctx context.Context, u Update, done func(error)) { d.c.take(d.ctx, ctx, u, done) }

// Known implements Desk.
func (d desk) Known(ctx context.Context) iter.Seq2[KnownChat, error] {
	return func(yield func(KnownChat, error) bool) {
		for stored, err := range d.c.d.Store.Rows(ctx, d.c.settings.Tenant, d.c.Name()) {
			if err != nil {
				yield(KnownChat{}, err)
				return
			}
			r := row{key: stored.Key}
			if stored.Chat == "" || r.read(stored) != nil {
				continue
			}
			id := strings.TrimPrefix(string(stored.Chat), string(d.c.Name())+":")
			if !yield(KnownChat{Chat: id, To: r.state.To, Last: r.state.Last}, nil) {
				return
			}
		}
	}
}

// Pauses between tries.
const (
	firstPause   = 500 * time.Millisecond
	longestPause = time.Minute
)

// pauses are the times to wait between tries: each twice the one before, up to longestPause.
func pauses() func() time.Duration {
	next := firstPause
	return func() time.Duration {
		p := next
		next = min(2*next, longestPause)
		return p
	}
}

// wait waits, or until ctx ends: then it returns the context's error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
