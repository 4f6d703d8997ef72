package chat_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/chat"
	"parley/persistence/chatstest"
)

// A message opens a session for its chat; what comes of it is shown there, in order, with its
// state by reactions, and in the feed.
func TestConversation(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "Fix the login bug")
		if p.platform.reacted["1"] != chat.Accepted {
			t.Errorf("the message has the reaction %d", p.platform.reacted["1"])
		}
		message := conversation.MessageID("")
		for _, b := range p.bodies("42") {
			if a, is := b.(conversation.MessageAccepted); is {
				message = a.Message
				if a.Author != "telegram:7" || a.AuthorName != "Ann" || a.Via != conversation.ViaTelegram || a.Text != "Fix the login bug" {
					t.Errorf("accepted %+v", a)
				}
			}
		}
		p.commit(conversation.PartialResponse{Part: part("p1", "Looking.")})
		p.commit(conversation.Response{Part: part("p1", "Looking."), Promoted: true}, conversation.MessageResolved{Message: message, How: conversation.ResolvedAnswered})
		if got := p.platform.texts(); !slices.Equal(got, []string{"Looking."}) {
			t.Errorf("shown %q", got)
		}
		if p.platform.reacted["1"] != chat.Answered {
			t.Errorf("after the answer the message has the reaction %d", p.platform.reacted["1"])
		}
		var topics []string
		for _, h := range p.feed() {
			topics = append(topics, string(h.Topic))
			if h.Project != "acme" || h.Source != "chat:telegram" || h.Details.Chat != "telegram:42" || h.Details.Session != p.session("42").Session || h.Timestamp == "" || h.Severity == "" || h.Summary == "" {
				t.Errorf("the feed says %+v", h)
			}
		}
		if want := []string{"chat.message", "chat.response", "chat.response"}; !slices.Equal(topics, want) {
			t.Errorf("the feed has %q, want %q", topics, want)
		}
	})
}

// A platform delivers again, also to the process after: it is said once (D-01).
func TestDeliveredAgain(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		p.say("1", "one")
		p.stop()
		p.start()
		p.say("1", "one")
		n := 0
		for _, b := range p.bodies("42") {
			if _, is := b.(conversation.MessageAccepted); is {
				n++
			}
		}
		if n != 1 || len(p.feed()) != 1 {
			t.Errorf("accepted %d times, %d entries in the feed", n, len(p.feed()))
		}
	})
}

// Nothing is acknowledged before it is durable: while the store fails the platform waits, and
// then gets its answer.
func TestAcknowledgedWhenDurable(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		fail := errors.New("the disk is away")
		p.sessions.Memory.Chats().(*chatstest.Maps).FailSave(func(n int, _ []chats.Row, _ []chats.Entry) (error, bool) {
			if n <= 3 {
				return fail, n == 2 // the second is written all the same
			}
			return nil, false
		})
		began := time.Now()
		p.say("1", "one")
		if took := time.Since(began); took < 500*time.Millisecond || took > time.Minute {
			t.Errorf("acknowledged after %v", took)
		}
		p.commit(conversation.PartialResponse{Part: part("p1", "Here.")})
		if got := p.platform.texts(); !slices.Equal(got, []string{"Here."}) {
			t.Errorf("shown %q", got)
		}
	})
}

