package conversation

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestTaskIDSession(t *testing.T) {
	tests := []struct {
		id      TaskID
		session SessionID
		ok      bool
	}{
		{"t4-abc", "abc", true},
		{"t1-abc/d1/d2", "abc/d1/d2", true},
		{"t1-a-b", "a-b", true},
		{"", "", false},
		{"t4", "", false},
		{"t4-", "", false},
		{"t-abc", "", false},
		{"m4-abc", "", false},
		{"tx-abc", "", false},
		{"t-1-abc", "", false},
		{"t99999999999-abc", "", false},
	}
	for _, test := range tests {
		if session, ok := test.id.Session(); session != test.session || ok != test.ok {
			t.Errorf("%q.Session() = %q, %v", test.id, session, ok)
		}
	}
}

func TestSessionID(t *testing.T) {
	tests := []struct {
		id, root, parent SessionID
		call             CallID
		depth            int
	}{
		{"abc", "abc", "", "", 0},
		{"abc/d1", "abc", "abc", "d1", 1},
		{"abc/d1/d22", "abc", "abc/d1", "d22", 2},
	}
	for _, test := range tests {
		parent, call, ok := test.id.Parent()
		if test.id.Root() != test.root || parent != test.parent || call != test.call || ok != (test.depth > 0) || test.id.Depth() != test.depth {
			t.Errorf("%q: root %q, parent %q %q %v, depth %d", test.id, test.id.Root(), parent, call, ok, test.id.Depth())
		}
	}
}

func TestExcerpt(t *testing.T) {
	tests := []struct {
		text string
		n    int
		want string
	}{
		{"", 3, ""},
		{"abc", 3, "abc"},
		{"abcd", 3, "abc…"},
		{"äöü", 3, "äöü"},
		{"äöüß", 3, "äöü…"},
		{"日本語のテキスト", 3, "日本語…"},
		{"a👍b👍c", 3, "a👍b…"},
		{"abc", 0, "…"},
	}
	for _, test := range tests {
		got := Excerpt(test.text, test.n)
		if got != test.want || !utf8.ValidString(got) {
			t.Errorf("Excerpt(%q, %d) = %q, want %q", test.text, test.n, got, test.want)
		}
	}
}

// Names are read as they are written, and a number that no name belongs to is
// said so instead of a crash.
func TestEnumNames(t *testing.T) {
	for i, n := range modeNames {
		if m, ok := ParseMode(n); !ok || m != Mode(i) || m.String() != n {
			t.Errorf("mode %q: %v %v", n, m, ok)
		}
	}
	if _, ok := ParseMode("shout"); ok {
		t.Error("a mode that is none was read")
	}
	for i, n := range statusNames {
		if s, ok := ParseTaskStatus(n); ok != (i > 0) || ok && s != TaskStatus(i) {
			t.Errorf("status %q: %v %v", n, s, ok)
		}
	}
	for i, n := range accessNames {
		if a, ok := ParseAccess(n); !ok || a != Access(i) {
			t.Errorf("access %q: %v %v", n, a, ok)
		}
	}
	if a, ok := ParseAccess(""); !ok || a != AccessPrivate {
		t.Error("no access is private access")
	}
	if _, ok := ParseAccess("world"); ok {
		t.Error("an access that is none was read")
	}
	for _, s := range []fmt.Stringer{
		Mode(99), Via(99), Disposition(99), Resolution(99), TaskStatus(99), Access(99),
		EventKind(99), CancelBy(99), Cause(99), StepOutcome(99), Decision(99), ResponseKind(99), ClosedReason(99), CallStatus(99), ItemKind(99), Evidence(99), NudgeForm(99), StopReason(99), RuntimeState(99),
	} {
		if s.String() != "unknown(99)" {
			t.Errorf("%T(99) = %q", s, s)
		}
	}
}

func TestErrors(t *testing.T) {
	cause := errors.New("disk of the server is on fire")
	e := AsError(cause)
	if e.Code != Internal || strings.Contains(e.Message, "fire") || !errors.Is(e, cause) || !e.Retryable() {
		t.Errorf("a foreign error must not show its text: %+v", e)
	}
	busy := Errorf(SessionBusy, "wait %d", 1)
	if got := AsError(fmt.Errorf("in passing: %w", busy)); got != busy {
		t.Errorf("an error of ours stays what it is: %+v", got)
	}
	if AsError(nil) != nil {
		t.Error("no error is no error")
	}
	for code, want := range map[Code]bool{
		Conflict: false, NotFound: false, BadRequest: false, TaskNotAwaiting: false, InboxFull: true, Overloaded: true, Unavailable: true, Timeout: true,
	} {
		if Errorf(code, "x").Retryable() != want {
			t.Errorf("%s retryable: %v", code, !want)
		}
	}
}
