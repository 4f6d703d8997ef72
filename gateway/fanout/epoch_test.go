package fanout

import (
	"context"
	"strings"
	"sync"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
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

// What a writer has written can be read from the log before anything of it comes to the hub. Behind it
// no text is shown of an attempt that is over; of the one that goes on, all is.
func TestTextBehindTheLog(t *testing.T) {
	for name, c := range map[string]struct {
		ends  conversation.EventBody
		draft conversation.DraftID
		shown bool
	}{
		"the attempt before":        {conversation.StepStarted{Step: 12, Attempt: 2}, "12.1.0", false},
		"the step before":           {conversation.StepStarted{Step: 12, Attempt: 1}, "11.4.0", false},
		"the attempt of now":        {conversation.StepStarted{Step: 12, Attempt: 2}, "12.2.0", true},
		"an attempt that has ended": {conversation.StepFinished{Step: 12, Attempt: 2}, "12.2.1", false},
		"the next step":             {conversation.StepFinished{Step: 9, Attempt: 2}, "10.1.0", true},
		"nothing ends":              {conversation.SessionClosed{}, "1.1.0", true},
	} {
		t.Run(name, func(t *testing.T) {
			log := &storedLog{head: 1, records: []conversation.Record{record(1)}}
			hub, key := NewHub(nil), gatewaytest.Key("s1")
			s, _, err := hub.Subscribe(t.Context(), log, protocol.DefaultLimits(), Options{Key: key, Drafts: true, Values: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			if seqs, _ := shown(s); len(seqs) != 1 {
				t.Fatalf("shown %v", seqs)
			}
			log.records = append(log.records, conversation.Record{Events: []conversation.Event{{Seq: 2, Body: c.ends}}})
			hub.Stored(key, 0, 2) // by who has looked into the store
			if seqs, _ := shown(s); len(seqs) != 1 {
				t.Fatalf("shown %v", seqs)
			}
			hub.Show(key, 6, 1, conversation.Delta{Draft: c.draft, Text: "late"})
			stopped, stop := context.WithCancel(t.Context())
			stop()
			if d, _ := s.Next(stopped); (d.Ephemeral != nil) != c.shown {
				t.Errorf("shown %+v", d)
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
