package telegram

import (
	"context"
	"encoding/json"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/chat"
	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/gateway/telegram/telegramtest"
	"parley/metrics"
)

// shelf is a chats.Store in a map, for one tenant.
type shelf struct {
	mu      sync.Mutex
	rows    map[chats.Key]chats.Row
	entries []chats.Entry
	saved   chan struct{} // closed and made anew by each Save
}

func newShelf() *shelf {
	return &shelf{rows: map[chats.Key]chats.Row{}, saved: make(chan struct{})}
}

func (s *shelf) Load(_ context.Context, k chats.Key) (chats.Row, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if r, is := s.rows[k]; is {
		return r, nil
	}
	return chats.Row{Key: k}, nil
}

func (s *shelf) Save(_ context.Context, _ conversation.TenantID, rows []chats.Row, entries []chats.Entry) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range rows {
		if s.rows[r.Key].Revision != r.Revision {
			return chats.ErrStale
		}
	}
	for _, r := range rows {
		r.Revision++
		s.rows[r.Key] = r
	}
	for _, e := range entries {
		e.Number = chats.Number(len(s.entries) + 1)
		s.entries = append(s.entries, e)
	}
	close(s.saved)
	s.saved = make(chan struct{})
	return nil
}

func (s *shelf) Rows(context.Context, conversation.TenantID, chats.Channel) iter.Seq2[chats.Row, error] {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := slices.Collect(maps.Values(s.rows))
	return func(yield func(chats.Row, error) bool) {
		for _, r := range rows {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *shelf) Feed(context.Context, conversation.TenantID) (chats.Feed, error) {
	return chats.Feed{First: 1, Last: chats.Number(len(s.entries))}, nil
}

func (s *shelf) Entries(context.Context, conversation.TenantID, chats.Number, int) ([]chats.Entry, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.entries), nil
}

func (s *shelf) Trim(context.Context, conversation.TenantID, chats.Number) error { return nil }

// joined is a channel of a bot of a stand-in, over the real machine.
type joined struct {
	t        *testing.T
	f        *telegramtest.Telegram
	store    *shelf
	sessions *gatewaytest.Sessions
	hub      *fanout.Hub
	stop     func()
}

// start runs the channel with a new bot, as a new process would.
func (j *joined) start(p chat.Platform) {
	j.t.Helper()
	all := []string{"*"}
	c := chat.New(p, chat.Settings{
		Tenant: "default", Overflow: chat.OverflowSplit, Allow: chat.Lists{Chats: all, Users: all}, Reactions: true, MaxWaiting: 10,
	}, chat.Deps{
		Engine: j.sessions, Hub: j.hub, Limits: protocol.DefaultLimits(), Store: j.store,
		Metrics: metrics.NewChats(prometheus.NewRegistry()), Logger: slog.New(slog.DiscardHandler), Refusal: conversation.AsError,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- c.Run(ctx) }()
	j.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			j.t.Errorf("the channel ended with %v", err)
		}
	})
	j.t.Cleanup(j.stop)
}

func (j *joined) session() conversation.SessionKey {
	j.t.Helper()
	r, err := j.store.Load(j.t.Context(), chats.Key{Tenant: "default", Channel: "telegram", Chat: "telegram:7"})
	if err != nil || r.Session == "" {
		j.t.Fatal("the chat has no session")
	}
	return conversation.SessionKey{Tenant: "default", Session: r.Session}
}

// events are what has happened in the session.
func (j *joined) events() (all []conversation.Event) {
	j.t.Helper()
	for r, err := range j.sessions.Records(j.t.Context(), j.session(), conversation.Range{}) {
		if err != nil {
			j.t.Fatal(err)
		}
		all = append(all, r.Events...)
	}
	return all
}

// accepted are the messages of people.
func (j *joined) accepted() (all []conversation.MessageAccepted) {
	for _, e := range j.events() {
		if m, is := e.Body.(conversation.MessageAccepted); is {
			all = append(all, m)
		}
	}
	return all
}

// commit lets something happen in the session's task.
func (j *joined) commit(bodies ...conversation.EventBody) {
	var task conversation.TaskID
	for _, e := range j.events() {
		if e.Task != "" {
			task = e.Task
		}
	}
	var all []conversation.Event
	for _, b := range bodies {
		all = append(all, conversation.Event{Task: task, Body: b})
	}
	j.sessions.Commit(j.session(), all...)
}

func (j *joined) shows(text string) {
	j.t.Helper()
	until(j.t, j.f, "the chat shows "+text, func() bool { return slices.Contains(j.f.Texts(7), text) })
}

