package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"parley/conversation"
	"parley/conversation/living"
	"parley/conversation/member"
	"parley/persistence/postgres/internal/held"
	"parley/persistence/postgres/internal/outcome"
)

// lockAbove keeps what a new session depends on as it is until the session is made: those
// above it, and the one that had its name before.
const lockAbove = `select from sessions where tenant = $1 and session = any($2::text[]) order by session for share`

// makeSession makes an absent session, unless it was erased, or one above it was, or the
// one before it of its name was not.
const makeSession = `insert into sessions (tenant, session, epoch, root)
select $1, $2, 0, $3 where not exists (select from sessions where tenant = $1 and session = any($4::text[]) and erased is not null)
  and ($5 = '' or exists (select from sessions where tenant = $1 and session = $5 and erased is not null))
on conflict do nothing`

// takeSession raises the epoch, unless another member owns the session and lives. $6: the
// answer of an attempt before was lost, which may have made the session this member's; if it
// was this member's already, and written to, its commits have said so in prior.
const takeSession = `update sessions s set epoch = s.epoch + 1, owner = nullif($3::bigint, 0), owner_node = nullif($4, ''),
  prior = case when $6 and s.owner = $3 then s.prior else s.owner end,
  prior_node = case when $6 and s.owner = $3 then s.prior_node else s.owner_node end
where s.tenant = $1 and s.session = $2 and s.erased is null and ($5::bigint = 0 or s.epoch = $5)
  and (s.owner is null or s.owner = $3 or not exists (select from members_now m where m.incarnation = s.owner and not m.dead))`

// readHead reads a session as it is now; who owned it before is that of the last acquisition. The
// last column: its owner is of another cluster than the member $3.
const readHead = `select s.epoch, s.last_seq, s.last_commit, s.snapshot_at, b.body, coalesce(s.owner, 0), coalesce(s.owner_node, ''),
  case when s.prior is null then 0 when s.prior = s.owner then 1
    when exists (select from members m where m.node = s.prior_node and m.incarnation > s.prior) then 2 else 3 end, clock_timestamp(),
  exists (select from members m join members o on o.cluster <> m.cluster where m.incarnation = $3 and o.incarnation = s.owner)
from sessions s left join snapshots b on b.session = s.id where s.tenant = $1 and s.session = $2 and s.erased is null`

const readKeys = `select k.key from event_keys k
where k.session = (select s.id from sessions s where s.tenant = $1 and s.session = $2 and s.erased is null) limit $3`

// acquired is what an acquisition found.
type acquired struct {
	taken, found bool
	head         conversation.Head
	owner        conversation.Member
	foreign      bool // the owner is of another cluster
	keys         [][]byte
}

// Acquire implements conversation.Store.
func (s *Store) Acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	if err := s.enter(ctx); err != nil {
		return conversation.Head{}, err
	}
	defer s.running.Done()
	if !storable(key) {
		return conversation.Head{}, fmt.Errorf("acquire a session: %w", conversation.ErrNotFound)
	}
	if err := s.turn(ctx, key, how.IfEpoch == 0); err != nil {
		return conversation.Head{}, err
	}
	defer s.lanes.Leave(key)
	h, err := s.acquire(ctx, key, how)
	if err != nil {
		return conversation.Head{}, fmt.Errorf("acquire %s: %w", key, err)
	}
	return h, nil
}

// firstWrite is how long a session that was acquired in this process is left to its writer
// when another one wants it here, so that those who take a session from each other get to
// write. Owners keep other processes out.
const firstWrite = 5 * time.Millisecond

