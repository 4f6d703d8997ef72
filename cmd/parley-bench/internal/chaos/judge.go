package chaos

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"parley/cmd/parley-bench/internal/load"
)

// verdict is what the judge found.
type verdict struct {
	lost, doubled, blocked, wrong int
	examples                      []string // the first of them, in words

	answered, parts, handouts int
	deaths                    int // messages that ended in ERROR after the last hand-out
	given                     int // messages that ended in ERROR because a runtime said so

	again []time.Duration // from the end of a silent runtime's lease to the next hand-out
}

func (v *verdict) clean() bool { return v.lost+v.doubled+v.blocked+v.wrong == 0 }

func (v *verdict) add(o *verdict) {
	v.lost, v.doubled, v.blocked, v.wrong = v.lost+o.lost, v.doubled+o.doubled, v.blocked+o.blocked, v.wrong+o.wrong
	v.answered, v.parts, v.handouts = v.answered+o.answered, v.parts+o.parts, v.handouts+o.handouts
	v.deaths, v.given = v.deaths+o.deaths, v.given+o.given
	v.again = append(v.again, o.again...)
	v.examples = append(v.examples, o.examples[:min(len(o.examples), max(0, 20-len(v.examples)))]...)
}

// frame is a durable event, as far as the judge reads it.
type frame struct {
	Type string
	Seq  int
	TS   time.Time
	Task string
	Data struct {
		Message, Text, How, Kind, Source, Status, Runtime, Trigger string
		Part                                                       *int
		Generation                                                 int
		Promoted                                                   bool
		Until                                                      time.Time
		ClientMsgID                                                string `json:"client_msg_id"`
		NewStatus                                                  string `json:"new_status"`
	}
}

// told is what the log says of one message.
type told struct {
	accepted frame
	order    order
	parts    []frame // without promoted ones
	handouts []frame
	how      []string
	status   string    // of its task
	errors   int       // responses that tell an error
	lease    time.Time // the end of one whose runtime has given no sign of life; zero = there is none
}

// trial is the judgement of one session.
type trial struct {
	*verdict
	talk     *conversation
	messages map[string]*told
	byID     map[string]*told // by client_msg_id
	last     int              // seq
}

// judge reads a session's log from the server and compares it with what its sender
// and the workers were told.
func judge(ctx context.Context, s *load.Server, talk *conversation, n *notes) (*verdict, error) {
	var log []frame
	for more := true; more; {
		page, err := s.Get(ctx, "/api/sessions/"+talk.session+"/events?limit=200&since="+strconv.Itoa(len(log)))
		if err != nil {
			return nil, err
		}
		var frames struct{ Items []frame }
		if err := json.Unmarshal(page, &frames); err != nil {
			return nil, errors.Join(fmt.Errorf("events: %s", page), err)
		}
		log = append(log, frames.Items...)
		more = len(frames.Items) == 200
	}
	return compare(log, talk, n), nil
}

// compare judges a log.
func compare(log []frame, talk *conversation, n *notes) *verdict {
	t := &trial{verdict: &verdict{}, talk: talk, messages: map[string]*told{}, byID: map[string]*told{}}
	for _, f := range log {
		t.apply(f)
	}
	t.messagesAreThere()
	for _, id := range sortedKeys(t.messages) {
		t.message(t.messages[id])
	}
	t.acknowledgedIsThere(n)
	return t.verdict
}

func sortedKeys(m map[string]*told) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

func (t *trial) find(count *int, format string, args ...any) {
	*count++
	if len(t.examples) < 20 {
		t.examples = append(t.examples, "session "+t.talk.session+": "+fmt.Sprintf(format, args...))
	}
}

// apply notes an event of the log.
func (t *trial) apply(f frame) {
	if f.Seq != t.last+1 {
		t.find(&t.wrong, "seq %d comes after %d", f.Seq, t.last)
	}
	t.last = f.Seq
	d := f.Data
	if f.Type == "message_accepted" {
		o, err := readOrder(d.Text)
		if err != nil {
			t.find(&t.wrong, "message %s is %q", d.Message, d.Text)
		}
		if t.byID[d.ClientMsgID] != nil {
			t.find(&t.doubled, "client_msg_id %s was accepted twice", d.ClientMsgID)
		}
		m := &told{accepted: f, order: o}
		t.messages[d.Message], t.byID[d.ClientMsgID] = m, m
		return
	}
	subject := d.Message
	switch f.Type {
	case "partial_response", "response":
		subject = d.Source
	case "task_status":
		subject = d.Trigger
	case "message_resolved", "runtime_status":
	default:
		return
	}
	m := t.messages[subject]
	if m == nil {
		t.find(&t.wrong, "seq %d speaks of %q, which was not accepted", f.Seq, subject)
		return
	}
	switch f.Type {
	case "message_resolved":
		m.how = append(m.how, d.How)
	case "task_status":
		m.status = d.NewStatus
	case "runtime_status":
		if d.Status == "handed_out" {
			if last := len(m.handouts) - 1; last >= 0 && m.handouts[last].Data.Generation == d.Generation && m.handouts[last].Data.Runtime == d.Runtime {
				m.lease = d.Until // the answer of its claim was lost: it was given the same again
				return
			}
			m.handouts = append(m.handouts, f)
			t.verdict.handouts++
			if wait := f.TS.Sub(m.lease); !m.lease.IsZero() && wait >= 0 { // before that, a runtime has given it up
				t.again = append(t.again, wait)
			}
			m.lease = d.Until
		} else if d.Status != "failed" {
			m.lease = time.Time{}
		}
	default:
		m.lease = time.Time{}
		switch {
		case d.Kind == "error":
			m.errors++
		case d.Promoted:
			if !slices.ContainsFunc(m.parts, func(p frame) bool { return p.Data.Message == d.Message && p.Data.Text == d.Text }) {
				t.find(&t.wrong, "seq %d promotes what was not said", f.Seq)
			}
		default:
			m.parts = append(m.parts, f)
		}
	}
}

