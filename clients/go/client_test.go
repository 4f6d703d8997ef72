package parley

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"parley/clients/go/internal/pace"
)

// trail reads events until one fits and shows what came: numbers of durable events,
// types of the others.
func trail(t *testing.T, f *Following, until string) string {
	t.Helper()
	var got []string
	for e, err := range f.All(t.Context()) {
		if err != nil {
			t.Fatalf("%v after %v", err, got)
		}
		shown := e.Type
		if e.Seq > 0 {
			shown = fmt.Sprint(e.Seq)
		}
		if b, ok := e.Body.(*Followed); ok && b.Again && !b.Resumed {
			shown = "other:" + b.Reason
		}
		got = append(got, shown)
		if shown == until {
			break
		}
	}
	return strings.Join(got, " ")
}

func want(t *testing.T, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}

// What is followed goes on behind the last event, whatever happens to the connection.
func TestFollowResumes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(s.options())
		f := c.Follow("s1", Start())
		p := s.accept()
		first := p.expect("follow")
		if first.Data["since"] != 0.0 {
			t.Errorf("the first follow: %+v", first)
		}
		p.followed(first.ID, "l1", 2, 1, true, "")
		p.event(1, 2)
		p.write(`{"type":"synced","session":"s1","data":{"head":2}}`)
		p.event(2, 3, 1, 3) // also what was seen before
		want(t, trail(t, f, "3"), "followed 1 2 synced 3")

		p.ws.CloseNow()
		p = s.accept()
		again := p.expect("follow")
		if again.Data["since"] != 3.0 || again.Data["log"] != "l1" {
			t.Errorf("the next follow: %+v", again)
		}
		p.followed(again.ID, "l1", 4, 4, true, "")
		p.event(4, 5)
		want(t, trail(t, f, "5"), "interrupted followed 4 5")

		// A gap: it follows again, and what comes meanwhile is not shown.
		p.event(7, 8)
		gap := p.expect("follow")
		if gap.Data["since"] != 5.0 {
			t.Errorf("after a gap: %+v", gap)
		}
		p.event(9)
		p.followed(gap.ID, "l1", 9, 6, true, "")
		p.event(6, 7, 8, 9)
		want(t, trail(t, f, "9"), "followed 6 7 8 9")

		// An ephemeral event whose place is behind something that never came, too.
		p.write(`{"type":"thinking","session":"s1","after":10,"data":{"agent":"a","step":1}}`)
		gap = p.expect("follow")
		p.followed(gap.ID, "l1", 10, 10, true, "")
		p.event(10)
		p.write(`{"type":"thinking","session":"s1","after":10,"data":{"agent":"a","step":1}}`)
		want(t, trail(t, f, "thinking"), "followed 10 thinking")

		// A restored server has another log.
		p.ws.CloseNow()
		p = s.accept()
		other := p.expect("follow")
		p.followed(other.ID, "l2", 5, 4, false, "other_log")
		p.event(4, 5)
		want(t, trail(t, f, "5"), "interrupted other:other_log 4 5")

		p.write(`{"type":"gone","session":"s1","after":5,"data":{"reason":"erased"}}`)
		want(t, trail(t, f, ""), "gone")
		if _, err := f.Next(t.Context()); !errors.Is(err, io.EOF) {
			t.Errorf("after the end: %v", err)
		}
		c.Close()
	})
}

// A reader that is far behind is fed from the log, and memory stays bounded.
func TestFollowOfASlowReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(s.options())
		f := c.Follow("s1", Start())
		p := s.accept()
		p.followed(p.expect("follow").ID, "l1", 0, 1, true, "")
		for seq := 1; seq <= maxQueue+50; seq++ {
			p.event(seq)
		}
		synctest.Wait()
		if n := len(f.queue); n > maxQueue {
			t.Errorf("%d events wait", n)
		}
		go func() {
			again := p.expect("follow")
			since := int(again.Data["since"].(float64))
			p.followed(again.ID, "l1", maxQueue+50, since+1, true, "")
			for seq := since + 1; seq <= maxQueue+50; seq++ {
				p.event(seq)
			}
		}()
		got := strings.Fields(trail(t, f, fmt.Sprint(maxQueue+50)))
		got = slices.DeleteFunc(got, func(s string) bool { return s == "followed" })
		for i, seq := range got {
			if seq != fmt.Sprint(i+1) {
				t.Fatalf("%s at the place of %d", seq, i+1)
			}
		}
		if len(got) != maxQueue+50 {
			t.Errorf("%d events", len(got))
		}
		c.Close()
	})
}

