package pebble

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/group"
	"parley/persistence/pebble/internal/inspect"
	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/opening"
	"parley/persistence/pebble/internal/space"
	"parley/persistence/pebble/internal/synced"
	"parley/persistence/pebble/internal/upgrade"
	"parley/persistence/pebble/internal/upkeep"
	"parley/persistence/pebble/internal/usage"
	"parley/persistence/pebble/internal/writers"
)

// starting is a store between the look at its directory and its use: from here on
// the directory is changed.
type starting struct {
	fs     vfs.FS
	dir    string
	o      Options
	health *health
	lock   *pebble.Lock
	unlock func() error
	guard  *space.Guard // nil: no disk to watch
	marks  *synced.FS   // nil: a store in memory
	lost   int64
	where  string
}

// maxBatchBytes bounds what is synced at once: a disk takes a MiB in some milliseconds,
// and who waits for a sync waits for all of it.
const maxBatchBytes = 1 << 20

// watch reads the disk for the first time and gives up the ballast of the process
// before; it is made again if there is room.
func (s *starting) watch(fs vfs.FS) {
	read := func() (free, total uint64, err error) {
		u, err := fs.GetDiskUsage(s.dir)
		return u.AvailBytes, u.TotalBytes, err
	}
	if s.o.FreeSpace != nil {
		read = func() (free, total uint64, err error) { return s.o.FreeSpace(s.dir) }
	}
	unread := &limit{}
	s.guard, s.o.MemTableBytes = space.New(space.Disk{
		Log: s.o.Logger, Read: read, Every: s.o.CheckEvery,
		Unread: func(err error) {
			if n, ok := unread.take(time.Now()); ok {
				s.o.Logger.Debug("free disk space cannot be read", "error", err, "times", n)
			}
		},
		SoftFree: s.o.SoftFree, HardFree: s.o.HardFree, MemTable: s.o.MemTableBytes,
		Ballast: s.o.Ballast, BallastAt: fs.PathJoin(s.dir, ballastFile), FS: fs,
	})
	s.fs = vfs.OnDiskFull(fs, s.guard.DropBallast)
}

// prepare writes down how much of each file is there, before Pebble may change
// one. What an unfinished creation left goes first: nothing was ever stored there.
func (s *starting) prepare(found *inspect.Findings, exists bool, boot string) error {
	state := synced.State{Phase: synced.Running, Boot: boot, Files: map[synced.File]int64{}}
	if !exists {
		state.Phase = synced.Creating
	}
	if found.Marks != nil && found.Marks.Phase == synced.Creating {
		for _, name := range found.Listing.Debris {
			if err := s.fs.Remove(s.fs.PathJoin(s.dir, name)); err != nil {
				return err
			}
		}
	}
	if exists {
		if err := syncAll(found, s.fs, s.dir); err != nil {
			return err
		}
		state.Files = found.Ends
		if found.Marks != nil {
			s.lost, s.where = found.Marks.Lost, "the log of the start before"
		}
		if found.Lost > 0 {
			s.lost, s.where = found.Lost, found.Where
		}
		state.Lost = s.lost
	}
	if was := found.Listing.Format; exists && was < uint64(format) {
		s.o.Logger.Info("the store's file format is raised: older programs cannot open it any more", "dir", s.dir, "from", was, "to", uint64(format))
	}
	var err error
	s.marks, err = synced.Start(s.fs, s.dir, state)
	return err
}

// syncAll makes durable what was read, so that it can be counted on: what a killed
// process wrote last may still be on its way to the disk.
func syncAll(f *inspect.Findings, fs vfs.FS, dir string) error {
	for _, file := range append(f.Logs, f.Listing.Manifest) {
		in, err := fs.Open(fs.PathJoin(dir, file.Name))
		if err != nil {
			return err
		}
		if err := errors.Join(in.Sync(), in.Close()); err != nil {
			return err
		}
	}
	return nil
}

