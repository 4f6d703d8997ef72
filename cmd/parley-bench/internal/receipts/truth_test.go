package receipts

import (
	"slices"
	"strings"
	"testing"

	"parley/conversation/machine/machinetest/everyday"
)

// talkThatBegins is the conversation of the corpus whose first message is this one.
func talkThatBegins(t *testing.T, first string) *everyday.Talk {
	t.Helper()
	talks, err := everyday.Talks()
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(talks, func(k everyday.Talk) bool { return k.Messages[0].Text == first })
	if i < 0 {
		t.Fatalf("no conversation begins with %q", first)
	}
	return &talks[i]
}

// Which messages of a conversation a text answers, in words that no file has.
func TestTruth(t *testing.T) {
	for _, c := range []struct{ first, text, want string }{
		{"Is order 17 shipped?", "Yes, order 17 has already been sent.", "1"},
		{"Is order 17 shipped?", "Order **18** has been shipped as well.", "2"},
		{"Is order 17 shipped?", "Both orders, 17 and 18, are shipped.", "12"},
		{"Is order 17 shipped?", "Yes, it is.", ""},
		{"Is order 17 shipped?", "I have answered that above. Is there anything else?", ""},
		{"17 times 23?", "17 × 23 = 391", "1"},
		{"17 times 23?", "It's 408.", "2"},
		{"17 times 23?", "That would be 4,081.", ""},
		{"what's the word for cat in Spanish?", "It's GATO!", "1"},
		{"what's the word for cat in Spanish?", "cat: gato, dog: perro", "12"},
		{"How many ounces are in a pound?", "16 ounces.", "1"},
		{"What's the longest river in France?", "The Loire.", "1"},
		{"What's the longest river in France?", "The Loire flows into the Atlantic Ocean near Saint-Nazaire.", "12"},
		{"What's 12 squared?", "144 divided by 9 is 16.", "12"},
		{"Book a table for four at eight", "Done: a table for four people at eight o'clock.", "1"},
		{"Book a table for four at eight", "I've moved it to nine o'clock, still for four people.", "2"},
		{"Where did I park?", "You're very welcome!", "2"},
		{"Wer hat das Telefon im Büro zuletzt benutzt?", "Das war Jonas.", "1"},
		{"Welcher Berg ist der höchste in Österreich?", "Der Großglockner ist 3.798 m hoch.", "12"},
		{"Ist Rechnung 2041 bezahlt?", "Die Rechnung 2042 ist leider noch nicht bezahlt.", "2"},
		{"Quel temps fait-il à Lyon ?", "Il fait beau à Lyon : 22 °C.", "1"},
		{"Quel temps fait-il à Lyon ?", "Pluie à Brest (14 degrés).", "2"},
		{"¿A qué hora abre el banco?", "No lo sé.", ""},
		{"注文番号17は発送されましたか？", "１７番でしたら、今朝発送済みです。", "1"},
		{"注文番号17は発送されましたか？", "18番は準備中となっています。", "2"},
		{"日本で一番大きい湖は？", "滋賀県にあります。", "2"},
		{"日本で一番大きい湖は？", "すでにお答えしました。", ""},
		{"《红楼梦》的作者是谁？", "作者是曹雪芹。", "1"},
		{"《红楼梦》的作者是谁？", "是吴承恩写的。", "2"},
		{"17号订单发货了吗？", "刚才已经回答过了。", ""},
		{"Is the meeting room Birch free at 2?", "Yes.", ""},
	} {
		talk := talkThatBegins(t, c.first)
		got := ""
		for n := range talk.Messages {
			if truthOf(talk, n).in(c.text) {
				got += string(rune('1' + n))
			}
		}
		if got != c.want {
			t.Errorf("%q tells %q of %q, want %q", c.text, got, c.first, c.want)
		}
	}
}

// Answers that cannot be told from others, or that say yes, are not judged; all others
// are, and each form of them tells its own message and no other.
func TestTruthOfTheCorpus(t *testing.T) {
	talks, err := everyday.Talks()
	if err != nil {
		t.Fatal(err)
	}
	unjudged, messages, blind := 0, 0, 0
	for i := range talks {
		talk := &talks[i]
		for n, m := range talk.Messages {
			messages++
			truth := truthOf(talk, n)
			if !truth.judged {
				unjudged++
				continue
			}
			for k := range talk.Messages {
				for _, form := range formsOf(talk, k) {
					switch {
					case k != n && truth.in(form):
						t.Errorf("%q answers %q, too", form, m.Text)
					case k == n && !truth.in(form) && form == m.Answer:
						t.Errorf("%q does not answer %q", form, m.Text)
					case k == n && !truth.in(form):
						blind++
					}
					if k == n && !truth.resembles(form) {
						t.Errorf("%q is none of the answers", form)
					}
				}
			}
		}
	}
	if unjudged > messages/10 || blind > messages/100 {
		t.Errorf("of %d messages %d are not judged, and of %d another form is not seen", messages, unjudged, blind)
	}
	for _, c := range []struct {
		first  string
		judged []bool
	}{
		{"Is the meeting room Birch free at 2?", []bool{false, true}},         // a bare "Yes."
		{"¿Llamó Pedro?", []bool{false, false}},                               // "Sí." and "No."
		{"Add milk to the shopping list", []bool{false, false}},               // "Done." twice
		{"Is there a direct bus to the airport?", []bool{true, false, false}}, // thanks
	} {
		talk := talkThatBegins(t, c.first)
		for n, want := range c.judged {
			if got := truthOf(talk, n).judged; got != want {
				t.Errorf("%q, message %d: judged %t", c.first, n+1, got)
			}
		}
	}
}

func TestSplit(t *testing.T) {
	for text, want := range map[string]string{
		"It's 8,849 m, 8.849 M":  "8849 it m s",
		"10:15, and 1, 2":        "1 10 15 2 and",
		"B22 und ２０１８年":          "2018 22 b und 年",
		"Tokio ist 東京です。 はい":     "tokio ist 東京 京で です はい",
		"¿Cuál es la capital?…!": "capital cuál es la",
		"":                       "",
	} {
		var got []string
		for word := range split(text) {
			got = append(got, word)
		}
		wanted := strings.Fields(want)
		slices.Sort(got)
		slices.Sort(wanted)
		if !slices.Equal(got, wanted) {
			t.Errorf("%q: %q, want %q", text, got, wanted)
		}
	}
}
