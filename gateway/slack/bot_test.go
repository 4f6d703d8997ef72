package slack_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/gateway/chat"
	"parley/gateway/slack"
	"parley/gateway/slack/slacktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// desk keeps what it is given, and says done when the test does, or at once.
type desk struct {
	known []chat.KnownChat
	hold  bool

	mu      sync.Mutex
	taken   []chat.Update
	done    []func(error)
	changed chan struct{}
}

func newDesk() *desk { return &desk{changed: make(chan struct{})} }

func (d *desk) Take(_ context.Context, u chat.Update, done func(error)) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.taken, d.done = append(d.taken, u), append(d.done, done)
	close(d.changed)
	d.changed = make(chan struct{})
	if !d.hold {
		done(nil)
	}
}

func (d *desk) Known(context.Context) iter.Seq2[chat.KnownChat, error] {
	return func(yield func(chat.KnownChat, error) bool) {
		for _, k := range d.known {
			if !yield(k, nil) {
				return
			}
		}
	}
}

// wait waits for n updates.
func (d *desk) wait(t *testing.T, n int) []chat.Update {
	t.Helper()
	for {
		d.mu.Lock()
		all, changed := slices.Clone(d.taken), d.changed
		d.mu.Unlock()
		if len(all) >= n {
			return all
		}
		select {
		case <-changed:
		case <-limit(t).Done():
			t.Fatalf("%d updates came, want %d: %+v", len(all), n, all)
		}
	}
}

// finish says how the i-th update has ended.
func (d *desk) finish(i int, err error) {
	d.mu.Lock()
	done := d.done[i]
	d.mu.Unlock()
	done(err)
}

// limit is a context that ends soon enough to see what a test waits for.
func limit(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	t.Cleanup(cancel)
	return ctx
}

func await(t *testing.T, w *slacktest.Workspace, what string, ok func() bool) {
	t.Helper()
	if !w.Await(limit(t), ok) {
		t.Fatalf("it never happened: %s", what)
	}
}

// newBot makes a bot of a workspace; change may be nil.
func newBot(t *testing.T, w *slacktest.Workspace, change func(*slack.Options)) *slack.Bot {
	t.Helper()
	o := slack.Options{
		BotToken: slacktest.BotToken, AppToken: slacktest.AppToken, SigningSecret: slacktest.SigningSecret,
		APIURL: w.APIURL(), Receive: slack.Socket,
	}
	if change != nil {
		change(&o)
	}
	b, err := slack.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// serve gives what comes to a server's URL to a bot, as the gateway does.
func serve(t *testing.T, b *slack.Bot) string {
	s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		status, contentType, answer := b.Webhook(r.Context(), r.Header.Get, body)
		if contentType != "" {
			rw.Header().Set("Content-Type", contentType)
		}
		rw.WriteHeader(status)
		_, _ = rw.Write(answer)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

// open makes a workspace and a bot that receives.
func open(t *testing.T, receive string, d *desk) (*slacktest.Workspace, *slack.Bot) {
	t.Helper()
	w := slacktest.New()
	t.Cleanup(w.Close)
	b := newBot(t, w, func(o *slack.Options) { o.Receive = receive })
	if receive == slack.Events {
		w.SendTo(serve(t, b))
	}
	start(t, b, d)
	return w, b
}

// start runs a bot until the test ends.
func start(t *testing.T, b *slack.Bot, d *desk) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, d) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the run ended with %v", err)
		}
	})
	for ctx := limit(t); !b.Running(); runtime.Gosched() {
		if ctx.Err() != nil {
			t.Fatal("the bot does not run")
		}
	}
}

const mention = "<@" + slacktest.Bot + "> "