// A gap that no follow closes ends the connection instead of asking for ever.
func TestGapThatDoesNotClose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(s.options())
		c.Follow("s1", Start())
		p := s.accept()
		for {
			f, err := p.read()
			if err != nil {
				break
			}
			p.followed(f.ID, "l1", 9, 1, true, "")
			p.event(9)
		}
		s.accept()
		c.Close()
	})
}

// Messages get their receipts in order, once, over any number of connections.
func TestSendOverLostConnections(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(s.options())
		var posted []*Sent
		for i := range 5 {
			sent, err := c.Post(Message{Session: "s1", Text: fmt.Sprint("say ", i)})
			if err != nil {
				t.Fatal(err)
			}
			posted = append(posted, sent)
		}
		stored := map[string]int{} // what the server has taken
		var order []string
		for cut := 0; len(stored) < 5; cut++ {
			p := s.accept()
			for n := 0; ; n++ {
				f, err := p.read()
				if err != nil {
					break
				}
				id, text := f.Data["client_msg_id"].(string), f.Data["text"].(string)
				duplicate := stored[id] > 0
				if !duplicate {
					order = append(order, text)
				}
				stored[id]++
				if n == cut%3 { // the receipt is lost
					p.ws.CloseNow()
					break
				}
				p.ok(f.ID, fmt.Sprintf(`{"message":"m-%s","seq":1,"duplicate":%v,"disposition":"queued"}`, text, duplicate))
			}
		}
		p := s.accept()
		go func() {
			for {
				f, err := p.read()
				if err != nil {
					return
				}
				p.ok(f.ID, fmt.Sprintf(`{"message":"m-%s","seq":1,"duplicate":true,"disposition":"queued"}`, f.Data["text"]))
			}
		}()
		for i, sent := range posted {
			receipt, err := sent.Wait(t.Context())
			if err != nil || receipt.Message != fmt.Sprint("m-say ", i) {
				t.Errorf("message %d: %+v, %v", i, receipt, err)
			}
		}
		want(t, strings.Join(order, ", "), "say 0, say 1, say 2, say 3, say 4")
		if left, _ := c.options.Outbox.Waiting(); len(left) > 0 {
			t.Errorf("left in the outbox: %v", left)
		}
		c.Close()
	})
}

// Each refusal is repeated or handed to the caller, as it says.
func TestRefusals(t *testing.T) {
	for _, test := range []struct {
		code      Code
		retryable bool
		after     int
		again     bool
	}{
		{RateLimited, true, 700, true},
		{Overloaded, true, 0, true},
		{Unavailable, true, 300, true},
		{Timeout, true, 0, true},
		{Internal, true, 0, true},
		{SessionBusy, true, 0, false},
		{InboxFull, true, 0, false},
		{StorageFull, true, 0, false},
		{Conflict, false, 0, false},
		{NotFound, false, 0, false},
		{SessionIsClosed, false, 0, false},
		{"a_new_one", true, 0, true},
		{"a_new_one", false, 0, false},
	} {
		t.Run(fmt.Sprint(test.code, test.retryable), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				c := s.client(s.options())
				sent, err := c.Post(Message{Session: "s1", Text: "hi"})
				if err != nil {
					t.Fatal(err)
				}
				p := s.accept()
				began := time.Now()
				first := p.expect("send")
				p.refuse(first.ID, test.code, test.retryable, test.after)
				if test.again {
					second := p.expect("send")
					if second.Data["client_msg_id"] != first.Data["client_msg_id"] {
						t.Error("another id")
					}
					if waited := time.Since(began); waited < time.Duration(test.after)*time.Millisecond {
						t.Errorf("again after %s", waited)
					}
					p.ok(second.ID, `{"message":"m1","seq":1,"duplicate":false,"disposition":"started"}`)
				}
				_, err = sent.Wait(t.Context())
				var refused *Error
				if test.again != (err == nil) || !test.again && (!errors.As(err, &refused) || refused.Code != test.code || refused.Retryable != test.retryable) {
					t.Errorf("%v", err)
				}
				if left, _ := c.options.Outbox.Waiting(); len(left) > 0 {
					t.Error("it is still in the outbox")
				}
				c.Close()
			})
		})
	}
}

