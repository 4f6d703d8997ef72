package discord

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bwmarrin/discordgo"

	"parley/gateway/chat"
)

// Flags of an application: it may read messages, or may as long as it is small.
const (
	flagContents        = 1 << 18
	flagContentsLimited = 1 << 19
)

// permissions are what the bot needs in a channel: see it, write there and in its threads,
// read its history, react.
const permissions = discordgo.PermissionViewChannel | discordgo.PermissionSendMessages | discordgo.PermissionSendMessagesInThreads |
	discordgo.PermissionReadMessageHistory | discordgo.PermissionAddReactions

// Check implements chat.Platform.
func (b *Bot) Check(ctx context.Context) []chat.Finding {
	me, err := b.identify(ctx)
	if err != nil {
		return []chat.Finding{{Text: trouble(err)}}
	}
	all := []chat.Finding{{OK: true, Text: fmt.Sprintf("The token is of the bot %s (%s).", me.Name, me.ID)}}
	if me.Flags&(flagContents|flagContentsLimited) == 0 {
		all = append(all, chat.Finding{Text: noContents})
	} else {
		all = append(all, chat.Finding{OK: true, Text: "The bot may read messages (MESSAGE CONTENT INTENT)."})
	}
	var g discordgo.GatewayBotResponse
	if err := b.do(ctx, call{method: "GET", path: "gateway/bot", out: &g, patience: patienceInside}); err != nil {
		all = append(all, chat.Finding{Text: trouble(err)})
	} else {
		l := g.SessionStartLimit
		all = append(all, chat.Finding{OK: l.Remaining > 0, Text: fmt.Sprintf(
			"Discord lets the bot connect %d of %d times more within %s.", l.Remaining, l.Total, time.Duration(l.ResetAfter)*time.Millisecond)})
		if g.Shards > 1 {
			all = append(all, chat.Finding{Text: fmt.Sprintf("Discord wants the bot to be split into %d shards, which parley does not do: it is in too many servers.", g.Shards)})
		}
	}
	var guilds []struct{}
	if err := b.do(ctx, call{method: "GET", path: "users/@me/guilds?limit=200", out: &guilds, patience: patienceInside}); err != nil {
		all = append(all, chat.Finding{Text: trouble(err)})
	} else if invite := fmt.Sprintf("https://discord.com/oauth2/authorize?client_id=%s&scope=bot%%20applications.commands&permissions=%d", me.Application, permissions); len(guilds) == 0 {
		all = append(all, chat.Finding{Text: "The bot is in no server. Invite it: " + invite})
	} else {
		all = append(all, chat.Finding{OK: true, Text: fmt.Sprintf("The bot is in %d servers or more.", len(guilds))})
	}
	return all
}

// trouble is an error as doctor says it.
func trouble(err error) string {
	var f *chat.Failure
	switch {
	case !errors.As(err, &f):
		return "Discord cannot be asked: " + err.Error()
	case f.Trouble == chat.Credentials:
		return badToken
	}
	return "Discord cannot be asked: " + f.Text
}
