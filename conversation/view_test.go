package conversation

import (
	"reflect"
	"testing"
	"time"
)

// The list entry counts what is open and what waits for the user.
func TestSummary(t *testing.T) {
	w := script(t, `create title="Hello"`, `send a "One"`, `model k1:askUser{"question":"Why?"}`, "wait 5s", `send b "Two" mode=queue`, `send c "Three" mode=queue`)
	start := w.log[0].At
	want := Summary{
		Key: w.key, Title: "Hello", Agent: Coordinator, Owner: "u", CreatedAt: start, Activity: start.Add(5 * time.Second), Last: w.s.Head(), Open: 3, Awaiting: 1,
	}
	if got := w.s.Summary(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// Who may see a session: its owner; with access "tenant" everyone of the tenant,
// which the shell has checked before.
func TestVisible(t *testing.T) {
	for _, test := range []struct {
		access Access
		user   UserID
		want   bool
	}{{AccessPrivate, "u", true}, {AccessPrivate, "v", false}, {AccessPrivate, "", false}, {AccessTenant, "v", true}, {AccessTenant, "u", true}} {
		s := New(SessionKey{"t", "s"}, testRules())
		s.Decide(Given{}, Create{Owner: "u", Access: test.access})
		if s.Visible(test.user) != test.want || s.View().Visible(test.user) != test.want {
			t.Errorf("%s, %q: visible %v", test.access, test.user, !test.want)
		}
	}
}

// A view is a copy of what counts: what is decided later does not change it.
func TestViewIsNotShared(t *testing.T) {
	w := script(t, `create policy={"inbox.mode":"queue"}`, `send a "One"`, `send b "Two"`)
	before := w.s.View()
	inbox, policy := before.Inbox[0], string(before.Policy["inbox.mode"])
	w.feed(Edit{By: "u", Message: "m2-s", Text: "Two!"})
	w.feed(Update{Policy: Overrides{"inbox.mode": []byte(`"steer"`)}})
	w.feed(Withdraw{By: "u", Message: "m2-s"})
	if len(before.Inbox) != 1 || before.Inbox[0] != inbox || string(before.Policy["inbox.mode"]) != policy {
		t.Errorf("the view has changed: %+v", before)
	}
}
