package machine

import (
	"fmt"
	"strings"
)

// IntakeKind is what the little pre-filter makes of a message before it enters
// the inbox (D-25). It knows fixed words only; it never guesses what a message
// means for the work under way: that is the model's business.
type IntakeKind uint8

// The kinds.
const (
	IntakeTask      IntakeKind = iota // the default: a request
	IntakeYes                         // yes to a pending approval
	IntakeNo                          // no to a pending approval
	IntakeAnswer                      // explicitly an answer: "/answer …"
	IntakeSmallTalk                   // a greeting or thanks; treated like a request, counted apart
)

var intakeNames = [...]string{"task_request", "approve", "decline", "answer", "smalltalk"}

func (k IntakeKind) String() string {
	if int(k) >= len(intakeNames) {
		return fmt.Sprintf("unknown(%d)", k)
	}
	return intakeNames[k]
}

// Intake reads a message's first look: what kind it is, and the text that
// counts (without the "/answer" prefix). Yes and no count only while an
// approval is pending.
func Intake(text string, approvalPending bool) (IntakeKind, string) {
	trimmed := strings.TrimSpace(text)
	if rest, ok := strings.CutPrefix(trimmed, "/answer"); ok && strings.TrimSpace(rest) != "" && strings.TrimLeft(rest, " \t\r\n") != rest {
		return IntakeAnswer, strings.TrimSpace(rest)
	}
	word := strings.ToLower(strings.TrimRight(trimmed, ".!"))
	if approvalPending {
		if yesWords[word] {
			return IntakeYes, trimmed
		}
		if noWords[word] {
			return IntakeNo, trimmed
		}
	}
	if smallTalk[word] {
		return IntakeSmallTalk, text
	}
	return IntakeTask, text
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
