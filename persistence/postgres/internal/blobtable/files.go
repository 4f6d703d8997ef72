package blobtable

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
)

// Means is what Files works with.
type Means struct {
	// Change runs a transaction that writes, again while it has certainly written nothing and
	// may succeed.
	Change func(ctx context.Context, what string, run func(tx pgx.Tx) error) error
	// Read asks a question, perhaps a second time.
	Read func(ctx context.Context, what string, ask func(ctx context.Context, from *pgxpool.Pool) error) error

	Room func() error         // conversation.ErrFull, or nil
	Skew func() time.Duration // of the database's clock before this node's

	// Take is true if the tenant may store so much more; nobody else may use this room until done
	// says whether it was stored.
	Take func(ctx context.Context, tenant conversation.TenantID, size int64) (fits bool, done func(stored bool))
}

// Files is a blobs.Store.
type Files struct{ Means }

var _ blobs.Store = (*Files)(nil)

// New makes the store of what is attached to messages.
func New(m Means) *Files { return &Files{m} }

// errSwept says that a file was taken away between two statements.
var errSwept = errors.New("the attachment was taken away meanwhile")

// theirs is a time of this node by the clock of the database: nodes take away what others
// have stored.
func (f *Files) theirs(t time.Time) int64 { return t.Add(f.Skew()).UnixMilli() }

func (f *Files) ours(ms int64) time.Time { return time.UnixMilli(ms).UTC().Add(-f.Skew()) }

// named is false for a session that cannot be there: PostgreSQL has no text for its name.
func named(key conversation.SessionKey) bool {
	text := func(s string) bool {
		for i := range len(s) {
			if s[i] == 0 {
				return false
			}
		}
		return utf8.ValidString(s)
	}
	return text(string(key.Tenant)) && text(string(key.Session))
}

const (
	hold   = `select id from sessions where tenant = $1 and session = $2 and erased is null for key share`
	lend   = `insert into blobs (session, hash, tenant, holder, name, type, size, at) values ($1, $2, $3, $4, $5, $6, $7, $8) on conflict do nothing`
	extend = `update blobs set at = $3 where session = $1 and hash = $2 and not named`
	stored = `select name, type, size from blobs where session = $1 and hash = $2`
)

// Put implements blobs.Store.
func (f *Files) Put(ctx context.Context, key conversation.SessionKey, file attached.File, at time.Time, body []byte) (is attached.File, added bool, err error) {
	if err := f.Room(); err != nil {
		return is, false, err
	}
	if !named(key) {
		return is, false, conversation.ErrNotFound
	}
	file.Size = int64(len(body))
	fits, done := f.Take(ctx, key.Tenant, file.Size)
	defer func() { done(added) }()
	err = f.Change(ctx, "store an attachment", func(tx pgx.Tx) error {
		var id int64
		err := tx.QueryRow(ctx, hold, string(key.Tenant), string(key.Session)).Scan(&id)
		if errors.Is(err, pgx.ErrNoRows) {
			return conversation.ErrNotFound
		}
		if err != nil {
			return err
		}
		for range 3 {
			is, added, err = f.put(ctx, tx, id, key, file, at, body, fits)
			if !errors.Is(err, errSwept) {
				break
			}
		}
		return err
	})
	if err != nil {
		return attached.File{}, false, err
	}
	return is, added, nil
}

// put is one attempt; errSwept if the file that was there was taken away meanwhile.
func (f *Files) put(ctx context.Context, tx pgx.Tx, id int64, key conversation.SessionKey, file attached.File, at time.Time, body []byte, fits bool) (attached.File, bool, error) {
	tag, err := tx.Exec(ctx, lend, id, string(file.Hash), string(key.Tenant), string(key.Session), file.Name, file.Type, file.Size, f.theirs(at))
	switch {
	case err != nil:
		return file, false, err
	case tag.RowsAffected() == 0:
		if _, err := tx.Exec(ctx, extend, id, string(file.Hash), f.theirs(at)); err != nil {
			return file, false, err
		}
		err := tx.QueryRow(ctx, stored, id, string(file.Hash)).Scan(&file.Name, &file.Type, &file.Size)
		if errors.Is(err, pgx.ErrNoRows) {
			err = errSwept
		}
		return file, false, err
	case !fits:
		return file, false, conversation.ErrQuota
	}
	// It is sent as it is read: what is in memory besides the body is one chunk.
	_, err = tx.CopyFrom(ctx, pgx.Identifier{"blob_chunks"}, []string{"session", "hash", "n", "body"},
		pgx.CopyFromSlice(blobs.Chunks(file.Size), func(n int) ([]any, error) {
			return []any{id, string(file.Hash), int32(n), blobs.ChunkOf(body, n)}, nil //nolint:gosec // small
		}))
	return file, true, err
}

// ofSession finds a file: $1 tenant, $2 session, $3 hash.
const ofSession = ` from blobs b where b.session = (select id from sessions where tenant = $1 and session = $2 and erased is null) and b.hash = $3`

