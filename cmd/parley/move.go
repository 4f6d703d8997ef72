package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"time"

	"parley/cmd/parley/internal/assemble"
	"parley/cmd/parley/internal/config"
	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/metrics"
	"parley/persistence/move"
)

type moveCmd struct {
	Out moveOutCmd `cmd:"" help:"Write the whole store as one file; run it again after an interruption. No server may use it."`
	In  moveInCmd  `cmd:"" help:"Read such a file into an empty store; run it again after an interruption."`
}

type moveOutCmd struct {
	File string `arg:"" placeholder:"FILE" help:"File to make; it must not exist."`
}

type moveInCmd struct {
	File string `arg:"" placeholder:"FILE" help:"File that \"parley move out\" has made."`
}

// progressEvery is how often a move says how far it is.
const progressEvery = 2 * time.Second

// progress says on Stderr how far a move is.
func (m *Main) progress(what string, at *movedFile) func(move.Totals) {
	said := time.Now()
	return func(t move.Totals) {
		at.told.Store(true)
		if time.Since(said) >= progressEvery {
			said = time.Now()
			fmt.Fprintf(m.Stderr, "%s so far: %d sessions, %d records, %s\n", what, t.Sessions, t.Records, at)
		}
	}
}

// movedFile is a file that knows how far it was read or written.
type movedFile struct {
	*os.File
	size int64 // 0 = not known
	at   atomic.Int64
	said func() // after each piece, until told is set; nil = nothing
	told atomic.Bool
}

func (w *movedFile) moved(n int, err error) (int, error) {
	w.at.Add(int64(n))
	if w.said != nil && !w.told.Load() {
		w.said()
	}
	return n, err
}

// Read implements io.Reader.
func (w *movedFile) Read(p []byte) (int, error) { return w.moved(w.File.Read(p)) }

// Write implements io.Writer.
func (w *movedFile) Write(p []byte) (int, error) { return w.moved(w.File.Write(p)) }

// Seek implements io.Seeker.
func (w *movedFile) Seek(offset int64, whence int) (int64, error) {
	at, err := w.File.Seek(offset, whence)
	w.at.Store(at)
	return at, err
}

// String is how far it is, and what is left.
func (w *movedFile) String() string {
	at := w.at.Load()
	if w.size == 0 {
		return fmt.Sprintf("%d MB", at/1e6)
	}
	return fmt.Sprintf("%d of %d MB, %d MB are left", at/1e6, w.size/1e6, (w.size-at)/1e6)
}

// openMoving opens what the configuration names, for this process alone.
func (m *Main) openMoving(ctx context.Context, write bool) (*store.Moving, string, error) {
	log := newLogger(m.Stderr, m.Config.Log)
	counts := metrics.NewPersistence(metrics.NewRegistry())
	if m.Config.Shared.Postgres != "" {
		dsn, err := m.Config.DSN(config.LookupIn(m.Environ))
		if err != nil {
			return nil, "", config.NewError("store.postgres", err)
		}
		s, err := store.MoveShared(ctx, assemble.Shared(&m.Config, dsn, log, counts), write)
		return s, "the database of store.postgres", err
	}
	if m.Config.Ephemeral() {
		return nil, "", errors.New("memory.mode is ephemeral: there is no data directory")
	}
	options := m.Config.Store
	options.Logger, options.Metrics = log, counts
	s, err := store.MoveDirectory(m.Config.Data, write, options)
	return s, m.Config.Data, err
}

// moveOut writes the file under another name first: what has the name is whole.
func (m *Main) moveOut(ctx context.Context) (err error) {
	name := m.line.Move.Out.File
	if _, err := os.Lstat(name); !errors.Is(err, os.ErrNotExist) {
		return errors.Join(fmt.Errorf("%s exists already", name), err)
	}
	from, place, err := m.openMoving(ctx, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, from.Close()) }()
	f, err := os.OpenFile(name+".writing", os.O_RDWR|os.O_CREATE, 0o600) // an interrupted one is gone on with
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err == nil && info.Size() > 0 {
		fmt.Fprintf(m.Stderr, "%s is there, with %d MB: going on with it\n", f.Name(), info.Size()/1e6)
	}
	at := &movedFile{File: f}
	totals, err := move.Out(ctx, from, at, version(), m.progress("written", at))
	if errors.Is(err, move.ErrChanged) {
		fmt.Fprintf(m.Stderr, "the store is not what it was when %s was begun, or another version of parley has begun it: from the beginning\n", f.Name())
		_, back := f.Seek(0, io.SeekStart)
		if err = errors.Join(f.Truncate(0), back); err == nil {
			at.at.Store(0)
			totals, err = move.Out(ctx, from, at, version(), m.progress("written", at))
		}
	}
	if err == nil {
		err = from.Alone(ctx) // a node that has started meanwhile may have written
	}
	if err == nil {
		err = errors.Join(f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		return fmt.Errorf("the file is not whole: %w; the same command goes on with %s, or remove that", err, f.Name())
	}
	fmt.Fprintf(m.Stdout, "%s is in %s\n", place, name)
	m.printMoved(totals, from.LogID())
	return nil
}

func (m *Main) moveIn(ctx context.Context) (err error) {
	name := m.line.Move.In.File + m.line.Import.File // one of them is given
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	at, said := &movedFile{File: f}, time.Now()
	if info, err := f.Stat(); err == nil {
		at.size = info.Size()
	}
	at.said = func() {
		if time.Since(said) >= progressEvery {
			said = time.Now()
			fmt.Fprintf(m.Stderr, "looking whether the file is whole: %s\n", at)
		}
	}
	if _, _, err := move.Check(ctx, at); err != nil { // before a store is made
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := at.Seek(0, io.SeekStart); err != nil {
		return err
	}
	to, place, err := m.openMoving(ctx, true)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, to.Close()) }()
	totals, err := move.In(ctx, at, to, m.progress("read", at))
	if err == nil {
		err = to.Alone(ctx)
	}
	switch {
	case errors.Is(err, move.ErrOccupied), errors.Is(err, move.ErrDiffers), errors.Is(err, move.ErrOther), errors.Is(err, move.ErrMore):
		return fmt.Errorf("%s: %w", place, err)
	case err != nil:
		return fmt.Errorf("%s is not whole yet; run the same command again: %w", place, err)
	}
	fmt.Fprintf(m.Stdout, "%s is in %s\n", name, place)
	m.printMoved(totals, to.LogID())
	return nil
}

func (m *Main) printMoved(t move.Totals, log conversation.LogID) {
	fmt.Fprintf(m.Stdout, "  log %s, %d sessions with %d records, %d erased ones\n", log, t.Sessions, t.Records, t.Erased)
	if t.Files > 0 {
		fmt.Fprintf(m.Stdout, "  %d attachments\n", t.Files)
	}
	if t.Chats+t.Entries > 0 {
		fmt.Fprintf(m.Stdout, "  what channels remember of %d chats, %d entries of feeds\n", t.Chats, t.Entries)
	}
	if t.Skipped > 0 {
		fmt.Fprintf(m.Stdout, "  %d of the sessions were there already\n", t.Skipped)
	}
}
