package postgres

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/persistence/postgres/internal/blobtable"
	"parley/persistence/postgres/internal/outcome"
)

// What one round trip takes along. A batch that is broken off holds its rows until the
// server notices, so it is not made as large as it could be.
const (
	maxCommits  = 128
	maxReleases = 512
	maxBytes    = 4 << 20
)

// Commit implements conversation.Store.
func (s *Store) Commit(ctx context.Context, key conversation.SessionKey, c conversation.Commit) error {
	end := make(chan error, 1)
	s.CommitAsync(ctx, key, &c, func(err error) { end <- err })
	select {
	case err := <-end:
		return err
	case <-ctx.Done():
		return ctx.Err() // it may be written
	}
}

// CommitAsync implements conversation.Store.
func (s *Store) CommitAsync(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) {
	if err := s.enter(ctx); err != nil {
		s.countFailure(err)
		done(fmt.Errorf("commit to %s: %w", key, err))
		return
	}
	w := s.encode(ctx, key, c, done)
	s.lanes.Enter(key, func() {
		s.mu.Lock()
		closed := s.closed
		if !closed {
			s.commits = append(s.commits, w)
			s.work.Signal()
		}
		s.mu.Unlock()
		if closed {
			s.tell(w, conversation.ErrClosed)
		}
	})
}

// tell says what came of a commit.
func (s *Store) tell(c *commit, err error) {
	if err == nil {
		s.held.Add(c.key, c.epoch, c.stored)
		s.metrics.CommitSeconds.Observe(time.Since(c.begun).Seconds())
		s.metrics.CommitEvents.Observe(float64(c.events))
	} else {
		s.countFailure(err)
		if duplicate := new(conversation.DuplicateError); !errors.Is(err, conversation.ErrConflict) && !errors.As(err, &duplicate) {
			s.held.Forget(c.key, c.epoch) // fenced, or some of it may be written
		}
		err = fmt.Errorf("commit to %s: %w", c.key, err)
	}
	s.lanes.Leave(c.key)
	c.done(err)
	s.running.Done()
}

func (s *Store) countFailure(err error) {
	code := "unknown"
	duplicate := new(conversation.DuplicateError)
	switch {
	case errors.As(err, &duplicate):
		code = "duplicate"
		kind := "message"
		if duplicate.Key.Source != "" {
			kind = "part"
		}
		s.metrics.Duplicates.WithLabelValues(kind).Inc()
	case errors.Is(err, conversation.ErrFenced):
		code = "fenced"
	case errors.Is(err, conversation.ErrConflict):
		code = "conflict"
	case errors.Is(err, conversation.ErrFull):
		code = "full"
	case errors.Is(err, conversation.ErrClosed):
		code = "closed"
	case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		code = "cancelled"
	}
	s.metrics.CommitErrors.WithLabelValues(code).Inc()
}

// write is one of the goroutines that join what waits.
func (s *Store) write() {
	for {
		s.mu.Lock()
		for !s.closed && len(s.commits) == 0 && len(s.releases) == 0 {
			s.work.Wait()
		}
		commits, releases, closed := s.take(), s.takeReleases(), s.closed
		s.mu.Unlock()
		switch {
		case closed && len(commits) == 0 && len(releases) == 0:
			return
		case closed:
			for _, c := range commits {
				s.tell(c, conversation.ErrClosed)
			}
		default:
			s.commitAll(commits)
		}
		s.releaseAll(releases) // also while the store is closed: who drains must leave nothing owned
	}
}

// take takes the commits that have waited longest. s.mu is held.
func (s *Store) take() []*commit {
	n, size := 0, 0
	for n < len(s.commits) && n < maxCommits && (n == 0 || size+s.commits[n].size <= maxBytes) {
		size += s.commits[n].size
		n++
	}
	if n == 0 {
		return nil
	}
	taken := slices.Clone(s.commits[:n])
	s.commits = slices.Delete(s.commits, 0, n)
	if len(s.commits) > 0 {
		s.work.Signal()
	}
	return taken
}

