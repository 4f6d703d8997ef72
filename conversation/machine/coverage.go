package machine

import (
	"slices"

	"parley/conversation"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Coverage: the last-resort net under the conversation. Obligations are not
// kept anywhere: an accepted message without a resolution is one.

// nudging is the outcome of rule 2.8.
type nudging bool

const (
	notNudged nudging = false // nothing is left open, or the model was reminded often enough
	nudged    nudging = true  // the model is reminded, which is unseen: another step follows
)

// nudge is rule 2.8: the task would finish with messages that it has read and not
// addressed. The text of the answer counts as if it were final.
// Rules 2.8, 8.3.
func (d *decision) nudge(t *state.Task) nudging {
	if d.coverage() != policy.CoverageStrict || t.Nudges >= d.policy.MaxNudges {
		return notNudged
	}
	if d.pending.task == t && d.pending.silent {
		return notNudged // NO_REPLY counts as covered
	}
	missing := d.uncovered(t)
	if len(missing) == 0 {
		return notNudged
	}
	d.showPending(t)
	d.emit(t, conversation.CoverageNudge{Messages: missing, Nudge: t.Nudges + 1})
	return nudged
}

// coverage is the mode that holds for this session's agent.
// Rules 5.8, 8.3.
func (s *Session) coverage() policy.Coverage {
	if s.state.Key.Session.Depth() > 0 {
		return policy.CoverageSeen
	}
	p := s.rules.Agents[s.state.Agent]
	if !p.EngineTools {
		return policy.CoverageSeen
	}
	if p.Coverage != nil {
		return *p.Coverage
	}
	return s.policy.Coverage
}

// uncovered lists what would be left unanswered if the task ended now with the
// pending text.
// Rule 8.3.
func (d *decision) uncovered(t *state.Task) []conversation.MessageID {
	var texts []pendingText
	if d.pending.task == t {
		texts = d.pending.texts
	}
	done := map[conversation.MessageID]bool{}
	for range texts {
		id := t.TargetAmong(func(m *state.Message) bool { return !done[m.ID] })
		if id != "" {
			done[id] = true
		}
	}
	if len(texts) > 0 || t.LastPart != nil && (t.LastPart.InReplyTo == "" || t.LastPart.InReplyTo == t.Trigger) {
		done[t.Trigger] = true
	}
	words := wordsOf(texts)
	var missing []conversation.MessageID
	for _, m := range t.Messages {
		if m.Read != 0 && !done[m.ID] && !shares(m.Words, words) {
			missing = append(missing, m.ID)
		}
	}
	return missing
}

// answeredByWords is the fallback: a final answer that shares the significant
// words of a message answers it, even if it does not say so.
func (d *decision) answeredByWords(t *state.Task, texts []pendingText, part conversation.PartIndex) {
	words := wordsOf(texts)
	for _, m := range slices.Clone(t.Messages) {
		if m.Read != 0 && shares(m.Words, words) {
			d.answered(t, m.ID, part)
		}
	}
}

func wordsOf(texts []pendingText) map[uint32]bool {
	words := map[uint32]bool{}
	for _, p := range texts {
		state.EachWord(p.text, func(h uint32) bool { words[h] = true; return true })
	}
	return words
}

// shares is true when at least half of a message's significant words are there.
func shares(of []uint32, in map[uint32]bool) bool {
	n := 0
	for _, h := range of {
		if in[h] {
			n++
		}
	}
	return n > 0 && 2*n >= len(of)
}
