package inspect

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/layout"
	"parley/persistence/pebble/internal/ondisk"
	"parley/persistence/pebble/internal/synced"
)

// Findings are what a directory shows before Pebble sees it.
type Findings struct {
	Listing  *ondisk.Listing
	Manifest ondisk.Manifest
	Logs     []ondisk.NumberedFile // those that count

	Marks  *synced.State // nil: there are none, or they cannot be read
	Unsure bool          // they are there and cannot be read: a loss at the end of a log may not be seen
	// certain: the lengths in marks are exact. The store was closed in order, or the
	// machine has run ever since, so that what a process wrote is there.
	certain bool
	left    bool // the process before did not close the store, and power may have failed

	Ends  map[synced.File]int64 // how much of each file can be read
	Meta  map[string][]byte     // what the logs say under the keys of table 00
	Some  bool                  // the logs hold at least one record
	Lost  int64                 // bytes at the end of a file that cannot be read
	Where string                // that file
}

// Directory reads all that Pebble would read to open a store, but the tables, and
// refuses what Pebble would take for another state than the one that was left.
// left says that a process may have had the directory until the power failed.
func Directory(fs vfs.FS, dir, boot string, format uint64, left bool) (*Findings, error) {
	f := &Findings{left: left, Ends: map[synced.File]int64{}, Meta: map[string][]byte{}}
	marks, err := synced.Read(fs, dir)
	if err != nil && !errors.Is(err, synced.ErrDamaged) {
		return nil, err
	}
	f.Unsure = err != nil
	known := ondisk.Unknown
	if marks != nil {
		known = ondisk.Finished
		if marks.Phase == synced.Creating {
			known = ondisk.Unfinished
		}
	}
	if err == nil && marks != nil { // damaged ones say no more than that there was a store
		f.Marks = marks
		f.certain = marks.Phase == synced.Closed || boot != "" && marks.Boot == boot
		f.left = marks.Phase == synced.Running
	}
	if f.Listing, err = ondisk.Look(fs, dir, known); err != nil && f.Listing == nil {
		return nil, err
	}
	if f.Listing.Format > format {
		return nil, TooNew(dir, "format", f.Listing.Format, format)
	}
	if err != nil {
		return nil, err
	}
	switch f.Listing.Kind {
	case ondisk.Foreign:
		return nil, Foreign(dir)
	case ondisk.Store:
		err = errors.Join(readable(fs, dir, f.Listing.Tables), f.readManifest(fs, dir))
		if err == nil {
			err = f.readLogs(fs, dir)
		}
	}
	return f, err
}

