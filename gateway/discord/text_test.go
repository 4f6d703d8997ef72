package discord

import (
	"slices"
	"strings"
	"testing"

	"parley/gateway/chat"
)

var people = []chat.Person{
	{ID: ann, Name: "Ann Lee", Handle: "ann"}, {ID: bob, Name: "Bob", Handle: "bob"}, {ID: "5003", Name: "Ann", Handle: "ann2"},
	{ID: "5004", Name: "Twin"}, {ID: "5005", Name: "Twin"}, {ID: "no id", Name: "Nobody"},
}

// Markdown stays, people are named, and nothing else becomes a mention.
func TestEncode(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", ""},
		{"**bold** _it_ # no\n- a list\n> said", "**bold** _it_ # no\n- a list\n> said"},
		{"Hi @Ann Lee, and @bob!", "Hi <@5000>, and <@5001>!"},
		{"@Ann: @ann: @ann2 @Anna @anna", "<@5003>: <@5000>: <@5003> @Anna @anna"},
		{"mail bob@bob.example", "mail bob@bob.example"},
		{"@Twin @Nobody @everyone @here", "@Twin @Nobody @everyone @here"},
		{"<@5000> <@!5000> <@&9> <#3000>", "\\<@5000> \\<@!5000> \\<@&9> <#3000>"},
		{"\\<@5000>", "\\<@5000>"},
		{"<@bob>", "\\<@bob>"},
		{"`@bob <@5000>` @bob", "`@bob <@5000>` <@5001>"},
		{"```go\n@bob ``` @bob", "```go\n@bob ``` <@5001>"},
		{"``a ` @bob`` @bob", "``a ` @bob`` <@5001>"},
		{"a ` @bob", "a ` <@5001>"},
		{"\\` @bob `", "\\` <@5001> `"},
	} {
		if got := encode(c.text, people); got != c.want {
			t.Errorf("%q\ngot  %q\nwant %q", c.text, got, c.want)
		}
	}
}

// Whatever a model writes, nobody is pinged but people who have spoken, and text that names
// nobody is only made longer by what makes mentions plain.
func FuzzEncode(f *testing.F) {
	for _, s := range []string{"@Ann Lee", "<@1>", "`<@5000>`", "\\`<@5000>`", "```\n<@1>", "\\\\<@1>", "<@!5000>``", "a\\", "`\\`<@7>`"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		ids := []string{ann, bob, "5003", "5004", "5005"}
		encoded := encode(text, people)
		for _, id := range pinged(encoded) {
			if !slices.Contains(ids, id) {
				t.Errorf("%q pings %s: %q", text, id, encoded)
			}
		}
		if !strings.Contains(text, "@") && encoded != text {
			t.Errorf("%q became %q", text, encoded)
		}
		if got := pinged(encode(text, nil)); len(got) > 0 {
			t.Errorf("%q pings %v, who have not spoken", text, got)
		}
	})
}

func TestMeasure(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "é": 1, "😀": 2, "👩‍👩‍👧": 8, "\xff": 1} {
		if got := measure(text); got != want {
			t.Errorf("%q is %d long, not %d", text, got, want)
		}
	}
}

func TestShort(t *testing.T) {
	for _, text := range []string{"", "short", strings.Repeat("word ", 1000), strings.Repeat("😀", 1500), strings.Repeat("a line\n", 700)} {
		all := short(text)
		for _, piece := range all {
			if measure(piece) > maxText {
				t.Errorf("a piece is %d long", measure(piece))
			}
		}
		if got := strings.Join(all, ""); strings.ReplaceAll(got, "\n", "") != strings.ReplaceAll(text, "\n", "") {
			t.Errorf("%.20q… lost something", text)
		}
	}
}

func TestRecent(t *testing.T) {
	r := recent{max: 3}
	for _, c := range []struct {
		name string
		want bool
	}{{"a", true}, {"b", true}, {"a", false}, {"c", true}, {"d", true}, {"b", false}, {"a", true}, {"b", true}, {"d", false}} {
		if got := r.add(c.name); got != c.want {
			t.Errorf("add(%s) is %v", c.name, got)
		}
	}
	if len(r.names) != 3 {
		t.Errorf("%d are remembered", len(r.names))
	}
}
