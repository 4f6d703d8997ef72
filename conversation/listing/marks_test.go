package listing

import "testing"

// Two changes as one do what the two do one after the other; no mark is both set and taken away.
func TestMarking(t *testing.T) {
	var all []Marking
	for set := range AllMarks + 1 {
		for unset := range AllMarks + 1 {
			if set&unset == 0 {
				all = append(all, Marking{set, unset})
			}
		}
	}
	for _, a := range all {
		for _, b := range all {
			both := a.Then(b)
			if both.Set&both.Unset != 0 {
				t.Errorf("%v, then %v: %v", a, b, both)
			}
			for m := range AllMarks + 1 {
				if got, want := both.Of(m), b.Of(a.Of(m)); got != want {
					t.Errorf("%v, then %v, of %b: %b instead of %b", a, b, m, got, want)
				}
			}
		}
	}
	c := Marking{}.With(Pinned, true).With(Archived, false)
	if m := c.Of(Archived); !m.Pinned() || m.Archived() {
		t.Errorf("pinned and not archived: %b", m)
	}
}
