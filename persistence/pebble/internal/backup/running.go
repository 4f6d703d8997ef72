package backup

import (
	"context"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
)

// Running is a store that is open and written to.
type Running struct {
	Pebble *pebble.DB
	FS     vfs.FS
	Dir    string
	Log    conversation.LogID
	Roomy  bool                     // the disk of Dir is not nearly full
	Use    func(func() error) error // calls while the store is open, or fails
}

// Running copies a store, as of now, into dest, which must not exist, and reads it
// back before it gets that name.
func (o Opener) Running(ctx context.Context, s Running, dest, program string) (Info, error) {
	if err := o.checkDest(s.FS, s.Dir, dest); err != nil {
		return Info{}, err
	}
	if s.Roomy {
		if err := s.flush(ctx, o); err != nil {
			return Info{}, err
		}
	}
	return o.finish(ctx, s.FS, dest, Info{Log: s.Log, Program: program}, func(stage string) error {
		return s.Use(func() error {
			if err := s.roomFor(stage); err != nil {
				return err
			}
			return Checkpoint(s.Pebble, stage)
		})
	})
}

// Checkpoint is Pebble's, which panics when the directory cannot be synced: not a
// reason for a server to end.
func Checkpoint(p *pebble.DB, dest string) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("back up to %s: the disk failed: %v", dest, r)
		}
	}()
	if err := p.Checkpoint(dest, pebble.WithFlushedWAL()); err != nil {
		return fmt.Errorf("back up to %s: %w", dest, err)
	}
	return nil
}

// flush empties the memory tables: what is in them becomes a table, which the
// backup shares, instead of a log, which it would have to copy and to replay when
// it is opened. On a disk that is nearly full it would wait for space.
func (s Running) flush(ctx context.Context, o Opener) error {
	var flushed <-chan struct{}
	err := s.Use(func() (err error) {
		flushed, err = s.Pebble.AsyncFlush()
		return err
	})
	if err != nil {
		return o.failed(err, "cannot write what is in memory")
	}
	select {
	case <-flushed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// roomFor refuses a place that cannot be written to or has no room. Pebble writes
// the copy through the file system that gives up the ballast of the data directory
// when a disk is full, so that must not happen there.
func (s Running) roomFor(stage string) error {
	m, parent := s.Pebble.Metrics(), s.FS.PathDir(stage)
	need := m.WAL.Size + 16<<20 // logs and the manifest are copied always
	if s.FS.Link(s.FS.PathJoin(s.Dir, "LOCK"), stage) != nil {
		need += m.DiskSpaceUsage() // on another disk, so are the tables
		f, err := s.FS.Create(stage, vfs.WriteCategoryUnspecified)
		if err != nil {
			return refuse(CopyRefused, "the server cannot write to %s: %v", parent, err)
		}
		_ = f.Close()
	}
	if err := s.FS.Remove(stage); err != nil {
		return err
	}
	usage, err := s.FS.GetDiskUsage(parent)
	if err != nil {
		return nil // a file system that does not say: then trying shows it
	}
	if usage.AvailBytes < need {
		return refuse(CopyFull, "there are %d MiB free in %s, and the backup needs %d MiB", usage.AvailBytes>>20, parent, need>>20)
	}
	return nil
}
