package postgres

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/metrics"
)

// StoreOptions are how a store is opened. The zero value of everything but DSN works.
type StoreOptions struct {
	DSN     string
	Logger  *slog.Logger         // nil = silent
	Metrics *metrics.Persistence // nil = not shown

	// Patience is how long a write is tried while the database does not answer, restarts
	// or is replaced; 0 = 10 s. Then its outcome is unknown.
	Patience time.Duration

	// Connections of this process, at most; 0 = 8: two for commits, the others half for what
	// reads and half for what acquires and erases. At least 4.
	Connections int

	// The most that one tenant may store, in the whole cluster; 0 = no limit. Sessions
	// are root sessions. Sums are as of some seconds ago.
	SessionsPerTenant    int64
	StoredBytesPerTenant int64
}

func (o StoreOptions) filled() StoreOptions {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewPersistence(prometheus.NewRegistry())
	}
	if o.Patience <= 0 {
		o.Patience = 10 * time.Second
	}
	if o.Connections <= 0 {
		o.Connections = 8
	}
	return o
}
