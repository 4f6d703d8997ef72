package machine

import (
	"fmt"
	"strings"
)

// intakeKind is the result of the pre-filter that reads a message before it enters
// the inbox (D-25). It knows fixed words only; it never guesses what a message
// means for the work under way: that is the model's business.
type intakeKind uint8

// The kinds.
const (
	intakeTask      intakeKind = iota // the default: a request
	intakeYes                         // yes to a pending approval
	intakeNo                          // no to a pending approval
	intakeAnswer                      // explicitly an answer: "/answer …"
	intakeSmallTalk                   // a greeting or thanks; treated like a request (D-25)
)

var intakeNames = [...]string{"task_request", "approve", "decline", "answer", "smalltalk"}

func (k intakeKind) String() string {
	if int(k) >= len(intakeNames) {
		return fmt.Sprintf("unknown(%d)", k)
	}
	return intakeNames[k]
}

// intake reads a message's first look: what kind it is, and the text that
// counts (without the "/answer" prefix). Yes and no count only while an
// approval is pending.
func intake(text string, approvalPending bool) (intakeKind, string) {
	trimmed := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(trimmed, "/answer"); ok && strings.TrimSpace(rest) != "" && strings.TrimLeft(rest, " \t\r\n") != rest {
		return intakeAnswer, strings.TrimSpace(rest)
	}
	word := strings.ToLower(strings.TrimRight(trimmed, ".!"))
	if approvalPending {
		if yesWords[word] {
			return intakeYes, trimmed
		}
		if noWords[word] {
			return intakeNo, trimmed
		}
	}
	if smallTalk[word] {
		return intakeSmallTalk, text
	}
	return intakeTask, text
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
