package fanout

import (
	"strings"
	"sync"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
)

// What a writer shows whom another one has replaced is dropped, whatever it is; what bears
// no epoch, and what is of the newest, is shown.
func TestReplacedWriterShowsNothing(t *testing.T) {
	nobody := conversation.Summary{Owner: "somebody else"}
	delta := conversation.Delta{Draft: "1.1.0", Text: "late"}
	for name, x := range map[string]struct {
		newer func(h *Hub, key conversation.SessionKey) // of epoch 7
		then  func(h *Hub, key conversation.SessionKey)
		want  []string
	}{
		"a delta behind events": {
			func(h *Hub, key conversation.SessionKey) { h.Publish(key, 7, record(6).Events) },
			func(h *Hub, key conversation.SessionKey) { h.Show(key, 6, 5, delta) },
			[]string{"session_closed"},
		},
		"a delta behind a head": {
			func(h *Hub, key conversation.SessionKey) { h.Stored(key, 7, 5) },
			func(h *Hub, key conversation.SessionKey) { h.Show(key, 6, 5, delta) }, nil,
		},
		"a delta behind a delta": {
			func(h *Hub, key conversation.SessionKey) {
				h.Show(key, 7, 5, conversation.Thinking{Agent: "coordinator", Step: 1})
			},
			func(h *Hub, key conversation.SessionKey) { h.Show(key, 6, 5, delta) }, []string{"thinking"},
		},
		"events": {
			func(h *Hub, key conversation.SessionKey) { h.Stored(key, 7, 5) },
			func(h *Hub, key conversation.SessionKey) { h.Publish(key, 6, record(6).Events) }, nil,
		},
		"an audience": {
			func(h *Hub, key conversation.SessionKey) { h.Stored(key, 7, 5) },
			func(h *Hub, key conversation.SessionKey) {
				h.Audience(key, 6, nobody)
				h.Show(key, 7, 5, delta)
			},
			[]string{"delta"},
		},
		"not the newest one": {
			func(h *Hub, key conversation.SessionKey) { h.Stored(key, 7, 5) },
			func(h *Hub, key conversation.SessionKey) { h.Show(key, 7, 5, delta) }, []string{"delta"},
		},
		"not a newer one": {
			func(h *Hub, key conversation.SessionKey) { h.Stored(key, 7, 5) },
			func(h *Hub, key conversation.SessionKey) { h.Publish(key, 8, record(6).Events) }, []string{"session_closed"},
		},
		"nor one of whom nothing is known": {
			func(h *Hub, key conversation.SessionKey) { h.Stored(key, 7, 5) },
			func(h *Hub, key conversation.SessionKey) { h.Show(key, 0, 5, conversation.Progress{Call: "c1"}) },
			[]string{"progress"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub, f := queueOf(10)
			f.as = "bob"
			x.newer(hub, f.key)
			x.then(hub, f.key)
			got := drain(f.queue)
			if len(got) != len(x.want) {
				t.Fatalf("shown %q, want %q", got, x.want)
			}
			for i, want := range x.want {
				if !strings.Contains(got[i], want) {
					t.Errorf("shown %q, want %q", got, x.want)
				}
			}
		})
	}
}

// Two writers publish at the same time: once the newer one was seen, nothing of the older
// one is behind it.
func TestWritersBesideEachOther(t *testing.T) {
	hub, f := queueOf(10_000)
	var both sync.WaitGroup
	for epoch := range conversation.Epoch(2) {
		both.Go(func() {
			for range 500 {
				hub.Show(f.key, epoch+1, 5, conversation.Thinking{Agent: "coordinator", Step: conversation.StepNumber(epoch + 1)})
			}
		})
	}
	both.Wait()
	hub.Show(f.key, 1, 5, conversation.Thinking{Step: 1})
	newer, older := 0, 0
	for _, frame := range drain(f.queue) {
		switch {
		case strings.Contains(frame, `"step":2`):
			newer++
		case newer > 0:
			older++
		}
	}
	if newer != 500 || older > 0 {
		t.Errorf("%d of 500 frames of the newer writer were shown, and %d of the older one behind them", newer, older)
	}
}

// Each session has writers of its own: a new one of a parent says nothing of its children's.
func TestEpochsOfATree(t *testing.T) {
	hub, f := queueOf(10)
	below := f.queue.NewSubscription(Options{Key: gatewaytest.Key("s1/d1")})
	below.phase = phaseLive
	hub.add(below)
	hub.Stored(f.key, 7, 5)
	hub.Show(below.key, 1, 0, conversation.Progress{Call: "c1"})
	if got := drain(f.queue); len(got) != 1 {
		t.Errorf("shown %q", got)
	}
}
