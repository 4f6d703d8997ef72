package receipts

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestJudge: D-24 N-15. What a text without a name answers, where one message is open.
// Rules 8.6, 8.7.
func TestJudge(t *testing.T) {
	const (
		order17, is17 = "Is order 17 shipped?", "Order 17 is shipped."
		peru, lima    = "What is the capital of Peru?", "The capital of Peru is Lima."
		shop, open    = "When is the shop open on Monday?", "From nine to five."
		both, times   = "When are the shop and the museum open?", "The shop is open from nine to five, and the museum from ten to six."
		where, parcel = "Where is the parcel?", "The parcel left Hamburg on Monday, reached Bremen on Tuesday, and waits at counter three for your signature."
		of17, left17  = "Where is order 17?", "Order 17 left Hamburg on Monday, reached Bremen on Tuesday, and waits at counter three for your signature."
	)
	for _, c := range []struct {
		name    string
		text    string
		message string
		asked   string // of another message, "" = there is none
		said    string // and its answer
		want    Verdict
	}{
		{"a text answers", "Done.", "Fix the login bug", "", "", Answers},
		{"alike, but of the message", "Order 18 is shipped.", "Is order 18 shipped?", order17, is17, Answers},
		{"one word of many is another", "The capital of Chile is Santiago.", "What is the capital of Chile?", peru, lima, Answers},
		{"the same of another number", is17, "Is order 18 shipped?", order17, is17, Repeated},
		{"and of one with the hash of a little word", is17, "Is order 43477 shipped?", order17, is17, Repeated},
		{"the same of another name", lima, "What is the capital of Chile?", peru, lima, Repeated},
		{"in another order", "Lima is the capital of Peru.", "What is the capital of Chile?", peru, lima, Repeated},
		{"with a word more", "So, the capital of Peru is Lima.", "What is the capital of Chile?", peru, lima, Repeated},
		{"the same to something else", lima, "Book a table for two", peru, lima, Repeated},
		{"it may be the answer as well", open, "And on Tuesday?", shop, open, Unclear},
		{"so it may of a short question", "On Monday from nine to five.", "And on Tuesday?", shop, "From nine to five on Monday.", Doubtful},
		{"it is about what both ask", "The shop is open from nine to five.", "When is the shop open on Tuesday?", shop, "The shop is open from nine to five.", Unclear},
		{"it has a word of the message", "Ann has the keys and the car.", "Who has the car today?", "Who has the keys?", "Ann has the keys and the car.", Doubtful},
		{"a word that asks is no subject", "The city where Pizarro died: Lima, capital of Peru.", "Where is the capital of Chile?", "Tell me the capital of Peru", "The city where Pizarro died: Lima, capital of Peru.", Repeated},
		{"less than was said", "The museum is open from ten to six.", "How long is the museum open on Sunday?", both, times, Answers},
		{"more than was said", "The museum is open from ten to six.", "How long is it open on Sunday?", "Is the museum open?", "The museum is open.", Answers},
		{"another word of many", strings.Replace(parcel, "reached", "passed", 1), "Did the letter arrive in Munich?", where, parcel, Answers},
		{"another number of many words", strings.Replace(left17, "17", "18", 1), "And the other one?", of17, left17, Answers},
		{"a number more", left17 + " So is 18.", "And the other one?", of17, left17, Answers},
		{"a number less", left17, "And the other one?", of17, left17 + " So is 18.", Answers},
		{"a number that was not asked for", "It is 391.", "What is eighteen times 23?", "What is seventeen times 23?", "It is 391.", Unclear},
		{"what may be so in both", "Yes, it is free.", "Is room 14 free at 3pm?", "Is room 12 free at 3pm?", "Yes, it is free.", Unclear},
		{"asked to say it again", "The wifi password is hunter2.", "Please repeat that", "What is the wifi password?", "The wifi password is hunter2.", Answers},
		{"it speaks of the other, and not of what is new", "The table is booked for eight o'clock.", "Make it nine o'clock", "Book a table at eight", "The table is booked for eight o'clock.", Doubtful},
		{"another sign", "The result is -5.", "What is 12 - 17?", "What is 8 - 3?", "The result is 5.", Answers},
		{"another symbol", "Status: ❌ all checks", "Status of server two?", "Status of server one?", "Status: ✅ all checks", Answers},
		{"other code", "for (int i = 0; i > n; i--) { }", "And one from n down to 0", "Write a loop in C from 0 up to n", "for (int i = 0; i < n; i++) { }", Answers},
		{"a word that says no", "The build of the new mobile app was never finished by the old team of engineers in Lisbon.", "And the app?", "How is the build?",
			"The build of the new mobile app was finished by the old team of engineers in Lisbon.", Answers},
		{"and one without it", "The build of the new mobile app was finished by the old team of engineers in Lisbon.", "And the server?", "How is the build?",
			"The build of the new mobile app was never finished by the old team of engineers in Lisbon.", Answers},
		{"with a word of the message", "The museum is open, on Sunday it is.", "How long is it open on Sunday?", "Is the museum open?", "The museum is open.", Answers},
		{"with the number of the message", left17 + " So is 18.", "Is 18 at sea?", of17, left17, Answers},
		{"another name in a long sentence", longAnswer("Bob"), "Who signs off contract Beta?", "Who signs off contract Alpha?", longAnswer("Ann"), Answers},
		{"the same at length to another", longAnswer("Ann"), "Who signs off contract Beta?", "Who signs off contract Alpha?", longAnswer("Ann"), Unclear},
		{"alike only where it begins", boilerplate + " Beta ends in May.", "Sum up contract Beta", "Sum up contract Alpha", boilerplate + " Alpha ends in June.", Answers},
		{"a message that is alike where it begins", "Yes, the order of Meyer was delivered.", longQuestion("Huber"), longQuestion("Meyer"), "Yes, the order of Meyer was delivered.", Unclear},
		{"what only acknowledges fits all", "Done.", "Add eggs", "Add milk", "Done.", Answers},
		{"also at length", "You're welcome! Let me know if you need anything else.", "great, thank you", "Thanks!", "You're welcome! Let me know if you need anything else.", Answers},
		{"what was asked for again", lima, "What was the capital of Peru again?", peru, lima, Answers},
		{"and in a word", lima, "sorry, what was it?", peru, lima, Repeated},
		{"by what was answered", lima, "So it was Lima?", peru, lima, Answers},

		{"German", "Die Hauptstadt von Peru ist Lima.", "Was ist die Hauptstadt von Chile?", "Was ist die Hauptstadt von Peru?", "Die Hauptstadt von Peru ist Lima.", Repeated},
		{"German, its own", "Die Hauptstadt von Chile ist Santiago.", "Was ist die Hauptstadt von Chile?", "Was ist die Hauptstadt von Peru?", "Die Hauptstadt von Peru ist Lima.", Answers},
		{"Japanese", "日本の首都は東京です。", "韓国の首都は？", "日本の首都は？", "日本の首都は東京です。", Repeated},
		{"Japanese, its own", "韓国の首都はソウルです。", "韓国の首都は？", "日本の首都は？", "日本の首都は東京です。", Answers},
		{"Japanese thanks", "どういたしまして", "本当にありがとう", "ありがとう", "どういたしまして", Answers},
		{"Chinese", "日本的首都是东京。", "法国的首都是哪里？", "日本的首都是哪里？", "日本的首都是东京。", Repeated},
		{"Chinese, done", "已添加。", "再加鸡蛋", "把牛奶加到清单", "已添加。", Answers},
		{"Thai", "เมืองหลวงของญี่ปุ่นคือโตเกียว", "เมืองหลวงของฝรั่งเศสคืออะไร", "เมืองหลวงของญี่ปุ่นคืออะไร", "เมืองหลวงของญี่ปุ่นคือโตเกียว", Repeated},
	} {
		t.Run(c.name, func(t *testing.T) {
			var answers []Told
			if c.said != "" { // and another message was answered since
				answers = []Told{{Words: Of(c.said, PartWords), Asked: Of(c.asked, MessageWords)}, {Words: Of("It comes at eight.", PartWords), Asked: Of("Book a taxi", MessageWords)}}
			}
			if got := Judge([]Words{Of(c.text, PartWords)}, Of(c.message, MessageWords), answers); got != c.want {
				t.Errorf("verdict %d, want %d", got, c.want)
			}
		})
	}
}

