package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/chat"
	"parley/gateway/discord/discordtest"
)

// A connection that ends goes on where it was: nothing is lost, nothing comes twice.
func TestResume(t *testing.T) {
	for _, c := range []struct {
		name    string
		end     func(*discordtest.Discord)
		resumes bool
	}{
		{"cut off", func(s *discordtest.Discord) { s.Disconnect(0) }, true},
		{"closed with 4000", func(s *discordtest.Discord) { s.Disconnect(4000) }, true},
		{"asked to connect again", func(s *discordtest.Discord) { s.Reconnect() }, true},
		{"session invalid for a moment", func(s *discordtest.Discord) { s.Invalidate(true) }, true},
		{"session invalid", func(s *discordtest.Discord) { s.Invalidate(false) }, false},
		{"session timed out", func(s *discordtest.Discord) { s.Forget(); s.Disconnect(4009) }, false},
		{"session forgotten", func(s *discordtest.Discord) { s.Forget(); s.Disconnect(0) }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := together(t)
			first := w.fake.Say(dm, ann, "one")
			w.desk.wait(t, 1)
			w.desk.set(func() { w.desk.known = []chat.KnownChat{{Chat: dm, To: to(dm), Last: chat.MessageName(first)}} })
			c.end(w.fake)
			w.fake.Say(dm, ann, "two")
			w.until("it is connected again", func() bool {
				identified, resumed := w.fake.Connections()
				return identified+resumed == 2 && w.fake.Connected()
			})
			w.fake.Again(1)
			w.fake.Say(dm, ann, "three")
			w.desk.wait(t, 3)
			if got := w.desk.lines(); !slices.Equal(got, []string{"message 4000: one", "message 4000: two", "message 4000: three"}) {
				t.Errorf("got %q", got)
			}
			if _, resumed := w.fake.Connections(); (resumed == 1) != c.resumes {
				t.Errorf("it was resumed %d times", resumed)
			}
			if n := w.fake.Replayed(); n > 1 {
				t.Errorf("%d events were asked for again", n)
			}
		})
	}
}

