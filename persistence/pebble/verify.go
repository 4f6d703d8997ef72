package pebble

import (
	"context"
	"iter"

	"parley/conversation"
	check "parley/persistence/pebble/internal/verify"
)

// VerifyHow says how much Verify checks.
type VerifyHow = check.How

// VerifyReport is what Verify has found.
type VerifyReport = check.Report

// Verify reads the whole store and says where its parts contradict each other. It
// is for a store that nobody writes to: opened with OpenReadOnly. The error is the
// context's, or ErrClosed; everything else is a problem of the report.
func (db *DB) Verify(ctx context.Context, how VerifyHow) (VerifyReport, error) {
	if err := db.enter(ctx); err != nil {
		return VerifyReport{}, err
	}
	defer db.leave()
	if db.tables != nil {
		// With a damaged filter no key is found, and each try takes long.
		if err := db.tables(ctx); err != nil {
			problem := check.Problem{Rule: check.RuleLevels, Sentence: err.Error() + "; nothing else was checked"}
			return VerifyReport{Problems: []check.Problem{problem}}, ctx.Err()
		}
	}
	return check.Store(ctx, db.p, how)
}

// Everything lists all sessions of a store that is open for reading, sub-sessions
// too, each root before what is below it.
func (db *DB) Everything(ctx context.Context) iter.Seq2[conversation.Summary, error] {
	return check.Sessions(ctx, db.p)
}
