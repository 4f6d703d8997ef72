package telegram

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mymmrac/telego"

	"parley/conversation"
	"parley/gateway/chat"
)

// Options are the configuration of a Bot.
type Options struct {
	Token         string // of @BotFather
	APIURL        string // "" = https://api.telegram.org
	Receive       string // ReceivePoll or ReceiveWebhook; "" = ReceivePoll
	WebhookURL    string // with ReceiveWebhook: where Telegram finds us
	WebhookSecret string // with ReceiveWebhook: 1-256 of A-Z a-z 0-9 _ -
	AnswerAll     bool   // the channel answers all messages of groups; Check says what that needs
	Logger        *slog.Logger
	HTTP          *http.Client // nil = one of its own, with bounds
}

// The ways to receive.
const (
	ReceivePoll    = "poll"
	ReceiveWebhook = "webhook"
)

// Bot is one bot of Telegram.
type Bot struct {
	o     Options
	wire  *caller
	rates *rates
	me    atomic.Pointer[telego.User] // who the bot is; nil = not known yet

	mu  sync.Mutex
	run *run // the current Run; nil = there is none

	movedMu sync.Mutex
	moved   map[int64]int64 // groups that have become supergroups: the id before, the id after
}

var _ chat.Platform = (*Bot)(nil)

var tokenPattern = regexp.MustCompile(`^[0-9]+:[A-Za-z0-9_-]{20,100}$`)

var secretPattern = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// New makes a bot. It asks Telegram nothing. No error holds a secret.
func New(o Options) (*Bot, error) {
	if o.Receive == "" {
		o.Receive = ReceivePoll
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.APIURL == "" {
		o.APIURL = "https://api.telegram.org"
	}
	o.APIURL = strings.TrimRight(o.APIURL, "/")
	if !tokenPattern.MatchString(o.Token) {
		return nil, errors.New("this is no token of a Telegram bot: it looks like 123456789:AA…, as @BotFather shows it")
	}
	if !absolute(o.APIURL) {
		return nil, errors.New("api_url of Telegram is not an http or https URL")
	}
	switch {
	case o.Receive != ReceivePoll && o.Receive != ReceiveWebhook:
		return nil, fmt.Errorf("receive of Telegram is %q; it may be %q or %q", o.Receive, ReceivePoll, ReceiveWebhook)
	case o.Receive == ReceiveWebhook && !absolute(o.WebhookURL):
		return nil, errors.New("receive = \"webhook\" of Telegram needs webhook_url, an https URL that Telegram can reach")
	case o.Receive == ReceiveWebhook && !secretPattern.MatchString(o.WebhookSecret):
		return nil, errors.New("receive = \"webhook\" of Telegram needs a webhook secret of 1 to 256 of the characters A-Z a-z 0-9 _ -")
	}
	return &Bot{
		o: o, rates: newRates(), moved: map[int64]int64{},
		wire: &caller{client: bounded(o.HTTP), base: o.APIURL + "/bot" + o.Token + "/", clean: cleaner(o.Token, o.WebhookSecret)},
	}, nil
}

func absolute(address string) bool {
	u, err := url.Parse(address)
	return err == nil && (u.Scheme == "https" || u.Scheme == "http") && u.Host != ""
}

// bounded is a client that asks nobody but whom it is told to: the token stands in the URL.
func bounded(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	} else {
		c.Transport = &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
			TLSHandshakeTimeout:   10 * time.Second,
			ForceAttemptHTTP2:     true,
			MaxConnsPerHost:       32,
			MaxIdleConnsPerHost:   8,
			IdleConnTimeout:       90 * time.Second,
			ResponseHeaderTimeout: pollTimeout + callTimeout,
		}
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// cleaner takes secrets out of texts.
func cleaner(token, secret string) func(string) string {
	pairs := []string{}
	hide := func(s string) {
		if s != "" {
			pairs = append(pairs, s, "[secret]", url.PathEscape(s), "[secret]", url.QueryEscape(s), "[secret]")
		}
	}
	hide(token)
	if _, key, found := strings.Cut(token, ":"); found { // what stands before it is the bot's public id
		hide(key)
	}
	hide(secret)
	return strings.NewReplacer(pairs...).Replace
}

// textLimit is how long a message may be, in UTF-16 units.
const textLimit = 4096

// Traits implements chat.Platform.
func (b *Bot) Traits() chat.Traits {
	return chat.Traits{
		Channel: "telegram", Via: conversation.ViaTelegram,
		Limit: textLimit, Measure: measure, Encode: encode,
		Buttons: 8, Label: 64,
		TypingEvery: 4 * time.Second, // Telegram shows it for 5
		Reactions:   true, Threads: true, Prefix: "/",
	}
}
