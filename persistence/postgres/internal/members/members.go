package members

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation"
	"parley/conversation/member"
)

// forgotten is how long a dead member stays in the list, for people to see it.
const forgotten = "1 hour"

// List is the member.Table of one cluster.
type List struct {
	pool    *pgxpool.Pool
	cluster string
}

// Open makes the list of a cluster; it connects with the first call.
func Open(config *pgxpool.Config, cluster string) (*List, error) {
	config = config.Copy()
	config.MaxConns, config.MinConns, config.MinIdleConns = 2, 0, 0
	pool, err := pgxpool.NewWithConfig(context.Background(), config)
	if err != nil {
		return nil, fmt.Errorf("make the pool of the members' list: %w", err)
	}
	return &List{pool, cluster}, nil
}

// Close ends the list's connections. Calls after it fail.
func (l *List) Close() { l.pool.Close() }

// touch says that somebody is here. The cluster's row is locked first by everybody, so
// no two wait for each other. A clock that went back, with a failover to another server,
// counts as an outage.
const touch = `insert into member_clusters as c (name, heard, back) values ($1, clock_timestamp(), clock_timestamp())
on conflict (name) do update set heard = clock_timestamp(), back = case
  when c.heard > clock_timestamp() or
    clock_timestamp() - c.heard > coalesce((select max(lease) from members where cluster = $1), interval '0') / 2
  then clock_timestamp() else least(c.back, clock_timestamp()) end`

// soon has a transaction wait for no standby and no disk. A renewal that is lost with its
// server does no harm, the clock of the next one counts as an outage then; but one that
// waits for a standby that is away keeps all others from renewing, and each that gives up
// has been heard all the same: those who got no turn would be taken for dead.
const soon = `select set_config('synchronous_commit', 'off', true)`

// clamp lets no lease be longer than it is: none begins in the future.
const clamp = `update members set renewed = clock_timestamp() where cluster = $1 and renewed > clock_timestamp()`

// forget drops members that have been dead for long. After an outage nobody is.
const forget = `delete from members m using members_now n where m.cluster = $1 and n.incarnation = m.incarnation
  and n.dead and n.silent > interval '` + forgotten + `'`

// Who cannot read what may have been written neither joins nor renews.
const join = `insert into members as m (cluster, node, incarnation, address, sessions, version, feature, draining, owned, lease, renewed)
select $1, $2, nextval('member_incarnations'), $3, $4, $5, $6, $7, $8, $9, clock_timestamp() from store where feature <= $6
on conflict (cluster, node) do update set incarnation = excluded.incarnation, address = excluded.address, sessions = excluded.sessions,
  version = excluded.version, feature = excluded.feature, draining = excluded.draining, owned = excluded.owned,
  lease = excluded.lease, renewed = clock_timestamp()
returning incarnation`

const renew = `update members set renewed = clock_timestamp(), address = $4, sessions = $5, version = $6, feature = $7, draining = $8, owned = $9
where cluster = $1 and node = $2 and incarnation = $3 and (select feature from store) <= $7`

// raise remembers what all who live can read, before any of them is told. All renewals of a
// cluster wait for each other, so nobody joins between.
const raise = `update store set feature = l.lowest from (select min(feature) as lowest from members_now where cluster = $1 and not dead) l
where l.lowest > store.feature`

// read is the view members_now with the time that is left to each. Statements of one
// transaction take a moment: the clock is read once, so that dead is what left says.
const read = `select node, incarnation, address, sessions, version, feature, draining, owned,
  extract(epoch from greatest(t.now - renewed, interval '0'))::float8, extract(epoch from greatest(renewed, c.back) + lease - t.now)::float8
from members m join member_clusters c on c.name = m.cluster, (select clock_timestamp() as now offset 0) t where m.cluster = $1 order by node`

const readStore = "select log, feature from store"

