package clustertest

import (
	"context"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation/member"
)

// RunTickets proves a member.Tickets. open makes a fresh one for each test, and returns what
// opens it once more, as another node does; one that is a node's own returns itself.
func RunTickets(t *testing.T, open func(t *testing.T) func() member.Tickets) {
	for _, c := range []struct {
		name string
		run  func(*ticketsFixture)
	}{
		{"one that was put is taken once, at another node", ticketOnce},
		{"of all who take one at once, one gets it", ticketRace},
		{"nobody has more than the limit, also when many come at once", ticketLimit},
		{"one that is too old is none, and does not count", ticketEnds},
	} {
		t.Run(c.name, func(t *testing.T) { c.run(&ticketsFixture{T: t, open: open(t), ctx: t.Context()}) })
	}
}

type ticketsFixture struct {
	*testing.T
	open func() member.Tickets
	ctx  context.Context
}

func ticketOf(text string) member.Ticket {
	return member.Ticket{Hash: sha256.Sum256([]byte(text)), Tenant: tenant, User: alice, Who: []byte("who " + text), Life: time.Minute}
}

func (f *ticketsFixture) put(at member.Tickets, t member.Ticket, most int) bool {
	f.Helper()
	ok, err := at.PutTicket(f.ctx, t, most)
	if err != nil {
		f.Fatal(err)
	}
	return ok
}

func (f *ticketsFixture) take(at member.Tickets, text string) string {
	f.Helper()
	who, err := at.TakeTicket(f.ctx, sha256.Sum256([]byte(text)))
	if err != nil {
		f.Fatal(err)
	}
	return string(who)
}

func ticketOnce(f *ticketsFixture) {
	a, b := f.open(), f.open()
	if !f.put(a, ticketOf("one"), 0) || !f.put(b, ticketOf("two"), 0) {
		f.Fatal("a ticket was not kept, without a limit")
	}
	for _, c := range []struct {
		at         member.Tickets
		text, want string
	}{{b, "one", "who one"}, {a, "one", ""}, {b, "one", ""}, {b, "two", "who two"}, {a, "none", ""}} {
		if got := f.take(c.at, c.text); got != c.want {
			f.Errorf("%q gives %q, want %q", c.text, got, c.want)
		}
	}
}

func ticketRace(f *ticketsFixture) {
	nodes := []member.Tickets{f.open(), f.open()}
	for range 20 {
		f.put(nodes[0], ticketOf("race"), 0)
		var got atomic.Int32
		var all sync.WaitGroup
		for i := range 8 {
			all.Go(func() {
				if who, err := nodes[i%2].TakeTicket(f.ctx, ticketOf("race").Hash); err != nil {
					f.Error(err)
				} else if who != nil {
					got.Add(1)
				}
			})
		}
		all.Wait()
		if got.Load() != 1 {
			f.Fatalf("%d got one ticket", got.Load())
		}
	}
}

func ticketLimit(f *ticketsFixture) {
	nodes := []member.Tickets{f.open(), f.open()}
	var kept atomic.Int32
	var all sync.WaitGroup
	for i := range 12 {
		all.Go(func() {
			ok, err := nodes[i%2].PutTicket(f.ctx, ticketOf(string(rune('a'+i))), 3)
			if err != nil {
				f.Error(err)
			} else if ok {
				kept.Add(1)
			}
		})
	}
	all.Wait()
	if kept.Load() != 3 {
		f.Errorf("%d are kept, the limit is 3", kept.Load())
	}
	other := ticketOf("bob's")
	other.User = bob
	if !f.put(nodes[0], other, 3) {
		f.Error("another user's was refused")
	}
	taken := 0
	for i := range 12 {
		if f.take(nodes[1], string(rune('a'+i))) != "" {
			taken++
			break
		}
	}
	if !f.put(nodes[0], ticketOf("again"), 3) || taken != 1 {
		f.Error("after one was taken there is no room")
	}
	if f.put(nodes[1], ticketOf("and again"), 3) {
		f.Error("there is room for a fourth")
	}
}

func ticketEnds(f *ticketsFixture) {
	at := f.open()
	short := ticketOf("short")
	short.Life = 50 * time.Millisecond
	f.put(at, short, 1)
	over := time.NewTimer(2 * short.Life)
	<-over.C
	if !f.put(at, ticketOf("next"), 1) {
		f.Error("one that has ended counts")
	}
	if got := f.take(at, "short"); got != "" {
		f.Errorf("one that has ended gives %q", got)
	}
	f.put(at, ticketOf("bob's"), 0)
	if got := f.take(at, "next"); got != "who next" {
		f.Errorf("one that lives gives %q", got)
	}
}