// commitAll writes commits of different sessions, in one transaction if it can.
func (s *Store) commitAll(all []*commit) {
	live := all[:0]
	for _, c := range all {
		if err := c.ctx.Err(); err != nil {
			s.tell(c, err)
			continue
		}
		live = append(live, c)
	}
	if len(live) == 0 {
		return
	}
	// Every transaction locks sessions in the same order, so none waits for another in a circle.
	slices.SortFunc(live, func(a, b *commit) int { return compareKeys(a.key, b.key) })
	kind, err := s.attempt(func(ctx context.Context) error { return s.send(ctx, live) }, func() {
		for _, c := range live {
			c.repeat = true
		}
	})
	switch {
	case err == nil:
		s.metrics.WritesPerSync.Observe(float64(len(live)))
		for _, c := range live {
			s.tell(c, c.verdict())
		}
	case kind == outcome.Refused && len(live) > 1: // one of them is at fault, and not the others
		for _, c := range live {
			s.commitAll([]*commit{c})
		}
	case kind == outcome.Full:
		s.noteFull()
		for _, c := range live {
			s.tell(c, conversation.ErrFull)
		}
	default:
		s.logger.Warn("commits could not be written, or it is not known whether they are", "commits", len(live), "outcome", kind.String(), "error", err)
		for _, c := range live {
			s.tell(c, fmt.Errorf("the database did not say whether it is written: %w", err))
		}
	}
}

func compareKeys(a, b conversation.SessionKey) int {
	return cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session))
}

// attempt runs a transaction until it succeeds, patience runs out, or the same attempt
// cannot succeed. unsure is called when it may have been written all the same.
func (s *Store) attempt(run func(ctx context.Context) error, unsure func()) (outcome.Answer, error) {
	ctx, cancel := s.within(s.ended)
	defer cancel()
	kind := outcome.Again
	for pause := 10 * time.Millisecond; ; pause = min(2*pause, 500*time.Millisecond) {
		err := s.noted(ctx, run(ctx))
		if err == nil {
			return kind, nil
		}
		if errors.Is(err, conversation.ErrClosed) {
			return outcome.Unknown, err
		}
		switch now := outcome.Of(err); now {
		case outcome.Unknown:
			kind = now // and stays so: a later answer says nothing about this attempt
			unsure()
			s.committing.Reset()
		case outcome.Elsewhere:
			s.committing.Reset()
		case outcome.Full, outcome.Refused:
			if kind == outcome.Unknown {
				return kind, err
			}
			return now, err
		}
		wait := time.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return kind, err
		}
	}
}

// lockSessions locks the sessions of a batch in their order; what follows sees them as
// they are from then on. Only what comes after it may join what it brought along by hashes.
const lockSessions = `select set_config('enable_hashjoin', 'on', true) from (
  select 1 from unnest($1::text[], $2::text[]) as i(tenant, session)
  join sessions s on s.tenant = i.tenant and s.session = i.session
  order by s.tenant, s.session for no key update of s) as locked`