// What may not be done twice is not sent twice.
func TestCancelIsSentOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(s.options())
		failed := make(chan error, 1)
		go func() { _, err := c.Cancel(t.Context(), "s1", Cancel{}); failed <- err }()
		p := s.accept()
		p.expect("cancel")
		p.ws.CloseNow()
		if err := <-failed; !errors.Is(err, ErrLost) {
			t.Errorf("%v", err)
		}
		go func() { _, err := c.Cancel(t.Context(), "s1", Cancel{Task: "t1", DropWaiting: true}); failed <- err }()
		p = s.accept()
		p.expect("cancel")
		p.ws.CloseNow()
		p = s.accept()
		f := p.expect("cancel")
		if f.Data["task"] != "t1" || f.Data["waiting"] != "drop" {
			t.Errorf("%+v", f)
		}
		p.ok(f.ID, `{"task":"t1","old_status":"RUNNING"}`)
		if err := <-failed; err != nil {
			t.Error(err)
		}
		c.Close()
	})
}

// A text that is too long for the server is refused here: the server would end the connection,
// again each time it is sent. Other messages are not harmed.
func TestTooLong(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(s.options())
		p := s.accept()
		_, err := c.Send(t.Context(), Message{Session: "s1", Text: strings.Repeat("a", 1<<16)})
		if CodeOf(err) != TooLarge {
			t.Errorf("%v", err)
		}
		if _, err := c.Post(Message{Session: "s1", Text: "short"}); err != nil {
			t.Fatal(err)
		}
		p.expect("send")
	})
}

// Sixty messages at once stay within the server's limits, without a refusal.
func TestPace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(s.options())
		var posted []*Sent
		for i := range 60 {
			sent, err := c.Post(Message{Session: fmt.Sprint("s", i), Text: "hi"})
			if err != nil {
				t.Fatal(err)
			}
			posted = append(posted, sent)
		}
		p := s.accept()
		tokens, at := 39.0, time.Now()
		for range 60 {
			f := p.expect("send")
			tokens = min(40, tokens+time.Since(at).Seconds()*20) - 1
			at = time.Now()
			if tokens < 0 {
				t.Fatal("too fast")
			}
			p.ok(f.ID, `{"message":"m","seq":1,"duplicate":false,"disposition":"queued"}`)
		}
		for _, sent := range posted {
			if _, err := sent.Wait(t.Context()); err != nil {
				t.Error(err)
			}
		}
		c.Close()
	})
}

// The close codes decide whether the client comes back, and goaway says when.
func TestClosesAndPauses(t *testing.T) {
	for code, comes := range map[int]bool{1000: true, 1001: true, 1011: true, 1012: true, 4000: true, 4003: true, 4004: true, 4007: true, 4008: true, 4009: true,
		1002: false, 1003: false, 1009: false, 4500: false, 4501: false, 4502: false, 4503: false, 4504: false} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				c := s.client(s.options())
				p := s.accept()
				p.write(`{"type":"goaway","data":{"code":1012,"reason":"bye","retry_in_ms":7000}}`)
				began := time.Now()
				p.ws.Close(websocket.StatusCode(code), "bye")
				if comes {
					s.accept()
					if waited := time.Since(began); waited < 7*time.Second || waited > 8*time.Second {
						t.Errorf("it came back after %s", waited)
					}
					c.Close()
					return
				}
				<-c.Done()
				var closed *CloseError
				if !errors.As(c.Err(), &closed) || closed.Code != code {
					t.Errorf("%v", c.Err())
				}
				if _, err := c.Hello(t.Context()); err == nil {
					t.Error("it says hello after its end")
				}
				c.Close()
			})
		})
	}
}

func TestHandshakesThatAreRefused(t *testing.T) {
	for status, comes := range map[int]bool{401: false, 403: false, 404: false, 429: true, 500: true, 502: true, 503: true} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				refused := 0
				s.refuse = func(w http.ResponseWriter) bool {
					if refused++; refused > 1 {
						return false
					}
					w.Header().Set("Retry-After", "3")
					w.WriteHeader(status)
					fmt.Fprint(w, `{"detail":"not now"}`)
					return true
				}
				c := s.client(s.options())
				began := time.Now()
				if comes {
					s.accept()
					if waited := time.Since(began); waited < 3*time.Second {
						t.Errorf("it came back after %s", waited)
					}
				} else {
					<-c.Done()
					if !strings.Contains(c.Err().Error(), "not now") {
						t.Errorf("%v", c.Err())
					}
				}
				c.Close()
			})
		})
	}
}