// messagesAreThere compares what was acknowledged to the sender.
func (t *trial) messagesAreThere() {
	for i, s := range t.talk.said {
		m := t.byID[strconv.Itoa(i)]
		switch {
		case m == nil:
			t.find(&t.lost, "message %s was acknowledged and is not in the log", s.message)
		case m.accepted.Data.Message != s.message || m.accepted.Data.Text != s.order.text():
			t.find(&t.wrong, "message %s, %q, was acknowledged; the log has %s, %q", s.message, s.order.text(), m.accepted.Data.Message, m.accepted.Data.Text)
		}
	}
}

// message judges what became of one message.
func (t *trial) message(m *told) {
	id := m.accepted.Data.Message
	if m.status != "COMPLETE" && m.status != "ERROR" {
		t.find(&t.blocked, "the task of %s is %s; %d parts, %d hand-outs", id, m.status, len(m.parts), len(m.handouts))
		return
	}
	if len(m.how) != 1 {
		count := &t.doubled
		if len(m.how) == 0 {
			count = &t.lost
		}
		t.find(count, "message %s was resolved %d times: %v", id, len(m.how), m.how)
		return
	}
	for k, p := range m.parts {
		t.part(m, k, p)
	}
	for k, h := range m.handouts {
		if h.Data.Generation != k+1 {
			t.find(&t.wrong, "hand-out %d of %s has the generation %d", k+1, id, h.Data.Generation)
		}
	}
	switch {
	case m.status == "COMPLETE" && m.how[0] == "answered" && m.errors == 0:
		t.answered++
		if len(m.parts) < m.order.parts {
			t.find(&t.lost, "message %s is answered with %d of %d parts", id, len(m.parts), m.order.parts)
		}
	case m.status == "ERROR" && m.how[0] == "failed" && m.errors == 1:
		if m.order.fate == fails {
			t.given++
			return
		}
		t.deaths++
		if len(m.handouts) != attempts {
			t.find(&t.wrong, "message %s ended in ERROR after %d hand-outs", id, len(m.handouts))
		}
	default:
		t.find(&t.wrong, "message %s is %s, its task %s, with %d responses of kind error", id, m.how[0], m.status, m.errors)
	}
}

// attempts is retry.max_attempts: the runtimes that a message gets.
const attempts = 3

// part judges the part at place k of a message's parts.
func (t *trial) part(m *told, k int, p frame) {
	t.parts++
	id := m.accepted.Data.Message
	switch {
	case p.Data.Part == nil:
		t.find(&t.wrong, "a part of %s has no index", id)
	case *p.Data.Part < k:
		t.find(&t.doubled, "part %d of %s is there again at seq %d", *p.Data.Part, id, p.Seq)
	case *p.Data.Part > k:
		t.find(&t.lost, "part %d of %s is missing before seq %d", k, id, p.Seq)
	case p.Data.Text != m.order.part(k):
		t.find(&t.wrong, "part %d of %s is %q", k, id, p.Data.Text)
	}
}

// acknowledgedIsThere compares what was acknowledged to the workers: every part and
// every hand-out, and that no part was taken under a generation that was over.
func (t *trial) acknowledgedIsThere(n *notes) {
	for _, a := range n.parts[t.talk.session] {
		m := t.messages[a.Source]
		if m == nil || a.Index >= len(m.parts) {
			t.find(&t.lost, "part %d of %s was acknowledged and is not in the log", a.Index, a.Source)
			continue
		}
		if p := m.parts[a.Index]; p.Data.Message != a.Message || p.Seq != a.Seq {
			t.find(&t.wrong, "part %d of %s was acknowledged as %s at seq %d; the log has %s at seq %d", a.Index, a.Source, a.Message, a.Seq, p.Data.Message, p.Seq)
		}
		if a.Duplicate {
			continue
		}
		for _, h := range m.handouts {
			if h.Data.Generation > a.Generation && h.Seq < a.Seq {
				t.find(&t.wrong, "part %d of %s was taken under generation %d at seq %d, after the hand-out of %d", a.Index, a.Source, a.Generation, a.Seq, h.Data.Generation)
			}
		}
	}
	for _, h := range n.handouts[t.talk.session] {
		m := t.messages[h.Message]
		if m == nil || h.Generation < 1 || h.Generation > len(m.handouts) || m.handouts[h.Generation-1].Data.Runtime != h.Runtime {
			t.find(&t.lost, "generation %d of %s was handed to %s; the log does not say so", h.Generation, h.Message, h.Runtime)
		}
	}
}
