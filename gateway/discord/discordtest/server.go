package discordtest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Who and what there is from the start.
const (
	Token       = "MTAwMA.Gtoken.of-the-fake-discord"
	Bot         = "1000" // the bot's user id
	BotName     = "parley"
	Application = "1001"
	Guild       = "2000"
	General     = "3000" // a channel of Guild
	DM          = "4000" // a channel with Ann alone
	Ann         = "5000" // shown as "Ann Lee", handle "ann"
	Bob         = "5001" // shown as "Bob", handle "bob"
	OtherBot    = "5002"
)

// Discord is a fake Discord. Start one, and Close it.
type Discord struct {
	URL string // for the option APIURL

	server *http.Server
	wg     sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed at each change
	closed   bool
	lastID   uint64
	token    string
	flags    int // of the application
	starts   int // connections that are left
	shards   int
	guilds   []string
	users    map[string]Account
	channels map[string]Place
	messages []*Posting
	nonces   map[string]*Posting
	hidden   bool // histories are
	shown    bool // nonces are, in histories
	typed    map[string]int
	commands []byte
	acts     map[string]*Interaction
	faults   []*Failing
	requests []Call
	gateway  gateway
}

// Account is somebody.
type Account struct {
	ID, Handle, Name string
	Bot              bool
}

// The types of channels.
const (
	TypeText   = 0
	TypeDM     = 1
	TypeThread = 11
)

// Place is a channel, a thread or a conversation with one person.
type Place struct {
	ID, Guild, Parent, Name string
	Type                    int
}

// Posting is a message of anybody.
type Posting struct {
	ID, Channel, Author string
	Content             string
	ReplyTo             string
	Nonce               string
	Flags               int
	Type                int
	Webhook             bool
	Edited              time.Time
	Buttons             []Pressable
	Files               []Attachment
	Sticker             string
	Pings               []string // people whom a message of the bot may ping
	PingsAll            bool     // it may ping whomever its text names
	Reactions           []string // of the bot
	Gone                bool     // it was deleted
}

// Pressable is a button of a message.
type Pressable struct{ Label, CustomID string }

// Attachment is an attachment.
type Attachment struct {
	Name, Type string
	Bytes      int64
}

// Interaction is a command or a press, and what the bot has answered.
type Interaction struct {
	ID, Token string
	Kind      int // of the acknowledgement; 0 = there was none
	Private   bool
	Answer    string   // in the place of "is thinking"
	Whispers  []string // further private ones
	Public    []string // further ones that everybody sees
}

// Call is a request that came.
type Call struct {
	Method, Path string // behind /api/v9/
	Body         string
	Status       int // 0 = it was cut off
}

// Cut says where a connection is cut.
type Cut int

// The places.
const (
	NoCut  Cut = iota
	Before     // nothing was done
	After      // it was done, but the bot does not hear so
)

// Failing makes requests fail.
type Failing struct {
	Method, Path string // what begins the path behind /api/v9/; "" = any
	Times        int    // how often; 0 = once
	Cut          Cut
	Status       int
	Code         int // of the JSON body
	Message      string
	Body         string        // in its place
	RetryAfter   time.Duration // with 429
	Global       bool
	Spent        time.Duration // the request is taken, and says that its limit is used up for so long
	Hold         chan struct{} // the request waits until it is closed
	Late         chan struct{} // it is done, and the answer waits until it is closed
}

// Start starts a server.
func Start() *Discord {
	s := &Discord{
		changed: make(chan struct{}), token: Token, flags: 1 << 19, starts: 1000, shards: 1,
		guilds: []string{Guild},
		users: map[string]Account{
			Bot: {Bot, BotName, BotName, true}, Ann: {Ann, "ann", "Ann Lee", false},
			Bob: {Bob, "bob", "Bob", false}, OtherBot: {OtherBot, "other", "Other", true},
		},
		channels: map[string]Place{
			General: {ID: General, Guild: Guild, Name: "general", Parent: "2900"}, DM: {ID: DM, Type: TypeDM},
		},
		nonces: map[string]*Posting{}, typed: map[string]int{}, commands: []byte("[]"), acts: map[string]*Interaction{},
	}
	s.gateway.interval, s.gateway.all = 41250, map[*outbox]bool{}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(fmt.Sprintf("discordtest: %v", err)) // as httptest does
	}
	s.URL = "http://" + listener.Addr().String()
	s.server = &http.Server{Handler: api{s}.routes(), ReadHeaderTimeout: 10 * time.Second}
	s.wg.Go(func() { _ = s.server.Serve(listener) }) // its error says that it was closed
	return s
}