// What people do becomes the same updates, whichever way it comes.
func TestUpdates(t *testing.T) {
	const c, d = slacktest.Channel, slacktest.Direct
	anna := chat.Person{ID: slacktest.Anna, Name: "Anna Berg", Handle: "anna"}
	type want struct {
		kind                      chat.UpdateKind
		chat, to, text            string
		group, addressed, command bool
		replyTo, token            string
		files                     []chat.File
	}
	var ts, root string
	at := func(format string, args ...any) string { return fmt.Sprintf(format, args...) }
	for _, test := range []struct {
		name string
		do   func(w *slacktest.Workspace)
		want func() []want
	}{
		{"direct", func(w *slacktest.Workspace) { ts = w.Say(d, "", slacktest.Anna, "Tom &amp; <@UBEN0>") }, func() []want {
			return []want{{kind: chat.Said, chat: d, to: `{"channel":"D001"}`, text: "Tom & @Ben", addressed: true}}
		}},
		{"direct, in a thread", func(w *slacktest.Workspace) {
			root = w.Say(d, "", slacktest.Anna, "one")
			ts = w.Say(d, root, slacktest.Anna, "two")
		}, func() []want {
			return []want{
				{kind: chat.Said, chat: d, to: `{"channel":"D001"}`, text: "one", addressed: true},
				{kind: chat.Said, chat: d, to: at(`{"channel":"D001","thread":"%s"}`, root), text: "two", addressed: true, replyTo: root},
			}
		}},
		{"a mention comes twice and is one", func(w *slacktest.Workspace) { ts = w.Say(c, "", slacktest.Anna, mention+"book") }, func() []want {
			one := want{kind: chat.Said, chat: c + ":" + ts, to: at(`{"channel":"C001","thread":"%s"}`, ts), text: "book", group: true, addressed: true}
			return []want{one, one}
		}},
		{"people among themselves", func(w *slacktest.Workspace) { ts = w.Say(c, "", slacktest.Anna, "<!here> lunch?") }, func() []want {
			return []want{{kind: chat.Said, chat: c + ":" + ts, to: at(`{"channel":"C001","thread":"%s"}`, ts), text: "@here lunch?", group: true}}
		}},
		{"a thread of theirs, then with us", func(w *slacktest.Workspace) {
			root = w.Say(c, "", slacktest.Ben, "lunch?")
			w.Say(c, root, slacktest.Anna, "yes")
			w.Say(c, root, slacktest.Anna, mention+"where?")
			ts = w.Say(c, root, slacktest.Anna, "and when?")
		}, func() []want {
			in := want{kind: chat.Said, chat: c + ":" + root, to: at(`{"channel":"C001","thread":"%s"}`, root), group: true, replyTo: root}
			yes, where, when := in, in, in
			yes.text = "yes"
			where.text, where.addressed = "where?", true
			when.text, when.addressed = "and when?", true
			return []want{{kind: chat.Said, chat: c + ":" + root, to: in.to, text: "lunch?", group: true}, yes, where, where, when}
		}},
		{"files", func(w *slacktest.Workspace) {
			ts = w.Say(d, "", slacktest.Anna, "", map[string]any{"id": "F1", "name": "a.png", "mimetype": "image/png", "size": 2048},
				map[string]any{"id": "F2", "name": "audio.m4a", "mimetype": "audio/mp4", "size": 9, "subtype": "slack_audio"},
				map[string]any{"id": "F3", "mode": "tombstone"})
		}, func() []want {
			return []want{{kind: chat.Said, chat: d, to: `{"channel":"D001"}`, addressed: true,
				files: []chat.File{{Name: "a.png", Type: "image/png", Bytes: 2048}, {Name: "audio.m4a", Type: "voice message", Bytes: 9}}}}
		}},
		{"edit and deletion", func(w *slacktest.Workspace) {
			ts = w.Say(d, "", slacktest.Anna, "tow")
			w.Preview(d, ts)
			w.Edit(d, ts, "two &lt; three")
			w.Delete(d, ts)
		}, func() []want {
			in := want{chat: d, to: `{"channel":"D001"}`}
			said, edited, deleted := in, in, in
			said.kind, said.text, said.addressed = chat.Said, "tow", true
			edited.kind, edited.text = chat.Edited, "two < three"
			deleted.kind = chat.Deleted
			return []want{said, edited, deleted}
		}},
		{"a deleted message that has replies", func(w *slacktest.Workspace) {
			root = w.Say(c, "", slacktest.Anna, "one")
			w.Say(c, root, slacktest.Anna, "two")
			w.Delete(c, root)
		}, func() []want {
			in := want{chat: c + ":" + root, to: at(`{"channel":"C001","thread":"%s"}`, root), group: true}
			one, two, deleted := in, in, in
			one.kind, one.text = chat.Said, "one"
			two.kind, two.text, two.replyTo = chat.Said, "two", root
			deleted.kind = chat.Deleted
			return []want{one, two, deleted}
		}},
		{"commands", func(w *slacktest.Workspace) {
			w.Command(c, slacktest.Anna, "ask Who is <@UBEN0|ben> &amp; why?")
			w.Command(d, slacktest.Anna, " ")
			w.Command(d, slacktest.Anna, "/status")
		}, func() []want {
			direct := want{kind: chat.Said, chat: d, to: `{"channel":"D001"}`, addressed: true, command: true}
			help, status := direct, direct
			help.text, status.text = "/help", "/status"
			return []want{{kind: chat.Said, chat: c, to: `{"channel":"C001"}`, text: "/ask Who is @Ben & why?", group: true, addressed: true, command: true}, help, status}
		}},
		{"a forwarded message", func(w *slacktest.Workspace) {
			w.RawEvent(map[string]any{"type": "message", "channel": d, "channel_type": "im", "user": slacktest.Anna, "text": "see", "ts": "1.000001",
				"attachments": []any{map[string]any{"is_share": true, "text": "the &gt; thing"}, map[string]any{"text": "a preview"}}})
		}, func() []want {
			return []want{{kind: chat.Said, chat: d, to: `{"channel":"D001"}`, text: "see\nthe > thing", addressed: true}}
		}},
		{"what is nobody's message", func(w *slacktest.Workspace) {
			for _, e := range []map[string]any{
				{"type": "message", "subtype": "channel_join", "user": slacktest.Anna},
				{"type": "message", "subtype": "bot_message", "bot_id": "B9", "text": "beep"},
				{"type": "message", "bot_id": "B9", "user": "UOTHERBOT", "text": "beep"},
				{"type": "message", "user": slacktest.Bot, "text": "my own"},
				{"type": "message", "user": "USLACKBOT", "text": "reminder"},
				{"type": "app_mention", "bot_id": "B9", "user": "UOTHERBOT", "text": mention},
				{"type": "member_left_channel", "user": slacktest.Anna},
				{"type": "channel_rename", "channel": map[string]any{"id": c}},
				{"type": "team_domain_change"},
				{"type": "message", "user": 7},
			} {
				if e["channel"] == nil {
					e["channel"], e["channel_type"], e["ts"] = c, "channel", "1.000001"
				}
				w.RawEvent(e)
			}
			w.RawEvent("no event")
			ts = w.Say(d, "", slacktest.Anna, "at last")
		}, func() []want {
			return []want{{kind: chat.Said, chat: d, to: `{"channel":"D001"}`, text: "at last", addressed: true}}
		}},
	} {
		for _, receive := range []string{slack.Socket, slack.Events} {
			t.Run(test.name+", by "+receive, func(t *testing.T) {
				dk := newDesk()
				w, _ := open(t, receive, dk)
				test.do(w)
				wants := test.want()
				dk.wait(t, len(wants))
				await(t, w, "all is acknowledged", func() bool { return w.Pending() == 0 })
				got := dk.wait(t, 0)
				if len(got) != len(wants) {
					t.Fatalf("%d updates, want %d: %+v", len(got), len(wants), got)
				}
				for i, u := range got {
					w := wants[i]
					is := want{u.Kind, u.Chat, string(u.To), u.Text, u.Group, u.Addressed, u.Command, string(u.ReplyTo), u.Token, u.Files}
					if fmt.Sprint(is) != fmt.Sprint(w) {
						t.Errorf("update %d is\n%+v, want\n%+v", i, is, w)
					}
					if u.Workspace != slacktest.Team || u.Allowed != c && u.Allowed != d || u.Name == "" || u.From.ID != anna.ID && u.From.ID != slacktest.Ben {
						t.Errorf("update %d is of %q in %q, %q, named %q", i, u.From.ID, u.Allowed, u.Workspace, u.Name)
					}
					if u.Kind == chat.Said && u.From.ID == anna.ID && u.From != anna {
						t.Errorf("update %d is from %+v", i, u.From)
					}
					if strings.HasPrefix(test.name, "a mention") && i > 0 && u.Name != got[0].Name {
						t.Errorf("one message has the names %q and %q", got[0].Name, u.Name)
					}
					if (u.Reply != nil) != u.Command {
						t.Errorf("update %d may be answered privately: %v", i, u.Reply != nil)
					}
				}
			})
		}
	}
}

