package telegram

import (
	"net/http"
	"strings"
	"testing"

	"parley/gateway/telegram/telegramtest"
)

// bot is a bot with the test's token, unless o has another one.
func bot(t *testing.T, o Options) *Bot {
	t.Helper()
	if o.Token == "" {
		o.Token = telegramtest.Token
	}
	b, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// at is a bot of a stand-in.
func at(t *testing.T, o Options) (*Bot, *telegramtest.Telegram) {
	t.Helper()
	f := telegramtest.Start()
	t.Cleanup(f.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	o.APIURL, o.HTTP = f.URL(), &http.Client{Transport: transport}
	return bot(t, o), f
}

func TestOptions(t *testing.T) {
	ok := Options{Token: telegramtest.Token}
	hook := Options{Token: telegramtest.Token, Receive: ReceiveWebhook, WebhookURL: "https://x.example/t", WebhookSecret: "a-secret_1"}
	with := func(o Options, change func(*Options)) Options { change(&o); return o }
	for _, c := range []struct {
		name string
		o    Options
		want string // in the error; "" = there is none
	}{
		{"poll", ok, ""},
		{"webhook", hook, ""},
		{"own server", with(ok, func(o *Options) { o.APIURL = "http://127.0.0.1:8081/" }), ""},
		{"no token", Options{}, "@BotFather"},
		{"a token with a line's end", with(ok, func(o *Options) { o.Token += "\n" }), "@BotFather"},
		{"half a token", with(ok, func(o *Options) { o.Token = "AAtest-token_of_a_bot_that_is_not_0" }), "@BotFather"},
		{"unknown way", with(ok, func(o *Options) { o.Receive = "push" }), `"push"`},
		{"no server", with(ok, func(o *Options) { o.APIURL = "api.telegram.org" }), "api_url"},
		{"no url", with(hook, func(o *Options) { o.WebhookURL = "" }), "webhook_url"},
		{"no secret", with(hook, func(o *Options) { o.WebhookSecret = "" }), "secret"},
		{"bad secret", with(hook, func(o *Options) { o.WebhookSecret = "open sesame" }), "secret"},
	} {
		_, err := New(c.o)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%s: %v", c.name, err)
		case c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)):
			t.Errorf("%s: the error is %v, want one of %s", c.name, err, c.want)
		case err != nil && c.o.Token != "" && strings.Contains(err.Error(), strings.TrimSpace(c.o.Token)):
			t.Errorf("%s: the error holds the token: %v", c.name, err)
		case err != nil && strings.Contains(err.Error(), "sesame"):
			t.Errorf("%s: the error holds the secret: %v", c.name, err)
		}
	}
}
