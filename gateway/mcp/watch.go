package mcp

import (
	"context"
	"errors"
	"maps"
	"sync"
	"time"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// watches are what hosts of older versions have subscribed to on this node. A host hears of it on a
// stream, whose events say what it was told of: it brings that back when it was cut off, to any
// node. What is in here is for the time between a subscription and the stream.
type watches struct {
	mu  sync.Mutex
	all map[string]*watch // by the nonce of the MCP session
}

type watch struct {
	told    map[conversation.SessionID]conversation.Seq // the sessions, and up to where the host knows them
	changed chan struct{}                               // has one in it when told has others
	heard   context.CancelFunc                          // ends the stream; nil = there is none
	stream  *stream
	last    time.Time
}

func newWatches() *watches { return &watches{all: map[string]*watch{}} }

// How many MCP sessions without a stream are known, and for how long.
const (
	maxUnheard = 10000
	unheardFor = 15 * time.Minute
)

// of is the watch of an MCP session, which is made. nil = there are too many.
func (w *watches) of(nonce string, now time.Time) *watch {
	if known := w.all[nonce]; known != nil {
		known.last = now
		return known
	}
	if len(w.all) >= maxUnheard {
		maps.DeleteFunc(w.all, func(_ string, o *watch) bool { return o.heard == nil && now.Sub(o.last) > unheardFor })
		if len(w.all) >= maxUnheard {
			return nil
		}
	}
	made := &watch{told: map[conversation.SessionID]conversation.Seq{}, changed: make(chan struct{}, 1), last: now}
	w.all[nonce] = made
	return made
}

func (w *watches) drop(nonce string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if known := w.all[nonce]; known != nil {
		if known.heard != nil {
			known.heard()
		}
		delete(w.all, nonce)
	}
}

func (w *watch) change() {
	select {
	case w.changed <- struct{}{}:
	default:
	}
}

var errTooMany = &conversation.Error{Code: conversation.RateLimited, Message: "there are too many subscriptions: limits.follows_per_connection"}

// subscribe has a host hear of a session.
func (m *way) subscribe(ctx context.Context, req *sdk.SubscribeRequest) error {
	k, uri := callOf(ctx), req.Params.URI
	key, err := sessionOf(k.who, uri)
	if err != nil {
		return err
	}
	asking, cancel := context.WithTimeout(ctx, m.Times.Request)
	defer cancel()
	as, err := m.ReadsAs(asking, k.who, key)
	if err != nil {
		return m.missing(uri, err)
	}
	view, err := m.View(asking, key, as)
	if err != nil {
		return m.missing(uri, err)
	}
	if k.acked != nil {
		return m.listenTo(ctx, k, key, view.Head)
	}
	if k.host.Nonce == "" {
		return &jsonrpc.Error{Code: jsonrpc.CodeInvalidRequest, Message: "a subscription needs an MCP session: initialize"}
	}
	m.watches.mu.Lock()
	defer m.watches.mu.Unlock()
	w := m.watches.of(k.host.Nonce, m.Now())
	if w == nil {
		return m.missing(uri, conversation.Errorf(conversation.Overloaded, "there are too many subscriptions"))
	}
	if _, has := w.told[key.Session]; has {
		return nil
	}
	if err := m.most(len(w.told)); err != nil {
		return m.missing(uri, err)
	}
	w.told[key.Session] = view.Head
	w.change()
	return nil
}

func (m *way) most(open int) error {
	if most := m.Limits.FollowsPerConnection; most > 0 && open >= most {
		m.Metrics.Refused.WithLabelValues("follows_per_connection").Inc()
		return errTooMany
	}
	return nil
}

func (m *way) unsubscribe(ctx context.Context, req *sdk.UnsubscribeRequest) error {
	k := callOf(ctx)
	key, err := sessionOf(k.who, req.Params.URI)
	if err != nil || k.acked != nil {
		return nil
	}
	m.watches.mu.Lock()
	defer m.watches.mu.Unlock()
	if w := m.watches.all[k.host.Nonce]; w != nil {
		delete(w.told, key.Session)
		w.change()
	}
	return nil
}

// listenTo has a host of the newest version hear of a session on the stream of its request.
func (m *way) listenTo(ctx context.Context, k *call, key conversation.SessionKey, since conversation.Seq) error {
	k.listening++
	if err := m.most(k.listening - 1); err != nil {
		return m.missing(uriOf(key.Session), err)
	}
	k.listens.Go(func() {
		select {
		case <-k.acked:
		case <-ctx.Done():
			return
		}
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		defer context.AfterFunc(k.stream.leaving, stop)()
		m.news(ctx, k.who, key, since, func(conversation.Seq) bool {
			return k.stream.say("", appendUpdated(nil, uriOf(key.Session), &k.id))
		})
	})
	return nil
}

// news tells what comes behind an event of a session that is to be read, each commit once, until
// the session is gone for who hears of it.
func (m *way) news(ctx context.Context, who *service.Principal, key conversation.SessionKey, since conversation.Seq, tell func(conversation.Seq) bool) {
	defer func() {
		if p := recover(); p != nil {
			m.Metrics.Panics.Inc()
			m.Log.Error("panic", "where", "mcp", "panic", p, "stack", service.Stack())
		}
	}()
	f, err := m.Follow(ctx, who, exchange.From{Key: key, Since: since})
	var refused *conversation.Error
	if errors.As(err, &refused) && refused.Code == conversation.Conflict { // the log is another one
		if !tell(0) {
			return
		}
		f, err = m.Follow(ctx, who, exchange.From{Key: key, FromNow: true})
	}
	if err != nil {
		return
	}
	defer f.Close()
	for something := false; ; {
		n, err := f.Next(ctx)
		if err != nil {
			return
		}
		switch n.Kind {
		case exchange.Accepted, exchange.TextEnded, exchange.TextFinal, exchange.Asked, exchange.Closed, exchange.Status, exchange.Resolved:
			something = true
		}
		if something && !f.More() {
			something = false
			if !tell(n.At.Seq()) {
				return
			}
		}
	}
}

func appendUpdated(dst []byte, uri string, listens *jsonrpc.ID) []byte {
	dst = append(dst, `{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":`...)
	dst = protocol.AppendString(dst, uri)
	if listens != nil {
		dst = append(dst, `,"_meta":{"`+sdk.MetaKeySubscriptionID+`":`...)
		dst = append(dst, rawID(*listens)...)
		dst = append(dst, '}')
	}
	return append(dst, "}}"...)
}

// hear is the stream on which a host of an older version hears of what it has subscribed to. There
// is one for each MCP session: a newer one takes the place of the one before, which may be of a
// connection that nobody has seen end.
func (m *way) hear(s *stream, who *service.Principal, h host, from cursor) {
	ctx, stop := context.WithCancel(s.ctx)
	defer stop()
	defer context.AfterFunc(s.leaving, stop)()
	m.watches.mu.Lock()
	w := m.watches.of(h.Nonce, m.Now())
	if w == nil {
		m.watches.mu.Unlock()
		return
	}
	if w.heard != nil {
		w.heard()
	}
	for id, seq := range from.Watched {
		w.told[id] = seq // what was sent behind it may be lost
	}
	w.heard, w.stream = stop, s
	w.change()
	m.watches.mu.Unlock()
	primes := h.Version >= versionPrimes
	var follows sync.WaitGroup
	running := map[conversation.SessionID]context.CancelFunc{}
	defer func() {
		stop()
		follows.Wait()
		m.watches.mu.Lock()
		defer m.watches.mu.Unlock()
		if w.stream == s {
			w.heard, w.stream, w.last = nil, nil, m.Now()
			if m.watches.all[h.Nonce] == w && len(w.told) == 0 {
				delete(m.watches.all, h.Nonce)
			}
		}
	}()
	for {
		select {
		case <-w.changed:
		case <-ctx.Done():
			return
		}
		m.watches.mu.Lock()
		if w.stream != s {
			w.change() // it is for the newer one
			m.watches.mu.Unlock()
			return
		}
		told := maps.Clone(w.told)
		m.watches.mu.Unlock()
		for id, end := range running {
			if _, still := told[id]; !still {
				end()
				delete(running, id)
			}
		}
		for id, seq := range told {
			if running[id] != nil {
				continue
			}
			follow, end := context.WithCancel(ctx)
			running[id] = end
			follows.Go(func() {
				defer end()
				m.news(follow, who, conversation.SessionKey{Tenant: who.Tenant, Session: id}, seq, func(to conversation.Seq) bool {
					return s.say(m.watches.tell(w, s, id, to), appendUpdated(nil, uriOf(id), nil))
				})
			})
		}
		if primes && len(told) > 0 {
			s.prime(cursor{Watched: few(told)}.String())
		}
	}
}

// tell notes that a host is told of a session, and is the id of the event that does.
func (w *watches) tell(of *watch, s *stream, id conversation.SessionID, to conversation.Seq) string {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, still := of.told[id]; still && of.stream == s {
		of.told[id] = to
	}
	return cursor{Watched: few(of.told)}.String()
}

// few are as many of the sessions as the id of an event may name.
func few(told map[conversation.SessionID]conversation.Seq) map[conversation.SessionID]conversation.Seq {
	if len(told) <= maxWatched {
		return maps.Clone(told)
	}
	some := map[conversation.SessionID]conversation.Seq{}
	for id, seq := range told {
		if len(some) == maxWatched {
			break
		}
		some[id] = seq
	}
	return some
}
