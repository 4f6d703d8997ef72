package receipts

import (
	"slices"

	"parley/conversation"
)

// Open is a message that was read and that nothing has resolved yet.
type Open struct {
	Message conversation.MessageID
	Words   Words // OfMessage
	Nudged  bool  // the model was reminded of it
}

// Proof says that a text answers a message, and how that is known.
type Proof struct {
	Message  conversation.MessageID
	Evidence conversation.Evidence
	Item     int // the place of the item that the receipt points at
}

// least is how many words of a message a text must have to answer it by words.
const least = 2

// Try judges a text: what one answer says without a name, the words of each of its
// items. answered are the words (OfPart) of the parts that answered other messages
// of the task. A message that is not in the result stays open.
//
// The only open message is answered by any text that does not repeat what answered
// another one. Else a message is answered by the words that it alone has.
// Rules 8.7, 8.10.
func Try(text []Words, open []Open, answered []Words) []Proof {
	if len(text) == 0 {
		return nil
	}
	if len(open) == 1 && !repeats(text, open[0].Nudged, answered) {
		r := Proof{open[0].Message, conversation.EvidenceOnly, len(text) - 1}
		if open[0].Nudged {
			r.Evidence = conversation.EvidenceAsked
		}
		return []Proof{r}
	}
	holders := map[uint32]int{} // of a word; 1 = one open message has it, and nothing else
	for _, m := range open {
		for _, h := range m.Words {
			holders[h]++
		}
	}
	for _, part := range answered {
		for _, h := range part {
			holders[h] += 2
		}
	}
	said := map[uint32]bool{}
	for _, item := range text {
		for _, h := range item {
			said[h] = true
		}
	}
	var proofs []Proof
	for _, m := range open {
		own := slices.DeleteFunc(slices.Clone(m.Words), func(h uint32) bool { return holders[h] != 1 })
		n := 0
		for _, h := range own {
			if said[h] {
				n++
			}
		}
		if n >= least && 2*n >= len(own) {
			proofs = append(proofs, Proof{m.Message, conversation.EvidenceWords, closest(own, text)})
		}
	}
	return proofs
}

// Judge has the texts of one answer judged, the first behind what it goes on with. With one
// open message the beginnings of the texts tell, unless they repeat what was said: only
// then, and with more messages, all words of a long text are looked at.
func Judge(texts []string, before Words, open int, try func([]Words) []Proof) []Proof {
	if open == 0 {
		return nil
	}
	words := func(of func(string) Words) []Words {
		all := make([]Words, len(texts))
		for i, text := range texts {
			all[i] = of(text)
		}
		all[0] = before.And(all[0])
		return all
	}
	if open == 1 {
		if proofs := try(words(OfPart)); len(proofs) == 1 && proofs[0].Evidence != conversation.EvidenceWords {
			return proofs
		}
	}
	return try(words(WordsOf))
}

// Seen answers every open message by any text: coverage.mode=seen.
func Seen(text []Words, open []Open) []Proof {
	if len(text) == 0 {
		return nil
	}
	proofs := make([]Proof, len(open))
	for i, m := range open {
		proofs[i] = Proof{m.Message, conversation.EvidenceSeen, len(text) - 1}
	}
	return proofs
}

// repeats is true when a text says again what answered other messages: half of its
// words were in those answers. After a nudge, when models often say the same once
// more, one word is enough. A text without significant words repeats nothing.
func repeats(text []Words, nudged bool, answered []Words) bool {
	var said Words
	for _, item := range text {
		for _, h := range item {
			if len(said) < PartWords {
				said = said.with(h)
			}
		}
	}
	n := said.shared(answered...)
	return n > 0 && (nudged || 2*n >= len(said))
}

// closest is the item that has most of the words; of equals the last one.
func closest(own Words, text []Words) int {
	best, most := 0, -1
	for i, item := range text {
		if n := own.shared(item); n >= most {
			best, most = i, n
		}
	}
	return best
}
