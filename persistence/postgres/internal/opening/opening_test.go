package opening_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/pressly/goose/v3/lock"

	"parley/conversation"
	"parley/persistence/postgres/internal/opening"
	"parley/persistence/postgres/internal/schema"
	"parley/persistence/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

func prepare(ctx context.Context, dsn string, migrate bool) (opening.Prepared, error) {
	c, err := opening.Config(dsn)
	if err != nil {
		return opening.Prepared{}, err
	}
	return opening.Prepare(ctx, c, opening.Terms{Migrate: migrate, Logger: slog.New(slog.DiscardHandler)})
}

func exec(t *testing.T, dsn, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), dsn)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.Background()) }()
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatal(err)
	}
}

// with changes a DSN.
func with(t *testing.T, dsn string, change func(*url.URL)) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	change(u)
	return u.String()
}

func secret(t *testing.T, dsn string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := u.User.Password()
	return p
}

// refused wants a refusal with the code, whose words have no password in them.
func refused(t *testing.T, err error, code opening.Code, password string) {
	t.Helper()
	r := new(opening.Refusal)
	if !errors.As(err, &r) || r.Code != code {
		t.Fatalf("got %v, want code %s", err, code)
	}
	for e := err; e != nil; e = errors.Unwrap(e) {
		if password != "" && strings.Contains(e.Error(), password) {
			t.Errorf("%s tells the password", code)
		}
	}
	t.Logf("%s: %v", code, err)
}

func TestAnEmptyDatabaseIsMigratedOnce(t *testing.T) {
	dsn := pgtest.Database(t)
	_, err := prepare(t.Context(), dsn, false)
	refused(t, err, opening.Pending, secret(t, dsn))
	c, err := opening.Config(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // looking changes nothing
		if seen, err := opening.Prepare(t.Context(), c, opening.Terms{Migrate: true, Look: true}); err != nil || !seen.Pending || seen.Version != 0 || seen.Applied != nil {
			t.Errorf("looked at: %+v, %v", seen, err)
		}
	}

	const nodes = 4
	found, errs := make([]opening.Prepared, nodes), make([]error, nodes)
	var all sync.WaitGroup
	for i := range nodes {
		all.Go(func() { found[i], errs[i] = prepare(t.Context(), dsn, true) })
	}
	all.Wait()
	applied := map[string]int{}
	for i := range nodes {
		if errs[i] != nil {
			t.Fatal(errs[i])
		}
		for _, name := range found[i].Applied {
			applied[name]++
		}
		if found[i].Version != schema.Newest() || found[i].Server < 140000 {
			t.Errorf("found %+v", found[i])
		}
	}
	if applied["0002_members.sql"] != 1 {
		t.Errorf("applied: %v", applied)
	}
	for name, n := range applied {
		if n != 1 {
			t.Errorf("%s was applied %d times", name, n)
		}
	}
	again, err := prepare(t.Context(), with(t, dsn, func(u *url.URL) { u.RawQuery += "&pool_max_conns=3" }), false)
	if err != nil || len(again.Applied) != 0 {
		t.Errorf("a migrated database: %+v, %v", again, err)
	}
}

// A program goes on beside a newer one, which has only added something, and stops
// where the newer one has taken away what it needs.
func TestNewerSchemas(t *testing.T) {
	dsn := pgtest.Database(t)
	if _, err := prepare(t.Context(), dsn, true); err != nil {
		t.Fatal(err)
	}
	exec(t, dsn, "alter table sessions add column later text not null default ''; alter table members add column zone text; create table later (n int);"+
		" insert into parley_migrations (version_id, is_applied) values (9999, true)")
	found, err := prepare(t.Context(), dsn, true)
	if err != nil || found.Version != 9999 {
		t.Errorf("a schema to which something was added: %+v, %v", found, err)
	}
	exec(t, dsn, "update schema_oldest set version = 9999")
	_, err = prepare(t.Context(), dsn, true)
	refused(t, err, opening.TooNew, secret(t, dsn))
	if !errors.Is(err, conversation.ErrTooNew) {
		t.Error("it is not the store's ErrTooNew")
	}
}

