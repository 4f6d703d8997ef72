package fanout

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
)

// interrupted is an engine in which something happens while a session's state is asked for.
type interrupted struct{ meanwhile func() }

func (i interrupted) View(key conversation.SessionKey, _ conversation.UserID, done func(conversation.View, error)) {
	i.meanwhile()
	done(conversation.View{Key: key, Head: 3, Title: "secret"}, nil)
}

func (interrupted) Records(context.Context, conversation.SessionKey, conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(func(conversation.Record, error) bool) {}
}

var (
	nobody   = conversation.Summary{Owner: "ann"} // but its owner
	everyone = conversation.Summary{Owner: "ann", Access: conversation.AccessTenant}
)

// A follow that is being set up while its user loses the session: before the state has
// come it is refused, after that it gets its answer and then the end. The last word
// counts. Nobody stays in the hub who may not.
func TestAudienceDuringFollow(t *testing.T) {
	key := gatewaytest.Key("s1")
	for _, x := range []struct {
		name   string
		before []conversation.Summary // while the state is asked for
		after  []conversation.Summary // when it has come, before the follow has begun
		code   conversation.Code      // of the answer
		frames []string               // what the client is sent
		left   int                    // who follows at the end
	}{
		{"nothing happens", nil, nil, "", []string{"answer", `"synced"`}, 1},
		{"lost before the state", []conversation.Summary{nobody}, nil, conversation.NotFound, nil, 0},
		{"lost after the state", nil, []conversation.Summary{nobody}, "", []string{"answer", `"gone","session":"s1","after":3,"data":{"reason":"forbidden"}`}, 0},
		{"lost and given back", []conversation.Summary{nobody, everyone}, nil, "", []string{"answer", `"synced"`}, 1},
		{"given back later", []conversation.Summary{nobody}, []conversation.Summary{everyone}, conversation.NotFound, nil, 0},
		{"lost again", []conversation.Summary{nobody, everyone}, []conversation.Summary{nobody}, "", []string{"answer", `"gone"`}, 0},
	} {
		t.Run(x.name, func(t *testing.T) {
			hub := NewHub(nil)
			say := func(words []conversation.Summary) {
				for _, now := range words {
					hub.Audience(key, 1, now)
				}
			}
			q := hub.NewQueue(interrupted{func() { say(x.before) }}, protocol.DefaultLimits())
			var code conversation.Code
			q.NewSubscription(Options{Key: key, As: "bob"}).Follow(func(v conversation.View, err error) (Start, error) {
				if err != nil {
					code = conversation.AsError(err).Code
					if v.Title != "" {
						t.Errorf("who was refused got %+v", v)
					}
				}
				say(x.after)
				return Start{Since: 3, Answer: func(b []byte) []byte { return append(b, "answer"...) }}, err
			})
			if code != x.code {
				t.Errorf("answered %q, want %q", code, x.code)
			}
			hub.Publish(key, 1, []conversation.Event{{Seq: 4, Body: conversation.SessionClosed{Reason: "secret"}}})
			got := drain(q)
			if x.left > 0 {
				x.frames = append(slices.Clone(x.frames), "session_closed")
			}
			if len(got) != len(x.frames) {
				t.Fatalf("sent %q, want %q", got, x.frames)
			}
			for i, want := range x.frames {
				if !strings.Contains(got[i], want) {
					t.Errorf("sent %q, want %q", got[i], want)
				}
			}
			if n := len(hub.shard(key).topics[key].followers); n != x.left {
				t.Errorf("%d follow, want %d", n, x.left)
			}
		})
	}
}

