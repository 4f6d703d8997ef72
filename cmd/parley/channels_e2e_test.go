package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/gateway/discord/discordtest"
	"parley/gateway/slack/slacktest"
	"parley/gateway/telegram/telegramtest"
)

// messenger is a chat platform with one person, who talks with the bot in a direct chat.
type messenger interface {
	// settings are what the server is told, and its environment.
	settings() (args, environ []string)
	// listens is true when what is said comes to the bot. What was said before on Discord is
	// read later only where the bot has been spoken with.
	listens() bool
	// say says something and returns what it is called there.
	say(text string) string
	// shown are the bot's texts, oldest first.
	shown() []string
	// press presses a button of the newest message that has buttons.
	press(label string)
	// again delivers everything again.
	again()
	// until waits until is is true.
	until(ctx context.Context, is func() bool) bool
}

// messengers are the platforms, each with a server of its own.
var messengers = map[string]func(t *testing.T) messenger{
	"telegram": func(t *testing.T) messenger {
		f := telegramtest.Start()
		t.Cleanup(f.Close)
		return &telegramPerson{f: f}
	},
	"discord": func(t *testing.T) messenger {
		s := discordtest.Start()
		t.Cleanup(s.Close)
		return &discordPerson{s: s}
	},
	"slack": func(t *testing.T) messenger {
		w := slacktest.New()
		t.Cleanup(w.Close)
		return &slackPerson{w: w}
	},
}

// admitted are the keys that let everybody in.
func admitted(name string, more ...string) []string {
	args := []string{"--set", "channels." + name + ".enabled=true", "--set", "channels." + name + `.allow_chats=["*"]`, "--set", "channels." + name + `.allow_users=["*"]`}
	for _, m := range more {
		args = append(args, "--set", "channels."+name+"."+m)
	}
	return args
}

type telegramPerson struct{ f *telegramtest.Telegram }

const annOnTelegram = 7

func (p *telegramPerson) settings() (args, environ []string) {
	return admitted("telegram", "api_url="+p.f.URL()), []string{"TELEGRAM_BOT_TOKEN=" + telegramtest.Token}
}

func (p *telegramPerson) listens() bool { return true }
func (p *telegramPerson) say(text string) string {
	return fmt.Sprint(p.f.Say(telegramtest.Says{Chat: annOnTelegram, From: telegramtest.Who{ID: annOnTelegram, Name: "Ann"}, Text: text}))
}
func (p *telegramPerson) shown() []string { return p.f.Texts(annOnTelegram) }
func (p *telegramPerson) again()          { p.f.Redeliver(100) }
func (p *telegramPerson) press(label string) {
	for _, m := range slices.Backward(p.f.Shown(annOnTelegram)) {
		if len(m.Buttons) > 0 {
			p.f.Press(annOnTelegram, m.ID, label, telegramtest.Who{ID: annOnTelegram, Name: "Ann"})
			return
		}
	}
}
func (p *telegramPerson) until(ctx context.Context, is func() bool) bool {
	return p.f.Until(ctx, is) == nil
}

type slackPerson struct{ w *slacktest.Workspace }

func (p *slackPerson) settings() (args, environ []string) {
	return admitted("slack", "api_url="+p.w.APIURL(), `allow_workspaces=["*"]`),
		[]string{"SLACK_BOT_TOKEN=" + slacktest.BotToken, "SLACK_APP_TOKEN=" + slacktest.AppToken}
}
func (p *slackPerson) listens() bool { return true }
func (p *slackPerson) say(text string) string {
	return p.w.Say(slacktest.Direct, "", slacktest.Anna, text)
}
func (p *slackPerson) shown() (all []string) {
	for _, m := range p.w.Written(slacktest.Direct, slacktest.Bot) {
		all = append(all, m.Text)
	}
	return all
}
func (p *slackPerson) again() { p.w.Again(true) }
func (p *slackPerson) press(label string) {
	for _, m := range slices.Backward(p.w.Written(slacktest.Direct, slacktest.Bot)) {
		if p.w.Press(slacktest.Direct, m.TS, slacktest.Anna, label) {
			return
		}
	}
}
func (p *slackPerson) until(ctx context.Context, is func() bool) bool { return p.w.Await(ctx, is) }

// onEach runs a test with each platform and a server in this process.
func onEach(t *testing.T, test func(t *testing.T, m messenger, l *live)) {
	t.Helper()
	for name, open := range messengers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m := open(t)
			args, environ := m.settings()
			l := startWith(t, t.TempDir(), func(main *Main) { main.Environ = environ }, args...)
			listening(t, m)
			test(t, m, l)
			l.stop()
			if log := l.err.String(); strings.Contains(log, "level=ERROR") {
				t.Errorf("the log: %s", log)
			}
		})
	}
}

// wait waits until the chat has an answer with these words, and returns all.
func wait(t *testing.T, m messenger, words string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/4)
	defer cancel()
	if !m.until(ctx, func() bool { return strings.Contains(strings.Join(m.shown(), "\n"), words) }) {
		t.Fatalf("no answer with %q: %q", words, m.shown())
	}
	return m.shown()
}

func listening(t *testing.T, m messenger) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience/4)
	defer cancel()
	if !m.until(ctx, m.listens) {
		t.Fatal("the bot does not listen")
	}
}

// count is how many answers have these words.
func count(all []string, words string) (n int) {
	for _, text := range all {
		if strings.Contains(text, words) {
			n++
		}
	}
	return n
}