// A server that is frozen says nothing; its connection is given up for another one.
func TestFrozenServer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		states := make(chan Connection, 10)
		o := s.options()
		o.OnConnection = func(c Connection) { states <- c }
		c := s.client(o)
		s.accept()
		began := time.Now()
		<-states // up
		down := <-states
		if waited := time.Since(began); !errors.Is(down.Err, errSilent) || waited != 35*time.Second {
			t.Errorf("%v after %s", down.Err, waited)
		}
		// And one that reads and does not answer: after the time for answers.
		p := s.accept()
		go c.Ping(t.Context())
		go func() {
			p.expect("ping")
			p.beat(t)
		}()
		<-states // up
		if down := <-states; !errors.Is(down.Err, errNoAnswer) {
			t.Errorf("%v", down.Err)
		}
		s.accept()
		c.Close()
	})
}

// A command that was given up says which one it was, what it waited for, and why there is no connection.
func TestGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var listens atomic.Bool
		s.down = func() bool { return !listens.Load() }
		c := s.client(s.options())
		try := func(f func(ctx context.Context) error) string {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			err := f(ctx)
			if !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("it is no end of its context: %v", err)
			}
			return fmt.Sprint(err)
		}
		const offline = "there is no connection: context deadline exceeded; the last attempt: "
		for want, f := range map[string]func(ctx context.Context) error{
			"parley: create: ": func(ctx context.Context) error { _, err := c.Create(ctx, NewSession{}); return err },
			"parley: upload: ": func(ctx context.Context) error { _, err := c.Upload(ctx, "s1", "", "text/plain", nil); return err },
			"parley: send: ":   func(ctx context.Context) error { _, err := c.Send(ctx, Message{Session: "s1", Text: "x"}); return err },
			"parley: hello: ":  func(ctx context.Context) error { _, err := c.Hello(ctx); return err },
			"parley: ping: ":   func(ctx context.Context) error { _, err := c.Ping(ctx); return err },
		} {
			if got := try(f); !strings.HasPrefix(got, want+offline) || !strings.Contains(got, "nobody listens") {
				t.Errorf("%s", got)
			}
		}
		listens.Store(true)
		p := s.accept()
		go func() { // reads all, and answers nothing
			for _, err := p.read(); err == nil; _, err = p.read() {
			}
		}()
		if got, want := try(func(ctx context.Context) error { return c.Clear(ctx, "s1") }), "parley: clear: no answer came: context deadline exceeded"; got != want {
			t.Errorf("%s, want %s", got, want)
		}
		if _, err := c.Hello(t.Context()); err != nil {
			t.Error(err)
		}
		c.Close()
		if _, err := c.Create(t.Context(), NewSession{}); !errors.Is(err, ErrClosed) || err.Error() != ErrClosed.Error() {
			t.Errorf("%v", err)
		}
	})
}

// The pauses grow, are random, and never exceed their bounds.
func TestJitter(t *testing.T) {
	const least, most = 250 * time.Millisecond, 15 * time.Second
	for attempt := range 100 {
		bound, drawn := min(most, 2*least<<min(attempt, 20)), map[time.Duration]bool{}
		for range 100 {
			d := pace.Jitter(least, most, attempt)
			if d < least || d > bound {
				t.Fatalf("attempt %d: %s, want %s to %s", attempt, d, least, bound)
			}
			drawn[d] = true
		}
		if len(drawn) < 50 {
			t.Errorf("attempt %d: only %d different pauses", attempt, len(drawn))
		}
	}
	if d := pace.Jitter(time.Second, time.Millisecond, 0); d != time.Second {
		t.Errorf("a longest pause below the shortest: %s", d)
	}
}

// Connections that end at once are made more and more seldom; one that has brought
// something begins anew, so that a bad line costs no more than it must.
func TestPausesGrowWithoutProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, useful := range []bool{false, true} {
			s := newServer(t)
			var sum, most time.Duration
			o := s.options()
			o.OnConnection = func(c Connection) { sum += c.RetryIn; most = max(most, c.RetryIn) }
			c := s.client(o)
			c.Follow("s1", Start())
			for seq := 1; seq <= 20; seq++ {
				p := s.accept()
				f := p.expect("follow")
				if useful {
					p.followed(f.ID, "l1", seq, seq, true, "")
					p.event(seq)
				}
				p.ws.Close(4000, "cut")
			}
			synctest.Wait()
			if useful && most > 500*time.Millisecond || !useful && sum < 20*time.Second {
				t.Errorf("useful %v: %s in all, the longest pause %s", useful, sum, most)
			}
			c.Close()
		}
	})
}

