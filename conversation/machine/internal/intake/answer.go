package intake

import (
	"encoding/json"
	"strings"

	"parley/conversation"
)

// Takes says whether a question takes a plain message, which does not name it, and
// what counts as its answer. waits tells whether its task waits for answers, with all
// of its delegations.
// Rules 4.1a, 4.1b.
func Takes(q conversation.Asked, waits bool, text string) (answer string, taken bool) {
	switch {
	case !q.Blocking, q.Delegation != "" && !waits:
		return "", false
	case q.Approval != nil:
		kind, _ := Classify(text, true)
		return text, kind == Yes || kind == No
	case len(q.Choices) > 0:
		return NumberedChoice(q.Choices, text)
	default:
		return text, true
	}
}

// MayAnswer is true for any text, if it is given to a question and not to an approval:
// that takes a word for yes or no, or what its card says.
// Rule 4.3.
func MayAnswer(q conversation.Asked, text string) bool {
	if q.Approval == nil {
		return true
	}
	kind, _ := Classify(text, true)
	return kind == Yes || kind == No || IsObject(text)
}

// Verdict reads the answer to an approval: a word for yes or no, or a JSON object:
// the edited arguments, or {"approve":bool,"args":{…}} from a card. check, which may
// be nil, judges edited arguments.
// Rule 4.3.
func Verdict(a conversation.Approval, text string, check func(json.RawMessage) error) (approved bool, args string, err *conversation.Error) {
	switch kind, _ := Classify(text, true); kind {
	case Yes:
		return true, a.Args, nil
	case No:
		return false, "", nil
	}
	if !IsObject(text) {
		return false, "", conversation.Errorf(conversation.BadRequest, "this question asks for an approval: answer yes or no, or send edited arguments as a JSON object")
	}
	args = text
	var card struct {
		Approve *bool           `json:"approve"`
		Args    json.RawMessage `json:"args"`
	}
	if json.Unmarshal([]byte(text), &card) == nil && card.Approve != nil {
		if !*card.Approve {
			return false, "", nil
		}
		args = a.Args
		if len(card.Args) > 0 {
			args = string(card.Args)
		}
	}
	if check != nil {
		if problem := check(json.RawMessage(args)); problem != nil {
			return false, "", conversation.Errorf(conversation.BadRequest, "the edited arguments do not fit the tool: %v", problem)
		}
	}
	return true, args, nil
}

// IsObject is true for the text of a JSON object.
func IsObject(text string) bool {
	trimmed := strings.TrimSpace(text)
	return strings.HasPrefix(trimmed, "{") && json.Valid([]byte(trimmed))
}

// LastQuestion is the last paragraph of a text, if it ends with a question mark.
// Rule 4.12.
func LastQuestion(text string) (string, bool) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	from := len(lines)
	for from > 0 && strings.TrimSpace(lines[from-1]) != "" {
		from--
	}
	last := strings.TrimSpace(strings.Join(lines[from:], "\n"))
	end := strings.TrimRight(last, "*_ ") // as Markdown stresses it
	return last, strings.HasSuffix(end, "?") || strings.HasSuffix(end, "？") || strings.HasSuffix(end, "؟")
}
