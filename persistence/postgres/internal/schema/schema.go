package schema

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

//go:embed migrations/*.sql
var embedded embed.FS

// Tables of the migrations themselves.
const (
	applied = "parley_migrations"
	locked  = "parley_migration_lock"
)

// How long a migration's lock outlives a program that died with it, and how long others
// wait for it.
const (
	lockLease = 15 * time.Second
	lockBeat  = 3 * time.Second
	lockLook  = 250 * time.Millisecond
	lockLooks = 480 // two minutes
)

// Version numbers a schema: that of its newest migration. 0 = there are no tables.
type Version int64

// Content is what a database holds.
type Content struct {
	Version Version
	Oldest  Version // programs of older schemas cannot work with it
	Foreign bool    // there are tables, and none of ours
	Feature uint32  // what programs must know to read what may have been written; see conversation/member
}

// Newest is the schema that this program makes.
func Newest() Version {
	files, err := migrations()
	if err != nil {
		panic(err) // embedded by the compiler
	}
	return files[len(files)-1].version
}

type migration struct {
	version Version
	name    string
}

// migrations are the files in their order.
func migrations() ([]migration, error) {
	files, err := fs.Glob(embedded, "migrations/*.sql") // sorted, and all numbers are of the same length
	if err != nil {
		return nil, err
	}
	var all []migration
	for _, f := range files {
		number, _, _ := strings.Cut(path.Base(f), "_")
		n, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("migration %s has no number: %w", f, err)
		}
		all = append(all, migration{Version(n), path.Base(f)})
	}
	return all, nil
}

// Querier asks one question of a database: a connection, or a pool of them.
type Querier interface {
	QueryRow(ctx context.Context, sql string, args ...any) pgx.Row
}

// Read looks at a database, and changes nothing.
func Read(ctx context.Context, db Querier) (Content, error) {
	var ours, oldest, features bool
	var others int
	if err := db.QueryRow(ctx, "select to_regclass('"+applied+"') is not null, to_regclass('schema_oldest') is not null,"+
		" exists (select from pg_attribute where attrelid = to_regclass('store') and attname = 'feature'),"+
		" (select count(*) from pg_tables where schemaname = current_schema() and tablename not in ('"+applied+"', '"+locked+"'))",
	).Scan(&ours, &oldest, &features, &others); err != nil {
		return Content{}, err
	}
	if !ours {
		return Content{Foreign: others > 0}, nil
	}
	var s Content
	if err := db.QueryRow(ctx, "select coalesce(max(version_id), 0) from "+applied+" where is_applied").Scan(&s.Version); err != nil {
		return Content{}, err
	}
	s.Foreign = s.Version == 0 && others > 0
	if oldest {
		if err := db.QueryRow(ctx, "select coalesce(max(version), 0) from schema_oldest").Scan(&s.Oldest); err != nil {
			return Content{}, err
		}
	}
	if features {
		if err := db.QueryRow(ctx, "select coalesce(max(feature), 0) from store").Scan(&s.Feature); err != nil {
			return Content{}, err
		}
	}
	return s, nil
}

// Migrate applies what is missing, and returns the names of what it has applied. Any
// number of programs may call it at the same time.
func Migrate(ctx context.Context, config *pgx.ConnConfig, log *slog.Logger) (names []string, err error) {
	files, err := fs.Sub(embedded, "migrations")
	if err != nil {
		return nil, err
	}
	db := stdlib.OpenDB(*config)
	defer func() { err = errors.Join(err, db.Close()) }()
	quiet := slog.New(slog.DiscardHandler) // what counts comes back as an error or as names
	held, err := lock.NewPostgresTableLocker(lock.WithTableName(locked), lock.WithTableLeaseDuration(lockLease),
		lock.WithTableHeartbeatInterval(lockBeat), lock.WithTableLockTimeout(lockLook, lockLooks), lock.WithTableLogger(quiet),
		lock.WithTableRetryPolicy(func(err error) bool { return !errors.As(err, new(*pgconn.PgError)) && db.PingContext(ctx) == nil }))
	if err != nil {
		return nil, err
	}
	p, err := goose.NewProvider(goose.DialectPostgres, db, files, goose.WithTableName(applied), goose.WithLocker(held),
		goose.WithDisableGlobalRegistry(true), goose.WithSlog(quiet))
	if err != nil {
		return nil, err
	}
	results, err := p.Up(ctx)
	var partial *goose.PartialError
	if errors.As(err, &partial) {
		results, err = partial.Applied, fmt.Errorf("migration %s: %w", path.Base(partial.Failed.Source.Path), partial.Err)
	}
	for _, r := range results {
		names = append(names, path.Base(r.Source.Path))
		log.Info("the database was migrated", "migration", path.Base(r.Source.Path), "took", r.Duration)
	}
	return names, err
}
