package pebble

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/backup"
)

// swapping is a file system that can exchange two directories in one step. A power
// failure leaves the step undone, which is the moment before it, or whole: so the
// renames that it is made of here are synced together.
type swapping struct {
	vfs.FS
	under *vfs.MemFS
	b     *breaker
}

func (s swapping) Exchange(a, b string) error {
	if err := s.b.MaybeError(errorfs.Op{Kind: errorfs.OpRename, Path: a}); err != nil {
		return err
	}
	return errors.Join(s.under.Rename(a, a+".x"), s.under.Rename(b, a), s.under.Rename(a+".x", b), backup.SyncDir(s.under, s.PathDir(a)))
}

// restorable is a disk with a backup in /backups/b of three sessions with three
// commits each, and, if there is to be one, another store in /data/store with the
// log id that is returned.
func restorable(t *testing.T, occupied bool) (fs *vfs.MemFS, backedUp, other conversation.LogID) {
	t.Helper()
	fs = vfs.NewCrashableMem()
	db := onDisks(t, fs)
	if _, err := db.Backup(t.Context(), "/backups/b", "v1"); err != nil {
		t.Fatal(err)
	}
	backedUp = db.LogID()
	if err := errors.Join(db.Close(), fs.RemoveAll("/data/store"), backup.SyncDir(fs, "/data")); err != nil {
		t.Fatal(err)
	}
	if occupied {
		db, err := openOn(fs, "/data/store", testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		writeSome(t, db, 5)
		other = db.LogID()
		if err := errors.Join(db.Close(), backup.SyncDir(fs, "/data")); err != nil {
			t.Fatal(err)
		}
	}
	return fs, backedUp, other
}

// commitsIn opens a store and says how many commits the first session has.
func commitsIn(t *testing.T, fs vfs.FS, dir string) (log conversation.LogID, commits int, err error) {
	t.Helper()
	db, err := openOn(fs, dir, testOptions(t))
	if err != nil {
		return "", 0, err
	}
	defer func() { _ = db.Close() }()
	if err := whole(db, true); err != nil {
		t.Errorf("the store in %s: %v", dir, err)
	}
	records, err := listOf(db.Records(t.Context(), crashKey(0), conversation.Range{}))
	return db.LogID(), len(records), err
}

// The n-th change that a restore makes fails, or the process dies there, or the
// power goes: after it there is the old store or the whole new one, and never
// less. The next restore puts things right, and loses neither the old store nor the
// backup.
func TestRestoreFails(t *testing.T) {
	rng := crashSeed(t)
	for _, occupied := range []bool{false, true} {
		for _, atomic := range []bool{false, true} {
			for _, how := range []string{"fails", "dies", "power"} {
				t.Run(fmt.Sprintf("%s occupied=%v atomic=%v", how, occupied, atomic), func(t *testing.T) {
					n, step := 1, 1
					if testing.Short() {
						n, step = 1+rng.IntN(7), 7
					}
					for ; ; n += step {
						mem, backedUp, other := restorable(t, occupied)
						source := content(t, mem, "/backups/b")
						var left *vfs.MemFS // what is there after the process has died
						b := &breaker{at: n, below: []string{"/data"}}
						switch how {
						case "dies":
							b.moment = func() { left = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng}) }
						case "power":
							b.moment = func() { left = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * rng.IntN(3), RNG: rng}) }
						}
						var fs vfs.FS = errorfs.Wrap(mem, b)
						if atomic {
							fs = swapping{fs, mem, b}
						}
						_, err := copies.Restore(t.Context(), fs, "/backups/b", "/data/store", true, time.Now())
						if !b.fired {
							if err != nil {
								t.Fatal(err)
							}
							t.Logf("%d changes", n-1)
							if n < 30 {
								t.Error("the restore did too little to show anything")
							}
							return
						}
						if left == nil { // the process that failed has ended, and its locks with it
							left = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 100, RNG: rng})
						}
						mem = left
						what := fmt.Sprintf("change %d: %v", n, err)
						checkBroken(t, mem, backedUp, other, what)
						if how == "fails" && err != nil {
							if there, _ := backup.Exists(mem, "/data/store.restoring"); there && !strings.Contains(err.Error(), "into its place") {
								t.Errorf("%s: /data/store.restoring is left", what)
							}
						}
						if _, err := copies.Restore(t.Context(), mem, "/backups/b", "/data/store", true, time.Now()); err != nil {
							t.Fatalf("%s; the next restore: %v", what, err)
						}
						checkRestored(t, mem, backedUp, other, what)
						if content(t, mem, "/backups/b") != source {
							t.Fatalf("%s: the backup has changed", what)
						}
					}
				})
			}
		}
	}
}

// checkBroken checks what a restore that was broken off has left.
func checkBroken(t *testing.T, fs *vfs.MemFS, backedUp, other conversation.LogID, what string) {
	t.Helper()
	if there, _ := backup.Exists(fs, "/data/store"); !there {
		staged, _ := backup.Exists(fs, "/data/store.restoring")
		if other != "" && !staged {
			t.Fatalf("%s: nothing says where the old store is", what)
		}
		if staged {
			_, err := openOn(fs, "/data/store", testOptions(t))
			wantOpenError(t, err, OpenBackup, "run parley restore again")
		}
		return
	}
	log, commits, err := commitsIn(t, fs, "/data/store")
	switch {
	case err != nil:
		t.Fatalf("%s: open: %v", what, err)
	case log == backedUp:
		t.Fatalf("%s: a server would go on under the log id of the backup", what)
	case log == other && commits != 5, log != other && commits != 3:
		t.Fatalf("%s: log %s has %d commits", what, log, commits)
	}
}

