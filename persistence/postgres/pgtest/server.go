package pgtest

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// startTime and stopTime bound what a server may take, on a machine with much else to do.
const (
	startTime = time.Minute
	stopTime  = time.Minute
)

// user is the one that servers are made with; it may do everything.
const user = "parley"

// Settings are for a server that is to be started.
type Settings struct {
	Sync    bool              // wait for the disk, as servers with data that counts do
	Extra   map[string]string // settings of PostgreSQL, as of postgresql.conf
	Address string            // "" = 127.0.0.1, else another one of 127.0.0.0/8
}

// Server is one PostgreSQL server, with its directory.
type Server struct {
	bin      string
	dir      string // of ours; the server's is data below it
	address  string // host:port
	password string
	settings Settings
	follows  *Server // of which it is a standby, or was

	mu   sync.Mutex
	proc *process // nil while it does not run
}

// Missing says why no server can be started here; "" if one can.
func Missing() string {
	bin, err := programs()
	if err != nil {
		return err.Error()
	}
	if _, err := runAs(); err != nil {
		return err.Error()
	}
	for _, name := range []string{"initdb", "postgres", "psql", "pg_basebackup"} {
		if _, err := os.Stat(filepath.Join(bin, name)); err != nil {
			return "PostgreSQL has no " + name + " in " + bin
		}
	}
	return ""
}

// programs finds the directory of PostgreSQL's programs: $PG_BIN, that of the newest
// version where Debian keeps them, or that of postgres on the PATH.
func programs() (string, error) {
	if dir := os.Getenv("PG_BIN"); dir != "" {
		return dir, nil
	}
	found, _ := filepath.Glob("/usr/lib/postgresql/*/bin/postgres")
	if len(found) > 0 {
		version := func(p string) int {
			n, _ := strconv.Atoi(filepath.Base(filepath.Dir(filepath.Dir(p))))
			return n
		}
		return filepath.Dir(slices.MaxFunc(found, func(a, b string) int { return version(a) - version(b) })), nil
	}
	if p, err := exec.LookPath("postgres"); err == nil {
		return filepath.Dir(p), nil
	}
	return "", errors.New("PostgreSQL is not installed (make setup)")
}

// Start makes a new server and waits until it takes connections. Close removes it.
func Start(ctx context.Context, settings Settings) (*Server, error) {
	s, err := prepare(settings)
	if err != nil {
		return nil, err
	}
	s.password = rand.Text()
	secret := filepath.Join(s.dir, "password")
	if err := s.writeFile(secret, s.password); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if _, err := s.run(ctx, "", "initdb", "--pgdata", s.data(), "--username", user, "--pwfile", secret,
		"--auth", "scram-sha-256", "--encoding", "UTF8", "--locale", "C", "--no-sync"); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	if err := s.Resume(ctx); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// prepare makes the directory of a server, which the server's user owns, and finds it a port.
func prepare(settings Settings) (*Server, error) {
	bin, err := programs()
	if err != nil {
		return nil, err
	}
	host := settings.Address
	if host == "" {
		host = "127.0.0.1"
	}
	address, err := freePort(host)
	if err != nil {
		return nil, err
	}
	sweep()
	dir, err := os.MkdirTemp("", prefix)
	if err != nil {
		return nil, err
	}
	s := &Server{bin: bin, dir: dir, address: address, settings: settings}
	if err := errors.Join(os.WriteFile(filepath.Join(dir, starter), []byte(strconv.Itoa(os.Getpid())), 0o600), s.give(dir)); err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Directories of servers, and the file in each that names the process which started it.
const (
	prefix  = "pgtest-"
	starter = "starter"
)

// sweep removes what processes have left that were killed.
func sweep() {
	left, _ := filepath.Glob(filepath.Join(os.TempDir(), prefix+"*", starter))
	for _, file := range left {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // another user's, or it is being removed
		}
		if pid, err := strconv.Atoi(string(text)); err == nil && errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
			_ = os.RemoveAll(filepath.Dir(file))
		}
	}
}

// freePort finds a port below those that outgoing connections are given, so that it is
// still free after the server was stopped for a while.
func freePort(host string) (string, error) {
	for range 100 {
		var b [2]byte
		_, _ = rand.Read(b[:]) // it never fails
		port := 20000 + (int(b[0])<<8|int(b[1]))%12000
		l, err := net.Listen("tcp", net.JoinHostPort(host, strconv.Itoa(port)))
		if err != nil {
			continue
		}
		return l.Addr().String(), l.Close()
	}
	return "", fmt.Errorf("found no free port of %s in 100 attempts", host)
}

func (s *Server) data() string { return filepath.Join(s.dir, "data") }

// Address is where the server listens, as host:port. It stays the same when the server
// is stopped and started again.
func (s *Server) Address() string { return s.address }

// DSN is what a client connects with to a database of the server; "" = postgres.
func (s *Server) DSN(database string) string { return DSN(database, s) }

// DSN is for the one of several servers that can be written to: a primary and its
// standbys, whichever of them is which.
func DSN(database string, servers ...*Server) string {
	if database == "" {
		database = "postgres"
	}
	hosts := make([]string, len(servers))
	for i, s := range servers {
		hosts[i] = s.address
	}
	u := url.URL{Scheme: "postgres", User: url.UserPassword(user, servers[0].password), Host: strings.Join(hosts, ","), Path: "/" + database}
	q := url.Values{"sslmode": {"disable"}, "connect_timeout": {"5"}}
	if len(servers) > 1 {
		q.Set("target_session_attrs", "read-write")
	}
	u.RawQuery = q.Encode()
	return u.String()
}

