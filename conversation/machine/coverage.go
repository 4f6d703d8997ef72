package machine

import (
	"hash/fnv"
	"strings"
	"unicode"

	"parley/conversation"
)

// Coverage: the last-resort net under the conversation. Obligations are not
// kept anywhere: an accepted message without a resolution is one.

// nudge is line 8: the task would finish with messages that it has read and not
// addressed. The text of the answer counts as if it were final.
func (s *Session) nudge(t *task) bool {
	if s.coverage() != conversation.CoverageStrict || t.Nudges >= s.policy.MaxNudges {
		return false
	}
	if s.out.pending.task == t && s.out.pending.silent {
		return false // NO_REPLY counts as covered
	}
	missing := s.uncovered(t)
	if len(missing) == 0 {
		return false
	}
	s.showPending(t)
	s.emit(t, conversation.CoverageNudge{Messages: missing, Nudge: t.Nudges + 1})
	return true
}

// coverage is the mode that holds for this session's agent.
func (s *Session) coverage() conversation.Coverage {
	if s.key.Session.Depth() > 0 {
		return conversation.CoverageSeen
	}
	p := s.rules.Agents[s.state.Agent]
	if !p.EngineTools {
		return conversation.CoverageSeen
	}
	if p.Coverage != nil {
		return *p.Coverage
	}
	return s.policy.Coverage
}

// uncovered lists what would be left unanswered if the task ended now with the
// pending text.
func (s *Session) uncovered(t *task) []conversation.MessageID {
	var texts []pendingText
	if s.out.pending.task == t {
		texts = s.out.pending.texts
	}
	done := map[conversation.MessageID]bool{}
	for range texts {
		id := t.targetAmong(func(m *message) bool { return !done[m.ID] })
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
func (s *Session) answeredByWords(t *task, texts []pendingText, part conversation.PartIndex) {
	words := wordsOf(texts)
	for _, m := range append([]*message(nil), t.Messages...) {
		if m.Read != 0 && shares(m.Words, words) {
			s.answered(t, m.ID, part)
		}
	}
}

func wordsOf(texts []pendingText) map[uint32]bool {
	words := map[uint32]bool{}
	for _, p := range texts {
		eachWord(p.text, func(h uint32) bool { words[h] = true; return true })
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

// maxWords bounds what a session remembers of a waiting message.
const maxWords = 16

func significantWords(text string) []uint32 {
	var words []uint32
	eachWord(text, func(h uint32) bool {
		words = append(words, h)
		return len(words) < maxWords
	})
	return words
}

// eachWord hashes the words of at least four letters that are not common ones.
func eachWord(text string, yield func(uint32) bool) {
	start := -1
	for i, r := range text + " " {
		if unicode.IsLetter(r) || unicode.IsDigit(r) {
			if start < 0 {
				start = i
			}
			continue
		}
		if start >= 0 {
			word := strings.ToLower(text[start:i])
			start = -1
			if len([]rune(word)) < 4 || commonWords[word] {
				continue
			}
			h := fnv.New32a()
			h.Write([]byte(word))
			if !yield(h.Sum32()) {
				return
			}
		}
	}
}

var commonWords = func() map[string]bool {
	m := map[string]bool{}
	for _, w := range strings.Fields(`about actually after again also because been before being could does doing done down
		each else even ever every from give have having here instead into just know like make many more most much must need
		only other over please same shall should since some still such take tell than that their them then there these they
		thing this those through under until very want were what when where which while will with would your yours`) {
		m[w] = true
	}
	return m
}()
