package mcp

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"parley/tools/mcp/secret"
)

// Secret is a text of the configuration that may hold references; see secret.Text.
type Secret = secret.Text

// NewSecret makes a Secret of what the configuration says.
func NewSecret(template string) Secret { return secret.NewText(template) }

// fill reads the value of a header or variable, and tells which texts of it are
// secrets: those of files, those of a name that says so, and with all set those
// behind any reference. Other variables may hold words that belong into results.
func fill(name string, s Secret, lookup func(string) (string, bool), all bool) (value string, secrets []string, err error) {
	value, referred, err := s.Fill(lookup)
	if err != nil {
		return "", nil, err
	}
	if secret.Sensitive(name) {
		secrets = append(secrets, value)
	}
	for i, found := range s.References() {
		if all || found.Kind == secret.File || secret.Sensitive(found.Name) {
			secrets = append(secrets, referred[i])
		}
	}
	return value, secrets, nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// leastSecret is the shortest text that is looked for in what servers say; a
// shorter one stands in innocent words.
const leastSecret = 6

// redactor leaves secrets out of texts.
type redactor struct{ replace *strings.Replacer }

func newRedactor(secrets []string) redactor {
	var pairs []string
	for _, secret := range secrets {
		// "Bearer abc" is a secret for its last word.
		for _, text := range []string{secret, secret[strings.LastIndex(secret, " ")+1:]} {
			if len(text) >= leastSecret {
				pairs = append(pairs, text, "[secret]")
			}
		}
	}
	return redactor{strings.NewReplacer(pairs...)}
}

// clean is a text that may be shown: valid UTF-8 without secrets.
func (r redactor) clean(text string) string {
	if r.replace != nil {
		text = r.replace.Replace(text)
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

// address matches an address in an error of HTTP.
var address = regexp.MustCompile(`(?i)\b(https?://)([^\s"'<>/?#]+)([/?#][^\s"'<>]*)?`)

// hosts leaves of each address in a text what may be shown: its host. The path and
// the query may hold keys, and a user may stand before the host.
func hosts(text string) string {
	return address.ReplaceAllStringFunc(text, func(found string) string {
		parts := address.FindStringSubmatch(found)
		shown := parts[1] + parts[2][strings.LastIndex(parts[2], "@")+1:]
		if len(parts[3]) > 1 {
			shown += "/…"
		}
		return shown
	})
}
