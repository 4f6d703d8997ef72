package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"

	"parley/cmd/parley/internal/config"
	"parley/cmd/parley/internal/store"
	"parley/gateway"
	"parley/gateway/auth"
	"parley/gateway/listener"
)

type backupCmd struct {
	Dest   string `arg:"" placeholder:"DEST" help:"Directory to make; it must not exist. A running server makes it on its own machine and with its own rights."`
	Server string `placeholder:"URL" help:"Ask the server whose administration is at this URL; DEST is a path on the server's machine. Without --server and --data the configured data directory is backed up, through its server if one runs."`
	KeyEnv string `placeholder:"NAME" help:"The variable that holds a key with the scope admin, for a server whose administration asks for one."`
}

type restoreCmd struct {
	Src     string `arg:"" placeholder:"SRC" help:"The backup, or the data directory of a stopped server."`
	Replace bool   `help:"Put the restored store into the place of one that is there; the old one is kept beside it as DIR.before-<time>."`
}

type verifyCmd struct {
	Dir      string `arg:"" optional:"" placeholder:"DIR" help:"A data directory that no server uses, or a backup (default: --data)."`
	Problems int    `default:"20" help:"How many problems are printed."`
}

// errProblems says that a store has problems; they have been printed.
var errProblems = errors.New("the store contradicts itself; see above")

// backup copies the store: through its server if there is one.
func (m *Main) backup(ctx context.Context) error {
	cmd := m.line.Backup
	if cmd.Server != "" {
		if m.line.Data != "" {
			return &UsageError{"--server and --data exclude each other: a server backs up the data directory that it has"}
		}
		return m.askForBackup(ctx, cmd.Server, cmd.Dest)
	}
	dest, err := filepath.Abs(cmd.Dest)
	if err != nil {
		return err
	}
	if m.Config.Ephemeral() && m.line.Data == "" {
		return errors.New("memory.mode is ephemeral: there is no data directory to back up")
	}
	info, err := store.Backup(ctx, m.Config.Data, dest, version())
	if store.InUse(err) {
		if m.line.Data != "" {
			return fmt.Errorf("%w; a running server is backed up without --data, or with --server URL", m.explain(err))
		}
		return m.askForBackup(ctx, m.adminURL(), dest)
	}
	if err != nil {
		return err
	}
	m.printBackup(gateway.BackupMade{Dest: dest, Log: info.Log, Sessions: info.Counts.Sessions, Records: info.Counts.Records, Bytes: info.Bytes})
	return nil
}

// adminURL is where the configuration says that the server's administration is.
func (m *Main) adminURL() string {
	c := m.Config.Gateway
	addr := c.AdminListen
	if addr == "" {
		addr = c.Listen
	}
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "http://" + addr
	}
	if host == "" || host == "0.0.0.0" || host == "::" {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port)
}

// askForBackup lets a running server make the backup.
func (m *Main) askForBackup(ctx context.Context, url, dest string) error {
	if !filepath.IsAbs(dest) {
		return &UsageError{"with --server the destination is a path on the server's machine: it must be absolute"}
	}
	body, err := json.Marshal(map[string]string{"dest": dest})
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(url, "/")+"/admin/backup", bytes.NewReader(body))
	if err != nil {
		return &UsageError{err.Error()}
	}
	request.Header.Set("Content-Type", "application/json")
	if name := m.line.Backup.KeyEnv; name != "" {
		key, ok := config.LookupIn(m.Environ)(name)
		if !ok || strings.TrimSpace(key) == "" {
			return &UsageError{"the variable " + name + " of --key-env is not set"}
		}
		request.Header.Set("Authorization", "Bearer "+strings.TrimSpace(key))
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("the server does not answer at %s: %w; name the address of its administration with --server URL", url, err)
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(io.LimitReader(response.Body, 1<<20))
	if err != nil {
		return err
	}
	if response.StatusCode != http.StatusCreated {
		var problem struct{ Detail string }
		if json.Unmarshal(answer, &problem) != nil || problem.Detail == "" || response.StatusCode == http.StatusNotFound {
			return fmt.Errorf("%s does not make backups (status %d): set admin.listen, and name that address with --server URL", url, response.StatusCode)
		}
		return errors.New(problem.Detail)
	}
	var made gateway.BackupMade
	if err := json.Unmarshal(answer, &made); err != nil {
		return err
	}
	m.printBackup(made)
	return nil
}

func (m *Main) printBackup(b gateway.BackupMade) {
	fmt.Fprintf(m.Stdout, "backup in %s\n  log %s, %d sessions, %d records, %d MiB; read back and whole\n", b.Dest, b.Log, b.Sessions, b.Records, b.Bytes>>20)
}

func (m *Main) restore(ctx context.Context) error {
	r, err := store.Restore(ctx, m.line.Restore.Src, m.Config.Data, m.line.Restore.Replace)
	if err != nil {
		return err
	}
	fmt.Fprintf(m.Stdout, "restored %s to %s\n  log %s instead of %s: clients read everything anew\n", m.line.Restore.Src, m.Config.Data, r.Log, r.From.Log)
	if r.Before != "" {
		fmt.Fprintf(m.Stdout, "  the store that was there is in %s\n", r.Before)
		carried, err := auth.Carry(r.Before, m.Config.Data)
		if err != nil {
			return fmt.Errorf("the store is restored, but the keys that clients sign in with could not be taken over from %s: %w", r.Before, err)
		}
		if carried {
			fmt.Fprintf(m.Stdout, "  the keys that clients sign in with are those of before\n")
		}
		if err := listener.Carry(r.Before, m.Config.Data); err != nil {
			return fmt.Errorf("the store is restored, but the server's certificates could not be taken over from %s: %w", r.Before, err)
		}
	}
	return nil
}

func (m *Main) verify(ctx context.Context) error {
	dir := m.line.Verify.Dir
	if dir == "" {
		dir = m.Config.Data
	}
	r, err := store.Verify(ctx, dir, m.line.Verify.Problems)
	if store.InUse(err) {
		return fmt.Errorf("%w; make a backup and verify that", m.explain(err))
	}
	if err != nil {
		return err
	}
	c := r.Counts
	fmt.Fprintf(m.Stdout, "%s: %d sessions and %d below them, %d records with %d events, %d keys, %d tasks, %d snapshots, %d readers' cursors, %d due, %d erased, %d chats, %d entries of feeds, %d attachments\n",
		dir, c.Sessions, c.SubSessions, c.Records, c.Events, c.Keys, c.Tasks, c.Snapshots, c.Cursors, c.Due, c.Tombstones, c.Chats, c.Entries, c.Blobs)
	if r.UnusedSnapshots > 0 {
		fmt.Fprintf(m.Stdout, "%d snapshots are of no use to this program: those sessions are read from their logs\n", r.UnusedSnapshots)
	}
	if r.All() == 0 {
		fmt.Fprintln(m.Stdout, "no problem found")
		return nil
	}
	for _, p := range r.Problems {
		fmt.Fprintf(m.Stdout, "BAD %s\n", p)
	}
	if r.More > 0 {
		fmt.Fprintf(m.Stdout, "and %d more\n", r.More)
	}
	return errProblems
}
