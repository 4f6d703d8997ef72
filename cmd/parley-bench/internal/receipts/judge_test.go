package receipts

import (
	"slices"
	"strings"
	"testing"
)

// The embedded conversations can be judged: a message's own text is no answer to it, nor
// is the right answer to another message of its conversation.
func TestConversations(t *testing.T) {
	talks, err := readTalks(embedded)
	if err != nil {
		t.Fatal(err)
	}
	names, texts := map[string]bool{}, map[string]string{}
	for _, talk := range talks {
		if names[talk.Name] {
			t.Errorf("two conversations are called %q", talk.Name)
		}
		names[talk.Name] = true
		for n := range talk.Turns {
			u := &talk.Turns[n]
			if play, known := texts[u.Say]; known && u.Say != "" && play != u.Play {
				t.Errorf("%q is said twice, with two programs", u.Say) // the stand-in would take one for the other
			}
			texts[u.Say] = u.Play
			own := len(u.Words) > 0 && slices.Equal(u.Want, []string{answered})
			if own && !talk.Rules && u.answeredBy(u.Say) {
				t.Errorf("%s: %q answers itself", talk.Name, u.Say)
			}
			for i := range talk.Turns {
				said := knownAnswer(&talk.Turns[i])
				switch {
				case said == "" || talk.Rules:
				case i == n && !u.answeredBy(said):
					t.Errorf("%s: %q does not answer %q", talk.Name, said, u.Say)
				case i != n && own && u.answeredBy(said):
					t.Errorf("%s: %q answers %q, too", talk.Name, said, u.Say)
				}
			}
		}
	}
	if len(talks) < 23 {
		t.Errorf("there are %d conversations", len(talks))
	}
}

// knownAnswer is what a good model says to a turn, as far as that is known beforehand.
func knownAnswer(u *turn) string {
	for line := range strings.Lines(u.Play) {
		if text, ok := strings.CutPrefix(strings.TrimSpace(line), "/say "); ok && !strings.Contains(text, "$") {
			return text
		}
	}
	return ""
}

func TestReadTalksRefuses(t *testing.T) {
	const head = "[[conversation]]\nname = \"x\"\n[[conversation.turn]]\nsay = \"a\"\n"
	for data, want := range map[string]string{
		"[[conversation]]\nnaem = \"x\"\n":                                  "strict mode",
		head + "at = \"step\"\n":                                            "the first turn cannot wait",
		head + "at = \"later\"\n":                                           "there is no moment",
		head + "want = [\"failed\"]\n":                                      "cannot be wanted",
		head + "words = [[]]\n":                                             "an empty list of words",
		head + "[[conversation.turn]]\nwithdraw = 2\n":                      "turn 2 has said nothing before it",
		head + "[[conversation.turn]]\nwithdraw = 1\nsay = \"b\"\n":         "says something, or withdraws",
		head + "[[conversation.turn]]\nat = \"any\"\n":                      "says something, or withdraws",
		"[[conversation]]\nname = \"x\"\n[[conversation.turn]]\nedit = 1\n": "has said nothing before it",
	} {
		if _, err := readTalks([]byte(data)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v for\n%s", want, err, data)
		}
	}
}

func TestHolds(t *testing.T) {
	for _, c := range []struct {
		text, word string
		want       bool
	}{
		{"It is **Lima**.", "lima", true},
		{"because of that", "Au", false},
		{"Gold: Au", "Au", true},
		{"17 days", "7", false},
		{"7, of course", "7", true},
		{"12 and 7", "7", true},
		{"一年有12个月", "12", true},
		{"日本的首都是东京。", "东京", true},
		{"عاصمة مصر هي القاهرة.", "القاهرة", true},
		{"CO₂ it is", "CO₂", true},
		{"Über Österreich", "österreich", true},
		{"", "x", false},
	} {
		if got := holds(c.text, c.word); got != c.want {
			t.Errorf("%q in %q: %t", c.word, c.text, got)
		}
	}
}

