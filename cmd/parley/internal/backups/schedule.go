package backups

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/metrics"
)

// Deps are what a schedule works with. None of them may be nil.
type Deps struct {
	Log     conversation.LogID                                               // of the store
	Make    func(ctx context.Context, dest string) (store.BackupInfo, error) // makes a backup; dest is absolute and does not exist
	Now     func() time.Time                                                 // the date
	Logger  *slog.Logger
	Metrics *metrics.Backups
}

// Schedule makes backups now and then.
type Schedule struct {
	Settings
	Deps
}

// leastRetry is how long a failed backup waits at least for the next try, unless backups
// are made more often than that.
const leastRetry = time.Minute

// Run makes backups until ctx ends; one that is being made then is given up.
func (s Schedule) Run(ctx context.Context) {
	s.Metrics.Every.Set(s.Every.Seconds())
	if !s.On() {
		return
	}
	if dir, err := filepath.Abs(s.Dir); err == nil {
		s.Dir = dir
	}
	wait, failures := s.first(), 0
	for sleep(ctx, wait) {
		began := time.Now()
		switch err := s.once(ctx); {
		case err != nil && ctx.Err() != nil:
			s.Logger.Info("the backup was given up, because the server stops")
			return
		case err != nil:
			wait = s.retry(failures)
			failures++
			s.Logger.Error("no backup was made", "code", "backup_failed", "dir", s.Dir, "error", err, "failures", failures, "next_try", wait.String())
		default:
			// One that takes longer than it may does not follow on itself.
			wait, failures = max(s.Every-time.Since(began), s.Every/10), 0
		}
	}
}

// sleep is false if ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// retry is the pause after a failure: a tenth of the time between backups, then twice as
// long each time, up to all of it.
func (s Schedule) retry(failures int) time.Duration {
	return min(max(s.Every/10, leastRetry)<<min(failures, 10), s.Every)
}

// first is how long the first backup of this process has to wait: until the last one that
// lies there is old enough.
func (s Schedule) first() time.Duration {
	all, err := s.look()
	if err != nil {
		s.Logger.Error("the directory of backups cannot be read", "code", "backup_failed", "dir", s.Dir, "error", err)
		return 0 // the try says the rest
	}
	if len(all) == 0 {
		return 0
	}
	if all[0].ahead {
		s.Logger.Warn("a backup is of a time to come: was the date of this machine changed? It counts as older than all others", "code", "backup_clock", "dir", all[0].dir, "time", all[0].info.Time)
	}
	last := newest(all)
	if last == nil { // soon after its start a machine may not know the date yet
		return s.Every
	}
	return min(max(s.Every-s.Now().Sub(last.info.Time), 0), s.Every)
}

// look finds what lies there, and shows it as metrics.
func (s Schedule) look() ([]copied, error) {
	all, err := list(s.Dir, s.Log, s.Now(), func(dir string, err error) {
		s.Logger.Warn("a backup does not say what it is; it is neither counted nor removed", "code", "backup_unread", "dir", dir, "error", err)
	})
	if err != nil {
		return nil, err
	}
	s.Metrics.Kept.Set(float64(len(all)))
	good := 0.0
	if last := newest(all); last != nil {
		good = float64(last.info.Time.UnixMilli()) / 1000
	}
	s.Metrics.LastGood.Set(good)
	return all, nil
}

// once makes a backup, and then removes what is too much.
func (s Schedule) once(ctx context.Context) error {
	if err := tidy(s.Dir, s.Log); err != nil && !errors.Is(err, fs.ErrNotExist) { // of a directory that is not there the backup says it
		s.Logger.Warn("what an earlier backup has left could not be removed", "code", "backup_left", "dir", s.Dir, "error", err)
	}
	dest, notBegun := begin(s.Dir, s.Now(), s.Log)
	if errors.Is(notBegun, fs.ErrExist) {
		return fmt.Errorf("the names of the next %d seconds are taken in %s: %w", tries, s.Dir, notBegun)
	}
	// Where that fails otherwise the backup does as well, and is counted and says why.
	began := time.Now()
	info, err := s.Make(ctx, dest)
	if notBegun == nil {
		end(dest)
	}
	if err != nil {
		_, _ = s.look() // the date may be another one by now, and so the last good one
		return err
	}
	took := time.Since(began)
	s.Metrics.Seconds.Observe(took.Seconds())
	s.Logger.Info("backup made", "dest", dest, "sessions", info.Counts.Sessions, "records", info.Counts.Records, "bytes", info.Bytes, "took", took)
	s.prune(dest)
	return nil
}

// prune removes the oldest backups beyond Keep, by their number and never by their age, and
// not the one that was just made: a clock that was wrong makes none of them too old. Those of
// a time to come go first. One that somebody reads stays until the next time.
func (s Schedule) prune(made string) {
	all, err := s.look()
	if err != nil {
		s.Logger.Error("the directory of backups cannot be read", "code", "backup_failed", "dir", s.Dir, "error", err)
		return
	}
	for _, old := range all[:max(len(all)-s.Keep, 0)] {
		if old.dir == made {
			continue
		}
		if err := store.RemoveBackup(old.dir, s.Log); err != nil {
			s.Logger.Warn("an old backup stays", "code", "backup_kept", "dir", old.dir, "error", err)
			continue
		}
		s.Logger.Info("old backup removed", "dir", old.dir, "time", old.info.Time)
	}
	_, _ = s.look()
}
