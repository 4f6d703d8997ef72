package telegram

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/chat"
	"parley/gateway/gatewaytest"
	"parley/gateway/telegram/telegramtest"
)

var (
	ada     = telegramtest.Who{ID: 7, Name: "Ada", Handle: "ada"}
	toAda   = chat.Address(`{"chat":7}`)
	toTopic = chat.Address(`{"chat":-200,"thread":17}`)
)

// peopled is a stand-in with a private chat, of one message, and a forum.
func peopled(t *testing.T, o Options) (b *Bot, f *telegramtest.Telegram, message chat.MessageName) {
	t.Helper()
	b, f = at(t, o)
	f.Group(-200, "Forum", true)
	return b, f, name(f.Say(telegramtest.Says{Chat: 7, From: ada, Text: "Hello"}))
}

// What goes over the wire, byte for byte.
func TestGoldenRequests(t *testing.T) {
	b, f, hello := peopled(t, Options{})
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Error(err)
		}
	}
	send := func(to chat.Address, m chat.Outgoing) chat.MessageName {
		t.Helper()
		p, err := b.Send(ctx, to, m)
		must(err)
		return p.Name
	}
	send(toAda, chat.Outgoing{Text: `Hi <b>Ada</b> & @ada: https://example.com "x"`, ReplyTo: hello, Nonce: "n1"})
	send(toTopic, chat.Outgoing{Text: "To the topic", ReplyTo: "4711"})
	question := chat.Outgoing{Text: "Tea?", Choices: []chat.Choice{{Label: "Yes", Token: "q1.0"}, {Label: "No", Token: "q1.1"}}}
	asked := send(toAda, question)
	other := send(toTopic, question)
	must(b.Close(ctx, toAda, asked, "Tea?", "Yes"))
	must(b.Close(ctx, toAda, asked, "Tea?", "Yes")) // once more: it is no error that nothing changes
	must(b.Close(ctx, toTopic, other, "Tea?", ""))
	must(b.Typing(ctx, toTopic))
	must(b.React(ctx, toAda, hello, chat.Accepted))
	if got := f.Reaction(7, 1); got != "👀" {
		t.Errorf("the reaction is %q", got)
	}
	must(b.React(ctx, toAda, hello, chat.Answered))
	must(b.React(ctx, toAda, hello, chat.NoReaction))
	must(b.React(ctx, toAda, "cb:1", chat.Answered)) // a button's name: there is nothing to react to

	var golden bytes.Buffer
	for _, r := range f.Requests("") {
		fmt.Fprintf(&golden, "%s %s\n", r.Method, r.Body)
	}
	gatewaytest.Golden(t, "requests.txt", golden.Bytes())
	shown := f.Shown(7)
	if last := shown[len(shown)-1]; last.Text != "Tea?\n\n→ Yes" || len(last.Buttons) != 0 {
		t.Errorf("the question stands there as %+v", last)
	}
	if in := f.Shown(-200); in[0].Thread != 17 || in[0].ReplyTo != 0 || len(in[1].Buttons) != 0 {
		t.Errorf("in the topic there are %+v", in)
	}
	if _, found, known, err := b.Find(ctx, toAda, chat.Outgoing{Text: "Tea?"}, time.Time{}); found || known || err != nil {
		t.Error("Telegram has no history for bots")
	}
}