// writeCommits writes those of the commits that fit, and says of each what it found. What
// the owner has found open is dealt with by its first commit: who had the session before counts
// no more, also for an acquisition that has to be repeated (takeSession).
const writeCommits = `with input as materialized (
  select * from unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[], $5::bigint[], $6::bytea[], $7::bytea[], $8::bytea[],
    $9::bigint[], $10::bigint[], $11::bytea[], $12::bigint[], $13::bytea[], $14::boolean[])
  with ordinality as i(tenant, session, epoch, after, last, commit, record, summary, activity, wake, claim, since, snapshot, refused, n)
), found as materialized (
  select i.*, s.at, s.id, s.root, s.epoch as epoch_now, s.last_seq as last_now, s.last_commit as commit_now, s.wake as wake_was,
    nullif(i.wake, -9223372036854775808) as wake_is, i.epoch = s.epoch and i.after = s.last_seq and not i.refused as fits
  from input i cross join lateral (
    select s.ctid as at, s.* from sessions s where s.tenant = i.tenant and s.session = i.session and s.erased is null limit 1) s
), dup as materialized (
  select distinct on (k.n) k.n, k.i, o.seq
  from unnest($15::bigint[], $16::bytea[], $17::bigint[]) as k(n, key, i) join found f on f.n = k.n
  cross join lateral (select o.seq from event_keys o where o.session = f.id and o.key = k.key limit 1) o
  order by k.n, k.i
)/*named*/, good as materialized (
  select f.* from found f where f.fits and not exists (select from dup d where d.n = f.n)/*fits*/
)/*kept*/, head as (
  update sessions s set last_seq = g.last, last_commit = g.commit, summary = coalesce(g.summary, s.summary),
    activity = greatest(s.activity, nullif(g.activity, -9223372036854775808)),
    listed = case when s.root then greatest(s.listed, nullif(g.activity, -9223372036854775808) >> 10) end,
    wake = g.wake_is, claim = g.claim, claim_since = nullif(g.since, -9223372036854775808),
    stored = s.stored + coalesce(octet_length(g.record), 0),
    prior = s.owner, prior_node = s.owner_node,
    snapshot_at = case when g.snapshot is null then s.snapshot_at else g.last end
  from good g where s.ctid = g.at
), logged as (
  insert into records (session, last_seq, first_seq, body) select g.id, g.last, g.after + 1, g.record from good g where g.record is not null
), keyed as (
  insert into event_keys (session, key, seq)
  select g.id, k.key, k.seq from unnest($15::bigint[], $16::bytea[], $18::bigint[]) as k(n, key, seq) join good g on g.n = k.n
), tasked as (
  insert into tasks (session, task, tenant, created, ordinal, status, root, body)
  select g.id, t.task, g.tenant, t.created, t.ordinal, t.status, g.root, t.body
  from unnest($19::bigint[], $20::text[], $21::bigint[], $22::bigint[], $23::smallint[], $24::bytea[]) as t(n, task, created, ordinal, status, body)
  join good g on g.n = t.n
  on conflict (session, task) do update set status = excluded.status, body = excluded.body
), seen as (
  insert into read_cursors as c (session, reader, seq, marks)
  select g.id, r.reader, r.seq, coalesce(o.marks, 0) & ~r.gone | r.marks
  from unnest($25::bigint[], $26::bytea[], $27::bigint[], $28::smallint[], $29::smallint[]) as r(n, reader, seq, marks, gone) join good g on g.n = r.n
  left join lateral (select o.marks from read_cursors o where o.session = g.id and o.reader = r.reader limit 1) o on true
  on conflict (session, reader) do update set seq = greatest(c.seq, excluded.seq), marks = excluded.marks
), snapped as (
  insert into snapshots (session, body) select g.id, g.snapshot from good g where g.snapshot is not null
  on conflict (session) do update set body = excluded.body
), slept as (
  delete from due d using (
    select x.at from good g cross join lateral (
      select d.ctid as at from due d where d.wake = g.wake_was and d.tenant = g.tenant and d.session = g.session limit 1) x
    where g.wake_was is distinct from g.wake_is) old
  where d.ctid = old.at
), woken as (
  insert into due (wake, tenant, session)
  select g.wake_is, g.tenant, g.session from good g where g.wake_is is not null and g.wake_was is distinct from g.wake_is
)
select f.n, f.epoch_now, f.last_now, f.commit_now, d.i, d.seq, false/*gone*/ from found f left join dup d on d.n = f.n`

// writeNaming also keeps the files that the commits name. It is a statement of its own
// because nearly no commit names any.
var writeNaming = blobtable.Naming(writeCommits, "$30", "$31")

// send is one round trip: a transaction that locks the sessions, and then writes.
func (s *Store) send(ctx context.Context, all []*commit) error {
	a, sql := arrays(all), writeCommits
	var named blobtable.Names
	for i, c := range all {
		c.answer = verdict{dup: -1}
		named.Add(int64(i+1), c.named)
	}
	if len(named.N) > 0 {
		a, sql = append(a, named.N, named.Hash), writeNaming
	}
	var b pgx.Batch
	b.Queue(lockSessions, a[0], a[1])
	b.Queue(sql, a...).Query(func(rows pgx.Rows) error {
		for rows.Next() {
			var n, epoch, last int64
			var commit []byte
			var dup, seq *int64
			var gone bool
			if err := rows.Scan(&n, &epoch, &last, &commit, &dup, &seq, &gone); err != nil {
				return err
			}
			v := verdict{true, conversation.Epoch(epoch), conversation.Seq(last), string(commit), -1, 0, gone}
			if dup != nil {
				v.dup, v.dupSeq = int(*dup), conversation.Seq(*seq)
			}
			all[n-1].answer = v
		}
		return rows.Err()
	})
	return s.committing.SendBatch(ctx, &b).Close()
}

