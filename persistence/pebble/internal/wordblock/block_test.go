package wordblock

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/search"
)

// A block finds each text that has all words, however it was made; what it finds besides is
// only what stands for too many terms or too long ones.
func TestBlocksMissNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.SampledFrom([]string{"alpha", "alps", "beta", "bet", "b", "東京タワー", "京", "gamma", "7"})
		var texts []string
		m := &Maker{}
		for n := range rapid.IntRange(0, 60).Draw(rt, "texts") {
			text := search.Fold(strings.Join(rapid.SliceOfN(word, 0, 8).Draw(rt, "text"), " ") + fmt.Sprintf(" n%d", n))
			texts = append(texts, text)
			m.Add(search.Place{At: int64(n*7%13) - 5, Seq: conversation.Seq(n)}, text)
			if rapid.IntRange(0, 9).Draw(rt, "join") == 0 {
				all := &Maker{}
				if err := all.Join(m.Bytes()); err != nil {
					rt.Fatal(err)
				}
				m = all
			}
		}
		v := m.Bytes()
		if err := Check(v); err != nil || m.Texts() != len(texts) {
			rt.Fatalf("%d texts of %d, %v", m.Texts(), len(texts), err)
		}
		q, err := search.Read(strings.Join(rapid.SliceOfN(rapid.OneOf(word, rapid.SampledFrom([]string{"a", "al", "n", "n1", "zz"})), 1, 4).Draw(rt, "query"), " "), 9)
		if err != nil {
			rt.Fatal(err)
		}
		b, err := Open(v)
		if err != nil {
			rt.Fatal(err)
		}
		got, err := b.Find(q.Terms())
		if err != nil {
			rt.Fatal(err)
		}
		var want []search.Place
		for n, text := range texts {
			if q.In(text) {
				want = append(want, search.Place{At: int64(n*7%13) - 5, Seq: conversation.Seq(n)})
			}
		}
		if !slices.Equal(got, want) {
			rt.Fatalf("found %v instead of %v", got, want)
		}
	})
}

// A text with too many terms is found by all of them, and by others.
func TestTooManyTerms(t *testing.T) {
	for n, more := range map[int]bool{mostTerms: false, mostTerms + 1: true} {
		var words []string
		for i := range n {
			words = append(words, fmt.Sprintf("w%04d", i))
		}
		m := &Maker{}
		m.Add(search.Place{At: 1, Seq: 1}, search.Fold(strings.Join(words, " ")))
		b, err := Open(m.Bytes())
		if err != nil || m.Size() > mostTerms {
			t.Fatal(m.Size(), err)
		}
		for term, want := range map[string]bool{"w0000": true, words[n-1]: true, "absent": more} {
			if all, err := b.Find([]string{term}); err != nil || (len(all) == 1) != want {
				t.Errorf("%d terms: %q is at %v, %v", n, term, all, err)
			}
		}
	}
}

// Whatever a block is, reading it ends, without a panic.
func FuzzBlock(f *testing.F) {
	m := &Maker{}
	m.Add(search.Place{At: 1, Seq: 1}, " alpha beta 東京")
	m.Add(search.Place{At: 2, Seq: 3}, " alpha gamma")
	f.Add(m.Bytes())
	f.Add([]byte{format, 0, 0, 0, 0, 0})
	f.Fuzz(func(_ *testing.T, v []byte) {
		_ = Check(v)
		_ = new(Maker).Join(v)
		if b, err := Open(v); err == nil {
			_, _ = b.Find([]string{"a", "b"})
		}
	})
}

// A sieve lets through whatever its block finds, and keeps most other words back.
func TestSievesKeepNothingBack(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		word := rapid.OneOf(rapid.SampledFrom([]string{"alpha", "alps", "b", "東京タワー", "京", strings.Repeat("z", 40)}), rapid.StringMatching(`[a-e]{1,20}`))
		m := &Maker{}
		var texts []string
		for n := range rapid.IntRange(0, 30).Draw(rt, "texts") {
			text := search.Fold(strings.Join(rapid.SliceOfN(word, 0, 8).Draw(rt, "text"), " "))
			texts = append(texts, text)
			m.Add(search.Place{Seq: conversation.Seq(n)}, text)
		}
		sieve := m.Sieve()
		if !Sieved(m.Bytes(), sieve) {
			rt.Fatal("a term of the block does not pass")
		}
		q, err := search.Read(strings.Join(rapid.SliceOfN(word, 1, 3).Draw(rt, "query"), " "), 30)
		if err != nil {
			rt.Fatal(err)
		}
		if slices.ContainsFunc(texts, q.In) && !Passes(sieve, q.Terms()) {
			rt.Fatalf("%q does not pass", q.Terms())
		}
	})
	m, passed := &Maker{}, 0
	for n := range 100 {
		m.Add(search.Place{Seq: conversation.Seq(n)}, fmt.Sprintf(" has%d word%d", n*7919, n*104729))
	}
	sieve := m.Sieve()
	for n := range 1000 {
		if Passes(sieve, []string{fmt.Sprintf("other%d", n*15485863)}) {
			passed++
		}
	}
	if passed > 60 || len(sieve) > 100*len(lengths)*2 {
		t.Errorf("%d of 1000 other words pass a sieve of %d bytes", passed, len(sieve))
	}
	many := &Maker{}
	var long strings.Builder
	for n := range mostTerms + 1 {
		fmt.Fprintf(&long, " w%d", n)
	}
	many.Add(search.Place{}, long.String())
	if !Passes(many.Sieve(), []string{"whatever"}) || !Passes(nil, []string{"whatever"}) || Passes((&Maker{}).Sieve(), []string{"whatever"}) {
		t.Error("a text with too many terms is kept back, or one that is not there is found")
	}
}
