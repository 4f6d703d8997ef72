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
	if len(talks) < 18 {
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
		{"answered by another part", []turn{peru}, message{how: answered, task: "t1", part: 1}, []part{lima, {Task: "t1", Index: 1, Text: "Hello."}}, verdictFalse, "does not have Lima"},
		{"by the same part of another task", []turn{peru}, message{how: answered, task: "t2"}, []part{lima}, verdictFalse, "is not there"},
		{"by the answer to another", []turn{peru, {Say: "Gold?", Words: [][]string{{"Au"}}}}, message{how: answered, task: "t1"}, []part{{Task: "t1", Text: "Au"}}, verdictFalse, "answers turn 2"},
		{"unanswered", []turn{peru}, message{how: unanswered, part: -1}, []part{{Task: "t1", Text: "Hello."}}, verdictUnanswered, ""},
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
	t.Run("everyday", func(t *testing.T) {
		for _, c := range []struct {
			first string
			turn  int // from 0
			got   message
			says  string
			want  verdict
		}{
			{"Is order 17 shipped?", 0, message{how: answered}, "Yes, order 17 is.", verdictTrue},
			{"Is order 17 shipped?", 1, message{how: answered}, "Yes, order 17 is.", verdictFalse},
			{"Is order 17 shipped?", 1, message{how: unanswered, part: -1}, "Both 17 and 18 are.", verdictMissed},
			{"Is order 17 shipped?", 1, message{how: unanswered, part: -1}, "Order 17 is.", verdictUnanswered},
			{"Is order 17 shipped?", 1, message{how: merged, part: -1}, "Both 17 and 18 are.", verdictFalse},
			{"Book a table for four at eight", 1, message{how: merged, part: -1}, "At nine.", verdictNeither},
			{"Where did I park?", 1, message{how: dismissed, part: -1}, "On level 3.", verdictNeither},
			{"Where did I park?", 1, message{how: unanswered, part: -1}, "On level 3.", verdictUnanswered},
			{"Is there a direct bus to the airport?", 1, message{how: dismissed, part: -1}, "", verdictNeither},
			{"Is there a direct bus to the airport?", 1, message{how: answered}, "No problem.", verdictUnjudged},
			{"Is there a direct bus to the airport?", 1, message{how: "failed", part: -1}, "", verdictFailed},
		} {
			p := everydayPlay(t, c.first)
			c.got.resolved, c.got.task = true, "t1"
			p.history.byClient[clientID(c.turn)] = &c.got
			p.history.parts = []part{{Task: "t1", Text: c.says}}
			if j := p.judge()[c.turn]; j.Verdict != c.want {
				t.Errorf("%q, turn %d is %s by %q: %s (%s), want %s", c.first, c.turn+1, c.got.how, c.says, j.Verdict, j.Why, c.want)
			}
		}
	})
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

func everydayPlay(t *testing.T, first string) *play {
	t.Helper()
	one := played(talkThatBegins(t, first), steer)[0]
	return &play{talk: &one, history: newHistory(), refused: map[int]bool{}, next: len(one.Turns)}
}

// What a user sees twice, and what answers nothing.
func TestTwiceAndOdd(t *testing.T) {
	p := everydayPlay(t, "Is order 17 shipped?")
	for _, line := range []string{
		`{"type":"step_started","task":"t1","data":{"step":1}}`,
		`{"type":"partial_response","task":"t1","data":{"part":0,"text":"Order 17 is shipped."}}`,
		`{"type":"partial_response","task":"t1","data":{"part":1,"text":"One moment."}}`, // odd in a nudged step alone
		`{"type":"partial_response","task":"t1","data":{"part":2,"text":"Orders 17 and 18 are shipped."}}`,
		`{"type":"coverage_nudge","task":"t1","data":{"messages":["m1","m2"]}}`,
		`{"type":"step_started","task":"t2","data":{"step":1}}`,
		`{"type":"partial_response","task":"t2","data":{"part":0,"text":"Hello."}}`, // of another task
		`{"type":"step_started","task":"t1","data":{"step":2}}`,
		`{"type":"step_started","task":"t1","data":{"step":2}}`, // another attempt
		`{"type":"partial_response","task":"t1","data":{"part":3,"text":"Order 18 is shipped."}}`,
		`{"type":"partial_response","task":"t1","data":{"part":4,"text":"I said that above."}}`,
		`{"type":"response","task":"t1","data":{"part":4,"text":"I said that above.","promoted":true}}`,
		`{"type":"step_started","task":"t1","data":{"step":3}}`,
		`{"type":"partial_response","task":"t1","data":{"part":5,"text":"Anything else?"}}`,
		`{"type":"partial_response","task":"t2","data":{"part":1,"text":"Order 18 is shipped."}}`,
	} {
		if err := p.history.add([]byte(line)); err != nil {
			t.Fatal(err)
		}
	}
	if twice, odd := p.twice(), p.odd(); twice != 1 || odd != 1 || p.history.nudges != 1 || p.history.nudged != 2 {
		t.Errorf("%d parts twice, %d odd, %d nudged steps for %d messages", twice, odd, p.history.nudges, p.history.nudged)
	}
}
