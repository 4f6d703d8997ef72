package ondisk

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// The files of the store beside Pebble's.
const (
	LockFile    = "LOCK"
	PIDFile     = "PID"
	BallastFile = "BALLAST"
	SyncedFile  = "SYNCED"
	SyncedNew   = "SYNCED.new" // SYNCED while it is being written

	auditFile   = "audit.log" // what administrators did, and closed files of it
	auditBefore = "audit-"
	acmeDir     = "acme"      // certificates of the server and their keys
	keysFile    = "keys.toml" // whose keys clients have; they may be made before the store is
)

// Kind says what a directory holds.
type Kind uint8

// The kinds of directories.
const (
	Nothing Kind = iota // absent, empty, or the beginning of a store that was never finished
	Foreign             // something else
	Store               // a database of Pebble's
)

// Damage is what makes a store unusable as it is.
type Damage struct {
	File string
	What string
}

func (d *Damage) Error() string { return d.File + " " + d.What }

// A NumberedFile is a file of Pebble's with the number in its name.
type NumberedFile struct {
	Name string
	Num  uint64
	Size int64
}

// Listing is what the names in a directory say.
type Listing struct {
	Kind     Kind
	Names    []string
	Format   uint64       // the version of Pebble's formats; 0 = not said yet
	Manifest NumberedFile // the one that the markers name; no name if there is none
	Tables   []NumberedFile
	Logs     []NumberedFile // by number
	Debris   []string       // of Pebble's, where Kind is Nothing
}

// Has says whether there is a file of that name.
func (l *Listing) Has(name string) bool { return slices.Contains(l.Names, name) }

// History is what is known about a directory beside its listing.
type History uint8

// What may be known.
const (
	Unknown    History = iota
	Unfinished         // a store was being made there, and nothing was ever stored
	Finished           // there was a whole store
)

// Look lists a directory and says what it holds. It refuses a store whose markers
// do not name one manifest and one version of the formats.
func Look(fs vfs.FS, dir string, known History) (*Listing, error) {
	names, err := fs.List(dir)
	if errors.Is(err, os.ErrNotExist) {
		return &Listing{}, nil
	}
	if err != nil {
		return nil, err
	}
	slices.Sort(names)
	l := &Listing{Names: names}
	var manifests, formats markers
	data, unknown, legacy, readme := false, false, false, false
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, "."), slices.Contains([]string{"lost+found", LockFile, PIDFile, BallastFile, SyncedFile, SyncedNew}, name):
			continue
		case name == auditFile, strings.HasPrefix(name, auditBefore), name == keysFile, name == acmeDir: // the gateway's
			continue
		case name == ReadmeFile: // ours beside a store, somebody's where it is alone
			readme = true
			continue
		case strings.HasPrefix(name, "marker."):
			err := errors.Join(manifests.add(name, "manifest"), formats.add(name, "format-version"))
			if err != nil {
				return nil, err
			}
		case name == "CURRENT":
			legacy = true
		case strings.HasPrefix(name, "MANIFEST-"), strings.HasPrefix(name, "OPTIONS-"), strings.HasSuffix(name, ".dbtmp"):
		default:
			file, kind, err := numbered(fs, dir, name)
			if err != nil {
				return nil, err
			}
			switch kind {
			case ".log":
				l.Logs = append(l.Logs, file)
				data = data || file.Size > 0
			case ".sst", ".blob":
				l.Tables = append(l.Tables, file)
				data = true
			default:
				unknown = true
				continue
			}
		}
		l.Debris = append(l.Debris, name)
	}
	slices.SortFunc(l.Logs, func(a, b NumberedFile) int { return int(int64(a.Num) - int64(b.Num)) })
	switch {
	case known == Unfinished && len(l.Tables) == 0:
		return l, nil
	case known != Finished && len(manifests) == 0 && len(formats) == 0 && (legacy || unknown || readme && !data):
		l.Kind = Foreign
		return l, nil
	case known != Finished && !data && len(manifests) == 0 && len(formats) == 0:
		return l, nil
	}
	l.Kind, l.Debris = Store, nil
	return l, l.readMarkers(fs, dir, manifests, formats, data || known == Finished)
}

