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
	hub   *heard
	tally *tally
	full  bool // nothing can be sent
	log   *bytes.Buffer
}

// heard is a hub that writes down which drafts it is to show, and to drop.
type heard struct {
	*fanout.Hub
	drafts []string
}

func (h *heard) Show(key conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq, e conversation.Ephemeral) {
	switch d := e.(type) {
	case conversation.Delta:
		h.drafts = append(h.drafts, fmt.Sprint(key.Session, " ", d.Draft))
	case conversation.DraftDropped:
		h.drafts = append(h.drafts, fmt.Sprint(key.Session, " drops ", d.Draft))
	}
	h.Hub.Show(key, epoch, after, e)
}

func alone(t testing.TB) *lone {
	l := &lone{owner: memberOf("b"), sent: map[conversation.Member][]message{}, hub: &heard{Hub: fanout.NewHub(nil)}, tally: newTally(), log: &bytes.Buffer{}}
	l.Relay = New(Options{
		Self: memberOf("a"), Lease: 5 * time.Second, Hub: l.hub, Log: slog.New(slog.NewTextHandler(l.log, nil)),
		Owner: func(conversation.SessionKey) (conversation.Member, bool) { return l.owner, true },
		Alive: func(conversation.Member) bool { return true },
		Holds: func() bool { return true },
		Meter: l.tally,
		Send: func(to conversation.Member, body []byte) bool {
			if l.full {
				return false
			}
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

// Text of a writer is dropped when a newer one is heard of, and what comes of it afterwards is not
// shown. The hub looks at this as well, but does not hear of all that the relay knows.
func TestOlderWriter(t *testing.T) {
	l, s := alone(t), keyOf("s")
	l.Followed(s)
	l.Receive(l.owner, (&message{kind: kindRenewed, id: l.sent[l.owner][0].id}).append(nil))
	says := func(epoch conversation.Epoch, draft conversation.DraftID) {
		e := wire.AppendEphemeral(nil, conversation.Delta{Draft: draft, Text: "text"})
		l.Receive(l.owner, (&message{kind: kindEphemeral, key: s, epoch: epoch, body: e}).append(nil))
	}
	says(1, "1.1.0")
	says(2, "2.1.0")
	says(1, "1.2.0") // late
	says(2, "2.2.0")
	if got, want := l.hub.drafts, []string{"s 1.1.0", "s drops 1.1.0", "s 2.1.0", "s 2.2.0"}; !slices.Equal(got, want) {
		t.Errorf("shown are %q, want %q", got, want)
	}
	if f := l.follows[s]; len(f.drafts) != 2 || f.epoch != 2 {
		t.Errorf("drafts %v of the writer %d are noted", f.drafts, f.epoch)
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
