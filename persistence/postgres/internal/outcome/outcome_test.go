package outcome

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
)

// What is taken for known must be known: for each of these a commit may be said not to be
// written, or must not.
func TestOf(t *testing.T) {
	for _, c := range []struct {
		err  error
		want Answer
	}{
		{&pgconn.PgError{Code: "40001"}, Again},
		{&pgconn.PgError{Code: "40002"}, Again},
		{&pgconn.PgError{Code: "40003"}, Unknown},
		{&pgconn.PgError{Code: "40P01"}, Again},
		{&pgconn.PgError{Code: "53100"}, Full},
		{&pgconn.PgError{Code: "53300"}, Again},
		{&pgconn.PgError{Code: "25006"}, Elsewhere},
		{&pgconn.PgError{Code: "57P01"}, Unknown},
		{&pgconn.PgError{Code: "57P02"}, Unknown},
		{&pgconn.PgError{Code: "57P03"}, Again},
		{&pgconn.PgError{Code: "57014"}, Again},
		{&pgconn.PgError{Code: "23505"}, Refused},
		{&pgconn.PgError{Code: "22021"}, Refused},
		{&pgconn.PgError{Code: "54000"}, Refused},
		{&pgconn.PgError{Code: "42P01"}, Refused},
		{&pgconn.PgError{Code: "08006"}, Unknown},
		{&pgconn.PgError{Code: "XX000"}, Unknown},
		{&pgconn.PgError{Code: "ZZ999"}, Unknown},
		{&pgconn.PgError{}, Unknown},
		{&pgconn.ConnectError{}, Again},
		{io.ErrUnexpectedEOF, Unknown},
		{context.DeadlineExceeded, Unknown},
		{errors.New("anything"), Unknown},
	} {
		if got := Of(fmt.Errorf("commit: %w", c.err)); got != c.want {
			t.Errorf("%v: %s, want %s", c.err, got, c.want)
		}
	}
}

func TestCodesAreToldApart(t *testing.T) {
	seen := map[string]bool{}
	for _, c := range codes {
		if seen[c.code] || c.why == "" {
			t.Errorf("%s comes twice, or for no reason", c.code)
		}
		seen[c.code] = true
	}
}