// readable opens each file once: what cannot be read must be known before
// anything is changed.
func readable(fs vfs.FS, dir string, files []ondisk.NumberedFile) error {
	for _, file := range files {
		path := fs.PathJoin(dir, file.Name)
		f, err := fs.Open(path)
		if errors.Is(err, os.ErrPermission) {
			return &OpenError{Dir: dir, Reason: OpenPermission, Err: err, Sentence: fmt.Sprintf(
				"cannot read %s: permission denied, running as uid %d", path, os.Getuid())}
		}
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	return nil
}

// mark is how much of a file was synced, as far as that is known.
func (f *Findings) mark(file synced.File) (length int64, known bool) {
	if f.Marks == nil {
		return 0, false
	}
	length, known = f.Marks.Files[file]
	return length, known
}

func (f *Findings) readManifest(fs vfs.FS, dir string) error {
	of := f.Listing.Manifest
	m, err := ondisk.ReadManifest(fs, fs.PathJoin(dir, of.Name))
	if err != nil {
		return err
	}
	f.Manifest = m
	file := synced.File{Type: synced.Manifest, Num: of.Num}
	f.Ends[file] = m.Tail.End
	f.Ends[synced.File{Type: synced.Marker, Num: of.Num}] = 0
	if f.Marks != nil && f.Marks.Named() > of.Num {
		return &ondisk.Damage{File: "marker.manifest", What: fmt.Sprintf("names %s, an older manifest than it did", of.Name)}
	}
	mark, known := f.mark(file)
	switch {
	case m.Records == 0, known && m.Tail.End < mark:
		return &ondisk.Damage{File: of.Name, What: fmt.Sprintf("cannot be read from byte %d on", m.Tail.End)}
	case m.Comparer != ondisk.Comparer:
		return Foreign(dir)
	case known || !m.Tail.Broken:
		return nil // what is not intact was never synced
	case m.Tail.Begun, f.certain, !f.left: // each record is synced before the next one begins
		return &ondisk.Damage{File: of.Name, What: fmt.Sprintf("is damaged at byte %d", m.Tail.End)}
	}
	f.Lost, f.Where = m.Tail.Lost(), of.Name
	return nil
}

func (f *Findings) readLogs(fs vfs.FS, dir string) error {
	for _, log := range f.Listing.Logs {
		if log.Num >= f.Manifest.FirstLog {
			f.Logs = append(f.Logs, log)
		}
	}
	if f.Marks != nil {
		for file, length := range f.Marks.Files {
			there := slices.ContainsFunc(f.Logs, func(log ondisk.NumberedFile) bool { return log.Num == file.Num })
			if file.Type == synced.Log && file.Num >= f.Manifest.FirstLog && length > ondisk.TrailerSize && !there {
				return &ondisk.Damage{File: fmt.Sprintf("%06d.log", file.Num), What: fmt.Sprintf("is missing, with %d bytes of acknowledged data", length)}
			}
		}
	}
	for i, log := range f.Logs {
		tail, err := ondisk.ReadLog(fs, fs.PathJoin(dir, log.Name), log.Num, f.record)
		if err != nil {
			return err
		}
		f.Ends[synced.File{Type: synced.Log, Num: log.Num}] = tail.End
		if err := f.judge(log, tail, i == len(f.Logs)-1); err != nil {
			return err
		}
	}
	return nil
}

// judge decides what the end of a log means. The rules are in ADR 12.
func (f *Findings) judge(log ondisk.NumberedFile, t ondisk.Tail, last bool) error {
	mark, known := f.mark(synced.File{Type: synced.Log, Num: log.Num})
	missing := known && mark-t.End > ondisk.TrailerSize
	lost := max(t.Lost(), mark-t.End)
	refused := &ondisk.Damage{File: log.Name, What: fmt.Sprintf("is damaged at byte %d: %d bytes of acknowledged data cannot be read", t.End, lost)}
	switch {
	case t.Proven, !last && !t.Closed:
		return refused
	case known && f.certain && !missing, !missing && !t.Broken:
		return nil
	case f.certain, !f.left: // nothing but damage leaves such an end
		return refused
	}
	f.Lost, f.Where = lost, log.Name
	return nil
}

// record takes from a record of a log what it says under the keys of table 00.
func (f *Findings) record(record []byte) error {
	header, ok := batchrepr.ReadHeader(record)
	if !ok {
		return &ondisk.Damage{File: "the log", What: "holds a record that is not a batch"}
	}
	f.Some = f.Some || header.Count > 0
	for r := batchrepr.Read(record); ; {
		kind, key, value, ok, err := r.Next()
		if err != nil {
			return &ondisk.Damage{File: "the log", What: "holds a batch that cannot be read"}
		}
		if !ok {
			return nil
		}
		if len(key) > 0 && key[0] == layout.TableMeta && kind == pebble.InternalKeyKindSet {
			f.Meta[string(key)] = slices.Clone(value)
		}
	}
}

// BootID names the machine's start: files that a killed process wrote are there as
// long as it is the same. "" where the system does not say.
func BootID(fs vfs.FS) string {
	if vfs.Root(fs) != vfs.Default {
		return ""
	}
	b, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
