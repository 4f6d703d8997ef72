package discord

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/gateway/chat"
	"parley/gateway/discord/discordtest"
)

// A message goes out as it is, pings nobody but whom it names, and carries what it should.
func TestSend(t *testing.T) {
	w := alone(t)
	asked := w.fake.Say(dm, ann, "A question")
	var choices []chat.Choice
	for i := range 25 {
		choices = append(choices, chat.Choice{Label: strings.Repeat("x", 79) + fmt.Sprint(i%10), Token: fmt.Sprintf("q1.%d", i)})
	}
	choices[3].Label = "  "
	text := "Hi <@5000>, **bold** `<@5001>` \\<@5001> @everyone"
	posted, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: text, ReplyTo: chat.MessageName(asked), Nonce: strings.Repeat("N", 25), Choices: choices})
	if err != nil {
		t.Fatal(err)
	}
	m := w.fake.Message(string(posted.Name))
	if m.Content != text || m.ReplyTo != asked || m.Nonce != strings.Repeat("N", 25) || m.Flags != 1<<2 {
		t.Errorf("the message is %+v", m)
	}
	if m.PingsAll || !slices.Equal(m.Pings, []string{ann}) {
		t.Errorf("it pings %v, all: %v", m.Pings, m.PingsAll)
	}
	if len(m.Buttons) != 25 || m.Buttons[24].CustomID != "q1.24" || m.Buttons[3].Label != "–" {
		t.Errorf("the buttons are %+v", m.Buttons)
	}
	// What answers a command replies to nothing, and neither does what answers a message that is gone.
	w.fake.Delete(asked)
	for _, name := range []string{"cmd:77", asked} {
		if _, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "Yes", ReplyTo: chat.MessageName(name)}); err != nil {
			t.Error(err)
		}
	}
	if sent := w.fake.Sent(dm); sent[1].ReplyTo != "" || sent[2].ReplyTo != "" {
		t.Errorf("sent %+v", sent[1:])
	}
}

// Without the right to read the history no reply may be sent, but the answer may.
func TestSendWithoutReply(t *testing.T) {
	w := alone(t)
	asked := w.fake.Say(general, ann, "A question")
	w.fake.Fail(discordtest.Failing{Method: "POST", Path: "channels/", Status: 400, Code: 160002, Message: "Cannot reply without permission to read message history"})
	if _, err := w.bot.Send(t.Context(), to(general), chat.Outgoing{Text: "An answer", ReplyTo: chat.MessageName(asked)}); err != nil {
		t.Fatal(err)
	}
	if sent := w.fake.Sent(general); len(sent) != 1 || sent[0].ReplyTo != "" {
		t.Errorf("sent %+v", sent)
	}
}

// The same piece is posted once however often it is sent, and even when it does not come to an answer.
func TestSendOnce(t *testing.T) {
	w := alone(t)
	o := chat.Outgoing{Text: "An answer", Nonce: "N1"}
	w.fake.Fail(discordtest.Failing{Method: "POST", Path: "channels/", Cut: discordtest.After})
	if _, err := w.bot.Send(t.Context(), to(dm), o); err == nil || failure(err) != 0 {
		t.Fatalf("the outcome is not known, but the error is %v", err)
	}
	first, err := w.bot.Send(t.Context(), to(dm), o)
	if err != nil {
		t.Fatal(err)
	}
	second, err := w.bot.Send(t.Context(), to(dm), o)
	if err != nil || first != second {
		t.Errorf("%v, %v: %v", first, second, err)
	}
	if sent := w.fake.Sent(dm); len(sent) != 1 {
		t.Errorf("sent %d times", len(sent))
	}
}