// Events are recognised by what they are about, however often they come.
func TestNamesAreTheSameAgain(t *testing.T) {
	for _, receive := range []string{slack.Socket, slack.Events} {
		d := newDesk()
		w, b := open(t, receive, d)
		posted, err := b.Send(t.Context(), chat.Address(`{"channel":"D001"}`), chat.Outgoing{Text: "Which?", Choices: []chat.Choice{{Label: "A", Token: "q1.0"}}})
		if err != nil {
			t.Fatal(err)
		}
		w.Say(slacktest.Direct, "", slacktest.Anna, "hello")
		w.Command(slacktest.Direct, slacktest.Anna, "status")
		w.Press(slacktest.Direct, string(posted.Name), slacktest.Anna, "A")
		first := d.wait(t, 3)
		await(t, w, "all is acknowledged", func() bool { return w.Pending() == 0 })
		w.Again(true)
		all := d.wait(t, 6)
		for i, u := range first {
			if all[i+3].Name != u.Name || all[i+3].Kind != u.Kind || all[i+3].Chat != u.Chat {
				t.Errorf("by %s: %v %q in %q came again as %v %q in %q", receive, u.Kind, u.Name, u.Chat, all[i+3].Kind, all[i+3].Name, all[i+3].Chat)
			}
		}
	}
}

