package pgtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Standby makes a second server that follows this one by streaming replication, and waits
// until it does. A synchronous one has what this server acknowledges; once it is gone, this
// server acknowledges nothing more, until Alone.
func (s *Server) Standby(ctx context.Context, synchronous bool) (*Server, error) {
	b, err := prepare(s.settings)
	if err != nil {
		return nil, err
	}
	if err := b.Follow(ctx, s, synchronous); err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// Follow makes this server a standby of another one, on the port that it has: so a primary
// of before comes back. Its own data is given up.
func (s *Server) Follow(ctx context.Context, primary *Server, synchronous bool) error {
	if err := errors.Join(s.Immediate(), os.RemoveAll(s.data())); err != nil {
		return err
	}
	s.follows, s.password = primary, primary.password
	name := "standby_" + strings.ReplaceAll(filepath.Base(s.dir), "-", "_")
	host, port, _ := net.SplitHostPort(primary.address)
	from := fmt.Sprintf("host=%s port=%s user=%s application_name=%s sslmode=disable", host, port, user, name)
	if _, err := s.run(ctx, s.password, "pg_basebackup", "--pgdata", s.data(), "--dbname", from,
		"--wal-method", "stream", "--checkpoint", "fast", "--no-sync"); err != nil {
		return err
	}
	// By hand and not by --write-recovery-conf, which forgets the name. What the primary
	// had set by "alter system" is not taken along: above all not its standbys.
	conf := filepath.Join(s.data(), "postgresql.auto.conf")
	text := fmt.Sprintf("primary_conninfo = '%s password=%s'\n", from, s.password)
	if err := errors.Join(s.writeFile(conf, text), s.writeFile(filepath.Join(s.data(), "standby.signal"), "")); err != nil {
		return err
	}
	if err := s.Resume(ctx); err != nil {
		return err
	}
	states := "('async')"
	if synchronous {
		states = "('sync','quorum')"
		if err := primary.setSynchronous(ctx, `"`+name+`"`); err != nil {
			return err
		}
	}
	return primary.until(ctx, "select 1 from pg_stat_replication where application_name = '"+name+
		"' and state = 'streaming' and sync_state in "+states, "1")
}

// Alone lets a server acknowledge without its synchronous standby, which is gone.
func (s *Server) Alone(ctx context.Context) error { return s.setSynchronous(ctx, "") }

func (s *Server) setSynchronous(ctx context.Context, names string) error {
	if _, err := s.Ask(ctx, "", "alter system set synchronous_standby_names = '"+names+"'"); err != nil {
		return err
	}
	_, err := s.Ask(ctx, "", "select pg_reload_conf()")
	return err
}

// until asks until the answer is the wanted one.
func (s *Server) until(ctx context.Context, sql, want string) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		got, err := s.Ask(ctx, "", sql)
		if err == nil && got == want {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s was not answered with %q within %v: %q, %w; log: %s", sql, want, startTime, got, err, s.log())
		case <-tick.C:
		}
	}
}

// Promote makes a standby a server of its own that can be written to, and waits until it is.
// Stop the one that it follows before, as those do who look after a real pair.
func (s *Server) Promote(ctx context.Context) error {
	if s.follows == nil {
		return fmt.Errorf("the server on %s follows no other one", s.address)
	}
	if _, err := s.Ask(ctx, "", "select pg_promote(true, 60)"); err != nil {
		return err
	}
	return s.until(ctx, "select pg_is_in_recovery()", "f")
}
