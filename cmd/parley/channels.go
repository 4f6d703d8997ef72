package main

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
	"parley/gateway/chat"
	"parley/gateway/feed"
	"parley/gateway/service"
	"parley/gateway/webhook"
	"parley/metrics"
)

// A channel runs once in a cluster: of one bot, one receives and delivers at a time. It is a
// singleton there, and its name is this and the channel's.
const channelPrefix = "channel:"

// runner is what runs singletons: the node of a cluster, or a process that is alone.
type runner interface {
	Singleton(s cluster.Singleton) error
	Ask(ctx context.Context, name string, body []byte, wait time.Duration, hear cluster.Hear) ([]byte, error)
}

// inletWait is how long what a platform brings waits for the node that runs its channel.
// Platforms deliver again what was not taken.
const inletWait = 2 * time.Second

// channels are the channels to chat platforms of this process.
type channels struct {
	runner  runner
	limits  gateway.Limits
	solo    *cluster.Solo // nil = this process is a member of a cluster, which runs them
	inlets  map[string]gateway.Inlet
	running []assemble.Channel
	ended   sync.WaitGroup
	stop    context.CancelFunc
}

// openChannels makes the channels of the configuration.
func openChannels(c *config.Config, others *joined, look config.Lookup, log *slog.Logger) (*channels, error) {
	all, err := assemble.OpenChannels(c, look, log)
	if err != nil {
		return nil, config.NewError("channels", err)
	}
	ch := &channels{running: all, limits: c.Gateway.Limits, inlets: map[string]gateway.Inlet{}, stop: func() {}}
	if others != nil {
		ch.runner = others.Node
	} else {
		ch.solo = cluster.NewSolo(log)
		ch.runner = ch.solo
	}
	for _, one := range all {
		if one.Inlet != nil {
			ch.inlets[string(one.Name)] = ch.inlet(one.Name)
		}
	}
	return ch, nil
}

// join has the channels run: here, or on another node. Of what they have saved, feeds are told
// by the store.
func (ch *channels) join(engine gateway.Sessions, hub *gateway.Hub, store chats.Store, counts func() *metrics.Chats, log *slog.Logger) error {
	if len(ch.running) == 0 {
		return nil
	}
	deps := chat.Deps{
		Engine: engine, Hub: hub, Limits: ch.limits, Store: store, Metrics: counts(), Logger: log,
		Refusal: (&service.Services{Log: log}).Refusal,
	}
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

// send has webhooks sent, and feeds trimmed, on one node.
func (ch *channels) send(c *config.Config, feeds *feed.Feeds, look config.Lookup, counts func() *metrics.Webhooks, log *slog.Logger) error {
	if len(ch.running) == 0 && len(c.Webhooks) == 0 {
		ch.solo = nil // nothing runs: a server without chats is as light as one that knows none
		return nil
	}
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

// run runs what this process runs alone, until end is called.
func (ch *channels) run(ctx context.Context) {
	if ch.solo == nil {
		return
	}
	ctx, ch.stop = context.WithCancel(ctx)
	ch.ended.Go(func() { ch.solo.Run(ctx) })
}

// end ends what run has begun, and waits for it.
func (ch *channels) end() {
	ch.stop()
	ch.ended.Wait()
}

// brought is a request of a platform on its way to the node that runs its channel.
type brought struct {
	Headers map[string]string `json:"headers"`
	Body    []byte            `json:"body"`
}

// inlet takes what a platform brings to this node to the one that runs the channel.
func (ch *channels) inlet(name chats.Channel) gateway.Inlet {
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
