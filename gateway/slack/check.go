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

// Check implements chat.Platform.
func (b *Bot) Check(ctx context.Context) []chat.Finding {
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	all := b.checkToken(ctx)
	if b.o.Receive == Events {
		if b.o.SigningSecret == "" {
			return append(all, chat.Finding{Text: "there is no signing secret: take it from Basic Information → App Credentials, and set SLACK_SIGNING_SECRET"})
		}
		return append(all, chat.Finding{OK: true, Text: "there is a signing secret; only Slack can tell whether it is the right one"})
	}
	return append(all, b.checkSocket(ctx))
}

func (b *Bot) checkToken(ctx context.Context) []chat.Finding {
	if b.o.BotToken == "" {
		return []chat.Finding{{Text: "there is no bot token: install the app to the workspace, and set SLACK_BOT_TOKEN to its Bot User OAuth Token (xoxb-…)"}}
	}
	is, err := b.api.AuthTestContext(ctx)
	if err != nil {
		return []chat.Finding{{Text: b.advice(err, "take the Bot User OAuth Token (xoxb-…) from OAuth & Permissions, and set SLACK_BOT_TOKEN")}}
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
	if !missing {
		all = append(all, chat.Finding{OK: true, Text: "the bot token has all scopes"})
	}
	return all
}

func (b *Bot) checkSocket(ctx context.Context) chat.Finding {
	if b.o.AppToken == "" {
		return chat.Finding{Text: "there is no app-level token: make one with the scope connections:write at Basic Information → App-Level Tokens, and set SLACK_APP_TOKEN (xapp-…)"}
	}
	if _, _, err := b.api.StartSocketModeContext(ctx); err != nil { // gives an address, and connects to nothing
		return chat.Finding{Text: b.advice(err, "turn on Socket Mode, make an app-level token with the scope connections:write at Basic Information → App-Level Tokens, and set SLACK_APP_TOKEN (xapp-…)")}
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
