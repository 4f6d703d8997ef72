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
		kind    intakeKind
		rest    string
	}{
		{"Book a room", false, intakeTask, "Book a room"},
		{"  Book a room\n", true, intakeTask, "  Book a room\n"},
		{"", true, intakeTask, ""},
		{"yes", true, intakeYes, "yes"},
		{" Yes! ", true, intakeYes, "Yes!"},
		{"YES.", true, intakeYes, "YES."},
		{"ok", true, intakeYes, "ok"},
		{"go ahead", true, intakeYes, "go ahead"},
		{"yes", false, intakeTask, "yes"},
		{"yes, but tomorrow", true, intakeTask, "yes, but tomorrow"},
		{"yes?", true, intakeTask, "yes?"},
		{"no", true, intakeNo, "no"},
		{"Don't!", true, intakeNo, "Don't!"},
		{"stop", true, intakeNo, "stop"},
		{"stop", false, intakeTask, "stop"},
		{"no way", true, intakeTask, "no way"},
		{"/answer Monday", false, intakeAnswer, "Monday"},
		{"  /answer\n Monday at\nten ", true, intakeAnswer, "Monday at\nten"},
		{"/answer yes", true, intakeAnswer, "yes"},
		{"/answer", false, intakeTask, "/answer"},
		{"/answer  ", false, intakeTask, "/answer  "},
		{"/answers Monday", false, intakeTask, "/answers Monday"},
		{"please /answer Monday", false, intakeTask, "please /answer Monday"},
		{"Thanks!", false, intakeSmallTalk, "Thanks!"},
		{"thank you", true, intakeSmallTalk, "thank you"},
		{"hello", false, intakeSmallTalk, "hello"},
		{"hello, book a room", false, intakeTask, "hello, book a room"},
		// Words that once were classes of messages mean nothing here (D-03).
		{"Actually use OAuth instead", true, intakeTask, "Actually use OAuth instead"},
		{"Also, what's the weather?", true, intakeTask, "Also, what's the weather?"},
	}
	for _, test := range tests {
		kind, rest := intake(test.text, test.pending)
		if kind != test.kind || rest != test.rest {
			t.Errorf("intake(%q, %v) = %s, %q; want %s, %q", test.text, test.pending, kind, rest, test.kind, test.rest)
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
