package postgres

import (
	"context"
	"log/slog"

	"parley/conversation/member"
	"parley/persistence/postgres/internal/opening"
	"parley/persistence/postgres/internal/schema"
)

// Refusal is why a database cannot be worked with: a sentence for the person at the
// terminal, the code for programs.
type Refusal = opening.Refusal

// Prepared is what Prepare has found and done: versions, migrations, and warnings about
// settings under which what was acknowledged may be lost.
type Prepared = opening.Prepared

// Schema is the number of the schema that this program makes.
func Schema() int64 { return int64(schema.Newest()) }

// Prepare sees to it that this program can work with a database: that it is there, new
// enough and can be written to, and holds the tables. With migrate it makes and upgrades
// them; any number of nodes may do so at the same time. Errors are *Refusal, or the
// context's.
func Prepare(ctx context.Context, dsn string, migrate bool, logger *slog.Logger) (Prepared, error) {
	return prepare(ctx, dsn, opening.Terms{Migrate: migrate, Logger: logger})
}

// Look says what Prepare would, and changes nothing: where that would make or upgrade the
// tables, it is Pending in what was found.
func Look(ctx context.Context, dsn string, migrate bool) (Prepared, error) {
	return prepare(ctx, dsn, opening.Terms{Migrate: migrate, Look: true})
}

func prepare(ctx context.Context, dsn string, terms opening.Terms) (Prepared, error) {
	config, err := opening.Config(dsn)
	if err != nil {
		return Prepared{}, err
	}
	terms.Feature = uint32(member.Newest)
	return opening.Prepare(ctx, config, terms)
}
