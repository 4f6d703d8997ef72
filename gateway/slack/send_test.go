package slack_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/gateway/chat"
	"parley/gateway/slack"
	"parley/gateway/slack/slacktest"
)

var direct = chat.Address(`{"channel":"D001"}`)

// A message goes into its thread, as plain text, and says how it can be found again.
func TestSend(t *testing.T) {
	w := slacktest.New()
	defer w.Close()
	b := newBot(t, w, nil)
	root := w.Say(slacktest.Channel, "", slacktest.Anna, "hello")
	text := b.Traits().Encode("Tom & @Ben <!here> *x*", []chat.Person{{ID: slacktest.Ben, Name: "Ben"}})
	posted, err := b.Send(t.Context(), chat.Address(`{"channel":"C001","thread":"`+root+`"}`), chat.Outgoing{Text: text, Nonce: "N1", ReplyTo: "cmd:1"})
	if err != nil {
		t.Fatal(err)
	}
	got := w.Written(slacktest.Channel, slacktest.Bot)[0]
	want := map[string]string{
		"channel": "C001", "thread_ts": root, "text": "Tom &amp; <@UBEN0> &lt;!here&gt; *x*", "mrkdwn": "false", "parse": "none",
		"unfurl_links": "false", "unfurl_media": "false", "metadata": `{"event_type":"parley_part","event_payload":{"nonce":"N1"}}`,
	}
	if string(posted.Name) != got.TS || fmt.Sprint(got.Form) != fmt.Sprint(want) {
		t.Errorf("%s was posted as\n%v, want\n%v", posted.Name, got.Form, want)
	}
}

// What becomes of a message that fails is known where it can be known, and only there.
func TestSendFails(t *testing.T) {
	type want struct {
		trouble chat.Trouble // 0 = the outcome is unknown
		after   time.Duration
		posted  int
	}
	for _, test := range []struct {
		name  string
		fault slacktest.Mishap
		to    string
		text  string
		want  want
	}{
		{"rate", slacktest.Mishap{Status: 429, RetryAfter: 3}, "", "a", want{chat.Later, 3 * time.Second, 0}},
		{"rate without a time", slacktest.Mishap{Status: 429}, "", "a", want{chat.Later, 0, 0}},
		{"ratelimited", slacktest.Mishap{Code: "ratelimited"}, "", "a", want{chat.Later, 0, 0}},
		{"not found", slacktest.Mishap{Status: 404}, "", "a", want{chat.Later, 0, 0}},
		{"moved", slacktest.Mishap{Status: 307}, "", "a", want{chat.Later, 0, 0}},
		{"server error", slacktest.Mishap{Status: 500}, "", "a", want{}},
		{"server error behind the commit", slacktest.Mishap{Status: 502, Done: true}, "", "a", want{posted: 1}},
		{"cut", slacktest.Mishap{Cut: true}, "", "a", want{}},
		{"cut behind the commit", slacktest.Mishap{Cut: true, Done: true}, "", "a", want{posted: 1}},
		{"garbage", slacktest.Mishap{Garbage: true, Done: true}, "", "a", want{posted: 1}},
		{"internal_error", slacktest.Mishap{Code: "internal_error", Done: true}, "", "a", want{posted: 1}},
		{"fatal_error", slacktest.Mishap{Code: "fatal_error"}, "", "a", want{}},
		{"service_unavailable", slacktest.Mishap{Code: "service_unavailable"}, "", "a", want{chat.Later, 0, 0}},
		{"channel_not_found", slacktest.Mishap{}, `{"channel":"X9"}`, "a", want{chat.Unreachable, 0, 0}},
		{"is_archived", slacktest.Mishap{}, `{"channel":"C009"}`, "a", want{chat.Unreachable, 0, 0}},
		{"not_in_channel", slacktest.Mishap{Code: "not_in_channel"}, "", "a", want{chat.Unreachable, 0, 0}},
		{"thread_not_found", slacktest.Mishap{}, `{"channel":"C001","thread":"1.1"}`, "a", want{chat.Unreachable, 0, 0}},
		{"restricted_action", slacktest.Mishap{Code: "restricted_action"}, "", "a", want{chat.Unreachable, 0, 0}},
		{"msg_too_long", slacktest.Mishap{Code: "msg_too_long"}, "", "a", want{chat.Unfit, 0, 0}},
		{"no_text", slacktest.Mishap{}, "", "", want{chat.Unfit, 0, 0}},
		{"something new", slacktest.Mishap{Code: "weather_too_bad"}, "", "a", want{chat.Unfit, 0, 0}},
		{"no address", slacktest.Mishap{}, `{}`, "a", want{chat.Unfit, 0, 0}},
		{"another's address", slacktest.Mishap{}, `[1]`, "a", want{chat.Unfit, 0, 0}},
		{"invalid_auth", slacktest.Mishap{Code: "invalid_auth"}, "", "a", want{chat.Credentials, 0, 0}},
		{"token_revoked", slacktest.Mishap{Code: "token_revoked"}, "", "a", want{chat.Credentials, 0, 0}},
		{"account_inactive", slacktest.Mishap{Code: "account_inactive"}, "", "a", want{chat.Credentials, 0, 0}},
		{"missing_scope", slacktest.Mishap{Code: "missing_scope", Needed: "chat:write.public"}, "", "a", want{chat.Credentials, 0, 0}},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := slacktest.New()
			defer w.Close()
			w.Shut("C009", "is_archived")
			if test.fault != (slacktest.Mishap{}) {
				w.Fail("chat.postMessage", test.fault)
			}
			to := direct
			if test.to != "" {
				to = chat.Address(test.to)
			}
			_, err := newBot(t, w, nil).Send(t.Context(), to, chat.Outgoing{Text: test.text, Nonce: "N"})
			var f *chat.Failure
			got := want{posted: len(w.Written(slacktest.Direct, slacktest.Bot))}
			if errors.As(err, &f) {
				got.trouble, got.after = f.Trouble, f.After
			}
			if err == nil || got != test.want {
				t.Errorf("%v: %+v, want %+v", err, got, test.want)
			}
			if test.fault.Needed != "" && !strings.Contains(err.Error(), test.fault.Needed) {
				t.Errorf("%v does not name the scope", err)
			}
		})
	}
}

