package secret

import (
	"errors"
	"fmt"
	"io"
	"strings"
)

// Text is a text of the configuration that may hold references. They are read at
// each Fill, so that a token may change while the server runs.
//
// It never shows what it stands for: printed, logged or marshalled it is its
// references, or "(set)" if it has none. The zero value is the empty text.
type Text struct{ template string }

// NewText makes a Text of what the configuration says.
func NewText(template string) Text { return Text{template} }

// Hidden stands for a text without references.
const Hidden = "(set)"

// UnmarshalText takes what the configuration says.
func (s *Text) UnmarshalText(text []byte) error {
	s.template = string(text)
	return s.Check()
}

// MarshalText is String.
func (s Text) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// String returns the text that may be shown.
func (s Text) String() string {
	if s.template == "" {
		return ""
	}
	found := s.References()
	if len(found) == 0 {
		return Hidden
	}
	// A scheme such as "Bearer" may be shown; anything else beside a reference could be a key.
	if rest, ok := strings.CutPrefix(s.template, "Bearer "); ok && rest == found[0].String() {
		return s.template
	}
	shown := make([]string, 0, len(found))
	for _, r := range found {
		shown = append(shown, r.String())
	}
	return strings.Join(shown, " ")
}

// Format shows String with every verb: %#v and %+v would show the text.
func (s Text) Format(f fmt.State, verb rune) { _, _ = io.WriteString(f, s.String()) }

// Check refuses references that can never be read.
func (s Text) Check() error {
	if !WellFormed(s.template) {
		return errors.New("a reference must be ${env:NAME} or ${file:PATH}")
	}
	if strings.ContainsAny(s.template, "\x00\r\n") {
		return errors.New("must be one line")
	}
	return nil
}

// References are those in the text, in order.
func (s Text) References() []Reference { return References(s.template) }

// Fill reads the references: text is all of it, values what stood behind each, in
// the order of References. Its error names every reference that cannot be read.
func (s Text) Fill(lookup Lookup) (text string, values []string, err error) {
	var errs []error
	text = Replace(s.template, func(r Reference) string {
		value, err := r.Read(lookup)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %w", r, err))
		}
		values = append(values, value)
		return value
	})
	if err := errors.Join(errs...); err != nil {
		return "", nil, err
	}
	return text, values, nil
}
