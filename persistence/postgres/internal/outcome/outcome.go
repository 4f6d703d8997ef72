package outcome

import (
	"errors"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// Answer is what an error says of the transaction in which it came.
type Answer uint8

// The kinds of errors.
const (
	Unknown   Answer = iota // the answer is lost: it may be written or not
	Again                   // nothing was written, and the same attempt may succeed
	Full                    // nothing was written: there is no space
	Elsewhere               // nothing was written: another server takes writes
	Refused                 // nothing was written, nor will it be: something in it is wrong
)

func (k Answer) String() string {
	return [...]string{"unknown", "again", "full", "elsewhere", "refused"}[k]
}

// codes are the SQLSTATEs, and the classes of them, that are told apart. The longest that
// fits counts.
var codes = []struct {
	code string
	kind Answer
	why  string
}{
	{"08", Unknown, "the connection failed"},
	{"08001", Again, "no connection was made"},
	{"08004", Again, "the connection was refused"},
	{"21", Refused, "a statement that is wrong"},
	{"22", Refused, "a value that cannot be stored"},
	{"23", Refused, "a constraint: the last line behind the checks"},
	{"25", Refused, "a transaction in a wrong state"},
	{"25006", Elsewhere, "read-only: a standby, or a primary of before"},
	{"25P03", Again, "idle for too long in a transaction, which was rolled back"},
	{"25P04", Again, "a transaction that took too long, and was rolled back"},
	{"28", Refused, "the password or the user"},
	{"40", Again, "rolled back"},
	{"40001", Again, "cannot be serialized"},
	{"40003", Unknown, "the server does not know either"},
	{"40P01", Again, "a deadlock"},
	{"42", Refused, "a table or a right is missing"},
	{"53", Again, "the server has too little of something"},
	{"53100", Full, "the disk is full"},
	{"54", Refused, "too large or too complex"},
	{"55P03", Again, "a lock was not to be had in time"},
	{"57", Unknown, "an operator, or the end of the server: perhaps while the commit waited for a standby"},
	{"57014", Again, "cancelled: a time limit of the server's"},
	{"57P03", Again, "the server starts or stops, and takes no connection"},
	{"58", Unknown, "an error of the server's system"},
	{"58030", Unknown, "an error of the server's disk"},
	{"F0", Unknown, "the server's configuration"},
	{"XX", Unknown, "an error inside of the server"},
}

// Of tells what an error says. One that is no SQLSTATE is of the connection.
func Of(err error) Answer {
	var pg *pgconn.PgError
	if !errors.As(err, &pg) {
		if connect := new(pgconn.ConnectError); errors.As(err, &connect) || pgconn.SafeToRetry(err) {
			return Again
		}
		return Unknown
	}
	kind, length := Unknown, 0
	for _, c := range codes {
		if strings.HasPrefix(pg.Code, c.code) && len(c.code) > length {
			kind, length = c.kind, len(c.code)
		}
	}
	if connect := new(pgconn.ConnectError); kind == Unknown && errors.As(err, &connect) {
		return Again
	}
	return kind
}