func longAnswer(name string) string {
	return "The person who is responsible for the final review of that contract in the legal department since last summer is " + name + "."
}

func longQuestion(name string) string {
	return "Hello there, good morning, could somebody of your team please have a quick look and tell me whether the most recent order of " + name + " was delivered?"
}

var boilerplate = strings.Join(strings.Fields(`This report summarises obligations deadlines penalties renewals warranties liabilities payments deliveries audits
	notices amendments schedules insurance confidentiality arbitration jurisdiction assignment termination indemnities force majeure severability waiver
	counterparts headings definitions interpretation language currency taxes invoices interest`), " ")

// TestJudgeAlone: N-15. What a model says when it is asked for one message alone.
// Rule 8.12.
func TestJudgeAlone(t *testing.T) {
	const (
		peru, lima, chile = "What is the capital of Peru?", "The capital of Peru is Lima.", "What is the capital of Chile?"
		shop, open        = "When is the shop open on Monday?", "From nine to five."
		of17, left17      = "Where is order 17?", "Order 17 left Hamburg on Monday, reached Bremen on Tuesday, and waits at counter three for your signature."
	)
	var answers []Told
	for asked, said := range map[string]string{peru: lima, shop: open, of17: left17} {
		answers = append(answers, Told{Words: Of(said, PartWords), Asked: Of(asked, MessageWords)})
	}
	for _, c := range []struct {
		text, message string
		want          bool
	}{
		{"The capital of Chile is Santiago.", chile, true},
		{"Santiago.", chile, true},
		{lima, chile, false},
		{open, "And on Tuesday?", false}, // it may be the answer, or the other one's
		{"As I said, the capital of Peru is Lima.", chile, false},
		{"As I said, the capital of Peru is Lima.", "What was the capital?", true}, // it is asked for again
		{"As mentioned: Lima.", chile, true},                                       // nobody can tell: the message may have asked for it
		{"As I said: " + left17, "And the other one?", false},
		{"As I said: " + strings.Replace(left17, "17", "18", 1), "And the other one?", true},
		{"I have already answered that above. Is there anything else I can help you with?", chile, false},
		{"Das habe ich bereits beantwortet.", chile, false},
		{"Ya respondí a eso.", chile, false},
		{"J'ai déjà répondu à cette question.", chile, false},
		{"我已经回答了。", chile, true}, // 我 and 了 stand in pairs that are no words
		{"Done.", chile, true},
	} {
		if got := JudgeAlone([]Words{Of(c.text, PartWords)}, Of(c.message, MessageWords), answers) == Answers; got != c.want {
			t.Errorf("%q answers %q: %v, want %v", c.text, c.message, got, c.want)
		}
	}
}

