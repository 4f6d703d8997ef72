package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation"
	"parley/conversation/blobs"
	"parley/conversation/chats"
	"parley/metrics"
	"parley/persistence/postgres/internal/blobtable"
	"parley/persistence/postgres/internal/held"
	"parley/persistence/postgres/internal/lanes"
	"parley/persistence/postgres/internal/opening"
	"parley/persistence/postgres/internal/outcome"
	"parley/persistence/postgres/internal/wordtable"
)

// writers is how many goroutines join commits.
const writers = 2

// Store is a conversation.Store in PostgreSQL. Open makes one.
type Store struct {
	log      conversation.LogID
	secret   []byte
	logger   *slog.Logger
	metrics  *metrics.Persistence
	unwatch  func() // the pools are not asked any more
	patience time.Duration

	// However much is acquired or read, what is committed does not wait for it.
	committing, acquiring, reading *pgxpool.Pool
	chatting                       chan struct{} // as much of acquiring as chats and files may take

	files   *blobtable.Files
	words   *wordtable.Words
	lanes   lanes.Lanes[conversation.SessionKey] // all that one session's writer does, in its order
	held    held.Sessions                        // which keys the sessions have that this process writes to
	usage   *usage                               // nil = nothing is limited
	skew    atomic.Int64                         // nanoseconds that the database's clock is ahead of ours
	full    atomic.Pointer[time.Time]            // when the database said that its disk was full
	trouble atomic.Pointer[error]                // why the last statement failed to reach the database

	mu       sync.Mutex
	work     sync.Cond
	commits  []*commit
	releases []*release
	closed   bool
	running  sync.WaitGroup // the writers, and calls
	stop     context.CancelFunc
	ended    context.Context // of which every statement's context is a child
}

var _ conversation.Store = (*Store)(nil)

// Open opens the store of a database that Prepare has prepared.
func Open(ctx context.Context, o StoreOptions) (*Store, error) {
	o = o.filled()
	checked, err := opening.Config(o.DSN)
	if err != nil {
		return nil, err
	}
	s := &Store{logger: o.Logger, metrics: o.Metrics, patience: o.Patience}
	s.work.L = &s.mu
	s.ended, s.stop = context.WithCancel(context.WithoutCancel(ctx))
	others := max(2, o.Connections-writers)
	s.chatting = make(chan struct{}, max(1, others/2-1))
	s.files, s.words = newFiles(s), newWords(s)
	for _, kind := range []struct {
		pool **pgxpool.Pool
		most int
	}{{&s.committing, writers}, {&s.acquiring, others / 2}, {&s.reading, others - others/2}} {
		if err == nil {
			*kind.pool, err = pool(s.ended, o.DSN, kind.most)
		}
	}
	if err == nil {
		err = s.begin(ctx)
	}
	if err != nil {
		s.stop()
		s.closePools()
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, opening.Explain(checked, err)
	}
	s.unwatch = s.metrics.WatchPools(s.pools)
	for range writers {
		s.running.Go(s.write)
	}
	if o.SessionsPerTenant > 0 || o.StoredBytesPerTenant > 0 {
		s.usage = newUsage(o.SessionsPerTenant, o.StoredBytesPerTenant)
		s.running.Go(func() { s.usage.run(s.ended, s) })
	}
	return s, nil
}

// pool makes the connections of one kind. Tables grow from nothing while plans are kept:
// only plans that look rows up in an index stay good. A plan for the statement that writes
// takes longer to make than a commit to write.
func pool(ctx context.Context, dsn string, most int) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(dsn)
	if err != nil {
		return nil, errors.New("store.postgres is not a DSN") // the library's words may hold a password
	}
	opening.Tell(&config.ConnConfig.Config)
	if config.ConnConfig.ConnectTimeout == 0 {
		config.ConnConfig.ConnectTimeout = 5 * time.Second
	}
	config.MaxConns, config.MinConns = int32(most), 0 //nolint:gosec // it is small
	config.AfterConnect = func(ctx context.Context, c *pgx.Conn) error {
		_, err := c.Exec(ctx, "set enable_seqscan = off; set enable_mergejoin = off; set enable_hashjoin = off; set jit = off; set plan_cache_mode = force_generic_plan",
			pgx.QueryExecModeSimpleProtocol)
		return err
	}
	return pgxpool.NewWithConfig(ctx, config)
}

// begin reads what is the same for as long as the store is open.
func (s *Store) begin(ctx context.Context) error {
	asked := time.Now()
	var now time.Time
	if err := s.acquiring.QueryRow(ctx, "select log, secret, clock_timestamp() from store").Scan(&s.log, &s.secret, &now); err != nil {
		return err
	}
	s.clock(asked, now)
	return nil
}

// clock notes what the database's clock said to a question that was asked then.
func (s *Store) clock(asked, said time.Time) {
	if took := time.Since(asked); took < time.Second {
		s.skew.Store(int64(said.Sub(asked.Add(took / 2))))
	}
}

// sameClock is by how much clocks may differ without being corrected: what is stored
// keeps the time that was said, where clocks are as they should be.
const sameClock = 500 * time.Millisecond