// Buttons come back with the token of their choice, to the chat in which the question stands.
func TestPresses(t *testing.T) {
	for _, receive := range []string{slack.Socket, slack.Events} {
		d := newDesk()
		w, b := open(t, receive, d)
		root := w.Say(slacktest.Channel, "", slacktest.Anna, mention+"go")
		d.wait(t, 2)
		for i, test := range []struct{ to, chat, press string }{
			{`{"channel":"D001"}`, "D001", ""},
			{`{"channel":"C001"}`, "C001", ""},
			{`{"channel":"C001","thread":"` + root + `"}`, "C001:" + root, ""},
		} {
			m := chat.Outgoing{Text: "Which?", Choices: []chat.Choice{{Label: "A", Token: "q1.0"}, {Label: "B", Token: "q1.1"}}, Nonce: fmt.Sprint(i)}
			posted, err := b.Send(t.Context(), chat.Address(test.to), m)
			if err != nil {
				t.Fatal(err)
			}
			channel, _, _ := strings.Cut(test.chat, ":")
			if !w.Press(channel, string(posted.Name), slacktest.Anna, "B") {
				t.Fatal("there is no button")
			}
			u := d.wait(t, 3+i)[2+i]
			if u.Kind != chat.Pressed || u.Token != "q1.1" || u.Chat != test.chat || string(u.To) != test.to || u.From.Name != "Anna Berg" || !strings.HasPrefix(string(u.Name), "press:") {
				t.Errorf("by %s, in %s: %+v", receive, test.to, u)
			}
			if err := u.Reply(t.Context(), "not <open>"); err != nil {
				t.Error(err)
			}
		}
		got := w.Whispers()
		if len(got) != 3 || got[0].Body["text"] != "not &lt;open&gt;" || got[0].Body["response_type"] != "ephemeral" || got[0].Body["replace_original"] != false {
			t.Errorf("whispers: %+v", got)
		}
	}
}

// What people write below an answer to /parley belongs to the chat of /parley, where the
// question is that they answer.
func TestRepliesToCommandsAnswers(t *testing.T) {
	d := newDesk()
	w, b := open(t, slack.Socket, d)
	posted, err := b.Send(t.Context(), chat.Address(`{"channel":"C001"}`), chat.Outgoing{Text: "For how many?"})
	if err != nil {
		t.Fatal(err)
	}
	w.Say(slacktest.Channel, string(posted.Name), slacktest.Anna, "four")
	u := d.wait(t, 1)[0]
	if u.Chat != "C001" || u.ReplyTo != posted.Name || !u.Addressed || string(u.To) != `{"channel":"C001","thread":"`+string(posted.Name)+`"}` {
		t.Errorf("it became %+v", u)
	}
}

// In a thread that the store knows the bot is meant, also after a restart.
func TestKnownThreads(t *testing.T) {
	d := newDesk()
	d.known = []chat.KnownChat{{Chat: "C001:1.000001", To: chat.Address(`{"channel":"C001","thread":"1.000001"}`)}}
	w, _ := open(t, slack.Socket, d)
	w.Say(slacktest.Channel, "1.000001", slacktest.Anna, "and now?")
	w.Say(slacktest.Channel, "2.000001", slacktest.Anna, "unrelated")
	if all := d.wait(t, 2); !all[0].Addressed || all[1].Addressed {
		t.Errorf("addressed: %v in the known thread, %v in another one", all[0].Addressed, all[1].Addressed)
	}
}

