package persistencetest

import (
	"context"

	"parley/conversation"
	"parley/conversation/member"
)

var _ member.Singletons = (*Memory)(nil)

// Take implements member.Singletons.
func (m *Memory) Take(ctx context.Context, name string, who conversation.Member) (conversation.Member, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return conversation.Member{}, err
	}
	l := &m.members
	row := l.row(who)
	if row == nil {
		return conversation.Member{}, member.ErrDeposed
	}
	if l.dead(row) {
		return conversation.Member{}, member.ErrLeaseOver
	}
	if has := l.row(l.singletons[name]); has != nil && !l.dead(has) {
		return has.Member, nil
	}
	if l.singletons == nil {
		l.singletons = map[string]conversation.Member{}
	}
	l.singletons[name] = who
	return who, nil
}

// Give implements member.Singletons.
func (m *Memory) Give(ctx context.Context, name string, who conversation.Member) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := m.ready(ctx); err != nil {
		return err
	}
	if m.members.singletons[name] == who {
		delete(m.members.singletons, name)
	}
	return nil
}

// row is that of a member; nil = it is not in the list.
func (l *memberList) row(who conversation.Member) *memberRow {
	row := l.rows[who.Node]
	if row == nil || row.gone || row.Incarnation != who.Incarnation {
		return nil
	}
	return row
}
