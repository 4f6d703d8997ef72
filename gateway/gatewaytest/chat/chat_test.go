package chat_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/gateway/gatewaytest/chat"
	"parley/gateway/protocol"
)

// wall is a platform that keeps what is posted. It fails at every limit-th post,
// as if the process had ended right behind it.
type wall struct {
	mu     sync.Mutex
	lines  []string
	cursor conversation.Seq
	limit  int
	posted chan struct{} // capacity 1
	slow   chan struct{} // a post takes until it is closed; nil = none waits
}

var errEnded = errors.New("the process ends here")

func (w *wall) Post(_ context.Context, seq conversation.Seq, line string) error {
	if w.slow != nil {
		<-w.slow
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lines = append(w.lines, line)
	w.cursor = seq
	select {
	case w.posted <- struct{}{}:
	default:
	}
	if w.limit > 0 && len(w.lines)%w.limit == 0 {
		return errEnded
	}
	return nil
}

// until waits for a line.
func (w *wall) until(t *testing.T, line string) {
	t.Helper()
	for {
		w.mu.Lock()
		found := slices.Contains(w.lines, line)
		w.mu.Unlock()
		if found {
			return
		}
		select {
		case <-w.posted:
		case <-t.Context().Done():
			t.Fatalf("%q was not posted", line)
		}
	}
}

func open(t *testing.T, w *wall) (*chat.Room, *gatewaytest.Sessions) {
	t.Helper()
	hub := fanout.NewHub(nil)
	sessions := gatewaytest.NewSessions(hub)
	t.Cleanup(sessions.Close)
	limits := protocol.DefaultLimits()
	limits.QueueFrames, limits.ReplayPage = 4, 3 // a platform that is slow soon
	return &chat.Room{
		Engine: sessions, Hub: hub, Limits: limits, Platform: w,
		Session: sessions.Open("s1", "local"), User: "local", Via: conversation.ViaTelegram,
	}, sessions
}

// A platform says a message, shows what comes of it and the question that it is
// asked, and learns when the session is erased.
func TestRoom(t *testing.T) {
	w := &wall{posted: make(chan struct{}, 1)}
	room, sessions := open(t, w)
	ended := make(chan error, 1)
	go func() { ended <- room.Run(t.Context(), 0) }()

	for range 2 { // a platform may deliver again
		told := make(chan error, 1)
		room.Say("platform-1", "Book a table", func(_ conversation.Receipt, err error) { told <- err })
		if err := <-told; err != nil {
			t.Fatal(err)
		}
	}
	w.until(t, "> Book a table")
	sessions.Commit(room.Session,
		conversation.Event{Body: conversation.PartialResponse{Part: conversation.Part{Message: "p1-s1", Text: "Looking."}}},
		conversation.Event{Body: conversation.Asked{Question: "q1", Text: "For how many?", Choices: []string{"2", "4"}, Blocking: true}})
	sessions.Commit(room.Session,
		conversation.Event{Body: conversation.Response{Part: conversation.Part{Message: "p1-s1", Text: "Looking."}, Promoted: true}})
	w.until(t, "? For how many? [2 | 4]")
	if err := sessions.Erase(t.Context(), room.Session, "local"); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the room ended with %v", err)
	}
	want := []string{"> Book a table", "Looking.", "? For how many? [2 | 4]"}
	if !slices.Equal(w.lines, want) {
		t.Errorf("posted %q, want %q", w.lines, want)
	}
}

// However often the process ends, and however far the platform is behind, each
// line is posted once and in order.
func TestRestarts(t *testing.T) {
	w := &wall{posted: make(chan struct{}, 1), limit: 7}
	room, sessions := open(t, w)
	const commits = 200
	var want []string
	for i := range commits {
		text, part := fmt.Sprintf("message %d", i), fmt.Sprintf("part %d", i)
		want = append(want, "> "+text, part)
		sessions.Commit(room.Session,
			conversation.Event{Body: conversation.MessageAccepted{Message: "m", Text: text}},
			conversation.Event{Body: conversation.CoverageNudge{}}, // shown to nobody
			conversation.Event{Body: conversation.PartialResponse{Part: conversation.Part{Text: part}}})
	}
	starts := 0
	for len(w.lines) < len(want) {
		starts++
		if err := room.Run(t.Context(), w.cursor); !errors.Is(err, errEnded) {
			t.Fatalf("start %d ended with %v", starts, err)
		}
		if len(w.lines)+w.limit > len(want) {
			w.limit = 1 // the rest, one line a process
		}
	}
	if !slices.Equal(w.lines, want) {
		t.Errorf("posted %d lines, want %d:\n%s", len(w.lines), len(want), strings.Join(w.lines, "\n"))
	}
	if starts < len(want)/7 {
		t.Errorf("only %d starts", starts)
	}
}

// A platform that is slow while the session goes on loses nothing: what its queue of
// four frames does not hold comes from the log.
func TestSlowPlatform(t *testing.T) {
	w := &wall{posted: make(chan struct{}, 1), slow: make(chan struct{})}
	room, sessions := open(t, w)
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- room.Run(ctx, 0) }()
	var want []string
	commit := func(n int) {
		for range n {
			text := fmt.Sprintf("message %d", len(want))
			want = append(want, "> "+text)
			sessions.Commit(room.Session, conversation.Event{Body: conversation.MessageAccepted{Message: "m", Text: text}})
		}
	}
	commit(1)
	w.slow <- struct{}{} // the room follows and posts its first line
	commit(100)
	sessions.Do(func() {}) // all is published
	close(w.slow)
	w.until(t, want[len(want)-1])
	stop()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the room ended with %v", err)
	}
	if !slices.Equal(w.lines, want) {
		t.Errorf("posted %d lines, want %d:\n%s", len(w.lines), len(want), strings.Join(w.lines, "\n"))
	}
}

// A session that the user may not see cannot be followed, nor any from beyond its end.
func TestRefused(t *testing.T) {
	room, _ := open(t, &wall{posted: make(chan struct{}, 1)})
	var e *conversation.Error
	if err := room.Run(t.Context(), 99); !errors.As(err, &e) || e.Code != conversation.Conflict {
		t.Errorf("beyond the end: %v", err)
	}
	room.User = "mallory"
	if err := room.Run(t.Context(), 0); !errors.As(err, &e) || e.Code != conversation.NotFound {
		t.Errorf("another user: %v", err)
	}
}
