package lanes

import "testing"

// Of the lanes of a task one goes on with the next response, also when it has told all of it before
// the others come there. What was claimed is known as long as the task has lanes, and not longer.
func TestOneLaneGoesOn(t *testing.T) {
	var l Lanes
	first, second := l.Enter("t1"), l.Enter("t1")
	if !l.Claim("t1", "r2") {
		t.Error("the first lane may not go on")
	}
	first()
	if l.Claim("t1", "r2") {
		t.Error("the second lane tells it again")
	}
	if !l.Claim("t1", "r3") {
		t.Error("another response cannot be claimed")
	}
	second()
	if len(l.tasks) != 0 {
		t.Errorf("%v is kept", l.tasks)
	}
	defer l.Enter("t1")()
	if !l.Claim("t1", "r2") {
		t.Error("it is remembered behind the last lane")
	}
}

func TestNames(t *testing.T) {
	var l Lanes
	if got := l.NameOf("r1"); got != "" {
		t.Errorf("%q", got)
	}
	forget := l.Name("r1", "left")
	if got := l.NameOf("r1"); got != "left" {
		t.Errorf("%q", got)
	}
	forget()
	if got := l.NameOf("r1"); got != "" || len(l.names) != 0 {
		t.Errorf("%q %v", got, l.names)
	}
}