// Resume starts a server that was stopped, on the same port, and waits until it takes
// connections.
func (s *Server) Resume(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc != nil {
		return fmt.Errorf("the server on %s runs already", s.address)
	}
	host, port, _ := net.SplitHostPort(s.address)
	with := map[string]string{
		"listen_addresses": host, "port": port, "unix_socket_directories": "", "shared_buffers": "32MB",
		"fsync": "off", "full_page_writes": "off", "max_wal_senders": "5", "wal_keep_size": "64MB", "hot_standby": "on",
		"max_connections": "200", "cluster_name": "pgtest", "logging_collector": "off",
	}
	if s.settings.Sync {
		with["fsync"], with["full_page_writes"] = "on", "on"
	}
	maps.Copy(with, s.settings.Extra)
	args := []string{"-D", s.data()}
	for _, name := range slices.Sorted(maps.Keys(with)) {
		args = append(args, "-c", name+"="+with[name])
	}
	proc, err := s.start("postgres", args)
	if err != nil {
		return err
	}
	if err := s.untilReady(ctx, proc); err != nil {
		proc.kill()
		return err
	}
	s.proc = proc
	return nil
}

// untilReady waits until the server's own file says that it takes connections.
func (s *Server) untilReady(ctx context.Context, proc *process) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		// Its first line is the process, its eighth the state. A file of before names
		// another process.
		text, _ := os.ReadFile(filepath.Join(s.data(), "postmaster.pid"))
		lines := strings.Split(string(text), "\n")
		if len(lines) >= 8 && strings.TrimSpace(lines[0]) == strconv.Itoa(proc.pid) {
			switch strings.TrimSpace(lines[7]) {
			case "ready":
				return nil
			case "standby": // perhaps before it takes questions
				if _, err := s.Ask(ctx, "", "select 1"); err == nil {
					return nil
				}
			}
		}
		select {
		case <-proc.ended:
			return fmt.Errorf("PostgreSQL ended while it started: %s", s.log())
		case <-ctx.Done():
			return fmt.Errorf("PostgreSQL takes no connections after %v: %s", startTime, s.log())
		case <-tick.C:
		}
	}
}

// log is the end of what the server has written.
func (s *Server) log() string {
	text, _ := os.ReadFile(s.logFile())
	const most = 2000
	if len(text) > most {
		text = text[len(text)-most:]
	}
	return strings.TrimSpace(string(text))
}

func (s *Server) logFile() string { return filepath.Join(s.dir, "log") }

// Fast stops the server as an operator does: what runs is rolled back, connections are
// closed with a word, and everything is on the disk.
func (s *Server) Fast() error { return s.stop(syscall.SIGINT) }

// Immediate stops the server at once, as if the machine had stopped: the next start
// recovers from the log.
func (s *Server) Immediate() error { return s.stop(syscall.SIGQUIT) }

func (s *Server) stop(how syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return nil
	}
	proc := s.proc
	s.proc = nil
	s.signalAll(proc, syscall.SIGCONT)
	proc.signal(how)
	select {
	case <-proc.ended:
		return nil
	case <-time.After(stopTime):
		proc.kill()
		return fmt.Errorf("PostgreSQL did not stop within %v", stopTime)
	}
}

// Freeze stops all processes of the server where they are: connections stay, and nothing
// answers, until Thaw.
func (s *Server) Freeze() error { return s.toAll(syscall.SIGSTOP) }

// Thaw lets a server go on that Freeze has stopped.
func (s *Server) Thaw() error { return s.toAll(syscall.SIGCONT) }

func (s *Server) toAll(sig syscall.Signal) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.proc == nil {
		return fmt.Errorf("the server on %s does not run", s.address)
	}
	s.signalAll(s.proc, sig)
	return nil
}

// Ask runs SQL in a database ("" = postgres) and returns the rows, a line each, columns
// apart by "|". Each call is a connection of its own, so it is for tests that prepare
// and look, not for many questions.
func (s *Server) Ask(ctx context.Context, database, sql string) (string, error) {
	// The password goes by the environment: arguments can be read by everybody.
	return s.run(ctx, s.password, "psql", "-X", "-A", "-t", "-q", "-v", "ON_ERROR_STOP=1",
		"-d", strings.Replace(s.DSN(database), ":"+s.password+"@", "@", 1), "-c", sql)
}

// run runs one of PostgreSQL's programs as the server's user.
func (s *Server) run(ctx context.Context, password, program string, args ...string) (string, error) {
	var out, problems bytes.Buffer
	cmd := exec.CommandContext(ctx, filepath.Join(s.bin, program), args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = s.dir, &out, &problems
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PGPASSWORD="+password)
	attr, err := runAs()
	if err != nil {
		return "", err
	}
	cmd.SysProcAttr = attr
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", program, err, strings.TrimSpace(problems.String()))
	}
	return strings.TrimSpace(out.String()), nil
}

// Close stops the server and removes its directory. Idempotent.
func (s *Server) Close() error {
	return errors.Join(s.Immediate(), os.RemoveAll(s.dir))
}
