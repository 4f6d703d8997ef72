package link

import (
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// A request of which the answer, or the question itself, went nowhere ends soon, as one that may
// have been done; one that is being worked on does not.
func TestLostAnswers(t *testing.T) {
	a, b := open(t, "a", 1, freePort(t), "c"), open(t, "b", 1, freePort(t), "c")
	know(a, b)
	answers := make(chan error, 3)
	ask := func(topic Topic) {
		a.Request(b.Member, topic, []byte("x"), time.Hour, func(_ []byte, err error) { answers <- err })
	}
	ask(echo)
	if err := <-answers; err != nil {
		t.Fatal(err)
	}
	ask(silent) // b works on it for ever
	ask(broken) // b has lost it
	if err := <-answers; !errors.Is(err, ErrUnreachable) || errors.Is(err, ErrNotTaken) {
		t.Errorf("of a request that nobody works on: %v", err)
	}

	speakTo := func(address string) {
		b.mu.Lock()
		defer b.mu.Unlock()
		p := b.peers[a.Node]
		b.peers[a.Node] = &peer{Member: p.Member, address: p.address, door: actor.NewPID(address, door)}
	}
	speakTo(freePort(t)) // what b says goes nowhere
	ask(echo)
	time.AfterFunc(2*probeEvery, func() { speakTo(a.Address) })
	if err := <-answers; !errors.Is(err, ErrUnreachable) {
		t.Errorf("of an answer that went nowhere: %v", err)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.asked) != 1 || !a.probing {
		t.Errorf("%d requests are open, asked about: %v", len(a.asked), a.probing)
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.serving) != 1 {
		t.Errorf("b works on %d requests", len(b.serving))
	}
}

// A node says of a request to an earlier run that nobody works on it, and takes nobody's word
// about what was asked of another.
func TestProbesOfOthers(t *testing.T) {
	a, b, c := open(t, "a", 1, freePort(t), "c"), open(t, "b", 2, freePort(t), "c"), open(t, "c", 1, freePort(t), "c")
	know(a, b, c)
	ended := make(chan error, 1)
	a.Request(b.Member, silent, nil, time.Hour, func(_ []byte, err error) { ended <- err })
	a.mu.Lock()
	var id uint64
	for id = range a.asked {
	}
	a.mu.Unlock()
	if p := c.peer(a.Member); !c.post(p, envelope{kind: kindGone, to: a.Member, body: appendIDs(nil, []uint64{id})}) {
		t.Fatal("c cannot speak to a")
	}
	c.Request(a.Member, echo, nil, time.Hour, func([]byte, error) { ended <- errors.New("c") }) // behind it
	if err := <-ended; err == nil || err.Error() != "c" {
		t.Fatalf("c has ended what a asked b: %v", err)
	}
	before := b.Member
	before.Incarnation = 1
	if p := a.peer(b.Member); !a.post(p, envelope{kind: kindProbe, to: before, body: appendIDs(nil, []uint64{id})}) {
		t.Fatal("a cannot speak to b")
	}
	if err := <-ended; !errors.Is(err, ErrUnreachable) {
		t.Errorf("of a request to an earlier run: %v", err)
	}
}

func TestProbeIDs(t *testing.T) {
	ids := []uint64{0, 1, 127, 128, 1 << 40}
	if got, ok := readIDs(appendIDs(nil, ids)); !ok || !slices.Equal(got, ids) {
		t.Errorf("%v, %v", got, ok)
	}
	for name, bad := range map[string][]byte{"half of one": {0x80}, "too long": slices.Repeat([]byte{0xff}, 11), "too many": make([]byte, maxProbeIDs+1)} {
		if _, ok := readIDs(bad); ok {
			t.Errorf("%s is read", name)
		}
	}
}