// When the bot leaves a channel, or there is no channel any more, all its chats are told.
func TestLeft(t *testing.T) {
	for name, leave := range map[string]func(*slacktest.Workspace){
		"left":     func(w *slacktest.Workspace) { w.Leave(slacktest.Channel) },
		"archived": func(w *slacktest.Workspace) { w.Archive(slacktest.Channel) },
	} {
		d := newDesk()
		d.hold = true
		for _, c := range []string{"C001", "C001:1.1", "C001:2.1", "C0011:1.1", "D001"} {
			d.known = append(d.known, chat.KnownChat{Chat: c})
		}
		w, _ := open(t, slack.Socket, d)
		leave(w)
		all := d.wait(t, 3)
		for i, c := range []string{"C001", "C001:1.1", "C001:2.1"} {
			if all[i].Kind != chat.Left || all[i].Chat != c {
				t.Errorf("%s: update %d is %+v", name, i, all[i])
			}
			if w.Pending() != 1 {
				t.Errorf("%s: it was acknowledged with %d of 3 chats told", name, i)
			}
			d.finish(i, nil)
		}
		await(t, w, "it is acknowledged", func() bool { return w.Pending() == 0 })
		if n := len(d.wait(t, 0)); n != 3 {
			t.Errorf("%s: %d updates", name, n)
		}
	}
}

// Names that cannot be found out are left away; the message is not.
func TestNamesThatAreNotKnown(t *testing.T) {
	for _, fault := range []slacktest.Mishap{{Code: "missing_scope", Needed: "users:read"}, {Status: 500}, {Status: 429, RetryAfter: 30}, {Cut: true}, {Garbage: true}, {Wait: make(chan struct{})}} {
		d := newDesk()
		w, _ := open(t, slack.Socket, d)
		w.Fail("users.info", fault)
		w.Say(slacktest.Direct, "", slacktest.Anna, "hello")
		w.Say(slacktest.Direct, "", slacktest.Anna, "again")
		for _, u := range d.wait(t, 2) {
			if u.From.ID != slacktest.Anna || u.From.Name != "" {
				t.Errorf("%+v: it came from %+v", fault, u.From)
			}
		}
		if n := w.Requests("users.info"); n != 1 {
			t.Errorf("%+v: the name was asked for %d times", fault, n)
		}
	}
}

// An envelope is acknowledged when what follows from it is durable, not before, and one that
// failed comes again on the next connection.
func TestSocketAcknowledges(t *testing.T) {
	d := newDesk()
	d.hold = true
	w, _ := open(t, slack.Socket, d)
	w.Say(slacktest.Direct, "", slacktest.Anna, "one")
	w.Say(slacktest.Direct, "", slacktest.Anna, "two")
	d.wait(t, 2)
	d.finish(1, nil)
	await(t, w, "the second is acknowledged", func() bool { return w.Pending() == 1 })
	d.finish(0, errors.New("the store is away"))
	w.Say(slacktest.Direct, "", slacktest.Anna, "three")
	d.wait(t, 3)
	d.finish(2, nil) // acknowledgements go out in order: one of the first would be there by now
	await(t, w, "the third is acknowledged", func() bool { return w.Pending() <= 1 })
	w.Refresh()
	all := d.wait(t, 4)
	if all[3].Text != "one" || all[3].Name != all[0].Name {
		t.Errorf("what came again is %+v", all[3])
	}
	d.finish(3, nil)
	await(t, w, "all is acknowledged", func() bool { return w.Pending() == 0 })
}

// A connection that Slack wants to renew, or that is cut, is opened again at once.
func TestSocketReconnects(t *testing.T) {
	d := newDesk()
	w, _ := open(t, slack.Socket, d)
	for i, end := range []func(){w.Refresh, w.Drop, func() { w.Raw("garbage"); w.Raw(map[string]any{"type": "new_thing", "envelope_id": "e"}); w.Drop() }} {
		await(t, w, "a connection", func() bool { ever, now := w.Connections(); return ever == i+1 && now == 1 })
		end()
		await(t, w, "another connection", func() bool { ever, now := w.Connections(); return ever == i+2 && now == 1 })
		w.Say(slacktest.Direct, "", slacktest.Anna, fmt.Sprint("message ", i))
		if all := d.wait(t, i+1); all[i].Text != fmt.Sprint("message ", i) {
			t.Errorf("update %d is %+v", i, all[i])
		}
		await(t, w, "it is acknowledged", func() bool { return w.Pending() == 0 })
	}
}

