package telegram

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"time"

	"github.com/mymmrac/telego"

	"parley/gateway/chat"
)

// Check implements chat.Platform.
func (b *Bot) Check(ctx context.Context) []chat.Finding {
	var all []chat.Finding
	say := func(ok bool, format string, args ...any) {
		all = append(all, chat.Finding{OK: ok, Text: fmt.Sprintf(format, args...)})
	}
	var me telego.User
	if err := b.ask(ctx, "getMe", struct{}{}, &me); err != nil {
		more := ""
		if f := (*chat.Failure)(nil); errors.As(err, &f) && f.Trouble == chat.Credentials {
			more = "; take it from @BotFather (/mybots, API Token)"
		}
		say(false, "%s%s", sentence(err), more)
		return all
	}
	say(true, "the bot is @%s, id %d", me.Username, me.ID)
	if b.o.AnswerAll && !me.CanReadAllGroupMessages {
		say(false, `answer = "all", but the bot's privacy mode is on: in groups it is shown only commands, mentions and replies; `+
			"turn it off with @BotFather (/setprivacy), then remove the bot from its groups and add it again, or make it an administrator")
	}
	if !me.CanJoinGroups {
		say(true, "the bot cannot be added to groups (@BotFather, /setjoingroups)")
	}
	var info telego.WebhookInfo
	if err := b.ask(ctx, "getWebhookInfo", struct{}{}, &info); err != nil {
		say(false, "%s", sentence(err))
		return all
	}
	switch poll := b.o.Receive == ReceivePoll; {
	case poll && info.URL != "":
		say(false, `receive = "poll", but a webhook at %s is set: the start removes it; if another installation has set it, give each its own bot`, host(info.URL))
	case poll:
		say(true, "no webhook is set, as polling needs it")
	case info.URL == "":
		say(true, "no webhook is set yet: the start sets it")
	case info.URL != b.o.WebhookURL:
		say(false, "a webhook at another URL is set, at %s: the start replaces it; if another installation has set it, give each its own bot", host(info.URL))
	default:
		say(true, "the webhook is set")
	}
	if info.URL != "" && info.LastErrorMessage != "" {
		say(false, "Telegram's last call of the webhook failed at %s: %s",
			time.UnixMilli(info.LastErrorDate*1000).UTC().Format(time.RFC3339), b.wire.short(info.LastErrorMessage))
	}
	if info.PendingUpdateCount > 0 {
		say(true, "%d updates wait at Telegram", info.PendingUpdateCount)
	}
	return all
}

// sentence is an error without the word behind it that is for programs.
func sentence(err error) string {
	var f *chat.Failure
	if errors.As(err, &f) {
		return f.Text
	}
	return err.Error()
}

// host is the host of a URL; the rest of it may be a secret.
func host(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return "an unreadable URL"
	}
	return u.Host
}