// What an error means for a message: certainly not sent, or nobody knows.
func TestSendFailures(t *testing.T) {
	for _, c := range []struct {
		name  string
		fault discordtest.Failing
		want  chat.Trouble // 0 = the outcome is unknown
		after time.Duration
	}{
		{"too many", discordtest.Failing{Status: 429, RetryAfter: 3500 * time.Millisecond}, chat.Later, 4 * time.Second},
		{"too many, from a proxy", discordtest.Failing{Status: 429, RetryAfter: 7 * time.Second, Body: "<html>slow down</html>"}, chat.Later, 7 * time.Second},
		{"missing access", discordtest.Failing{Status: 403, Code: 50001, Message: "Missing Access"}, chat.Unreachable, 0},
		{"missing permissions", discordtest.Failing{Status: 403, Code: 50013, Message: "Missing Permissions"}, chat.Unreachable, 0},
		{"blocked", discordtest.Failing{Status: 403, Code: 50007, Message: "Cannot send messages to this user"}, chat.Unreachable, 0},
		{"no channel", discordtest.Failing{Status: 404, Code: 10003, Message: "Unknown Channel"}, chat.Unreachable, 0},
		{"archived thread", discordtest.Failing{Status: 400, Code: 50083, Message: "Thread is archived"}, chat.Unreachable, 0},
		{"bad form", discordtest.Failing{Status: 400, Code: 50035, Message: "Invalid Form Body"}, chat.Unfit, 0},
		{"too large", discordtest.Failing{Status: 413, Body: "too large"}, chat.Unfit, 0},
		{"bad token", discordtest.Failing{Status: 401, Message: "401: Unauthorized"}, chat.Credentials, 0},
		{"server error", discordtest.Failing{Status: 500, Message: "500: Internal Server Error"}, 0, 0},
		{"bad gateway", discordtest.Failing{Status: 502, Body: "<html>"}, 0, 0},
		{"moved", discordtest.Failing{Status: 302, Body: "elsewhere"}, 0, 0},
		{"cut before it was done", discordtest.Failing{Cut: discordtest.Before}, 0, 0},
		{"cut after it was done", discordtest.Failing{Cut: discordtest.After}, 0, 0},
		{"not an answer", discordtest.Failing{Status: 200, Body: "[]"}, 0, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := alone(t)
			c.fault.Method, c.fault.Path = "POST", "channels/"
			w.fake.Fail(c.fault)
			_, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "Hi", Nonce: "N1"})
			if err == nil || failure(err) != c.want {
				t.Fatalf("got %v, want trouble %d", err, c.want)
			}
			var f *chat.Failure
			if errors.As(err, &f) && f.After != c.after {
				t.Errorf("to be tried again after %v, not %v", f.After, c.after)
			}
			if n := len(w.fake.Requests("POST", "channels/")); n != 1 {
				t.Errorf("it was requested %d times", n)
			}
			if c.fault.Status == 502 && strings.Contains(err.Error(), "<html>") {
				t.Errorf("the error says %q", err)
			}
		})
	}
	t.Run("nobody is there", func(t *testing.T) {
		w := alone(t)
		w.fake.Close()
		_, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "Hi"})
		if failure(err) != chat.Later {
			t.Errorf("got %v", err)
		}
	})
	t.Run("an address of another platform", func(t *testing.T) {
		w := alone(t)
		for _, a := range []string{`{"channel":"../users/@me"}`, `{"chat":1}`, `[`} {
			if _, err := w.bot.Send(t.Context(), chat.Address(a), chat.Outgoing{Text: "Hi"}); failure(err) != chat.Unreachable {
				t.Errorf("%s: %v", a, err)
			}
		}
		if n := len(w.fake.Requests("", "")); n != 0 {
			t.Errorf("%d requests were made", n)
		}
	})
	t.Run("whoever asks gives up", func(t *testing.T) {
		w := alone(t)
		w.fake.Fail(discordtest.Failing{Method: "POST", Hold: make(chan struct{}), Times: 1})
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			for len(w.fake.Requests("", "")) == 0 && ctx.Err() == nil {
				cancel()
			}
		}()
		if _, err := w.bot.Send(ctx, to(dm), chat.Outgoing{Text: "Hi"}); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// Limits are kept before Discord has to say so, for their route or for all.
func TestLimits(t *testing.T) {
	w := alone(t)
	w.fake.Fail(discordtest.Failing{Method: "POST", Path: "channels/" + dm, Spent: time.Minute})
	if _, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "the last one"}); err != nil {
		t.Fatal(err)
	}
	_, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "one too many"})
	var f *chat.Failure
	if !errors.As(err, &f) || f.Trouble != chat.Later || f.After <= 50*time.Second || f.After > time.Minute {
		t.Fatalf("got %v", err)
	}
	if _, err := w.bot.Send(t.Context(), to(general), chat.Outgoing{Text: "elsewhere"}); err != nil {
		t.Errorf("another channel: %v", err)
	}
	w.fake.Fail(discordtest.Failing{Method: "POST", Path: "channels/" + general, Status: 429, RetryAfter: time.Minute, Global: true})
	_, _ = w.bot.Send(t.Context(), to(general), chat.Outgoing{Text: "too many at all"})
	if err := w.bot.Typing(t.Context(), to(dm)); failure(err) != chat.Later {
		t.Errorf("another route: %v", err)
	}
	if n := len(w.fake.Requests("POST", "")); n != 3 {
		t.Errorf("%d requests came", n)
	}
	if got := seconds(1e12); got != longestRest {
		t.Errorf("a wish of 30,000 years is %v", got)
	}
}

