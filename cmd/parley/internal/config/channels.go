package config

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/gateway/auth"
	"parley/gateway/webhook"
)

// modes are the modes of all channels. A command-line agent answers one message after the
// other: where nothing else is said a chat that waits for one is told so.
func (c *Config) modes(talks policy.Profile) map[conversation.Via]conversation.Mode {
	m := map[conversation.Via]conversation.Mode{
		conversation.ViaWebSocket: c.Channels.WebSocket, conversation.ViaHTTP: c.Channels.HTTP,
	}
	for via, ch := range c.Channels.Chat() {
		m[via] = ch.Mode
		if ch.Mode == conversation.ModeDefault && talks.Program != "" {
			m[via] = conversation.ModeReject
		}
	}
	return m
}

// ChannelSecret reads a credential of a channel, such as "channels.slack.app_token": from its file if
// there is one, else from its variable. The error names where it should be.
func (c *Config) ChannelSecret(key string, look Lookup) (string, error) {
	at := c.Channels.Secrets()[key]
	value := "env:" + at[0]
	if at[1] != "" {
		value = "file:" + at[1]
	}
	text, err := Fill(value, look)
	if err != nil {
		return "", fmt.Errorf("%s: %w", key, err)
	}
	return text, nil
}

// channels complains about channels that make no sense.
func (l *loader) channels(c *Config) {
	for via, ch := range c.Channels.Chat() {
		prefix := "channels." + via.String() + "."
		if !ch.Enabled {
			continue
		}
		if err := auth.CheckID("it", ch.Tenant); err != nil {
			l.wrong(prefix+"tenant", err.Error())
		}
		l.address(prefix+"api_url", ch.APIURL, "http", "https")
	}
	ch := &c.Channels
	l.address("channels.discord.gateway_url", ch.Discord.GatewayURL, "ws", "wss")
	l.address("channels.telegram.webhook_url", ch.Telegram.WebhookURL, "https", "http")
	if t := &ch.Telegram; t.Enabled && t.Receive == "webhook" {
		switch scheme, _, _ := strings.Cut(t.WebhookURL, ":"); {
		case t.WebhookURL == "":
			l.wrong("channels.telegram.webhook_url", `must be the address at which Telegram reaches POST /channels/telegram, with receive = "webhook"`)
		case scheme == "http" && t.APIURL == "":
			l.wrong("channels.telegram.webhook_url", "must begin with https://, or Telegram refuses it; http is for a Bot API server of your own (api_url)")
		}
	}
	for key, path := range ch.Files() {
		if where := l.origin[key]; where.line > 0 && *path != "" {
			*path = beside(where, *path)
		}
	}
	for key, at := range ch.Secrets() {
		l.named(at[0])
		if at[1] == "" && !envName.MatchString(at[0]) {
			l.wrong(key+"_env", "must be the name of a variable; a secret does not stand in the file")
		}
	}
}

// address complains about a URL that is none.
func (l *loader) address(key, text string, schemes ...string) {
	if text == "" {
		return
	}
	u, err := url.Parse(text)
	if err != nil || !slices.Contains(schemes, u.Scheme) || u.Host == "" || u.User != nil {
		l.wrong(key, fmt.Sprintf("must be an address that begins with %s://", cmp.Or(schemes...)))
	}
}

// webhooks reads the [[chats.webhooks]] blocks.
func (l *loader) webhooks(at map[string]problem, value any) {
	blocks, ok := value.([]any)
	if !ok {
		l.complain(at["chats.webhooks"], "chats.webhooks: write each one as a block that starts with [[chats.webhooks]]")
		return
	}
	fields := map[string]field{}
	for _, f := range fieldsOf(reflect.TypeFor[webhook.Hook]()) {
		fields[f.key] = f
	}
	for i, b := range blocks {
		prefix := fmt.Sprintf("chats.webhooks.%d", i)
		table, ok := b.(map[string]any)
		if !ok {
			l.complain(at["chats.webhooks"], "chats.webhooks: write each one as a block that starts with [[chats.webhooks]]")
			return
		}
		name, _ := table["name"].(string)
		hook, before := webhook.DefaultHook(name), len(l.problems)
		l.block(at, prefix, fmt.Sprintf("webhook %q", name), fields, table, reflect.ValueOf(&hook).Elem())
		if len(l.problems) == before {
			for _, wrong := range hook.Validate() {
				l.complain(l.at(prefix, wrong.Key), "webhook %q: %s %s", name, wrong.Key, wrong.Sentence)
			}
		}
		if hook.SecretFile != "" {
			hook.SecretFile = beside(at[prefix], hook.SecretFile)
		}
		if slices.ContainsFunc(l.config.Webhooks, func(h webhook.Hook) bool { return h.Name == hook.Name }) {
			l.complain(l.at(prefix, "name"), "webhook %q: there are two of this name", name)
		}
		l.named(hook.SecretEnv)
		l.config.Webhooks = append(l.config.Webhooks, hook)
	}
}
