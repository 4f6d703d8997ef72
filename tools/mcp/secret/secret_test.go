package secret

import "testing"

func TestNamesOfSecrets(t *testing.T) {
	for name, want := range map[string]struct{ certain, sensitive bool }{
		"Authorization": {true, true},
		"X-Api-Key":     {true, true},
		"OPENAI_KEY":    {true, true},
		"key":           {true, true},
		"Cookie":        {true, true},
		"DB_PASSWORD":   {true, true},
		"PGPASS":        {true, true},
		"MYSQL_PWD":     {true, true},
		"AWS_SESSION":   {true, true},
		"SENTRY_DSN":    {true, true},
		"X-Signature":   {true, true},
		"PRIVATE_PEM":   {true, true},
		"NPM_AUTH":      {true, true},
		"OAUTH_URL":     {true, true},
		"AUTHORS":       {false, true},
		"GIT_AUTHOR":    {false, true}, // an author's name may stand in the file
		"KEYBOARD":      {false, true},
		"PASSAGES":      {false, true},
		"User-Agent":    {false, false},
		"REGION":        {false, false},
	} {
		if got := Certain(name); got != want.certain {
			t.Errorf("Certain(%q) is %v", name, got)
		}
		if got := Sensitive(name); got != want.sensitive {
			t.Errorf("Sensitive(%q) is %v", name, got)
		}
	}
}