func TestManyLimits(t *testing.T) {
	var l limits
	for i := range 3 * maxRoutes {
		l.hold(fmt.Sprint(i), time.Hour, false)
	}
	if len(l.routes) > maxRoutes {
		t.Errorf("%d routes are remembered", len(l.routes))
	}
	if l.rest(fmt.Sprint(3*maxRoutes-1)) == 0 {
		t.Error("the newest is forgotten")
	}
}

// What became of a message is found in the history, by its nonce or else its text.
func TestFind(t *testing.T) {
	for _, nonces := range []bool{true, false} {
		t.Run(fmt.Sprintf("nonces shown %v", nonces), func(t *testing.T) {
			w := alone(t)
			if nonces {
				w.fake.ShowNonces()
			}
			old, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "Yes", Nonce: "N0"})
			if err != nil {
				t.Fatal(err)
			}
			w.fake.Say(dm, ann, "Yes")
			since := time.Now()
			o := chat.Outgoing{Text: " Yes\n", Nonce: "N1"}
			if p, found, known, err := w.bot.Find(t.Context(), to(dm), o, since); err != nil || found || !known {
				t.Errorf("before it was sent: %v %v %v %v (the older one is %v)", p, found, known, err, old)
			}
			w.fake.Fail(discordtest.Failing{Method: "POST", Path: "channels/", Cut: discordtest.After})
			if _, err := w.bot.Send(t.Context(), to(dm), o); err == nil {
				t.Fatal("it was not cut")
			}
			for i := range 230 { // it is some pages back
				w.fake.Say(dm, ann, fmt.Sprint(i))
			}
			p, found, known, err := w.bot.Find(t.Context(), to(dm), o, since)
			if err != nil || !found || !known {
				t.Fatalf("after: %v %v %v", found, known, err)
			}
			if m := w.fake.Message(string(p.Name)); m.Nonce != "N1" {
				t.Errorf("found %+v", m)
			}
		})
	}
}

// A process that has just started knows its messages of before from those of now by their time.
func TestFindAfterARestart(t *testing.T) {
	w := alone(t)
	w.fake.SaidBefore(dm, discordtest.Bot, "Yes", time.Minute)
	if _, found, known, err := w.bot.Find(t.Context(), to(dm), chat.Outgoing{Text: "Yes", Nonce: "N1"}, time.Now()); err != nil || found || !known {
		t.Errorf("%v %v %v", found, known, err)
	}
}

func TestFindWithoutRights(t *testing.T) {
	o := chat.Outgoing{Text: "Yes", Nonce: "N1"}
	w := alone(t)
	w.fake.Say(dm, ann, "Yes?")
	w.fake.HideHistory()
	if _, found, known, err := w.bot.Find(t.Context(), to(dm), o, time.Now()); err != nil || found || known {
		t.Errorf("a history that is hidden: %v %v %v", found, known, err)
	}
	w.fake.Fail(discordtest.Failing{Method: "GET", Path: "channels/", Status: 403, Code: 50001})
	if _, found, known, err := w.bot.Find(t.Context(), to(dm), o, time.Now()); err != nil || found || known {
		t.Errorf("a history that is refused: %v %v %v", found, known, err)
	}
	w.fake.Fail(discordtest.Failing{Method: "GET", Path: "channels/", Status: 500, Times: questions - 1})
	if _, _, known, err := w.bot.Find(t.Context(), to(dm), o, time.Now()); err != nil || known {
		t.Errorf("after some errors of the server: %v %v", known, err)
	}
	w.fake.Fail(discordtest.Failing{Method: "GET", Path: "channels/", Status: 500, Times: questions})
	if _, _, _, err := w.bot.Find(t.Context(), to(dm), o, time.Now()); err == nil {
		t.Error("a server's error is no answer")
	}
}

