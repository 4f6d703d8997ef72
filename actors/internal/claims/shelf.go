package claims

import (
	"container/heap"
	"container/list"
	"slices"
	"strings"
	"time"

	"parley/conversation"
)

// shelf is what may be claimed of one tenant, and the claims that wait for it. The
// desk's lock guards it.
type shelf struct {
	reading chan struct{}                                      // closed when the store's list was read; nil = it was
	news    map[conversation.SessionID]*conversation.Claimable // said while it is read
	again   *time.Timer                                        // until the list is read again; nil = it will not be
	said    map[conversation.SessionID]bool                    // who has said something while it is read again; nil = it is not

	entries map[conversation.SessionID]*entry
	all     *queue                                                         // that any runtime may have now
	byAgent map[conversation.AgentName]*queue                              // the same
	unheard map[conversation.RuntimeName]map[conversation.SessionID]*entry // handed out, without a sign of life
	waiting map[conversation.AgentName]*list.List                          // of *waiter, the longest first; "" = for any agent
	used    time.Time                                                      // by a claim
}

// entry is a session's task on the shelf.
type entry struct {
	conversation.Claimable
	key     conversation.SessionKey
	places  [2]int      // in all and in its agent's queue; -1 = in none
	timer   *time.Timer // until From
	round   int         // of the timer: an older one that fires late is not meant
	asked   bool        // its session is asked to hand it out: nobody else gets it
	changed bool        // the session has said something since then
	gone    bool        // it may not be claimed any more
}

// waiter is a claim that waits.
type waiter struct {
	agent conversation.AgentName
	turn  uint64
	got   chan *entry // holds the one that it gets
	place *list.Element
}

func newShelf() *shelf {
	return &shelf{
		reading: make(chan struct{}), news: map[conversation.SessionID]*conversation.Claimable{},
		entries: map[conversation.SessionID]*entry{}, all: &queue{of: 0}, byAgent: map[conversation.AgentName]*queue{},
		unheard: map[conversation.RuntimeName]map[conversation.SessionID]*entry{}, waiting: map[conversation.AgentName]*list.List{},
	}
}

// unused is true when nobody has claimed for a while.
func (s *shelf) unused(now time.Time) bool {
	return len(s.waiting) == 0 && now.Sub(s.used) > keepShelf
}

// stop ends what runs for the shelf.
func (s *shelf) stop() {
	for _, e := range s.entries {
		if e.timer != nil {
			e.timer.Stop()
		}
	}
	if s.again != nil {
		s.again.Stop()
	}
	s.entries = nil
}

// free lets any runtime have an entry.
func (s *shelf) free(e *entry) {
	of := s.byAgent[e.Agent]
	if of == nil {
		of = &queue{of: 1}
		s.byAgent[e.Agent] = of
	}
	heap.Push(s.all, e)
	heap.Push(of, e)
}

// handed lets only its runtime have an entry.
func (s *shelf) handed(e *entry) {
	of := s.unheard[e.Runtime]
	if of == nil {
		of = map[conversation.SessionID]*entry{}
		s.unheard[e.Runtime] = of
	}
	of[e.key.Session] = e
}

// takeOff takes an entry from where it is.
func (s *shelf) takeOff(e *entry) {
	if e.timer != nil {
		e.timer.Stop()
		e.timer = nil
	}
	if of := s.unheard[e.Runtime]; of[e.key.Session] == e {
		if delete(of, e.key.Session); len(of) == 0 {
			delete(s.unheard, e.Runtime)
		}
	}
	if e.places[0] >= 0 {
		heap.Remove(s.all, e.places[0])
		of := s.byAgent[e.Agent]
		if heap.Remove(of, e.places[1]); len(of.entries) == 0 {
			delete(s.byAgent, e.Agent)
		}
	}
}

// take takes what a claim gets at once. Only a claim's first look takes what its
// runtime was handed before: while it waits, another claim of the same name may get
// something, and both would work on it.
func (s *shelf) take(r conversation.ClaimRequest, first bool) (taken []*entry) {
	most := max(1, r.Limit)
	take := func(e *entry) {
		s.takeOff(e)
		e.asked, e.changed = true, false
		taken = append(taken, e)
	}
	if first {
		var again []*entry
		for _, e := range s.unheard[r.Runtime] {
			if r.Agent == "" || r.Agent == e.Agent {
				again = append(again, e)
			}
		}
		slices.SortFunc(again, older)
		for _, e := range again[:min(most, len(again))] {
			take(e)
		}
	}
	of := s.all
	if r.Agent != "" {
		of = s.byAgent[r.Agent]
	}
	for of != nil && len(of.entries) > 0 && len(taken) < most {
		take(of.entries[0])
	}
	return taken
}

// wait lets a claim wait, behind the others.
func (s *shelf) wait(w *waiter) {
	of := s.waiting[w.agent]
	if of == nil {
		of = list.New()
		s.waiting[w.agent] = of
	}
	w.place = of.PushBack(w)
}

// leave lets a claim wait no more.
func (s *shelf) leave(w *waiter) {
	of := s.waiting[w.agent]
	if w.place == nil || of == nil {
		return
	}
	of.Remove(w.place)
	if w.place = nil; of.Len() == 0 {
		delete(s.waiting, w.agent)
	}
}

// firstWaiting is the claim that has waited longest for an agent, or for any; nil if
// none waits.
func (s *shelf) firstWaiting(agent conversation.AgentName) (first *waiter) {
	for _, name := range []conversation.AgentName{agent, ""} {
		if of := s.waiting[name]; of != nil {
			if w := of.Front().Value.(*waiter); first == nil || w.turn < first.turn {
				first = w
			}
		}
	}
	return first
}

// older orders entries: the oldest message first.
func older(a, b *entry) int {
	if c := a.Since.Compare(b.Since); c != 0 {
		return c
	}
	return strings.Compare(string(a.key.Session), string(b.key.Session))
}

// queue is a heap of entries, the oldest first. Each entry knows its place.
type queue struct {
	of      int // which of an entry's places
	entries []*entry
}

func (q *queue) Len() int           { return len(q.entries) }
func (q *queue) Less(i, j int) bool { return older(q.entries[i], q.entries[j]) < 0 }
func (q *queue) Swap(i, j int) {
	q.entries[i], q.entries[j] = q.entries[j], q.entries[i]
	q.entries[i].places[q.of], q.entries[j].places[q.of] = i, j
}

// Push implements heap.Interface.
func (q *queue) Push(x any) {
	e := x.(*entry)
	e.places[q.of] = len(q.entries)
	q.entries = append(q.entries, e)
}

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	last := len(q.entries) - 1
	e := q.entries[last]
	q.entries[last], e.places[q.of] = nil, -1
	q.entries = q.entries[:last]
	return e
}
