package fanout

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
)

// renderer gives HTML when the test says so: at once, later, or none.
type renderer struct {
	now    map[string]string // by text
	waits  map[string]func(html string)
	asked  int
	forgot []conversation.SessionKey
}

func newRenderer(now ...string) *renderer {
	r := &renderer{now: map[string]string{}, waits: map[string]func(string){}}
	for _, text := range now {
		r.now[text] = "<p>" + text + "</p>"
	}
	return r
}

func (r *renderer) Render(_ conversation.SessionKey, _ conversation.MessageID, text string, done func(html string)) {
	r.asked++
	if html, ok := r.now[text]; ok {
		done(html)
		return
	}
	r.waits[text] = done
}

func (r *renderer) Forget(key conversation.SessionKey) { r.forgot = append(r.forgot, key) }

// kinds are the frames that wait, each as its type and what tells it from others.
func kinds(t *testing.T, payloads []string) string {
	t.Helper()
	var all []string
	for _, p := range payloads {
		var f struct {
			Type  string
			Seq   uint64
			After uint64
			Data  struct{ Message, HTML string }
		}
		if err := json.Unmarshal([]byte(p), &f); err != nil {
			t.Fatal(err)
		}
		if f.Type == "rendered" {
			all = append(all, fmt.Sprintf("%s=%s@%d", f.Data.Message, f.Data.HTML, f.After))
			continue
		}
		all = append(all, fmt.Sprint(f.Type, f.Seq))
	}
	return strings.Join(all, " ")
}

// batch is a commit: a tool's end, a part, another part, a resolution.
func batch() []conversation.Event {
	return []conversation.Event{
		{Seq: 6, Body: conversation.ToolFinished{Call: "c1", Summary: "secret"}},
		{Seq: 7, Body: conversation.PartialResponse{Part: conversation.Part{Message: "p1", Text: "a"}}},
		{Seq: 8, Body: conversation.Response{Part: conversation.Part{Message: "p2", Text: "b"}}},
		{Seq: 9, Body: conversation.SessionClosed{}},
	}
}

// The HTML of a part is right behind it; what follows waits for it, and the publisher,
// other frames of the part's batch and other followers do not.
func TestHTMLIsRightBehindItsPart(t *testing.T) {
	events := "tool_finished6 partial_response7 response8 session_closed9"
	for _, c := range []struct {
		name  string
		now   []string
		steps []string // what is taken, and between it the text whose HTML comes
	}{
		{"at once", []string{"a", "b"}, []string{"tool_finished6 partial_response7 p1=<p>a</p>@7 response8 p2=<p>b</p>@8 session_closed9"}},
		{"later", nil, []string{"tool_finished6 partial_response7", "a", "p1=<p>a</p>@7 response8", "b", "p2=<p>b</p>@8 session_closed9"}},
		{"the second first", nil, []string{"tool_finished6 partial_response7", "b", "", "a", "p1=<p>a</p>@7 response8 p2=<p>b</p>@8 session_closed9"}},
		{"one is not rendered", nil, []string{"tool_finished6 partial_response7", "a!", "response8", "b", "p2=<p>b</p>@8 session_closed9"}},
		{"none is", nil, []string{"tool_finished6 partial_response7", "a!", "response8", "b!", "session_closed9"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			hub, plain := queueOf(100)
			r := newRenderer(c.now...)
			hub.RenderWith(r)
			subscribed := func(redact bool) *Subscription {
				s := hub.NewQueue(nil, protocol.Limits{QueueFrames: 100, QueueBytes: 1 << 20}).NewSubscription(Options{Key: plain.key, HTML: true, Redact: redact})
				s.phase, s.synced, s.cursor, s.until = phaseLive, true, 5, 5
				hub.add(s)
				return s
			}
			all := []*Subscription{subscribed(false), subscribed(true)}
			hub.Publish(plain.key, 1, batch())
			if r.asked != 2 {
				t.Errorf("%d parts were given to be rendered", r.asked)
			}
			if got := kinds(t, drain(plain.queue)); got != events {
				t.Errorf("without the cap: %s", got)
			}
			for i, step := range c.steps {
				if i%2 == 1 {
					text, none := strings.CutSuffix(step, "!")
					html := "<p>" + text + "</p>"
					if none {
						html = ""
					}
					r.waits[text](html)
					continue
				}
				for who, s := range all {
					if got := kinds(t, drain(s.queue)); got != step {
						t.Errorf("step %d, subscription %d: %s, want %s", i, who, got, step)
					}
				}
			}
			for _, s := range all {
				if q := s.queue; q.n != 0 || q.frames != 0 || q.bytes != 0 {
					t.Errorf("the queue is empty, and counts %d batches, %d frames, %d bytes", q.n, q.frames, q.bytes)
				}
			}
		})
	}
}

