package registry

import (
	"fmt"
	"reflect"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// mailboxes is a registry whose actors only keep what they are sent.
func mailboxes() (*Registry, map[*actor.PID][]string) {
	got := map[*actor.PID][]string{}
	spawn := func(key conversation.SessionKey, _ bool, first ...any) *actor.PID {
		pid := actor.NewPID("here", string(key.Session))
		for _, m := range first {
			got[pid] = append(got[pid], fmt.Sprint(m))
		}
		return pid
	}
	return New(spawn, func(pid *actor.PID, m any) { got[pid] = append(got[pid], fmt.Sprint(m)) }, 3), got
}

// end takes a session's actor out and ends it.
func end(r *Registry, key conversation.SessionKey) {
	pid := r.Actor(key)
	r.Leave(key, pid)
	r.Left(key, pid)
}

func key(session string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(session)}
}

func TestDeliver(t *testing.T) {
	r, got := mailboxes()
	a := key("aaaaaaaaaaaaaaaa")
	if r.Deliver(a, "lost", false) || r.Actor(a) != nil {
		t.Error("delivered to a session that is not in memory")
	}
	if !r.Deliver(a, 1, true) || !r.Deliver(a, 2, false) || r.Count() != 1 {
		t.Error("not delivered")
	}
	first := r.Actor(a)
	r.Leave(a, actor.NewPID("here", "an earlier one"))
	if r.Actor(a) != first {
		t.Error("taken out by an actor that is not the session's")
	}
	end(r, a)
	if r.Actor(a) != nil || r.Count() != 0 || !r.Deliver(a, 3, true) || r.Actor(a) == first {
		t.Error("the next activation is not a new actor")
	}
	r.StopLoading()
	r.SendAll(4)
	if r.Deliver(key("bbbbbbbbbbbbbbbb"), "lost", true) || !r.Deliver(a, 5, true) {
		t.Error("StopLoading stops loading and nothing else")
	}
	r.Close()
	if r.Deliver(a, "lost", true) {
		t.Error("delivered although it is closed")
	}
	if second := r.Actor(a); !slices.Equal(got[first], []string{"1", "2"}) || !slices.Equal(got[second], []string{"3", "4", "5"}) {
		t.Errorf("delivered %v and %v", got[first], got[second])
	}
}

