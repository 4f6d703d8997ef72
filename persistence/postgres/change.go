package postgres

import (
	"context"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/persistence/postgres/internal/blobtable"
	"parley/persistence/postgres/internal/outcome"
)

// Blobs is what is attached to messages. An erasure takes it along by itself
// (migrations/0008_blobs.sql).
func Blobs(s *Store) blobs.Store { return s.files }

// newFiles makes what keeps what is attached. Uploads take long, so they have no more than
// half of what chats may have, and leave them the other half.
func newFiles(s *Store) *blobtable.Files {
	filing := make(chan struct{}, max(1, cap(s.chatting)/2))
	return blobtable.New(blobtable.Means{
		Change: func(ctx context.Context, what string, run func(tx pgx.Tx) error) error {
			err := s.change(ctx, what, func() error { return nil }, func(ctx context.Context) error {
				return pgx.BeginFunc(ctx, s.acquiring, run)
			}, filing, s.chatting)
			if err != nil {
				err = unreachable(err)
			}
			return err
		},
		Read: func(ctx context.Context, what string, ask func(context.Context, *pgxpool.Pool) error) error {
			return s.read(ctx, what, func(ctx context.Context) error { return ask(ctx, s.reading) })
		},
		Room: func() error { return s.Room(false) },
		Take: func(ctx context.Context, t conversation.TenantID, size int64) (fits bool, done func(stored bool)) {
			if fits, done = s.usage.take(ctx, t, size); !fits {
				s.metrics.QuotaRefused.WithLabelValues("stored_bytes_per_tenant").Inc()
			}
			return fits, done
		},
		Skew: s.ahead,
	})
}

// change runs what writes in a transaction of its own, again while that has certainly written
// nothing and may succeed. While it runs it has a place in each of the gates.
func (s *Store) change(ctx context.Context, what string, check func() error, run func(ctx context.Context) error, gates ...chan struct{}) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	if err := check(); err != nil {
		return err
	}
	ctx, cancel := s.within(ctx)
	defer cancel()
	for _, gate := range gates {
		select {
		case gate <- struct{}{}:
			defer func() { <-gate }()
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", what, s.noted(ctx, ctx.Err()))
		}
	}
	err := s.noted(ctx, run(ctx))
	for tries := 0; err != nil && !own(err) && ctx.Err() == nil && tries < 5; tries++ {
		kind := outcome.Of(err)
		if kind == outcome.Unknown || kind == outcome.Elsewhere {
			s.acquiring.Reset()
		}
		if kind == outcome.Full {
			s.noteFull()
			return fmt.Errorf("%s: %w", what, conversation.ErrFull)
		}
		if kind != outcome.Again && kind != outcome.Elsewhere {
			break
		}
		pause := time.NewTimer(20 * time.Millisecond << tries)
		select {
		case <-pause.C:
			err = s.noted(ctx, run(ctx))
		case <-ctx.Done():
			pause.Stop()
		}
	}
	if err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
