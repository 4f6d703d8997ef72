package opening

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"parley/persistence/postgres/internal/schema"
)

// Code names what is wrong, for programs and for the documentation.
type Code string

// What can be wrong with a database.
const (
	BadDSN      Code = "postgres_dsn"                // the DSN cannot be read
	Unreachable Code = "postgres_unreachable"        // nobody answers there
	Denied      Code = "postgres_denied"             // the password, the user, a right
	NoDatabase  Code = "postgres_no_database"        // the server has no such database
	Busy        Code = "postgres_busy"               // no connection is left, or the server starts or stops
	TooOld      Code = "postgres_too_old"            // of the server
	Standby     Code = "postgres_read_only"          // it takes no writes
	Pending     Code = "postgres_migrations_pending" // and this program may not apply them
	TooNew      Code = "postgres_schema_too_new"     // a newer program has taken away what this one needs
	Newer       Code = "postgres_written_by_newer"   // newer programs may have written what this one cannot read
	Foreign     Code = "postgres_foreign"            // the database holds something else
	Failed      Code = "postgres_migration_failed"
	Other       Code = "postgres_failed"
)

// Refusal says why a database cannot be worked with: a sentence for the person at the
// terminal, the code for programs.
type Refusal struct {
	Code     Code
	Sentence string
	Err      error // the cause, for the log; it holds no password
}

func (r *Refusal) Error() string { return r.Sentence }
func (r *Refusal) Unwrap() error { return r.Err }

// MayPass is true if the same attempt can succeed later without anybody's help: a server
// that starts, an election of a primary.
func (r *Refusal) MayPass() bool {
	return r.Code == Unreachable || r.Code == Busy || r.Code == Standby
}

// readOnlyPrimary is the sentence about a server that could be written to.
const readOnlyPrimary = "%s takes no writes (user %q), though it is a primary: default_transaction_read_only is on there, " +
	"for the server, the database, the user or in the DSN; set it to off"

// errReadOnly is found behind every server of a DSN that cannot be written to.
var errReadOnly = errors.New("the server takes no writes")

// place is what sentences call the database.
func place(c *pgx.ConnConfig) string {
	hosts := []string{hostPort(c.Host, c.Port)}
	for _, f := range c.Fallbacks {
		if at := hostPort(f.Host, f.Port); at != hosts[len(hosts)-1] { // the same one without TLS follows it
			hosts = append(hosts, at)
		}
	}
	return fmt.Sprintf("database %q of PostgreSQL at %s", c.Database, strings.Join(hosts, ", "))
}

func hostPort(host string, port uint16) string {
	if strings.HasPrefix(host, "/") { // a Unix socket
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// sentences are by SQLSTATE. %s is the place, then the user.
var sentences = map[string]struct {
	code Code
	text string
}{
	"28P01":       {Denied, "%s refuses user %q: wrong password, or none"},
	"28000":       {Denied, "%s refuses user %q: no such user, or its pg_hba.conf does not let it in from here"},
	deniedState:   {Denied, "%s does not let user %q do what is needed: make it the owner of the database (ALTER DATABASE … OWNER TO …)"},
	"3D000":       {NoDatabase, "there is no %s (user %q): create it first (CREATE DATABASE)"},
	"53300":       {Busy, "%s has no connection left for user %q: raise max_connections, or lower what others use"},
	"57P03":       {Busy, "%s takes no connections now (user %q): it starts or stops"},
	"57P01":       {Busy, "%s takes no connections now (user %q): it stops"},
	readOnlyState: {Standby, "%s is a read-only standby (user %q): name the primary, or all servers, as host=a,b target_session_attrs=read-write"},
}

// Explain puts an error of the database into words.
func Explain(c *pgx.ConnConfig, err error) *Refusal {
	var already *Refusal
	if errors.As(err, &already) {
		return already
	}
	code := ""
	if problem := new(pgconn.PgError); errors.As(err, &problem) {
		code = problem.Code
	}
	if errors.Is(err, errReadOnly) {
		code = readOnlyState
	}
	if s, ok := sentences[code]; ok {
		return &Refusal{s.code, fmt.Sprintf(s.text, place(c), c.User), err}
	}
	if errors.As(err, new(*pgconn.ConnectError)) || errors.Is(err, context.DeadlineExceeded) || errors.As(err, new(net.Error)) {
		return &Refusal{Unreachable, fmt.Sprintf("cannot connect to %s: %s", place(c), cause(err)), err}
	}
	return &Refusal{Other, fmt.Sprintf("%s does not do what is needed: %v", place(c), err), err}
}

const (
	readOnlyState = "25006"
	deniedState   = "42501"
)

// errNoTables is the cause where a user may look but not make tables.
var errNoTables = errors.New("the user may not make tables in the schema")

func denied(c *pgx.ConnConfig, err error) *Refusal {
	s := sentences[deniedState]
	return &Refusal{s.code, fmt.Sprintf(s.text, place(c), c.User), err}
}

// cause is the shortest text that says why there is no connection.
func cause(err error) string {
	if errors.Is(err, context.DeadlineExceeded) {
		return "no answer in time"
	}
	if op := new(net.OpError); errors.As(err, &op) {
		return op.Err.Error()
	}
	return strings.TrimSpace(errors.Unwrap(err).Error())
}

func badDSN() *Refusal {
	return &Refusal{Code: BadDSN, Sentence: "store.postgres is not a DSN: it is either " +
		"postgres://USER:PASSWORD@HOST:PORT/DATABASE?OPTION=VALUE or host=… user=… password=… dbname=… " +
		"(an option that is not known, a file that is missing, or a character that must be escaped is wrong as well)"}
}

func pending(c *pgx.ConnConfig, have schema.Version) *Refusal {
	return &Refusal{Code: Pending, Sentence: fmt.Sprintf(
		"%s has schema %d and this program needs %d: run parley migrate, or let nodes do it (store.migrate = true)", place(c), have, schema.Newest())}
}

func tooNew(c *pgx.ConnConfig, s schema.Content) *Refusal {
	return &Refusal{Code: TooNew, Sentence: fmt.Sprintf(
		"%s has schema %d, which programs that know schema %d or newer can use; this one knows %d: use a newer version",
		place(c), s.Version, s.Oldest, schema.Newest())}
}

func tooOld(c *pgx.ConnConfig, needed, known uint32) *Refusal {
	return &Refusal{Code: Newer, Sentence: fmt.Sprintf(
		"%s may hold what newer programs have written: it needs feature %d, and this program knows %d: use a newer version", place(c), needed, known)}
}

func foreign(c *pgx.ConnConfig) *Refusal {
	return &Refusal{Code: Foreign, Sentence: fmt.Sprintf(
		"%s is not parley's: it holds tables of something else; name an empty database, or an empty schema by search_path", place(c))}
}

func old(c *pgx.ConnConfig, number int) *Refusal {
	return &Refusal{Code: TooOld, Sentence: fmt.Sprintf(
		"%s is version %d.%d; parley needs %d or newer", place(c), number/10000, number%10000, oldestServer)}
}