// A question that is too long for the choice beneath it loses its buttons all the same.
func TestCloseOfALongQuestion(t *testing.T) {
	b, f, _ := peopled(t, Options{})
	long := strings.Repeat("x", textLimit)
	p, err := b.Send(t.Context(), toAda, chat.Outgoing{Text: long, Choices: []chat.Choice{{Label: "Yes", Token: "q1.0"}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Close(t.Context(), toAda, p.Name, long, "Yes"); err != nil {
		t.Fatal(err)
	}
	if s := f.Shown(7)[0]; len(s.Buttons) != 0 || s.Text != long {
		t.Errorf("it has the buttons %v and %d characters", s.Buttons, len(s.Text))
	}
}

// What each failure means: whether it is certain that nothing was sent, and whether it may be
// tried again.
func TestFailures(t *testing.T) {
	const unknown = chat.Trouble(0)
	type fault = telegramtest.Fault
	for _, c := range []struct {
		name  string
		fault fault
		want  chat.Trouble
		after time.Duration
	}{
		{"429", fault{Status: 429, Description: "Too Many Requests: retry after 7", RetryAfter: 7}, chat.Later, 7 * time.Second},
		{"429 without a time", fault{Status: 429, Description: "Too Many Requests"}, chat.Later, 0},
		{"401", fault{Status: 401, Description: "Unauthorized"}, chat.Credentials, 0},
		{"404", fault{Status: 404, Description: "Not Found"}, chat.Credentials, 0},
		{"blocked", fault{Status: 403, Description: "Forbidden: bot was blocked by the user"}, chat.Unreachable, 0},
		{"kicked", fault{Status: 403, Description: "Forbidden: bot was kicked from the group chat"}, chat.Unreachable, 0},
		{"no chat", fault{Status: 400, Description: "Bad Request: chat not found"}, chat.Unreachable, 0},
		{"no topic", fault{Status: 400, Description: "Bad Request: message thread not found"}, chat.Unreachable, 0},
		{"topic closed", fault{Status: 400, Description: "Bad Request: TOPIC_CLOSED"}, chat.Unreachable, 0},
		{"muted", fault{Status: 400, Description: "Bad Request: not enough rights to send text messages to the chat"}, chat.Unreachable, 0},
		{"too long", fault{Status: 400, Description: "Bad Request: message is too long"}, chat.Unfit, 0},
		{"empty", fault{Status: 400, Description: "Bad Request: message text is empty"}, chat.Unfit, 0},
		{"too large", fault{Status: 413, Description: "Request Entity Too Large"}, chat.Unfit, 0},
		{"500", fault{Status: 500, Description: "Internal Server Error"}, unknown, 0},
		{"502 of a proxy", fault{Status: 502, Raw: "<html>Bad Gateway</html>"}, unknown, 0},
		{"404 of somebody else", fault{Status: 404, Raw: "<html>Not found</html>"}, chat.Later, 0},
		{"redirect", fault{Status: 302, Raw: "elsewhere"}, chat.Later, 0},
		{"JSON of somebody else", fault{Status: 403, Raw: `{"error":"blocked by proxy"}`}, chat.Later, 0},
		{"no JSON", fault{Status: 200, Raw: "OK"}, unknown, 0},
		{"cut", fault{}, unknown, 0},
		{"cut after it was sent", fault{Done: true}, unknown, 0},
		{"500 after it was sent", fault{Status: 500, Done: true}, unknown, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			b, f, _ := peopled(t, Options{})
			c.fault.Method = "sendMessage"
			f.Fail(c.fault)
			_, err := b.Send(t.Context(), toAda, chat.Outgoing{Text: "Hi"})
			check(t, err, c.want, c.after)
			if sent := len(f.Shown(7)); (sent == 1) != c.fault.Done {
				t.Errorf("%d messages were sent", sent)
			}
		})
	}
}

// check looks at what an error says. trouble 0 = nobody knows what was done.
func check(t *testing.T, err error, trouble chat.Trouble, after time.Duration) {
	t.Helper()
	var f *chat.Failure
	switch is := errors.As(err, &f); {
	case err == nil:
		t.Error("there is no error")
	case is != (trouble != 0):
		t.Errorf("the error is %T %v", err, err)
	case is && (f.Trouble != trouble || f.After != after || f.Text == ""):
		t.Errorf("the failure is %+v, want %v after %v", f, trouble, after)
	}
	if err != nil && strings.Contains(err.Error(), "AAtest") {
		t.Errorf("the error holds the token: %v", err)
	}
}

// Whom nobody has reached has been told nothing; who does not answer may have been.
func TestUnreached(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := "http://" + l.Addr().String()
	l.Close()
	silent := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body) // only then the server sees that the client has gone
		<-r.Context().Done()
	}))
	defer silent.Close()
	for _, c := range []struct {
		name, url string
		want      chat.Trouble
	}{
		{"refused", nobody, chat.Later},
		{"no such host", "http://host.invalid", chat.Later},
		{"no TLS there", strings.Replace(silent.URL, "http:", "https:", 1), chat.Later},
		{"silent", silent.URL, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			_, err := bot(t, Options{APIURL: c.url}).Send(ctx, toAda, chat.Outgoing{Text: "Hi"})
			check(t, err, c.want, 0)
		})
	}
}