// What cannot be mended by connecting again is the caller's to wait for.
func TestRunFails(t *testing.T) {
	var f *chat.Failure
	for _, test := range []struct {
		name    string
		change  func(*slack.Options)
		prepare func(*slacktest.Workspace)
		trouble chat.Trouble // 0 = any error
		after   time.Duration
	}{
		{"no token", func(o *slack.Options) { o.BotToken = "" }, nil, chat.Credentials, 0},
		{"wrong token", func(o *slack.Options) { o.BotToken = "xoxb-wrong" }, nil, chat.Credentials, 0},
		{"no app token", func(o *slack.Options) { o.AppToken = "" }, nil, chat.Credentials, 0},
		{"wrong app token", func(o *slack.Options) { o.AppToken = "xapp-wrong" }, nil, chat.Credentials, 0},
		{"bot token as app token", func(o *slack.Options) { o.AppToken = slacktest.BotToken }, nil, chat.Credentials, 0},
		{"no server", func(o *slack.Options) { o.APIURL = "http://127.0.0.1:1" }, nil, chat.Later, 0},
		{"too fast", nil, func(w *slacktest.Workspace) {
			w.Fail("apps.connections.open", slacktest.Mishap{Status: 429, RetryAfter: 7})
		}, chat.Later, 7 * time.Second},
		{"no ticket", nil, func(w *slacktest.Workspace) { w.Fail("link", slacktest.Mishap{Status: 503}) }, 0, 0},
		{"server error", nil, func(w *slacktest.Workspace) { w.Fail("auth.test", slacktest.Mishap{Status: 503}) }, 0, 0},
		{"hung up on", nil, func(w *slacktest.Workspace) { w.Deaf(true) }, chat.Later, 0},
	} {
		w := slacktest.New()
		if test.prepare != nil {
			test.prepare(w)
		}
		err := newBot(t, w, test.change).Run(limit(t), newDesk())
		w.Close()
		switch is := errors.As(err, &f); {
		case err == nil:
			t.Errorf("%s: it ended without an error", test.name)
		case test.trouble == 0 && is || test.trouble != 0 && (!is || f.Trouble != test.trouble || f.After != test.after):
			t.Errorf("%s: %#v", test.name, err)
		case strings.Contains(err.Error(), "xapp-") || strings.Contains(err.Error(), "xoxb-") || strings.Contains(err.Error(), "ticket-"):
			t.Errorf("%s: the error has a secret: %v", test.name, err)
		}
	}
}

// Only one run receives, and a bot that has ended may run again.
func TestRunsOnce(t *testing.T) {
	w := slacktest.New()
	defer w.Close()
	b := newBot(t, w, nil)
	for range 2 {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- b.Run(ctx, newDesk()) }()
		await(t, w, "a connection", func() bool { _, now := w.Connections(); return now == 1 })
		if err := b.Run(ctx, newDesk()); err == nil {
			t.Error("it runs twice")
		}
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		await(t, w, "the connection ends", func() bool { _, now := w.Connections(); return now == 0 })
	}
}

