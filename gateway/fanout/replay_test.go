package fanout

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"
)

// storedLog is a session of whose log the first events up to head are published.
type storedLog struct {
	head    conversation.Seq
	records []conversation.Record
	viewed  func() // called before the state is answered; may be nil
	read    func() // called before the log is read; may be nil
	refused error
	away    func() error // what a read of the log ends with before it begins; may be nil
}

func (l *storedLog) View(_ conversation.SessionKey, _ conversation.UserID, done func(conversation.View, error)) {
	if l.viewed != nil {
		l.viewed()
	}
	done(conversation.View{Head: l.head}, l.refused)
}

func (l *storedLog) Records(_ context.Context, _ conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		if l.read != nil {
			l.read()
		}
		if l.away != nil {
			if err := l.away(); err != nil {
				yield(conversation.Record{}, err)
				return
			}
		}
		for _, record := range l.records {
			first, last := record.Events[0].Seq, record.Events[len(record.Events)-1].Seq
			if last > r.After && first < r.Before && !yield(record, nil) {
				return
			}
		}
	}
}

// record is one commit of events with these seqs.
func record(seqs ...conversation.Seq) (r conversation.Record) {
	for _, s := range seqs {
		r.Events = append(r.Events, conversation.Event{Seq: s, Body: conversation.SessionClosed{}})
	}
	return r
}

// shown takes the events that a subscription brings until it waits or fails.
func shown(s *Subscription) (seqs []conversation.Seq, err error) {
	seqs, err = brought(s)
	return slices.DeleteFunc(seqs, func(seq conversation.Seq) bool { return seq == 0 }), err
}

// brought is shown with a 0 for synced, which comes once at most.
func brought(s *Subscription) (seqs []conversation.Seq, err error) {
	stopped, stop := context.WithCancel(context.Background())
	stop()
	for synced := false; ; {
		d, err := s.Next(stopped)
		if errors.Is(err, context.Canceled) {
			return seqs, nil
		}
		if err != nil {
			return seqs, err
		}
		if d.Synced {
			if synced {
				return seqs, errors.New("synced comes again")
			}
			synced = true
			seqs = append(seqs, 0)
		}
		for _, e := range d.Events {
			seqs = append(seqs, e.Seq)
		}
	}
}

func TestReplay(t *testing.T) {
	for _, c := range []struct {
		name      string
		log       storedLog
		published conversation.Seq // meanwhile
		want      []conversation.Seq
		broken    bool
	}{
		{"no further than what is published", storedLog{head: 3, records: []conversation.Record{record(1, 2), record(3, 4, 5)}}, 0, []conversation.Seq{1, 2, 3}, false},
		{"as far as what is published meanwhile", storedLog{head: 3, records: []conversation.Record{record(1, 2, 3), record(4), record(5)}}, 5, []conversation.Seq{1, 2, 3, 4, 5}, false},
		{"a hole in the log", storedLog{head: 4, records: []conversation.Record{record(1, 2), record(4)}}, 0, nil, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			hub := NewHub(nil)
			if c.published > 0 {
				c.log.viewed = func() { hub.Publish(gatewaytest.Key("s1"), 1, record(c.published).Events) }
			}
			s, _, err := hub.Subscribe(t.Context(), &c.log, protocol.DefaultLimits(), Options{Key: gatewaytest.Key("s1"), Values: true})
			if err != nil {
				t.Fatal(err)
			}
			defer s.Close()
			got, err := shown(s)
			if (err != nil) != c.broken || !c.broken && !slices.Equal(got, c.want) {
				t.Errorf("shown %v, %v", got, err)
			}
		})
	}
}

// A store that is out of reach for a while ends no subscription: what is missing comes when
// it is back, and meanwhile it is not asked without end. An error of the log ends it.
func TestReplayOfAStoreThatIsAway(t *testing.T) {
	for _, c := range []struct {
		name  string
		err   error
		ended bool
	}{
		{"out of reach", fmt.Errorf("records: %w", conversation.Errorf(conversation.Unavailable, "the database is away")), false},
		{"damaged", conversation.ErrDamaged, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				asked, back := 0, time.Now().Add(10*time.Second)
				log := &storedLog{head: 3, records: []conversation.Record{record(1, 2, 3)}, away: func() error {
					asked++
					if time.Now().Before(back) {
						return c.err
					}
					return nil
				}}
				s, _, err := NewHub(nil).Subscribe(t.Context(), log, protocol.DefaultLimits(), Options{Key: gatewaytest.Key("s1"), Values: true})
				if err != nil {
					t.Fatal(err)
				}
				defer s.Close()
				d, err := s.Next(t.Context())
				if (err != nil) != c.ended || s.Ended() != c.ended {
					t.Fatalf("shown %v, %v", d, err)
				}
				if c.ended {
					return
				}
				if len(d.Events) != 3 || time.Now().Before(back) {
					t.Errorf("shown %v after %v", d, time.Since(back.Add(-10*time.Second)))
				}
				if asked > 60 {
					t.Errorf("the store was asked %d times in ten seconds", asked)
				}
			})
		})
	}
}

