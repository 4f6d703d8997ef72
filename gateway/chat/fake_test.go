package chat_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/chat"
	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/metrics"
)

// post is a message as the fake platform shows it.
type post struct {
	To      string
	Text    string
	ReplyTo chat.MessageName
	Choices []chat.Choice
	Name    chat.MessageName
	nonce   string
	at      time.Time
}

// platform is a chat platform in memory. It outlives the channels that use it.
type platform struct {
	mu      sync.Mutex
	posts   []post
	reacted map[chat.MessageName]chat.Reaction
	closed  map[chat.MessageName]string
	typing  int
	traits  chat.Traits
	history bool // bots may read it
	unread  int  // how often reading it fails
	looked  []time.Time

	// send decides what becomes of a message; nil = it is posted.
	send func(o chat.Outgoing) (posted bool, err error)

	answersAfter time.Duration // of Send, behind the post

	// dies says whether the process ends now, and whether the message is posted; died ends it.
	dies func() (now, posted bool)
	died func()

	desk    chat.Desk
	running chan struct{} // closed when Run has begun
}

func newPlatform() *platform {
	return &platform{
		reacted: map[chat.MessageName]chat.Reaction{}, closed: map[chat.MessageName]string{}, running: make(chan struct{}),
		traits: chat.Traits{
			Channel: "telegram", Via: conversation.ViaTelegram, Limit: 40, Measure: func(s string) int { return len([]rune(s)) },
			Encode: func(text string, people []chat.Person) string {
				for _, p := range people {
					text = strings.ReplaceAll(text, "@"+p.Name, "<"+p.ID+">")
				}
				return text
			},
			Buttons: 3, Label: 10, TypingEvery: 4 * time.Second, Reactions: true, Prefix: "/",
		},
	}
}

func (p *platform) Traits() chat.Traits { return p.traits }

func (p *platform) Run(ctx context.Context, d chat.Desk) error {
	p.mu.Lock()
	p.desk = d
	running := p.running
	p.mu.Unlock()
	close(running)
	<-ctx.Done()
	p.mu.Lock()
	p.running = make(chan struct{})
	p.mu.Unlock()
	return ctx.Err()
}

func (p *platform) Send(ctx context.Context, to chat.Address, o chat.Outgoing) (chat.Posted, error) {
	p.mu.Lock()
	send, dies, after := p.send, p.dies, p.answersAfter
	p.mu.Unlock()
	var err error
	if dies != nil {
		if now, posted := dies(); now {
			go p.died()
			<-ctx.Done()
			if !posted {
				return chat.Posted{}, ctx.Err()
			}
			err = ctx.Err()
		}
	}
	if send != nil {
		var posted bool
		if posted, err = send(o); !posted {
			return chat.Posted{}, err
		}
	}
	p.mu.Lock()
	name := chat.MessageName(fmt.Sprintf("b%d", len(p.posts)+1))
	p.posts = append(p.posts, post{string(to), o.Text, o.ReplyTo, o.Choices, name, o.Nonce, time.Now()})
	p.mu.Unlock()
	if after > 0 {
		answers := time.NewTimer(after)
		defer answers.Stop()
		select {
		case <-answers.C:
		case <-ctx.Done():
			return chat.Posted{}, ctx.Err()
		}
	}
	return chat.Posted{Name: name}, err
}

func (p *platform) Close(_ context.Context, _ chat.Address, id chat.MessageName, _, chosen string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed[id] = chosen
	return nil
}

func (p *platform) Typing(context.Context, chat.Address) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.typing++
	return nil
}

func (p *platform) React(_ context.Context, _ chat.Address, id chat.MessageName, r chat.Reaction) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.reacted[id] = r
	return nil
}

func (p *platform) Find(_ context.Context, _ chat.Address, o chat.Outgoing, _ time.Time) (chat.Posted, bool, bool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looked = append(p.looked, time.Now())
	if p.unread > 0 {
		p.unread--
		return chat.Posted{}, false, false, errors.New("the history does not answer")
	}
	for _, m := range p.posts {
		if p.history && m.nonce == o.Nonce {
			return chat.Posted{Name: m.Name}, true, true, nil
		}
	}
	return chat.Posted{}, false, p.history, nil
}

func (p *platform) Check(context.Context) []chat.Finding { return nil }

// texts are what was posted.
func (p *platform) texts() (list []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, m := range p.posts {
		list = append(list, m.Text)
	}
	return list
}

func (p *platform) last() post {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.posts) == 0 {
		return post{}
	}
	return p.posts[len(p.posts)-1]
}

// place is a channel, its platform and the engine behind it, in a bubble of time.
type place struct {
	t        *testing.T
	platform *platform
	sessions *gatewaytest.Sessions
	hub      *fanout.Hub
	settings chat.Settings
	registry *prometheus.Registry
	log      strings.Builder
	stop     func() // ends the channel, as the end of its process would
}

func everybody() chat.Lists {
	all := []string{"*"}
	return chat.Lists{Chats: all, Users: all, Workspaces: all}
}

