package channels

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"parley/actors/cluster"
	"parley/cmd/parley/internal/assemble"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway"
	"parley/gateway/auth"
	"parley/gateway/chat"
	"parley/gateway/feed"
	"parley/gateway/push"
	"parley/gateway/service"
	"parley/gateway/webhook"
	"parley/metrics"
)

// A channel runs once in a cluster: of one bot, one receives and delivers at a time. It is a
// singleton there, and its name is this and the channel's.
const channelPrefix = "channel:"

// Runner is what runs singletons: the node of a cluster, or a process that is alone.
type Runner interface {
	Singleton(s cluster.Singleton) error
	Ask(ctx context.Context, name string, body []byte, wait time.Duration, hear cluster.Hear) ([]byte, error)
}

// inletWait is how long what a platform brings waits for the node that runs its channel.
// Platforms deliver again what was not taken.
const inletWait = 2 * time.Second

// Group is the channels to chat platforms of this process, and what else runs once in a
// cluster. One goroutine calls its methods.
type Group struct {
	Inlets  map[string]gateway.Inlet // of those that take requests, by name
	runner  Runner
	limits  gateway.Limits
	solo    *cluster.Solo // nil = this process is a member of a cluster, which runs them
	running []assemble.Channel
	busy    bool        // something is to be run
	words   chan []byte // to where pushes run; nil = none do
	ended   sync.WaitGroup
	stop    context.CancelFunc
}

// Open makes the channels of the configuration. node is this process as a member of a cluster;
// nil = it is alone.
func Open(c *config.Config, node Runner, look config.Lookup, log *slog.Logger) (*Group, error) {
	all, err := assemble.OpenChannels(c, look, log)
	if err != nil {
		return nil, config.NewError("channels", err)
	}
	ch := &Group{running: all, limits: c.Gateway.Limits, Inlets: map[string]gateway.Inlet{}, stop: func() {}}
	if ch.runner = node; node == nil {
		ch.solo = cluster.NewSolo(log)
		ch.runner = ch.solo
	}
	for _, one := range all {
		if one.Inlet != nil {
			ch.Inlets[string(one.Name)] = ch.inlet(one.Name)
		}
	}
	return ch, nil
}

// Join has the channels run: here, or on another node. Of what they have saved, feeds are told
// by the store.
func (ch *Group) Join(engine gateway.Sessions, hub *gateway.Hub, store chats.Store, counts func() *metrics.Chats, log *slog.Logger) error {
	if len(ch.running) == 0 {
		return nil
	}
	deps := chat.Deps{
		Engine: engine, Hub: hub, Limits: ch.limits, Store: store, Metrics: counts(), Logger: log,
		Refusal: (&service.Services{Log: log}).Refusal,
	}
	ch.busy = true
	for _, one := range ch.running {
		room := chat.New(one.Platform, one.Settings, deps)
		s := cluster.Singleton{Name: channelPrefix + string(one.Name), Run: room.Run}
		if one.Inlet != nil {
			s.Answer = answerer(one.Inlet)
		}
		if err := ch.runner.Singleton(s); err != nil {
			return err
		}
	}
	return nil
}

// webhookSingleton is the name of what sends webhooks and trims feeds; one in a cluster does.
const webhookSingleton = "webhooks"

// Send has webhooks sent, and feeds trimmed, on one node.
func (ch *Group) Send(c *config.Config, feeds *feed.Feeds, look config.Lookup, counts func() *metrics.Webhooks, log *slog.Logger) error {
	if len(ch.running) == 0 && len(c.Webhooks) == 0 {
		return nil
	}
	ch.busy = true
	needs := webhook.Needs{Store: feeds.Store(), Feeds: feeds, Env: look, Metrics: counts(), Logger: log}
	for _, one := range c.Channels.Chat() {
		needs.Tenants = append(needs.Tenants, conversation.TenantID(one.Tenant))
	}
	d, err := webhook.New(c.Webhooks, c.Kept, needs)
	if err != nil {
		return config.NewError("chats.webhooks", err)
	}
	return ch.runner.Singleton(cluster.Singleton{Name: webhookSingleton, Run: d.Run})
}

