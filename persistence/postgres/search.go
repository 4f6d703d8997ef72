package postgres

import (
	"context"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation/search"
	"parley/persistence/postgres/internal/wordtable"
)

// Index keeps what can be found of the sessions of a store. It counts for no quota, and an
// erasure takes it along by itself (migrations/0009_search.sql).
func Index(s *Store) search.Guide { return s.words }

func newWords(s *Store) *wordtable.Words {
	return wordtable.New(wordtable.Ways{
		Change: func(ctx context.Context, what string, run func(tx pgx.Tx) error) error {
			return s.change(ctx, what, func() error { return nil }, func(ctx context.Context) error {
				return pgx.BeginFunc(ctx, s.acquiring, run)
			}, s.chatting)
		},
		Read: func(ctx context.Context, what string, ask func(context.Context, *pgxpool.Pool) error) error {
			return s.read(ctx, what, func(ctx context.Context) error { return ask(ctx, s.reading) })
		},
		Room:  func() error { return s.Room(false) },
		Named: storable,
	})
}
