package registry

import (
	"fmt"
	"slices"
	"testing"

	"github.com/asynkron/protoactor-go/actor"

	"parley/conversation"
)

// mailboxes is a registry whose actors only keep what they are sent.
func mailboxes() (*Registry, map[*actor.PID][]string) {
	got := map[*actor.PID][]string{}
	spawn := func(key conversation.SessionKey) *actor.PID { return actor.NewPID("here", string(key.Session)) }
	return New(spawn, func(pid *actor.PID, m any) { got[pid] = append(got[pid], fmt.Sprint(m)) }), got
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
	r.Remove(a, actor.NewPID("here", "an earlier one"))
	if r.Actor(a) != first {
		t.Error("removed by an actor that is not the session's")
	}
	r.Remove(a, first)
	if r.Actor(a) != nil || !r.Deliver(a, 3, true) || r.Actor(a) == first {
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
	r.Remove(root, r.Actor(root))
	if closed(empty) {
		t.Error("empty although the sub-session is there")
	}
	r.Remove(sub, r.Actor(sub))
	if !closed(empty) || !closed(again) {
		t.Error("not empty although all have gone")
	}
	r.Unblock(root)
	if r.Deliver(root, "lost", true) {
		t.Error("the second block has ended with the first")
	}
	r.Unblock(root)
	if !r.Deliver(root, "hello", true) {
		t.Error("still blocked")
	}
	if !closed(r.Block(key("cccccccccccccccc"), "go")) {
		t.Error("a tree without actors is empty at once")
	}
}
