package members

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/conversation/member"
)

var _ member.Singletons = (*List)(nil)

// The row of a singleton is locked before it is judged, by statements of their own: each
// statement sees what was committed before it began, so an owner that has joined and taken
// the singleton while this one waited is seen.
const (
	nobodys = `insert into singletons (cluster, name, incarnation, node)
select $1, $2, 0, '' where exists (select from member_clusters where name = $1) on conflict do nothing`

	lockSingleton = `select from singletons where cluster = $1 and name = $2 for update`

	takeSingleton = `update singletons s set incarnation = $3, node = $4 where s.cluster = $1 and s.name = $2 and s.incarnation <> $3
  and exists (select from members_now m where m.cluster = $1 and m.incarnation = $3 and not m.dead)
  and not exists (select from members_now m where m.incarnation = s.incarnation and not m.dead)`

	readSingleton = `select coalesce(s.incarnation, 0), coalesce(s.node, ''), me.incarnation is not null, coalesce(me.dead, true)
from (values (1)) one left join singletons s on s.cluster = $1 and s.name = $2
left join members_now me on me.cluster = $1 and me.incarnation = $3`
)

// Take implements member.Singletons.
func (l *List) Take(ctx context.Context, name string, who conversation.Member) (conversation.Member, error) {
	var b pgx.Batch
	var owner conversation.Member
	var listed, dead bool
	b.Queue(nobodys, l.cluster, name)
	b.Queue(lockSingleton, l.cluster, name)
	b.Queue(takeSingleton, l.cluster, name, int64(who.Incarnation), string(who.Node))
	b.Queue(readSingleton, l.cluster, name, int64(who.Incarnation)).QueryRow(func(row pgx.Row) error {
		return row.Scan(&owner.Incarnation, &owner.Node, &listed, &dead)
	})
	switch err := l.send(ctx, &b); {
	case err != nil:
		return conversation.Member{}, fmt.Errorf("take the singleton %s: %w", name, err)
	case !listed:
		return conversation.Member{}, member.ErrDeposed
	case dead:
		return conversation.Member{}, member.ErrLeaseOver
	}
	return owner, nil
}

// Give implements member.Singletons.
func (l *List) Give(ctx context.Context, name string, who conversation.Member) error {
	var b pgx.Batch
	b.Queue("update singletons set incarnation = 0, node = '' where cluster = $1 and name = $2 and incarnation = $3", l.cluster, name, int64(who.Incarnation))
	if err := l.send(ctx, &b); err != nil {
		return fmt.Errorf("give the singleton %s up: %w", name, err)
	}
	return nil
}
