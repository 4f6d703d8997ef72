package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	"parley/cmd/parley/internal/assemble"
	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/gateway"
)

// How long a platform may take to answer all that it is asked, and a look-up of a webhook's host.
const (
	platformTime = 20 * time.Second
	lookupTime   = 5 * time.Second
)

// guides name the part of docs/PLATFORMS.md that says where credentials come from.
var guides = map[conversation.Via]string{
	conversation.ViaSlack: "Slack", conversation.ViaDiscord: "Discord", conversation.ViaTelegram: "Telegram",
}

// checkChannels says of each channel that is enabled what it lacks, here and as its platform sees
// it. Nothing is sent to a chat.
func (m *Main) checkChannels(ctx context.Context, say func(what string, err error, fine string), note func(what, text string)) {
	c := &m.Config
	for via, settings := range c.Channels.Chat() {
		if !settings.Enabled {
			continue
		}
		what := "channel " + via.String()
		ch, err := assemble.OpenChannel(via, c, config.LookupIn(m.Environ), slog.New(slog.DiscardHandler))
		switch {
		case err != nil:
			for line := range strings.Lines(err.Error()) {
				say(what, fmt.Errorf("%s; docs/PLATFORMS.md, %q", strings.TrimSuffix(line, "\n"), guides[via]), "")
			}
		case m.line.Doctor.Offline:
			say(what, nil, "its credentials are there; not asked")
		default:
			within, cancel := context.WithTimeout(ctx, platformTime)
			for _, found := range ch.Platform.Check(within) {
				if found.OK {
					say(what, nil, found.Text)
				} else {
					say(what, errors.New(found.Text), "")
				}
			}
			cancel()
		}
		for _, text := range slices.Concat(admissionNotes(c, via), inletNotes(c, via)) {
			note(what, text)
		}
		if c.Cluster.GatewayOnly {
			note(what, "this node only lets clients in (cluster.gateway_only): another one runs the channel")
		}
	}
}

// admissionNotes say who gets no answer, and who gets more than one may expect.
func admissionNotes(c *config.Config, via conversation.Via) (notes []string) {
	for of, ch := range c.Channels.Chat() {
		if of != via {
			continue
		}
		var empty []string
		if len(ch.Chats) == 0 {
			empty = append(empty, "allow_chats is empty")
		}
		if len(ch.Users) == 0 && len(ch.Readers) == 0 {
			empty = append(empty, "allow_users and allow_readers are empty")
		}
		if via == conversation.ViaSlack && len(c.Channels.Slack.Allowed) == 0 {
			empty = append(empty, "allow_workspaces is empty")
		}
		all := func(list []string) bool { return slices.Contains(list, "*") }
		switch {
		case len(empty) > 0:
			notes = append(notes, "nobody is admitted: "+strings.Join(empty, ", ")+"; write to the bot, and the log names the ids")
		case via != conversation.ViaSlack && all(ch.Chats) && (all(ch.Users) || all(ch.Readers)):
			notes = append(notes, "whoever finds the bot may talk with it: nothing but user_rate limits what strangers cost")
		}
		if via == conversation.ViaDiscord && len(empty) == 0 && len(c.Channels.Discord.Allowed) == 0 {
			notes = append(notes, "allow_workspaces is empty: no server is admitted, direct messages are")
		}
		if ch.Answer == "all" {
			notes = append(notes, `answer = "all": in groups and channels every message of whoever is admitted is answered, also what people say to each other`)
		}
	}
	return notes
}

// inletNotes say what has to be so that the platform's requests come here, where it sends any.
func inletNotes(c *config.Config, via conversation.Via) (notes []string) {
	telegram := via == conversation.ViaTelegram && c.Channels.Telegram.Receive == "webhook"
	if !telegram && (via != conversation.ViaSlack || c.Channels.Slack.Receive != "events") {
		return nil
	}
	path := "/channels/" + via.String()
	if host, _, err := net.SplitHostPort(c.Gateway.Listen); err == nil && gateway.IsLoopback(host) {
		notes = append(notes, "listen ("+c.Gateway.Listen+") is reached from this machine only: a proxy has to lead POST "+path+" to it")
	}
	const refused = ": requests that come under that name are refused, unless a proxy gives them another one"
	if !telegram { // its address stands at Slack only
		if len(c.Gateway.PublicHosts) == 0 && !c.Gateway.TLS.ACME() {
			notes = append(notes, "gateway.public_hosts does not have the name that Slack calls"+refused)
		}
		return notes
	}
	u, err := url.Parse(c.Channels.Telegram.WebhookURL)
	if err != nil { // the configuration was checked
		return notes
	}
	if !c.Gateway.KnowsHost(u.Host) {
		notes = append(notes, "gateway.public_hosts does not have "+u.Hostname()+", the host of webhook_url"+refused)
	}
	if u.Path != path {
		notes = append(notes, "the path of webhook_url is not "+path+": a proxy has to lead it there")
	}
	return notes
}

// checkWebhooks says of each webhook whether it would be sent to. It is not.
func (m *Main) checkWebhooks(ctx context.Context, say func(what string, err error, fine string), note func(what, text string)) {
	tenants := map[string]bool{}
	for _, ch := range m.Config.Channels.Chat() {
		tenants[ch.Tenant] = tenants[ch.Tenant] || ch.Enabled
	}
	for _, h := range m.Config.Webhooks {
		what, fine := "webhook "+h.Name, "not looked up"
		secret := h.CheckSecret(config.LookupIn(m.Environ))
		var address error
		if !m.line.Doctor.Offline {
			within, cancel := context.WithTimeout(ctx, lookupTime)
			address = h.CheckAddress(within, net.DefaultResolver.LookupNetIP)
			cancel()
			fine = "it was looked up, and sent nothing"
		}
		for _, err := range []error{secret, address} {
			if err != nil {
				say(what, err, "")
			}
		}
		if cmp.Or(secret, address) == nil {
			say(what, nil, h.Host()+", "+fine+"; its secret is there")
		}
		if !tenants[h.Tenant] {
			note(what, fmt.Sprintf("no channel of the tenant %q is enabled, so there is nothing to send", h.Tenant))
		}
	}
}
