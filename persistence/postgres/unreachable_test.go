package postgres

import (
	"testing"
	"time"

	"parley/conversation"
	"parley/persistence/postgres/pgtest"
)

// A read that the database does not answer can be asked again: that is said, and no more.
func TestReadsWhileTheDatabaseIsAway(t *testing.T) {
	server := pgtest.Open(t, pgtest.Settings{})
	if _, err := Prepare(t.Context(), server.DSN(""), true, nil); err != nil {
		t.Fatal(err)
	}
	s := openOn(t, server.DSN(""), func(o *StoreOptions) { o.Patience = 500 * time.Millisecond })
	key := conversation.SessionKey{Tenant: "t", Session: "s"}
	reads := map[string]func() error{
		"summary": func() error { _, err := s.Summary(t.Context(), key); return err },
		"head":    func() error { _, err := s.Head(t.Context(), key); return err },
		"records": func() error {
			for _, err := range s.Records(t.Context(), key, conversation.Range{}) {
				return err
			}
			return nil
		},
	}
	for _, away := range []struct {
		how  string
		away func() error
		back func() error
	}{
		{"stopped", server.Fast, func() error { return server.Resume(t.Context()) }},
		{"frozen", server.Freeze, server.Thaw},
	} {
		if err := away.away(); err != nil {
			t.Fatal(err)
		}
		for name, read := range reads {
			if got := conversation.AsError(read()); got == nil || got.Code != conversation.Unavailable || got.RetryAfter == 0 {
				t.Errorf("%s: %s says %v", away.how, name, got)
			}
		}
		if err := away.back(); err != nil {
			t.Fatal(err)
		}
	}
}