// What becomes of a message that a platform did not take, or perhaps took.
func TestSendOutcomes(t *testing.T) {
	const text = "The answer."
	unknown := errors.New("the connection was cut")
	for name, c := range map[string]struct {
		history bool
		fails   []error // one send after the other; nil = it is posted
		posts   []bool  // the failing ones: is it posted all the same?
		want    []string
		errors  int // chat.error entries
	}{
		"taken":                           {want: []string{text}},
		"later":                           {fails: []error{&chat.Failure{Trouble: chat.Later, After: 3 * time.Second}}, posts: []bool{false}, want: []string{text}},
		"credentials are mended":          {fails: []error{&chat.Failure{Trouble: chat.Credentials}, &chat.Failure{Trouble: chat.Credentials}}, posts: []bool{false, false}, want: []string{text}},
		"unfit":                           {fails: []error{&chat.Failure{Trouble: chat.Unfit, Text: "no"}}, posts: []bool{false}, errors: 1},
		"the chat is gone":                {fails: []error{&chat.Failure{Trouble: chat.Unreachable, Text: "blocked"}}, posts: []bool{false}, errors: 1},
		"unknown, it was not, history":    {history: true, fails: []error{unknown}, posts: []bool{false}, want: []string{text}},
		"unknown, it was, history":        {history: true, fails: []error{unknown}, posts: []bool{true}, want: []string{text}},
		"unknown, it was not, no history": {fails: []error{unknown}, posts: []bool{false}, want: []string{text + "\n(may be a repeat)"}},
		"unknown, it was, no history":     {fails: []error{unknown}, posts: []bool{true}, want: []string{text, text + "\n(may be a repeat)"}},
		"unknown twice, marked only once": {fails: []error{unknown, unknown}, posts: []bool{false, false}, want: []string{text + "\n(may be a repeat)"}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace(t, nil, func(p *place) {
				p.platform.history = c.history
				p.say("1", "one")
				n := 0
				p.platform.send = func(chat.Outgoing) (bool, error) {
					if n++; n <= len(c.fails) {
						return c.posts[n-1], c.fails[n-1]
					}
					return true, nil
				}
				p.commit(conversation.PartialResponse{Part: part("p1", text)})
				p.pass(5 * time.Minute)
				if got := p.platform.texts(); !slices.Equal(got, c.want) {
					t.Errorf("shown %q, want %q", got, c.want)
				}
				bad := 0
				for _, h := range p.feed() {
					if h.Topic == chat.TopicError {
						bad++
					}
				}
				if bad != c.errors {
					t.Errorf("%d errors in the feed, want %d", bad, c.errors)
				}
			})
		})
	}
}

// Retry-After is waited for, not longer and not shorter.
func TestRetryAfter(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		first := true
		began := time.Now()
		p.platform.send = func(chat.Outgoing) (bool, error) {
			if first {
				first = false
				return false, &chat.Failure{Trouble: chat.Later, After: 17 * time.Second}
			}
			return true, nil
		}
		p.commit(conversation.PartialResponse{Part: part("p1", "Here.")})
		p.pass(time.Minute)
		if at := p.platform.last().at.Sub(began); at != 17*time.Second {
			t.Errorf("sent after %v", at)
		}
		if log := p.log.String(); strings.Contains(log, "not sent yet") { // of thousands of chats it would be one line each, again and again
			t.Errorf("the log warns of a turn: %s", log)
		}
	})
}

// The process ends while a message is sent, before the platform has it or behind; the next
// process goes on there: each piece is in the chat once where bots may read the history, and
// where they may not, at least once, with a mark if that was perhaps before (at least once, never
// blindly again).
func TestEndsWhileSending(t *testing.T) {
	long := strings.Repeat("a", 30) + "\n\n" + strings.Repeat("b", 30) + "\n\n" + strings.Repeat("c", 30) // three pieces
	a, b, c := long[:30], long[32:62], long[64:]
	const mark = "\n(may be a repeat)"
	for name, x := range map[string]struct {
		history bool
		at      int  // the piece
		posted  bool // the platform has it
		want    []string
	}{
		"first, before, history":     {true, 1, false, []string{a, b, c}},
		"first, behind, history":     {true, 1, true, []string{a, b, c}},
		"second, behind, history":    {true, 2, true, []string{a, b, c}},
		"third, behind, history":     {true, 3, true, []string{a, b, c}},
		"second, before, no history": {false, 2, false, []string{a, b + mark, c}},
		"second, behind, no history": {false, 2, true, []string{a, b, b + mark, c}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace(t, func(p *place) { p.platform.traits.Limit = 50 }, func(p *place) {
				p.platform.history = x.history
				p.say("1", "one")
				sends := 0
				p.platform.dies = func() (bool, bool) {
					sends++
					return sends == x.at, x.posted
				}
				dead := make(chan struct{})
				p.platform.died = func() { p.stop(); close(dead) }
				p.commit(conversation.PartialResponse{Part: part("p1", long)})
				<-dead
				p.platform.dies = nil
				p.start()
				p.pass(time.Minute)
				if got := p.platform.texts(); !slices.Equal(got, x.want) {
					t.Errorf("shown %q, want %q", got, x.want)
				}
				uncertain := false
				for _, h := range p.feed() {
					uncertain = uncertain || h.Details.Uncertain
				}
				if uncertain == x.history {
					t.Errorf("the feed says uncertain: %v", uncertain)
				}
			})
		})
	}
}

