package findable

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/search"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/wordblock"
)

// guided is a search that has begun: the sessions of its window, in the order of the list.
type guided struct {
	x      *Index
	tenant conversation.TenantID
	user   conversation.UserID
	terms  []string
	left   []listed
	behind map[conversation.SessionID]bool
}

type listed struct {
	session conversation.SessionID
	ms      int64 // its last activity, or up to a lag before
}

// Where implements search.Guide. The window is read at once, so that no session moves out of
// it while the search goes on; what is behind is known before that.
func (x *Index) Where(ctx context.Context, tenant conversation.TenantID, user conversation.UserID, q search.Query, cursor string, most int) (w search.Where, ok bool, err error) {
	if err := x.Enter(ctx); err != nil {
		return w, false, err
	}
	defer x.Leave()
	g := &guided{x: x, tenant: tenant, user: user, terms: q.Terms()}
	if g.behind, ok = x.behind.in(tenant); !ok {
		return w, false, nil
	}
	w = search.Where{Some: g.some, Left: g.latest}
	if g.left, w.Next, err = x.window(tenant, cursor, most); err != nil {
		return w, false, err
	}
	return w, true, nil
}

var errCursor = conversation.Errorf(conversation.BadRequest, "the page cursor is not one of this server's")

// window reads the list of the sessions of a tenant behind a cursor of it.
func (x *Index) window(tenant conversation.TenantID, cursor string, most int) (all []listed, next string, err error) {
	lower := layout.TenantPrefix(nil, layout.TableActivity, tenant)
	upper := layout.After(lower)
	if cursor != "" {
		ms, id, found := strings.Cut(cursor, ".")
		at, bad := strconv.ParseInt(ms, 10, 64)
		if !found || bad != nil {
			return nil, "", errCursor
		}
		lower = append(layout.KeyActivity(nil, conversation.SessionKey{Tenant: tenant, Session: conversation.SessionID(id)}, at), 0)
	}
	it, err := x.Store.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		return nil, "", err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		key, ms, fits := layout.CutActivity(it.Key())
		if !fits {
			return nil, "", fmt.Errorf("%w: key %x is not one of the list of sessions", conversation.ErrDamaged, it.Key())
		}
		if len(all) == most {
			last := all[most-1]
			return all, fmt.Sprintf("%d.%s", last.ms, last.session), nil
		}
		all = append(all, listed{key.Session, ms})
	}
	return all, "", it.Error()
}

// latest implements search.Where.
func (g *guided) latest() (ms int64, ok bool) {
	if len(g.left) == 0 {
		return 0, false
	}
	return g.left[0].latest(), true
}

func (l listed) latest() int64 { return l.ms + layout.ActivityLag - 1 }

// some implements search.Where.
func (g *guided) some(ctx context.Context, n int) (all []search.Candidate, err error) {
	if err := g.x.Enter(ctx); err != nil {
		return nil, err
	}
	defer g.x.Leave()
	part := g.left[:min(n, len(g.left))]
	g.left = g.left[len(part):]
	part = slices.Clone(part)
	slices.SortFunc(part, func(a, b listed) int { return cmp.Compare(a.session, b.session) }) // as they are stored
	gates, err := g.beginning(layout.TableGates)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, gates.Close()) }()
	sieves, err := g.beginning(layout.TableSieves)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, sieves.Close()) }()
	var k []byte
	for _, l := range part {
		c := search.Candidate{Session: l.session, Latest: l.latest()}
		if !g.behind[l.session] {
			key := conversation.SessionKey{Tenant: g.tenant, Session: l.session}
			k = layout.KeyGate(k[:0], key)
			var fits bool
			if fits, c.Kept, err = g.opens(gates, k); err != nil {
				return nil, err
			}
			k[0] = layout.TableSieves
			if fits && c.Kept && len(g.terms) > 0 {
				if fits, err = g.passes(sieves, k); err != nil {
					return nil, err
				}
			}
			if !fits {
				continue
			}
		}
		all = append(all, c)
	}
	return all, nil
}

// beginning is an iterator for a tenant's part of a table.
func (g *guided) beginning(table byte) (*pebble.Iterator, error) {
	prefix := layout.TenantPrefix(nil, table, g.tenant)
	return g.x.Store.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: layout.After(prefix)})
}

// opens looks at the gate of a session; one without a gate is not kept.
func (g *guided) opens(it *pebble.Iterator, k []byte) (opens, kept bool, err error) {
	if !it.SeekGE(k) || !bytes.Equal(it.Key(), k) {
		return true, false, it.Error()
	}
	v, err := it.ValueAndErr()
	if err != nil {
		return false, false, err
	}
	return layout.Opens(v, g.user), len(v) > 0 && v[0] == layout.IndexVersion, nil
}

// passes is true if one of the sieves of a session lets all words through.
func (g *guided) passes(it *pebble.Iterator, prefix []byte) (bool, error) {
	for ok := it.SeekGE(prefix); ok && bytes.HasPrefix(it.Key(), prefix); ok = it.Next() {
		v, err := it.ValueAndErr()
		if err != nil {
			return false, err
		}
		if wordblock.Passes(v, g.terms) {
			return true, nil
		}
	}
	return false, it.Error()
}
