package machine

import (
	"time"

	"parley/conversation"
	"parley/conversation/dedup"
)

// outside does what outside runtimes do. Some claim, say read, alive and failed, late
// or with the generation of another, or die and say nothing; an old caller does not
// claim at all. In the friendly world one claims and answers.
func (w *world) outside(v conversation.View) {
	n := w.nodes["s"]
	task := v.Tasks[0]
	lease := n.live.state.TaskOf(task.Trigger).Lease
	if w.friendly {
		if c := n.live.Standing().Claim; c != nil && c.From.Before(w.now) {
			name := conversation.RuntimeName("friend")
			if c.Runtime != "" {
				name = c.Runtime
			}
			if d := w.give("s", conversation.HandOut{Runtime: name}); d.Err != nil {
				w.fatalf("what may be claimed is refused: %v", d.Err)
			}
			lease = n.live.state.TaskOf(task.Trigger).Lease
		}
		if lease.Held() {
			w.part(task.Trigger, lease.Generation, true, true)
		}
		return
	}
	generation := uint32(0)
	if lease != nil {
		generation = lease.Generation
	}
	if w.r.IntN(6) == 0 {
		generation = uint32(w.r.IntN(4))
	}
	says := func(s conversation.RuntimeState) {
		w.give("s", conversation.RuntimeSays{
			Message: task.Trigger, Status: s, Generation: generation, Error: "broken", Permanent: w.r.IntN(8) == 0,
		})
	}
	switch w.r.IntN(8) {
	case 0, 1:
		w.give("s", conversation.HandOut{Runtime: []conversation.RuntimeName{"r1", "r2", "r3"}[w.r.IntN(3)]})
	case 2:
		says(conversation.RuntimeRead)
	case 3:
		says(conversation.RuntimeAlive)
	case 4:
		says(conversation.RuntimeFailed)
	default:
		w.part(task.Trigger, generation, w.r.IntN(6) > 0, w.r.IntN(3) == 0)
	}
}

// part delivers a part of a message: mostly the next one; also one that is stored, with
// the store's word that it is, one that leaves a gap, and a final one without a text.
func (w *world) part(source conversation.MessageID, generation uint32, indexed, final bool) {
	n := w.nodes["s"]
	c := conversation.AddPart{Author: "r", Source: string(source), Indexed: indexed, Generation: generation, Text: "outside part", Final: final}
	var stored []conversation.Event
	for _, e := range n.log() {
		if p, once := partOf(e.Body); once && p.Source == conversation.SourceID(source) {
			stored = append(stored, e)
		}
	}
	if indexed {
		c.Index = conversation.PartIndex(len(stored))
	}
	if !w.friendly {
		switch w.r.IntN(8) {
		case 0:
			c.Index = conversation.PartIndex(w.r.IntN(len(stored) + 3))
		case 1:
			c.Text = " "
		}
	}
	if int(c.Index) < len(stored) {
		c.Duplicate = dedup.Of(c, stored[c.Index])
	}
	d := w.give("s", c)
	if n.live == nil || d.Err != nil {
		return
	}
	if d.Receipt.Duplicate && c.Duplicate != nil && !conversation.IsBlank(c.Text) && d.Receipt.Message != c.Duplicate.Message {
		w.fatalf("part %d of %s is %s, and then %s", c.Index, source, c.Duplicate.Message, d.Receipt.Message)
	}
}

// judgeLeases: generations are counted from 1, one for each hand-out to another; what
// is said has that of the last hand-out; a failure for good ends the task, and nothing
// is handed out before its pause is over.
func (w *world) judgeLeases(n *node) {
	type lease struct {
		generation uint32
		runtime    conversation.RuntimeName
		failed     bool
		permanent  bool
		notBefore  time.Time
	}
	last := map[conversation.MessageID]lease{}
	for _, e := range n.durable {
		b, ok := e.Body.(conversation.RuntimeStatus)
		if !ok {
			if b, ok := e.Body.(conversation.MessageResolved); ok {
				if l := last[b.Message]; l.failed && b.How != conversation.ResolvedFailed && l.permanent {
					w.fatalf("%s: %s was given up at generation %d, and is %s", n.id, b.Message, l.generation, b.How)
				}
			}
			continue
		}
		l := last[b.Message]
		switch {
		case b.Status != conversation.RuntimeHandedOut && (b.Generation != l.generation || b.Runtime != l.runtime || l.failed):
			w.fatalf("%s: event %d is about generation %d of %s, the last hand-out has %d of %s", n.id, e.Seq, b.Generation, b.Runtime, l.generation, l.runtime)
		case b.Status == conversation.RuntimeFailed:
			l.failed, l.permanent, l.notBefore = true, b.Permanent, b.NotBefore
		case b.Status == conversation.RuntimeHandedOut && b.Generation == l.generation:
			if l.failed || b.Runtime != l.runtime {
				w.fatalf("%s: event %d hands generation %d out again, to %s instead of %s", n.id, e.Seq, b.Generation, b.Runtime, l.runtime)
			}
		case b.Status == conversation.RuntimeHandedOut:
			if b.Generation != l.generation+1 || l.generation > 0 && !l.failed || e.At.Before(l.notBefore) {
				w.fatalf("%s: event %d hands out generation %d after %+v", n.id, e.Seq, b.Generation, l)
			}
			l = lease{generation: b.Generation, runtime: b.Runtime}
		}
		last[b.Message] = l
	}
}