// The database remembers what programs must be able to read, and a program that cannot does
// not begin. One that can works with it, whatever version it is.
func TestWrittenByNewerPrograms(t *testing.T) {
	dsn := pgtest.Database(t)
	if found, err := prepare(t.Context(), dsn, true); err != nil || found.Feature != 0 {
		t.Fatal(found, err)
	}
	exec(t, dsn, "update store set feature = 2")
	_, err := prepare(t.Context(), dsn, true)
	refused(t, err, opening.Newer, secret(t, dsn))
	if !errors.Is(err, conversation.ErrTooNew) {
		t.Error("it is not the store's ErrTooNew")
	}
	c, err := opening.Config(dsn)
	if err != nil {
		t.Fatal(err)
	}
	for _, feature := range []uint32{2, 3} {
		if found, err := opening.Prepare(t.Context(), c, opening.Terms{Feature: feature}); err != nil || found.Feature != 2 {
			t.Errorf("a program that knows feature %d: %+v, %v", feature, found, err)
		}
	}
}

func TestWhatIsNotOurs(t *testing.T) {
	dsn := pgtest.Database(t)
	exec(t, dsn, "create table users (name text)")
	_, err := prepare(t.Context(), dsn, true)
	refused(t, err, opening.Foreign, secret(t, dsn))
	// A schema of its own in the same database is empty.
	exec(t, dsn, "create schema parley")
	own := with(t, dsn, func(u *url.URL) { u.RawQuery += "&search_path=parley" })
	if _, err := prepare(t.Context(), own, true); err != nil {
		t.Errorf("an empty schema beside other tables: %v", err)
	}
}

// A program that dies while it migrates holds the others up until its lock's lease is over.
func TestALockOfAProgramThatDied(t *testing.T) {
	dsn := pgtest.Database(t)
	// As the library of migrations makes it.
	exec(t, dsn, "create table parley_migration_lock (lock_id bigint not null primary key, locked boolean not null default false,"+
		" locked_at timestamptz, locked_by text, lease_expires_at timestamptz, updated_at timestamptz)")
	exec(t, dsn, fmt.Sprintf("insert into parley_migration_lock values (%d, true, now(), 'one that died', now() + interval '1 hour', now())", lock.DefaultLockID))
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, err := prepare(ctx, dsn, true); err == nil {
		t.Error("it was migrated beside another program")
	}
	_, err := prepare(t.Context(), dsn, false)
	refused(t, err, opening.Pending, secret(t, dsn)) // the lock alone is no table of something else
	exec(t, dsn, "update parley_migration_lock set lease_expires_at = now() - interval '1 second'")
	if found, err := prepare(t.Context(), dsn, true); err != nil || len(found.Applied) == 0 {
		t.Errorf("after the lease of the lock: %+v, %v", found, err)
	}
}

// A migration that fails leaves nothing of itself, and the next attempt does it.
func TestAFailedMigration(t *testing.T) {
	dsn := pgtest.Database(t)
	if _, err := prepare(t.Context(), dsn, true); err != nil {
		t.Fatal(err)
	}
	exec(t, dsn, "drop view members_now; drop function chats_erased cascade; drop function blobs_erased cascade; drop function said_erased cascade; drop table said, said_words, said_to, said_by, blobs, blob_chunks, chat_rows, chat_feeds, chat_entries, tickets, singletons, members, member_clusters, schema_oldest; drop sequence member_incarnations; alter table store drop column feature, drop column secret; alter table read_cursors drop column marks;"+
		" delete from parley_migrations where version_id >= 2; insert into parley_migrations (version_id, is_applied) values (1, true); create table members (n int)")
	_, err := prepare(t.Context(), dsn, true)
	refused(t, err, opening.Failed, secret(t, dsn))
	exec(t, dsn, "drop table members")
	found, err := prepare(t.Context(), dsn, true)
	if err != nil || len(found.Applied) == 0 || found.Applied[0] != "0002_members.sql" {
		t.Errorf("after the cause was removed: %+v, %v", found, err)
	}
}

