package nodes

import (
	"context"
	"errors"
	"time"

	"parley/persistence/postgres/pgtest"
)

// database is a primary with a synchronous standby, as a cluster that loses nothing has.
type database struct {
	primary, standby *pgtest.Server
	dsn              string
}

// databaseName is that of the nodes' database; it sorts texts as people do.
const databaseName = "parley"

// openDatabase starts both servers, which wait for their disks.
func openDatabase(ctx context.Context) (*database, error) {
	if why := pgtest.Missing(); why != "" {
		return nil, errors.New(why)
	}
	a, err := pgtest.Start(ctx, pgtest.Settings{Sync: true})
	if err != nil {
		return nil, err
	}
	d := &database{primary: a}
	if _, err := a.Ask(ctx, "", "create database "+databaseName+" template template0 locale_provider icu icu_locale 'en-US'"); err != nil {
		return nil, errors.Join(err, d.close())
	}
	if d.standby, err = a.Standby(ctx, true); err != nil {
		return nil, errors.Join(err, d.close())
	}
	d.dsn = pgtest.DSN(databaseName, a, d.standby)
	return d, nil
}

func (d *database) close() error {
	errs := []error{d.primary.Close()}
	if d.standby != nil {
		errs = append(errs, d.standby.Close())
	}
	return errors.Join(errs...)
}

// as is the DSN with a name that the database notes of each connection.
func (d *database) as(name string) string { return d.dsn + "&application_name=" + name }

func (d *database) ask(ctx context.Context, sql string) (string, error) {
	return d.primary.Ask(ctx, databaseName, sql)
}

// promote loses the primary and lets the standby take over. A standby that has not
// caught up since the primary came back would lose what the primary had acknowledged to
// nobody, but shows since then: the database's affair, not a node's.
func (d *database) promote(ctx context.Context) error {
	for {
		text, err := d.ask(ctx, "select count(*) from pg_stat_replication where state = 'streaming' and sync_state in ('sync', 'quorum')")
		if err == nil && text == "1" {
			break
		}
		if !pause(ctx, 100*time.Millisecond) {
			return errors.Join(err, ctx.Err())
		}
	}
	if err := errors.Join(d.primary.Immediate(), d.standby.Promote(ctx)); err != nil {
		return err
	}
	d.primary, d.standby = d.standby, d.primary
	return nil
}

// rejoin makes the primary of before the standby of the new one.
func (d *database) rejoin(ctx context.Context) error { return d.standby.Follow(ctx, d.primary, true) }

// audited has the database itself note who writes to a session, under which epoch, and
// how far its log is then. Nodes know nothing of it.
func (d *database) audited(ctx context.Context) error {
	_, err := d.ask(ctx, `
create table chaos_audit (n bigserial, session text, epoch bigint, head bigint, writer text);
create function chaos_audit() returns trigger language plpgsql as $$
begin
	insert into chaos_audit (session, epoch, head, writer) values (new.session, new.epoch, new.last_seq, current_setting('application_name'));
	return null;
end $$;
create trigger chaos_audit_new after insert on sessions for each row execute function chaos_audit();
create trigger chaos_audit_more after update on sessions for each row
	when (old.epoch is distinct from new.epoch or old.last_seq is distinct from new.last_seq) execute function chaos_audit()`)
	return err
}

// audit is what was noted, in the order in which it was written.
func (d *database) audit(ctx context.Context) ([]auditRow, error) {
	text, err := d.ask(ctx, "select session, epoch, head, writer from chaos_audit order by n")
	if err != nil {
		return nil, err
	}
	return readAudit(text)
}
