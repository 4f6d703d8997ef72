package machine

import (
	"reflect"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/listing"
)

// The list entry counts what is open and what waits for the user.
func TestSummary(t *testing.T) {
	w := script(t, `create title="Hello"`, `send a "One"`, `model k1:askUser{"question":"Why?"}`, "wait 5s", `send b "Two" mode=queue`, `send c "Three" mode=queue`)
	start := w.log[0].At
	want := conversation.Summary{
		Key: w.key, Title: "Hello", Agent: conversation.Coordinator, Owner: "u", CreatedAt: start, Activity: start.Add(5 * time.Second), Last: w.s.Head(), Open: 3, Awaiting: 1,
		Work: listing.Work{Running: 1, Asking: 1},
	}
	if got := w.s.Summary(); !reflect.DeepEqual(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	w = script(t, `create`, `send a "One"`, `model k1:respondToUser{"message":"Half."} k2:clock{}`, `tool c1 ok`, `model "Done."`)
	var parts listing.Parts
	for _, e := range w.log {
		switch e.Body.(type) {
		case conversation.PartialResponse, conversation.Response:
			parts = parts.With(uint64(e.Seq))
		}
	}
	if got := w.s.Summary().Work; parts.Unread(0) != 2 || !reflect.DeepEqual(got, listing.Work{Parts: parts}) {
		t.Errorf("of parts %v it says %+v", parts, got)
	}
}

// Who may see a session: its owner; with access "tenant" everyone of the tenant,
// which the shell has checked before.
func TestRole(t *testing.T) {
	for _, test := range []struct {
		access conversation.Access
		user   conversation.UserID
		want   bool
	}{{conversation.AccessPrivate, "u", true}, {conversation.AccessPrivate, "v", false}, {conversation.AccessPrivate, "", false}, {conversation.AccessTenant, "v", true}, {conversation.AccessTenant, "u", true}} {
		s := New(conversation.SessionKey{Tenant: "t", Session: "s"}, testRules())
		s.Decide(conversation.Inputs{}, conversation.Create{Owner: "u", Access: test.access})
		if (s.Role(test.user) != access.None) != test.want || s.View().Role(test.user) != s.Role(test.user) || s.Summary().Role(test.user) != s.Role(test.user) {
			t.Errorf("%s, %q: visible %v", test.access, test.user, !test.want)
		}
	}
}

// A view is a copy of what counts: what is decided later does not change it.
func TestViewIsNotShared(t *testing.T) {
	w := script(t, `create policy={"inbox.mode":"queue"}`, `send a "One"`, `send b "Two"`)
	before := w.s.View()
	inbox, policy := before.Inbox[0], string(before.Policy["inbox.mode"])
	w.feed(conversation.Edit{By: "u", Message: "m2-s", Text: "Two!"})
	w.feed(conversation.Update{Policy: conversation.Overrides{"inbox.mode": []byte(`"steer"`)}})
	w.feed(conversation.Withdraw{By: "u", Message: "m2-s"})
	if len(before.Inbox) != 1 || !reflect.DeepEqual(before.Inbox[0], inbox) || string(before.Policy["inbox.mode"]) != policy {
		t.Errorf("the view has changed: %+v", before)
	}
}