// Where there is no connection nothing was sent; where an answer does not come, perhaps.
func TestSendWithoutSlack(t *testing.T) {
	w := slacktest.New()
	defer w.Close()
	var f *chat.Failure
	for _, url := range []string{"http://127.0.0.1:1/api/", "http://no-such-host.invalid/api/", strings.Replace(w.APIURL(), "http:", "https:", 1)} {
		_, err := newBot(t, w, func(o *slack.Options) { o.APIURL = url }).Send(t.Context(), direct, chat.Outgoing{Text: "a"})
		if !errors.As(err, &f) || f.Trouble != chat.Later {
			t.Errorf("%s: %v", url, err)
		}
	}
	w.Fail("chat.postMessage", slacktest.Mishap{Wait: make(chan struct{})})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := newBot(t, w, nil).Send(ctx, direct, chat.Outgoing{Text: "a"})
		ended <- err
	}()
	await(t, w, "the request", func() bool { return w.Requests("chat.postMessage") == 1 })
	cancel()
	if err := <-ended; err == nil || errors.As(err, &f) && f.Trouble != 0 && errors.Is(err, f) {
		t.Errorf("without an answer: %v", err)
	}
}

// A question has its choices as buttons, is closed with what was chosen, and is asked in words
// where Slack does not want the buttons.
func TestQuestion(t *testing.T) {
	w := slacktest.New()
	defer w.Close()
	b := newBot(t, w, nil)
	traits := b.Traits()
	m := chat.Outgoing{Text: "Which &amp; for <@UBEN0>?", Nonce: "N"}
	for i := range traits.Buttons {
		m.Choices = append(m.Choices, chat.Choice{Label: strings.Repeat("é", traits.Label-2) + fmt.Sprint(i)[:1], Token: strings.Repeat("t", 60) + fmt.Sprint(i)})
	}
	m.Choices[3].Label = "B"
	posted, err := b.Send(t.Context(), direct, m)
	if err != nil {
		t.Fatal(err)
	}
	q := w.Written(slacktest.Direct, slacktest.Bot)[0]
	rich, _ := json.Marshal(q.Blocks[0])
	if len(q.Blocks) != 2 || q.Text != m.Text || !strings.Contains(string(rich), `{"user_id":"UBEN0"`) && !strings.Contains(string(rich), `"user_id":"UBEN0"`) {
		t.Errorf("the question is %s %s", q.Text, rich)
	}
	if err := b.Close(t.Context(), direct, posted.Name, m.Text, "B &lt;1&gt;"); err != nil {
		t.Fatal(err)
	}
	q = w.Written(slacktest.Direct, slacktest.Bot)[0]
	blocks, _ := json.Marshal(q.Blocks)
	if q.Text != m.Text+"\n→ B &lt;1&gt;" || strings.Contains(string(blocks), "actions") || !strings.Contains(string(blocks), `→ B \u003c1\u003e`) {
		t.Errorf("closed it is %s %s", q.Text, blocks)
	}
	if w.Press(slacktest.Direct, string(posted.Name), slacktest.Anna, "B") {
		t.Error("it still has buttons")
	}
	if err := b.Close(t.Context(), direct, posted.Name, m.Text, ""); err != nil {
		t.Fatal(err)
	}
	if q = w.Written(slacktest.Direct, slacktest.Bot)[0]; q.Text != m.Text {
		t.Errorf("closed without an answer it is %s", q.Text)
	}
	w.Fail("chat.postMessage", slacktest.Mishap{Code: "invalid_blocks"})
	m.Choices = []chat.Choice{{Label: "<A>", Token: "t"}, {Label: "B", Token: "u"}}
	if _, err := b.Send(t.Context(), direct, m); err != nil {
		t.Fatal(err)
	}
	if q = w.Written(slacktest.Direct, slacktest.Bot)[1]; q.Blocks != nil || q.Text != m.Text+"\n1. &lt;A&gt;\n2. B" {
		t.Errorf("in words it is %s %v", q.Text, q.Blocks)
	}
	var f *chat.Failure
	if err := b.Close(t.Context(), direct, "9.9", "a", "b"); !errors.As(err, &f) || f.Trouble != chat.Unfit {
		t.Errorf("a question that is gone: %v", err)
	}
}

