package main

import (
	"bytes"
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"parley/gateway/discord/discordtest"
	"parley/gateway/slack/slacktest"
	"parley/gateway/telegram/telegramtest"
)

// The secret of a webhook, and credentials that no platform has given.
const (
	hookSecret   = "whsec_c2VjcmV0LW9mLWEtd2ViaG9vay0zMi1ieXRlcyEh"
	badTelegram  = "4200000009:AAbad-token_of_a_bot_that_nobody_has"
	badDiscord   = "MTAwMA.Gbad.token-that-nobody-has"
	badSlack     = "xoxb-bad-secret-bot-token"
	inletsSecret = "secret-of-the-webhook-of-telegram"
)

// examine runs doctor and fails if it prints a secret.
func examine(t *testing.T, environ []string, args ...string) (code int, out string) {
	t.Helper()
	m, stdout := NewMain(), &bytes.Buffer{}
	m.Stdout, m.Stderr, m.Environ = stdout, stdout, environ
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	full := []string{"doctor", "--listen", "127.0.0.1:0", "--data", t.TempDir()}
	if !slices.Contains(args, "--config") {
		full = append(full, "--config", emptyConfig(t))
	}
	code = m.Execute(ctx, append(full, args...))
	for _, secret := range []string{
		hookSecret, strings.TrimPrefix(hookSecret, "whsec_"), badTelegram, strings.TrimPrefix(badTelegram, "4200000009:"), badDiscord, badSlack, inletsSecret,
		telegramtest.Token, discordtest.Token, slacktest.BotToken, slacktest.AppToken, slacktest.SigningSecret,
	} {
		if strings.Contains(stdout.String(), secret) {
			t.Errorf("it shows the secret %s:\n%s", secret, stdout)
		}
	}
	return code, stdout.String()
}

// lines fails unless doctor has printed each text; one that begins with "!" it must not.
func lines(t *testing.T, out string, want ...string) {
	t.Helper()
	for _, text := range want {
		text, none := strings.CutPrefix(text, "!")
		if none == strings.Contains(out, text) {
			t.Errorf("%q is there: %t\n%s", text, none, out)
		}
	}
}

// nowhere is an address at which nobody listens.
func nowhere(t *testing.T) string {
	t.Helper()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	return s.URL
}

// examined is a run of doctor: what it is told, and what it says.
type examined struct {
	name          string
	environ, args []string
	code          int
	says          []string
}

func (e examined) check(t *testing.T) {
	t.Helper()
	code, out := examine(t, e.environ, append([]string{"--set", "memory.mode=ephemeral"}, e.args...)...)
	if code != e.code {
		t.Errorf("code %d, want %d\n%s", code, e.code, out)
	}
	lines(t, out, e.says...)
}

