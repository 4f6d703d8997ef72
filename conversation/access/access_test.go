package access

import "testing"

func TestRolesAndRights(t *testing.T) {
	const all = "reader approver writer owner"
	table := []struct {
		right Right
		may   []Role
	}{
		{Engine, nil},
		{Read, []Role{Reader, Approver, Writer, Owner}},
		{Approve, []Role{Approver, Writer, Owner}},
		{Write, []Role{Writer, Owner}},
		{Own, []Role{Owner}},
	}
	for _, row := range table {
		for role := None; role <= Owner; role++ {
			want := false
			for _, r := range row.may {
				want = want || r == role
			}
			if got := role.May(row.right); got != want {
				t.Errorf("role %q, right %d: %v, want %v (roles: %s)", role, row.right, got, want, all)
			}
		}
	}
	for role := Reader; role <= Owner; role++ {
		if got, ok := ParseRole(role.String()); !ok || got != role {
			t.Errorf("ParseRole(%q) = %v, %v", role, got, ok)
		}
	}
	for _, word := range []string{"", "Owner", "admin", " reader"} {
		if role, ok := ParseRole(word); ok || role != None {
			t.Errorf("ParseRole(%q) = %v, %v", word, role, ok)
		}
	}
	if got := Role(9).String(); got != "unknown(9)" {
		t.Errorf("Role(9) = %q", got)
	}
}

func TestOf(t *testing.T) {
	members := map[string]Role{"rea": Reader, "app": Approver, "wri": Writer, "own": Owner}
	for _, row := range []struct {
		user string
		open bool
		want Role
	}{
		{"ann", false, Owner}, {"ann", true, Owner},
		{"own", false, Owner}, {"wri", false, Writer}, {"app", false, Approver}, {"rea", false, Reader},
		{"rea", true, Writer}, {"own", true, Owner},
		{"eve", false, None}, {"eve", true, Writer}, {"", false, None},
	} {
		if got := Of(row.user, "ann", row.open, members); got != row.want {
			t.Errorf("Of(%q, open %v) = %q, want %q", row.user, row.open, got, row.want)
		}
		if got := Of(row.user, "ann", row.open, nil); !row.open && row.user != "ann" && got != None {
			t.Errorf("Of(%q) without members = %q", row.user, got)
		}
	}
}
