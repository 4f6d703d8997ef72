package relay

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/gateway/fanout"
)

func memberOf(name string) conversation.Member {
	return conversation.Member{Node: conversation.NodeID(name), Incarnation: 1}
}

// lone is the relay of node a, whose messages go nowhere: sent has them.
type lone struct {
	*Relay
	owner conversation.Member // of all sessions
	sent  map[conversation.Member][]message
	log   *bytes.Buffer
}

func alone(t testing.TB) *lone {
	l := &lone{owner: memberOf("b"), sent: map[conversation.Member][]message{}, log: &bytes.Buffer{}}
	l.Relay = New(Options{
		Self: memberOf("a"), Lease: 5 * time.Second, Hub: fanout.NewHub(nil), Log: slog.New(slog.NewTextHandler(l.log, nil)),
		Owner: func(conversation.SessionKey) (conversation.Member, bool) { return l.owner, true },
		Alive: func(conversation.Member) bool { return true },
		Holds: func() bool { return true },
		Send: func(to conversation.Member, body []byte) bool {
			var m message
			if err := m.read(bytes.Clone(body)); err != nil {
				t.Error(err)
			}
			l.sent[to] = append(l.sent[to], m)
			return true
		},
	})
	return l
}

// What is followed by the thousand is renewed in parts, and the answer to one part says nothing of
// the sessions in another: an event between the two would be shown to nobody.
func TestPartsOfRenewal(t *testing.T) {
	l := alone(t)
	for i := range perRenew + 1 {
		l.Followed(keyOf(fmt.Sprint("s", i)))
	}
	l.owner = memberOf("c")
	l.Changed()
	parts := l.sent[l.owner]
	if len(parts) != 2 || len(parts[0].entries)+len(parts[1].entries) != perRenew+1 {
		t.Fatalf("%d parts", len(parts))
	}
	for i, want := range []int{len(parts[1].entries), 0} {
		l.Receive(l.owner, (&message{kind: kindRenewed, id: parts[i].id}).append(nil))
		if got := len(l.unsure); got != want {
			t.Errorf("after %d answers %d sessions are unsure, want %d", i+1, got, want)
		}
	}
	clear(l.sent)
	l.renew()
	if got := len(l.sent[memberOf("b")]) + len(l.sent[l.owner]); got != 4 {
		t.Errorf("%d messages renew %d sessions at two nodes", got, perRenew+1)
	}
}

// What nobody reads from the store meanwhile is not asked for twice.
func TestChecksAreFew(t *testing.T) {
	l := alone(t)
	for i := range 10 {
		l.Followed(keyOf(fmt.Sprint("s", i)))
	}
	for range 100 {
		l.owner = memberOf(map[bool]string{true: "b", false: "c"}[l.owner.Node == "c"])
		l.Changed()
	}
	if len(l.checks) != 10 {
		t.Errorf("%d checks of 10 sessions wait", len(l.checks))
	}
}

// Messages that no node sends are logged, and change nothing.
func TestNonsense(t *testing.T) {
	naming := func(sessions int) *message {
		return &message{kind: kindRenew, entries: slices.Repeat([]entry{{key: keyOf("s")}}, sessions)}
	}
	for name, body := range map[string][]byte{
		"events without an event": (&message{kind: kindEvents, key: keyOf("s"), epoch: 1, body: wire.AppendRecord([]byte{}, conversation.Record{})}).append(nil),
		"events without a record": (&message{kind: kindEvents, key: keyOf("s"), epoch: 1}).append(nil),
		"an audience of nobody":   (&message{kind: kindAudience, key: keyOf("s"), epoch: 1, body: []byte{0xff}}).append(nil),
		"too many sessions":       naming(maxRenew + 1).append(nil),
		"no message":              {0xff},
	} {
		t.Run(name, func(t *testing.T) {
			l := alone(t)
			l.Followed(keyOf("s"))
			l.Receive(memberOf("b"), body)
			if !strings.Contains(l.log.String(), "cannot be read") {
				t.Error("nobody is told")
			}
			if f := l.follows[keyOf("s")]; f == nil || f.epoch > 1 || f.head != 0 || len(l.served) != 0 {
				t.Errorf("it changed something: %+v", f)
			}
		})
	}
	var read message
	if err := read.read(naming(maxRenew).append(nil)); err != nil || len(read.entries) != maxRenew {
		t.Errorf("as many as may be: %d, %v", len(read.entries), err)
	}
}

// Whatever another node says, the relay goes on.
func FuzzReceive(f *testing.F) {
	for k := kindRenew; k <= kindViewed; k++ {
		m := sample
		m.kind = k
		f.Add(m.append(nil))
	}
	f.Add((&message{kind: kindEvents, key: keyOf("s"), epoch: 1, body: []byte{}}).append(nil))
	f.Add((&message{kind: kindEphemeral, key: keyOf("s"), epoch: 1, body: wire.AppendEphemeral(nil, conversation.Delta{Draft: "d", Text: "x"})}).append(nil))
	f.Add((&message{kind: kindAudience, key: keyOf("s"), epoch: 1, body: wire.AppendSummary(nil, conversation.Summary{Owner: "ada"})}).append(nil))
	f.Fuzz(func(t *testing.T, body []byte) {
		l := alone(t)
		l.Serve(nothing{})
		l.Followed(keyOf("s"))
		l.View(keyOf("s"), "ada", func(conversation.View, error) {})
		l.Receive(memberOf("b"), body)
		l.renew()
		l.sweep()
		l.Changed()
		l.Unfollowed(keyOf("s"))
		for id := range l.asked {
			l.viewFailed(id)
		}
	})
}

// nothing is the engine of a node without sessions.
type nothing struct{}

func (nothing) View(_ conversation.SessionKey, _ conversation.UserID, done func(conversation.View, error)) {
	done(conversation.View{}, conversation.ErrNotFound)
}

func (nothing) Summary(context.Context, conversation.SessionKey) (conversation.Summary, error) {
	return conversation.Summary{}, conversation.ErrNotFound
}

func (nothing) Holds(conversation.SessionKey) bool { return false }
