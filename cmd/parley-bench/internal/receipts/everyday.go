package receipts

import (
	"math/rand/v2"
	"slices"
	"strings"

	"parley/conversation/machine/machinetest/everyday"
)

// How an everyday conversation is played.
const (
	steer   = "steer"   // what comes later is sent while the first message is answered
	queue   = "queue"   // all is sent at once, with mode=queue
	several = "several" // each message is sent when the one before is answered: several tasks
)

// everydayTalk is what a talk of the corpus has beside its turns.
type everydayTalk struct {
	Kind     string `json:"kind"`
	Language string `json:"language"`
	Setting  string `json:"setting"`
}

// loose is true of the kinds whose later messages may need no answer of their own.
func (e *everydayTalk) loose() bool {
	return slices.Contains([]string{"amendment", "correction", "thanks"}, e.Kind)
}

// everydayTalks draws n conversations of the corpus, and returns each in every setting.
// Those count whose name in one of the settings contains only.
func everydayTalks(n int, seed uint64, only string) ([]talk, error) {
	corpus, err := everyday.Talks()
	if err != nil || n == 0 {
		return nil, err
	}
	corpus = slices.DeleteFunc(corpus, func(t everyday.Talk) bool { return len(played(&t, only)) == 0 })
	var all []talk
	for _, t := range draw(corpus, n, seed) {
		all = append(all, played(&t, only)...)
	}
	return all, nil
}

// draw takes n conversations, as many of each language and of each kind as there may be.
func draw(corpus []everyday.Talk, n int, seed uint64) (drawn []everyday.Talk) {
	random := rand.New(rand.NewPCG(seed, 0))
	shuffle := func(s []string) []string {
		slices.Sort(s)
		s = slices.Compact(s)
		random.Shuffle(len(s), func(i, j int) { s[i], s[j] = s[j], s[i] })
		return s
	}
	random.Shuffle(len(corpus), func(i, j int) { corpus[i], corpus[j] = corpus[j], corpus[i] })
	type cell struct{ language, kind string }
	cells := map[cell][]everyday.Talk{}
	var languages, kinds []string
	for _, t := range corpus {
		at := cell{t.Language, t.Kind}
		cells[at], languages, kinds = append(cells[at], t), append(languages, t.Language), append(kinds, t.Kind)
	}
	languages, kinds = shuffle(languages), shuffle(kinds)
	for round := 0; len(drawn) < min(n, len(corpus)); round++ {
		for i, language := range languages { // another kind for each, and in the next round the next
			at := cell{language, kinds[(i+round)%len(kinds)]}
			if left := cells[at]; len(left) > 0 && len(drawn) < n {
				drawn, cells[at] = append(drawn, left[0]), left[1:]
			}
		}
	}
	return drawn
}

// played is a conversation in the settings whose name contains only.
func played(t *everyday.Talk, only string) (all []talk) {
	for _, setting := range []string{steer, queue, several} {
		name := strings.Join([]string{t.Language, t.Kind, setting}, " ") + ": " + t.Messages[0].Text
		if !strings.Contains(name, only) {
			continue
		}
		one := talk{Name: name, Reply: defaultReply, Instructions: facts(t), Everyday: &everydayTalk{t.Kind, t.Language, setting}}
		if setting == queue {
			one.Mode = queue
		}
		for n, m := range t.Messages {
			u := turn{At: atOnce, Say: m.Text, Want: []string{answered}, Play: "/say " + m.Answer, truth: truthOf(t, n)}
			switch {
			case setting == steer && n == 0:
				u.Play = "/wait 200ms\n" + u.Play
			case setting == steer && n == 1:
				u.At = atStep
			case setting == several && n > 0:
				u.At = atRest
			}
			one.Turns = append(one.Turns, u)
		}
		all = append(all, one)
	}
	return all
}

const (
	factsHead  = "What is said here is all you need to know; there is nothing to look up or to do. Answer what was asked, and nothing else.\nFacts:"
	factAsked  = "\n- if asked «"
	factAnswer = "», the answer is: "
)

// facts are the instructions of a session: what a model cannot know.
func facts(t *everyday.Talk) string {
	var b strings.Builder
	b.WriteString(factsHead)
	for _, m := range t.Messages {
		b.WriteString(factAsked + m.Text + factAnswer + m.Answer)
	}
	return b.String()
}

// factsIn reads them again, as programs of a stand-in; nil if a prompt has none.
func factsIn(prompt string) map[string]string {
	_, list, ok := strings.Cut(prompt, factsHead)
	if !ok {
		return nil
	}
	programs := map[string]string{}
	for fact := range strings.SplitSeq(list, factAsked) {
		if asked, answer, ok := strings.Cut(fact, factAnswer); ok {
			answer, _, _ = strings.Cut(answer, "\n")
			programs[asked] = "/say " + answer
		}
	}
	return programs
}
