package postgres

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"parley/conversation/member"
)

var _ member.Tickets = (*Store)(nil)

// A ticket waits for no standby and no disk: one that is lost with its server is asked for
// again. That it was used is as safe as a commit.
const (
	putTicketSoon = `select set_config('synchronous_commit', 'off', true)`
	// Of one user's tickets one is put after the other, or two would be counted once.
	lockTickets = `select pg_advisory_xact_lock(hashtextextended('parley ticket ' || $1 || '/' || $2, 0))`
	oldTickets  = `delete from tickets where expires <= clock_timestamp()`
	putTicket   = `insert into tickets (hash, tenant, bearer, who, expires)
select $1, $2, $3, $4, clock_timestamp() + $5::interval
where $6 <= 0 or (select count(*) from tickets where tenant = $2 and bearer = $3) < $6`
	takeTicket = `delete from tickets where hash = $1 returning who, expires > clock_timestamp()`
)

// PutTicket implements member.Tickets. What nobody has used in time goes with it.
func (s *Store) PutTicket(ctx context.Context, t member.Ticket, most int) (put bool, err error) {
	err = s.write1(ctx, "keep a ticket", func(ctx context.Context) error {
		var b pgx.Batch
		b.Queue(putTicketSoon)
		b.Queue(lockTickets, string(t.Tenant), string(t.User))
		b.Queue(oldTickets)
		b.Queue(putTicket, t.Hash[:], string(t.Tenant), string(t.User), t.Who, t.Life, most).Exec(func(tag pgconn.CommandTag) error {
			put = tag.RowsAffected() == 1
			return nil
		})
		return s.acquiring.SendBatch(ctx, &b).Close()
	})
	return put && err == nil, err
}

// TakeTicket implements member.Tickets. After an error the ticket may have been used up.
func (s *Store) TakeTicket(ctx context.Context, hash [sha256.Size]byte) (who []byte, err error) {
	err = s.write1(ctx, "take a ticket", func(ctx context.Context) error {
		var inTime bool
		err := s.acquiring.QueryRow(ctx, takeTicket, hash[:]).Scan(&who, &inTime)
		if errors.Is(err, pgx.ErrNoRows) || err == nil && !inTime {
			who, err = nil, nil
		}
		return err
	})
	return who, err
}

// write1 runs a small write that is not a session's, once.
func (s *Store) write1(ctx context.Context, what string, do func(ctx context.Context) error) error {
	if err := s.enter(ctx); err != nil {
		return err
	}
	defer s.running.Done()
	ctx, cancel := s.within(ctx)
	defer cancel()
	if err := s.noted(ctx, do(ctx)); err != nil {
		return fmt.Errorf("%s: %w", what, unreachable(err))
	}
	return nil
}
