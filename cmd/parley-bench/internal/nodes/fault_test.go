package nodes

import (
	"fmt"
	"math/rand/v2"
	"testing"
)

// A plan has every kind of fault, is the same for the same seed, and never has two faults
// at once that cannot be told apart.
func TestPlans(t *testing.T) {
	for name, plan := range map[string][]step{
		"short": everyFault(), "random": randomFaults(rand.New(rand.NewPCG(1, 1)), 60, 3),
	} {
		has := map[fault]int{}
		together := 0
		for i, s := range plan {
			has[s.what]++
			if s.hold <= 0 || s.hold > 3 || s.node < 0 || s.node > 2 {
				t.Errorf("%s: %v", name, s)
			}
			if (s.what == paused || s.what == dbFlap) && s.hold > 0.7 || s.what == frozen && s.hold < 1.3 {
				t.Errorf("%s: %v is too near a lease", name, s)
			}
			if s.with {
				together++
				if i+1 == len(plan) || plan[i+1].with || !apart(s, plan[i+1]) {
					t.Errorf("%s: %v and the next one fall together", name, s)
				}
			}
		}
		for _, f := range faults {
			if has[f] == 0 {
				t.Errorf("%s: it never happens that %s", name, f)
			}
		}
		if name == "random" && (together == 0 || len(plan) != 60) {
			t.Errorf("%d faults, %d of them with the next one", len(plan), together)
		}
	}
	a, b := randomFaults(rand.New(rand.NewPCG(5, 1)), 40, 3), randomFaults(rand.New(rand.NewPCG(5, 1)), 40, 3)
	if fmt.Sprint(a) != fmt.Sprint(b) {
		t.Error("a seed gives two plans")
	}
}
