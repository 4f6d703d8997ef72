package secret

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestText(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("from-file\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	lookup := func(name string) (string, bool) {
		value, ok := map[string]string{"TOKEN": "from-env", "EMPTY": "", "LINES": "a\nb"}[name]
		return value, ok
	}
	for template, want := range map[string]struct{ text, shown string }{
		"":                              {"", ""},
		"plain-key":                     {"plain-key", Hidden},
		"Bearer plain-key":              {"Bearer plain-key", Hidden},
		"Bearer ${env:TOKEN}":           {"Bearer from-env", "Bearer ${env:TOKEN}"},
		"half-a-key${env:TOKEN}":        {"half-a-keyfrom-env", "${env:TOKEN}"},
		"${file:" + file + "}":          {"from-file", "${file:" + file + "}"},
		"${env:EMPTY}${env:TOKEN}":      {"from-env", "${env:EMPTY} ${env:TOKEN}"},
		"${env:ABSENT}":                 {"!${env:ABSENT} is not set", "${env:ABSENT}"},
		"${env:LINES}":                  {"!${env:LINES} holds more than one line", "${env:LINES}"},
		"${file:" + file + ".not}":      {"!cannot be read: no such file", "${file:" + file + ".not}"},
		"${file:" + t.TempDir() + "}":   {"!cannot be read", ""},
		"$HOME is ${env:TOKEN} {a} $$ ": {"$HOME is from-env {a} $$ ", "${env:TOKEN}"},
	} {
		s := NewText(template)
		text, _, err := s.Fill(lookup)
		if wrong, ok := strings.CutPrefix(want.text, "!"); ok {
			if err == nil || !strings.Contains(err.Error(), wrong) {
				t.Errorf("%q: %v", template, err)
			}
		} else if err != nil || text != want.text {
			t.Errorf("%q is filled to %q, %v", template, text, err)
		}
		if want.shown != "" && s.String() != want.shown {
			t.Errorf("%q is shown as %q", template, s)
		}
	}
}
