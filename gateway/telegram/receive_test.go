package telegram

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
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/gateway/chat"
	"parley/gateway/telegram/telegramtest"
)

// desk keeps what it is given, and takes it at once unless take says otherwise.
type desk struct {
	take func(u chat.Update, done func(error))

	mu  sync.Mutex
	got []chat.Update
}

func (d *desk) Take(_ context.Context, u chat.Update, done func(error)) {
	d.mu.Lock()
	d.got = append(d.got, u)
	d.mu.Unlock()
	if d.take == nil {
		done(nil)
		return
	}
	d.take(u, done)
}

func (d *desk) Known(context.Context) iter.Seq2[chat.KnownChat, error] {
	return func(func(chat.KnownChat, error) bool) {}
}

// texts are those of what was taken so far.
func (d *desk) texts() (all []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, u := range d.got {
		all = append(all, u.Text)
	}
	return all
}

// running runs a bot until the test ends; ended gives its error.
func running(t *testing.T, b *Bot, d chat.Desk) (stop func() error) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- b.Run(ctx, d) }()
	stop = sync.OnceValue(func() error { cancel(); return <-ended })
	t.Cleanup(func() { stop() })
	return stop
}

// until waits for something; it is looked at whenever the stand-in sees something, such as the
// polls of a bot that waits, every two seconds.
func until(t *testing.T, f *telegramtest.Telegram, what string, is func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if f.Until(ctx, is) != nil {
		t.Fatalf("it did not happen: %s", what)
	}
}

// What is said comes in its order and is confirmed; a webhook that was set is not in the way.
func TestPoll(t *testing.T) {
	b, f := at(t, Options{})
	f.SetWebhook("http://127.0.0.1:1/", "")
	f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "one"})
	f.Post("message", map[string]any{"message_id": "this is no number"}) // it is not in the way either
	f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "two"})
	d := &desk{}
	stop := running(t, b, d)
	until(t, f, "all are confirmed", func() bool { return f.Waiting() == 0 })
	f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "three"})
	until(t, f, "all are confirmed", func() bool { return f.Waiting() == 0 && len(d.texts()) == 3 })
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if got := d.texts(); !slices.Equal(got, []string{"one", "two", "three"}) {
		t.Errorf("it took %q", got)
	}
	var methods []string
	for _, r := range f.Requests("") {
		methods = append(methods, r.Method)
	}
	if want := []string{"getMe", "deleteWebhook", "getUpdates"}; !slices.Equal(methods[:3], want) {
		t.Errorf("it asked %q", methods)
	}
	first := f.Requests("getUpdates")[0].Body
	if want := `{"limit":100,"timeout":50,"allowed_updates":["message","edited_message","callback_query","my_chat_member"]}`; first != want {
		t.Errorf("the first poll was %s\nwant %s", first, want)
	}
}

// Nothing is confirmed that was not taken. What follows in the same chat waits for it; other
// chats do not, and what they have taken is not taken again.
func TestPollWaitsForDone(t *testing.T) {
	b, f := at(t, Options{})
	held := make(chan func(error), 10)
	d := &desk{take: func(u chat.Update, done func(error)) {
		if u.Chat == "7" {
			held <- done
			return
		}
		done(nil)
	}}
	bob := telegramtest.Who{ID: 8, Name: "Bob"}
	f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "ada 1"})
	f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "ada 2"})
	f.Say(telegramtest.Says{Chat: 8, From: bob, Text: "bob 1"})
	running(t, b, d)
	fails := <-held
	until(t, f, "the other chat's message was taken", func() bool { return slices.Contains(d.texts(), "bob 1") })
	f.Say(telegramtest.Says{Chat: 8, From: bob, Text: "bob 2"}) // fetched although the first one is still being taken
	until(t, f, "later messages are fetched", func() bool { return slices.Contains(d.texts(), "bob 2") })
	if n := f.Waiting(); n != 4 {
		t.Errorf("%d updates are not confirmed, want all 4", n)
	}
	fails(errors.New("the store is full"))
	again := <-held
	if got := d.texts(); !slices.Equal(got, []string{"ada 1", "bob 1", "bob 2", "ada 1"}) {
		t.Errorf("it took %q", got)
	}
	again(nil)
	(<-held)(nil)
	until(t, f, "all are confirmed", func() bool { return f.Waiting() == 0 })
	if got := d.texts(); !slices.Equal(got, []string{"ada 1", "bob 1", "bob 2", "ada 1", "ada 2"}) {
		t.Errorf("it took %q", got)
	}
}