// A taker that waits is called when the HTML comes; a queue that is finished meanwhile
// ends behind it, and one that is abandoned at once.
func TestTakerIsCalledWhenTheHTMLComes(t *testing.T) {
	for _, c := range []struct {
		name      string
		end       func(q *Queue)
		rest      string
		endsEarly bool
	}{
		{"goes on", func(*Queue) {}, "p1=<p>a</p>@6", false},
		{"finished", func(q *Queue) {
			q.Finish(protocol.TextFrame(func(b []byte) []byte { return append(b, `{"type":"last"}`...) }))
		}, "p1=<p>a</p>@6 last0", false},
		{"abandoned", func(q *Queue) { q.Abandon() }, "", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			hub, r := NewHub(nil), newRenderer()
			hub.RenderWith(r)
			called := 0
			q := hub.NewNotifyingQueue(nil, protocol.Limits{QueueFrames: 100, QueueBytes: 1 << 20}, func() { called++ })
			s := q.NewSubscription(Options{Key: gatewaytest.Key("s1"), HTML: true})
			s.phase, s.synced, s.cursor, s.until = phaseLive, true, 5, 5
			hub.add(s)
			hub.Publish(s.key, 1, []conversation.Event{{Seq: 6, Body: conversation.Response{Part: conversation.Part{Message: "p1", Text: "a"}}}})
			if got := kinds(t, drain(q)); got != "response6" || called != 1 {
				t.Errorf("%s, called %d times", got, called)
			}
			c.end(q)
			if ended := q.TakeQueued(nil).Ended; ended != c.endsEarly {
				t.Errorf("ended: %v", ended)
			}
			before := called
			r.waits["a"]("<p>a</p>")
			if !c.endsEarly && called != before+1 {
				t.Error("the taker was not called")
			}
			if got := kinds(t, drain(q)); got != c.rest {
				t.Errorf("%s, want %s", got, c.rest)
			}
		})
	}
}

// What is replayed is rendered, too, once for those who want the same page; a follow
// without the cap is never given a page with HTML.
func TestReplayedPartsAreRendered(t *testing.T) {
	hub, r := NewHub(nil), newRenderer("a", "b")
	hub.RenderWith(r)
	log := logOf(batch())
	var all []*Queue
	for _, html := range []bool{true, false, true} {
		q := hub.NewQueue(log, protocol.Limits{QueueFrames: 100, QueueBytes: 1 << 20, ReplayPage: 100})
		s := q.NewSubscription(Options{Key: gatewaytest.Key("s1"), HTML: html})
		s.phase, s.cursor, s.until, s.head = phaseReplay, 5, 9, 9
		hub.add(s)
		q.replays = append(q.replays, s)
		q.next = s
		all = append(all, q)
	}
	for i, q := range all {
		var payloads []string
		for taken := q.Take(context.Background(), nil); taken.Frames > 0; taken = q.Take(context.Background(), nil) {
			n := 0
			for b := taken.Data; len(b) > 0; n++ {
				var p []byte
				_, p, b = protocol.NextFrame(b)
				payloads = append(payloads, string(p))
			}
			if n != taken.Frames {
				t.Errorf("%d frames, said to be %d", n, taken.Frames)
			}
		}
		want := "tool_finished6 partial_response7 p1=<p>a</p>@7 response8 p2=<p>b</p>@8 session_closed9 synced0"
		if i == 1 {
			want = "tool_finished6 partial_response7 response8 session_closed9 synced0"
		}
		if got := kinds(t, payloads); got != want {
			t.Errorf("%d: %s, want %s", i, got, want)
		}
	}
	if r.asked != 2 {
		t.Errorf("%d parts were rendered for two who want the same page", r.asked)
	}
	hub.Gone(gatewaytest.Key("s1"), "erased")
	if !slices.Equal(r.forgot, []conversation.SessionKey{gatewaytest.Key("s1")}) {
		t.Errorf("forgotten: %v", r.forgot)
	}
}

// logOf is a source that has these events.
type logOf []conversation.Event

func (logOf) View(conversation.SessionKey, conversation.UserID, func(conversation.View, error)) {}

func (l logOf) Records(context.Context, conversation.SessionKey, conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) { yield(conversation.Record{Events: l}, nil) }
}
