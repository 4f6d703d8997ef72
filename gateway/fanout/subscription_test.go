package fanout

import (
	"context"
	"encoding/json"
	"errors"
	"iter"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// queueOf is a live subscription whose writer never comes.
func queueOf(frames int) (*Hub, *Subscription) {
	m := metrics.NewGateway(prometheus.NewRegistry())
	hub := NewHub(m)
	out := hub.NewQueue(nil, protocol.Limits{QueueFrames: frames, QueueBytes: 1 << 20})
	f := &Subscription{queue: out, key: gatewaytest.Key("s1"), drafts: drafts{wanted: true}, phase: phaseLive, synced: true, cursor: 5, until: 5}
	hub.add(f)
	return hub, f
}

// drain takes everything that waits, as payloads.
func drain(o *Queue) (payloads []string) {
	for {
		t := o.take(nil) // without reading the log
		if t.Frames == 0 {
			return payloads
		}
		for b := t.Data; len(b) > 0; {
			var p []byte
			_, p, b = protocol.NextFrame(b)
			payloads = append(payloads, string(p))
		}
	}
}

// Over half of the queue deltas of a draft merge, and what may be missed is dropped.
// PROTOCOL.md, rule 5.7.
func TestHalfFull(t *testing.T) {
	hub, f := queueOf(10)
	want := ""
	for i := range 100 {
		text := string(rune('a' + i%26))
		hub.Show(f.key, 1, 5, conversation.Delta{Draft: "1.1.0", At: len(want), Text: text})
		want += text
		hub.Show(f.key, 1, 5, conversation.Progress{Call: "c1", Note: "n"})
	}
	got, frames := "", drain(f.queue)
	if len(frames) > 10 {
		t.Errorf("%d frames wait, the limit is 10", len(frames))
	}
	for _, p := range frames {
		var d struct {
			Type string
			Data struct {
				At   int
				Text string
			}
		}
		if err := json.Unmarshal([]byte(p), &d); err != nil {
			t.Fatal(err)
		}
		if d.Type != "delta" {
			continue
		}
		if d.Data.At != len(got) {
			t.Errorf("a delta at %d after %d characters", d.Data.At, len(got))
		}
		got += d.Data.Text
	}
	if got != want {
		t.Errorf("the deltas say %q, want %q", got, want)
	}
}

// A delta is never merged across an event, nor into another draft, nor over a hole.
func TestMergeOnlyWhatBelongsTogether(t *testing.T) {
	hub, f := queueOf(4)
	hub.Show(f.key, 1, 5, conversation.Delta{Draft: "1.1.0", At: 0, Text: "a"})
	hub.Show(f.key, 1, 5, conversation.Delta{Draft: "1.1.1", At: 0, Text: "x"})
	hub.Publish(f.key, 1, []conversation.Event{{Seq: 6, Body: conversation.SessionClosed{}}})
	hub.Show(f.key, 1, 6, conversation.Delta{Draft: "1.1.0", At: 1, Text: "b"})
	hub.Show(f.key, 1, 5, conversation.Delta{Draft: "1.1.1", At: 7, Text: "y"})
	got := strings.Join(drain(f.queue), "\n")
	for _, p := range []string{`"at":0,"text":"a"`, `"at":0,"text":"x"`, `"at":1,"text":"b"`} {
		if !strings.Contains(got, p) {
			t.Errorf("no %s in\n%s", p, got)
		}
	}
	if strings.Contains(got, "xy") || strings.Contains(got, "ab") {
		t.Errorf("merged over a hole:\n%s", got)
	}
}

// What is stored behind a live subscription is read from the log, although nothing is
// published behind it; what the subscription has is not read again.
func TestStoredBehindLiveSubscription(t *testing.T) {
	hub, f := queueOf(10)
	hub.Stored(f.key, 1, 5)
	if f.phase != phaseLive || len(f.queue.replays) != 0 {
		t.Error("the subscription reads what it has")
	}
	hub.Stored(f.key, 1, 7)
	if f.phase != phaseReplay || f.until != 7 || len(f.queue.replays) != 1 {
		t.Errorf("state %d, until %d, %d subscriptions are read for", f.phase, f.until, len(f.queue.replays))
	}
	f.queue.replays = nil // the writer has read up to 7, and waits
	f.cursor = 7
	hub.Stored(f.key, 1, 7)
	if len(f.queue.replays) != 0 {
		t.Error("the subscription reads what it has")
	}
	hub.Stored(f.key, 1, 9)
	if f.until != 9 || len(f.queue.replays) != 1 {
		t.Errorf("until %d, %d subscriptions are read for", f.until, len(f.queue.replays))
	}
}

// Nothing ephemeral is shown before the event that it came after.
// PROTOCOL.md, rule 4.1.
func TestNeverBeforeItsEvent(t *testing.T) {
	hub, f := queueOf(10)
	hub.Show(f.key, 1, 6, conversation.Thinking{Step: 1})
	if got := drain(f.queue); len(got) != 0 {
		t.Errorf("shown: %v", got)
	}
	hub.Publish(f.key, 1, []conversation.Event{{Seq: 6, Body: conversation.SessionClosed{}}})
	hub.Show(f.key, 1, 6, conversation.Thinking{Step: 1})
	if got := drain(f.queue); len(got) != 2 {
		t.Errorf("shown: %v", got)
	}
}

// Events that come again are dropped; a gap is filled from the log, not shown.
func TestOverlapAndGap(t *testing.T) {
	hub, f := queueOf(10)
	closed := func(seqs ...conversation.Seq) (events []conversation.Event) {
		for _, s := range seqs {
			events = append(events, conversation.Event{Seq: s, Body: conversation.SessionClosed{}})
		}
		return events
	}
	hub.Publish(f.key, 1, closed(4, 5))
	if got := drain(f.queue); len(got) != 0 || f.phase != phaseLive {
		t.Errorf("again: %v", got)
	}
	hub.Publish(f.key, 1, closed(7))
	if got := drain(f.queue); len(got) != 0 || f.phase != phaseReplay || f.until != 7 {
		t.Errorf("a gap: %v, state %d", got, f.phase)
	}
}

// The same bytes go to every subscription: an event is encoded once.
func TestEncodedOnce(t *testing.T) {
	hub, f := queueOf(10)
	other := &Subscription{queue: hub.NewQueue(nil, protocol.DefaultLimits()), key: f.key, phase: phaseLive, synced: true, cursor: 5}
	blind := &Subscription{queue: hub.NewQueue(nil, protocol.DefaultLimits()), key: f.key, phase: phaseLive, synced: true, cursor: 5}
	blind.SetRedact(true)
	hub.add(other)
	hub.add(blind)
	hub.Publish(f.key, 1, []conversation.Event{{Seq: 6, Body: conversation.ToolFinished{Summary: "secret"}}})
	hub.Publish(f.key, 1, []conversation.Event{{Seq: 7, Body: conversation.SessionClosed{}}})
	for i := range 2 {
		a, b, c := &f.queue.at(i).data[0], &other.queue.at(i).data[0], &blind.queue.at(i).data[0]
		if a != b {
			t.Errorf("item %d was encoded for each", i)
		}
		if same := a == c; same != (i == 1) {
			t.Errorf("item %d: redacted and whole are the same: %v", i, same)
		}
	}
}

// erasing is an engine whose sessions are erased while they are asked for.
type erasing struct{ hub *Hub }

func (e erasing) View(key conversation.SessionKey, _ conversation.UserID, done func(conversation.View, error)) {
	e.hub.Gone(key, "erased")
	done(conversation.View{Key: key}, nil)
}

func (erasing) Records(context.Context, conversation.SessionKey, conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(func(conversation.Record, error) bool) {}
}

// A session that is erased before its subscription has begun is gone, too.
func TestGoneBeforeTheBegin(t *testing.T) {
	h := NewHub(nil)
	s, _, err := h.Subscribe(t.Context(), erasing{h}, protocol.DefaultLimits(), Options{Key: conversation.SessionKey{Session: "s1"}, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if d, err := s.Next(t.Context()); err != nil || !d.Gone || d.Reason != "erased" {
		t.Errorf("%+v, %v", d, err)
	}
	if _, err := s.Next(t.Context()); !errors.Is(err, ErrEnded) {
		t.Errorf("and then %v", err)
	}
}

// patient is an engine whose log comes only to who waits for it.
type patient struct{ *gatewaytest.Sessions }

func (p *patient) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		if err := ctx.Err(); err != nil {
			yield(conversation.Record{}, err)
			return
		}
		for record, err := range p.Sessions.Records(ctx, key, r) {
			if !yield(record, err) {
				return
			}
		}
	}
}

// Who takes may stop in the middle of reading the log, and come again.
func TestNextGoesOnAfterItsContext(t *testing.T) {
	h := NewHub(nil)
	sessions := gatewaytest.NewSessions(h)
	defer sessions.Close()
	key := sessions.Open("s1", "local")
	s, _, err := h.Subscribe(t.Context(), &patient{sessions}, protocol.DefaultLimits(), Options{Key: key, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	hurried, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Next(hurried); !errors.Is(err, context.Canceled) {
		t.Fatalf("in a hurry: %v", err)
	}
	if d, err := s.Next(t.Context()); err != nil || len(d.Events) != 1 {
		t.Errorf("and then %+v, %v", d, err)
	}
}

// A queue without a taker of its own says once that there is something to take, and
// again after a take that gave nothing. It never reads the log unasked.
func TestNotifyingQueue(t *testing.T) {
	said := 0
	q := NewHub(nil).NewNotifyingQueue(nil, protocol.DefaultLimits(), func() { said++ })
	answer := func() { q.Answer(func(b []byte) []byte { return append(b, "{}"...) }) }
	steps := []struct {
		name string
		do   func() Taken
		said int
		want Taken // without Data
	}{
		{"two answers", func() Taken { answer(); answer(); return Taken{} }, 1, Taken{}},
		{"both are taken at once", func() Taken { return q.TakeQueued(nil) }, 1, Taken{Frames: 2}},
		{"another one before the taker waits", func() Taken { answer(); return q.TakeQueued(nil) }, 1, Taken{Frames: 1}},
		{"nothing", func() Taken { return q.TakeQueued(nil) }, 1, Taken{}},
		{"another one", func() Taken { answer(); return Taken{} }, 2, Taken{}},
		{"it is taken", func() Taken { return q.TakeQueued(nil) }, 2, Taken{Frames: 1}},
		{"a subscription is behind", func() Taken {
			s := q.NewSubscription(Options{Key: gatewaytest.Key("s1")})
			s.start(Start{}, conversation.View{Head: 3})
			return q.TakeQueued(nil)
		}, 2, Taken{Behind: true}},
		{"and is left to Take", func() Taken { return q.TakeQueued(nil) }, 2, Taken{Behind: true}},
		{"the end", func() Taken { q.Abandon(); q.next = nil; return q.TakeQueued(nil) }, 2, Taken{Ended: true}},
		{"nothing after it", func() Taken { answer(); return q.TakeQueued(nil) }, 2, Taken{Ended: true}},
	}
	for _, step := range steps {
		got := step.do()
		got.Data = nil
		if !reflect.DeepEqual(got, step.want) || said != step.said {
			t.Fatalf("%s: %+v, said %d times; want %+v and %d", step.name, got, said, step.want, step.said)
		}
	}
}

// Pongs that nobody takes wait in order until the queue is half full; then the newest
// takes the place of those before it.
func TestPongsTakeNoRoom(t *testing.T) {
	q := NewHub(nil).NewNotifyingQueue(nil, protocol.Limits{QueueFrames: 8, QueueBytes: 1 << 20}, func() {})
	for i := range 1000 {
		q.Pong([]byte(strconv.Itoa(i)))
	}
	q.Answer(func(b []byte) []byte { return append(b, "answer"...) })
	if q.frames > 8 {
		t.Errorf("%d frames wait", q.frames)
	}
	got, want := drain(q), []string{"0", "1", "2", "3", "4", "answer", "999"}
	if !slices.Equal(got, want) {
		t.Errorf("taken %v, want %v", got, want)
	}
}