func TestRefusals(t *testing.T) {
	dsn := pgtest.Database(t)
	exec(t, dsn, "drop role if exists guest; create role guest login password 'open-sesame-7'")
	for _, c := range []struct {
		name   string
		code   opening.Code
		change func(*url.URL)
	}{
		{"a wrong password", opening.Denied, func(u *url.URL) { u.User = url.UserPassword(u.User.Username(), "open-sesame-7") }},
		{"no such user", opening.Denied, func(u *url.URL) { u.User = url.UserPassword("nobody", "open-sesame-7") }},
		{"a user that may not make tables", opening.Denied, func(u *url.URL) { u.User = url.UserPassword("guest", "open-sesame-7") }},
		{"no such database", opening.NoDatabase, func(u *url.URL) { u.Path = "/absent" }},
		{"nobody there", opening.Unreachable, func(u *url.URL) { u.Host = "127.0.0.1:1" }},
		{"no such host", opening.Unreachable, func(u *url.URL) { u.Host = "host.invalid:5432" }},
		{"a database that takes no writes", opening.Standby, func(u *url.URL) { u.RawQuery += "&default_transaction_read_only=on" }},
		{"no server of several takes writes", opening.Standby, func(u *url.URL) {
			u.RawQuery += "&default_transaction_read_only=on&target_session_attrs=read-write"
		}},
		{"an unknown option of the connection", opening.BadDSN, func(u *url.URL) { u.RawQuery += "&sslmode=sometimes" }},
	} {
		t.Run(c.name, func(t *testing.T) {
			dsn := with(t, dsn, c.change)
			_, err := prepare(t.Context(), dsn, true)
			refused(t, err, c.code, secret(t, dsn))
		})
	}
	t.Run("a DSN of words with a password", func(t *testing.T) {
		_, err := prepare(t.Context(), "host=127.0.0.1 password=open-sesame-7 port=many", true)
		refused(t, err, opening.BadDSN, "open-sesame-7")
	})
	t.Run("a context that has ended", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := prepare(ctx, dsn, true); !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// What PostgreSQL is set to is the operator's; that it keeps less than parley promises is said.
func TestWarnings(t *testing.T) {
	s := pgtest.Open(t, pgtest.Settings{Extra: map[string]string{"synchronous_commit": "off", "default_transaction_isolation": "serializable"}})
	found, err := prepare(t.Context(), s.NewDatabase(t), true)
	if err != nil {
		t.Fatal(err)
	}
	all := strings.Join(found.Warnings, "\n")
	for _, word := range []string{"synchronous_commit is off", "fsync is off", "full_page_writes is off", "synchronous_standby_names is empty", "isolation is serializable"} {
		if !strings.Contains(all, word) {
			t.Errorf("nothing is said of %s; said: %s", word, all)
		}
	}
	good := pgtest.Open(t, pgtest.Settings{Sync: true, Extra: map[string]string{"synchronous_standby_names": ""}})
	if found, err = prepare(t.Context(), good.NewDatabase(t), true); err != nil || len(found.Warnings) != 1 {
		t.Errorf("of a good server without a standby: %v, %v", found.Warnings, err)
	}
}

// A primary that is set to take no writes is not taken for a standby: other servers would not help.
func TestAReadOnlyPrimary(t *testing.T) {
	dsn := with(t, pgtest.Database(t), func(u *url.URL) { u.RawQuery += "&default_transaction_read_only=on" })
	_, err := prepare(t.Context(), dsn, true)
	refused(t, err, opening.Standby, secret(t, dsn))
	if err != nil && (strings.Contains(err.Error(), "is a read-only standby") || !strings.Contains(err.Error(), "default_transaction_read_only is on")) {
		t.Errorf("of a primary: %v", err)
	}
}

// A standby cannot be written to; named with its primary, the primary is found.
func TestAStandby(t *testing.T) {
	a := pgtest.Open(t, pgtest.Settings{})
	dsn := a.NewDatabase(t)
	b, err := a.Standby(t.Context(), true)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(a.Alone(context.Background()), b.Close()); err != nil {
			t.Error(err)
		}
	})
	name := dsn[strings.LastIndex(dsn, "/")+1:]
	name, _, _ = strings.Cut(name, "?")
	_, err = prepare(t.Context(), b.DSN(name), true)
	refused(t, err, opening.Standby, secret(t, dsn))
	if err != nil && !strings.Contains(err.Error(), "is a read-only standby") {
		t.Errorf("of a standby: %v", err)
	}
	found, err := prepare(t.Context(), pgtest.DSN(name, b, a), true)
	if err != nil || len(found.Applied) == 0 {
		t.Errorf("both named: %+v, %v", found, err)
	}
}
