package fanout

import (
	"cmp"
	"math"
	"strconv"
	"strings"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/protocol"
)

// Drafts are text that streams. Their deltas come from the goroutine of the model call,
// beside the events of the session, so they can pass by while a subscription begins, is
// behind, or has no room. Then it is shown the whole text instead (draft_state), and
// nothing of a draft before that: a client never gets a delta beyond what it has.

// drafts are what a subscription knows of the drafts of its session. Guarded by queue.mu.
type drafts struct {
	wanted  bool     // the client asked for them; never changed
	missed  bool     // deltas passed by, or may have
	asked   bool     // live, but deltas are held back until the whole text is shown
	waiting []*value // deltas in the queue, the newest of each draft

	// ahead says how far the deltas that passed by go, by draft, since the text was asked
	// for: a text that is shorter is older than they are.
	ahead map[conversation.DraftID]int

	// over is the newest attempt of which the events of this subscription say that its text has ended.
	// What another writer still says of it, or a view of before, is not shown behind them.
	over conversation.Attempt
}

// newerAttempt is true if a was begun after b.
func newerAttempt(a, b conversation.Attempt) bool {
	return cmp.Or(cmp.Compare(a.Step, b.Step), cmp.Compare(a.N, b.N)) > 0
}

// ends is the newest attempt whose text has ended with e; zero = e says nothing of that.
func ends(e *conversation.Event) conversation.Attempt {
	switch b := e.Body.(type) {
	case conversation.StepStarted: // none streams but this one
		return conversation.Attempt{Step: b.Step, N: b.Attempt - 1}
	case conversation.StepFinished:
		return conversation.Attempt{Step: b.Step, N: b.Attempt}
	}
	return conversation.Attempt{}
}

// hear takes what events say of the attempts that have ended. The caller holds queue.mu.
func (d *drafts) hear(events []conversation.Event) {
	for i := range events {
		if over := ends(&events[i]); newerAttempt(over, d.over) {
			d.over = over
		}
	}
}

// late is true for text of an attempt that is over: of a writer that another one has replaced.
func (d *drafts) late(draft conversation.DraftID) bool {
	if d.over == (conversation.Attempt{}) {
		return false
	}
	step, rest, _ := strings.Cut(string(draft), ".")
	n, _, _ := strings.Cut(rest, ".")
	of, err := strconv.ParseUint(step, 10, 32)
	at, wrong := strconv.Atoi(n)
	return err == nil && wrong == nil && !newerAttempt(conversation.Attempt{Step: conversation.StepNumber(of), N: at}, d.over)
}

// waitingText is a delta in the queue to which others were added. It is encoded when it is
// taken: an encoding for each delta would cost the session time, more with each.
type waitingText struct {
	text   []byte // of all of them; begins with the first
	points int    // code points of text
	added  int    // bytes besides those of the first
}

// forget begins anew. Whether they are wanted never changes: it is read without the lock.
func (d *drafts) forget() { d.missed, d.asked, d.waiting, d.ahead = false, false, nil, nil }

// pass notes a draft's frame that is not shown. The caller holds queue.mu.
func (d *drafts) pass(e conversation.Ephemeral) {
	d.missed = true
	if d.ahead == nil {
		d.ahead = make(map[conversation.DraftID]int)
	}
	switch e := e.(type) {
	case conversation.Delta:
		d.ahead[e.Draft] = max(d.ahead[e.Draft], e.At+utf8.RuneCountInString(e.Text))
	case conversation.DraftDropped:
		d.ahead[e.Draft] = math.MaxInt
	}
}

// knows is false when a frame that passed by is newer than the texts of v.
func (d *drafts) knows(v conversation.View) bool {
	left := len(d.ahead)
	for _, draft := range v.Drafts {
		if end, passed := d.ahead[draft.Draft]; passed {
			if end > utf8.RuneCountInString(draft.Text) {
				return false
			}
			left--
		}
	}
	return left == 0
}

