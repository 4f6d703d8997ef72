package machine

import (
	"testing"

	"parley/conversation"
)

// D-25: the pre-filter knows fixed words only.
func TestIntake(t *testing.T) {
	tests := []struct {
		text    string
		pending bool
		kind    IntakeKind
		rest    string
	}{
		{"Book a room", false, IntakeTask, "Book a room"},
		{"  Book a room\n", true, IntakeTask, "  Book a room\n"},
		{"", true, IntakeTask, ""},
		{"yes", true, IntakeYes, "yes"},
		{" Yes! ", true, IntakeYes, "Yes!"},
		{"YES.", true, IntakeYes, "YES."},
		{"ok", true, IntakeYes, "ok"},
		{"go ahead", true, IntakeYes, "go ahead"},
		{"yes", false, IntakeTask, "yes"},
		{"yes, but tomorrow", true, IntakeTask, "yes, but tomorrow"},
		{"yes?", true, IntakeTask, "yes?"},
		{"no", true, IntakeNo, "no"},
		{"Don't!", true, IntakeNo, "Don't!"},
		{"stop", true, IntakeNo, "stop"},
		{"stop", false, IntakeTask, "stop"},
		{"no way", true, IntakeTask, "no way"},
		{"/answer Monday", false, IntakeAnswer, "Monday"},
		{"  /answer\n Monday at\nten ", true, IntakeAnswer, "Monday at\nten"},
		{"/answer yes", true, IntakeAnswer, "yes"},
		{"/answer", false, IntakeTask, "/answer"},
		{"/answer  ", false, IntakeTask, "/answer  "},
		{"/answers Monday", false, IntakeTask, "/answers Monday"},
		{"please /answer Monday", false, IntakeTask, "please /answer Monday"},
		{"Thanks!", false, IntakeSmallTalk, "Thanks!"},
		{"thank you", true, IntakeSmallTalk, "thank you"},
		{"hello", false, IntakeSmallTalk, "hello"},
		{"hello, book a room", false, IntakeTask, "hello, book a room"},
		// Words that once were classes of messages mean nothing here (D-03).
		{"Actually use OAuth instead", true, IntakeTask, "Actually use OAuth instead"},
		{"Also, what's the weather?", true, IntakeTask, "Also, what's the weather?"},
	}
	for _, test := range tests {
		kind, rest := Intake(test.text, test.pending)
		if kind != test.kind || rest != test.rest {
			t.Errorf("Intake(%q, %v) = %s, %q; want %s, %q", test.text, test.pending, kind, rest, test.kind, test.rest)
		}
	}
}

// M-22: streamed text is held back while it may still become a sentinel, and no
// longer.
func TestSentinelPrefix(t *testing.T) {
	p := conversation.DefaultPolicy()
	tests := []struct {
		text             string
		prefix, sentinel bool
	}{
		{"", true, false},
		{"N", true, false},
		{"NO", true, true},
		{" NO_RE", true, false},
		{"NO_REPLY", true, true},
		{"NO_REPLY\n", true, true},
		{"NO_REPLY!", false, false},
		{"NOW", false, false},
		{"no", false, false},
		{"@", true, false},
		{"@max", true, false},
		{"@max N", true, false},
		{"@max HEARTBEAT_OK", true, true},
		{"@max hello", false, false},
		{"@max @eva NO_", true, true},
	}
	for _, test := range tests {
		if got := p.SentinelPrefix(test.text); got != test.prefix {
			t.Errorf("SentinelPrefix(%q) = %v", test.text, got)
		}
		if got := p.IsSentinel(test.text); got != test.sentinel {
			t.Errorf("IsSentinel(%q) = %v", test.text, got)
		}
	}
	p.Fallback = true
	if p.SentinelPrefix("NO") || p.IsSentinel("NO_REPLY") {
		t.Error("with no_reply.fallback sentinels are shown as they are")
	}
	p = conversation.DefaultPolicy()
	p.Sentinels = nil
	if p.SentinelPrefix("@max") || p.IsSentinel("NO_REPLY") || p.IsSentinel("") {
		t.Error("without sentinels nothing is one")
	}
}