// checkRestored checks what the restore after it has made.
func checkRestored(t *testing.T, fs *vfs.MemFS, backedUp, other conversation.LogID, what string) {
	t.Helper()
	log, commits, err := commitsIn(t, fs, "/data/store")
	if err != nil || log == backedUp || log == other || commits != 3 {
		t.Fatalf("%s; restored again: log %s, %d commits, %v", what, log, commits, err)
	}
	names, _ := fs.List("/data")
	found := other == ""
	for _, name := range names {
		switch {
		case name == "store":
		case strings.HasPrefix(name, "store.before-"):
			db, err := openReadOnlyOn(fs, "/data/"+name, testOptions(t))
			if err != nil {
				t.Fatalf("%s: %s: %v", what, name, err)
			}
			found = found || db.LogID() == other
			_ = db.Close()
		default:
			t.Errorf("%s: %s is left over", what, name)
		}
	}
	if !found {
		t.Fatalf("%s: the old store is gone; there are %v", what, names)
	}
}

func TestRestoreRefused(t *testing.T) {
	for _, c := range []struct {
		name, src, dir string
		replace        bool
		before         func(t *testing.T, fs *vfs.MemFS)
		says           string
	}{
		{"no source", "/backups/x", "/data/new", false, nil, "there is no parley store in /backups/x"},
		{"a foreign source", "/backups", "/data/new", false, nil, "/backups is not a parley data directory"},
		{"a store in the place", "/backups/b", "/data/store", false, nil, "with --replace it is kept"},
		{"a foreign place", "/backups/b", "/data", true, nil, "/data is neither empty nor a store"},
		{"a backup in the place", "/data/store", "/backups/b", true, nil, "/backups/b is a backup"},
		{"no parent", "/backups/b", "/nowhere/store", false, nil, "/nowhere does not exist"},
		{"into itself", "/backups/b", "/backups/b/store", false, nil, "lie in each other"},
		{"source in use", "/data/store", "/data/new", false, hold("/data/store"), "/data/store is in use"},
		{"place in use", "/backups/b", "/data/store", true, hold("/data/store"), "/data/store is in use"},
		{"a damaged backup", "/backups/b", "/data/new", false, func(t *testing.T, fs *vfs.MemFS) {
			names, _ := fs.List("/backups/b")
			for _, name := range names {
				if strings.HasSuffix(name, ".sst") {
					breakFile(t, fs, "/backups/b/"+name)
				}
			}
		}, "/backups/b is damaged"},
		{"a backup that lacks something", "/backups/b", "/data/new", false, func(t *testing.T, fs *vfs.MemFS) {
			info, err := backup.ReadInfo(fs, "/backups/b")
			if err != nil {
				t.Fatal(err)
			}
			info.Counts.Records++
			if err := backup.WriteInfo(fs, "/backups/b", *info); err != nil {
				t.Fatal(err)
			}
		}, "is not whole"},
		{"a backup of another log", "/backups/b", "/data/new", false, func(t *testing.T, fs *vfs.MemFS) {
			if err := backup.WriteInfo(fs, "/backups/b", backup.Info{Log: "other"}); err != nil {
				t.Fatal(err)
			}
		}, "backup of the log other"},
		{"an unreadable backup", "/backups/b", "/data/new", false, func(t *testing.T, fs *vfs.MemFS) {
			if err := backup.WriteFile(fs, "/backups/b", backup.InfoFile, []byte("{}")); err != nil {
				t.Fatal(err)
			}
		}, "cannot be read"},
		{"something of the user's in the way", "/backups/b", "/data/new", false, func(t *testing.T, fs *vfs.MemFS) {
			if err := errors.Join(fs.MkdirAll("/data/new.restoring", 0o700), backup.WriteFile(fs, "/data/new.restoring", "thesis.tex", nil)); err != nil {
				t.Fatal(err)
			}
		}, "/data/new.restoring is in the way"},
		{"another restore", "/backups/b", "/data/new", false, func(t *testing.T, fs *vfs.MemFS) {
			lock, err := backup.Begin(fs, "/data/new")
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = lock.Close() })
		}, "another restore"},
	} {
		t.Run(c.name, func(t *testing.T) {
			fs, _, other := restorable(t, true)
			if c.before != nil {
				c.before(t, fs)
			}
			before, _ := fs.List("/data")
			_, err := copies.Restore(t.Context(), fs, c.src, c.dir, c.replace, time.Now())
			if err == nil || !strings.Contains(err.Error(), c.says) || strings.Contains(err.Error(), "\n") {
				t.Errorf("got %v\nwant %s", err, c.says)
			}
			if after, _ := fs.List("/data"); len(after) != len(before) {
				t.Errorf("left over: %v, before %v", after, before)
			}
			if !strings.Contains(c.name, "in use") {
				if log, _, err := commitsIn(t, fs, "/data/store"); err != nil || log != other {
					t.Errorf("the store is %s, %v", log, err)
				}
			}
		})
	}
}

// hold opens a store until the test ends.
func hold(dir string) func(t *testing.T, fs *vfs.MemFS) {
	return func(t *testing.T, fs *vfs.MemFS) {
		db, err := openOn(fs, dir, testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = db.Close() })
	}
}