// An answer that is never read to its end is as good as none.
func TestEndlessAnswer(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for range 20 {
			if _, err := w.Write(bytes.Repeat([]byte(" "), 1<<20)); err != nil {
				return
			}
		}
	}))
	defer server.Close()
	_, err := bot(t, Options{APIURL: server.URL}).Send(t.Context(), toAda, chat.Outgoing{Text: "Hi"})
	check(t, err, 0, 0)
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("the error is %v", err)
	}
}

// A group that has become a supergroup gets its answer there, and the log says which id to add.
func TestMigration(t *testing.T) {
	var log bytes.Buffer
	b, f := at(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	f.Group(-5, "Cooks", false)
	f.Migrate(-5, -1005)
	for range 2 {
		if _, err := b.Send(t.Context(), chat.Address(`{"chat":-5}`), chat.Outgoing{Text: "Done", ReplyTo: "3"}); err != nil {
			t.Fatal(err)
		}
	}
	if got := f.Texts(-1005); len(got) != 2 {
		t.Errorf("the supergroup was told %q", got)
	}
	if n := len(f.Requests("sendMessage")); n != 3 {
		t.Errorf("%d messages were sent; the second one should go to the new id at once", n)
	}
	if !strings.Contains(log.String(), "new_id=-1005") {
		t.Errorf("the log says %s", &log)
	}
	f.Migrate(-1005, -2005) // it cannot happen twice; whoever says so is not followed for ever
	_, err := b.Send(t.Context(), chat.Address(`{"chat":-1005}`), chat.Outgoing{Text: "Done"})
	if err != nil {
		t.Fatal(err)
	}
	f.Fail(telegramtest.Fault{Method: "sendMessage", Status: 400, Description: "Bad Request: group chat was upgraded to a supergroup chat", Migrate: -9, Times: 2})
	_, err = b.Send(t.Context(), chat.Address(`{"chat":-5}`), chat.Outgoing{Text: "Done"})
	check(t, err, chat.Unreachable, 0)
}

// What is wrong with a request that Telegram never sees.
func TestUnfit(t *testing.T) {
	b, f, _ := peopled(t, Options{})
	for _, c := range []struct {
		name string
		to   chat.Address
		m    chat.Outgoing
		want chat.Trouble
	}{
		{"no address", nil, chat.Outgoing{Text: "Hi"}, chat.Unreachable},
		{"another platform's address", chat.Address(`{"channel":"C1"}`), chat.Outgoing{Text: "Hi"}, chat.Unreachable},
		{"long token", toAda, chat.Outgoing{Text: "Hi", Choices: []chat.Choice{{Label: "a", Token: strings.Repeat("x", 65)}}}, chat.Unfit},
		{"long token of a topic", toTopic, chat.Outgoing{Text: "Hi", Choices: []chat.Choice{{Label: "a", Token: strings.Repeat("x", 64)}}}, chat.Unfit},
	} {
		_, err := b.Send(t.Context(), c.to, c.m)
		check(t, err, c.want, 0)
	}
	if sent := f.Requests(""); len(sent) != 0 {
		t.Errorf("Telegram was asked %v", sent)
	}
	if _, err := b.Send(t.Context(), toAda, chat.Outgoing{Text: "Hi", Choices: []chat.Choice{{Label: "a", Token: strings.Repeat("x", 64)}}}); err != nil {
		t.Errorf("64 bytes are allowed: %v", err)
	}
}

// The token stands in each URL, and in no error and no line of the log.
func TestTokenStaysSecret(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	const secret = "hook-secret-1"
	var errs []error
	use := func(b *Bot) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		_, err := b.Send(ctx, toAda, chat.Outgoing{Text: "Hi"})
		errs = append(errs, err, b.Close(ctx, toAda, "1", "?", "x"), b.Typing(ctx, toAda), b.React(ctx, toAda, "1", chat.Accepted), b.Run(ctx, &desk{}))
		for _, f := range b.Check(ctx) {
			errs = append(errs, errors.New(f.Text))
		}
		(&press{b: b, id: "1"}).finish(ctx)
	}
	make := func(url string) *Bot {
		return bot(t, Options{APIURL: url, Logger: logger, Receive: ReceiveWebhook, WebhookURL: "https://x.example/" + secret, WebhookSecret: secret})
	}
	use(make("http://127.0.0.1:1"))
	// Servers that give everything back that they are told.
	for _, status := range []int{400, 403, 429, 500} {
		echo := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"ok":false,"error_code":%d,"description":"Bad Request: %s %s"}`, status, r.URL.Path, secret)
		}))
		use(make(echo.URL))
		echo.Close()
	}
	cut := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }))
	defer cut.Close()
	use(make(cut.URL))
	use(make("http://127.0.0.1:99999")) // a port that there is not
	_, key, _ := strings.Cut(telegramtest.Token, ":")
	failed := 0
	for _, err := range errs {
		if err == nil {
			continue
		}
		failed++
		for e := err; e != nil; e = errors.Unwrap(e) {
			if strings.Contains(e.Error(), key) || strings.Contains(e.Error(), secret) {
				t.Errorf("a secret is in %v", e)
			}
		}
	}
	if failed < 30 {
		t.Errorf("only %d errors", failed)
	}
	if strings.Contains(log.String(), key) || strings.Contains(log.String(), secret) {
		t.Errorf("a secret is in the log: %s", &log)
	}
}

// A bot keeps to the platform's rates: bursts at once, then a pause for each; and what would wait
// for long is given back with the time.
func TestRates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRates()
		began := time.Now()
		took := func(id int64) time.Duration {
			if err := r.turn(t.Context(), id); err != nil {
				t.Fatal(err)
			}
			return time.Since(began)
		}
		for i, want := range []time.Duration{0, 0, 0, 1, 2, 3} {
			if got := took(7); got != want*time.Second {
				t.Errorf("message %d went after %v, want %d s", i, got, want)
			}
		}
		began = time.Now()
		for i, want := range []time.Duration{0, 0, 0, 0, 0, 4, 8} {
			if got := took(-7); got != want*time.Second {
				t.Errorf("message %d to the group went after %v, want %d s", i, got, want)
			}
		}
		began = time.Now()
		for i := range allPerSecond * 3 {
			took(int64(1000 + i))
		}
		if all := time.Since(began); all < 1900*time.Millisecond || all > 2100*time.Millisecond {
			t.Errorf("%d messages to as many people took %v, want 2 s", allPerSecond*3, all)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for range groupBurst {
			if err := r.turn(ctx, -8); err != nil {
				t.Fatal(err)
			}
		}
		done := make(chan error, 2)
		go func() { done <- r.turn(ctx, -8) }()
		synctest.Wait()
		var f *chat.Failure
		if err := r.turn(ctx, -8); !errors.As(err, &f) || f.Trouble != chat.Later || f.After <= longestTurn || f.After > 2*groupEvery {
			t.Errorf("the second one that waits: %v, %+v", err, f)
		}
		cancel()
		if err := <-done; !errors.As(err, &f) || f.Trouble != chat.Later {
			t.Errorf("the end: %v", err)
		}
	})
}

// Chats that have been quiet are forgotten, others are not.
func TestRatesForget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRates()
		for i := range keptRates - 1 {
			r.of(int64(i + 1)).Allow()
		}
		<-time.After(time.Minute)
		r.of(5000).AllowN(time.Now(), chatBurst)
		r.of(5001)
		if n := len(r.each); n != 2 {
			t.Errorf("%d chats are kept, want 2", n)
		}
		if r.of(5000).Allow() {
			t.Error("the rate of a busy chat was forgotten")
		}
	})
}

// Nobody is followed elsewhere: the token would go along.
func TestRedirectsAreNotFollowed(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("elsewhere was asked for %s", r.URL.Path)
	}))
	defer elsewhere.Close()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, elsewhere.URL+r.URL.Path, http.StatusTemporaryRedirect)
	}))
	defer server.Close()
	_, err := bot(t, Options{APIURL: server.URL}).Send(t.Context(), toAda, chat.Outgoing{Text: "Hi"})
	check(t, err, chat.Later, 0)
}
