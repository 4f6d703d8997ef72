package service

import "testing"

func TestSlots(t *testing.T) {
	s := NewSlots()
	all := func(n int) Most { return Most{Slot{"all", nil}, n} }
	user := func(name string) Most { return Most{Slot{"per_user", name}, 2} }
	var free []func()
	for i, x := range []struct{ user, refused string }{{"ann", ""}, {"ann", ""}, {"ann", "per_user"}, {"bob", ""}, {"cy", "all"}} {
		f, refused := s.Take(all(3), user(x.user))
		if refused != x.refused || (f == nil) != (refused != "") {
			t.Errorf("%d: %s was refused by %q, want %q", i, x.user, refused, x.refused)
		}
		if f != nil {
			free = append(free, f)
		}
	}
	free[0]()
	free[0]()
	if f, refused := s.Take(all(3), user("cy")); f == nil {
		t.Errorf("refused by %q after one was freed", refused)
	} else {
		f()
	}
	for _, f := range free {
		f()
	}
	if len(s.open) != 0 {
		t.Errorf("left: %v", s.open)
	}
	if _, refused := s.Take(all(0)); refused != "" {
		t.Error("0 is a limit")
	}
}
