package fanout

import (
	"context"
	"encoding/json"
	"iter"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
)

// What a delta costs the session does not grow with the text that waits for a follower
// who does not read.
func TestSlowFollowerCostsNothing(t *testing.T) {
	hub, f := queueOf(10)
	piece := strings.Repeat("x", 20)
	show := func(from, to int) {
		for at := from; at < to; at += len(piece) {
			hub.Show(f.key, 1, 5, conversation.Delta{Draft: "1.1.0", At: at, Text: piece})
		}
	}
	const size = 80_000
	show(0, size)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	show(size, 2*size)
	runtime.ReadMemStats(&after)
	if bytes := after.TotalAlloc - before.TotalAlloc; bytes > 200*size { // a text encoded again with each delta takes ten thousand times its size
		t.Errorf("%d bytes of text took %d bytes", size, bytes)
	}
	if f.queue.bytes < 2*size || f.queue.bytes > 3*size {
		t.Errorf("the text of %d bytes counts as %d", 2*size, f.queue.bytes)
	}
}

// stream is a session whose model writes one draft, beside everything else: a piece
// whenever the state is asked for and answered, which is when one is lost most easily.
type stream struct {
	hub    *Hub
	key    conversation.SessionKey
	text   string
	during func() // between the state and its answer
}

func (s *stream) View(key conversation.SessionKey, _ conversation.UserID, done func(conversation.View, error)) {
	v := conversation.View{Key: key, Head: 5, Drafts: []conversation.DraftView{{Draft: "1.1.0", Text: s.text}}}
	if s.during != nil {
		s.during()
	}
	done(v, nil)
}

func (*stream) Records(context.Context, conversation.SessionKey, conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(func(conversation.Record, error) bool) {}
}

func (s *stream) write(text string) {
	at := utf8.RuneCountInString(s.text)
	s.text += text
	s.hub.Show(s.key, 1, 5, conversation.Delta{Draft: "1.1.0", At: at, Text: text})
}

// client puts a draft together as PROTOCOL.md says: a delta beyond what it has is a hole.
type client struct {
	t    *testing.T
	text string
}

func (c *client) take(payloads []string) {
	c.t.Helper()
	for _, p := range payloads {
		var f struct {
			Type string
			Data struct {
				At   int
				Text string
			}
		}
		if err := json.Unmarshal([]byte(p), &f); err != nil {
			c.t.Fatal(err)
		}
		switch have := utf8.RuneCountInString(c.text); {
		case f.Type == "draft_state":
			c.text = f.Data.Text
		case f.Type == "delta" && f.Data.At > have:
			c.t.Fatalf("a delta at %d, the client has %d", f.Data.At, have)
		case f.Type == "delta":
			c.text = string([]rune(c.text)[:f.Data.At]) + f.Data.Text
		}
	}
}

// Deltas that are shown while a follow begins are neither lost nor shown before the text
// that they continue. PROTOCOL.md, rule 4.4.
func TestDeltasBesideTheBegin(t *testing.T) {
	hub := NewHub(nil)
	s := &stream{hub: hub, key: gatewaytest.Key("s1"), text: "one "}
	passing := 3
	s.during = func() {
		if passing--; passing >= 0 {
			s.write("é ")
		}
	}
	q := hub.NewNotifyingQueue(s, protocol.DefaultLimits(), func() {})
	f := q.NewSubscription(Options{Key: s.key, Drafts: true})
	f.Follow(func(v conversation.View, _ error) (Start, error) { return Start{Since: v.Head}, nil })
	c := &client{t: t}
	c.take(drain(q))
	if c.text != s.text {
		t.Errorf("the client has %q, the draft is %q", c.text, s.text)
	}
	s.write("two")
	if c.take(drain(q)); c.text != s.text {
		t.Errorf("the client has %q, the draft is %q", c.text, s.text)
	}
}