// Join puts a node into the list, with an incarnation above all that were ever given.
func (l *List) Join(ctx context.Context, who member.Info, lease time.Duration) (conversation.Member, error) {
	if who.Node == "" || lease <= 0 {
		return conversation.Member{}, fmt.Errorf("a member needs a name and a lease, not %q and %v", who.Node, lease)
	}
	var b pgx.Batch
	b.Queue(touch, l.cluster)
	b.Queue(clamp, l.cluster)
	me := who.Member
	var needed member.Feature
	b.Queue(join, l.cluster, string(who.Node), who.Address, who.Sessions, who.Version, int64(who.Feature), who.Draining, who.Owned, lease).
		QueryRow(func(row pgx.Row) error {
			if err := row.Scan(&me.Incarnation); !errors.Is(err, pgx.ErrNoRows) { // there is none for a program that is too old
				return err
			}
			return nil
		})
	b.Queue(readStore).QueryRow(func(row pgx.Row) error { return row.Scan(new(conversation.LogID), &needed) })
	if err := l.send(ctx, &b); err != nil {
		return conversation.Member{}, fmt.Errorf("join the cluster: %w", err)
	}
	if who.Feature < needed {
		return conversation.Member{}, &member.TooOldError{Known: who.Feature, Needed: needed}
	}
	return me, nil
}

// Renew begins the lease of a member anew and reads the list.
func (l *List) Renew(ctx context.Context, who member.Info) (member.List, error) {
	var b pgx.Batch
	var list member.List
	deposed := false
	b.Queue(soon)
	b.Queue(touch, l.cluster)
	b.Queue(clamp, l.cluster)
	b.Queue(renew, l.cluster, string(who.Node), int64(who.Incarnation), who.Address, who.Sessions, who.Version, int64(who.Feature), who.Draining, who.Owned).
		Exec(func(tag pgconn.CommandTag) error {
			deposed = tag.RowsAffected() == 0
			return nil
		})
	b.Queue(raise, l.cluster)
	b.Queue(forget, l.cluster)
	b.Queue(read, l.cluster).Query(func(rows pgx.Rows) (err error) {
		list.Members, err = pgx.CollectRows(rows, peer)
		return err
	})
	var needed member.Feature
	b.Queue(readStore).QueryRow(func(row pgx.Row) error { return row.Scan(&list.Log, &needed) })
	if err := l.send(ctx, &b); err != nil {
		return member.List{}, fmt.Errorf("renew the lease: %w", err)
	}
	if who.Feature < needed {
		return member.List{}, &member.TooOldError{Known: who.Feature, Needed: needed}
	}
	if deposed {
		return member.List{}, member.ErrDeposed
	}
	list.Feature = lowest(list.Members)
	return list, nil
}

func peer(row pgx.CollectableRow) (p member.Peer, err error) {
	var silent, left float64
	err = row.Scan(&p.Node, &p.Incarnation, &p.Address, &p.Sessions, &p.Version, &p.Feature, &p.Draining, &p.Owned, &silent, &left)
	p.Silent = time.Duration(silent * float64(time.Second))
	p.Left, p.Dead = time.Duration(max(left, 0)*float64(time.Second)), left < 0
	return p, err
}

// lowest is what all who live can read.
func lowest(peers []member.Peer) member.Feature {
	var least member.Feature
	first := true
	for _, p := range peers {
		if !p.Dead && (first || p.Feature < least) {
			least, first = p.Feature, false
		}
	}
	return least
}

// Leave takes a member out.
func (l *List) Leave(ctx context.Context, who conversation.Member) error {
	var b pgx.Batch
	b.Queue("delete from members where cluster = $1 and node = $2 and incarnation = $3", l.cluster, string(who.Node), int64(who.Incarnation))
	if err := l.send(ctx, &b); err != nil {
		return fmt.Errorf("leave the cluster: %w", err)
	}
	return nil
}

// readOnly is PostgreSQL's word for a server that takes no writes.
const readOnly = "25006"

// send runs what is queued as one transaction. A server that has become a standby keeps
// its connections and refuses every write: they are given up, and the next attempt
// looks for the server that can be written to.
func (l *List) send(ctx context.Context, b *pgx.Batch) error {
	err := l.pool.SendBatch(ctx, b).Close()
	if problem := new(pgconn.PgError); errors.As(err, &problem) && problem.Code == readOnly {
		l.pool.Reset()
	}
	return err
}