// The same of a subscription whose owner waits for it, as a request with ?wait does.
func TestAudienceDuringSubscribe(t *testing.T) {
	hub := NewHub(nil)
	key := gatewaytest.Key("s1")
	o := Options{Key: key, As: "bob", Values: true}
	_, _, err := hub.Subscribe(t.Context(), interrupted{func() { hub.Audience(key, 1, nobody) }}, protocol.DefaultLimits(), o)
	if e := conversation.AsError(err); e == nil || e.Code != conversation.NotFound {
		t.Errorf("%v", err)
	}
	s, _, err := hub.Subscribe(t.Context(), interrupted{func() {}}, protocol.DefaultLimits(), o)
	if err != nil {
		t.Fatal(err)
	}
	hub.Audience(key, 1, nobody)
	for range 5 {
		d, err := s.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if d.Gone && d.Reason == ReasonForbidden {
			return
		}
	}
	t.Error("it does not end")
}

// The feeds of a tree end, each in every phase, and nobody else's. Runtimes stay.
func TestAudienceOfATree(t *testing.T) {
	hub := NewHub(nil)
	follow := func(tenant conversation.TenantID, session conversation.SessionID, as conversation.UserID, p phase) *Subscription {
		q := hub.NewQueue(nil, protocol.DefaultLimits())
		s := q.NewSubscription(Options{Key: conversation.SessionKey{Tenant: tenant, Session: session}, As: as})
		s.phase, s.cursor, s.until = p, 5, 5
		if p == phaseReplay {
			q.replays = append(q.replays, s)
		}
		hub.add(s)
		return s
	}
	ended := []*Subscription{
		follow("acme", "s", "bob", phaseLive), follow("acme", "s", "bob", phaseReplay),
		follow("acme", "s/d1", "bob", phaseLive), follow("acme", "s/d1/d7", "bob", phaseReplay),
	}
	stay := []*Subscription{
		follow("acme", "s", "ann", phaseLive), follow("acme", "s/d1", "ann", phaseReplay), follow("acme", "s", "", phaseLive),
		follow("acme", "s", "bob", phaseWaiting),
		follow("acme", "s2", "bob", phaseLive), follow("acme", "s2/d1", "bob", phaseLive), follow("beta", "s", "bob", phaseLive), follow("beta", "s/d1", "bob", phaseLive),
	}
	for range 2 { // again it changes nothing
		hub.Audience(conversation.SessionKey{Tenant: "acme", Session: "s"}, 1, nobody)
	}
	for _, s := range ended {
		if got := drain(s.queue); !s.Ended() || len(s.queue.replays) > 0 || len(got) != 1 || !strings.Contains(got[0], `"after":5,"data":{"reason":"forbidden"}`) {
			t.Errorf("%s as %s: %v %q", s.key, s.as, s.Ended(), got)
		}
	}
	for _, s := range stay {
		if got := drain(s.queue); s.Ended() || len(got) > 0 {
			t.Errorf("%s as %s: %v %q", s.key, s.as, s.Ended(), got)
		}
	}
	for _, s := range slices.Concat(ended, stay) {
		s.Close()
	}
	for i := range hub.shards {
		if s := &hub.shards[i]; len(s.topics)+len(s.below) > 0 {
			t.Errorf("left over: %v %v", s.topics, s.below)
		}
	}
}

// An audience is asked beside follows that begin and end: at the end nobody follows who
// may not.
func TestAudienceBesideFollows(t *testing.T) {
	hub := NewHub(nil)
	key := gatewaytest.Key("s1")
	done := make(chan struct{})
	var all []*Subscription
	go func() {
		defer close(done)
		for range 500 {
			q := hub.NewQueue(interrupted{func() {}}, protocol.DefaultLimits())
			s := q.NewSubscription(Options{Key: key, As: "bob"})
			s.Follow(func(v conversation.View, err error) (Start, error) { return Start{Since: v.Head}, err })
			all = append(all, s)
		}
	}()
	for range 500 {
		hub.Audience(key, 1, nobody)
		hub.Publish(key, 1, []conversation.Event{{Seq: 4, Body: conversation.SessionClosed{}}})
	}
	<-done
	hub.Audience(key, 1, nobody)
	for _, s := range all {
		if !s.Ended() {
			t.Fatal("one follows still")
		}
	}
	if n := len(hub.shard(key).topics); n > 0 {
		t.Errorf("%d sessions are followed", n)
	}
}