func TestReact(t *testing.T) {
	w := slacktest.New()
	defer w.Close()
	b := newBot(t, w, nil)
	ts := w.Say(slacktest.Direct, "", slacktest.Anna, "hello")
	for i, step := range []struct {
		what chat.Reaction
		want []string
	}{
		{chat.Accepted, []string{"eyes"}},
		{chat.Accepted, []string{"eyes"}},
		{chat.Answered, []string{"white_check_mark"}},
		{chat.Answered, []string{"white_check_mark"}},
		{chat.NoReaction, nil},
		{chat.NoReaction, nil},
	} {
		if err := b.React(t.Context(), direct, chat.MessageName(ts), step.what); err != nil {
			t.Errorf("step %d: %v", i, err)
		}
		if got := w.Written(slacktest.Direct, "")[0].Reactions; !slices.Equal(got, step.want) {
			t.Errorf("after step %d there are %v, want %v", i, got, step.want)
		}
	}
	requests := w.Requests("reactions.add")
	for _, name := range []chat.MessageName{"cmd:trigger.1", "press:1.1", ""} { // they are no messages
		if err := b.React(t.Context(), direct, name, chat.Accepted); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	if w.Requests("reactions.add") != requests {
		t.Error("Slack was asked for a reaction to a command")
	}
	if err := b.React(t.Context(), direct, "1.1", chat.Accepted); err == nil {
		t.Error("a message that is gone has a reaction")
	}
}

// A message that was perhaps sent is found by its nonce, else by its text.
func TestFind(t *testing.T) {
	w, b := open(t, slack.Socket, newDesk())
	root := w.Say(slacktest.Channel, "", slacktest.Anna, "root")
	thread := chat.Address(`{"channel":"C001","thread":"` + root + `"}`)
	began := time.Now()
	for _, to := range []chat.Address{direct, thread} {
		w.Fail("chat.postMessage", slacktest.Mishap{Cut: true, Done: true})
		if _, err := b.Send(t.Context(), to, chat.Outgoing{Text: "Done.", Nonce: "N1"}); err == nil {
			t.Fatal("it was not cut")
		}
		if _, err := b.Send(t.Context(), to, chat.Outgoing{Text: "see &lt;http://a.example&gt;"}); err != nil {
			t.Fatal(err)
		}
	}
	w.Say(slacktest.Direct, "", slacktest.Anna, "I say it")
	for _, test := range []struct {
		name         string
		to           chat.Address
		m            chat.Outgoing
		since        time.Time
		found, known bool
	}{
		{"by nonce", direct, chat.Outgoing{Text: "Done.", Nonce: "N1"}, began, true, true},
		{"by nonce, in a thread", thread, chat.Outgoing{Text: "Done.", Nonce: "N1"}, began, true, true},
		{"our clock is ahead", direct, chat.Outgoing{Text: "Done.", Nonce: "N1"}, began.Add(9 * time.Minute), true, true},
		{"the same text, another nonce", direct, chat.Outgoing{Text: "Done.", Nonce: "N2"}, began, false, true},
		{"by text", direct, chat.Outgoing{Text: "see &lt;http://a.example&gt;", Nonce: "N3"}, began, true, true},
		{"by text, of an old one", direct, chat.Outgoing{Text: "see &lt;http://a.example&gt;", Nonce: "N3"}, began.Add(2 * time.Minute), false, true},
		{"somebody else's text", direct, chat.Outgoing{Text: "I say it", Nonce: "N3"}, began, false, true},
		{"not there", thread, chat.Outgoing{Text: "other", Nonce: "N3"}, began, false, true},
	} {
		_, found, known, err := b.Find(t.Context(), test.to, test.m, test.since)
		if err != nil || found != test.found || known != test.known {
			t.Errorf("%s: found %v, known %v, %v", test.name, found, known, err)
		}
	}
	p, _, _, _ := b.Find(t.Context(), direct, chat.Outgoing{Nonce: "N1"}, began)
	if want := w.Written(slacktest.Direct, slacktest.Bot)[0].TS; string(p.Name) != want {
		t.Errorf("it is named %s, want %s", p.Name, want)
	}
	for code, known := range map[string]bool{"missing_scope": true, "not_in_channel": true, "channel_not_found": true, "ratelimited": false, "fatal_error": false} {
		w.Fail("conversations.history", slacktest.Mishap{Code: code})
		if _, found, is, err := b.Find(t.Context(), direct, chat.Outgoing{Nonce: "N1"}, began); found || is || (err == nil) != known {
			t.Errorf("%s: found %v, known %v, %v", code, found, is, err)
		}
	}
}

// A history that is longer than Find reads does not say that a message is missing.
func TestFindInALongHistory(t *testing.T) {
	w, b := open(t, slack.Events, newDesk())
	began := time.Now()
	if _, err := b.Send(t.Context(), direct, chat.Outgoing{Text: "a", Nonce: "N1"}); err != nil {
		t.Fatal(err)
	}
	for i, want := range []bool{true, true, false} { // one page, then nearly five, then more
		_, found, known, err := b.Find(t.Context(), direct, chat.Outgoing{Nonce: "N1"}, began)
		if err != nil || found != want || known != want {
			t.Errorf("step %d: found %v, known %v, %v", i, found, known, err)
		}
		for range 999 / 2 * (i + 1) {
			w.Chatter(slacktest.Direct)
		}
	}
}

// In one channel, messages keep the pace that Slack allows.
func TestSendKeepsThePace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, err := slack.New(slack.Options{Receive: slack.Socket, HTTP: slacktest.Silent()})
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i, want := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second} {
			_, _ = b.Send(t.Context(), direct, chat.Outgoing{Text: "a"}) // there is no server
			if got := time.Since(began); got != want {
				t.Errorf("message %d was sent after %v, want %v", i, got, want)
			}
		}
	})
}