func TestDoctorOfTelegram(t *testing.T) {
	const token, secret = "TELEGRAM_BOT_TOKEN=", "TELEGRAM_WEBHOOK_SECRET=" + inletsSecret
	good := []string{token + telegramtest.Token}
	hook := []string{"receive=webhook", "webhook_url=https://bot.example/channels/telegram"}
	for _, c := range []struct {
		examined
		more    []string // of [channels.telegram]
		prepare func(f *telegramtest.Telegram)
		asked   int // times who the bot is
	}{
		{examined: examined{"good", good, nil, exitOK, []string{"ok  channel telegram the bot is @parley_test_bot", "whoever finds the bot", "!BAD", "!nobody is admitted"}}, asked: 1},
		{examined: examined{"offline", good, []string{"--offline"}, exitOK, []string{"ok  channel telegram its credentials are there; not asked", "!BAD"}}},
		{examined: examined{"no token", nil, nil, exitFailed, []string{`BAD channel telegram channels.telegram.token: the variable TELEGRAM_BOT_TOKEN is not set; docs/PLATFORMS.md, "Telegram"`}}},
		{examined: examined{"no file", good, nil, exitFailed, []string{"BAD channel telegram channels.telegram.token: the file /nowhere/token"}}, more: []string{"token_file=/nowhere/token"}},
		{examined: examined{"no token's form", []string{token + "secret"}, nil, exitFailed, []string{"BAD channel telegram channels.telegram: this is no token"}}},
		{examined: examined{"bad token", []string{token + badTelegram}, nil, exitFailed, []string{"BAD channel telegram Telegram does not accept the bot's token", "@BotFather"}}},
		{examined: examined{"no webhook secret", good, nil, exitFailed, []string{"BAD channel telegram channels.telegram.webhook_secret: the variable TELEGRAM_WEBHOOK_SECRET is not set"}}, more: hook},
		{
			examined: examined{"privacy mode", good, nil, exitFailed, []string{`BAD channel telegram answer = "all", but`, `-   channel telegram answer = "all"`}},
			more:     []string{"answer=all"}, prepare: func(f *telegramtest.Telegram) { f.Private = true }, asked: 1,
		},
		{
			examined: examined{"a webhook of somebody", good, nil, exitFailed, []string{"BAD channel telegram receive = \"poll\", but a webhook at other.example is set", "!/token"}},
			prepare:  func(f *telegramtest.Telegram) { f.SetWebhook("https://other.example/token", "") }, asked: 1,
		},
		{examined: examined{"unreachable", good, nil, exitFailed, []string{"BAD channel telegram Telegram was not reached"}}, more: []string{"api_url=" + nowhere(t)}},
		{
			examined: examined{"a webhook", append([]string{secret}, good...), nil, exitOK, []string{"no webhook is set yet", "-   channel telegram listen (127.0.0.1:0) is reached from this machine only", "gateway.public_hosts does not have bot.example", "!the path of"}},
			more:     hook, asked: 1,
		},
		{
			examined: examined{"a webhook with its name", append([]string{secret}, good...), []string{"--set", "auth.mode=keys", "--set", "gateway.public_hosts=bot.example"}, exitOK, []string{"-   channel telegram listen (", "!gateway.public_hosts does not", "the path of webhook_url is not /channels/telegram"}},
			more:     []string{"receive=webhook", "webhook_url=https://bot.example:8443/other"}, asked: 1,
		},
		{
			examined: examined{"a webhook with another name", append([]string{secret}, good...), []string{"--set", "auth.mode=keys", "--set", "gateway.public_hosts=other.example"}, exitOK, []string{"gateway.public_hosts does not have bot.example"}},
			more:     hook, asked: 1,
		},
		{examined: examined{"nobody", good, nil, exitOK, []string{"nobody is admitted: allow_chats is empty, allow_users and allow_readers are empty;", "!whoever"}}, more: []string{"allow_chats=[]", "allow_users=[]"}, asked: 1},
		{examined: examined{"readers", good, nil, exitOK, []string{"!nobody is admitted", "!whoever"}}, more: []string{"allow_users=[]", `allow_readers=["7"]`}, asked: 1},
		{examined: examined{"off", nil, []string{"--set", "channels.telegram.enabled=false"}, exitOK, []string{"!channel telegram"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := telegramtest.Start()
			defer f.Close()
			if c.prepare != nil {
				c.prepare(f)
			}
			c.args = append(admitted("telegram", append([]string{"api_url=" + f.URL()}, c.more...)...), c.args...)
			c.check(t)
			if n := len(f.Requests("getMe")); n != c.asked {
				t.Errorf("it was asked %d times who the bot is, not %d", n, c.asked)
			}
			if n := len(f.Requests("sendMessage")) + len(f.Requests("setWebhook")) + len(f.Requests("deleteWebhook")) + len(f.Requests("getUpdates")); n > 0 {
				t.Errorf("%d requests change something", n)
			}
		})
	}
}

func TestDoctorOfDiscord(t *testing.T) {
	good := []string{"DISCORD_BOT_TOKEN=" + discordtest.Token}
	for _, c := range []struct {
		examined
		more    []string // of [channels.discord]
		prepare func(s *discordtest.Discord)
		silent  bool // it is asked nothing
	}{
		{examined: examined{"good", good, nil, exitOK, []string{"ok  channel discord The token is of the bot parley (1000).", "allow_workspaces is empty: no server is admitted", "!BAD", "!nobody is admitted"}}},
		{examined: examined{"a server", good, nil, exitOK, []string{"!allow_workspaces", "!BAD"}}, more: []string{`allow_workspaces=["2000"]`}},
		{examined: examined{"offline", good, []string{"--offline"}, exitOK, []string{"ok  channel discord its credentials are there; not asked", "!BAD"}}, silent: true},
		{examined: examined{"no token", nil, nil, exitFailed, []string{`BAD channel discord channels.discord.token: the variable DISCORD_BOT_TOKEN is not set; docs/PLATFORMS.md, "Discord"`}}, silent: true},
		{examined: examined{"another variable", nil, nil, exitFailed, []string{"channels.discord.token: the variable OTHER_TOKEN is not set"}}, more: []string{"token_env=OTHER_TOKEN"}, silent: true},
		{examined: examined{"bad token", []string{"DISCORD_BOT_TOKEN=" + badDiscord}, nil, exitFailed, []string{"BAD channel discord "}}},
		{examined: examined{"no intent", good, nil, exitFailed, []string{"BAD channel discord ", "MESSAGE CONTENT INTENT"}}, prepare: func(s *discordtest.Discord) { s.SetFlags(0) }},
		{examined: examined{"no server", good, nil, exitFailed, []string{"BAD channel discord The bot is in no server. Invite it: https://discord.com/"}}, prepare: func(s *discordtest.Discord) { s.SetGuilds() }},
		{examined: examined{"unreachable", good, nil, exitFailed, []string{"BAD channel discord Discord cannot be asked"}}, more: []string{"api_url=" + nowhere(t)}, silent: true},
		{examined: examined{"nobody", good, nil, exitOK, []string{"-   channel discord nobody is admitted: allow_chats is empty;", "!allow_workspaces"}}, more: []string{"allow_chats=[]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := discordtest.Start()
			defer s.Close()
			if c.prepare != nil {
				c.prepare(s)
			}
			c.args = append(admitted("discord", append([]string{"api_url=" + s.URL, "gateway_url=" + s.GatewayURL()}, c.more...)...), c.args...)
			c.check(t)
			if n := len(s.Requests("GET", "")); (n == 0) != c.silent {
				t.Errorf("it was asked %d times", n)
			}
			for _, method := range []string{"POST", "PUT", "PATCH", "DELETE"} {
				if all := s.Requests(method, ""); len(all) > 0 {
					t.Errorf("requests that change something: %+v", all)
				}
			}
		})
	}
}

func TestDoctorOfSlack(t *testing.T) {
	const bot, app, signing = "SLACK_BOT_TOKEN=" + slacktest.BotToken, "SLACK_APP_TOKEN=" + slacktest.AppToken, "SLACK_SIGNING_SECRET=" + slacktest.SigningSecret
	good := []string{bot, app}
	for _, c := range []struct {
		examined
		more    []string // of [channels.slack]
		prepare func(w *slacktest.Workspace)
		asked   int // times whose token it is
	}{
		{examined: examined{"good", good, nil, exitOK, []string{"ok  channel slack the bot token is that of parley in Test", "ok  channel slack the bot token has the scopes that the bot needs", "ok  channel slack Socket Mode is on", "!BAD", "!nobody is admitted", "!whoever finds"}}, asked: 1},
		{examined: examined{"offline", good, []string{"--offline"}, exitOK, []string{"ok  channel slack its credentials are there; not asked", "!BAD"}}},
		{examined: examined{"nothing", nil, nil, exitFailed, []string{
			`BAD channel slack channels.slack.app_token: the variable SLACK_APP_TOKEN is not set; docs/PLATFORMS.md, "Slack"`,
			`BAD channel slack channels.slack.token: the variable SLACK_BOT_TOKEN is not set; docs/PLATFORMS.md, "Slack"`, "!SLACK_SIGNING_SECRET",
		}}},
		{examined: examined{"bad token", []string{"SLACK_BOT_TOKEN=" + badSlack, app}, nil, exitFailed, []string{"BAD channel slack ", "invalid_auth", "ok  channel slack Socket Mode"}}, asked: 1},
		{examined: examined{"tokens in each other's place", []string{"SLACK_BOT_TOKEN=" + slacktest.AppToken, "SLACK_APP_TOKEN=" + slacktest.BotToken}, nil, exitFailed, []string{"BAD channel slack ", "not_allowed_token_type", "!ok  channel slack"}}, asked: 1},
		{examined: examined{"no scope", good, nil, exitFailed, []string{"BAD channel slack the scope reactions:write is missing", "!the scope chat:write"}}, asked: 1, prepare: func(w *slacktest.Workspace) {
			w.Scopes("chat:write,app_mentions:read,channels:history,im:history,commands,users:read")
		}},
		{examined: examined{"no private channels", good, nil, exitOK, []string{"ok  channel slack it does not see private channels", "!BAD"}}, asked: 1, prepare: func(w *slacktest.Workspace) {
			w.Scopes("chat:write,app_mentions:read,channels:history,im:history,mpim:history,reactions:write,commands,users:read")
		}},
		{examined: examined{"unreachable", good, nil, exitFailed, []string{"BAD channel slack ", "there is no connection to Slack"}}, more: []string{"api_url=" + nowhere(t)}},
		{examined: examined{"nobody", good, nil, exitOK, []string{"nobody is admitted: allow_workspaces is empty;"}}, more: []string{"allow_workspaces=[]"}, asked: 1},
		{examined: examined{"events", []string{bot, signing}, nil, exitOK, []string{"ok  channel slack there is a signing secret", "!app-level", "a proxy has to lead POST /channels/slack to it", "gateway.public_hosts does not have the name that Slack calls"}}, more: []string{"receive=events"}, asked: 1},
		{examined: examined{"events under a name", []string{bot, signing}, []string{"--set", "auth.mode=keys", "--set", "gateway.public_hosts=bot.example"}, exitOK, []string{"!gateway.public_hosts does not have"}}, more: []string{"receive=events"}, asked: 1},
		{examined: examined{"no signing secret", []string{bot}, nil, exitFailed, []string{"BAD channel slack channels.slack.signing_secret: the variable SLACK_SIGNING_SECRET is not set", "!APP_TOKEN"}}, more: []string{"receive=events"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := slacktest.New()
			defer w.Close()
			if c.prepare != nil {
				c.prepare(w)
			}
			c.args = append(admitted("slack", append([]string{"api_url=" + w.APIURL(), `allow_workspaces=["*"]`}, c.more...)...), c.args...)
			c.check(t)
			if n := w.Requests("auth.test"); n != c.asked {
				t.Errorf("it was asked %d times whose token it is, not %d", n, c.asked)
			}
			if ever, _ := w.Connections(); ever > 0 || w.Requests("chat.postMessage") > 0 {
				t.Error("it was connected to, or sent something")
			}
		})
	}
}

// A node of a cluster that runs no channel says so.
func TestDoctorOfChannelsOfAGateway(t *testing.T) {
	f := telegramtest.Start()
	defer f.Close()
	m := NewMain()
	out := &bytes.Buffer{}
	m.Stdout, m.Stderr, m.Environ = out, out, []string{"TELEGRAM_BOT_TOKEN=" + telegramtest.Token, "DATABASE_URL=postgres://127.0.0.1:1/parley"}
	args := append(admitted("telegram", "api_url="+f.URL()), "--set", "store.postgres=env:DATABASE_URL", "--set", "cluster.listen=127.0.0.1:0", "--set", "cluster.insecure=true", "--set", "cluster.gateway_only=true")
	if err := m.ParseFlags(append([]string{"doctor", "--config", emptyConfig(t)}, args...)); err != nil {
		t.Fatal(err)
	}
	var notes []string
	m.checkChannels(t.Context(), func(string, error, string) {}, func(what, text string) { notes = append(notes, what+": "+text) })
	if !strings.Contains(strings.Join(notes, "\n"), "channel telegram: this node only lets clients in") {
		t.Errorf("%q", notes)
	}
}

// doctor says of each webhook whether its secret is there and its address may be reached, and
// sends it nothing.
func TestDoctorOfWebhooks(t *testing.T) {
	var connections atomic.Int64
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.Config.ConnState = func(net.Conn, http.ConnState) { connections.Add(1) }
	s.Start()
	defer s.Close()
	file := secretFile(t, "whsec_dG9vLXNob3J0")
	const public = "https://93.184.216.34/path-token"
	for _, c := range []struct {
		name, block string
		more        []string
		code        int
		says        []string
	}{
		{"good", `url = "` + public + `"` + "\nsecret_env = \"HOOK\"", nil, exitOK, []string{"ok  webhook crm   93.184.216.34, it was looked up, and sent nothing; its secret is there", `no channel of the tenant "default" is enabled`}},
		{"a channel", `url = "` + public + `"` + "\nsecret_env = \"HOOK\"", admitted("discord"), exitFailed, []string{"ok  webhook crm", "!no channel of the tenant"}}, // whose credentials are missing
		{"offline", "url = \"https://localhost/path-token\"\nsecret_env = \"HOOK\"", []string{"--offline"}, exitOK, []string{"ok  webhook crm   localhost, not looked up"}},
		{"no secret", `url = "` + public + `"` + "\nsecret_env = \"NONE\"", nil, exitFailed, []string{"BAD webhook crm   the variable NONE is not set or empty", "!ok  webhook"}},
		{"no file", `url = "` + public + `"` + "\nsecret_file = \"/nowhere/secret\"", nil, exitFailed, []string{"BAD webhook crm   the file /nowhere/secret: no such file"}},
		{"short", `url = "` + public + `"` + "\nsecret_file = \"" + file + `"`, nil, exitFailed, []string{"BAD webhook crm   the file " + file + ": the secret must be 24 to 64 bytes", "!dG9vLXNob3J0"}},
		{"private", "url = \"https://10.1.2.3/path-token\"\nsecret_env = \"NONE\"", nil, exitFailed, []string{"BAD webhook crm   10.1.2.3 is at 10.1.2.3: the address is one of a private network; allow_private = true allows it", "the variable NONE"}},
		{"private, and allowed", `url = "` + s.URL + `/path-token"` + "\nsecret_env = \"HOOK\"\nallow_private = true", nil, exitOK, []string{"ok  webhook crm   127.0.0.1"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := write(t, "[[chats.webhooks]]\nname = \"crm\"\n"+c.block+"\n")
			code, out := examine(t, []string{"HOOK=" + hookSecret}, append([]string{"--config", path, "--set", "memory.mode=ephemeral"}, c.more...)...)
			if code != c.code {
				t.Errorf("code %d, want %d\n%s", code, c.code, out)
			}
			lines(t, out, append(c.says, "!path-token")...)
		})
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections", n)
	}
}
