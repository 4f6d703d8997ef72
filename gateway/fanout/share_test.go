package fanout

import (
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
)

// Followers who come back at once read the log once for all of them: those who are at
// the same event and are shown the same bytes.
func TestPagesAreShared(t *testing.T) {
	ignored := func(*Hub) {}
	for _, c := range []struct {
		name    string
		first   Options
		meant   func(*Hub) // between the first and the second
		second  Options
		reads   int
		brought int // frames, synced included
	}{
		{"the same page", Options{Since: 1}, ignored, Options{Since: 1}, 1, 5},
		{"another cursor", Options{Since: 1}, ignored, Options{Since: 2}, 2, 4},
		{"other bytes", Options{Since: 1}, ignored, Options{Since: 1, Redact: true}, 2, 5},
		{"with values", Options{Since: 1}, ignored, Options{Since: 1, Values: true}, 2, 5},
		{"of a session that was erased", Options{Since: 1}, func(h *Hub) { h.Gone(gatewaytest.Key("s1"), "erased") }, Options{Since: 1}, 2, 5},
		{"later", Options{Since: 1}, func(*Hub) { <-time.After(2 * shareFor) }, Options{Since: 1}, 2, 5},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reads := 0
				log := &storedLog{head: 5, records: []conversation.Record{record(1, 2, 3), record(4, 5)}, read: func() { reads++ }}
				hub := NewHub(nil)
				take := func(o Options) (frames int, bytes string) {
					o.Key = gatewaytest.Key("s1")
					s, _, err := hub.Subscribe(t.Context(), log, protocol.DefaultLimits(), o)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(s.Close)
					for taken := s.Queue().Take(t.Context(), nil); taken.Frames > 0; taken = s.Queue().Take(t.Context(), nil) {
						frames += taken.Frames
						bytes += string(taken.Data)
					}
					return frames, bytes
				}
				take(Options{Since: 5}) // somebody else follows: else nothing is kept
				_, first := take(c.first)
				c.meant(hub)
				frames, second := take(c.second)
				if reads != c.reads || frames != c.brought {
					t.Errorf("the log was read %d times, want %d; %d frames, want %d", reads, c.reads, frames, c.brought)
				}
				if c.second.Since == c.first.Since && first != second {
					t.Errorf("the first got %s\nthe second %s", first, second)
				}
				<-time.After(2 * shareFor)
				shard := hub.shard(gatewaytest.Key("s1"))
				shard.mu.Lock()
				defer shard.mu.Unlock()
				for _, p := range shard.share.pages {
					if p.page.frames != nil {
						t.Errorf("kept for ever: %s", p.page.frames)
					}
				}
			})
		})
	}
}

// A page that was read while its session was erased is not kept, even if the session is
// followed again.
func TestErasedPagesAreNotShared(t *testing.T) {
	log := &storedLog{records: []conversation.Record{record(1, 2, 3, 4, 5)}}
	s := behind(log, protocol.DefaultLimits())
	hub := s.queue.hub
	hub.add(s)
	log.read = func() {
		hub.Gone(s.key, "erased")
		for range 2 {
			hub.add(&Subscription{queue: hub.NewQueue(nil, protocol.DefaultLimits()), key: s.key})
		}
	}
	if _, err := s.replayPage(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, p := range hub.shard(s.key).share.pages {
		if p.page.frames != nil {
			t.Errorf("kept: %s", p.page.frames)
		}
	}
}