// behind is a subscription that has to read the log up to 5.
func behind(source Source, limits protocol.Limits) *Subscription {
	q := NewHub(nil).NewQueue(source, limits)
	s := &Subscription{queue: q, key: gatewaytest.Key("s1"), phase: phaseReplay, synced: true, until: 5}
	q.replays = append(q.replays, s)
	return s
}

func TestReplayPage(t *testing.T) {
	limits := protocol.DefaultLimits()
	t.Run("is bounded", func(t *testing.T) {
		limits := limits
		limits.ReplayPage = 2
		p, err := behind(&storedLog{records: []conversation.Record{record(1, 2, 3, 4, 5)}}, limits).readPage(t.Context(), false, 0, 5)
		if err != nil || p.last != 2 {
			t.Errorf("a page of two events ends at %d, %v", p.last, err)
		}
	})
	t.Run("is redacted", func(t *testing.T) {
		s := behind(&storedLog{records: []conversation.Record{{Events: []conversation.Event{{Seq: 1, Body: conversation.ToolStarted{Call: "c1", Tool: "mail", Args: `{"to":"secret"}`}}}}}}, limits)
		p, err := s.readPage(t.Context(), true, 0, 5)
		if err != nil || p.last != 1 || strings.Contains(string(p.frames), "secret") {
			t.Errorf("%q, %v", p.frames, err)
		}
	})
	t.Run("of a subscription that has ended meanwhile", func(t *testing.T) {
		log := &storedLog{records: []conversation.Record{record(1)}}
		s := behind(log, limits)
		log.read = s.Close
		if live, err := s.replayPage(t.Context()); live || err != nil || s.queue.n != 0 {
			t.Errorf("%d batches wait, %v", s.queue.n, err)
		}
	})
	t.Run("of a session that is being erased", func(t *testing.T) {
		s := behind(&storedLog{}, limits)
		if live, err := s.replayPage(t.Context()); live || err != nil || len(s.queue.replays) != 0 {
			t.Errorf("it is read again at once, %v", err)
		}
		s.queue.hub.add(s)
		s.queue.hub.Publish(s.key, 1, record(6).Events)
		if len(s.queue.replays) != 1 {
			t.Error("it is not read when more is published")
		}
	})
}

// A queue that has no room for an event goes on from the log, by bytes as by frames.
func TestNoRoom(t *testing.T) {
	text := strings.Repeat("x", 400)
	for name, limits := range map[string]protocol.Limits{
		"frames": {QueueFrames: 2, QueueBytes: 1 << 20},
		"bytes":  {QueueFrames: 1000, QueueBytes: 1300},
	} {
		t.Run(name, func(t *testing.T) {
			hub, s := queueOf(2)
			s.queue.limits = limits
			for seq := conversation.Seq(6); seq < 9; seq++ {
				hub.Publish(s.key, 1, []conversation.Event{{Seq: seq, Body: conversation.SessionClosed{Reason: text}}})
			}
			if s.phase != phaseReplay || s.cursor != 7 || s.until != 8 {
				t.Errorf("state %d at %d of %d", s.phase, s.cursor, s.until)
			}
		})
	}
}

func TestQueueBounds(t *testing.T) {
	_, s := queueOf(1000)
	answer := func(dst []byte) []byte { return append(dst, "{}"...) }
	for range 3 * writeFrames {
		s.queue.Answer(answer)
	}
	if got := s.queue.take(nil).Frames; got != writeFrames {
		t.Errorf("one write has %d frames", got)
	}
	drain(s.queue)
	s.queue.Finish(protocol.TextFrame(answer))
	s.queue.Answer(answer)
	if got := drain(s.queue); len(got) != 1 {
		t.Errorf("behind the last frame come %v", got[1:])
	}
}

// Deltas of different drafts stay apart, and what is taken is not counted any more.
func TestMergeKeepsDraftsApart(t *testing.T) {
	hub, s := queueOf(4)
	for i, draft := range []conversation.DraftID{"1.1.0", "1.1.0", "1.1.0", "1.1.1", "1.1.0"} {
		hub.Show(s.key, 1, 5, conversation.Delta{Draft: draft, At: min(i, 3), Text: "x"})
	}
	frames := drain(s.queue)
	if n := strings.Count(strings.Join(frames, ""), "1.1.1"); n != 1 {
		t.Errorf("the second draft is in %d of %v", n, frames)
	}
	if s.queue.bytes != 0 || s.queue.frames != 0 {
		t.Errorf("%d bytes and %d frames are counted in an empty queue", s.queue.bytes, s.queue.frames)
	}
}

