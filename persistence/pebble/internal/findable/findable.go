package findable

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/search"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
)

// Ground is what an Index stands on.
type Ground struct {
	Store *pebble.DB

	Enter func(context.Context) error // begins a call; Leave must follow if it returns nil
	Leave func()
	Ready func() error // why nothing can be written, or nil
	Room  func() error // conversation.ErrFull, or nil

	// Hold keeps sessions from being erased until release is called.
	Hold func([]conversation.SessionKey) (release func())
}

// Index is a search.Index.
type Index struct {
	Ground
	keeping sync.Mutex
	behind  behind
}

var _ search.Guide = (*Index)(nil)

// New makes an Index.
func New(g Ground) *Index { return &Index{Ground: g} }

// Said implements search.Index.
func (x *Index) Said(ctx context.Context, key conversation.SessionKey, q search.Query, behind search.Place, n int) (all []search.Said, through conversation.Seq, err error) {
	if err := x.Enter(ctx); err != nil {
		return nil, 0, err
	}
	defer x.Leave()
	if terms := q.Terms(); n > 0 && len(terms) > 0 {
		return x.find(key, q, terms, behind, n)
	}
	to, _, err := x.reached(key)
	if err != nil || to.Through == 0 || n == 0 {
		return nil, to.Through, err
	}
	prefix := layout.SaidPrefix(nil, key)
	err = x.scan(key, layout.KeySaid(nil, key, behind), layout.After(prefix), func(_ []byte, s search.Said) bool {
		if s.Place().Behind(behind) {
			all = append(all, s)
		}
		return len(all) < n
	})
	return all, to.Through, err
}

// scan shows what is kept between two keys, the newest first, until see says no.
func (x *Index) scan(key conversation.SessionKey, lower, upper []byte, see func(k []byte, s search.Said) bool) (err error) {
	it, err := x.Store.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	kind := len(layout.SessionPrefix(nil, key))
	for ok := it.First(); ok; ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		s, err := layout.CutSaid(it.Key()[kind:], v)
		if err != nil {
			return fmt.Errorf("%s: %w", key, err)
		}
		if !see(it.Key(), s) {
			return nil
		}
	}
	return it.Error()
}

// reached is up to where the log is kept; there is false if the session has nothing.
func (x *Index) reached(key conversation.SessionKey) (to layout.SaidTo, there bool, err error) {
	v, closer, err := x.Store.Get(layout.KeySaidTo(nil, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return to, false, nil
	}
	if err != nil {
		return to, false, err
	}
	to, err = layout.CutSaidTo(v)
	return to, true, errors.Join(err, closer.Close())
}

// Keep implements search.Index.
func (x *Index) Keep(ctx context.Context, key conversation.SessionKey, from conversation.Seq, news search.News) error {
	if err := x.Enter(ctx); err != nil {
		return err
	}
	defer x.Leave()
	if err := errors.Join(x.Ready(), x.Room()); err != nil {
		return err
	}
	defer x.Hold([]conversation.SessionKey{key})()
	x.keeping.Lock()
	defer x.keeping.Unlock()
	to, there, err := x.reached(key)
	if err != nil || to.Through != from {
		return err
	}
	time := x.behind.time(key)
	h, err := x.head(key)
	if err != nil || h == nil { // erased
		return err
	}
	sum, err := wire.DecodeSummary(h.Summary)
	if err != nil {
		return err
	}
	b := x.Store.NewBatch()
	if there && from == 0 {
		if err := x.drop(b, key); err != nil { // of another version
			return errors.Join(err, b.Close())
		}
	}
	w := newWords(news.Through)
	for _, s := range news.Said {
		_ = b.Set(layout.KeySaid(nil, key, s.Place()), layout.AppendSaid(nil, s), nil)
		w.add(s)
	}
	if err := errors.Join(x.change(b, key, news, w), w.write(x.Store, b, key, &to)); err != nil {
		return errors.Join(err, b.Close())
	}
	to.Through = news.Through
	_ = b.Set(layout.KeySaidTo(nil, key), layout.AppendSaidTo(nil, to), nil)
	_ = b.Set(layout.KeyGate(nil, key), layout.AppendGate(nil, sum), nil)
	if err := errors.Join(x.Store.Apply(b, pebble.NoSync), b.Close()); err != nil {
		return err
	}
	if h.Row.Last == to.Through {
		x.behind.caughtUp(key, time)
	}
	return nil
}

// head is the head of a session; nil = it is gone.
func (x *Index) head(key conversation.SessionKey) (*layout.Head, error) {
	v, closer, err := x.Store.Get(layout.KeyHead(nil, key))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	h, err := layout.DecodeHead(v)
	return h, errors.Join(err, closer.Close())
}

// drop takes out all that is kept of a session.
func (x *Index) drop(b *pebble.Batch, key conversation.SessionKey) error {
	sieves := layout.SievesPrefix(nil, key)
	return errors.Join(
		x.dropAll(b, layout.SaidPrefix(nil, key), layout.After(layout.WordsPrefix(nil, key))),
		x.dropAll(b, sieves, layout.After(sieves)),
	)
}

func (x *Index) dropAll(b *pebble.Batch, lower, upper []byte) (err error) {
	it, err := x.Store.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		_ = b.Delete(it.Key(), nil)
	}
	return it.Error()
}

// change writes over what was said before, or takes it out.
func (x *Index) change(b *pebble.Batch, key conversation.SessionKey, news search.News, w *words) error {
	left := map[conversation.MessageID]*search.Said{} // nil = it is taken out
	for _, id := range news.Unsaid {
		left[id] = nil
	}
	for i := range news.Reworded {
		left[news.Reworded[i].Message] = &news.Reworded[i]
	}
	if len(left) == 0 {
		return nil
	}
	prefix := layout.SaidPrefix(nil, key)
	return x.scan(key, prefix, layout.After(prefix), func(k []byte, s search.Said) bool {
		new, is := left[s.Message]
		if !is {
			return true
		}
		delete(left, s.Message)
		if new == nil {
			_ = b.Delete(k, nil)
			return len(left) > 0
		}
		s.Text, s.Folded = new.Text, new.Folded
		_ = b.Set(k, layout.AppendSaid(nil, s), nil)
		w.add(s) // its words of before stay, and lead to it in vain
		return len(left) > 0
	})
}
