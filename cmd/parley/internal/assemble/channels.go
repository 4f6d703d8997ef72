package assemble

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"

	"parley/cmd/parley/internal/config"
	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/chat"
	"parley/gateway/discord"
	"parley/gateway/service"
	"parley/gateway/slack"
	"parley/gateway/telegram"
)

// Channel is a channel to a chat platform, as the configuration has it.
type Channel struct {
	Name     chats.Channel
	Platform chat.Platform
	Settings chat.Settings
	Inlet    service.Inlet // takes what the platform brings by HTTP, where the channel runs; nil = it brings nothing so
}

// OpenChannels makes the channels that are enabled. Nothing is asked of a platform yet.
func OpenChannels(c *config.Config, look config.Lookup, log *slog.Logger) (all []Channel, err error) {
	for via := range c.Channels.Chat() {
		ch, failed := OpenChannel(via, c, look, log)
		if failed != nil {
			err = errors.Join(err, failed)
		} else if ch != nil {
			all = append(all, *ch)
		}
	}
	return all, err
}

// OpenChannel makes the channel to one platform; nil = it is not enabled. The error has a line
// for each credential that is missing.
func OpenChannel(via conversation.Via, c *config.Config, look config.Lookup, log *slog.Logger) (*Channel, error) {
	switch via {
	case conversation.ViaSlack:
		return openSlack(c, look, log)
	case conversation.ViaDiscord:
		return openDiscord(c, look, log)
	case conversation.ViaTelegram:
		return openTelegram(c, look, log)
	}
	return nil, fmt.Errorf("%v is no chat platform", via)
}

func openSlack(c *config.Config, look config.Lookup, log *slog.Logger) (*Channel, error) {
	t := &c.Channels.Slack
	if !t.Enabled {
		return nil, nil
	}
	o := slackOptions(c)
	o.Logger = log.With("channel", "slack")
	wanted := map[string]*string{"channels.slack.token": &o.BotToken, "channels.slack.app_token": &o.AppToken}
	if t.Receive == slack.Events {
		wanted = map[string]*string{"channels.slack.token": &o.BotToken, "channels.slack.signing_secret": &o.SigningSecret}
	}
	if err := fill(c, look, wanted); err != nil {
		return nil, err
	}
	bot, err := slack.New(o)
	if err != nil {
		return nil, fmt.Errorf("channels.slack: %w", err)
	}
	ch := &Channel{Name: "slack", Platform: bot, Settings: t.Settings(t.Allowed)}
	if t.Receive == slack.Events {
		ch.Inlet = func(ctx context.Context, r service.InletRequest) service.InletAnswer {
			status, kind, answer := bot.Webhook(ctx, r.Header, r.Body)
			return service.InletAnswer{Status: status, ContentType: kind, Body: answer}
		}
	}
	return ch, nil
}

func openDiscord(c *config.Config, look config.Lookup, log *slog.Logger) (*Channel, error) {
	t := &c.Channels.Discord
	if !t.Enabled {
		return nil, nil
	}
	o := discordOptions(c)
	o.Logger = log.With("channel", "discord")
	if err := fill(c, look, map[string]*string{"channels.discord.token": &o.Token}); err != nil {
		return nil, err
	}
	bot, err := discord.New(o)
	if err != nil {
		return nil, fmt.Errorf("channels.discord: %w", err)
	}
	return &Channel{Name: "discord", Platform: bot, Settings: t.Settings(t.Allowed)}, nil
}

// The options of the platforms, without credentials.

func slackOptions(c *config.Config) slack.Options {
	return slack.Options{APIURL: c.Channels.Slack.APIURL, Receive: c.Channels.Slack.Receive}
}

func discordOptions(c *config.Config) discord.Options {
	return discord.Options{APIURL: c.Channels.Discord.APIURL, GatewayURL: c.Channels.Discord.GatewayURL}
}

func telegramOptions(c *config.Config) telegram.Options {
	t := &c.Channels.Telegram
	return telegram.Options{APIURL: t.APIURL, Receive: t.Receive, WebhookURL: t.WebhookURL, AnswerAll: t.Answer == "all"}
}

// fill reads credentials of channels; the error names all that are missing.
func fill(c *config.Config, look config.Lookup, wanted map[string]*string) (err error) {
	for _, key := range slices.Sorted(maps.Keys(wanted)) {
		text, failed := c.ChannelSecret(key, look)
		*wanted[key], err = text, errors.Join(err, failed)
	}
	return err
}

func openTelegram(c *config.Config, look config.Lookup, log *slog.Logger) (*Channel, error) {
	t := &c.Channels.Telegram
	if !t.Enabled {
		return nil, nil
	}
	o := telegramOptions(c)
	o.Logger = log.With("channel", "telegram")
	wanted := map[string]*string{"channels.telegram.token": &o.Token}
	if t.Receive == telegram.ReceiveWebhook {
		wanted["channels.telegram.webhook_secret"] = &o.WebhookSecret
	}
	if err := fill(c, look, wanted); err != nil {
		return nil, err
	}
	bot, err := telegram.New(o)
	if err != nil {
		return nil, fmt.Errorf("channels.telegram: %w", err)
	}
	ch := &Channel{Name: "telegram", Platform: bot, Settings: t.Settings(nil)}
	if t.Receive == telegram.ReceiveWebhook {
		ch.Inlet = func(ctx context.Context, r service.InletRequest) service.InletAnswer {
			return service.InletAnswer{Status: bot.Webhook(ctx, r.Header, r.Body)}
		}
	}
	return ch, nil
}

// InletHeaders are the headers that platforms sign with.
var InletHeaders = []string{
	"Content-Type", "X-Slack-Signature", "X-Slack-Request-Timestamp", "X-Slack-Retry-Num", "X-Slack-Retry-Reason",
	http.CanonicalHeaderKey("X-Telegram-Bot-Api-Secret-Token"),
}