// D-18, on chat platforms: an independent message is answered while the first task goes on.
func TestChannelsIndependentTasks(t *testing.T) {
	onEach(t, func(t *testing.T, m messenger, _ *live) {
		m.say("Fix the login bug")
		m.say("What's the weather?")
		wait(t, m, "weather")
		all := wait(t, m, "login")
		if count(all, "weather") != 1 || count(all, "login") != 1 || len(all) != 2 {
			t.Errorf("shown %q", all)
		}
	})
}

// D-17, on chat platforms: an amendment, in words; one answer covers both.
func TestChannelsAmendment(t *testing.T) {
	onEach(t, func(t *testing.T, m messenger, _ *live) {
		m.say("Fix the login bug")
		m.say("Actually use OAuth instead")
		if all := wait(t, m, "OAuth"); len(all) != 1 {
			t.Errorf("shown %q", all)
		}
	})
}

// D-19, on chat platforms: a question with buttons that does not block, other work meanwhile, then
// a button answers it.
func TestChannelsParallelQuestion(t *testing.T) {
	onEach(t, func(t *testing.T, m messenger, _ *live) {
		m.say("Set up auth")
		wait(t, m, "Which auth provider")
		m.say("Send the report to Max")
		wait(t, m, "report is sent to Max")
		m.press("JWT")
		if all := wait(t, m, "Auth is set up with JWT"); count(all, "Which auth provider") != 1 {
			t.Errorf("shown %q", all)
		}
	})
}

// The scripted model's directives do not exist on chat platforms, and commands never reach a
// model.
func TestChannelsKnowNoDirectives(t *testing.T) {
	onEach(t, func(t *testing.T, m messenger, _ *live) {
		if _, is := m.(*slackPerson); !is { // there all commands begin with /parley
			m.say("/ask /say injected")
		} else {
			m.say("Hello\n/say injected")
		}
		all := wait(t, m, "/say injected")
		if slices.Contains(all, "injected") {
			t.Errorf("shown %q", all)
		}
	})
}

// A process that is killed between a message and its answer: the answer is there once, in the
// process after. What the platform delivers again starts nothing.
func TestChannelsKill(t *testing.T) {
	for name, open := range messengers {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			m, data := open(t), t.TempDir()
			args, environ := m.settings()
			for _, kv := range environ { // a child has them by files
				variable, value, _ := strings.Cut(kv, "=")
				args = append(args, "--set", tokenFiles[variable]+"="+secretFile(t, value))
			}
			args = append(args, "--set", "scripted.token_delay=20ms")
			l := spawn(t, data, args...)
			listening(t, m)
			m.say("Fix the login bug")
			l.measured("parley_admission_slots_in_use 1")
			l.kill()
			m.again()
			l = spawn(t, data, args...)
			wait(t, m, "login") // a first answer
			m.again()
			m.say("What's the weather?") // behind all that came again
			wait(t, m, "weather")
			if all := m.shown(); count(all, "login") != 1 {
				t.Errorf("shown %q", all)
			}
			l.stop()
		})
	}
}

// tokenFiles are the keys that name the file of what is otherwise in a variable.
var tokenFiles = map[string]string{
	"TELEGRAM_BOT_TOKEN": "channels.telegram.token_file", "DISCORD_BOT_TOKEN": "channels.discord.token_file",
	"SLACK_BOT_TOKEN": "channels.slack.token_file", "SLACK_APP_TOKEN": "channels.slack.app_token_file",
}

func secretFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(path, []byte(text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

type discordPerson struct{ s *discordtest.Discord }

func (p *discordPerson) settings() (args, environ []string) {
	return admitted("discord", "api_url="+p.s.URL, "gateway_url="+p.s.GatewayURL()), []string{"DISCORD_BOT_TOKEN=" + discordtest.Token}
}
func (p *discordPerson) listens() bool { return p.s.Connected() }
func (p *discordPerson) say(text string) string {
	return p.s.Say(discordtest.DM, discordtest.Ann, text)
}
func (p *discordPerson) shown() []string { return p.s.Texts(discordtest.DM) }
func (p *discordPerson) again()          { p.s.Again(100) }
func (p *discordPerson) press(label string) {
	for _, m := range slices.Backward(p.s.Sent(discordtest.DM)) {
		if len(m.Buttons) > 0 {
			_, _ = p.s.Press(discordtest.Ann, m.ID, label)
			return
		}
	}
}
func (p *discordPerson) until(ctx context.Context, is func() bool) bool {
	return p.s.Until(ctx, is) == nil
}

// A channel that is not enabled does nothing, whatever else is said of it; one that is needs its
// credentials, and the error names where they should be.
func TestChannelsAreOff(t *testing.T) {
	for name, open := range messengers {
		t.Run(name, func(t *testing.T) {
			m := open(t)
			args, environ := m.settings()
			off := append(slices.Clone(args), "--set", "channels."+name+".enabled=false")
			l := startWith(t, t.TempDir(), func(main *Main) { main.Environ = environ }, off...)
			if _, page := l.do("GET", "/metrics", ""); strings.Contains(string(page), "parley_chat_") {
				t.Error("there are metrics of a channel that is off")
			}
			l.stop()
			main, errs := NewMain(), &syncBuffer{}
			main.Stdout, main.Stderr, main.Environ = &syncBuffer{}, errs, nil
			full := append([]string{"serve", "--config", emptyConfig(t), "--listen", "127.0.0.1:0", "--data", t.TempDir()}, args...)
			if code := main.Execute(t.Context(), full); code != exitUsage || !strings.Contains(errs.String(), strings.ToUpper(name)+"_BOT_TOKEN") {
				t.Errorf("without credentials it ended with %d: %s", code, errs.String())
			}
		})
	}
}