// turn waits until it is an acquisition's turn: behind the commits that are on their way.
// s.lanes.Leave must follow if it returns nil.
func (s *Store) turn(ctx context.Context, key conversation.SessionKey, yields bool) error {
	for {
		free := make(chan struct{})
		s.lanes.Enter(key, func() { close(free) })
		select {
		case <-free:
		case <-ctx.Done():
			go func() { <-free; s.lanes.Leave(key) }() // when it is its turn
			return ctx.Err()
		}
		wait := time.Duration(0)
		if yields {
			wait = s.held.Fresh(key, firstWrite)
		}
		if wait == 0 {
			return nil
		}
		s.lanes.Leave(key)
		pause := time.NewTimer(wait)
		select {
		case <-pause.C:
		case <-ctx.Done():
			pause.Stop()
			return ctx.Err()
		}
	}
}

func (s *Store) acquire(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	create := how.Create && how.IfEpoch == 0
	refused := error(nil)
	if create {
		refused = s.Room(key.Session.Depth() > 0)
		if refused == nil && key.Session.Depth() == 0 && s.usage.tooMany(ctx, key.Tenant) {
			refused = conversation.ErrQuota
		}
	}
	var got acquired
	again := false
	run := func(ctx context.Context) (err error) {
		got, err = s.take1(ctx, key, how, create && refused == nil, again)
		return err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	err := s.noted(ctx, run(ctx))
	for tries := 0; err != nil && ctx.Err() == nil && tries < 5; tries++ {
		// An acquisition whose answer was lost is not repeated where an epoch was asked for.
		kind := outcome.Of(err)
		if kind == outcome.Unknown || kind == outcome.Elsewhere {
			s.acquiring.Reset()
		}
		again = again || kind == outcome.Unknown
		if kind == outcome.Full {
			s.noteFull()
			return conversation.Head{}, conversation.ErrFull
		}
		if kind == outcome.Refused || kind == outcome.Unknown && how.IfEpoch != 0 || errors.Is(err, conversation.ErrClosed) {
			break
		}
		select {
		case <-ctx.Done():
		case <-time.After(20 * time.Millisecond << tries):
			err = s.noted(ctx, run(ctx))
		}
	}
	switch {
	case err != nil:
		return conversation.Head{}, err
	case got.taken:
		s.held.Set(key, got.head.Epoch, got.keys, len(got.keys) <= held.MaxKeys)
		return got.head, nil
	case !got.found:
		if refused != nil && !s.isErased(ctx, key) {
			if errors.Is(refused, conversation.ErrQuota) {
				s.metrics.QuotaRefused.WithLabelValues("sessions_per_tenant").Inc()
			}
			return conversation.Head{}, refused
		}
		return conversation.Head{}, conversation.ErrNotFound
	case how.IfEpoch != 0 && got.head.Epoch != how.IfEpoch:
		return conversation.Head{}, conversation.ErrFenced
	case got.foreign:
		return conversation.Head{}, fmt.Errorf("%w: %w", &conversation.OwnedError{By: got.owner}, member.ErrOtherCluster)
	default:
		return conversation.Head{}, &conversation.OwnedError{By: got.owner}
	}
}

// isErased is true if it is sure that a session was erased.
func (s *Store) isErased(ctx context.Context, key conversation.SessionKey) (erased bool) {
	err := s.acquiring.QueryRow(ctx, erasedSession, string(key.Tenant), string(key.Session)).Scan(&erased)
	return err == nil && erased
}

// take1 is one attempt: one round trip, one transaction.
func (s *Store) take1(ctx context.Context, key conversation.SessionKey, how conversation.AcquireHow, create, again bool) (got acquired, err error) {
	tenant, session := string(key.Tenant), string(key.Session)
	asked := time.Now()
	var b pgx.Batch
	if create {
		above := []string{}
		for up := key.Session; up.Depth() > 0; {
			up, _, _ = up.Parent()
			above = append(above, string(up))
		}
		before, _ := living.Before(key.Session)
		if watched := append(above[:len(above):len(above)], string(before)); len(above) > 0 || before != "" {
			b.Queue(lockAbove, tenant, watched)
		}
		b.Queue(makeSession, tenant, session, key.Session.Depth() == 0, above, string(before))
	}
	b.Queue(takeSession, tenant, session, int64(how.Owner.Incarnation), string(how.Owner.Node), int64(how.IfEpoch), again).
		Exec(func(tag pgconn.CommandTag) error { got.taken = tag.RowsAffected() == 1; return nil })
	b.Queue(readHead, tenant, session, int64(how.Owner.Incarnation)).QueryRow(func(row pgx.Row) error {
		var now time.Time
		var prior int16
		var commit []byte
		err := row.Scan(&got.head.Epoch, &got.head.Last, &commit, &got.head.SnapshotAt, &got.head.Snapshot,
			&got.owner.Incarnation, &got.owner.Node, &prior, &now, &got.foreign)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		got.found, got.head.LastCommit, got.head.Prior = err == nil, conversation.CommitID(commit), conversation.Prior(prior) //nolint:gosec // 0 to 3
		if err == nil {
			s.clock(asked, now)
		}
		return err
	})
	b.Queue(readKeys, tenant, session, held.MaxKeys+1).Query(func(rows pgx.Rows) (err error) {
		got.keys, err = pgx.CollectRows(rows, pgx.RowTo[[]byte])
		return err
	})
	err = s.acquiring.SendBatch(ctx, &b).Close()
	return got, err
}

// release is a session that is given up.
type release struct {
	key   conversation.SessionKey
	epoch conversation.Epoch
	done  func(error)
}

// Release implements conversation.Store.
func (s *Store) Release(ctx context.Context, key conversation.SessionKey, epoch conversation.Epoch, done func(error)) {
	if done == nil {
		done = func(error) {}
	}
	if err := s.enter(ctx); err != nil {
		done(fmt.Errorf("release %s: %w", key, err))
		return
	}
	s.held.Forget(key, epoch)
	r := &release{key, epoch, done}
	s.lanes.Enter(key, func() { // behind the commits that are on their way
		s.mu.Lock()
		closed := s.closed
		if !closed {
			s.releases = append(s.releases, r)
			s.work.Signal()
		}
		s.mu.Unlock()
		if closed {
			s.endRelease(r, conversation.ErrClosed)
		}
	})
}

func (s *Store) endRelease(r *release, err error) {
	s.lanes.Leave(r.key)
	if err != nil {
		err = fmt.Errorf("release %s: %w", r.key, err)
	}
	r.done(err)
	s.running.Done()
}

// takeReleases takes what is to be released. s.mu is held.
func (s *Store) takeReleases() []*release {
	n := min(len(s.releases), maxReleases)
	taken := append([]*release(nil), s.releases[:n]...)
	s.releases = append(s.releases[:0:0], s.releases[n:]...)
	if len(s.releases) > 0 {
		s.work.Signal()
	}
	return taken
}

const releaseSessions = `update sessions s set owner = null, owner_node = null
from (select s.ctid as at from unnest($1::text[], $2::text[], $3::bigint[]) as i(tenant, session, epoch)
  join sessions s on s.tenant = i.tenant and s.session = i.session and s.epoch = i.epoch and s.owner is not null) x
where s.ctid = x.at`

// releaseAll gives sessions up, all in one transaction. One that fails is tried again by
// its attempt; a lease that runs out does the same, later.
func (s *Store) releaseAll(all []*release) {
	if len(all) == 0 {
		return
	}
	tenant, session, epoch := make([]string, len(all)), make([]string, len(all)), make([]int64, len(all))
	for i, r := range all {
		tenant[i], session[i], epoch[i] = string(r.key.Tenant), string(r.key.Session), int64(r.epoch)
	}
	_, err := s.attempt(func(ctx context.Context) error {
		var b pgx.Batch
		b.Queue(lockSessions, tenant, session)
		b.Queue(releaseSessions, tenant, session, epoch)
		return s.committing.SendBatch(ctx, &b).Close()
	}, func() {})
	for _, r := range all {
		s.endRelease(r, err)
	}
}
