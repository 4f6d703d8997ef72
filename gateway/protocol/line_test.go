package protocol

import "testing"

func TestLine(t *testing.T) {
	for in, want := range map[string]string{
		"Write to Max": "Write to Max",
		"Grüße an Σίσυφος 你好 👩‍👩‍👧":   "Grüße an Σίσυφος 你好 👩‍👩‍👧",
		"\x1b]0;owned\x07 title":      "]0;owned title",
		"a\u009b31mb":                 "a31mb",
		"invoice\u202efdp.exe":        "invoicefdp.exe",
		"\u2066a\u2069 \u200fb\u061c": "a b",
		"one\r\ntwo\tthree\u2028four": "one  two three four",
		"\x00":                        "",
	} {
		if got := Line(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}
