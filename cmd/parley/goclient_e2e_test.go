package main

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	parley "parley/clients/go"
)

// goClient is a client of a server, ended with the test.
func goClient(t *testing.T, addr string, o parley.Options) *parley.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	o.LeastPause, o.MostPause = 10*time.Millisecond, 100*time.Millisecond
	c, err := parley.Dial(ctx, "http://"+addr, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// follower reads events until each of so many messages is resolved, and checks that
// no event is missing and none comes twice.
type follower struct {
	t        *testing.T
	last     uint64
	said     []string          // texts in the order of their messages
	messages map[string]string // id → text
	resolved map[string]string // text → how
	parts    int
	breaks   int
	follows  chan struct{} // one for each time that it follows; nil = nobody asks
}

func (f *follower) until(following *parley.Following, resolved int) {
	f.t.Helper()
	f.messages, f.resolved = map[string]string{}, map[string]string{}
	ctx, cancel := context.WithTimeout(f.t.Context(), patience)
	defer cancel()
	for e, err := range following.All(ctx) {
		if err != nil {
			f.t.Fatalf("%v; %d of %d are resolved", err, len(f.resolved), resolved)
		}
		if e.Seq > 0 {
			if e.Seq != f.last+1 {
				f.t.Fatalf("seq %d behind %d", e.Seq, f.last)
			}
			f.last = e.Seq
		}
		switch b := e.Body.(type) {
		case *parley.Interrupted:
			f.breaks++
		case *parley.Followed:
			if b.Again && !b.Resumed {
				f.t.Errorf("not resumed: %s", b.Reason)
			}
			if f.follows != nil {
				f.follows <- struct{}{}
			}
		case *parley.MessageAccepted:
			f.said = append(f.said, b.Text)
			f.messages[b.Message] = b.Text
		case *parley.PartialResponse, *parley.Response:
			f.parts++
		case *parley.MessageResolved:
			text := f.messages[b.Message]
			if f.resolved[text] != "" {
				f.t.Errorf("%q is resolved twice", text)
			}
			if f.resolved[text] = b.How; len(f.resolved) == resolved {
				return
			}
		}
	}
}

// The server is killed, frozen and restarted while messages are sent: each arrives
// once, in order, and gets its answer (N-01, D-11).
func TestGoClientSurvivesItsServer(t *testing.T) {
	data := t.TempDir()
	l := spawn(t, data)
	again := []string{"--listen", l.addr}
	before := runtime.NumGoroutine()
	c := goClient(t, l.addr, parley.Options{Silence: 2 * time.Second, Answer: 2 * time.Second})
	session, err := c.Create(t.Context(), parley.NewSession{Policy: parley.Policy{"inbox.mode": "queue"}})
	if err != nil {
		t.Fatal(err)
	}
	following := c.Follow(session, parley.Start())
	const messages = 60
	f := &follower{t: t, follows: make(chan struct{}, 100)}
	sent := make(chan error, 1)
	// The sender is at most six messages ahead, so that it has connected again before
	// the next trouble, however quick it is; and yet each trouble meets messages under way.
	trouble := make(chan int, 5)
	go func() {
		for i := range messages {
			_, err := c.Send(t.Context(), parley.Message{Session: session, Text: fmt.Sprintf("say %03d", i)})
			if err != nil {
				sent <- err
				return
			}
			trouble <- i
		}
		sent <- nil
	}()
	ended := make(chan struct{})
	go func() { f.until(following, messages); close(ended) }()
	for i := range trouble {
		if i == 10 || i == 20 || i == 30 || i == 40 { // only a connection that follows can be lost
			select {
			case <-f.follows:
			case <-time.After(patience):
				t.Fatalf("nobody follows at message %d", i)
			}
		}
		switch i {
		case 10, 30: // killed
			l.kill()
			l = spawn(t, data, again...)
		case 20: // frozen until the client has noticed
			if err := l.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			frozen, cancel := context.WithTimeout(t.Context(), patience)
			for err := error(nil); err == nil; { // the signal may come behind an answer
				_, err = c.Ping(frozen)
			}
			cancel()
			if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
		case 40: // restarted in good order
			l.stop()
			l = spawn(t, data, again...)
		}
		if i == messages-1 {
			break
		}
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	<-ended
	if len(f.said) != messages || !slices.IsSorted(f.said) {
		t.Errorf("the session has %d messages: %q", len(f.said), f.said)
	}
	for text, how := range f.resolved {
		if how != "answered" {
			t.Errorf("%q is %s", text, how)
		}
	}
	if f.breaks < 4 {
		t.Errorf("the connection ended %d times only", f.breaks)
	}
	t.Logf("%d messages, %d parts, %d events, %d lost connections", len(f.said), f.parts, f.last, f.breaks)
	// The pages of the log say the same.
	var seqs uint64
	for e, err := range c.Events(t.Context(), session, 0) {
		if err != nil || e.Seq != seqs+1 {
			t.Fatalf("%d behind %d, %v", e.Seq, seqs, err)
		}
		seqs = e.Seq
	}
	if seqs < f.last {
		t.Errorf("the log has %d events, %d were shown", seqs, f.last)
	}
	c.Close()
	l.stop()
	for deadline := time.Now().Add(10 * time.Second); runtime.NumGoroutine() > before+4; runtime.Gosched() {
		if time.Now().After(deadline) {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

// Sixty messages at once all arrive, within the server's limits.
func TestGoClientSendsFast(t *testing.T) {
	l := start(t, t.TempDir())
	defer l.stop()
	c := goClient(t, l.addr, parley.Options{})
	session, err := c.Create(t.Context(), parley.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	var posted []*parley.Sent
	for i := range 60 {
		sent, err := c.Post(parley.Message{Session: session, Text: fmt.Sprintf("say %03d", i)})
		if err != nil {
			t.Fatal(err)
		}
		posted = append(posted, sent)
	}
	var last uint64
	for i, sent := range posted {
		receipt, err := sent.Wait(t.Context())
		if err != nil || receipt.Duplicate || receipt.Seq <= last {
			t.Errorf("message %d: %+v, %v", i, receipt, err)
		}
		last = receipt.Seq
	}
	_, metrics := l.do("GET", "/metrics", "")
	for line := range strings.Lines(string(metrics)) {
		if strings.Contains(line, `code="rate_limited"`) && !strings.HasSuffix(strings.TrimSpace(line), " 0") {
			t.Errorf("refused: %s", line)
		}
	}
	// The other commands, once each.
	if _, err := c.SetPolicy(t.Context(), session, parley.Policy{"inbox.mode": "steer"}); err != nil {
		t.Error(err)
	}
	if err := c.Seen(t.Context(), session, last); err != nil {
		t.Error(err)
	}
	if err := c.Clear(t.Context(), session); err != nil {
		t.Error(err)
	}
	if err := c.Withdraw(t.Context(), session, "m1-"+session); parley.CodeOf(err) != parley.Conflict {
		t.Errorf("%v", err)
	}
	if err := c.Rename(t.Context(), session, "Fast"); err != nil {
		t.Error(err)
	}
	for s, err := range c.Sessions(t.Context()) {
		if err != nil || s.Session != session || s.Title != "Fast" {
			t.Errorf("%+v, %v", s, err)
		}
	}
	if err := c.Erase(t.Context(), session); err != nil {
		t.Error(err)
	}
	if _, err := c.Session(t.Context(), session); parley.CodeOf(err) != parley.NotFound {
		t.Errorf("%v", err)
	}
}