// pushSingleton is the name of what tells clients of their tasks; one in a cluster does.
const pushSingleton = "pushes"

// Pushes tell clients of their tasks at addresses of their own; nil = the configuration allows none.
// The gateway makes what they tell.
func (ch *Group) Pushes(c *config.Config, store chats.Store, secret []byte, counts func() *metrics.Pushes, log *slog.Logger) (*push.Pushes, error) {
	local := c.Auth.Mode == auth.ModeNone
	if len(c.Pushes.Hosts) == 0 && !local {
		return nil, nil
	}
	p := push.New(c.Pushes, local, push.Parts{Store: store, Cursors: service.NewCursors(secret), Metrics: counts(), Logger: log, Wake: ch.wakePushes})
	ch.busy, ch.words = true, make(chan []byte, words)
	return p, ch.runner.Singleton(cluster.Singleton{Name: pushSingleton, Run: p.Run, Answer: func(_ context.Context, body []byte, _ cluster.Back) ([]byte, bool) {
		p.Answer(body)
		return nil, true
	}})
}

// words is how many words to pushes may wait.
const words = 256

// wakePushes says where pushes run that there is something to do. What is not heard is found there
// a little later.
func (ch *Group) wakePushes(text []byte) {
	select {
	case ch.words <- text:
	default:
	}
}

// carry takes words to where pushes run, until ctx ends.
func (ch *Group) carry(ctx context.Context) {
	for {
		select {
		case text := <-ch.words:
			soon, cancel := context.WithTimeout(ctx, inletWait)
			_, _ = ch.runner.Ask(soon, pushSingleton, text, inletWait, nil)
			cancel()
		case <-ctx.Done():
			return
		}
	}
}

// Run runs what this process runs alone, and carries words to where pushes run, until End is called.
// A server with nothing to run is as light as one that knows of none.
func (ch *Group) Run(ctx context.Context) {
	ctx, ch.stop = context.WithCancel(ctx)
	if ch.solo != nil && ch.busy {
		ch.ended.Go(func() { ch.solo.Run(ctx) })
	}
	if ch.words != nil {
		ch.ended.Go(func() { ch.carry(ctx) })
	}
}

// End ends what Run has begun, and waits for it.
func (ch *Group) End() {
	ch.stop()
	ch.ended.Wait()
}

// brought is a request of a platform on its way to the node that runs its channel.
type brought struct {
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"`
}

// inlet takes what a platform brings to this node to the one that runs the channel.
func (ch *Group) inlet(name chats.Channel) gateway.Inlet {
	return func(ctx context.Context, r gateway.InletRequest) gateway.InletAnswer {
		b := brought{Headers: map[string]string{}, Body: r.Body}
		for _, h := range assemble.InletHeaders {
			if value := r.Header(h); value != "" {
				b.Headers[http.CanonicalHeaderKey(h)] = value
			}
		}
		body, _ := json.Marshal(b) // texts and bytes: it cannot fail
		answer, err := ch.runner.Ask(ctx, channelPrefix+string(name), body, inletWait, nil)
		var a gateway.InletAnswer
		if err != nil || json.Unmarshal(answer, &a) != nil || a.Status == 0 {
			return gateway.InletAnswer{Status: http.StatusServiceUnavailable} // it is delivered again
		}
		return a
	}
}

// answerer answers such requests where the channel runs.
func answerer(inlet gateway.Inlet) cluster.Answerer {
	return func(ctx context.Context, body []byte, _ cluster.Back) ([]byte, bool) {
		var b brought
		if json.Unmarshal(body, &b) != nil {
			return nil, false
		}
		a := inlet(ctx, gateway.InletRequest{
			ContentType: b.Headers["Content-Type"], Body: b.Body,
			Header: func(name string) string { return b.Headers[http.CanonicalHeaderKey(name)] },
		})
		answer, _ := json.Marshal(a)
		return answer, true
	}
}