// A second program with the same token, and a webhook that somebody sets, end the poll with a
// sentence.
func TestPollConflict(t *testing.T) {
	for _, c := range []struct {
		name  string
		begin func(f *telegramtest.Telegram)
		want  string
	}{
		{"another program polls", func(f *telegramtest.Telegram) {
			go func() { // ends with the stand-in
				for { // the newer poll wins: which one that is, is open until the first of them has been told
					resp, err := http.Post(f.URL()+"/bot"+telegramtest.Token+"/getUpdates", "application/x-www-form-urlencoded", strings.NewReader("timeout=1"))
					if err != nil {
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
					if resp.StatusCode != http.StatusConflict {
						return
					}
				}
			}()
		}, "another program polls"},
		{"a webhook is set", func(f *telegramtest.Telegram) { f.SetWebhook("http://127.0.0.1:1/", "") }, "a webhook was set"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, f := at(t, Options{})
			ended := make(chan error, 1)
			go func() { ended <- b.Run(t.Context(), &desk{}) }()
			until(t, f, "it polls", func() bool { return len(f.Requests("getUpdates")) > 0 })
			c.begin(f)
			err := <-ended
			check(t, err, chat.Later, 0)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it ended with %v", err)
			}
		})
	}
}

// Run ends with what Telegram says.
func TestRunFails(t *testing.T) {
	for _, c := range []struct {
		fault   telegramtest.Fault
		trouble chat.Trouble
		after   time.Duration
	}{
		{telegramtest.Fault{Method: "getMe", Status: 401, Description: "Unauthorized"}, chat.Credentials, 0},
		{telegramtest.Fault{Method: "deleteWebhook", Status: 429, Description: "Too Many Requests", RetryAfter: 3}, chat.Later, 3 * time.Second},
		{telegramtest.Fault{Method: "getUpdates", Status: 502}, 0, 0},
		{telegramtest.Fault{Method: "getUpdates"}, 0, 0},
	} {
		b, f := at(t, Options{})
		f.Fail(c.fault)
		check(t, b.Run(t.Context(), &desk{}), c.trouble, c.after)
	}
}

const hookSecret = "A-very_secret-1"

// called is a bot that a stand-in calls.
func called(t *testing.T, o Options) (b *Bot, f *telegramtest.Telegram) {
	t.Helper()
	ready := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		<-ready
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		w.WriteHeader(b.Webhook(r.Context(), r.Header.Get, body))
	}))
	t.Cleanup(server.Close)
	o.Receive, o.WebhookURL, o.WebhookSecret = ReceiveWebhook, server.URL+"/channels/telegram", hookSecret
	b, f = at(t, o)
	close(ready)
	return b, f
}

// hooked is one that runs.
func hooked(t *testing.T, d chat.Desk, o Options) (b *Bot, f *telegramtest.Telegram, stop func() error) {
	t.Helper()
	b, f = called(t, o)
	return b, f, running(t, b, d)
}

func TestWebhook(t *testing.T) {
	fail := true
	d := &desk{take: func(u chat.Update, done func(error)) {
		if u.Text == "two" && fail {
			fail = false
			done(errors.New("not now"))
			return
		}
		done(nil)
	}}
	b, f, stop := hooked(t, d, Options{})
	for _, text := range []string{"one", "two", "three"} {
		f.Say(telegramtest.Says{Chat: 7, From: ada, Text: text})
	}
	until(t, f, "all are confirmed", func() bool { return f.Waiting() == 0 && len(d.texts()) == 4 })
	if got := d.texts(); !slices.Equal(got, []string{"one", "two", "two", "three"}) {
		t.Errorf("it took %q", got)
	}
	set := f.Requests("setWebhook")
	want := fmt.Sprintf(`{"url":"%s","allowed_updates":["message","edited_message","callback_query","my_chat_member"],"secret_token":"%s"}`, b.o.WebhookURL, hookSecret)
	if len(set) != 1 || set[0].Body != want {
		t.Errorf("it set %v\nwant %s", set, want)
	}
	if err := stop(); !errors.Is(err, context.Canceled) {
		t.Errorf("it ended with %v", err)
	}
	if f.WebhookSet() == "" || len(f.Requests("deleteWebhook")) > 0 {
		t.Error("the webhook is gone; what is said while the program is down would not wait for it")
	}
}