// The history is read when nothing can be on its way any more, and again if that fails; one that
// fails for long counts as none.
func TestHistoryIsAsked(t *testing.T) {
	for name, c := range map[string]struct {
		unread int
		looks  int
		want   []string
	}{
		"it answers":         {0, 1, []string{"Here."}},
		"it answers later":   {2, 3, []string{"Here."}},
		"it does not answer": {99, 3, []string{"Here.", "Here.\n(may be a repeat)"}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace(t, nil, func(p *place) {
				p.platform.history, p.platform.unread = true, c.unread
				p.say("1", "one")
				began, first := time.Now(), true
				p.platform.send = func(chat.Outgoing) (bool, error) {
					if first {
						first = false
						return true, errors.New("the connection was cut")
					}
					return true, nil
				}
				p.commit(conversation.PartialResponse{Part: part("p1", "Here.")})
				p.pass(time.Minute)
				if got := p.platform.texts(); !slices.Equal(got, c.want) {
					t.Errorf("shown %q, want %q", got, c.want)
				}
				if n := len(p.platform.looked); n != c.looks || p.platform.looked[0].Sub(began) < 2*time.Second {
					t.Errorf("it was read %d times, first after %v", n, p.platform.looked[0].Sub(began))
				}
			})
		})
	}
}

// A chat whose bot was blocked is left alone until somebody writes there again.
func TestClosedChat(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		tried := 0
		p.platform.send = func(chat.Outgoing) (bool, error) {
			tried++
			return false, &chat.Failure{Trouble: chat.Unreachable, Text: "the bot was blocked"}
		}
		p.commit(conversation.PartialResponse{Part: part("p1", "a")}, conversation.PartialResponse{Part: part("p2", "b")})
		p.commit(conversation.PartialResponse{Part: part("p3", "c")})
		if tried != 1 {
			t.Errorf("tried %d times", tried)
		}
		p.platform.send = nil
		p.say("2", "two")
		p.commit(conversation.PartialResponse{Part: part("p4", "d")})
		if got := p.platform.texts(); !slices.Equal(got, []string{"d"}) {
			t.Errorf("shown %q", got)
		}
	})
}

// Typing is shown while a task runs, and at most every few seconds.
func TestTyping(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one") // the machine starts a task
		p.pass(9 * time.Second)
		if p.platform.typing != 3 {
			t.Errorf("shown %d times in 9 s", p.platform.typing)
		}
		p.commit(conversation.TaskStatusChanged{Old: conversation.TaskRunning, New: conversation.TaskComplete})
		p.pass(time.Minute)
		if p.platform.typing != 3 {
			t.Errorf("after the end it was shown %d times", p.platform.typing)
		}
	})
}

// A question has buttons, each answers it; when it is closed they go.
func TestQuestion(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "Set up auth")
		p.commit(conversation.Asked{Question: "q1", Text: "Which?", Choices: []string{"OAuth", "JWT, which is a long one"}, Blocking: true})
		q := p.platform.last()
		if q.Text != "Which?" || len(q.Choices) != 2 || q.Choices[1].Label != "JWT, which" {
			t.Fatalf("asked %+v", q)
		}
		if err := p.take(chat.Update{Kind: chat.Pressed, Name: "press1", Token: q.Choices[1].Token}); err != nil {
			t.Fatal(err)
		}
		answered := false
		for _, b := range p.bodies("42") {
			if a, is := b.(conversation.MessageAccepted); is && a.Question == "q1" && a.Text == "JWT, which is a long one" {
				answered = true
			}
		}
		if !answered || p.platform.closed[q.Name] != "JWT, which is a long one" {
			t.Errorf("answered %v, closed %q", answered, p.platform.closed)
		}
		if err := p.take(chat.Update{Kind: chat.Pressed, Name: "press2", Token: q.Choices[0].Token}); err != nil {
			t.Fatal(err)
		}
		if got := p.platform.last().Text; got != chat.Texts.QuestionClosed {
			t.Errorf("a late press is answered %q", got)
		}
	})
}

// More choices than the platform has buttons are numbered.
func TestManyChoices(t *testing.T) {
	inPlace(t, func(p *place) { p.platform.traits.Limit = 200 }, func(p *place) {
		p.say("1", "Set up auth")
		p.commit(conversation.Asked{Question: "q1", Text: "Which?", Choices: []string{"a", "b", "c", "d"}, Blocking: true})
		q := p.platform.last()
		if len(q.Choices) != 0 || !strings.Contains(q.Text, "4. d") {
			t.Errorf("asked %+v", q)
		}
		p.say("2", "/answer 4")
		answered := false
		for _, b := range p.bodies("42") {
			if a, is := b.(conversation.MessageAccepted); is && a.Question == "q1" && a.Text == "d" {
				answered = true
			}
		}
		if !answered {
			t.Errorf("the question is open; the chat has %q", p.platform.texts())
		}
	})
}

