package search

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/rivo/uniseg"
	"pgregory.net/rapid"

	"parley/conversation"
)

func TestFold(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		" \t!?":                            "",
		"Hello, World":                     " hello world",
		"don't snake_case e-mail a.b":      " don t snake case e mail a b",
		"Café CAFÉ cafe\u0301":             " cafe cafe cafe",
		"Straße STRASSE ẞ":                 " strasse strasse ss",
		"ΣΊΣΥΦΟΣ σίσυφος":                  " σισυφοσ σισυφοσ",
		"Ørsted Łódź Đà ﬁn":                " orsted lodz da fin",
		"İstanbul ISTANBUL":                " istanbul istanbul",
		"ЁЛКА елка":                        " елка елка",
		"東京タワーabc2024年":                    " 東京タワー abc2024 年",
		"が か\u3099":                        " か\u3099 か\u3099",
		"ｆｕｌｌ ﾊﾝ":                          " full ハン",
		"soft\u00adhyphen zero\u200bwidth": " softhyphen zerowidth",
		"שָׁלוֹם مَرْحَبًا":                " שָׁלוֹם مرحبا",
		"नमस्ते":                           " नमस्ते",
		"🎉 ok 👨‍👩‍👧":                       " ok",
		"bad \xff utf":                     " bad utf",
		"한국어":                              Fold("\u1112\u1161\u11ab\u1100\u116e\u11a8\u110b\u1165"),
	} {
		if got := Fold(text); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
	if got := Fold(strings.Repeat("a", MostText-1) + "bc"); strings.Contains(got, "c") || !strings.Contains(got, "b") {
		t.Error("the bound of a text is not where it should be")
	}
}

func TestFindsWords(t *testing.T) {
	for _, c := range []struct {
		q, text string
		want    bool
	}{
		{"hel", "Hello there", true},
		{"ello", "Hello there", false},
		{"there hel", "Hello there", true},
		{"hello gone", "Hello there", false},
		{"HÉLLO", "hello", true},
		{"京", "東京タワー", true},
		{"東京 tow", "the Tower of 東京", true},
		{"สวัส", "ครับสวัสดี", true},
		{"deploy-2", "the deploy 24", true},
		{"하", "한국", true},
	} {
		q, err := Read(c.q, 10)
		if err != nil || q.Fits(c.text) != c.want {
			t.Errorf("%q in %q: %v, %v", c.q, c.text, !c.want, err)
		}
	}
	if !(Query{}).Fits("anything") {
		t.Error("no query does not fit")
	}
}

func TestReadRefuses(t *testing.T) {
	for q, fine := range map[string]bool{
		"": false, "  ": false, "!?": false, "🎉": false, "a": true, "a b c": true, "a b c d": false,
		strings.Repeat("é", MostQuery): true, strings.Repeat("é", MostQuery+1): false,
	} {
		_, err := Read(q, 3)
		if e := new(conversation.Error); fine != (err == nil) || err != nil && (!errors.As(err, &e) || e.Code != conversation.BadRequest) {
			t.Errorf("%q: %v", q, err)
		}
	}
}

func TestSnippet(t *testing.T) {
	long := strings.Repeat("lorem ipsum ", 40)
	for _, c := range []struct{ q, text, line, marked string }{
		{"wor", "Hello,\n\n  **World**\tand words", "Hello, **World** and words", "Wor wor"},
		{"cafe", "un CAFE\u0301 noir", "un CAFE\u0301 noir", "CAFE\u0301"},
		{"ss", "Straße SS", "Straße SS", "SS"},
		{"京 tow", "東京 Tower", "東京 Tower", "京 Tow"},
		{"a ab", "abc", "abc", "ab"},
		{"x", "\u202eevil x", "evil x", "x"},
	} {
		q, err := Read(c.q, 10)
		if err != nil {
			t.Fatal(err)
		}
		line, marks := q.Snippet(c.text)
		if got := marked(line, marks); line != c.line || got != c.marked {
			t.Errorf("%q in %q: %q, %q", c.q, c.text, line, got)
		}
	}
	q, _ := Read(strings.Repeat("x", MostQuery), 1)
	if line, marks := q.Snippet(strings.Repeat("x", 300)); len(marks) != 1 || marks[0] != (Span{0, utf8.RuneCountInString(line) - 1}) {
		t.Errorf("a word that is longer than the line: %q, %v", line, marks)
	}
	q, _ = Read("needle", 1)
	for _, text := range []string{"needle " + long, long + "needle", long + "needle " + long} {
		line, marks := q.Snippet(text)
		if n := utf8.RuneCountInString(line); n > MostSnippet || n < MostSnippet/4 || marked(line, marks) != "needle" {
			t.Errorf("%d: %q, %v", n, line, marks)
		}
		if strings.HasPrefix(line, "…") == strings.HasPrefix(text, "needle") || strings.HasSuffix(line, "…") == strings.HasSuffix(text, "needle") {
			t.Errorf("%q", line)
		}
	}
}

func marked(line string, marks []Span) string {
	var all []string
	runes := []rune(line)
	for _, m := range marks {
		all = append(all, string(runes[m.From:m.To]))
	}
	return strings.Join(all, " ")
}

