package service

import "testing"

// An administrator lifts ceilings, but not the local user of a server without sign-in.
func TestLiftsCeilings(t *testing.T) {
	local, err := NoAuth{}.Authenticate(t.Context(), Credential{})
	if err != nil || !local.May(ScopeAdmin) || local.LiftsCeilings() {
		t.Errorf("the local user: %+v, %v", local, err)
	}
	for _, row := range []struct {
		scopes []string
		want   bool
	}{{[]string{ScopeAdmin}, true}, {[]string{ScopeChat, ScopeRuntime, ScopeReadTools}, false}} {
		p := Principal{Tenant: "t", User: "u", Scopes: row.scopes, Credential: "key:1"}
		if p.LiftsCeilings() != row.want {
			t.Errorf("%v: %v", row.scopes, !row.want)
		}
	}
}
