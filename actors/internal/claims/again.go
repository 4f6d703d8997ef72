package claims

import (
	"context"
	"time"

	"parley/conversation"
)

// readAgain has a tenant's list read again in a while, for a claim found nothing: the word of
// a session of another node may have been lost, or said before this node was there. A desk
// that is alone hears everything. The desk's lock is held.
func (d *Desk) readAgain(tenant conversation.TenantID, s *shelf) {
	if d.o.Told != nil && s.again == nil {
		s.again = time.AfterFunc(lookAgain, func() { d.refresh(tenant, s) })
	}
}

// refresh brings a shelf up to date with the store. Claims go on meanwhile, and what sessions
// say counts more.
func (d *Desk) refresh(tenant conversation.TenantID, s *shelf) {
	d.mu.Lock()
	if d.shelves[tenant] != s {
		d.mu.Unlock()
		return
	}
	s.said = map[conversation.SessionID]bool{}
	d.mu.Unlock()

	ctx, cancel := context.WithTimeout(d.ctx, lookAgain)
	defer cancel()
	found := map[conversation.SessionID]bool{}
	var list []conversation.ClaimableAt
	var err error
	for c, failed := range d.o.List(ctx, tenant) {
		if err = failed; err != nil {
			break
		}
		found[c.Key.Session] = true
		list = append(list, c)
	}

	d.mu.Lock()
	defer d.mu.Unlock()
	said := s.said
	s.said, s.again = nil, nil
	if d.shelves[tenant] != s {
		return // put away meanwhile
	}
	if len(s.waiting) > 0 {
		d.readAgain(tenant, s)
	}
	if err != nil {
		return // the shelf is as good as it was
	}
	for _, c := range list {
		if e := s.entries[c.Key.Session]; !said[c.Key.Session] && (e == nil || e.differs(c.Claimable)) {
			d.set(s, c.Key, &c.Claimable)
		}
	}
	for session, e := range s.entries {
		if !found[session] && !said[session] && !e.asked {
			d.set(s, e.key, nil)
		}
	}
}

// differs is true when the store knows something else of an entry. One whose session is being
// asked will know by its answer, and one that was away is asked again at its time.
func (e *entry) differs(c conversation.Claimable) bool {
	if e.asked {
		return false
	}
	if e.Task != c.Task || e.Agent != c.Agent || e.Runtime != c.Runtime || !e.Since.Equal(c.Since) {
		return true
	}
	until := max(time.Until(c.From), 0)
	waits := max(time.Until(e.From), 0)
	return until != waits && (until > 0 || waits > tryAgain)
}