// Stat implements blobs.Store.
func (f *Files) Stat(ctx context.Context, key conversation.SessionKey, hash attached.Hash) (is blobs.Stored, err error) {
	is.Hash = hash
	var at int64
	err = f.row(ctx, "stat_blob", "select b.name, b.type, b.size, b.at, b.named"+ofSession, key, hash, func(row pgx.Row) error {
		return row.Scan(&is.Name, &is.Type, &is.Size, &at, &is.Named)
	})
	if err != nil {
		return blobs.Stored{}, err
	}
	is.At = f.ours(at)
	return is, nil
}

// row asks for what is stored of a file.
func (f *Files) row(ctx context.Context, what, sql string, key conversation.SessionKey, hash attached.Hash, scan func(row pgx.Row) error, more ...any) error {
	if !named(key) || !hash.Valid() {
		return blobs.ErrNone
	}
	none := false // the database answered
	err := f.Read(ctx, what, func(ctx context.Context, from *pgxpool.Pool) error {
		err := scan(from.QueryRow(ctx, sql, append([]any{string(key.Tenant), string(key.Session), string(hash)}, more...)...))
		if none = errors.Is(err, pgx.ErrNoRows); none {
			return nil
		}
		return err
	})
	if err == nil && none {
		err = blobs.ErrNone
	}
	return err
}

// Renew implements blobs.Store.
func (f *Files) Renew(ctx context.Context, key conversation.SessionKey, hash attached.Hash, at time.Time) error {
	if err := f.Room(); err != nil {
		return err
	}
	if !named(key) || !hash.Valid() {
		return blobs.ErrNone
	}
	return f.Change(ctx, "renew an attachment", func(tx pgx.Tx) error {
		// A file that is named is written over as it is: so it is known to be there.
		tag, err := tx.Exec(ctx, "update blobs b set at = case when b.named then b.at else $4 end"+
			` where b.session = (select id from sessions where tenant = $1 and session = $2 and erased is null) and b.hash = $3`,
			string(key.Tenant), string(key.Session), string(hash), f.theirs(at))
		if err == nil && tag.RowsAffected() == 0 {
			err = blobs.ErrNone
		}
		return err
	})
}

// Chunk implements blobs.Store.
func (f *Files) Chunk(ctx context.Context, key conversation.SessionKey, hash attached.Hash, n int) (chunk []byte, err error) {
	var size int64
	err = f.row(ctx, "read_blob", "select b.size, (select c.body from blob_chunks c where c.session = b.session and c.hash = b.hash and c.n = $4)"+ofSession,
		key, hash, func(row pgx.Row) error { return row.Scan(&size, &chunk) }, int64(n))
	if err != nil || n < 0 || n >= blobs.Chunks(size) {
		return nil, err
	}
	if want := min(blobs.ChunkBytes, size-int64(n)*blobs.ChunkBytes); int64(len(chunk)) != want {
		return nil, fmt.Errorf("%w: chunk %d of attachment %s has %d bytes instead of %d", conversation.ErrDamaged, n, hash, len(chunk), want)
	}
	return chunk, nil
}

// Holders implements blobs.Store.
func (f *Files) Holders(ctx context.Context, tenant conversation.TenantID, hash attached.Hash, after conversation.SessionID, limit int) (held []conversation.SessionID, err error) {
	if !named(conversation.SessionKey{Tenant: tenant, Session: after}) || !hash.Valid() {
		return nil, nil
	}
	err = f.Read(ctx, "list_holders", func(ctx context.Context, from *pgxpool.Pool) error {
		rows, err := from.Query(ctx, `select holder from blobs where tenant = $1 and hash = $2 and holder > $3 order by holder limit $4`,
			string(tenant), string(hash), string(after), int64(limit))
		if err == nil {
			held, err = pgx.CollectRows(rows, pgx.RowTo[conversation.SessionID])
		}
		return err
	})
	return held, err
}

// holding is in the order of what is asked: $1 tenant, $2 hash, $3 sessions.
const holding = `select o.id from unnest($3::text[]) with ordinality as o(id, n)
where exists (select from blobs b where b.tenant = $1 and b.hash = $2 and b.holder = o.id) order by o.n`

// Holding implements blobs.Store.
func (f *Files) Holding(ctx context.Context, tenant conversation.TenantID, hash attached.Hash, of []conversation.SessionID) (held []conversation.SessionID, err error) {
	var ids []string
	for _, id := range of {
		if named(conversation.SessionKey{Tenant: tenant, Session: id}) {
			ids = append(ids, string(id))
		}
	}
	if len(ids) == 0 || !hash.Valid() {
		return nil, nil
	}
	err = f.Read(ctx, "list_holders", func(ctx context.Context, from *pgxpool.Pool) error {
		rows, err := from.Query(ctx, holding, string(tenant), string(hash), ids)
		if err == nil {
			held, err = pgx.CollectRows(rows, pgx.RowTo[conversation.SessionID])
		}
		return err
	})
	return held, err
}
