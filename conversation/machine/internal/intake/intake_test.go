package intake

import "testing"

// D-25: the pre-filter knows fixed words only.
func TestIntake(t *testing.T) {
	tests := []struct {
		text    string
		pending bool
		kind    Kind
		rest    string
	}{
		{"Book a room", false, Task, "Book a room"},
		{"  Book a room\n", true, Task, "  Book a room\n"},
		{"", true, Task, ""},
		{"yes", true, Yes, "yes"},
		{" Yes! ", true, Yes, "Yes!"},
		{"YES.", true, Yes, "YES."},
		{"ok", true, Yes, "ok"},
		{"go ahead", true, Yes, "go ahead"},
		{"yes", false, Task, "yes"},
		{"yes, but tomorrow", true, Task, "yes, but tomorrow"},
		{"yes?", true, Task, "yes?"},
		{"no", true, No, "no"},
		{"Don't!", true, No, "Don't!"},
		{"stop", true, No, "stop"},
		{"stop", false, Task, "stop"},
		{"no way", true, Task, "no way"},
		{"/answer Monday", false, Answer, "Monday"},
		{"  /answer\n Monday at\nten ", true, Answer, "Monday at\nten"},
		{"/answer yes", true, Answer, "yes"},
		{"/answer", false, Task, "/answer"},
		{"/answer  ", false, Task, "/answer  "},
		{"/answers Monday", false, Task, "/answers Monday"},
		{"please /answer Monday", false, Task, "please /answer Monday"},
		{"Thanks!", false, SmallTalk, "Thanks!"},
		{"thank you", true, SmallTalk, "thank you"},
		{"hello", false, SmallTalk, "hello"},
		{"hello, book a room", false, Task, "hello, book a room"},
		// Words that once were classes of messages mean nothing here (D-03).
		{"Actually use OAuth instead", true, Task, "Actually use OAuth instead"},
		{"Also, what's the weather?", true, Task, "Also, what's the weather?"},
	}
	for _, test := range tests {
		kind, rest := Classify(test.text, test.pending)
		if kind != test.kind || rest != test.rest {
			t.Errorf("Classify(%q, %v) = %s, %q; want %s, %q", test.text, test.pending, kind, rest, test.kind, test.rest)
		}
	}
}
