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
