package opening

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation"
	"parley/persistence/postgres/internal/schema"
)

// oldestServer is the oldest version of PostgreSQL that is worked with.
const oldestServer = 14

// connectTime is how long a server has to answer, unless the DSN says so.
const connectTime = 5 * time.Second

// Terms says what may be done to a database that is opened.
type Terms struct {
	Migrate bool         // make and upgrade the tables
	Look    bool         // change nothing: what Migrate would make or upgrade is Prepared.Pending
	Logger  *slog.Logger // nil = no log
	Feature uint32       // the highest that the program can read (conversation/member)
}

// Prepared is what was found, and done.
type Prepared struct {
	Server   int            // the version's number, as 150006
	Version  schema.Version // of the schema, after what was applied
	Applied  []string       // migrations
	Pending  bool           // tables are missing or older, and were left as they are
	Feature  uint32         // that all who worked with it have known once; see conversation/member
	Warnings []string       // sentences about settings under which what is acknowledged may be lost
}

// Pool reads a DSN, which may also have the options of a pool (pool_max_conns=8). Its
// error never holds the DSN, nor the library's words about it.
func Pool(dsn string) (*pgxpool.Config, error) {
	pool, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, badDSN()
	}
	if pool.ConnConfig.ConnectTimeout == 0 {
		pool.ConnConfig.ConnectTimeout = connectTime
	}
	Tell(&pool.ConnConfig.Config)
	return pool, nil
}

// Config reads a DSN as Pool does, for single connections.
func Config(dsn string) (*pgx.ConnConfig, error) {
	pool, err := Pool(dsn)
	if err != nil {
		return nil, err
	}
	return pool.ConnConfig, nil
}

// Tell has the servers that are passed over for being read-only known by their error.
func Tell(c *pgconn.Config) {
	validate := c.ValidateConnect
	if validate == nil {
		return
	}
	c.ValidateConnect = func(ctx context.Context, conn *pgconn.PgConn) error {
		if err := validate(ctx, conn); err != nil {
			if ctx.Err() == nil && !conn.IsClosed() {
				return fmt.Errorf("%w: %w", errReadOnly, err)
			}
			return err
		}
		return nil
	}
}

// Prepare connects to a database and sees to it that this program can work with it.
// Errors are *Refusal, or the context's.
func Prepare(ctx context.Context, c *pgx.ConnConfig, terms Terms) (found Prepared, err error) {
	if terms.Logger == nil {
		terms.Logger = slog.New(slog.DiscardHandler)
	}
	conn, err := pgx.ConnectConfig(ctx, c)
	if err != nil {
		return Prepared{}, refuse(ctx, c, err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	facts, err := look(ctx, conn)
	if err != nil {
		return Prepared{}, refuse(ctx, c, err)
	}
	if err := facts.refusal(c); err != nil {
		return Prepared{}, err
	}
	content, err := schema.Read(ctx, conn)
	if err != nil {
		return Prepared{}, refuse(ctx, c, err)
	}
	switch {
	case content.Foreign:
		return Prepared{}, foreign(c)
	case content.Version > schema.Newest() && content.Oldest > schema.Newest():
		return Prepared{}, tooNew(c, content)
	case content.Feature > terms.Feature:
		return Prepared{}, tooOld(c, content.Feature, terms.Feature)
	case content.Version < schema.Newest() && !terms.Migrate:
		return Prepared{}, pending(c, content.Version)
	}
	found = Prepared{Server: facts.number, Version: max(content.Version, schema.Newest()), Feature: content.Feature, Warnings: facts.warnings()}
	if content.Version < schema.Newest() {
		if !facts.creates { // the migrations would try for seconds
			return Prepared{}, denied(c, errNoTables)
		}
		if terms.Look {
			found.Version, found.Pending = content.Version, true
			return found, nil
		}
		if found.Applied, err = schema.Migrate(ctx, c, terms.Logger); err != nil {
			return Prepared{}, unmigrated(ctx, c, err)
		}
	}
	return found, nil
}

func refuse(ctx context.Context, c *pgx.ConnConfig, err error) error {
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return ctx.Err()
	}
	return Explain(c, err)
}

// unmigrated explains a migration that failed: a right that is missing, a connection that
// broke, or the migration.
func unmigrated(ctx context.Context, c *pgx.ConnConfig, err error) error {
	why := refuse(ctx, c, err)
	if r := new(Refusal); errors.As(why, &r) && r.Code == Other {
		return &Refusal{Failed, fmt.Sprintf("%s could not be migrated, and is as it was before the migration that failed: %v", place(c), err), err}
	}
	return why
}

// facts are what is the same for all databases of a server, or set for this one.
type facts struct {
	number                               int // of the version
	readOnly, standby                    bool
	commit, sync, full, names, isolation string
	creates                              bool // the user may make tables
}

func look(ctx context.Context, conn *pgx.Conn) (f facts, err error) {
	err = conn.QueryRow(ctx, "select current_setting('server_version_num')::int, current_setting('transaction_read_only')::bool,"+
		" current_setting('synchronous_commit'), current_setting('fsync'), current_setting('full_page_writes'),"+
		" current_setting('synchronous_standby_names'), current_setting('default_transaction_isolation'),"+
		" coalesce(has_schema_privilege(current_schema(), 'create'), false), pg_is_in_recovery()",
	).Scan(&f.number, &f.readOnly, &f.commit, &f.sync, &f.full, &f.names, &f.isolation, &f.creates, &f.standby)
	return f, err
}

// refusal is what speaks against a server, whatever the database holds.
func (f facts) refusal(c *pgx.ConnConfig) error {
	switch {
	case f.number < oldestServer*10000:
		return old(c, f.number)
	case f.readOnly && !f.standby:
		return &Refusal{Standby, fmt.Sprintf(readOnlyPrimary, place(c), c.User), errReadOnly}
	case f.readOnly:
		return Explain(c, errReadOnly)
	}
	return nil
}

// warnings are about settings under which less is kept than parley promises.
func (f facts) warnings() (all []string) {
	if f.commit == "off" {
		all = append(all, "synchronous_commit is off: what was acknowledged in the last moments before a crash of the database may be lost; set it to on")
	}
	if f.names == "" {
		all = append(all, "synchronous_standby_names is empty: if a standby takes over, what was acknowledged last may be lost; name a synchronous standby if there is one")
	} else if f.commit == "local" {
		all = append(all, "synchronous_commit is local: commits do not wait for the synchronous standby, and a failover may lose what was acknowledged last; set it to on")
	}
	if f.sync == "off" {
		all = append(all, "fsync is off: a power failure may destroy the whole database")
	}
	if f.full == "off" {
		all = append(all, "full_page_writes is off: a power failure may damage the database, unless its disk writes whole pages")
	}
	if f.isolation != "read committed" {
		all = append(all, "default_transaction_isolation is "+f.isolation+": writers that meet are turned away and try again; set it to read committed for this database")
	}
	return all
}

// Is makes it the store's word, for tables or sessions that this program cannot work with.
func (r *Refusal) Is(target error) bool {
	return (r.Code == TooNew || r.Code == Newer) && target == conversation.ErrTooNew
}