// ahead is by how much the clock of the database is before that of this node.
func (s *Store) ahead() time.Duration {
	if skew := time.Duration(s.skew.Load()); skew > sameClock || skew < -sameClock {
		return skew
	}
	return 0
}

// theirs is a time of this node by the clock of the database.
func (s *Store) theirs(t time.Time) time.Time { return t.Add(s.ahead()) }

// LogID implements conversation.Store.
func (s *Store) LogID() conversation.LogID { return s.log }

// Secret is what the nodes of the database alone know.
func Secret(s *Store) []byte { return s.secret }

// probeTime is how long Health waits for a database that did not answer.
const probeTime = time.Second

// Health is nil, or why the database cannot be reached. It asks only after something has
// failed: then perhaps nothing else comes that would find it well again.
func (s *Store) Health() error {
	err := s.trouble.Load()
	if err == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(s.ended, probeTime)
	defer cancel()
	if s.Alive(ctx) == nil {
		return nil
	}
	return *err
}

// Alive asks the database for a sign of life.
func (s *Store) Alive(ctx context.Context) error {
	return s.read(ctx, "alive", func(ctx context.Context) error {
		_, err := s.reading.Exec(ctx, "select 1")
		return err
	})
}

// enter begins a call; s.running.Done must follow if it returns nil.
func (s *Store) enter(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return conversation.ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	s.running.Add(1)
	return nil
}

// read runs one question of a reader; a server that has become a standby, and one whose
// connection is broken from before, is asked once more.
func (s *Store) read(ctx context.Context, what string, ask func(ctx context.Context) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	defer s.metrics.Read(what, time.Now())
	ctx, cancel := s.within(ctx)
	defer cancel()
	err := ask(ctx)
	if err != nil && ctx.Err() == nil && isOfConnection(err) {
		s.reading.Reset()
		err = ask(ctx)
	}
	if err = s.noted(ctx, err); err != nil {
		return fmt.Errorf("%s: %w", what, unreachable(err))
	}
	return nil
}

// unreachable makes an answer that may be asked again of an error that says something of
// the database, and nothing of the question.
func unreachable(err error) error {
	if own(err) || errors.Is(err, context.Canceled) || outcome.Of(err) == outcome.Refused {
		return err
	}
	return &conversation.Error{
		Code: conversation.Unavailable, Message: "the server cannot reach its database right now; please try again in a moment", RetryAfter: time.Second, Err: err,
	}
}

// isOfConnection is true for an error that another connection may not have.
func isOfConnection(err error) bool {
	if own(err) {
		return false
	}
	switch outcome.Of(err) {
	case outcome.Unknown, outcome.Elsewhere:
		return true
	}
	return false
}

// own is true for an error that says something about a session, chat or file, not about the database.
func own(err error) bool {
	for _, e := range []error{conversation.ErrNotFound, conversation.ErrFenced, conversation.ErrClosed, conversation.ErrDamaged, conversation.ErrTooNew, conversation.ErrFull, conversation.ErrQuota, blobs.ErrNone, chats.ErrStale, chats.ErrErased, pgx.ErrNoRows} {
		if errors.Is(err, e) {
			return true
		}
	}
	owned := new(conversation.OwnedError)
	return errors.As(err, &owned)
}

// within is the time that one statement may take: until the caller's context ends, the
// store is closed or patience has run out.
func (s *Store) within(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(ctx, s.patience)
	stop := context.AfterFunc(s.ended, cancel)
	return ctx, func() { stop(); cancel() }
}

// noted remembers whether the database could be reached.
func (s *Store) noted(ctx context.Context, err error) error {
	switch {
	case err == nil || own(err):
		s.trouble.Store(nil)
	case s.ended.Err() != nil:
		return conversation.ErrClosed
	case errors.Is(context.Cause(ctx), context.Canceled):
		return context.Canceled
	default:
		s.trouble.Store(&err)
	}
	return err
}

// closeTime is how long what is under way may take when the store is closed.
const closeTime = 3 * time.Second

// Close waits for what runs, and ends the connections. Idempotent.
func (s *Store) Close() error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	s.work.Broadcast()
	s.mu.Unlock()
	if first {
		if s.usage != nil {
			s.usage.stop()
		}
		patience := time.AfterFunc(closeTime, s.stop) // a database that does not answer
		s.running.Wait()
		patience.Stop()
		s.stop()
		s.unwatch()
		s.closePools()
	}
	return nil
}

// pools tells a scrape how busy the connections are.
func (s *Store) pools() []metrics.StorePool {
	list := []metrics.StorePool{{Name: "committing"}, {Name: "acquiring"}, {Name: "reading"}}
	for i, p := range []*pgxpool.Pool{s.committing, s.acquiring, s.reading} {
		now := p.Stat()
		list[i].InUse, list[i].Most, list[i].Waits, list[i].WaitSeconds = now.AcquiredConns(), now.MaxConns(), now.EmptyAcquireCount(), now.EmptyAcquireWaitTime().Seconds()
	}
	return list
}

func (s *Store) closePools() {
	for _, p := range []*pgxpool.Pool{s.committing, s.acquiring, s.reading} {
		if p != nil {
			p.Close()
		}
	}
}
