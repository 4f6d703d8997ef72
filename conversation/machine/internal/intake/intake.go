package intake

import (
	"fmt"
	"strings"
)

// Kind is the result of the pre-filter that reads a message before it enters
// the inbox (D-25). It knows fixed words only; it never guesses what a message
// means for the work under way: that is the model's business.
type Kind uint8

// The kinds.
const (
	Task      Kind = iota // the default: a request
	Yes                   // yes to a pending approval
	No                    // no to a pending approval
	Answer                // explicitly an answer: "/answer …"
	SmallTalk             // a greeting or thanks; treated like a request (D-25)
)

var kindNames = [...]string{"task_request", "approve", "decline", "answer", "smalltalk"}

func (k Kind) String() string {
	if int(k) >= len(kindNames) {
		return fmt.Sprintf("unknown(%d)", k)
	}
	return kindNames[k]
}

// Classify reads a message's first look: what kind it is, and the text that
// counts (without the "/answer" prefix). Yes and no count only while an
// approval is pending.
func Classify(text string, approvalPending bool) (Kind, string) {
	trimmed := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(trimmed, "/answer"); ok && strings.TrimSpace(rest) != "" && strings.TrimLeft(rest, " \t\r\n") != rest {
		return Answer, strings.TrimSpace(rest)
	}
	word := strings.ToLower(strings.TrimRight(trimmed, ".!"))
	if approvalPending {
		if yesWords[word] {
			return Yes, trimmed
		}
		if noWords[word] {
			return No, trimmed
		}
	}
	if smallTalk[word] {
		return SmallTalk, text
	}
	return Task, text
}

var (
	yesWords  = set("yes", "y", "yep", "yeah", "ok", "okay", "sure", "approve", "approved", "allow", "go ahead", "do it")
	noWords   = set("no", "n", "nope", "decline", "declined", "deny", "denied", "reject", "don't", "do not", "stop")
	smallTalk = set("hi", "hello", "hey", "thanks", "thank you", "good morning", "good evening", "bye", "goodbye", "thx")
)

func set(words ...string) map[string]bool {
	m := make(map[string]bool, len(words))
	for _, w := range words {
		m[w] = true
	}
	return m
}