// A conversation from the first word to the last, with what goes wrong on the way: the
// platform's limit, an answer that is lost, a restart, updates that come again, a bot that is blocked.
func TestChannel(t *testing.T) {
	for _, receive := range []string{ReceivePoll, ReceiveWebhook} {
		t.Run(receive, func(t *testing.T) {
			hub := fanout.NewHub(nil)
			j := &joined{t: t, store: newShelf(), hub: hub, sessions: gatewaytest.NewSessions(hub)}
			t.Cleanup(j.sessions.Close)
			var b *Bot
			if receive == ReceivePoll {
				b, j.f = at(t, Options{})
			} else {
				b, j.f = called(t, Options{})
			}
			f := j.f
			f.Group(-200, "Forum", true)
			j.start(b)

			hello := f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "Book a table"})
			until(t, f, "it is accepted", func() bool { return f.Reaction(7, hello) == "👀" })
			said := j.accepted()
			if len(said) != 1 || said[0].Text != "Book a table" || said[0].Author != "telegram:7" || said[0].AuthorName != "Ada" || said[0].Via != conversation.ViaTelegram {
				t.Fatalf("accepted %+v", said)
			}
			part := func(id, text string) conversation.Part {
				return conversation.Part{Message: conversation.MessageID(id), Source: conversation.SourceID(said[0].Message), InReplyTo: said[0].Message, Text: text}
			}
			j.commit(conversation.PartialResponse{Part: part("p1", "Looking, @Ada, not @mallory.")})
			j.shows("Looking, @ada, not @" + joiner + "mallory.")

			j.commit(conversation.Asked{Question: "q1", Text: "For how many?", Choices: []string{"2", "4"}, Blocking: true})
			j.shows("For how many?")
			j.feeds("a question was sent") // before that a press finds no question
			question := f.Shown(7)[1]
			press := f.Press(7, question.ID, "4", ada)
			until(t, f, "the press is answered and the buttons are gone", func() bool {
				return f.Answered(press) && f.Shown(7)[1].Text == "For how many?\n\n→ 4" && len(f.Shown(7)[1].Buttons) == 0
			})
			if said := j.accepted(); len(said) != 2 || said[1].Question != "q1" || said[1].Text != "4" {
				t.Fatalf("accepted %+v", said)
			}

			f.Fail(telegramtest.Fault{Method: "sendMessage", Status: 429, Description: "Too Many Requests: retry after 1", RetryAfter: 1})
			j.commit(conversation.PartialResponse{Part: part("p2", "Found one.")})
			j.shows("Found one.")
			f.Fail(telegramtest.Fault{Method: "sendMessage", Done: true}) // sent, but nobody says so
			j.commit(conversation.Response{Part: part("p3", "Booked.")}, conversation.MessageResolved{Message: said[0].Message, How: conversation.ResolvedAnswered})
			j.shows("Booked.\n" + chat.Texts.Repeated)
			until(t, f, "it is answered", func() bool { return f.Reaction(7, hello) == "👍" && f.Waiting() == 0 })

			j.stop()
			f.Redeliver(10)
			f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "Thank you"})
			j.start(b)
			until(t, f, "all were taken", func() bool { return f.Waiting() == 0 })
			texts := []string{}
			for _, m := range j.accepted() {
				texts = append(texts, m.Text)
			}
			if want := []string{"Book a table", "4", "Thank you"}; !slices.Equal(texts, want) {
				t.Errorf("accepted %q, want %q", texts, want)
			}
			want := []string{"Looking, @ada, not @" + joiner + "mallory.", "For how many?\n\n→ 4", "Found one.", "Booked.", "Booked.\n" + chat.Texts.Repeated}
			got := slices.DeleteFunc(f.Texts(7), func(s string) bool { return s == chat.Texts.QuestionClosed }) // the press came again
			if !slices.Equal(got, want) {
				t.Errorf("shown %q\nwant %q", got, want)
			}

			f.Say(telegramtest.Says{Chat: -200, Thread: 17, From: ada, Text: "/help@" + telegramtest.Username})
			until(t, f, "the topic has its help", func() bool {
				s := f.Shown(-200)
				return len(s) == 1 && s[0].Thread == 17 && s[0].ReplyTo != 0 && strings.Contains(s[0].Text, "/ask QUESTION")
			})

			before := len(f.Requests("sendMessage"))
			f.Remove(7, ada)
			until(t, f, "the block was taken", func() bool { return f.Waiting() == 0 })
			j.commit(conversation.PartialResponse{Part: part("p4", "Anything else?")})
			j.feeds("was not sent")
			if n := len(f.Requests("sendMessage")); n != before {
				t.Errorf("%d messages were sent to who has blocked the bot", n-before)
			}
			j.stop()
		})
	}
}

// feeds waits until the newest entry of the feed holds a text.
func (j *joined) feeds(text string) {
	j.t.Helper()
	ctx, cancel := context.WithTimeout(j.t.Context(), 20*time.Second)
	defer cancel()
	for {
		j.store.mu.Lock()
		saved, all := j.store.saved, j.store.entries
		j.store.mu.Unlock()
		var h chat.Happening
		if len(all) > 0 {
			if err := json.Unmarshal(all[len(all)-1].Value, &h); err != nil {
				j.t.Fatal(err)
			}
		}
		if strings.Contains(h.Summary, text) {
			return
		}
		select {
		case <-saved:
		case <-ctx.Done():
			j.t.Fatalf("the feed does not say %q but %q", text, h.Summary)
		}
	}
}
