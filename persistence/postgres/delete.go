package postgres

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/jackc/pgx/v5"

	"parley/conversation"
	"parley/persistence/postgres/internal/outcome"
)

const erasedSession = `select exists (select from sessions where tenant = $1 and session = $2 and erased is not null)`

// lockTree locks a session and those below it.
const lockTree = `select id, session, erased is null from sessions
where tenant = $1 and (session = $2 or session > $2 || '/' and session < $2 || '0') order by session for update`

// bury leaves of a session only that it was there, and its epoch: a writer of before is fenced.
const bury = `update sessions set erased = clock_timestamp(), epoch = epoch + 1, last_seq = 0, last_commit = '', owner = null, owner_node = null,
  prior = null, prior_node = null, stored = 0, snapshot_at = 0, summary = null, activity = null, listed = null, wake = null, claim = null, claim_since = null
where tenant = $1 and session = $2`

// Delete implements conversation.Store.
func (s *Store) Delete(ctx context.Context, key conversation.SessionKey) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	if !storable(key) {
		return fmt.Errorf("erase a session: %w", conversation.ErrNotFound)
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	err := s.erase(ctx, key)
	// It is asked once more only if the first attempt has certainly erased nothing.
	for tries := 0; err != nil && !own(err) && outcome.Of(err) == outcome.Again && ctx.Err() == nil && tries < 5; tries++ {
		err = s.erase(ctx, key)
	}
	if err = s.noted(ctx, err); err != nil {
		return fmt.Errorf("erase %s: %w", key, err)
	}
	return nil
}

func (s *Store) erase(ctx context.Context, key conversation.SessionKey) error {
	tenant, session := string(key.Tenant), string(key.Session)
	return pgx.BeginFunc(ctx, s.acquiring, func(tx pgx.Tx) error {
		rows, err := tx.Query(ctx, lockTree, tenant, session)
		if err != nil {
			return err
		}
		var ids []int64
		var names []string
		there := false
		var id int64
		var name string
		var lives bool
		if _, err := pgx.ForEachRow(rows, []any{&id, &name, &lives}, func() error {
			ids, names = append(ids, id), append(names, name)
			there = there || name == session && lives
			return nil
		}); err != nil {
			return err
		}
		if !there {
			return conversation.ErrNotFound
		}
		for _, name := range names {
			s.held.Forget(conversation.SessionKey{Tenant: key.Tenant, Session: conversation.SessionID(name)}, math.MaxUint64)
		}
		var b pgx.Batch
		for _, table := range []string{"records", "event_keys", "snapshots", "tasks", "read_cursors"} {
			b.Queue("delete from "+table+" where session = any($1::bigint[])", ids)
		}
		b.Queue(`delete from due d using sessions s where s.tenant = $1 and s.session = any($2::text[])
  and d.wake = s.wake and d.tenant = s.tenant and d.session = s.session`, tenant, names)
		b.Queue("delete from sessions where tenant = $1 and session = any($2::text[]) and session <> $3", tenant, names, session)
		b.Queue(bury, tenant, session)
		return tx.SendBatch(ctx, &b).Close()
	})
}

// Erased implements conversation.Store.
func (s *Store) Erased(ctx context.Context, key conversation.SessionKey) (erased bool, err error) {
	if !storable(key) {
		return false, nil
	}
	err = s.read(ctx, "erased", func(ctx context.Context) error {
		err := s.reading.QueryRow(ctx, erasedSession, string(key.Tenant), string(key.Session)).Scan(&erased)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		return err
	})
	return erased, err
}
