package refusal

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/member"
)

// Who has a session that the store does not give decides where to ask: at that member, or, if
// it is of another cluster, nowhere here.
func TestOwned(t *testing.T) {
	owned := &conversation.OwnedError{By: conversation.Member{Node: "a", Incarnation: 7}}
	if e, ok := Owned(fmt.Errorf("acquire: %w", owned)); !ok || !IsElsewhere(e) || e.Code != conversation.Unavailable {
		t.Errorf("of this cluster: %v", e)
	}
	e, ok := Owned(fmt.Errorf("acquire: %w: %w", owned, member.ErrOtherCluster))
	if !ok || IsElsewhere(e) || e.Code != conversation.Unavailable || !strings.Contains(e.Message, "another cluster") {
		t.Errorf("of another cluster: %v", e)
	}
	if _, ok := Owned(errors.New("something else")); ok {
		t.Error("an error that says nothing of owners")
	}
}
