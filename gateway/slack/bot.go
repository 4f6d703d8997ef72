package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"parley/conversation"
	"parley/gateway/chat"
)

// The ways to receive.
const (
	Socket = "socket" // Socket Mode, with an app-level token
	Events = "events" // the Events API, with a signing secret
)

// Options are what a Bot is made of.
type Options struct {
	BotToken      string // xoxb-…
	AppToken      string // xapp-…, for Socket
	SigningSecret string // for Events
	APIURL        string // "" = Slack's own
	Receive       string // Socket, Events
	Logger        *slog.Logger
	HTTP          *http.Client // nil = one with own limits
	Now           func() time.Time
}

// Bot is a bot user of one workspace. It is a chat.Platform.
type Bot struct {
	o    Options
	api  *slack.Client
	http *http.Client
	base *url.URL
	pace *pace
	who  *recent[person]

	mu  sync.Mutex
	run *run // nil = it does not receive
}

var _ chat.Platform = (*Bot)(nil)

// New makes a bot. It connects to nothing, and does not look at the credentials: Run and Check do.
func New(o Options) (*Bot, error) {
	if o.Receive != Socket && o.Receive != Events {
		return nil, fmt.Errorf("receive must be %q or %q, not %q", Socket, Events, o.Receive)
	}
	o.APIURL = strings.TrimSuffix(cmp.Or(o.APIURL, slack.APIURL), "/") + "/"
	base, err := url.Parse(o.APIURL)
	if err != nil || base.Host == "" || base.Scheme != "https" && base.Scheme != "http" {
		return nil, errors.New("api_url must be an http or https URL, such as https://slack.com/api/")
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	b := &Bot{
		o: o, http: newClient(o.HTTP), base: base,
		pace: &pace{now: o.Now, next: map[string]time.Time{}},
		who:  newRecent[person](keptPersons),
	}
	b.api = slack.New(o.BotToken, slack.OptionHTTPClient(b.http), slack.OptionAPIURL(o.APIURL), slack.OptionAppLevelToken(o.AppToken))
	return b, nil
}

// Traits implements chat.Platform.
//
// Slack cuts a text behind 40,000 characters and advises to stay below 4,000, which is what
// fits a screen. There is no sign of typing for bots: assistant.threads.setStatus works in the
// threads of assistants only.
func (b *Bot) Traits() chat.Traits {
	return chat.Traits{
		Channel: "slack", Via: conversation.ViaSlack,
		Limit: 40_000, Measure: measure, Encode: encode,
		Buttons: 25, Label: 75,
		Reactions: true, Threads: true, Prefix: "/parley ",
	}
}

// Typing implements chat.Platform: there is none.
func (b *Bot) Typing(context.Context, chat.Address) error { return nil }

// self is who the bot is.
type self struct {
	User, Team string // ids
}

// run is the time in which a Bot receives.
type run struct {
	b       *Bot
	desk    chat.Desk
	self    self
	threads *recent[struct{}] // chats in which the bot is meant without a mention
	order   [64]chan struct{} // of one chat's updates; each has room for one
}

// keptThreads bounds the chats in which a mention is not needed, beside those of the store.
const keptThreads = 50_000

// Run implements chat.Platform.
func (b *Bot) Run(ctx context.Context, d chat.Desk) error {
	defer b.http.CloseIdleConnections()
	r := &run{b: b, desk: d, threads: newRecent[struct{}](keptThreads)}
	for i := range r.order {
		r.order[i] = make(chan struct{}, 1)
	}
	var err error
	if r.self, err = b.introduce(ctx); err != nil {
		return err
	}
	for k, err := range d.Known(ctx) {
		if err != nil {
			return fmt.Errorf("reading the known chats: %w", err)
		}
		r.threads.put(k.Chat, struct{}{})
	}
	b.mu.Lock()
	if b.run != nil {
		b.mu.Unlock()
		return errors.New("the bot receives already")
	}
	b.run = r
	b.mu.Unlock()
	defer func() {
		b.mu.Lock()
		b.run = nil
		b.mu.Unlock()
	}()
	if b.o.Receive == Events {
		<-ctx.Done()
		return nil
	}
	return r.socket(ctx)
}

// running is the current run; nil = there is none.
func (b *Bot) running() *run {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.run
}

// introduce asks Slack who the bot is.
func (b *Bot) introduce(ctx context.Context) (self, error) {
	if b.o.BotToken == "" {
		return self{}, &chat.Failure{Trouble: chat.Credentials, Text: "there is no bot token"}
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	is, err := b.api.AuthTestContext(ctx)
	if err != nil {
		return self{}, b.failure("asking who the bot is", err)
	}
	return self{User: is.UserID, Team: is.TeamID}, nil
}

// place is where to send: the form of Slack's chat.Address.
type place struct {
	Channel string `json:"channel"`
	Thread  string `json:"thread,omitempty"` // "" = below no message
}

func (p place) address() chat.Address {
	a, _ := json.Marshal(p) // two strings: it cannot fail
	return a
}

func placeOf(to chat.Address) (place, error) {
	var p place
	if err := json.Unmarshal(to, &p); err != nil || p.Channel == "" {
		return place{}, &chat.Failure{Trouble: chat.Unfit, Text: "the chat's address is none of Slack's"}
	}
	return p, nil
}