// A waiting message is edited and taken back on the platform; one that was read is not.
func TestEditsAndDeletions(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		p.say("2", "two")
		p.say("3", "three")
		if err := errors.Join(
			p.take(chat.Update{Kind: chat.Edited, Name: "2", Text: "TWO"}),
			p.take(chat.Update{Kind: chat.Deleted, Name: "3"}),
			p.take(chat.Update{Kind: chat.Edited, Name: "99", Text: "none of ours"}),
			p.take(chat.Update{Kind: chat.Edited, Name: "1", Text: "too late"}),
		); err != nil {
			t.Fatal(err)
		}
		var edited, withdrawn int
		for _, b := range p.bodies("42") {
			switch b := b.(type) {
			case conversation.MessageEdited:
				if edited++; b.Text != "TWO" {
					t.Errorf("edited to %q", b.Text)
				}
			case conversation.MessageWithdrawn:
				withdrawn++
			}
		}
		if edited != 1 || withdrawn != 1 {
			t.Errorf("%d edited, %d withdrawn", edited, withdrawn)
		}
		if got := p.platform.texts(); len(got) == 0 || !strings.Contains(strings.Join(got, " "), "read that message") {
			t.Errorf("the late edit was answered %q", got)
		}
	})
}

// A session that is erased takes the chat's row along; the next message begins another one.
func TestErasedSession(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		first := p.session("42")
		if err := p.sessions.Erase(p.t.Context(), first, "channel:telegram"); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		p.say("2", "two")
		if second := p.session("42"); second == first {
			t.Errorf("the chat is still in %v", second)
		}
		p.commit(conversation.PartialResponse{Part: part("p1", "Here.")})
		if got := p.platform.texts(); !slices.Equal(got, []string{"Here."}) {
			t.Errorf("shown %q", got)
		}
		if n := len(p.feed()); n != 2 { // the message and the answer of the second
			t.Errorf("%d entries in the feed", n)
		}
	})
}

// Who sees the buttons may press one before the platform has said that they are there.
func TestPressWhileSending(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "Set up auth")
		hold, token := make(chan struct{}), ""
		p.platform.send = func(o chat.Outgoing) (bool, error) {
			if len(o.Choices) > 0 {
				token = o.Choices[0].Token
				<-hold
			}
			return true, nil
		}
		p.commit(conversation.Asked{Question: "q1", Text: "Which?", Choices: []string{"OAuth", "JWT"}, Blocking: true})
		if err := p.take(chat.Update{Kind: chat.Pressed, Name: "press", Token: token}); err != nil {
			t.Fatal(err)
		}
		close(hold)
		synctest.Wait()
		if got := p.platform.texts(); !slices.Equal(got, []string{"Which?"}) {
			t.Errorf("shown %q", got)
		}
		if name := p.platform.last().Name; p.platform.closed[name] != "OAuth" {
			t.Errorf("closed %v", p.platform.closed)
		}
	})
}

// An edit is held to the same rules as a message: a command in it never reaches a model.
func TestEditIntoACommand(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		p.say("2", "/ask old")
		for _, text := range []string{"/cancel", "/say injected", "/ask new"} {
			if err := p.take(chat.Update{Kind: chat.Edited, Name: "2", Text: text}); err != nil {
				t.Fatal(err)
			}
		}
		var edits []string
		for _, b := range p.bodies("42") {
			if e, is := b.(conversation.MessageEdited); is {
				edits = append(edits, e.Text)
			}
		}
		if !slices.Equal(edits, []string{"new"}) {
			t.Errorf("edited to %q", edits)
		}
	})
}

// A process that ends while a message waits for its turn has certainly not sent it, and the next
// one does not mark it.
func TestEndsBeforeSending(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "one")
		waits := make(chan struct{})
		p.platform.send = func(chat.Outgoing) (bool, error) {
			<-waits
			return false, &chat.Failure{Trouble: chat.Later, Text: "it ends"}
		}
		p.commit(conversation.PartialResponse{Part: part("p1", "Here.")})
		go p.stop()
		synctest.Wait()
		close(waits)
		p.stop()
		p.platform.send = nil
		p.start()
		synctest.Wait()
		if got := p.platform.texts(); !slices.Equal(got, []string{"Here."}) {
			t.Errorf("shown %q", got)
		}
	})
}