// inPlace runs a test in a bubble with a channel that runs.
func inPlace(t *testing.T, change func(*place), test func(*place)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		p := &place{t: t, platform: newPlatform(), hub: fanout.NewHub(nil)}
		p.settings = chat.Settings{Tenant: "acme", Overflow: chat.OverflowSplit, Allow: everybody(), Reactions: true, MaxWaiting: 100}
		p.sessions = gatewaytest.NewSessions(p.hub)
		if change != nil {
			change(p)
		}
		p.start()
		test(p)
		p.stop()
		p.sessions.Close()
	})
}

// start starts the channel, on the same store as the one before.
func (p *place) start() {
	p.t.Helper()
	p.registry = prometheus.NewRegistry()
	c := chat.New(p.platform, p.settings, chat.Deps{
		Engine: p.sessions, Hub: p.hub, Limits: protocol.DefaultLimits(), Store: p.sessions.Memory.Chats(),
		Metrics: metrics.NewChats(p.registry), Logger: slog.New(slog.NewTextHandler(&p.log, nil)),
		Refusal: conversation.AsError,
	})
	ctx, cancel := context.WithCancel(p.t.Context())
	ended := make(chan error, 1)
	p.platform.mu.Lock()
	running := p.platform.running
	p.platform.mu.Unlock()
	go func() { ended <- c.Run(ctx) }()
	<-running
	p.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			p.t.Errorf("the channel ended with %v", err)
		}
	})
}

// take gives the channel an update and waits for what becomes of it.
func (p *place) take(u chat.Update) error {
	p.t.Helper()
	if u.Kind == 0 {
		u.Kind = chat.Said
	}
	if u.Chat == "" {
		u.Chat = "42"
	}
	if u.To == nil {
		u.To = json.RawMessage(`"` + u.Chat + `"`)
	}
	if u.From.ID == "" {
		u.From = chat.Person{ID: "7", Name: "Ann"}
	}
	done := make(chan error, 1)
	p.platform.desk.Take(p.t.Context(), u, func(err error) { done <- err })
	err := <-done
	synctest.Wait()
	return err
}

// say is a message that must be taken.
func (p *place) say(name, text string) {
	p.t.Helper()
	if err := p.take(chat.Update{Name: chat.MessageName(name), Text: text}); err != nil {
		p.t.Fatalf("%q: %v", text, err)
	}
}

// session is the session of a chat.
func (p *place) session(id string) conversation.SessionKey {
	p.t.Helper()
	row, err := p.sessions.Memory.Chats().Load(p.t.Context(), chats.Key{Tenant: "acme", Channel: "telegram", Chat: chats.Chat("telegram:" + id)})
	if err != nil || row.Session == "" {
		p.t.Fatalf("chat %s has no session: %v", id, err)
	}
	return conversation.SessionKey{Tenant: "acme", Session: row.Session}
}

// commit lets things happen in the session of chat 42.
func (p *place) commit(events ...conversation.EventBody) {
	p.t.Helper()
	list := make([]conversation.Event, len(events))
	for i, b := range events {
		list[i].Body, list[i].Task = b, p.task()
	}
	p.sessions.Commit(p.session("42"), list...)
	synctest.Wait()
}

// feed is what the tenant's feed says, oldest first.
func (p *place) feed() (list []chat.Happening) {
	p.t.Helper()
	entries, err := p.sessions.Memory.Chats().Entries(p.t.Context(), "acme", 0, 1000)
	if err != nil {
		p.t.Fatal(err)
	}
	for _, e := range entries {
		var h chat.Happening
		if err := json.Unmarshal(e.Value, &h); err != nil {
			p.t.Fatal(err)
		}
		list = append(list, h)
	}
	return list
}

func part(message, text string) conversation.Part {
	return conversation.Part{Message: conversation.MessageID(message), Source: "m1", Text: text}
}

// bodies are what has happened in a chat's session.
func (p *place) bodies(id string) (list []conversation.EventBody) {
	p.t.Helper()
	for record, err := range p.sessions.Records(p.t.Context(), p.session(id), conversation.Range{}) {
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range record.Events {
			list = append(list, e.Body)
		}
	}
	return list
}

// pass lets time pass.
func (p *place) pass(d time.Duration) {
	p.t.Helper()
	time.Sleep(d)
	synctest.Wait()
}

// task is the newest task of chat 42.
func (p *place) task() (task conversation.TaskID) {
	p.t.Helper()
	for record, err := range p.sessions.Records(p.t.Context(), p.session("42"), conversation.Range{}) {
		if err != nil {
			p.t.Fatal(err)
		}
		for _, e := range record.Events {
			if e.Task != "" {
				task = e.Task
			}
		}
	}
	return task
}

// busy is the engine whose session works on something, with inbox.mode reject.
func busy(t gatewaytest.Told) (gatewaytest.Outcome, bool) {
	_, says := t.Command.(conversation.Say)
	return gatewaytest.Outcome{Err: conversation.Errorf(conversation.SessionBusy, "Please wait, I'm still thinking…")}, says
}