func TestWebhookStatus(t *testing.T) {
	var log bytes.Buffer
	hello := said(private, alice, `"text":"Hello"`)
	d := &desk{take: func(u chat.Update, done func(error)) {
		switch u.Text {
		case "Hello":
			go done(nil)
		case "Fail":
			done(errors.New("not now"))
		}
	}}
	b, f, stop := hooked(t, d, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	until(t, f, "the webhook is set", func() bool { return f.WebhookSet() != "" })
	call := func(ctx context.Context, b *Bot, secret, body string) int {
		return b.Webhook(ctx, func(name string) string {
			if name != "X-Telegram-Bot-Api-Secret-Token" {
				t.Errorf("it asked for the header %s", name)
			}
			return secret
		}, []byte(body))
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for _, c := range []struct {
		name, secret, body string
		ctx                context.Context
		want               int
	}{
		{"good", hookSecret, hello, t.Context(), 200},
		{"wrong secret", hookSecret + "x", hello, t.Context(), 401},
		{"the beginning of the secret", hookSecret[:5], hello, t.Context(), 401},
		{"no secret", "", hello, t.Context(), 401},
		{"wrong secret, no JSON", "x", "{", t.Context(), 401},
		{"no JSON", hookSecret, "{", t.Context(), 400},
		{"too long", hookSecret, strings.Repeat(" ", maxUpdate+1), t.Context(), 413},
		{"as long as may be", hookSecret, strings.Repeat(" ", maxUpdate-len(hello)) + hello, t.Context(), 200},
		{"nothing for us", hookSecret, `{"update_id":3}`, t.Context(), 200},
		{"unreadable", hookSecret, `{"update_id":4,"message":{"message_id":"five"}}`, t.Context(), 200},
		{"not taken", hookSecret, said(private, alice, `"text":"Fail"`), t.Context(), 503},
		{"never done", hookSecret, said(private, alice, `"text":"Never"`), short, 503},
	} {
		if got := call(c.ctx, b, c.secret, c.body); got != c.want {
			t.Errorf("%s: the answer is %d, want %d", c.name, got, c.want)
		}
	}
	if !strings.Contains(log.String(), "update=4") {
		t.Errorf("the log does not name the update that cannot be read: %s", &log)
	}
	// What is being taken while the run ends is not confirmed, and Run waits for it.
	answered := make(chan int, 1)
	before := len(d.texts())
	go func() { answered <- call(context.Background(), b, hookSecret, said(private, alice, `"text":"Never"`)) }()
	for len(d.texts()) == before {
		select {
		case status := <-answered:
			t.Fatalf("it was answered %d", status)
		default:
		}
	}
	stop()
	select {
	case got := <-answered:
		if got != 503 {
			t.Errorf("at the end the answer is %d", got)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("a call has outlived the run")
	}
	if got := call(t.Context(), b, hookSecret, hello); got != 503 {
		t.Errorf("after the end the answer is %d", got)
	}
	polls := bot(t, Options{WebhookSecret: hookSecret})
	if got := call(t.Context(), polls, hookSecret, hello); got != 401 {
		t.Errorf("a bot that polls has answered %d", got)
	}
}

// A press is always answered: with a text for who has pressed, or with nothing but the end of
// the waiting sign. One that was not taken is not answered before it is.
func TestPressesAreAnswered(t *testing.T) {
	b, f := at(t, Options{})
	f.Group(-200, "Forum", true)
	results := make(chan error, 10)
	tries := map[chat.MessageName]int{}
	d := &desk{take: func(u chat.Update, done func(error)) {
		tries[u.Name]++
		switch {
		case u.Token == "again" && tries[u.Name] == 1:
			done(errors.New("not now"))
			return
		case u.Token == "short":
			results <- u.Reply(t.Context(), "This question is not open any more.")
		case u.Token == "long":
			results <- u.Reply(t.Context(), strings.Repeat("x", maxAlert+1))
		}
		done(nil)
	}}
	choices := []chat.Choice{{Label: "a", Token: "nothing"}, {Label: "b", Token: "short"}, {Label: "c", Token: "long"}, {Label: "d", Token: "again"}}
	posted, err := b.Send(t.Context(), toTopic, chat.Outgoing{Text: "?", Choices: choices})
	if err != nil {
		t.Fatal(err)
	}
	running(t, b, d)
	id, _ := number(posted.Name)
	for _, c := range []struct{ label, want string }{
		{"a", `{"callback_query_id":"%s"}`},
		{"b", `{"callback_query_id":"%s","text":"This question is not open any more.","show_alert":true}`},
		{"c", `{"callback_query_id":"%s"}`},
		{"d", `{"callback_query_id":"%s"}`},
	} {
		press := f.Press(-200, id, c.label, ada)
		until(t, f, "the press is answered", func() bool { return f.Answered(press) })
		all := f.Requests("answerCallbackQuery")
		if got, want := all[len(all)-1].Body, fmt.Sprintf(c.want, press); got != want {
			t.Errorf("%s was answered %s, want %s", c.label, got, want)
		}
	}
	until(t, f, "all are confirmed", func() bool { return f.Waiting() == 0 })
	if n := len(f.Requests("answerCallbackQuery")); n != 4 {
		t.Errorf("4 presses were answered %d times", n)
	}
	if err := <-results; err != nil {
		t.Errorf("the short text: %v", err)
	}
	if err := <-results; err == nil {
		t.Error("the long text was taken; it has to go to the chat")
	}
	if u := d.got[0]; u.Chat != "-200:17" || u.Token != "nothing" || !strings.HasPrefix(string(u.Name), "cb:") {
		t.Errorf("the press came as %+v", u)
	}
}

func TestCheck(t *testing.T) {
	type line struct {
		ok   bool
		text string // it begins so, or holds it
	}
	hook := Options{Receive: ReceiveWebhook, WebhookURL: "https://x.example/hidden", WebhookSecret: hookSecret}
	for _, c := range []struct {
		name  string
		o     Options
		begin func(f *telegramtest.Telegram)
		want  []line
	}{
		{"all is well", Options{}, nil, []line{{true, "@" + telegramtest.Username}, {true, "no webhook is set"}}},
		{"bad token", Options{}, func(f *telegramtest.Telegram) { f.Fail(telegramtest.Fault{Status: 401, Description: "Unauthorized"}) },
			[]line{{false, "@BotFather"}}},
		{"not reached", Options{}, func(f *telegramtest.Telegram) { f.Fail(telegramtest.Fault{Status: 500}) }, []line{{false, "500"}}},
		{"privacy mode", Options{AnswerAll: true}, func(f *telegramtest.Telegram) { f.Private = true },
			[]line{{true, "@" + telegramtest.Username}, {false, "/setprivacy"}, {true, "no webhook is set"}}},
		{"privacy mode without need", Options{}, func(f *telegramtest.Telegram) { f.Private = true },
			[]line{{true, "@" + telegramtest.Username}, {true, "no webhook is set"}}},
		{"webhook while polling", Options{}, func(f *telegramtest.Telegram) { f.SetWebhook("http://127.0.0.1:1/hidden", "Connection refused") },
			[]line{{true, "@"}, {false, "at 127.0.0.1:1 is set"}, {false, "Connection refused"}}},
		{"webhook not set", hook, nil, []line{{true, "@"}, {true, "not set"}}},
		{"another webhook", hook, func(f *telegramtest.Telegram) { f.SetWebhook("http://127.0.0.1:1/hidden", "") }, []line{{true, "@"}, {false, "another URL"}}},
		{"updates wait", Options{}, func(f *telegramtest.Telegram) { f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "Hi"}) },
			[]line{{true, "@"}, {true, "no webhook"}, {true, "1 updates wait"}}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, f := at(t, c.o)
			if c.begin != nil {
				c.begin(f)
			}
			got := b.Check(t.Context())
			same := len(got) == len(c.want)
			for i := range min(len(got), len(c.want)) {
				same = same && got[i].OK == c.want[i].ok && strings.Contains(strings.Replace(got[i].Text, "is set yet", "not set", 1), c.want[i].text)
			}
			if !same {
				t.Errorf("it says %+v\nwant %+v", got, c.want)
			}
			for _, g := range got {
				if strings.Contains(g.Text, "hidden") || strings.Contains(g.Text, "AAtest") {
					t.Errorf("it shows a secret: %s", g.Text)
				}
			}
			for _, r := range f.Requests("") {
				if !strings.HasPrefix(r.Method, "get") {
					t.Errorf("it has called %s", r.Method)
				}
			}
		})
	}
}