func TestNewRefuses(t *testing.T) {
	for _, o := range []slack.Options{{}, {Receive: "poll"}, {Receive: slack.Events, APIURL: "slack.com/api"}, {Receive: slack.Socket, APIURL: "ftp://slack.com/"}, {Receive: slack.Socket, APIURL: ":"}} {
		if _, err := slack.New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// request is what a test sends to the webhook.
type request struct {
	header map[string]string
	body   []byte
}

func signedRequest(secret string, at time.Time, contentType, body string) request {
	h := slacktest.Sign(secret, at, []byte(body))
	h["Content-Type"] = contentType
	return request{h, []byte(body)}
}

func (r request) to(ctx context.Context, b *slack.Bot) (int, string) {
	status, _, answer := b.Webhook(ctx, func(name string) string { return r.header[name] }, r.body)
	return status, string(answer)
}

const event = `{"type":"event_callback","team_id":"T001","event":{"type":"message","channel":"D001","channel_type":"im","user":"UANNA","text":"hi","ts":"1.000001"}}`

// The webhook listens to nobody but Slack, and to Slack only now.
func TestWebhookSignature(t *testing.T) {
	const asJSON = "application/json"
	d := newDesk()
	_, b := open(t, slack.Events, d)
	good := signedRequest(slacktest.SigningSecret, time.Now(), asJSON, event)
	changed, short, unsigned := good, good, good
	changed.body = []byte(strings.Replace(event, "hi", "ho", 1))
	short.header = map[string]string{"X-Slack-Request-Timestamp": good.header["X-Slack-Request-Timestamp"], "X-Slack-Signature": good.header["X-Slack-Signature"][:20]}
	unsigned.header = nil
	for _, test := range []struct {
		name   string
		r      request
		status int
		answer string
	}{
		{"good", good, 200, ""},
		{"another body", changed, 401, ""},
		{"half a signature", short, 401, ""},
		{"no signature", unsigned, 401, ""},
		{"another secret", signedRequest("guess", time.Now(), asJSON, event), 401, ""},
		{"nearly too old", signedRequest(slacktest.SigningSecret, time.Now().Add(-4*time.Minute-50*time.Second), asJSON, event), 200, ""},
		{"too old", signedRequest(slacktest.SigningSecret, time.Now().Add(-5*time.Minute-5*time.Second), asJSON, event), 401, ""},
		{"of the future", signedRequest(slacktest.SigningSecret, time.Now().Add(6*time.Minute), asJSON, event), 401, ""},
		{"challenge", signedRequest(slacktest.SigningSecret, time.Now(), asJSON, `{"type":"url_verification","challenge":"c4"}`), 200, "c4"},
		{"challenge of somebody else", signedRequest("guess", time.Now(), asJSON, `{"type":"url_verification","challenge":"c4"}`), 401, ""},
		{"too many events", signedRequest(slacktest.SigningSecret, time.Now(), asJSON, `{"type":"app_rate_limited"}`), 200, ""},
		{"no JSON", signedRequest(slacktest.SigningSecret, time.Now(), asJSON, `{`), 400, ""},
		{"check of the certificate", signedRequest(slacktest.SigningSecret, time.Now(), "application/x-www-form-urlencoded", "ssl_check=1"), 200, ""},
		{"no form", signedRequest(slacktest.SigningSecret, time.Now(), "application/x-www-form-urlencoded", "a=%zz;"), 200, ""},
		{"too long", signedRequest(slacktest.SigningSecret, time.Now(), asJSON, strings.Repeat(" ", 1<<20)+event), 413, ""},
	} {
		if status, answer := test.r.to(t.Context(), b); status != test.status || answer != test.answer {
			t.Errorf("%s: %d %q, want %d %q", test.name, status, answer, test.status, test.answer)
		}
	}
	if n := len(d.wait(t, 0)); n != 2 {
		t.Errorf("%d updates came of it, want 2", n)
	}
}

// A bot without a secret listens to nobody, and one with Socket Mode has no webhook.
func TestWebhookIsClosed(t *testing.T) {
	w := slacktest.New()
	defer w.Close()
	unsigned := signedRequest("", time.Now(), "application/json", event)
	if status, _ := unsigned.to(t.Context(), newBot(t, w, func(o *slack.Options) { o.Receive, o.SigningSecret = slack.Events, "" })); status != 401 {
		t.Errorf("without a secret: %d", status)
	}
	signed := signedRequest(slacktest.SigningSecret, time.Now(), "application/json", event)
	if status, _ := signed.to(t.Context(), newBot(t, w, nil)); status != 404 {
		t.Errorf("with Socket Mode: %d", status)
	}
	b := newBot(t, w, func(o *slack.Options) { o.Receive = slack.Events })
	if status, _ := signed.to(t.Context(), b); status != 503 {
		t.Errorf("while nothing runs: %d", status)
	}
	if status, answer := signedRequest(slacktest.SigningSecret, time.Now(), "application/json", `{"type":"url_verification","challenge":"c"}`).to(t.Context(), b); status != 200 || answer != "c" {
		t.Errorf("the challenge while nothing runs: %d %q", status, answer)
	}
}

// Slack hears 200 when all is durable, and 503 when it is to send the event again.
func TestWebhookWaits(t *testing.T) {
	d := newDesk()
	d.hold = true
	_, b := open(t, slack.Events, d)
	r := signedRequest(slacktest.SigningSecret, time.Now(), "application/json", event)
	answers := make(chan int, 1)
	post := func(ctx context.Context) { status, _ := r.to(ctx, b); answers <- status }
	go post(t.Context())
	d.wait(t, 1)
	select {
	case status := <-answers:
		t.Errorf("it was answered with %d before it was durable", status)
	default:
	}
	d.finish(0, nil)
	if status := <-answers; status != 200 {
		t.Errorf("when it is durable: %d", status)
	}
	go post(t.Context())
	d.wait(t, 2)
	d.finish(1, errors.New("the store is away"))
	if status := <-answers; status != 503 {
		t.Errorf("when it has failed: %d", status)
	}
	ctx, cancel := context.WithCancel(t.Context())
	go post(ctx)
	d.wait(t, 3)
	cancel()
	if status := <-answers; status != 503 {
		t.Errorf("when it takes too long: %d", status)
	}
	d.finish(2, nil) // late, and heard by nobody
}

// Slack gives up after three seconds: we answer before.
func TestWebhookAnswersInTime(t *testing.T) {
	d := newDesk()
	d.hold = true
	_, b := open(t, slack.Events, d)
	began := time.Now()
	status, _ := signedRequest(slacktest.SigningSecret, began, "application/json", event).to(t.Context(), b)
	if took := time.Since(began); status != 503 || took > 2900*time.Millisecond || took < 2*time.Second {
		t.Errorf("%d after %v", status, took)
	}
}

// A request that was answered by 503 comes again with the same name.
func TestWebhookIsRepeated(t *testing.T) {
	d := newDesk()
	d.hold = true
	w, _ := open(t, slack.Events, d)
	w.Say(slacktest.Direct, "", slacktest.Anna, "hello")
	d.wait(t, 1)
	d.finish(0, errors.New("the store is away"))
	all := d.wait(t, 2)
	d.finish(1, nil)
	await(t, w, "all is acknowledged", func() bool { return w.Pending() == 0 })
	if got := w.Statuses(); !slices.Equal(got, []int{503, 200}) || all[0].Name != all[1].Name {
		t.Errorf("answered %v, named %q and %q", got, all[0].Name, all[1].Name)
	}
}

// The log and all errors are without secrets, whatever goes wrong.
func TestNoSecrets(t *testing.T) {
	var log bytes.Buffer
	var mu sync.Mutex
	w := slacktest.New()
	defer w.Close()
	b := newBot(t, w, func(o *slack.Options) {
		o.Logger = slog.New(slog.NewTextHandler(writer(func(p []byte) (int, error) { mu.Lock(); defer mu.Unlock(); return log.Write(p) }), &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	var texts []string
	secret := slacktest.Mishap{Code: "bad " + slacktest.BotToken + " " + slacktest.AppToken + " " + slacktest.SigningSecret}
	for _, f := range []slacktest.Mishap{secret, {Cut: true}, {Status: 500}, {Garbage: true}} {
		for _, method := range []string{"chat.postMessage", "chat.update", "reactions.add", "conversations.history", "auth.test", "apps.connections.open"} {
			w.Fail(method, f)
		}
		to := chat.Address(`{"channel":"D001"}`)
		_, err := b.Send(t.Context(), to, chat.Outgoing{Text: "a"})
		texts = append(texts, fmt.Sprint(err))
		texts = append(texts, fmt.Sprint(b.Close(t.Context(), to, "1.1", "a", "b")))
		texts = append(texts, fmt.Sprint(b.React(t.Context(), to, "1.1", chat.Accepted)))
		_, _, _, err = b.Find(t.Context(), to, chat.Outgoing{Text: "a"}, time.Now())
		texts = append(texts, fmt.Sprint(err))
		for _, finding := range b.Check(t.Context()) {
			texts = append(texts, finding.Text)
		}
	}
	for _, text := range append(texts, log.String()) {
		for _, s := range []string{slacktest.BotToken, slacktest.AppToken, slacktest.SigningSecret} {
			if strings.Contains(text, s) {
				t.Errorf("%q has the secret %s", text, s)
			}
		}
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// A message that waits for a name is not overtaken by the next one of its channel.
func TestOrderWithinAChannel(t *testing.T) {
	d := newDesk()
	w, b := open(t, slack.Events, d)
	slow := make(chan struct{})
	w.Fail("users.info", slacktest.Mishap{Wait: slow})
	post := func(ctx context.Context, body string) int {
		status, _ := signedRequest(slacktest.SigningSecret, time.Now(), "application/json", body).to(ctx, b)
		return status
	}
	first := make(chan int, 1)
	go func() { first <- post(t.Context(), event) }()
	await(t, w, "the name is asked for", func() bool { return w.Requests("users.info") == 1 })
	second := strings.NewReplacer("UANNA", "UBEN0", "1.000001", "2.000001").Replace(event)
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if status := post(short, second); status != http.StatusServiceUnavailable {
		t.Errorf("the second was answered with %d while the first waits", status)
	}
	close(slow)
	if status := <-first; status != http.StatusOK {
		t.Errorf("the first was answered with %d", status)
	}
	if status := post(t.Context(), second); status != http.StatusOK {
		t.Errorf("the second was answered with %d when it came again", status)
	}
	if all := d.wait(t, 2); all[0].Name != "1.000001" || all[1].Name != "2.000001" {
		t.Errorf("they came as %q, %q", all[0].Name, all[1].Name)
	}
}
