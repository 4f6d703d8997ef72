package find

import (
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation"
	"parley/conversation/search"
	"parley/metrics"
)

// What was edited is found by its last words only, and what was taken back by none,
// wherever the index ends: before what was said, between that and its change, or behind it.
func TestEditsCountWhereverTheIndexEnds(t *testing.T) {
	w := newWorld()
	k := key("acme", "s1")
	s := w.session(k, "ann")
	w.say(s, "alpha one")
	w.say(s, "beta two")
	w.edit(s, 1, "gamma two")
	w.say(s, "alpha three")
	w.withdraw(s, 0)
	w.edit(s, 2, "beta three")
	w.edit(s, 1, "delta two")
	w.say(s, "alpha four")
	for through := -1; through <= int(s.last); through++ {
		var index search.Index
		if through >= 0 {
			index, w.upto[k] = w, conversation.Seq(through)
		}
		f := New(w.store, index, Options{Messages: true}, metrics.NewSearch(prometheus.NewRegistry()))
		for _, word := range []string{"alpha", "beta", "gamma", "delta", "one", "two", "three", "four"} {
			q := reading(t, word)
			found, _, err := all(f, Ask{Tenant: "acme", User: "ann", Query: q, Limit: 10})
			if got, want := lines(found), w.want("acme", "ann", q); err != nil || !slices.Equal(got, want) {
				t.Errorf("%s with an index up to %d: %v, found\n%s\ninstead of\n%s", word, through, err, strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		}
	}
}
