package slack_test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/machine/machinetest"
	"parley/gateway/chat"
	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/gateway/slack"
	"parley/gateway/slack/slacktest"
	"parley/metrics"
)

// rows is a chats.Store in memory.
type rows struct {
	saved   func()
	mu      sync.Mutex
	rows    map[chats.Key]chats.Row
	entries []chats.Entry
}

func (s *rows) Load(_ context.Context, k chats.Key) (chats.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.rows[k]
	r.Key = k
	return r, nil
}

func (s *rows) Save(_ context.Context, _ conversation.TenantID, all []chats.Row, entries []chats.Entry) error {
	defer s.saved()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range all {
		if s.rows[r.Key].Revision != r.Revision {
			return chats.ErrStale
		}
	}
	for _, r := range all {
		r.Revision++
		r.Value = slices.Clone(r.Value)
		s.rows[r.Key] = r
	}
	s.entries = append(s.entries, entries...)
	return nil
}

func (s *rows) Rows(_ context.Context, t conversation.TenantID, c chats.Channel) iter.Seq2[chats.Row, error] {
	s.mu.Lock()
	var all []chats.Row
	for k, r := range s.rows {
		if k.Tenant == t && k.Channel == c {
			all = append(all, r)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b chats.Row) int { return cmp.Compare(a.Chat, b.Chat) })
	return func(yield func(chats.Row, error) bool) {
		for _, r := range all {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *rows) Feed(context.Context, conversation.TenantID) (chats.Feed, error) {
	return chats.Feed{}, nil
}

func (s *rows) Entries(context.Context, conversation.TenantID, chats.Number, int) ([]chats.Entry, error) {
	return nil, nil
}

func (s *rows) Trim(context.Context, conversation.TenantID, chats.Number) error { return nil }

// house is a workspace, a channel to it, and sessions whose models the test plays.
type house struct {
	w        *slacktest.Workspace
	sessions *gatewaytest.Sessions
	hub      *fanout.Hub
	store    *rows
	receive  string
}

func newHouse(t *testing.T, receive string) *house {
	w := slacktest.New()
	h := &house{w: w, hub: fanout.NewHub(nil), store: &rows{saved: w.Poke, rows: map[chats.Key]chats.Row{}}, receive: receive}
	h.sessions = gatewaytest.NewSessions(h.hub)
	t.Cleanup(h.w.Close)
	t.Cleanup(h.sessions.Close)
	return h
}

// run runs a channel until stop is called, as a process would.
func (h *house) run(t *testing.T) (stop func()) {
	t.Helper()
	b := newBot(t, h.w, func(o *slack.Options) { o.Receive = h.receive })
	if h.receive == slack.Events {
		h.w.SendTo(serve(t, b))
	}
	c := chat.New(b, chat.Settings{
		Tenant: "default", Overflow: chat.OverflowSplit, Reactions: true, MaxWaiting: 100,
		Allow: chat.Lists{Chats: []string{"*"}, Users: []string{slacktest.Anna, slacktest.Ben}, Workspaces: []string{slacktest.Team}},
	}, chat.Deps{
		Engine: h.sessions, Hub: h.hub, Limits: protocol.DefaultLimits(), Store: h.store,
		Metrics: metrics.NewChats(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler),
		Refusal: func(err error) *conversation.Error {
			var e *conversation.Error
			if errors.As(err, &e) {
				return e
			}
			return &conversation.Error{Code: conversation.Unavailable, Message: err.Error()}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the channel ended with %v", err)
		}
	})
	t.Cleanup(stop)
	return stop
}

// session is the session of a chat; it waits until there is one.
func (h *house) session(t *testing.T, name string) conversation.SessionKey {
	t.Helper()
	await(t, h.w, "a session of "+name, func() bool { return h.row(name).Session != "" })
	return conversation.SessionKey{Tenant: "default", Session: h.row(name).Session}
}

// row is what the channel remembers of a chat.
func (h *house) row(name string) chats.Row {
	h.store.mu.Lock()
	defer h.store.mu.Unlock()
	return h.store.rows[chats.Key{Tenant: "default", Channel: "slack", Chat: chats.Chat("slack:" + name)}]
}

// texts are what the bot has written in a channel.
func (h *house) texts(channel string) string {
	var all []string
	for _, m := range h.w.Written(channel, slacktest.Bot) {
		all = append(all, m.Text)
	}
	return strings.Join(all, " | ")
}

func (h *house) wrote(t *testing.T, channel, want string) {
	t.Helper()
	if !h.w.Await(limit(t), func() bool { return h.texts(channel) == want }) {
		t.Fatalf("in %s the bot wrote %q, want %q; requests were answered %v, whispers are %v", channel, h.texts(channel), want, h.w.Statuses(), h.w.Whispers())
	}
}

// A person speaks with an agent over Slack: in a direct message, in a thread, by a command
// and a button; also when the process ends between, and when Slack delivers everything again.
func TestConversation(t *testing.T) {
	for _, receive := range []string{slack.Socket, slack.Events} {
		t.Run(receive, func(t *testing.T) {
			h := newHouse(t, receive)
			stop := h.run(t)
			h.w.Say(slacktest.Direct, "", slacktest.Anna, "Book a table")
			await(t, h.w, "it is accepted", func() bool {
				m := h.w.Written(slacktest.Direct, slacktest.Anna)
				return slices.Equal(m[0].Reactions, []string{"eyes"})
			})
			key := h.session(t, slacktest.Direct)
			h.sessions.Model(key, machinetest.Text("For <whom>, @Anna Berg?"))
			h.wrote(t, slacktest.Direct, "For &lt;whom&gt;, <@UANNA>?")
			await(t, h.w, "it is answered", func() bool {
				m := h.w.Written(slacktest.Direct, slacktest.Anna)
				return slices.Equal(m[0].Reactions, []string{"white_check_mark"})
			})

			stop()
			await(t, h.w, "the connection ends", func() bool { _, now := h.w.Connections(); return now == 0 })
			root := h.w.Say(slacktest.Channel, "", slacktest.Ben, mention+"which colour?")
			h.run(t)
			h.w.Again(true)
			in := slacktest.Channel + ":" + root
			key = h.session(t, in)
			await(t, h.w, "all is acknowledged", func() bool { return h.w.Pending() == 0 })
			h.sessions.Model(key, machinetest.Call(conversation.ToolAsk, `{"question":"Light?","choices":["yes","no"],"blocking":true}`))
			h.wrote(t, slacktest.Channel, "Light?")
			await(t, h.w, "the channel knows what it has asked", func() bool { return h.row(in).Revision > 0 && strings.Contains(string(h.row(in).Value), `"questions"`) })
			q := h.w.Written(slacktest.Channel, slacktest.Bot)[0]
			if q.Thread != root || !h.w.Press(slacktest.Channel, q.TS, slacktest.Ben, "yes") {
				t.Errorf("the question is %+v", q)
			}
			h.wrote(t, slacktest.Channel, "Light?\n→ yes")

			h.w.Command(slacktest.Direct, slacktest.Anna, "status")
			await(t, h.w, "the status", func() bool {
				return slices.ContainsFunc(h.w.Whispers(), func(w slacktest.Whisper) bool { return strings.Contains(fmt.Sprint(w.Body["text"]), "worked on") })
			})
			h.wrote(t, slacktest.Direct, "For &lt;whom&gt;, <@UANNA>?")
			for chat, want := range map[string]int{ // an answer to a question is a message, too
				slacktest.Direct: 1, in: 2} {
				if n := h.accepted(t, chat); n != want {
					t.Errorf("%d messages were accepted in %s, want %d", n, chat, want)
				}
			}
		})
	}
}

// accepted counts the messages that a chat's session has taken.
func (h *house) accepted(t *testing.T, name string) (n int) {
	key := h.session(t, name)
	h.sessions.Play(func(w *machinetest.World) {
		for _, e := range w.Session(key).Events() {
			if _, ok := e.Body.(conversation.MessageAccepted); ok {
				n++
			}
		}
	})
	return n
}

// An answer whose sending was cut behind Slack's commit is found there, and not said twice.
func TestAnswersAreSaidOnce(t *testing.T) {
	h := newHouse(t, slack.Socket)
	h.run(t)
	h.w.Say(slacktest.Direct, "", slacktest.Anna, "hello")
	key := h.session(t, slacktest.Direct)
	h.w.Fail("chat.postMessage", slacktest.Mishap{Cut: true, Done: true}, slacktest.Mishap{Status: 429, RetryAfter: 1})
	await(t, h.w, "all is acknowledged", func() bool { return h.w.Pending() == 0 })
	began := time.Now()
	h.sessions.Model(key, machinetest.Text("one"))
	await(t, h.w, "Slack is asked", func() bool { return h.w.Requests("conversations.history") == 1 })
	h.w.Say(slacktest.Direct, "", slacktest.Anna, "and?")
	await(t, h.w, "all is acknowledged", func() bool { return h.w.Pending() == 0 })
	h.sessions.Model(key, machinetest.Text("two"))
	h.wrote(t, slacktest.Direct, "one | two")
	if took := time.Since(began); took < time.Second {
		t.Errorf("after %v the second was sent, and Slack had asked for a second", took)
	}
}