// readMarkers takes from the markers what they say: the format first, since a newer
// program may name its manifests otherwise. Only a store that holds data
// must have its format's: it is the last that the making of a store writes.
func (l *Listing) readMarkers(fs vfs.FS, dir string, manifests, formats markers, whole bool) error {
	if len(formats) > 0 || whole {
		value, err := formats.current()
		if err != nil {
			return err
		}
		if l.Format, err = strconv.ParseUint(value, 10, 32); err != nil || l.Format == 0 {
			return &Damage{"marker.format-version", "names no version: " + strconv.Quote(value)}
		}
	}
	name, err := manifests.current()
	if err != nil {
		return err
	}
	num, ok := ManifestNumber(name)
	if !ok {
		return &Damage{"marker.manifest", "names no manifest: " + strconv.Quote(name)}
	}
	for _, m := range manifests {
		if other, ok := ManifestNumber(m.value); m.value != name && (!ok || other >= num) {
			return &Damage{m.file, fmt.Sprintf("contradicts another marker, which names %s", name)}
		}
	}
	stat, err := fs.Stat(fs.PathJoin(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return &Damage{name, "is missing"}
	}
	if err != nil {
		return err
	}
	l.Manifest = NumberedFile{Name: name, Num: num, Size: stat.Size()}
	return nil
}

// ManifestNumber reads the number in the name of a manifest.
func ManifestNumber(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, "MANIFEST-")
	num, err := strconv.ParseUint(digits, 10, 64)
	return num, ok && err == nil
}

// MarkedManifest reads the number of the manifest that a marker of this name names.
func MarkedManifest(name string) (uint64, bool) {
	rest, ok := strings.CutPrefix(name, "marker.manifest.")
	_, manifest, found := strings.Cut(rest, ".")
	if !ok || !found {
		return 0, false
	}
	return ManifestNumber(manifest)
}

// LogNumber reads the number in the name of a log.
func LogNumber(name string) (uint64, bool) {
	digits, ok := strings.CutSuffix(name, ".log")
	num, err := strconv.ParseUint(digits, 10, 64)
	return num, ok && err == nil
}

// numbered reads a name like 000012.log; the kind is "" if it is none.
func numbered(fs vfs.FS, dir, name string) (file NumberedFile, kind string, err error) {
	digits, kind, ok := strings.Cut(name, ".")
	num, parseErr := strconv.ParseUint(digits, 10, 64)
	kind = "." + kind
	if !ok || parseErr != nil || !slices.Contains([]string{".log", ".sst", ".blob"}, kind) {
		return NumberedFile{}, "", nil
	}
	stat, err := fs.Stat(fs.PathJoin(dir, name))
	if err != nil {
		return NumberedFile{}, "", err
	}
	return NumberedFile{Name: name, Num: num, Size: stat.Size()}, kind, nil
}

// A marker is an empty file whose name holds a value: marker.NAME.ITERATION.VALUE.
// A new value is a new file with the next iteration, made before the old one is
// removed, so a crash may leave both.
type marker struct {
	file, value string
	iteration   uint64
}

type markers []marker

// add takes the file in if it is a marker of that name.
func (m *markers) add(file, name string) error {
	parts := strings.SplitN(file, ".", 4)
	if len(parts) != 4 {
		return &Damage{file, "is not a marker"}
	}
	if parts[1] != name {
		return nil
	}
	n, err := strconv.ParseUint(parts[2], 10, 64)
	if err != nil {
		return &Damage{file, "is not a marker"}
	}
	*m = append(*m, marker{file: file, value: parts[3], iteration: n})
	return nil
}

// current is the value of the newest marker.
func (m markers) current() (string, error) {
	if len(m) == 0 {
		return "", &Damage{"the marker file", "that names the manifest or the format is missing (marker.manifest.*, marker.format-version.*: copies must keep empty files)"}
	}
	newest := slices.MaxFunc(m, func(a, b marker) int { return int(int64(a.iteration) - int64(b.iteration)) })
	for _, other := range m {
		if other.iteration == newest.iteration && other.file != newest.file {
			return "", &Damage{other.file, "contradicts " + newest.file}
		}
	}
	return newest.value, nil
}
