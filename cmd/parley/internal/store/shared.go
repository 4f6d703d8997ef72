package store

import (
	"context"
	"errors"
	"log/slog"

	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/postgres"
)

// SharedOptions are those of a store that several nodes share.
type SharedOptions struct {
	postgres.StoreOptions
	Migrate bool   // make and upgrade the tables
	Cluster string // whose members are listed
}

// Shared is a store that several nodes share, in a PostgreSQL, with the list of their
// members.
type Shared struct {
	*postgres.Store
	Members postgres.Members
}

var _ Store = (*Shared)(nil)

// OpenShared prepares the database and opens it. Settings of the server under which what was
// acknowledged may be lost are logged as warnings.
func OpenShared(ctx context.Context, o SharedOptions) (*Shared, error) {
	found, err := Migrate(ctx, o.DSN, o.Migrate, o.Logger)
	if err != nil {
		return nil, err
	}
	for _, text := range found.Warnings {
		o.Logger.Warn("the database may lose what was acknowledged", "code", "database_settings", "warning", text)
	}
	db, err := postgres.Open(ctx, o.StoreOptions)
	if err != nil {
		return nil, err
	}
	list, err := postgres.OpenMembers(o.DSN, o.Cluster)
	if err != nil {
		_ = db.Close()
		return nil, err
	}
	return &Shared{db, list}, nil
}

// Prepared is what Migrate has found and done.
type Prepared = postgres.Prepared

// Look says what a start would of a database, and changes nothing. With apply, a start makes
// and upgrades the tables; without, tables that are missing or old are an error.
func Look(ctx context.Context, dsn string, apply bool) (Prepared, error) {
	return postgres.Look(ctx, dsn, apply)
}

// Migrate sees to it that this program can work with a database. Without apply it changes
// nothing, and tables that are missing or old are an error.
func Migrate(ctx context.Context, dsn string, apply bool, logger *slog.Logger) (Prepared, error) {
	return postgres.Prepare(ctx, dsn, apply, logger)
}

// Table is the list of the members.
func (s *Shared) Table() member.Table { return s.Members }

// errOwnBackup refuses to copy a database.
var errOwnBackup = &conversation.Error{Code: conversation.Conflict, Message: "the sessions are in PostgreSQL, which has its own means to copy them: pg_basebackup with an archive of the log, or pg_dump"}

// Backup implements Store: a database is not copied by its clients.
func (s *Shared) Backup(context.Context, string, string) (BackupInfo, error) {
	return BackupInfo{}, errOwnBackup
}

// Close ends the connections. Idempotent.
func (s *Shared) Close() error {
	s.Members.Close()
	return s.Store.Close()
}

// SharedSentence is the sentence for the person at the terminal after OpenShared or Migrate
// has failed with err; "" if there is none.
func SharedSentence(err error) string {
	var refused *postgres.Refusal
	if errors.As(err, &refused) {
		return refused.Error()
	}
	return ""
}
