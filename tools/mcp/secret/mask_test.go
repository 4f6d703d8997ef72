package secret

import (
	"slices"
	"testing"
)

func TestMasked(t *testing.T) {
	for _, c := range []struct{ name, value, want string }{
		{"X-Foo", "v", "v"},
		{"X-Foo", "sk-abc", "***"},
		{"X-Foo", "Bearer abc", "***"},
		{"X-Foo", "9f86d081884c7d659a2feaa0c55ad015", "***"},
		{"X-Foo", "${env:A_VARIABLE_OF_2026_10_11}", "${env:A_VARIABLE_OF_2026_10_11}"},
		{"HOME", "/srv/data/of/the/files/server", "/srv/data/of/the/files/server"},
		{"X-Api-Key", "v", "***"},
		{"X-Api-Key", "env:KEY", "env:KEY"},
		{"X-Api-Key", "Bearer ${env:KEY}", "Bearer ${env:KEY}"},
		{"X-Api-Key", "", ""},
		{"DATABASE_URL", "postgres://u:pw@h/db", "postgres://u:***@h/db"},
		{"DATABASE_URL", "postgres://u:p@w:/x@h/db", "postgres://u:***@h/db"},
		{"DATABASE_URL", "postgres://u:${env:PW}@h/db", "postgres://u:${env:PW}@h/db"},
		{"DATABASE_URL", "postgres://u@h/db", "postgres://u@h/db"},
		{"URL", "https://ghp_abc@github.example/x", "https://***@github.example/x"},
		{"URL", "ssh://git@github.example/x", "ssh://git@github.example/x"},
		{"URL", "https://h/x?api_key=abc&y=1", "https://h/x?api_key=***&y=1"},
		{"URL", "https://h/x?api_key=${env:K}&y=1", "https://h/x?api_key=${env:K}&y=1"},
		{"URL", "http://a:b@h http://c:d@h", "http://a:***@h http://c:***@h"},
	} {
		if got := Masked(c.name, c.value); got != c.want {
			t.Errorf("%s = %s is shown as %s, want %s", c.name, c.value, got, c.want)
		}
	}
}

func TestMaskedArgs(t *testing.T) {
	for _, c := range []struct{ args, want []string }{
		{[]string{"--api-key", "sk-1", "x"}, []string{"--api-key", "***", "x"}},
		{[]string{"--api-key=sk-1"}, []string{"--api-key=***"}},
		{[]string{"--token", "env:T"}, []string{"--token", "env:T"}},
		{[]string{"--token", "--verbose", "x"}, []string{"--token", "--verbose", "x"}},
		{[]string{"-e", "PGPASS=x", "-e", "LANG=C"}, []string{"-e", "PGPASS=***", "-e", "LANG=C"}},
		{[]string{"--env=PGPASS=x"}, []string{"--env=PGPASS=***"}},
		{[]string{"--header", "Authorization: Bearer x"}, []string{"--header", "Authorization: ***"}},
		{[]string{"--set", "auth.hs256_secret=x", "--set", "listen=127.0.0.1:1"}, []string{"--set", "auth.hs256_secret=***", "--set", "listen=127.0.0.1:1"}},
		{[]string{"postgres://u:pw@h/db", "https://h/"}, []string{"postgres://u:***@h/db", "https://h/"}},
		{[]string{"--db=postgres://u:pw@h/db"}, []string{"--db=postgres://u:***@h/db"}},
		{[]string{"-y", "@scope/server@1.0", "/srv/files"}, []string{"-y", "@scope/server@1.0", "/srv/files"}},
	} {
		if got := MaskedArgs(c.args); !slices.Equal(got, c.want) {
			t.Errorf("%q are shown as %q, want %q", c.args, got, c.want)
		}
	}
}
