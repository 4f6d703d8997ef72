package slack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/gateway/chat"
)

// scopes are what the bot token needs, and what for.
var scopes = []struct{ name, need string }{
	{"chat:write", "to answer"},
	{"app_mentions:read", "to see where it is mentioned"},
	{"channels:history", "to read threads in channels"},
	{"im:history", "to read direct messages"},
	{"reactions:write", "to show the state of messages"},
	{"commands", "for /parley"},
	{"users:read", "for the names of people"},
}

// private are the scopes without which the bot works, and what it does not see then.
var private = []struct{ name, unseen string }{
	{"groups:history", "private channels"},
	{"mpim:history", "direct messages of several people"},
}

// Check implements chat.Platform.
func (b *Bot) Check(ctx context.Context) []chat.Finding {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	all := b.checkToken(ctx)
	if b.o.Receive == Events {
		if b.o.SigningSecret == "" {
			return append(all, chat.Finding{Text: "there is no signing secret: take it from Basic Information → App Credentials, and put it where channels.slack.signing_secret_env or _file says"})
		}
		return append(all, chat.Finding{OK: true, Text: "there is a signing secret; only Slack can tell whether it is the right one"})
	}
	return append(all, b.checkSocket(ctx))
}

func (b *Bot) checkToken(ctx context.Context) []chat.Finding {
	if b.o.BotToken == "" {
		return []chat.Finding{{Text: "there is no bot token: install the app to the workspace, and put its Bot User OAuth Token (xoxb-…) where channels.slack.token_env or token_file says"}}
	}
	is, err := b.api.AuthTestContext(ctx)
	if err != nil {
		return []chat.Finding{{Text: b.advice(err, "take the Bot User OAuth Token (xoxb-…) from OAuth & Permissions, and put it where channels.slack.token_env or token_file says")}}
	}
	all := []chat.Finding{{OK: true, Text: fmt.Sprintf("the bot token is that of %s in %s (workspace %s)", is.User, is.Team, is.TeamID)}}
	given := is.Header.Get("X-OAuth-Scopes")
	if given == "" {
		return append(all, chat.Finding{OK: true, Text: "it does not say which scopes the bot token has"})
	}
	has := strings.FieldsFunc(given, func(r rune) bool { return r == ',' || r == ' ' })
	missing := false
	for _, s := range scopes {
		if !slices.Contains(has, s.name) {
			missing = true
			all = append(all, chat.Finding{Text: "the scope " + s.name + " is missing, which the bot needs " + s.need +
				": add it at OAuth & Permissions → Bot Token Scopes, and install the app again"})
		}
	}
	for _, s := range private {
		if !slices.Contains(has, s.name) {
			all = append(all, chat.Finding{OK: true, Text: "it does not see " + s.unseen + ": the bot token has no scope " + s.name})
		}
	}
	if !missing {
		all = append(all, chat.Finding{OK: true, Text: "the bot token has the scopes that the bot needs"})
	}
	return all
}

func (b *Bot) checkSocket(ctx context.Context) chat.Finding {
	if b.o.AppToken == "" {
		return chat.Finding{Text: "there is no app-level token: make one with the scope connections:write at Basic Information → App-Level Tokens, and put it (xapp-…) where channels.slack.app_token_env or _file says"}
	}
	if _, _, err := b.api.StartSocketModeContext(ctx); err != nil { // gives an address, and connects to nothing
		return chat.Finding{Text: b.advice(err, "turn on Socket Mode, make an app-level token with the scope connections:write at Basic Information → App-Level Tokens, and put it (xapp-…) where channels.slack.app_token_env or _file says")}
	}
	return chat.Finding{OK: true, Text: "Socket Mode is on, and the app-level token is good"}
}

// advice is an error for a person, with what to do if Slack has refused.
func (b *Bot) advice(err error, do string) string {
	var f *chat.Failure
	err = b.failure("asking Slack", err)
	switch {
	case !errors.As(err, &f):
		return err.Error()
	case f.Trouble == chat.Later:
		return f.Text
	}
	return f.Text + ": " + do
}
