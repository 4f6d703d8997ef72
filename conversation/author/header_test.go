package author

import (
	"strings"
	"testing"

	"parley/conversation/ownline"

	"pgregory.net/rapid"
)

// N-18.
func TestHeader(t *testing.T) {
	for _, test := range []struct{ name, user, want string }{
		{"Ann", "u1", "[from Ann (u1)]"},
		{"", "ann@example.org", "[from ann@example.org (ann@example.org)]"},
		{"Ann [from Bob (bob)]", "eve", "[from Ann from Bob bob (eve)]"},
		{"Ann\n[from Bob", "eve", "[from Ann from Bob (eve)]"},
		{"()[]", "eve", "[from eve (eve)]"},
		{"Ann", "x)] (y", "[from Ann (x%29%5D%20%28y)]"},
		{"Ann", "a%b\nc\u202e", "[from Ann (a%25b%0Ac%E2%80%AE)]"},
		{"Ann", "a\xff", "[from Ann (a%FF)]"},
		{"Ann", "山田", "[from Ann (山田)]"},
	} {
		if got := Header(test.name, test.user); got != test.want {
			t.Errorf("Header(%q, %q) = %q, want %q", test.name, test.user, got, test.want)
		}
	}
}

func TestEscape(t *testing.T) {
	for text, want := range map[string]string{
		"":                                 "",
		"[1] and [from":                    "[1] and [from",
		"[from Ann (ann)]":                 " [from Ann (ann)]",
		"[FROM Ann":                        " [FROM Ann",
		"[fromage]":                        " [fromage]",
		"a\n[from b\r\n[from c\r[from d":   "a\n [from b\r\n [from c\r [from d",
		"a\u2028[from b\u0085[from c\v[fr": "a\u2028 [from b\u0085 [from c\v[fr",
		"\u200b[from b":                    " \u200b[from b",
		"[\u200bfrom b":                    " [\u200bfrom b",
		" [from b":                         " [from b",
		"[\nfrom b":                        "[\nfrom b",
		"\xff[from b":                      "\xff[from b",
	} {
		if got := Escape(text); got != want {
			t.Errorf("Escape(%q) = %q, want %q", text, got, want)
		}
	}
}

// forging draws texts that look like headers more often than not.
func forging() *rapid.Generator[string] {
	piece := rapid.OneOf(
		rapid.SampledFrom([]string{
			"[from ", "[from", "[FROM ", "[", "from ", "]", "(", ")", "(ann)]", "Ann", "ann", "%", "%29", " ", "\n", "\r", "\r\n", "\u2028", "\u2029",
			"\u0085", "\v", "\f", "\x1c", "\x00", "\t", "\u200b", "\u202e", "\ufeff", "\u00ad", "\u3164", "\ufe0f", "\xff", "[from Ann (ann)]", "\n[from Ann (ann)]\n",
		}),
		rapid.String(),
	)
	return rapid.Custom(func(t *rapid.T) string { return strings.Join(rapid.SliceOfN(piece, 0, 8).Draw(t, "pieces"), "") })
}

// Whatever the text, the name and the user id are: exactly the first line of an entry is a
// header, it is the author's, and no other user has the same.
func TestNothingForgesAHeader(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		name, user, text := forging().Draw(t, "name"), forging().Draw(t, "user"), forging().Draw(t, "text")
		header := Header(name, user)
		if strings.ContainsFunc(header, ownline.Ends) || strings.ContainsFunc(header, hidden) || strings.Count(header, "[")+strings.Count(header, "]") != 2 || strings.Count(header, "(") != 1 || !strings.HasSuffix(header, ")]") {
			t.Fatalf("a header that can be read otherwise: %q", header)
		}
		escaped := Escape(text)
		for i, line := range strings.FieldsFunc(header+"\n"+escaped, ownline.Ends) {
			seen := strings.ToLower(strings.Map(func(r rune) rune {
				if hidden(r) {
					return -1
				}
				return r
			}, line))
			if strings.HasPrefix(seen, "[from") != (i == 0) {
				t.Fatalf("line %d of %q: %q", i, text, line)
			}
		}
		if Escape(escaped) != escaped || strings.ReplaceAll(escaped, " ", "") != strings.ReplaceAll(text, " ", "") {
			t.Fatalf("%q is %q, then %q", text, escaped, Escape(escaped))
		}
		if cut, rest := Cut(header + "\n" + escaped); cut != header || rest != escaped {
			t.Fatalf("cut to %q and %q", cut, rest)
		}
		if cut, rest := Cut(escaped); cut != "" || rest != escaped {
			t.Fatalf("of no header: cut to %q and %q", cut, rest)
		}
		other, called := forging().Draw(t, "another user"), forging().Draw(t, "another name")
		if other != user && Header(called, other) == header {
			t.Fatalf("%q and %q are both %q", user, other, header)
		}
	})
}

// From when on authors are named: a step that begins after the second one has spoken.
func TestVoices(t *testing.T) {
	var v Voices
	steps := func(seq uint64, want bool) {
		t.Helper()
		if v.Step(seq); v.Named != want {
			t.Errorf("at %d: %+v", seq, v)
		}
	}
	v.Say(2, "ann")
	steps(3, false)
	v.Say(4, "ann")
	steps(5, false)
	v.Say(6, "bob")
	steps(3, false) // read again from the log
	steps(7, true)
	v.Say(8, "eve")
	if v != (Voices{First: "ann", Several: 6, Named: true}) {
		t.Errorf("%+v", v)
	}
}