// TestWithin: N-15. Which of the texts that were shown says already what a text says.
// Rule 8.12.
func TestWithin(t *testing.T) {
	const parcel = "The parcel left Hamburg on Monday, reached Bremen on Tuesday, and waits at counter 3 for your signature."
	parts := []string{"Order 17 is shipped. Order 18 is not.", "The capital of Peru is Lima.", "N-e-c-e-s-s-a-r-y", "Order 17 is shipped.",
		"Order 17 is shipped, and the others are lost.", "Oslo has rain.", "In Oslo there is rain.", "Oslo has rain.", parcel}
	for _, c := range []struct {
		text, message string
		want          int
	}{
		{"Order 17 is shipped.", "Is order 17 shipped?", 3}, // rather the text itself than a list with it
		{"Order 18 is not.", "Is order 18 shipped?", 0},
		{"Order 19 is shipped.", "Is order 19 shipped?", -1},
		{"Lima is the capital.", "What is the capital of Peru?", 1},
		{"The capital of Chile is Santiago.", "What is the capital of Chile?", -1},
		{"A-c-c-e-s-s", "Spell access", -1}, // letters are in nearly every text
		{"Oslo has rain.", "The weather in Oslo?", 7},
		{"The capital of Peru is Quito.", "What is it?", -1},
		{"But Lima is it that you would get to.", "Where do I get to?", -1}, // one word of it was said
		{parcel, "Where is the parcel?", 8},
		{strings.Replace(parcel, "parcel", "book", 1), "Where is it?", 8}, // who can tell?
		{strings.Replace(parcel, "parcel", "book", 1), "Where is the book?", -1},
		{strings.Replace(parcel, "3", "4", 1), "Where is it?", -1},
		{"", "Is order 17 shipped?", -1},
	} {
		var words []Words
		for _, p := range parts {
			words = append(words, Of(p, OpenWords))
		}
		if got := Within(Of(c.text, PartWords), Of(c.message, MessageWords), words); got != c.want {
			t.Errorf("%q: %d, want %d", c.text, got, c.want)
		}
	}
}

