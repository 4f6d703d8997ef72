package fanout

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
)

// others stands in for the hubs of other nodes: it writes down what it is told.
type others struct {
	lines []string
	state conversation.View
}

func (o *others) Followed(key conversation.SessionKey) {
	o.lines = append(o.lines, fmt.Sprint("followed ", key.Session))
}

func (o *others) Unfollowed(key conversation.SessionKey) {
	o.lines = append(o.lines, fmt.Sprint("unfollowed ", key.Session))
}

func (o *others) View(key conversation.SessionKey, as conversation.UserID, done func(conversation.View, error)) {
	o.lines = append(o.lines, fmt.Sprint("view ", key.Session, " ", as))
	done(o.state, nil)
}

func (o *others) Typing(key conversation.SessionKey, after conversation.Seq, user conversation.UserID, on bool) {
	o.lines = append(o.lines, fmt.Sprint("typing ", key.Session, " ", after, " ", user, " ", on))
}

// Other nodes are told that a session is followed before they are asked for its state, once
// for all its followers, and again only when the last one has left.
func TestUpstreamHearsOfFollowers(t *testing.T) {
	follow := func(h *Hub, session string) *Subscription {
		s := h.NewQueue(nil, protocol.DefaultLimits()).NewSubscription(Options{Key: gatewaytest.Key(session), As: "ada", Drafts: true})
		s.Follow(func(v conversation.View, err error) (Start, error) { return Start{Since: v.Head}, err })
		return s
	}
	for name, x := range map[string]struct {
		do   func(h *Hub)
		want []string
	}{
		"one after the other": {
			func(h *Hub) {
				follow(h, "s1").Close()
				follow(h, "s1").End("bye")
			},
			[]string{"followed s1", "view s1 ada", "unfollowed s1", "followed s1", "view s1 ada", "unfollowed s1"},
		},
		"two at a time": {
			func(h *Hub) {
				a, b := follow(h, "s1"), follow(h, "s1")
				a.Close()
				a.Close()
				b.Close()
			},
			[]string{"followed s1", "view s1 ada", "view s1 ada", "unfollowed s1"},
		},
		"an erased tree": {
			func(h *Hub) {
				follow(h, "s1")
				follow(h, "s1/d1")
				h.Gone(gatewaytest.Key("s1"), "erased")
			},
			[]string{"followed s1", "view s1 ada", "followed s1/d1", "view s1/d1 ada", "unfollowed s1", "unfollowed s1/d1"},
		},
		"who may not read it any more": {
			func(h *Hub) {
				follow(h, "s1")
				h.Audience(gatewaytest.Key("s1"), 1, nobody)
			},
			[]string{"followed s1", "view s1 ada", "unfollowed s1"},
		},
		"somebody types": {
			func(h *Hub) { follow(h, "s1").Typing("ada", true) },
			[]string{"followed s1", "view s1 ada", "typing s1 5 ada true"},
		},
		"somebody types elsewhere": {
			func(h *Hub) {
				s := follow(h, "s1")
				h.Typing(s.key, 5, "bob", true)
				if got := drain(s.queue); len(got) != 2 || !strings.Contains(got[1], `"user":"bob"`) {
					t.Errorf("shown %q, want synced and typing", got)
				}
			},
			[]string{"followed s1", "view s1 ada"},
		},
		"text that was lost on the way is asked for where it streams": {
			func(h *Hub) {
				s := follow(h, "s1")
				h.Missed(s.key)
				s.queue.Take(t.Context(), nil) // what there is
				s.queue.Take(t.Context(), nil) // reads the log, and asks
			},
			[]string{"followed s1", "view s1 ada", "view s1 ada"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hub, up := NewHub(nil), &others{state: conversation.View{Head: 5}}
			hub.SetUpstream(up)
			x.do(hub)
			if !reflect.DeepEqual(up.lines, x.want) {
				t.Errorf("told %q, want %q", up.lines, x.want)
			}
		})
	}
}