// Who has not been let in is shown nothing and shows nothing, and who was refused
// is gone.
func TestBeforeTheBegin(t *testing.T) {
	hub, s := queueOf(10)
	waiting := hub.NewQueue(nil, protocol.DefaultLimits()).NewSubscription(Options{Key: s.key})
	hub.add(waiting)
	waiting.Typing("mallory", true)
	if got := drain(s.queue); len(got) != 0 {
		t.Errorf("shown: %v", got)
	}
	hub.Gone(s.key, "erased")
	if got := drain(waiting.queue); len(got) != 0 {
		t.Errorf("told: %v", got)
	}
	log := &storedLog{refused: conversation.Errorf(conversation.NotFound, "there is no such session")}
	hub.NewQueue(log, protocol.DefaultLimits()).NewSubscription(Options{Key: s.key}).Follow(func(_ conversation.View, err error) (Start, error) { return Start{}, err })
	if n := len(hub.shard(s.key).topics); n != 0 {
		t.Errorf("%d sessions are followed", n)
	}
}

// An erased session takes its sub-sessions with it, and nothing else.
func TestGoneTakesItsTree(t *testing.T) {
	hub := NewHub(nil)
	follow := func(tenant conversation.TenantID, session conversation.SessionID) *Subscription {
		s := hub.NewQueue(nil, protocol.DefaultLimits()).NewSubscription(Options{Key: conversation.SessionKey{Tenant: tenant, Session: session}})
		s.phase = phaseLive
		hub.add(s)
		return s
	}
	erased, sub := follow("acme", "s"), follow("acme", "s/d1")
	others := []*Subscription{follow("beta", "s"), follow("acme", "s2"), follow("acme", "other")}
	for i := range hub.shards { // the trees may lie in different ones
		if f := hub.shards[i].topics; hub.shard(erased.key) != &hub.shards[i] {
			for k, list := range f {
				hub.shard(erased.key).topics[k] = list
			}
		}
	}
	hub.Gone(erased.key, "erased")
	if !erased.Ended() || !sub.Ended() {
		t.Error("the tree is still followed")
	}
	for _, o := range others {
		if o.Ended() {
			t.Errorf("%s of %s is gone, too", o.key.Session, o.key.Tenant)
		}
	}
}

// Synced is shown once: behind the last event that was stored at the begin, and before
// what came since.
func TestSyncedBehindTheHead(t *testing.T) {
	hub := NewHub(nil)
	key := gatewaytest.Key("s1")
	log := &storedLog{head: 3, records: []conversation.Record{record(1), record(2), record(3), record(4)}}
	log.viewed = func() { hub.Publish(key, 1, record(4).Events) }
	limits := protocol.DefaultLimits()
	limits.ReplayPage = 2
	s, _, err := hub.Subscribe(t.Context(), log, limits, Options{Key: key, Values: true})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	got, err := brought(s)
	if want := []conversation.Seq{1, 2, 3, 0, 4}; err != nil || !slices.Equal(got, want) {
		t.Errorf("shown %v, %v; want %v, where 0 is synced", got, err, want)
	}
}

// Who knows more than is stored knows another log, and is not let into this one.
func TestSinceOfAnotherLog(t *testing.T) {
	hub := NewHub(nil)
	log := &storedLog{head: 3, records: []conversation.Record{record(1, 2, 3)}}
	for since, conflict := range map[conversation.Seq]bool{3: false, 4: true} {
		s, _, err := hub.Subscribe(t.Context(), log, protocol.DefaultLimits(), Options{Key: gatewaytest.Key("s1"), Since: since})
		if err == nil {
			s.Close()
		}
		var refused *conversation.Error
		if errors.As(err, &refused) != conflict || conflict && refused.Code != conversation.Conflict {
			t.Errorf("since %d of 3: %v", since, err)
		}
	}
	if n := len(hub.shard(gatewaytest.Key("s1")).topics); n != 0 {
		t.Errorf("%d sessions are still followed", n)
	}
}

// A follow is answered before anything that it brings, and what it replaces brings
// nothing any more from the answer on.
func TestFollowAgain(t *testing.T) {
	hub, old := queueOf(10)
	again := old.queue.NewSubscription(Options{Key: old.key})
	hub.add(again)
	again.start(Start{Since: 5, Replace: old, Answer: func(dst []byte) []byte { return append(dst, "answer"...) }}, conversation.View{Head: 5})
	hub.Publish(old.key, 1, record(6).Events)
	got := drain(old.queue)
	if len(got) != 3 || got[0] != "answer" || !strings.Contains(got[1], "synced") || !strings.Contains(got[2], "session_closed") {
		t.Errorf("shown %q, want the answer, synced and the event, each once", got)
	}
}