// TestClosest: of the texts that were shown the one that speaks most of a message.
func TestClosest(t *testing.T) {
	parts := []Words{Of("Rome is sunny.", OpenWords), Of("Oslo has rain.", OpenWords), Of("Anything else?", OpenWords)}
	for message, want := range map[string]int{"Weather in Rome?": 0, "And Oslo?": 1, "Why?": 2} {
		if got := Closest(Of(message, MessageWords), parts); got != want {
			t.Errorf("%q: %d, want %d", message, got, want)
		}
	}
	if got := Closest(Of("Why?", MessageWords), nil); got != -1 {
		t.Errorf("without a text: %d", got)
	}
}

// A text that is longer than what is remembered of one still repeats itself.
func TestBounds(t *testing.T) {
	var long []string
	for i := range 3 * PartWords {
		long = append(long, fmt.Sprintf("word%c%c", 'a'+i/26, 'a'+i%26))
	}
	text := strings.Join(long, " ")
	if n := len(Of(text, PartWords)); n != PartWords {
		t.Errorf("%d words of a part", n)
	}
	if n := len(Of(text, MessageWords)); n != MessageWords {
		t.Errorf("%d words of a message", n)
	}
	answers := []Told{{Words: Of(text, PartWords), Asked: Of("Read the words of wordaa", MessageWords)}}
	if got := Judge([]Words{Of(text, PartWords)}, Of("Call Bob at home", MessageWords), answers); got != Repeated {
		t.Errorf("a long repetition: %d", got)
	}
	if n := len(Joined([]Words{Of(text, PartWords), Of("and more of them", PartWords)})); n != PartWords {
		t.Errorf("%d words of several items", n)
	}
}

// Words are hashed alone: what stands between them and their case say nothing. In scripts
// without spaces each pair of characters is one.
func TestOf(t *testing.T) {
	for a, b := range map[string]string{
		"Größe, größe: GRÖSSE? naïve 2024": "größe grösse NAÏVE 2024",
		"日本 の首都":                           "日本! の首都",
		"a日本b":                             "a 日本 b",
	} {
		if got, want := Of(a, 99), Of(b, 99); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", a, got, want)
		}
	}
	for text, want := range map[string]int{"": 0, " … ?! ": 0, "17": 1, "日": 1, "日本": 1, "日本の首都": 4, "Is it 5?": 3, "the the": 1} {
		if got := Of(text, 99); len(got) != want {
			t.Errorf("%q: %d words, want %d", text, len(got), want)
		}
	}
}
