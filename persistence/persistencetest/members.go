package persistencetest

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/member"
)

var _ member.Table = (*Memory)(nil)

// memberList is the list of members of a Memory, which several engines may share. Time is
// that of the bubble.
type memberList struct {
	rows   map[conversation.NodeID]*memberRow
	last   time.Time      // of the newest sign of life of anybody
	graced time.Time      // nobody is dead before this
	shared member.Feature // the highest that all have ever known

	singletons map[string]conversation.Member // whose they are
}

type memberRow struct {
	member.Info
	lease time.Duration
	heard time.Time
	gone  bool // it has left: its incarnation counts on
}

// Join implements member.Table.
func (m *Memory) Join(ctx context.Context, who member.Info, lease time.Duration) (conversation.Member, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return conversation.Member{}, err
	}
	if who.Node == "" || lease <= 0 {
		return conversation.Member{}, fmt.Errorf("a member needs a name and a lease, not %q and %v", who.Node, lease)
	}
	l := &m.members
	if l.rows == nil {
		l.rows = map[conversation.NodeID]*memberRow{}
	}
	if err := l.tooOld(who); err != nil {
		return conversation.Member{}, err
	}
	who.Incarnation = 1
	if before := l.rows[who.Node]; before != nil {
		who.Incarnation = before.Incarnation + 1
	}
	l.rows[who.Node] = &memberRow{Info: who, lease: lease}
	l.hear(l.rows[who.Node])
	return who.Member, nil
}

// Renew implements member.Table.
func (m *Memory) Renew(ctx context.Context, who member.Info) (member.List, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return member.List{}, err
	}
	l := &m.members
	row := l.rows[who.Node]
	if row == nil || row.gone || row.Incarnation != who.Incarnation {
		return member.List{}, member.ErrDeposed
	}
	if err := l.tooOld(who); err != nil {
		return member.List{}, err
	}
	row.Info = who
	l.hear(row)
	list := member.List{Log: m.log, Feature: who.Feature}
	for _, r := range l.rows {
		if r.gone {
			continue
		}
		peer := member.Peer{Info: r.Info, Silent: time.Since(r.heard), Dead: l.dead(r), Left: l.left(r)}
		if !peer.Dead {
			list.Feature = min(list.Feature, r.Feature)
		}
		list.Members = append(list.Members, peer)
	}
	l.shared = max(l.shared, list.Feature)
	slices.SortFunc(list.Members, func(a, b member.Peer) int { return cmp.Compare(a.Node, b.Node) })
	return list, nil
}

// Leave implements member.Table.
func (m *Memory) Leave(ctx context.Context, who conversation.Member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return err
	}
	if row := m.members.rows[who.Node]; row != nil && row.Incarnation == who.Incarnation {
		row.gone = true
	}
	return nil
}

// Depose takes a node out of the list, as an operator does: its next Renew fails.
func (m *Memory) Depose(node conversation.NodeID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.members.rows[node].gone = true
}

// tooOld is the refusal of who cannot read what may have been written.
func (l *memberList) tooOld(who member.Info) error {
	if who.Feature < l.shared {
		return &member.TooOldError{Known: who.Feature, Needed: l.shared}
	}
	return nil
}

// hear takes a sign of life. After a time in which nobody could give one, for more than
// half of the shortest lease, nobody is dead for a whole lease.
func (l *memberList) hear(row *memberRow) {
	now := time.Now()
	lease := slices.MinFunc(slices.Collect(maps.Values(l.rows)), func(a, b *memberRow) int { return cmp.Compare(a.lease, b.lease) }).lease
	if !l.last.IsZero() && now.Sub(l.last) > lease/2 {
		l.graced = now.Add(row.lease)
	}
	row.heard, l.last = now, now
}

// dead is true for a member whose lease has run out.
func (l *memberList) dead(row *memberRow) bool {
	now := time.Now()
	return now.Sub(row.heard) > row.lease && !now.Before(l.graced)
}

// left is until a member is dead; 0 = it is.
func (l *memberList) left(row *memberRow) time.Duration {
	return max(row.lease-time.Since(row.heard), time.Until(l.graced), 0)
}

// prior says whose a session was that now belongs to owner; *conversation.OwnedError if
// that member keeps it. Who never joined owns nothing.
func (l *memberList) prior(was, owner conversation.Member) (conversation.Prior, error) {
	row := l.rows[was.Node]
	switch {
	case was == conversation.Member{}:
		return conversation.PriorNone, nil
	case was == owner:
		return conversation.PriorSame, nil
	case row == nil:
		return conversation.PriorExpired, nil
	case row.Incarnation > was.Incarnation:
		return conversation.PriorDead, nil
	case row.gone || l.dead(row):
		return conversation.PriorExpired, nil
	default:
		return conversation.PriorNone, &conversation.OwnedError{By: was}
	}
}

// Release implements conversation.Store.
func (m *Memory) Release(ctx context.Context, key conversation.SessionKey, epoch conversation.Epoch, done func(error)) {
	m.mu.Lock()
	err := m.ready(ctx)
	if s := m.sessions[key]; err == nil && s != nil && s.head.Epoch == epoch {
		s.owner = conversation.Member{}
	}
	m.mu.Unlock()
	if done != nil {
		done(err)
	}
}
