package chat

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf16"
)

// Arguments are shown and edited as the bytes that came: a parser would round long
// numbers, and what is approved would not be what was shown.

// indented is JSON for people.
func indented(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Indent(&b, raw, "  ", "  ") != nil {
		return Clean(string(raw))
	}
	return visible(b.String())
}

// compact is JSON on one line.
func compact(raw json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, raw) != nil {
		return Clean(string(raw))
	}
	return visible(b.String())
}

// visible writes as \u escapes what [Clean] would take out of JSON or change: so it
// stays in the text, harmless, and is seen by whoever approves it.
func visible(text string) string {
	var b strings.Builder
	for _, r := range text {
		one := string(r)
		if Clean(one) == one {
			b.WriteString(one)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// redacted says whether the server keeps arguments from this user.
func redacted(raw json.RawMessage) bool { return compact(raw) == `{"redacted":true}` }

// verdict says in words what the answer to an approval is; false = it is in words.
func verdict(text string) (string, bool) {
	var card struct {
		Approve *bool           `json:"approve"`
		Args    json.RawMessage `json:"args"`
	}
	switch err := json.Unmarshal([]byte(text), &card); {
	case err != nil || card.Approve == nil:
		return "", false
	case !*card.Approve:
		return "(refused)", true
	case len(card.Args) > 0:
		return "(approved with other arguments) " + compact(card.Args), true
	}
	return "(approved)", true
}
