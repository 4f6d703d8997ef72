package blobtable

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"parley/conversation/attached"
	"parley/conversation/blobs"
)

const (
	// Those who sweep at the same time look at the same files, the oldest first.
	lookDue = `select session, hash, tenant, holder from blobs where not named and at < $1 order by at limit $2`
	// The session is held as those who commit hold it.
	holdDue = `select from sessions where tenant = $1 and session = $2 for no key update`
	// What was named or renewed since it was looked for stays.
	dropDue = `with gone as (
  delete from blobs where session = $1 and hash = $2 and not named and at < $3 returning session, hash, size
), chunks as (
  delete from blob_chunks c using gone g where c.session = g.session and c.hash = g.hash
)
select size from gone`
)

// due is a file whose loan may have ended.
type due struct {
	session        int64
	hash           attached.Hash
	tenant, holder string
}

// Sweep implements blobs.Store. Each file goes in a transaction of its own: a large one takes
// a moment, in which nobody can commit to its session.
func (f *Files) Sweep(ctx context.Context, before time.Time, limit int) (swept blobs.Swept, err error) {
	until := f.theirs(before)
	var all []due
	err = f.Read(ctx, "list_loans", func(ctx context.Context, from *pgxpool.Pool) error {
		rows, err := from.Query(ctx, lookDue, until, int64(limit)+1)
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (d due, err error) {
			return d, row.Scan(&d.session, &d.hash, &d.tenant, &d.holder)
		})
		return err
	})
	if swept.More = len(all) > limit; swept.More {
		all = all[:limit]
	}
	for _, d := range all {
		if err != nil {
			break
		}
		var sizes []int64
		err = f.Change(ctx, "take an attachment away", func(tx pgx.Tx) error {
			var b pgx.Batch
			b.Queue(holdDue, d.tenant, d.holder)
			b.Queue(dropDue, d.session, string(d.hash), until).Query(func(rows pgx.Rows) (err error) {
				sizes, err = pgx.CollectRows(rows, pgx.RowTo[int64])
				return err
			})
			return tx.SendBatch(ctx, &b).Close()
		})
		if err == nil && len(sizes) > 0 {
			swept.Blobs++
			swept.Bytes += sizes[0]
		}
	}
	return swept, err
}
