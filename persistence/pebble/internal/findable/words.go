package findable

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/search"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/wordblock"
)

// The words of a session lie in blocks. Each news adds a small one; when there are enough of
// about one size, they are joined, so that a session has few of them and a text is written a
// few times. What is large enough stays as it is.

const (
	// joinAt is how many blocks of about one size are joined.
	joinAt = 8
	// largeTexts and largeTerms are when a block is not joined any more.
	largeTexts = 256
	largeTerms = 4 << 10
)

// words makes the blocks of one news.
type words struct {
	through conversation.Seq
	blocks  []*wordblock.Maker
}

func newWords(through conversation.Seq) *words { return &words{through: through} }

func (w *words) add(s search.Said) {
	if last := len(w.blocks) - 1; last < 0 || w.blocks[last].Size() >= largeTerms || w.blocks[last].Texts() >= largeTexts {
		w.blocks = append(w.blocks, &wordblock.Maker{})
	}
	w.blocks[len(w.blocks)-1].Add(s.Place(), s.Folded)
}

// write writes the blocks, joined with those of before where there are enough. Only the last
// one of a news is small, so what is joined with it is in the store.
func (w *words) write(from *pebble.DB, b *pebble.Batch, key conversation.SessionKey, to *layout.SaidTo) error {
	for _, m := range w.blocks {
		for n := alike(to.Small, m); n >= joinAt-1; n = alike(to.Small, m) {
			all := &wordblock.Maker{}
			begin := len(to.Small) - n
			for _, old := range to.Small[begin:] {
				k := layout.KeyWords(nil, key, old.WordsKey)
				if err := join(all, from, k); err != nil {
					return err
				}
				_ = b.Delete(k, nil)
				_ = b.Delete(layout.KeySieve(nil, key, old.WordsKey), nil)
			}
			if err := all.Join(m.Bytes()); err != nil {
				return err
			}
			m, to.Small = all, to.Small[:begin]
		}
		k := layout.WordsKey{Newest: m.Newest(), Through: w.through}
		_ = b.Set(layout.KeyWords(nil, key, k), m.Bytes(), nil)
		_ = b.Set(layout.KeySieve(nil, key, k), m.Sieve(), nil)
		if !large(m) {
			to.Small = append(to.Small, layout.SmallWords{WordsKey: k, Texts: m.Texts()})
		}
	}
	return nil
}

// alike is how many of the last blocks are of the size of another one, or smaller.
func alike(small []layout.SmallWords, m *wordblock.Maker) (n int) {
	if large(m) {
		return 0
	}
	for _, s := range slices.Backward(small) {
		if bits.Len(uint(s.Texts))/3 > bits.Len(uint(m.Texts()))/3 {
			break
		}
		n++
	}
	return n
}

func large(m *wordblock.Maker) bool { return m.Texts() >= largeTexts || m.Size() >= largeTerms }

func join(all *wordblock.Maker, from *pebble.DB, k []byte) error {
	v, closer, err := from.Get(k)
	if err != nil {
		return err
	}
	return errors.Join(all.Join(v), closer.Close())
}

// find lists what is kept and has all words of a query. The blocks come by their newest
// texts: what is newer than that of the next block is complete.
func (x *Index) find(key conversation.SessionKey, q search.Query, terms []string, behind search.Place, n int) (all []search.Said, through conversation.Seq, err error) {
	it, err := x.Store.NewIter(&pebble.IterOptions{LowerBound: layout.KeySaidTo(nil, key), UpperBound: layout.After(layout.WordsPrefix(nil, key))})
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	front := len(layout.WordsPrefix(nil, key))
	var found []search.Place // that have not been read
	for ok := it.First(); ok && len(all) < n; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return nil, 0, err
		}
		if len(it.Key()) == front { // where it is kept to comes first
			to, err := layout.CutSaidTo(v)
			if err != nil || to.Through == 0 {
				return nil, 0, err
			}
			through = to.Through
			continue
		}
		at, fits := layout.CutWordsKey(it.Key()[front:])
		if !fits {
			return nil, 0, fmt.Errorf("%w: key %x of the words of %s cannot be read", conversation.ErrDamaged, it.Key(), key)
		}
		if found, err = x.read(&all, n, key, q, found, at.Newest); err != nil {
			return nil, 0, err
		}
		block, err := wordblock.Open(v)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", key, err)
		}
		some, err := block.Find(terms)
		if err != nil {
			return nil, 0, fmt.Errorf("%s: %w", key, err)
		}
		for _, p := range some {
			if p.Behind(behind) {
				found = append(found, p)
			}
		}
	}
	if err := it.Error(); err != nil || through == 0 {
		return nil, 0, err
	}
	_, err = x.read(&all, n, key, q, found, search.Place{At: math.MinInt64})
	return all, through, err
}

// read reads the texts at those places that are before another one, and says which are left.
func (x *Index) read(all *[]search.Said, n int, key conversation.SessionKey, q search.Query, places []search.Place, before search.Place) (left []search.Place, err error) {
	if len(places) == 0 {
		return nil, nil
	}
	slices.SortFunc(places, func(a, b search.Place) int {
		return cmp.Or(cmp.Compare(b.At, a.At), cmp.Compare(b.Seq, a.Seq))
	})
	places = slices.Compact(places) // a text that was reworded is in two blocks
	prefix := len(layout.SessionPrefix(nil, key))
	for len(places) > 0 && before.Behind(places[0]) && len(*all) < n {
		k := layout.KeySaid(nil, key, places[0])
		places = places[1:]
		v, closer, err := x.Store.Get(k)
		if errors.Is(err, pebble.ErrNotFound) { // taken back
			continue
		}
		if err != nil {
			return nil, err
		}
		s, err := layout.CutSaid(k[prefix:], v)
		if err := errors.Join(err, closer.Close()); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if q.In(s.Folded) {
			*all = append(*all, s)
		}
	}
	return places, nil
}