// A blocked tree can be left, not entered; other trees do not notice.
func TestBlock(t *testing.T) {
	r, got := mailboxes()
	root, sub, other := key("aaaaaaaaaaaaaaaa"), key("aaaaaaaaaaaaaaaa/d1"), key("bbbbbbbbbbbbbbbb")
	for _, k := range []conversation.SessionKey{root, sub, other} {
		r.Deliver(k, "begin", true)
	}
	closed := func(c <-chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	empty := r.Block(root, "go")
	again := r.Block(root, "go")
	if r.Deliver(sub, "lost", true) || !r.Deliver(other, "hello", false) {
		t.Error("a block keeps its own tree out, and no other")
	}
	if n := len(got[r.Actor(sub)]); n != 3 || len(got[r.Actor(other)]) != 2 {
		t.Errorf("the sub-session has got %v", got[r.Actor(sub)])
	}
	r.Leave(root, r.Actor(root))
	if closed(empty) {
		t.Error("empty although the sub-session is there")
	}
	r.Leave(sub, r.Actor(sub))
	if !closed(empty) || !closed(again) {
		t.Error("not empty although all have gone")
	}
	r.Unblock(root)
	if r.Deliver(root, "lost", true) {
		t.Error("the second block has ended with the first")
	}
	r.Unblock(root)
	if !r.Deliver(sub, "hello", true) || r.Actor(sub) != nil {
		t.Error("still blocked, or started before its last actor has ended")
	}
	if !closed(r.Block(key("cccccccccccccccc"), "go")) {
		t.Error("a tree without actors is empty at once")
	}
}

// While an actor ends, what is told to its session waits; the next actor gets what the
// ending one has handed back, and then what has waited.
func TestLeave(t *testing.T) {
	a := key("aaaaaaaaaaaaaaaa")
	for _, c := range []struct {
		name        string
		meanwhile   func(r *Registry)
		sent        []string // to the next actor; nil: there is none
		undelivered []any
	}{
		{"goes on", func(*Registry) {}, []string{"1", "2", "3", "4"}, nil},
		{"loading has stopped", (*Registry).StopLoading, nil, []any{1, 2, 3, 4}},
		{"closed", (*Registry).Close, nil, []any{1, 2, 3, 4}},
		{"blocked", func(r *Registry) { r.Block(a, "go") }, nil, []any{1, 2, 3, 4}},
		{"blocked for a while", func(r *Registry) { r.Block(a, "go"); r.Unblock(a) }, []string{"1", "2", "3", "4"}, nil},
		{"no actor can be started", func(r *Registry) { r.spawn = func(conversation.SessionKey, bool, ...any) *actor.PID { return nil } }, nil, []any{1, 2, 3, 4}},
	} {
		t.Run(c.name, func(t *testing.T) {
			r, got := mailboxes()
			r.Deliver(a, "begin", true)
			first := r.Actor(a)
			if r.Return(a, first, "early") || len(r.Left(a, first)) != 0 || r.Actor(a) != first {
				t.Error("it leaves before it says so")
			}
			r.Leave(a, first)
			if r.Actor(a) != nil || r.Count() != 1 || r.Deliver(a, "lost", false) {
				t.Error("it can be reached while it leaves")
			}
			if !r.Deliver(a, 3, true) || !r.Return(a, first, 1) || !r.Deliver(a, 4, true) || !r.Return(a, first, 2) {
				t.Error("nothing waits for the next one")
			}
			if other := actor.NewPID("here", "another one"); r.Return(a, other, "lost") || len(r.Left(a, other)) != 0 || r.Count() != 1 {
				t.Error("another actor ends it")
			}
			c.meanwhile(r)
			if undelivered := r.Left(a, first); !slices.Equal(undelivered, c.undelivered) {
				t.Errorf("undelivered %v", undelivered)
			}
			next := r.Actor(a)
			if (next != nil) != (c.sent != nil) || !slices.Equal(got[next], c.sent) || len(got[first]) != 1 {
				t.Errorf("the next one has got %v", got[next])
			}
			if r.Left(a, first) != nil || r.Count() != len(got)-1 {
				t.Error("it ends twice")
			}
		})
	}
	t.Run("nothing waits", func(t *testing.T) {
		r, got := mailboxes()
		r.Deliver(a, "begin", true)
		end(r, a)
		if r.Count() != 0 || len(got) != 1 {
			t.Errorf("%d sessions, %d actors", r.Count(), len(got))
		}
	})
	t.Run("too much waits", func(t *testing.T) {
		r, _ := mailboxes()
		r.Deliver(a, "begin", true)
		r.Leave(a, r.Actor(a))
		for i := range 4 {
			if r.Deliver(a, i, true) != (i < 3) {
				t.Errorf("message %d", i)
			}
		}
	})
}

// An actor is started with the messages that there are for it, and not sent them later:
// it may have ended by then.
func TestStartWithMessages(t *testing.T) {
	var started [][]any
	r := New(func(_ conversation.SessionKey, _ bool, first ...any) *actor.PID {
		started = append(started, first)
		return actor.NewPID("here", fmt.Sprint(len(started)))
	}, func(*actor.PID, any) { t.Error("sent behind the start") }, 3)
	a := key("aaaaaaaaaaaaaaaa")
	r.Deliver(a, 1, true)
	first := r.Actor(a)
	r.Leave(a, first)
	r.Deliver(a, 3, true)
	r.Return(a, first, 2)
	r.Left(a, first)
	if want := [][]any{{1}, {2, 3}}; !reflect.DeepEqual(started, want) {
		t.Errorf("started with %v, not %v", started, want)
	}
}

// BenchmarkDeliver measures the way of a message to a session that is in memory.
func BenchmarkDeliver(b *testing.B) {
	pid := actor.NewPID("here", "one")
	sent := 0
	r := New(func(conversation.SessionKey, bool, ...any) *actor.PID { return pid }, func(*actor.PID, any) { sent++ }, 1)
	keys := make([]conversation.SessionKey, 1000)
	for i := range keys {
		keys[i] = key(fmt.Sprintf("s%015d", i))
		r.Deliver(keys[i], "begin", true)
	}
	m := any(&sent)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		r.Deliver(keys[i%len(keys)], m, true)
	}
}

// A message to a tree reaches its sessions, and none of another tree that is kept
// beside it.
func TestSendTree(t *testing.T) {
	r, got := mailboxes()
	root, sub := key("aaaaaaaaaaaaaaaa"), key("aaaaaaaaaaaaaaaa/d1")
	other := key("0")
	for n := 1; r.shard(other) != r.shard(root); n++ {
		other = key(fmt.Sprint(n))
	}
	for _, k := range []conversation.SessionKey{root, sub, other} {
		r.Deliver(k, "load", true)
	}
	r.SendTree(root, "leave")
	for k, want := range map[conversation.SessionKey]int{root: 2, sub: 2, other: 1} {
		if n := len(got[r.Actor(k)]); n != want {
			t.Errorf("%s got %d messages, not %d", k.Session, n, want)
		}
	}
}
