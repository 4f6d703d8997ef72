package telegram

import (
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/gateway/chat"
)

func TestEncode(t *testing.T) {
	people := []chat.Person{
		{ID: "1", Name: "Alice", Handle: "alice_s"},
		{ID: "2", Name: "Alice Smith"},
		{ID: "3", Name: "Bob", Handle: "bobby"},
		{ID: "4", Name: "Carol", Handle: "carol1"},
		{ID: "5", Name: "Carol"},
		{ID: "6", Name: "@admin"},
		{ID: "7", Name: "bobby"},
		{ID: "8", Name: "Жанна", Handle: "zhanna"},
	}
	const j = joiner
	for _, c := range []struct{ text, want string }{
		{"Hello", "Hello"},
		{"<b>*_[x](y)`", "<b>*_[x](y)`"},
		{"@alice_s, look", "@alice_s, look"},
		{"@ALICE_S", "@alice_s"},
		{"@Alice!", "@alice_s!"},
		{"@Alice Smith!", "Alice Smith!"}, // the longest name; who has no handle cannot be told
		{"@Alice Smithson", "@alice_s Smithson"},
		{"@Alices", "@" + j + "Alices"},
		{"@bobby", "@bobby"}, // a handle goes before a name
		{"@Carol", "Carol"},  // which of them?
		{"@жанна", "@zhanna"},
		{"@mallory", "@" + j + "mallory"},
		{"@all @here", "@" + j + "all @" + j + "here"},
		{"@@mallory", "@@" + j + "mallory"},
		{"(@mallory)", "(@" + j + "mallory)"},
		{"@a@mallory", "@" + j + "a@mallory"}, // not at the beginning of a word: no mention
		{"bob@example.com", "bob@example.com"},
		{"5 @ 3€", "5 @ 3€"},
		{"@", "@"},
		{"@@admin", "@" + j + "admin"}, // a name that is another's handle tells nobody
		{"caf\xff @bobby", "caf\uFFFD @bobby"},
	} {
		if got := encode(c.text, people); got != c.want {
			t.Errorf("%q became %q, want %q", c.text, got, c.want)
		}
	}
}

func TestMeasure(t *testing.T) {
	for text, want := range map[string]int{"": 0, "abc": 3, "ä€": 2, "😀": 2, "👨‍👩‍👧": 8, encode("@mallory", nil): 9} {
		if got := measure(text); got != want {
			t.Errorf("%q has %d units, want %d", text, got, want)
		}
	}
}

// Without the joiners, a text is what it was, whoever is mentioned: nothing is lost or formatted.
// No @ is left before a name of somebody whom nobody knows.
func TestEncodeKeepsTexts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.SampledFrom([]rune("ab_@ .ä😀\n/<*"))).Draw(t, "text")
		got := encode(text, nil)
		if back := strings.ReplaceAll(got, joiner, ""); back != text {
			t.Fatalf("%q became %q", text, back)
		}
		for i, r := range got {
			starts := i == 0 || !strings.ContainsRune("ab_ä", []rune(got[:i])[len([]rune(got[:i]))-1])
			if r == '@' && starts && nameLength(got[i+1:]) > 0 {
				t.Fatalf("%q mentions somebody", got)
			}
		}
	})
}