// An edit takes the buttons off and says what was chosen, as far as there is place.
func TestClose(t *testing.T) {
	for _, c := range []struct{ name, text, chosen, want string }{
		{"chosen", "For how many?", "4", "For how many?\n→ 4"},
		{"nothing was", "For how many?", "", "For how many?"},
		{"lines become one", "Which?", "a\nb", "Which?\n→ a b"},
		{"cut", strings.Repeat("x", 1990), "a very long choice", strings.Repeat("x", 1990) + "\n→ a very…"},
		{"no place", strings.Repeat("x", 2000), "a", strings.Repeat("x", 2000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := alone(t)
			p, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: c.text, Choices: []chat.Choice{{Label: "4", Token: "q1.0"}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := w.bot.Close(t.Context(), to(dm), p.Name, c.text, c.chosen); err != nil {
				t.Fatal(err)
			}
			if m := w.fake.Message(string(p.Name)); m.Content != c.want || len(m.Buttons) != 0 {
				t.Errorf("it is %+v", m)
			}
		})
	}
	w := alone(t)
	if err := w.bot.Close(t.Context(), to(dm), "123", "x", ""); failure(err) != chat.Unfit {
		t.Errorf("a message that is gone: %v", err)
	}
}

func TestReact(t *testing.T) {
	w := alone(t)
	id := w.fake.Say(dm, ann, "Hello")
	for _, c := range []struct {
		r    chat.Reaction
		want []string
	}{
		{chat.Accepted, []string{"👀"}}, {chat.Accepted, []string{"👀"}}, {chat.Answered, []string{"✅"}}, {chat.NoReaction, nil}, {chat.Answered, []string{"✅"}},
	} {
		if err := w.bot.React(t.Context(), to(dm), chat.MessageName(id), c.r); err != nil {
			t.Fatal(err)
		}
		if m := w.fake.Message(id); !slices.Equal(m.Reactions, c.want) && len(m.Reactions)+len(c.want) > 0 {
			t.Errorf("after %d: %v", c.r, m.Reactions)
		}
	}
	before := len(w.fake.Requests("", ""))
	if err := w.bot.React(t.Context(), to(dm), "cmd:12", chat.Accepted); err != nil || len(w.fake.Requests("", "")) != before {
		t.Errorf("a command has no message to react to: %v", err)
	}
	// A short limit is waited for: gateway/chat does not try reactions again.
	w.fake.Fail(discordtest.Failing{Method: "PUT", Status: 429, RetryAfter: time.Millisecond})
	if err := w.bot.React(t.Context(), to(dm), chat.MessageName(id), chat.Accepted); err != nil {
		t.Errorf("after a short limit: %v", err)
	}
	w.fake.Fail(discordtest.Failing{Method: "PUT", Status: 429, RetryAfter: time.Minute})
	if err := w.bot.React(t.Context(), to(dm), chat.MessageName(id), chat.Accepted); failure(err) != chat.Later {
		t.Errorf("after a long one: %v", err)
	}
}

func TestTyping(t *testing.T) {
	w := alone(t)
	if err := w.bot.Typing(t.Context(), to(dm)); err != nil || w.fake.Typed(dm) != 1 {
		t.Errorf("%v, shown %d times", err, w.fake.Typed(dm))
	}
}

// What an answer may be long is bounded.
func TestLongAnswers(t *testing.T) {
	w := alone(t)
	w.fake.Fail(discordtest.Failing{Method: "POST", Status: http.StatusOK, Body: `{"id":"` + strings.Repeat("1", maxBody) + `"}`})
	if _, err := w.bot.Send(t.Context(), to(dm), chat.Outgoing{Text: "Hi"}); err == nil || failure(err) != 0 {
		t.Errorf("got %v", err)
	}
}
