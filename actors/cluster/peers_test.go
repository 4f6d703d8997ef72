package cluster

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors/cluster/internal/lanes"
	"parley/actors/cluster/internal/link"
	"parley/actors/cluster/internal/membership"
	"parley/actors/cluster/internal/speech"
	"parley/conversation"
	"parley/conversation/wire"
	"parley/metrics"
)

// answering is a carrier to a node that gives always the same answer.
type answering struct {
	carrier
	body []byte
}

func (a answering) Request(_ conversation.Member, _ link.Topic, _ []byte, _ time.Duration, done func([]byte, error)) {
	done(a.body, nil)
}

// lone is a node with as much as it needs to speak to one other.
func lone(t *testing.T) *Node {
	n := &Node{m: metrics.NewCluster(prometheus.NewRegistry()), gate: lanes.NewGate(), log: slog.New(slog.DiscardHandler), standing: newStanding()}
	n.standing.reached()
	n.loop = membership.New(membership.Options{Lease: time.Hour, Clock: membership.SystemClock}, time.Now())
	n.o.defaults()
	n.lanes = lanes.New(lanes.Options{
		Owner: func(conversation.SessionKey) (conversation.Member, bool) {
			return conversation.Member{Node: "newer"}, true
		},
		Timeout: time.Minute, MaxJobs: 1, MaxBytes: 1 << 20,
	})
	t.Cleanup(n.lanes.Close)
	return n
}

// mayBeRepeated wants the refusal of what another program says, and not "internal".
func mayBeRepeated(t *testing.T, what string, err error) {
	t.Helper()
	if e := conversation.AsError(err); e == nil || e.Code != conversation.Unavailable || e.RetryAfter == 0 {
		t.Errorf("%s: %v", what, err)
	}
}

// newer has the format byte of a program that writes in another way.
func newer(b []byte) []byte {
	b = bytes.Clone(b)
	b[0] = 0x7f
	return b
}

var spoken = conversation.SessionKey{Tenant: "acme", Session: "s000000000000001"}

// What a newer member asks for, and this one does not know, is refused as something that may
// be asked again; nothing of it is done.
func TestAskedByANewerMember(t *testing.T) {
	say := wire.AppendCommand(nil, conversation.Say{Author: "ada", ClientMsgID: "m", Text: "hello"})
	for i, c := range []struct {
		what string
		ask  speech.Ask
		add  []byte
	}{
		{"another question", speech.Ask{What: 99}, nil},
		{"a command in another format", speech.Ask{What: speech.Tell, Command: newer(say)}, nil},
		{"a command of another kind", speech.Ask{What: speech.Tell, Command: []byte{say[0], 0xda, 0x06, 0x00}}, nil}, // field 107
		{"another way to make a session", speech.Ask{What: speech.Create, Command: newer(say)}, nil},
		{"a request of another make", speech.Ask{What: speech.Tell}, []byte{0xff}},
	} {
		n := lone(t)
		var engine Runner // does nothing: it is not asked
		n.engine.Store(&engine)
		c.ask.Key, c.ask.As, c.ask.Round = spoken, "ada", uint64(i+1)
		var got []byte
		n.asked(conversation.Member{Node: "newer"}, append(c.ask.Append(nil), c.add...), func(body []byte) { got = body })
		var a answer
		if err := a.Read(got); err != nil || a.Moved || a.Error == nil {
			t.Fatalf("%s: %+v, %v", c.what, a, err)
		}
		e, err := wire.DecodeError(a.Error)
		if err != nil {
			t.Fatal(err)
		}
		mayBeRepeated(t, c.what, e)
	}
}

// What a newer member answers, and this one cannot read, is told as something that may be
// asked again.
func TestAnsweredByANewerMember(t *testing.T) {
	receipt := newer(wire.AppendReceipt([]byte{}, conversation.Receipt{Message: "m1"}))
	refusal := newer(wire.AppendError([]byte{}, conversation.Errorf(conversation.Forbidden, "no")))
	for _, c := range []struct {
		what string
		body []byte
	}{
		{"a receipt", (&answer{Body: receipt}).Append(nil)},
		{"a view", (&answer{Body: newer(wire.AppendView([]byte{}, conversation.View{}))}).Append(nil)},
		{"a refusal", (&answer{Error: refusal}).Append(nil)},
		{"an answer of another make", []byte{0xff}},
	} {
		n := lone(t)
		n.link = answering{body: c.body}
		r := &router{n: n}
		told, seen := make(chan error, 1), make(chan error, 1)
		r.Tell(spoken, "ada", conversation.Say{Author: "ada", Text: "hello"}, func(_ conversation.Receipt, err error) { told <- err })
		mayBeRepeated(t, c.what+", to a command", <-told)
		r.View(spoken, "ada", func(_ conversation.View, err error) { seen <- err })
		mayBeRepeated(t, c.what+", to a view", <-seen)
	}
}