// What an index keeps of a text leads to it by whatever query finds it.
func TestTermsMissNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "Ab", "ß", "東", "京都", "か\u3099", "ー", "2024", " ", "-", "한", "ก็", "\u3099", strings.Repeat("z", 23), strings.Repeat("京", 4)})
		folded := Fold(strings.Join(rapid.SliceOfN(word, 0, 60).Draw(rt, "text"), ""))
		q, err := Read(strings.Join(rapid.SliceOfN(word, 1, 5).Draw(rt, "query"), ""), 100)
		if err != nil || !q.In(folded) {
			return
		}
		for _, want := range q.Terms() {
			found := false
			Terms(folded, func(term string) bool {
				if len(term) > mostTerm {
					rt.Fatalf("a term of %d bytes", len(term))
				}
				found = strings.HasPrefix(term, want)
				return !found
			})
			if !found {
				rt.Fatalf("%q is in %q, but no term begins with %q", q.needles, folded, want)
			}
		}
	})
}

// Whatever a text and a query are: a snippet is short, whole characters of the text, and its
// marks lie in it one behind the other; what is found has a mark.
func TestSnippetsOfAnything(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.SampledFrom([]string{"a", "ab", "Ä", "ß", "e\u0301", "東", "京都", "👨‍👩‍👧", "🇩🇪", " ", "\n", "-", "ﬁ", "한", "x\u200by", "ก็", "\xff", strings.Repeat("z", 90)})
		text := strings.Join(rapid.SliceOfN(word, 0, 300).Draw(rt, "text"), "")
		q, err := Read(strings.Join(rapid.SliceOfN(word, 1, 3).Draw(rt, "query"), " "), 1000)
		if err != nil {
			return
		}
		line, marks := q.Snippet(text)
		if n := utf8.RuneCountInString(line); n > MostSnippet {
			rt.Fatalf("%d code points", n)
		}
		end := 0
		for _, m := range marks {
			if m.From < end || m.To <= m.From || m.To > utf8.RuneCountInString(line) {
				rt.Fatalf("marks %v of %q", marks, line)
			}
			end = m.To
		}
		if q.Fits(oneLine(text)) && len(marks) == 0 {
			rt.Fatalf("no mark in %q of %q for %q", line, text, q.needles)
		}
		inner := strings.TrimSuffix(strings.TrimPrefix(line, "…"), "…")
		clusters := func(s string) (all []string) {
			for g := uniseg.NewGraphemes(s); g.Next(); {
				all = append(all, g.Str())
			}
			return all
		}
		whole, part := clusters(oneLine(text)), clusters(inner)
		for i := 0; len(part) > 0; i++ {
			if i+len(part) > len(whole) {
				rt.Fatalf("%q is cut within a character of %q", inner, oneLine(text))
			}
			if slices.Equal(whole[i:i+len(part)], part) {
				break
			}
		}
	})
}

// What was taken back stays so, whatever an edit behind it says: stores take what was reworded
// in an order of their own.
func TestNewsForgetEditsOfWhatWasTakenBack(t *testing.T) {
	var n News
	n.Add(conversation.Event{Seq: 2, Body: conversation.MessageWithdrawn{Message: "m1"}})
	n.Add(conversation.Event{Seq: 3, Body: conversation.MessageEdited{Message: "m1", Text: "again"}})
	if len(n.Reworded) > 0 || len(n.Unsaid) != 1 || n.Through != 3 {
		t.Errorf("%+v", n)
	}
}

// A word at the end of the largest message that is taken by default is found.
func TestAllOfALargeMessageIsSearched(t *testing.T) {
	const largest = 128 << 10 // limits.text_bytes
	text := strings.Repeat("word ", largest/5-2) + "needle"
	q, err := Read("needle", 1)
	if err != nil || len(text) > largest || !q.Fits(text) {
		t.Errorf("%d bytes, found %v, %v", len(text), q.Fits(text), err)
	}
	if line, marks := q.Snippet(text); len(marks) != 1 || !strings.HasSuffix(line, "needle") {
		t.Errorf("%q, %v", line, marks)
	}
}

// What ends a word for a search ends it in the snippet, too; and of a letter with more accents
// than fit something is shown.
func TestSnippetsOfOddTexts(t *testing.T) {
	accents := strings.Repeat("\u0301", 3000)
	for _, c := range []struct{ q, text, line string }{
		{"cd", "ab\ufffdcd", "ab cd"}, {"cd", "ab\xffcd", "ab cd"}, {"ab", "ab\ufffd", "ab"},
		{"a", "a" + accents, ""}, {"a", "some words before it a" + accents + " and behind", ""}, {"it", "a" + accents + " it", ""},
	} {
		q, err := Read(c.q, 1)
		if err != nil || !q.Fits(c.text) {
			t.Fatalf("%q is not in %.20q: %v", c.q, c.text, err)
		}
		line, marks := q.Snippet(c.text)
		runes := []rune(line)
		if len(marks) != 1 || len(runes) > MostSnippet || c.line != "" && line != c.line {
			t.Errorf("%q in %.20q: %q, %v", c.q, c.text, line, marks)
			continue
		}
		if m := string(runes[marks[0].From:marks[0].To]); !strings.HasPrefix(m, c.q) {
			t.Errorf("%q in %.20q: %q is marked", c.q, c.text, m)
		}
	}
}