// Each verdict, from a history that is written down.
func TestJudge(t *testing.T) {
	peru := turn{Say: "Capital of Peru?", Words: [][]string{{"Lima"}}, Want: []string{answered}}
	change := turn{Say: "In capitals", Words: [][]string{{"LIMA"}}, Want: []string{merged, answered}}
	noise := turn{Say: "asdf", Want: []string{dismissed}}
	lima := part{Task: "t1", Index: 0, Text: "Lima."}
	for _, c := range []struct {
		name  string
		turns []turn
		got   message
		parts []part
		want  verdict
		why   string
	}{
		{"answered", []turn{peru}, message{how: answered, task: "t1"}, []part{lima}, verdictTrue, ""},
		{"answered by another part", []turn{peru}, message{how: answered, task: "t1", part: 1}, []part{lima, {"t1", 1, "Hello."}}, verdictFalse, "does not have Lima"},
		{"by the same part of another task", []turn{peru}, message{how: answered, task: "t2"}, []part{lima}, verdictFalse, "is not there"},
		{"by the answer to another", []turn{peru, {Say: "Gold?", Words: [][]string{{"Au"}}}}, message{how: answered, task: "t1"}, []part{{"t1", 0, "Au"}}, verdictFalse, "answers turn 2"},
		{"unanswered", []turn{peru}, message{how: unanswered, part: -1}, []part{{"t1", 0, "Hello."}}, verdictUnanswered, ""},
		{"missed", []turn{peru}, message{how: unanswered, part: -1}, []part{lima}, verdictMissed, ""},
		{"merged", []turn{change}, message{how: merged, part: -1}, []part{lima}, verdictTrue, ""},
		{"merged, and nothing was done", []turn{change}, message{how: merged, part: -1}, nil, verdictFalse, "no part has LIMA"},
		{"merged, and it was a request of its own", []turn{peru}, message{how: merged, part: -1}, []part{lima}, verdictFalse, "not to be merged"},
		{"taken as an answer", []turn{peru}, message{how: merged, part: -1, question: "q1"}, nil, verdictUnanswered, "answer to a question"},
		{"taken, and answered", []turn{peru}, message{how: merged, part: -1, question: "q1"}, []part{lima}, verdictTrue, ""},
		{"dismissed", []turn{noise}, message{how: dismissed, part: -1}, nil, verdictTrue, ""},
		{"dismissed, and it was a request", []turn{peru}, message{how: dismissed, part: -1}, nil, verdictFalse, "not to be dismissed"},
		{"noise was answered", []turn{noise}, message{how: answered, task: "t1"}, []part{lima}, verdictFalse, "no answer of its own"},
		{"withdrawn", []turn{peru, {Withdraw: 1}}, message{how: withdrawn, part: -1}, nil, verdictTrue, ""},
		{"withdrawn by nobody", []turn{peru}, message{how: withdrawn, part: -1}, nil, verdictFalse, ""},
		{"the change counts", []turn{{Say: "Capital of Chile?", Words: [][]string{{"Santiago"}}}, {Edit: 1, Say: peru.Say, Words: peru.Words, Want: peru.Want}}, message{how: answered, task: "t1"}, []part{lima}, verdictTrue, ""},
		{"failed", []turn{peru}, message{how: "failed", part: -1}, nil, verdictFailed, ""},
		{"cancelled", []turn{peru}, message{how: "cancelled", part: -1}, nil, verdictFailed, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := &play{talk: &talk{Turns: c.turns}, history: newHistory(), refused: map[int]bool{}, next: len(c.turns)}
			c.got.resolved = true
			p.history.byClient[clientID(0)] = &c.got
			p.history.parts = c.parts
			j := p.judge()[0]
			if j.Verdict != c.want || !strings.Contains(j.Why, c.why) || (j.Why == "") != (c.want == verdictTrue) {
				t.Errorf("%s (%s), want %s (%s)", j.Verdict, j.Why, c.want, c.why)
			}
		})
	}
	t.Run("a change that was refused", func(t *testing.T) {
		p := &play{talk: &talk{Turns: []turn{peru, {Edit: 1, Say: "Gold?", Words: [][]string{{"Au"}}}}}, history: newHistory(), refused: map[int]bool{1: true}, next: 2}
		p.history.byClient[clientID(0)] = &message{resolved: true, how: answered, task: "t1"}
		p.history.parts = []part{lima}
		if j := p.judge(); len(j) != 1 || j[0].Verdict != verdictTrue {
			t.Errorf("it is %+v", j)
		}
	})
	t.Run("open", func(t *testing.T) {
		p := &play{talk: &talk{Turns: []turn{peru}}, history: newHistory()}
		if j := p.judge(); j[0].Verdict != verdictOpen {
			t.Errorf("it is %+v", j)
		}
	})
	t.Run("one part for two", func(t *testing.T) {
		p := &play{talk: &talk{Turns: []turn{peru, peru}}, history: newHistory()}
		for n := range 2 {
			p.history.byClient[clientID(n)] = &message{resolved: true, how: answered, task: "t1"}
		}
		if p.joined() != 1 {
			t.Errorf("%d parts answer several messages", p.joined())
		}
	})
}
