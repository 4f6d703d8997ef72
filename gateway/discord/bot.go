package discord

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
	"sync/atomic"
	"time"
	"unicode/utf16"

	"github.com/bwmarrin/discordgo"

	"parley/conversation"
	"parley/gateway/chat"
)

// Options are the settings of a bot.
type Options struct {
	// Token is the bot's, without the word "Bot".
	Token string
	// APIURL stands in the place of https://discord.com; GatewayURL in the place of what Discord
	// names as the gateway's address. "" = the real ones.
	APIURL, GatewayURL string
	// Missed bounds how many messages are read of one channel's history after a start or an
	// interruption: the newest ones; 0 = 1000. MissedFor bounds how old they may be; 0 = a day.
	Missed    int
	MissedFor time.Duration
	Logger    *slog.Logger // nil = none
	// HTTP is used for requests; its transport's proxy and TLS settings hold for the gateway,
	// too. nil = a client of its own.
	HTTP *http.Client
}

// Limits of Discord.
const (
	maxText    = 2000 // of a message; Discord counts characters, we UTF-16 units, which are as many or more
	maxLabel   = 80
	maxButtons = 25 // in rows of 5
	rowButtons = 5
)

// typingEvery is less than the 10 seconds that Discord shows it.
const typingEvery = 8 * time.Second

// Bot is one application of Discord. Make it with New.
type Bot struct {
	o     Options
	token string
	log   *slog.Logger
	rest  *discordgo.Session // for its requests; its gateway is never opened
	http  *http.Transport    // whose proxy and TLS settings the gateway uses; nil = the defaults

	limits limits
	skew   atomic.Int64 // milliseconds that Discord's clock is ahead of ours, to about a second
	me     atomic.Pointer[self]
	gw     gatewaySession // of the goroutine that runs
	settle time.Duration  // at least how long to wait after an invalid session, and at most twice that
	pause  time.Duration  // before what has failed is tried again, the first time

	mu       sync.Mutex // guards the rest
	running  *run
	lanes    map[string]*lane
	held     int                // lanes rest while it is not 0: what is known is being read
	listing  bool               // since READY it is not known yet which chats there are
	queued   int                // jobs in all lanes
	seen     recent             // names of what is in a lane or was taken
	posted   recent             // messages that Discord has confirmed, which Find must not take for others
	engaged  map[string]bool    // chats that have spoken with the bot
	channels map[string]channel // what is known of channels
}

// self is who the bot is.
type self struct {
	ID, Name    string
	Application string
	Flags       int
}

var _ chat.Platform = (*Bot)(nil)

// New makes a bot; nothing is sent before Run or another method is called.
func New(o Options) (*Bot, error) {
	words := strings.Fields(o.Token)
	if len(words) > 0 && words[0] == "Bot" { // as Discord's own examples write it
		words = words[1:]
	}
	if len(words) == 0 {
		return nil, errors.New("the token of the Discord bot is missing")
	}
	token := words[0]
	if len(words) > 1 || strings.ContainsFunc(token, func(r rune) bool { return r < ' ' || r > '~' }) {
		return nil, errors.New("the token of the Discord bot holds characters that no token has")
	}
	base, err := address(o.APIURL, "https://discord.com", "http", "https")
	if err != nil {
		return nil, fmt.Errorf("api_url: %w", err)
	}
	if _, err := address(o.GatewayURL, "wss://gateway.discord.gg", "ws", "wss"); err != nil {
		return nil, fmt.Errorf("gateway_url: %w", err)
	}
	o.Missed = cmp.Or(o.Missed, 1000)
	o.MissedFor = cmp.Or(o.MissedFor, 24*time.Hour)
	if o.Missed < 0 || o.MissedFor < 0 {
		return nil, errors.New("the bounds of what is read of a history are negative")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	rest, err := discordgo.New("Bot " + token)
	if err != nil {
		return nil, errors.New("the Discord client could not be made") // its text might hold the token
	}
	rest.LogLevel = -1 // it logs payloads and addresses
	rest.ShouldRetryOnRateLimit, rest.MaxRestRetries = false, 0
	client := &http.Client{}
	if o.HTTP != nil {
		*client = *o.HTTP
	}
	if client.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxConnsPerHost = maxConnections
		t.MaxIdleConnsPerHost = maxConnections
		client.Transport = t
	}
	own, _ := client.Transport.(*http.Transport)
	client.Transport = &rewriter{next: client.Transport, base: base}
	client.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	rest.Client = client
	return &Bot{
		o: o, token: token, log: o.Logger, rest: rest, http: own,
		lanes: map[string]*lane{}, engaged: map[string]bool{}, channels: map[string]channel{},
		settle: 2 * time.Second, pause: 500 * time.Millisecond, seen: recent{max: maxSeen}, posted: recent{max: maxSeen},
	}, nil
}

// address reads the address of a server.
func address(s, otherwise string, schemes ...string) (*url.URL, error) {
	u, err := url.Parse(cmp.Or(s, otherwise))
	if err != nil {
		return nil, errors.New("it is no address")
	}
	for _, scheme := range schemes {
		if u.Scheme == scheme && u.Host != "" {
			return u, nil
		}
	}
	return nil, fmt.Errorf("it has to begin with %s://", strings.Join(schemes, ":// or "))
}

// Traits implements chat.Platform.
func (b *Bot) Traits() chat.Traits {
	return chat.Traits{
		Channel: "discord", Via: conversation.ViaDiscord,
		Limit: maxText, Measure: measure, Encode: encode,
		Buttons: maxButtons, Label: maxLabel,
		TypingEvery: typingEvery, Reactions: true, Prefix: "/",
	}
}

// measure counts UTF-16 units. Discord counts characters, of which there are never more.
func measure(encoded string) int {
	n := 0
	for _, r := range encoded {
		n += max(utf16.RuneLen(r), 1)
	}
	return n
}

// destination is an Address of Discord.
type destination struct {
	Channel string `json:"channel"`
	Guild   string `json:"guild,omitempty"`
	Parent  string `json:"parent,omitempty"` // the channel that a thread is in
}

func (d destination) address() chat.Address {
	raw, _ := json.Marshal(d) // strings: it cannot fail
	return raw
}

// where reads an address.
func where(a chat.Address) (destination, error) {
	var d destination
	if err := json.Unmarshal(a, &d); err != nil || !isID(d.Channel) {
		return d, &chat.Failure{Trouble: chat.Unreachable, Text: "the address is none of a Discord channel"}
	}
	return d, nil
}

// identify asks Discord who the bot is.
func (b *Bot) identify(ctx context.Context) (*self, error) {
	var u discordgo.User
	if err := b.do(ctx, call{method: "GET", path: "users/@me", out: &u, patience: patienceInside}); err != nil {
		return nil, err
	}
	var app struct {
		ID    string `json:"id"`
		Flags int    `json:"flags"`
	}
	if err := b.do(ctx, call{method: "GET", path: "applications/@me", out: &app, patience: patienceInside}); err != nil {
		return nil, err
	}
	me := &self{ID: u.ID, Name: cmp.Or(u.GlobalName, u.Username), Application: cmp.Or(app.ID, u.ID), Flags: app.Flags}
	b.me.Store(me)
	return me, nil
}

// wait waits, or until ctx ends: then it returns the context's error.
func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