// Close ends the server and its connections.
func (s *Discord) Close() {
	s.mu.Lock()
	s.closed = true
	for o := range s.gateway.all {
		o.stop()
	}
	s.tell()
	s.mu.Unlock()
	_ = s.server.Close()
	s.wg.Wait()
}

// GatewayURL is for the option of that name; without it the bot asks.
func (s *Discord) GatewayURL() string { return strings.Replace(s.URL, "http", "ws", 1) + "/gateway" }

// tell wakes who waits. The caller holds mu.
func (s *Discord) tell() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// Until waits until is returns true, which may call any method; or for the end of ctx.
func (s *Discord) Until(ctx context.Context, is func() bool) error {
	for {
		s.mu.Lock()
		changed := s.changed
		s.mu.Unlock()
		if is() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// do changes something.
func (s *Discord) do(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	s.tell()
}

// id makes an id. The caller holds mu.
func (s *Discord) id() string { return s.idAt(time.Now()) }

func (s *Discord) idAt(at time.Time) string {
	s.lastID = max(s.lastID+1, uint64(at.UnixMilli()-1420070400000)<<22)
	return strconv.FormatUint(s.lastID, 10)
}

// SetToken changes the token: the bot has an old one then.
func (s *Discord) SetToken(t string) { s.do(func() { s.token = t }) }

// SetFlags sets the flags of the application.
func (s *Discord) SetFlags(flags int) { s.do(func() { s.flags = flags }) }

// SetStarts sets how many connections are left, and how many shards are wished.
func (s *Discord) SetStarts(left, shards int) { s.do(func() { s.starts, s.shards = left, shards }) }

// SetGuilds sets the servers that the bot is in.
func (s *Discord) SetGuilds(ids ...string) { s.do(func() { s.guilds = ids }) }

// HideHistory has histories be empty, as without the permission to read them.
func (s *Discord) HideHistory() { s.do(func() { s.hidden = true }) }

// ShowNonces has histories show nonces.
func (s *Discord) ShowNonces() { s.do(func() { s.shown = true }) }

// ForgetNonces is what Discord does after some minutes.
func (s *Discord) ForgetNonces() { s.do(func() { clear(s.nonces) }) }

// AddUser adds somebody.
func (s *Discord) AddUser(u Account) { s.do(func() { s.users[u.ID] = u }) }

// AddChannel adds a channel.
func (s *Discord) AddChannel(c Place) { s.do(func() { s.channels[c.ID] = c }) }

// Fail makes requests fail from now on.
func (s *Discord) Fail(f Failing) {
	f.Times = max(f.Times, 1)
	s.do(func() { s.faults = append(s.faults, &f) })
}

// Requests are all that came, of a method and with a path that begins so.
func (s *Discord) Requests(method, path string) []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []Call
	for _, r := range s.requests {
		if (method == "" || r.Method == method) && strings.HasPrefix(r.Path, path) {
			some = append(some, r)
		}
	}
	return some
}

// Sent are the messages of the bot in a channel.
func (s *Discord) Sent(channel string) []Posting {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []Posting
	for _, m := range s.messages {
		if m.Author == Bot && m.Channel == channel {
			some = append(some, m.copy())
		}
	}
	return some
}

// Texts are the texts of the bot in a channel.
func (s *Discord) Texts(channel string) []string {
	var all []string
	for _, m := range s.Sent(channel) {
		all = append(all, m.Content)
	}
	return all
}

// Message is one message.
func (s *Discord) Message(id string) Posting {
	s.mu.Lock()
	defer s.mu.Unlock()
	if m := s.message(id); m != nil {
		return m.copy()
	}
	return Posting{}
}

func (s *Discord) message(id string) *Posting {
	for _, m := range s.messages {
		if m.ID == id {
			return m
		}
	}
	return nil
}

func (m *Posting) copy() Posting {
	c := *m
	c.Buttons, c.Pings, c.Reactions = slices.Clone(m.Buttons), slices.Clone(m.Pings), slices.Clone(m.Reactions)
	return c
}

// Typed is how often the bot was shown writing in a channel.
func (s *Discord) Typed(channel string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.typed[channel]
}

// Commands are the slash commands that the bot has registered, as JSON.
func (s *Discord) Commands() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return string(s.commands)
}

// Answered is what the bot has answered to an interaction so far.
func (s *Discord) Answered(id string) Interaction {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := *s.acts[id]
	i.Whispers, i.Public = slices.Clone(i.Whispers), slices.Clone(i.Public)
	return i
}