// A process that ends while the platform takes a message hears that it did, and the next one does
// not send it again. A platform that never answers does not hold up the end.
func TestEndsWhileThePlatformAnswers(t *testing.T) {
	for name, c := range map[string]struct {
		answers time.Duration
		end     time.Duration // how long the end may take
		want    []string
	}{
		"soon":  {time.Second, time.Second, []string{"Here."}},
		"never": {time.Hour, 2 * time.Second, []string{"Here.", "Here.\n(may be a repeat)"}},
	} {
		t.Run(name, func(t *testing.T) {
			inPlace(t, nil, func(p *place) {
				p.say("1", "one")
				p.platform.answersAfter = c.answers
				p.commit(conversation.PartialResponse{Part: part("p1", "Here.")})
				began := time.Now()
				p.stop()
				if took := time.Since(began); took > c.end {
					t.Errorf("the end took %v", took)
				}
				p.platform.answersAfter = 0
				p.start()
				p.pass(time.Minute)
				if got := p.platform.texts(); !slices.Equal(got, c.want) {
					t.Errorf("shown %q, want %q", got, c.want)
				}
			})
		})
	}
}

// A question whose buttons the platform never took has none that could be taken off.
func TestUnsentQuestionIsNotClosed(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		p.say("1", "Book a table")
		p.platform.send = func(chat.Outgoing) (bool, error) { return false, &chat.Failure{Trouble: chat.Unfit, Text: "too many"} }
		p.commit(conversation.Asked{Question: "q1", Text: "For how many?", Choices: []string{"2", "4"}})
		p.commit(conversation.QuestionAnswered{Question: "q1", Text: "4"})
		if len(p.platform.closed) != 0 {
			t.Errorf("closed %v", p.platform.closed)
		}
	})
}

// What an adapter does wrong with one message ends neither the chat nor the server: a message
// in is passed over, one that goes out is tried again.
func TestPanics(t *testing.T) {
	inPlace(t, nil, func(p *place) {
		panics := 2
		p.platform.send = func(chat.Outgoing) (bool, error) {
			if panics--; panics >= 0 {
				panic("a mistake in the adapter")
			}
			return true, nil
		}
		if err := p.take(chat.Update{Name: "1", Text: "/help"}); err != nil {
			t.Errorf("it is to come again: %v", err)
		}
		p.say("2", "one")
		p.commit(conversation.PartialResponse{Part: part("p1", "Here.")})
		p.pass(time.Minute)
		if got := strings.Join(p.platform.texts(), "|"); !strings.HasPrefix(got, "Here.") {
			t.Errorf("shown %q", got)
		}
		if n := strings.Count(p.log.String(), "msg=panic"); n != 2 {
			t.Errorf("the log has %d panics", n)
		}
	})
}

// What a program is asked that brought tools to the session stands in no chat: neither a
// message nor /answer gives the result of its call, also not beside a question that people are
// asked, and not after a restart.
func TestCallersQuestionIsNoPersons(t *testing.T) {
	inPlace(t, func(p *place) { p.platform.traits.Limit = 2000 }, func(p *place) {
		p.say("1", "Which weather?")
		p.commit(conversation.Asked{Question: "q1", Text: "Where?"},
			conversation.ToolStarted{Call: "c1", Tool: "get_weather", Args: "{}", Caller: true},
			conversation.Asked{Question: "q2", Text: "get_weather is yours to run. Its result is the answer.", Blocking: true, Call: "c1"})
		p.stop()
		p.start()
		synctest.Wait()
		p.say("2", "/status")
		if got, want := p.platform.texts(), []string{"Where?", "Tasks: 1 running, 0 waiting. Messages not read yet: 0.\nOpen question 1: Where?\nA program is to give the result of get_weather."}; !slices.Equal(got, want) {
			t.Errorf("shown %q, want %q", got, want)
		}
		p.say("3", "/answer Oslo")
		p.say("4", "/answer Bergen")
		if got := p.platform.last().Text; got != chat.Texts.QuestionClosed {
			t.Errorf("the second answer is answered %q", got)
		}
		answers := map[conversation.MessageID]string{}
		for _, b := range p.bodies("42") {
			if a, is := b.(conversation.MessageAccepted); is && a.Question != "" {
				answers[conversation.MessageID(a.Question)] = a.Text
			}
		}
		if len(answers) != 1 || answers["q1"] != "Oslo" {
			t.Errorf("answered %v", answers)
		}
	})
}
