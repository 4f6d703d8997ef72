package mcp

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
)

// Secret is a text of the configuration that may hold references:
// ${env:NAME} is a variable of this process's environment, ${file:PATH} what a
// file holds, without the line's end. They are read at each connection, so that
// a token may change while the server runs.
//
// It never shows what it stands for: printed, logged or marshalled it is its
// references, or "(set)" if it has none.
type Secret struct{ template string }

// NewSecret makes a Secret of what the configuration says.
func NewSecret(template string) Secret { return Secret{template} }

var (
	reference = regexp.MustCompile(`\$\{(env|file):([^{}]+)\}`)
	opening   = regexp.MustCompile(`\$\{`)
)

// hidden stands for a text without references.
const hidden = "(set)"

// UnmarshalText takes what the configuration says.
func (s *Secret) UnmarshalText(text []byte) error {
	s.template = string(text)
	return s.check()
}

// MarshalText is String.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String is what may be shown.
func (s Secret) String() string {
	if s.template == "" {
		return ""
	}
	found := reference.FindAllString(s.template, -1)
	if len(found) == 0 {
		return hidden
	}
	// A scheme such as "Bearer" may be shown; anything else beside a reference could be a key.
	if rest, ok := strings.CutPrefix(s.template, "Bearer "); ok && rest == found[0] {
		return s.template
	}
	return strings.Join(found, " ")
}

// Format shows String with every verb: %#v and %+v would show the text.
func (s Secret) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, s.String()) }

// check refuses references that can never be read.
func (s Secret) check() error {
	if len(opening.FindAllString(s.template, -1)) != len(reference.FindAllString(s.template, -1)) {
		return errors.New("a reference must be ${env:NAME} or ${file:PATH}")
	}
	if strings.ContainsAny(s.template, "\x00\r\n") {
		return errors.New("must be one line")
	}
	return nil
}

// maxSecret bounds a file with a secret, in bytes.
const maxSecret = 64 << 10

// fill reads the references. Its errors name the reference, never a value.
// referred are the values that stood behind references.
func (s Secret) fill(lookup func(string) (string, bool)) (text string, referred []string, err error) {
	var errs []error
	text = reference.ReplaceAllStringFunc(s.template, func(found string) string {
		parts := reference.FindStringSubmatch(found)
		value := ""
		switch parts[1] {
		case "env":
			var ok bool
			if value, ok = lookup(parts[2]); !ok {
				errs = append(errs, fmt.Errorf("%s is not set", found))
			}
		case "file":
			var err error
			if value, err = readSecret(parts[2]); err != nil {
				errs = append(errs, fmt.Errorf("%s cannot be read: %w", found, err))
			}
		}
		value = strings.TrimSpace(value)
		if strings.ContainsAny(value, "\x00\r\n") {
			errs = append(errs, fmt.Errorf("%s holds more than one line", found))
		}
		referred = append(referred, value)
		return value
	})
	if err := errors.Join(errs...); err != nil {
		return "", nil, err
	}
	return text, referred, nil
}

// fill reads the value of a header or variable, and tells which texts of it are
// secrets: those of files, those of a name that says so, and with all set those
// behind any reference. Other variables may hold words that belong into results.
func fill(name string, s Secret, lookup func(string) (string, bool), all bool) (value string, secrets []string, err error) {
	value, referred, err := s.fill(lookup)
	if err != nil {
		return "", nil, err
	}
	if sensitive.MatchString(name) {
		secrets = append(secrets, value)
	}
	for i, found := range reference.FindAllStringSubmatch(s.template, -1) {
		if all || found[1] == "file" || sensitive.MatchString(found[2]) {
			secrets = append(secrets, referred[i])
		}
	}
	return value, secrets, nil
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

func readSecret(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", bare(err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxSecret+1))
	switch {
	case err != nil:
		return "", bare(err)
	case len(data) > maxSecret:
		return "", fmt.Errorf("it has more than %d bytes", maxSecret)
	}
	return string(data), nil
}

// bare is a file's error without its path, which the reference names already.
func bare(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}

// sensitive names say that a value is a secret also where it stands in the
// configuration itself.
var sensitive = regexp.MustCompile(`(?i)auth|cookie|credential|key|pass|pwd|secret|token`)

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
