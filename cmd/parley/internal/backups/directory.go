package backups

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"parley/cmd/parley/internal/store"
	"parley/conversation"
)

// nameFormat makes the names of backups; their times are UTC.
const nameFormat = "parley-20060102T150405Z"

// The ends of what lies beside backups: one that is being made, the file that says whose it
// is, one that is being removed.
const (
	writing  = store.BackupWriting
	begun    = ".begun"
	removing = store.BackupRemoving
)

// A copied backup is one that lies in the directory.
type copied struct {
	dir   string
	info  store.BackupInfo
	ahead bool // of a time to come: the date was wrong when it was made, or it is wrong now
}

// skew is how far the date may have been put back without anybody's noticing.
const skew = time.Minute

// named says whether the schedule gives such a name.
func named(name string) bool {
	_, err := time.Parse(nameFormat, name)
	return err == nil
}

// list finds the backups of the schedule in dir, the oldest first; log "" = of any log. Those
// of a time to come are older than all others: what is made from now on is to follow them.
// unread is told of those that do not say what they are.
func list(dir string, log conversation.LogID, now time.Time, unread func(dir string, err error)) ([]copied, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []copied
	for _, e := range entries {
		if !e.IsDir() || !named(e.Name()) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		info, err := store.ReadBackup(path)
		if err != nil {
			unread(path, err)
		}
		if info != nil && (log == "" || info.Log == log) {
			all = append(all, copied{path, *info, info.Time.After(now.Add(skew))})
		}
	}
	slices.SortStableFunc(all, func(a, b copied) int {
		switch {
		case a.ahead && !b.ahead:
			return -1
		case b.ahead && !a.ahead:
			return 1
		}
		return cmp.Or(a.info.Time.Compare(b.info.Time), strings.Compare(a.dir, b.dir))
	})
	return all, nil
}

// newest is the newest backup of a list that is not of a time to come; nil = there is none.
func newest(all []copied) *copied {
	if len(all) == 0 || all[len(all)-1].ahead {
		return nil
	}
	return &all[len(all)-1]
}

// tidy removes what a process that has ended has left of its own: copies that it was making,
// and backups that it was removing. Of other logs nothing is touched.
func tidy(dir string, log conversation.LogID) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		if name, ok := strings.CutSuffix(e.Name(), removing); ok && e.IsDir() && named(name) && ofLog(path, log) {
			errs = append(errs, store.RemoveBackup(path, log))
		}
		name, ok := strings.CutSuffix(e.Name(), begun)
		if !ok || !named(name) {
			continue
		}
		if whose, err := os.ReadFile(path); err != nil || strings.TrimSpace(string(whose)) != string(log) {
			continue
		}
		err := os.RemoveAll(filepath.Join(dir, name+writing))
		if err == nil {
			err = os.Remove(path)
		}
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

// ofLog is true for what is left of a backup of log, and for what is left of one that does
// not even say any more that it is one.
func ofLog(dir string, log conversation.LogID) bool {
	info, err := store.ReadBackup(dir)
	return err == nil && (info == nil || info.Log == log)
}

// tries is how many names in a row may have been taken by others.
const tries = 100

// begin finds a name that nobody has, from that of at on, and says beside it whose copy it is
// going to be: of servers that share the directory several may begin in one second.
func begin(dir string, at time.Time, log conversation.LogID) (dest string, err error) {
	for range tries {
		dest = filepath.Join(dir, at.UTC().Format(nameFormat))
		if err = take(dest, log); !errors.Is(err, fs.ErrExist) {
			break
		}
		at = at.Add(time.Second)
	}
	return dest, err
}

// take is fs.ErrExist if somebody has dest, makes it, or has left something of it.
func take(dest string, log conversation.LogID) error {
	if _, err := os.Lstat(dest + writing); err == nil {
		return fs.ErrExist
	}
	f, err := os.OpenFile(dest+begun, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(string(log) + "\n")
	// Not synced, it could be empty after a power failure, beside a copy that is there.
	err = errors.Join(err, f.Sync(), f.Close(), syncDir(filepath.Dir(dest)))
	// Somebody may have ended it, long ago or just now.
	if _, missing := os.Lstat(dest); err == nil && missing == nil {
		err = fs.ErrExist
	}
	if err != nil {
		_ = os.Remove(dest + begun)
	}
	return err
}

// syncDir makes the names in dir durable.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// end says that no copy for dest is being made any more.
func end(dest string) {
	if _, err := os.Lstat(dest + writing); errors.Is(err, fs.ErrNotExist) {
		_ = os.Remove(dest + begun) // what is left of it the next tidy removes
	}
}

// Report is what doctor wants to know of a directory.
type Report struct {
	Kept  int       // whole backups
	Ahead int       // those of them that are of a time to come
	Last  time.Time // of the newest other one; zero = none
	Bytes int64     // of that one
	Free  uint64    // bytes of the disk; 0 = not known
}

// Look looks at the directory of a schedule of log, "" = of any, and changes nothing. An error
// is why no backup could be made there.
func Look(s Settings, log conversation.LogID, now time.Time) (Report, error) {
	all, err := list(s.Dir, log, now, func(string, error) {})
	if err != nil {
		return Report{}, err
	}
	r := Report{Kept: len(all), Free: store.Free(s.Dir)}
	for r.Ahead < r.Kept && all[r.Ahead].ahead {
		r.Ahead++
	}
	if last := newest(all); last != nil {
		r.Last, r.Bytes = last.info.Time, last.info.Bytes
	}
	return r, store.Writable(s.Dir)
}