// Closing codes that nothing mends by itself end the run, with a sentence for the operator.
func TestClosingCodes(t *testing.T) {
	for _, c := range []struct {
		code int
		says string
	}{
		{4004, "Reset it"}, {4010, "shards"}, {4011, "shards"}, {4012, "Update parley"}, {4013, "Update parley"}, {4014, "MESSAGE CONTENT INTENT"},
	} {
		t.Run(fmt.Sprint(c.code), func(t *testing.T) {
			w := alone(t)
			w.fake.Refuse(c.code)
			err := w.bot.Run(t.Context(), w.desk)
			if failure(err) != chat.Credentials || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	t.Run("without the intent", func(t *testing.T) {
		w := alone(t)
		w.fake.SetFlags(0)
		if err := w.bot.Run(t.Context(), w.desk); failure(err) != chat.Credentials || !strings.Contains(err.Error(), "MESSAGE CONTENT INTENT") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a token that is old", func(t *testing.T) {
		w := alone(t)
		w.fake.SetToken("another")
		if err := w.bot.Run(t.Context(), w.desk); failure(err) != chat.Credentials {
			t.Errorf("got %v", err)
		}
	})
	t.Run("a token that becomes old", func(t *testing.T) {
		w := together(t)
		w.fake.SetToken("another")
		w.fake.Forget()
		w.fake.Disconnect(4009)
		err := <-w.ends
		w.ends <- nil
		if failure(err) != chat.Credentials {
			t.Errorf("got %v", err)
		}
	})
	t.Run("no starts left", func(t *testing.T) {
		w := alone(t)
		w.fake.SetStarts(0, 1)
		err := w.bot.Run(t.Context(), w.desk)
		var f *chat.Failure
		if !errors.As(err, &f) || f.Trouble != chat.Later || f.After != time.Hour {
			t.Errorf("got %v", err)
		}
		if identified, _ := w.fake.Connections(); identified != 0 {
			t.Error("it has connected all the same")
		}
	})
	t.Run("nobody is there", func(t *testing.T) {
		w := alone(t)
		w.fake.Away()
		if err := w.bot.Run(t.Context(), w.desk); err == nil || failure(err) != 0 {
			t.Errorf("got %v", err)
		}
	})
}

// A session whose place is gone is begun anew after some tries.
func TestResumePlaceIsGone(t *testing.T) {
	w := alone(t)
	w.bot.gw = gatewaySession{id: "session-1", url: "ws://127.0.0.1:1", seq: 7}
	for range 4 {
		if err := w.bot.Run(t.Context(), w.desk); err == nil {
			t.Fatal("it has connected")
		}
	}
	w.run()
}

// Heartbeats go out, also when they are asked for; a connection on which none is answered is dead.
func TestHeartbeats(t *testing.T) {
	w := alone(t)
	w.fake.SetHeartbeats(20*time.Millisecond, false)
	w.run()
	w.until("heartbeats", func() bool { return w.fake.Heartbeats() >= 3 })
	w.fake.SetHeartbeats(5*time.Minute, true)
	w.until("the old connection is given up", func() bool { _, resumed := w.fake.Connections(); return resumed == 1 })
	before := w.fake.Heartbeats()
	w.fake.Beat()
	w.until("one that was asked for", func() bool { return w.fake.Heartbeats() > before })
}

// The bot asks for what it needs, and no more.
func TestIntents(t *testing.T) {
	w := together(t)
	if got := w.fake.Intents(); got != 1<<0|1<<9|1<<12|1<<15 {
		t.Errorf("the intents are %b", got)
	}
}

func TestRunsOnce(t *testing.T) {
	w := together(t)
	if err := w.bot.Run(t.Context(), w.desk); err == nil {
		t.Error("two run at a time")
	}
}

// The commands are registered when they are not there, and then left alone.
func TestCommandsAreRegistered(t *testing.T) {
	w := together(t)
	var list []struct {
		Name    string `json:"name"`
		Options []struct {
			Name     string
			Type     int
			Required bool
			Choices  []struct{ Value string }
		}
	}
	if err := json.Unmarshal([]byte(w.fake.Commands()), &list); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, c := range list {
		line := ""
		for _, o := range c.Options {
			line += fmt.Sprintf("%s %d %v", o.Name, o.Type, o.Required)
			for _, choice := range o.Choices {
				line += " " + choice.Value
			}
		}
		got[c.Name] = line
	}
	want := map[string]string{
		"ask": "question 3 true", "answer": "text 3 false", "cancel": "all 3 false all", "status": "", "clear": "", "help": "",
		"mode": "mode 3 false steer queue collect interrupt reject",
	}
	for name, line := range want {
		if have, is := got[name]; !is || have != line {
			t.Errorf("/%s is %q, want %q", name, have, line)
		}
	}
	if len(got) != len(want) {
		t.Errorf("registered are %v", got)
	}
	w.end()
	w.bot = w.newBot(Options{})
	w.run()
	if n := len(w.fake.Requests("PUT", "applications/")); n != 1 {
		t.Errorf("they were written %d times", n)
	}
}

// A bot whose commands cannot be registered works without them.
func TestCommandsAreNotRegistered(t *testing.T) {
	w := alone(t)
	w.fake.Fail(discordtest.Failing{Method: "PUT", Path: "applications/", Status: 400, Code: 50035, Message: "Invalid Form Body"})
	w.run()
	w.fake.Say(dm, ann, "Hello")
	w.desk.wait(t, 1)
}

func TestCheck(t *testing.T) {
	for _, c := range []struct {
		name string
		set  func(*discordtest.Discord)
		bad  []string // what the findings that are not OK say
	}{
		{"all is well", func(*discordtest.Discord) {}, nil},
		{"a verified bot", func(s *discordtest.Discord) { s.SetFlags(1 << 18) }, nil},
		{"no intent", func(s *discordtest.Discord) { s.SetFlags(0) }, []string{"MESSAGE CONTENT INTENT"}},
		{"a bad token", func(s *discordtest.Discord) { s.SetToken("another") }, []string{"Reset it"}},
		{"no starts", func(s *discordtest.Discord) { s.SetStarts(0, 1) }, []string{"connect 0 of 1000 times more within 1h0m0s"}},
		{"too large", func(s *discordtest.Discord) { s.SetStarts(9, 3) }, []string{"3 shards"}},
		{"no server", func(s *discordtest.Discord) { s.SetGuilds() }, []string{"client_id=" + discordtest.Application}},
		{"nobody is there", func(s *discordtest.Discord) { s.Fail(discordtest.Failing{Status: 503, Times: questions}) }, []string{"Discord cannot be asked"}},
		{"it is limited", func(s *discordtest.Discord) { s.Fail(discordtest.Failing{Status: 429, RetryAfter: time.Hour}) }, []string{"Discord cannot be asked: GET users/@me: Discord answers 429: You are being rate limited."}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := alone(t)
			c.set(w.fake)
			var bad []string
			for _, f := range w.bot.Check(t.Context()) {
				if !f.OK {
					bad = append(bad, f.Text)
				}
			}
			if len(bad) != len(c.bad) {
				t.Fatalf("bad is %q", bad)
			}
			for i := range bad {
				if !strings.Contains(bad[i], c.bad[i]) || strings.Contains(bad[i], "(later)") { // a word for programs
					t.Errorf("%q does not say %q, or more", bad[i], c.bad[i])
				}
			}
			if identified, _ := w.fake.Connections(); identified > 0 || len(w.fake.Requests("POST", "")) > 0 {
				t.Error("something was sent")
			}
		})
	}
}

func TestOptions(t *testing.T) {
	for _, c := range []struct {
		o    Options
		says string // "" = it is fine
	}{
		{Options{Token: " Bot " + discordtest.Token + "\n"}, ""},
		{Options{Token: discordtest.Token, APIURL: "http://127.0.0.1:1/discord", GatewayURL: "ws://127.0.0.1:1"}, ""},
		{Options{}, "missing"},
		{Options{Token: "Bot "}, "missing"},
		{Options{Token: "a b"}, "characters"},
		{Options{Token: "t", APIURL: "discord.com"}, "api_url"},
		{Options{Token: "t", APIURL: "ftp://discord.com"}, "api_url"},
		{Options{Token: "t", GatewayURL: "https://gateway"}, "gateway_url"},
		{Options{Token: "t", Missed: -1}, "negative"},
	} {
		b, err := New(c.o)
		if c.says == "" {
			if err != nil || b.token != discordtest.Token {
				t.Errorf("%+v: %v", c.o, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%+v: %v", c.o, err)
		}
	}
}

// A proxy may have a path of its own, and the gateway another address.
func TestAddresses(t *testing.T) {
	w := alone(t)
	var paths []string
	proxy := &http.Client{Transport: roundTrip(func(r *http.Request) (*http.Response, error) {
		paths = append(paths, r.URL.Path)
		r = r.Clone(r.Context())
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/discord")
		return http.DefaultTransport.RoundTrip(r)
	})}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	b, err := New(Options{Token: discordtest.Token, APIURL: w.fake.URL + "/discord/", GatewayURL: w.fake.GatewayURL(), HTTP: proxy})
	if err != nil {
		t.Fatal(err)
	}
	w.bot = b
	w.run()
	if len(paths) == 0 || paths[0] != "/discord/api/v9/users/@me" {
		t.Errorf("requested %q", paths)
	}
	w.end()
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// No error and no log line holds the bot's token, or that of an interaction.
func TestSecrets(t *testing.T) {
	w := alone(t)
	w.desk.answer = func(u chat.Update) error {
		if u.Command {
			return u.Reply(t.Context(), "An answer")
		}
		return nil
	}
	w.run()
	var said []string
	note := func(err error) {
		if err == nil {
			t.Error("no error")
			return
		}
		said = append(said, err.Error())
	}
	echo := "You sent Bot " + discordtest.Token + " to webhooks/1001/interaction-token-5/messages"
	for _, f := range []discordtest.Failing{
		{Cut: discordtest.Before}, {Status: 401, Message: echo}, {Status: 500, Message: echo}, {Status: 400, Message: echo}, {Status: 200, Body: echo}, {Status: 429, RetryAfter: time.Millisecond},
	} {
		f.Method = "POST"
		w.fake.Fail(f)
		_, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "Hi"})
		note(err)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := w.bot.Send(ended, to(dm), chat.Outgoing{Text: "Hi"})
	note(err)
	w.fake.Fail(discordtest.Failing{Method: "PATCH", Path: "webhooks/", Cut: discordtest.Before})
	id := w.fake.Command(ann, dm, "status", "")
	w.fake.Say(dm, ann, "behind")
	w.until("the command was acknowledged", func() bool { return w.fake.Answered(id).Kind != 0 })
	w.until("the answer was cut off and tried again", func() bool { return len(w.fake.Requests("PATCH", "webhooks/")) >= 1 })
	w.desk.wait(t, 1)
	w.fake.SetToken("another")
	for _, f := range w.bot.Check(t.Context()) {
		said = append(said, f.Text)
	}
	w.fake.Forget()
	w.fake.Disconnect(4009)
	note(<-w.ends)
	w.ends <- nil
	w.fake.Close()
	_, err = w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "Hi"})
	note(err)
	for _, s := range append(said, strings.Split(w.log.String(), "\n")...) {
		if strings.Contains(s, discordtest.Token) || strings.Contains(s, "interaction-token") || strings.Contains(s, w.fake.URL) || strings.Contains(s, "discord.com/api") {
			t.Errorf("it says %q", s)
		}
	}
	if w.log.String() == "" {
		t.Error("the log is empty")
	}
}