// A client that reads when it likes has the whole draft at last, whatever found no room, was
// merged, or came before its event, and never sees a hole on the way.
func TestDraftOfSlowClient(t *testing.T) {
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		hub := NewHub(nil)
		s := &stream{hub: hub, key: gatewaytest.Key("s1")}
		s.during = func() {
			if rnd.IntN(4) == 0 {
				s.write("during ")
			}
		}
		q := hub.NewNotifyingQueue(s, protocol.Limits{QueueFrames: 8, QueueBytes: 700, ReplayPage: 10}, func() {})
		f := q.NewSubscription(Options{Key: s.key, Drafts: true})
		f.Follow(func(v conversation.View, _ error) (Start, error) { return Start{Since: v.Head}, nil })
		c := &client{t: t}
		for range 200 {
			if rnd.IntN(3) > 0 {
				s.write(strings.Repeat("ä", 1+rnd.IntN(30)))
			} else {
				hub.Show(s.key, 1, 5, conversation.Progress{Call: "c1", Note: "n"})
			}
			if q.bytes > 700+300 {
				t.Fatalf("%d bytes wait", q.bytes)
			}
			if rnd.IntN(8) == 0 {
				c.take(payloads(q.Take(t.Context(), nil)))
			}
		}
		s.during = nil
		for {
			taken := q.Take(t.Context(), nil)
			if taken.Frames == 0 {
				break
			}
			c.take(payloads(taken))
		}
		if c.text != s.text {
			t.Fatalf("seed %d: the client has %d code points of %d", seed, utf8.RuneCountInString(c.text), utf8.RuneCountInString(s.text))
		}
		if q.bytes != 0 || q.frames != 0 {
			t.Fatalf("seed %d: an empty queue counts %d frames, %d bytes", seed, q.frames, q.bytes)
		}
	}
}

// payloads takes t apart.
func payloads(t Taken) (list []string) {
	for b := t.Data; len(b) > 0; {
		var p []byte
		_, p, b = protocol.NextFrame(b)
		list = append(list, string(p))
	}
	return list
}

// A delta that comes before the event that it follows is not lost.
func TestDeltaBeforeItsEvent(t *testing.T) {
	hub := NewHub(nil)
	s := &stream{hub: hub, key: gatewaytest.Key("s1")}
	q := hub.NewNotifyingQueue(s, protocol.DefaultLimits(), func() {})
	f := &Subscription{queue: q, key: s.key, drafts: drafts{wanted: true}, phase: phaseLive, synced: true, cursor: 4, until: 4}
	hub.add(f)
	s.write("early")
	hub.Publish(s.key, 1, []conversation.Event{{Seq: 5, Body: conversation.SessionClosed{}}})
	c := &client{t: t}
	for taken := q.Take(t.Context(), nil); taken.Frames > 0; taken = q.Take(t.Context(), nil) {
		c.take(payloads(taken))
	}
	if c.text != "early" {
		t.Errorf("the client has %q", c.text)
	}
}

// The text of a writer that another one has replaced while the state was asked for is not
// shown behind the events of the new one; that of the attempt which still streams is.
func TestViewOfAReplacedWriter(t *testing.T) {
	for name, c := range map[string]struct {
		begins conversation.EventBody
		shown  string
	}{
		"its attempt is over": {conversation.StepStarted{Step: 1, Attempt: 2}, ""},
		"it goes on":          {conversation.SessionClosed{}, "early"},
	} {
		t.Run(name, func(t *testing.T) {
			hub := NewHub(nil)
			s := &stream{hub: hub, key: gatewaytest.Key("s1"), text: "early"}
			q := hub.NewNotifyingQueue(s, protocol.DefaultLimits(), func() {})
			f := &Subscription{queue: q, key: s.key, drafts: drafts{wanted: true}, phase: phaseLive, synced: true, cursor: 5, until: 5}
			hub.add(f)
			s.during = func() { hub.Publish(s.key, 2, []conversation.Event{{Seq: 6, Body: c.begins}}) }
			hub.Missed(s.key)
			text := &client{t: t}
			for taken := q.Take(t.Context(), nil); taken.Frames > 0; taken = q.Take(t.Context(), nil) {
				text.take(payloads(taken))
			}
			if text.text != c.shown {
				t.Errorf("the client has %q, want %q", text.text, c.shown)
			}
		})
	}
}