// verdict is what a commit comes to by what the database found.
func (c *commit) verdict() error {
	v := c.answer
	switch {
	case c.repeat && v.found && v.epoch == c.epoch && v.last == c.last && v.lastCommit == string(c.id):
		return nil // it was written by an attempt whose answer was lost
	case !v.found || v.epoch != c.epoch:
		return conversation.ErrFenced
	case v.last != c.after:
		return conversation.ErrConflict
	case c.gap:
		return fmt.Errorf("%w: the events of the commit do not follow each other", conversation.ErrConflict)
	case v.dup >= 0 && v.dup <= c.twice:
		return &conversation.DuplicateError{Key: c.keys[v.dup].Key, Seq: v.dupSeq}
	case c.twice < len(c.keys):
		first := slices.IndexFunc(c.stored, func(o []byte) bool { return string(o) == string(c.stored[c.twice]) })
		return &conversation.DuplicateError{Key: c.keys[c.twice].Key, Seq: c.keys[first].Seq}
	case v.gone:
		return blobs.ErrGone
	}
	return nil
}

// arrays are the commits as the parameters of writeCommits: one array for each column.
func arrays(all []*commit) []any {
	var tenant, session, task []string
	var epoch, after, last, activity, wake, since []int64
	var id, record, summary, claim, snapshot [][]byte
	var refused []bool
	var keyOf, keyAt, keySeq, taskOf, created, ordinals, readOf, read []int64
	var status, marks, gone []int16
	var key, row, reader [][]byte
	for i, c := range all {
		n := int64(i + 1)
		tenant, session = append(tenant, string(c.key.Tenant)), append(session, string(c.key.Session))
		epoch, after, last = append(epoch, int64(c.epoch)), append(after, int64(c.after)), append(last, int64(c.last))
		id, record, summary = append(id, c.id), append(record, c.record), append(summary, c.summary)
		activity, wake, since = append(activity, c.activity), append(wake, c.wake), append(since, c.since)
		claim, snapshot = append(claim, c.claim), append(snapshot, c.snapshot)
		refused = append(refused, c.gap || c.twice < len(c.keys))
		for j, k := range c.keys {
			keyOf, key = append(keyOf, n), append(key, c.stored[j])
			keyAt, keySeq = append(keyAt, int64(j)), append(keySeq, int64(k.Seq))
		}
		for _, t := range c.tasks {
			taskOf, task, created = append(taskOf, n), append(task, t.task), append(created, t.created)
			ordinals, status, row = append(ordinals, t.ordinal), append(status, int16(t.status)), append(row, t.body)
		}
		for _, r := range c.cursors {
			readOf, reader, read = append(readOf, n), append(reader, []byte(r.User)), append(read, int64(r.Seq))
			marks, gone = append(marks, int16(r.Set)), append(gone, int16(r.Unset))
		}
	}
	return []any{
		tenant, session, epoch, after, last, id, record, summary, activity, wake, claim, since, snapshot, refused,
		keyOf, key, keyAt, keySeq, taskOf, task, created, ordinals, status, row, readOf, reader, read, marks, gone,
	}
}

// Room implements conversation.Store: after the database has said that its disk is full,
// nothing outer is begun for a moment.
func (s *Store) Room(inner bool) error {
	const moment = 5 * time.Second
	if full := s.full.Load(); !inner && full != nil && time.Since(*full) < moment {
		return conversation.ErrFull
	}
	return nil
}

func (s *Store) noteFull() {
	now := time.Now()
	s.full.Store(&now)
}

// MayHold implements conversation.Store.
func (s *Store) MayHold(key conversation.SessionKey, k conversation.Key) bool {
	return s.held.MayHold(key, storedKey(k))
}