// start opens Pebble, makes what a new store needs, and begins to watch the disk.
func (s *starting) start() (*DB, error) {
	p, log, err := s.open()
	if err != nil {
		return nil, errors.Join(inspect.Explain(s.dir, err), s.stop())
	}
	secret, err := upgrade.Secret(p)
	if err != nil {
		return nil, errors.Join(inspect.Explain(s.dir, err), p.Close(), s.stop())
	}
	db := &DB{
		p: p, log: log, secret: secret, cache: writers.New(s.o.Heads), health: s.health, guard: s.guard, metrics: s.o.Metrics,
		marks: s.marks, unlock: s.unlock, writes: pebble.Sync,
	}
	db.usage = usage.Start(usage.Source{Store: p, Views: &db.views, Log: s.o.Logger}, usage.Limits{Sessions: s.o.SessionsPerTenant, Bytes: s.o.StoredBytesPerTenant})
	if s.guard != nil {
		s.guard.Start()
	}
	if s.marks != nil {
		if err := ondisk.WriteReadme(s.fs, s.dir); err != nil {
			s.o.Logger.Warn("the file that explains the data directory was not written", "file", ondisk.ReadmeFile, "error", err)
		}
	}
	db.upkeep = upkeep.Start(upkeep.Needs{
		Store: p, Views: &db.views, Full: db.full, Log: s.o.Logger, Pause: s.o.ErasePause, Keep: s.o.Tombstones,
		Hold: func(key conversation.SessionKey, f func() error) error {
			w := db.cache.Lock(key)
			defer w.Unlock()
			return f()
		},
	})
	db.group = group.StartSeveral(s.o.Committers, group.Setup{
		Store: p, How: func() *pebble.WriteOptions { return db.writes }, InFlight: &db.inFlight,
		Writable: db.writable, Dead: s.health.dead,
		Fatal: func(err error) { pebbleLogger{s.health}.Fatalf("a batch could not be made durable: %v", err) },
		Synced: func(writes int, keys uint32) {
			s.o.Metrics.WritesPerSync.Observe(float64(writes))
			s.o.Metrics.WrittenKeys.Add(float64(keys))
		},
		// A batch of half a memory table has one written to disk at once.
		MaxBytes: int(min(maxBatchBytes, s.o.MemTableBytes/8)),
	})
	db.chats = newChats(db)
	db.unwatch = s.o.Metrics.Watch(db.stats)
	return db, nil
}

// stop ends what prepare began, where nothing came of it.
func (s *starting) stop() error {
	if s.marks == nil {
		return nil
	}
	return s.marks.Close(false)
}

func (s *starting) open() (*pebble.DB, conversation.LogID, error) {
	p, err := s.openPebble()
	if err != nil {
		return nil, "", err
	}
	log, created, err := identify(p, s.dir)
	if err == nil && created {
		p, err = s.again(p)
	} else if err == nil {
		err = s.upgrade(p)
	}
	if err == nil && s.lost > 0 {
		log, err = s.renew(p)
	}
	if err != nil {
		if p != nil {
			err = errors.Join(err, p.Close())
		}
		return nil, "", err
	}
	return p, log, nil
}

// Layout is the version of the layout that the store has: an older one than that of
// this program only if it was opened for reading.
func (db *DB) Layout() (uint32, error) { return upgrade.Layout(db.p) }

// LayoutVersion is the version of the layout of this program.
const LayoutVersion = layout.Version

// upgrade takes a store of an older layout to that of this program.
func (s *starting) upgrade(p *pebble.DB) error {
	from, err := upgrade.Store(p, time.Now())
	if err == nil && from < layout.Version {
		s.o.Logger.Info("the store was upgraded: older programs cannot open it any more", "dir", s.dir, "from_layout", from, "to_layout", layout.Version)
	}
	return err
}

// again closes and opens a store that has just been made. The first log of a new
// directory is written without the marks that distinguish damage in its middle
// from its end; the second one has them. And from here on it is a store.
func (s *starting) again(p *pebble.DB) (*pebble.DB, error) {
	if err := p.Close(); err != nil {
		return nil, err
	}
	if s.marks != nil {
		state := s.marks.State()
		state.Phase = synced.Running
		if err := s.marks.Close(false); err != nil {
			return nil, err
		}
		next, err := synced.Start(s.marks.FS, s.dir, state)
		if err != nil {
			return nil, err
		}
		s.marks = next
	}
	return s.openPebble()
}

// renew gives the store another log id, as a restored one has: clients that saw
// what is lost must not continue as if it were there.
func (s *starting) renew(p *pebble.DB) (conversation.LogID, error) {
	s.o.Logger.Error("the end of the log could not be read: what was acknowledged last before the power failed may be lost; clients will read everything anew",
		"bytes", s.lost, "file", s.where, "dir", s.dir)
	s.o.Metrics.LostBytes.Set(float64(s.lost))
	log := newLogID()
	if err := p.Set(layout.KeyLog, []byte(log), pebble.Sync); err != nil {
		return "", err
	}
	return log, s.marks.Settle()
}

func (s *starting) openPebble() (*pebble.DB, error) {
	fs := s.fs
	if s.marks != nil {
		fs = s.marks
	}
	marks := s.marks
	p, err := opening.Patiently(func() (*pebble.DB, error) {
		return openPebble(s.dir, pebbleOptions(fs, s.o, s.health, s.lock))
	}, opening.Patience{
		For: s.o.OpenWait, Failing: s.health.failing,
		Begins: func(e *opening.GaveUpError) {
			s.o.Logger.Error(e.Why()+", opening waits", "dir", s.dir, "at_most", e.For.String(), "error", e.Failure)
		},
		Ends: func(late *pebble.DB) {
			if late != nil {
				_ = late.Close()
			}
			if marks != nil {
				_ = marks.Close(false)
			}
		},
	})
	if errors.As(err, new(*opening.GaveUpError)) {
		s.marks = nil // stop must not end them before Pebble has
	}
	return p, err
}