func TestCheck(t *testing.T) {
	both := func(o *slack.Options) {}
	for _, test := range []struct {
		name    string
		change  func(*slack.Options)
		prepare func(*slacktest.Workspace)
		bad     []string // what each bad finding says
		good    int
	}{
		{"all well", both, nil, nil, 3},
		{"by events", func(o *slack.Options) { o.Receive = slack.Events }, nil, nil, 3},
		{"no signing secret", func(o *slack.Options) { o.Receive, o.SigningSecret = slack.Events, "" }, nil, []string{"channels.slack.signing_secret_env"}, 2},
		{"nothing at all", func(o *slack.Options) { o.BotToken, o.AppToken = "", "" }, nil, []string{"channels.slack.token_env", "channels.slack.app_token_env"}, 0},
		{"wrong tokens", func(o *slack.Options) { o.BotToken, o.AppToken = "xoxb-1", "xapp-1" }, nil, []string{"channels.slack.token_env", "channels.slack.app_token_env"}, 0},
		{"tokens in each other's place", func(o *slack.Options) { o.BotToken, o.AppToken = o.AppToken, o.BotToken }, nil, []string{"not_allowed_token_type", "not_allowed_token_type"}, 0},
		{"scopes", both, func(w *slacktest.Workspace) {
			w.Scopes("chat:write,app_mentions:read,channels:history,groups:history,im:history,mpim:history,commands")
		},
			[]string{"reactions:write is missing", "users:read is missing"}, 2},
		{"no private channels", both, func(w *slacktest.Workspace) {
			w.Scopes("chat:write,app_mentions:read,channels:history,im:history,reactions:write,commands,users:read")
		}, nil, 5},
		{"no scopes are told", both, func(w *slacktest.Workspace) { w.Scopes("") }, nil, 3},
		{"no Slack", func(o *slack.Options) { o.APIURL = "http://127.0.0.1:1" }, nil, []string{"no connection", "no connection"}, 0},
		{"Slack is down", both, func(w *slacktest.Workspace) { w.Fail("auth.test", slacktest.Mishap{Status: 503}) }, []string{"asking Slack"}, 1},
	} {
		w := slacktest.New()
		if test.prepare != nil {
			test.prepare(w)
		}
		var bad []string
		good := 0
		for _, f := range newBot(t, w, test.change).Check(t.Context()) {
			if f.OK {
				good++
			} else {
				bad = append(bad, f.Text)
			}
		}
		same := len(bad) == len(test.bad)
		for i := range min(len(bad), len(test.bad)) {
			same = same && strings.Contains(bad[i], test.bad[i])
		}
		if !same || good != test.good {
			t.Errorf("%s: %d good findings, want %d; the bad ones are %q, want %q", test.name, good, test.good, bad, test.bad)
		}
		if n := w.Requests("chat.postMessage"); n > 0 {
			t.Errorf("%s: it wrote to a chat", test.name)
		}
		w.Close()
	}
}

