package conversation

import (
	"testing"

	"parley/conversation/access"
)

// N-18. What an Update needs: a member may end his own membership, and that alone.
func TestUpdateNeeds(t *testing.T) {
	type roles = map[UserID]access.Role
	title, open := "x", AccessTenant
	for _, row := range []struct {
		what  string
		c     Update
		needs access.Right
	}{
		{"nothing", Update{By: "bob"}, access.Write},
		{"a title", Update{By: "bob", Title: &title}, access.Write},
		{"access", Update{By: "bob", Access: &open}, access.Own},
		{"the agent", Update{By: "bob", Agent: "tutor"}, access.Own},
		{"policies", Update{By: "bob", Policy: Overrides{}}, access.Own},
		{"a member", Update{By: "bob", Members: roles{"eve": access.Reader}}, access.Own},
		{"himself, gone", Update{By: "bob", Members: roles{"bob": access.None}}, access.Read},
		{"himself, lower", Update{By: "bob", Members: roles{"bob": access.Reader}}, access.Own},
		{"himself and another", Update{By: "bob", Members: roles{"bob": access.None, "eve": access.None}}, access.Own},
		{"another, gone", Update{By: "bob", Members: roles{"eve": access.None}}, access.Own},
		{"himself, gone, and another agent", Update{By: "bob", Agent: "tutor", Members: roles{"bob": access.None}}, access.Own},
		{"himself, gone, and a title", Update{By: "bob", Title: &title, Members: roles{"bob": access.None}}, access.Own},
		{"nobody's", Update{Members: roles{"bob": access.None}}, access.Own},
	} {
		if got := row.c.Class().Needs; got != row.needs {
			t.Errorf("%s: needs %v, want %v", row.what, got.Role(), row.needs.Role())
		}
	}
}