// merge adds a delta to one of the same draft that still waits. The caller holds
// queue.mu.
func (s *Subscription) merge(after conversation.Seq, d conversation.Delta) bool {
	q := s.queue
	for _, v := range s.drafts.waiting {
		first := v.ephemeral.(conversation.Delta)
		if first.Draft != d.Draft {
			continue
		}
		if v.merged == nil {
			v.merged = &waitingText{text: []byte(first.Text), points: utf8.RuneCountInString(first.Text)}
		}
		if v.after != after || first.At+v.merged.points != d.At || q.bytes+len(d.Text) > q.limits.QueueBytes {
			return false
		}
		v.merged.text = append(v.merged.text, d.Text...)
		v.merged.points += utf8.RuneCountInString(d.Text)
		v.merged.added += len(d.Text)
		q.bytes += len(d.Text)
		return true
	}
	return false
}

// waits notes the newest delta of a draft in the queue. The caller holds queue.mu.
func (d *drafts) waits(v *value, draft conversation.DraftID) {
	for i, older := range d.waiting {
		if older.ephemeral.(conversation.Delta).Draft == draft {
			d.waiting[i] = v
			return
		}
	}
	d.waiting = append(d.waiting, v)
}

// takeMerged makes the frame of a delta that is being taken. The caller holds queue.mu.
func (v *value) takeMerged(b *frameBatch) {
	s := v.of
	for i, w := range s.drafts.waiting {
		if w == v {
			s.drafts.waiting = append(s.drafts.waiting[:i], s.drafts.waiting[i+1:]...)
			break
		}
	}
	if v.merged == nil {
		return
	}
	delta := v.ephemeral.(conversation.Delta)
	delta.Text = string(v.merged.text)
	v.ephemeral, v.merged = delta, nil
	b.data = protocol.TextFrame(func(dst []byte) []byte { return protocol.AppendDelta(dst, s.key.Session, v.after, &delta) })
}

// resumeDrafts shows what streams to a subscription that has just gone live, if deltas
// may have passed it by.
func (s *Subscription) resumeDrafts() {
	s.queue.mu.Lock()
	wanted := s.drafts.asked && s.phase == phaseLive
	s.drafts.ahead = nil // what is asked for now has it
	s.queue.mu.Unlock()
	if wanted {
		s.view(func(v conversation.View, err error) {
			if err != nil { // with the next event again
				s.queue.mu.Lock()
				s.drafts.asked = false
				s.queue.mu.Unlock()
				return
			}
			s.showDrafts(v)
		})
	}
}

// showDrafts shows what streams right now, or asks again when more has passed by since v.
func (s *Subscription) showDrafts(v conversation.View) {
	q := s.queue
	frames := make([][]byte, len(v.Drafts))
	for i, d := range v.Drafts {
		frames[i] = protocol.TextFrame(func(b []byte) []byte { return protocol.AppendDraftState(b, s.key.Session, v.Head, d) })
	}
	q.mu.Lock()
	again := false
	switch {
	case s.phase != phaseLive || !s.drafts.asked: // behind again, or ended
	case v.Head > s.cursor: // first its events, which are stored
		s.until = max(s.until, v.Head)
		s.fallBehind()
	case !s.drafts.knows(v):
		again = true
	default:
		s.drafts.forget() // none is added to what waits before the whole text
		for i, d := range v.Drafts {
			if s.drafts.late(d.Draft) { // the view is of a writer that another one has replaced
				continue
			}
			if !q.roomFor(1, len(frames[i])) {
				s.fallBehind() // and again when there is room
				break
			}
			q.hub.metrics.Ephemeral.WithLabelValues("draft_state").Inc()
			q.push(frameBatch{data: frames[i], frames: 1, value: s.otherValue(value{after: v.Head, draft: &d})})
		}
	}
	q.mu.Unlock()
	if again {
		s.resumeDrafts()
	}
}