// A signed token is replaced before it expires; an expired one is asked for again.
func TestTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		token := func(until time.Duration) string {
			return "e30." + base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, `{"exp":%d}`, time.Now().Add(until).Unix())) + ".sig"
		}
		s := newServer(t)
		o := s.options()
		o.Token = func(context.Context) (string, error) { return token(time.Hour), nil }
		c := s.client(o)
		p := s.accept()
		began := time.Now()
		go p.beat(t)
		f := p.expect("refresh")
		if waited := time.Since(began); waited < 58*time.Minute || waited > time.Hour || f.Data["token"] != token(time.Hour) {
			t.Errorf("a refresh after %s: %+v", waited, f)
		}
		p.ok(f.ID, fmt.Sprintf(`{"expires_at":%q}`, time.Now().Add(10*time.Minute).UTC().Format(time.RFC3339)))
		p.expect("refresh")
		if waited := time.Since(began); waited > 70*time.Minute {
			t.Errorf("another refresh after %s", waited)
		}
		p.ws.Close(4007, "expired")

		// Hello with an expired token: some more attempts, then the end.
		for range maxExpired {
			p := <-s.peers
			p.refuse(p.expect("hello").ID, TokenExpired, false, 0)
			p.ws.Close(4007, "expired")
		}
		<-c.Done()
		if CodeOf(c.Err()) != TokenExpired {
			t.Errorf("%v", c.Err())
		}
		c.Close()
	})
}

// What was in a durable outbox at the end of a program is sent by the next one.
func TestOutboxOfAnEarlierRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		kept := &memory{}
		o := s.options()
		o.Outbox = kept
		c := s.client(o)
		sent, err := c.Post(Message{Session: "s1", Text: "first", ClientMsgID: "a"})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Post(Message{Session: "s1", Text: "second", ClientMsgID: "b"}); err != nil {
			t.Fatal(err)
		}
		p := s.accept()
		p.expect("send")
		c.Close()
		if _, err := sent.Wait(t.Context()); !errors.Is(err, ErrClosed) {
			t.Errorf("%v", err)
		}
		var refused []string
		o.Refused = func(m Message, err error) { refused = append(refused, m.ClientMsgID+" "+string(CodeOf(err))) }
		c = s.client(o)
		p = s.accept()
		f := p.expect("send")
		if f.Data["client_msg_id"] != "a" {
			t.Errorf("%+v", f)
		}
		p.ok(f.ID, `{"message":"m1","seq":1,"duplicate":true,"disposition":"started"}`)
		f = p.expect("send")
		p.refuse(f.ID, SessionIsClosed, false, 0)
		synctest.Wait()
		if len(kept.waiting) > 0 || len(refused) != 1 || refused[0] != "b session_closed" {
			t.Errorf("waiting %v, refused %v", kept.waiting, refused)
		}
		c.Close()
	})
}

// A watch begins again on each connection, and its first word is to read the list.
func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		c := s.client(s.options())
		got := make(chan string)
		go func() {
			for row, err := range c.Watch(t.Context()) {
				switch {
				case err != nil:
					got <- err.Error()
				case row == nil:
					got <- "read the list"
				default:
					got <- row.Session
				}
			}
			close(got)
		}()
		for range 2 {
			p := s.accept()
			p.ok(p.expect("watch").ID, `{}`)
			p.write(`{"type":"listed","data":{"session":"s9","title":"T","status":"RUNNING","awaiting":0,"last_seq":3,"last_at":"2026-11-21T08:30:05.007Z","unread":1}}`)
			want(t, <-got, "read the list")
			want(t, <-got, "s9")
			p.ws.CloseNow()
		}
		p := s.accept()
		p.refuse(p.expect("watch").ID, UnknownType, false, 0)
		want(t, <-got, "parley: no (unknown_type)")
		<-got
		c.Close()
	})
}

// Dial says what is wrong with the first attempt.
func TestDial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		s.down = func() bool { return true }
		if _, err := Dial(t.Context(), "http://parley.test", s.options()); err == nil || !strings.Contains(err.Error(), "nobody listens") {
			t.Errorf("%v", err)
		}
		s.down = nil
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		go func() { <-s.peers }() // which never answers
		if _, err := Dial(ctx, "http://parley.test", s.options()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%v", err)
		}
		for _, wrong := range []string{"ftp://parley.test", "http://", "http://%zz"} {
			if _, err := Dial(t.Context(), wrong, s.options()); err == nil {
				t.Errorf("%s is fine", wrong)
			}
		}
	})
}