// An answer that only one person sees goes to Slack alone, and not for ever.
func TestReply(t *testing.T) {
	d := newDesk()
	w, _ := open(t, slack.Socket, d)
	w.Command(slacktest.Channel, slacktest.Anna, "help")
	reply := d.wait(t, 1)[0].Reply
	if err := reply(t.Context(), "a & b"); err != nil || len(w.Whispers()) != 1 {
		t.Errorf("%v, %v", w.Whispers(), err)
	}
	for _, f := range []slacktest.Mishap{{Status: 404}, {Cut: true}, {Wait: make(chan struct{})}} {
		w.Fail("commands", f)
		if err := reply(t.Context(), "a"); err == nil || strings.Contains(err.Error(), "/commands/") {
			t.Errorf("%+v: %v", f, err)
		}
	}
	for url, allowed := range map[string]bool{
		"": false, "https://evil.example/x": false, "https://slack.com.evil.example/": false, "http://hooks.slack.com/commands/1": false,
		"https://hooks.slack.com/commands/1": true, "https://hooks.slack-gov.com/commands/1": true, "http://169.254.169.254/": false,
	} {
		b := newBot(t, w, nil)
		if got := b.ReplyTo(url) != nil; got != allowed {
			t.Errorf("%q is allowed: %v", url, got)
		}
	}
}
