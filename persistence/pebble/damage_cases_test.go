package pebble

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/persistence/pebble/internal/ondisk"
)

// filesOf lists the files of a kind, by name.
func filesOf(dir, kind string) (names []string) {
	for name := range fileSizes(dir) {
		if fileKind(name) == kind {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// change rewrites the newest file of a kind; it is not changed if change says nil.
func change(dir, kind string, change func(b []byte) []byte) bool {
	names := filesOf(dir, kind)
	if len(names) == 0 {
		return false
	}
	path := filepath.Join(dir, names[len(names)-1])
	b, err := os.ReadFile(path)
	must(err)
	if b = change(b); b == nil {
		return false
	}
	must(errors.Join(os.Remove(path), os.WriteFile(path, b, 0o600)))
	return true
}

// cut leaves a part of the newest file of a kind.
func cut(kind string, part float64) func(dir string) bool {
	return func(dir string) bool {
		return change(dir, kind, func(b []byte) []byte { return b[:int(float64(len(b))*part)] })
	}
}

// chunks are the places of the chunks in a log: behind each there is a header with
// checksum, length, type, the log's number, and the length that was synced.
func chunks(log []byte) (at []int) {
	for i := 0; i+19 <= len(log); {
		if left := 32<<10 - i%(32<<10); left < 11 {
			i += left
			continue
		}
		kind := log[i+6]
		if kind < 5 || kind > 12 {
			return at
		}
		at = append(at, i)
		i += 11 + int(binary.LittleEndian.Uint16(log[i+4:]))
		if kind >= 9 {
			i += 8
		}
	}
	return at
}

// flipChunk turns a bit of the chunk that is so far from the log's end.
func flipChunk(fromEnd, at int) func(dir string) bool {
	return func(dir string) bool {
		return change(dir, "log", func(b []byte) []byte {
			c := chunks(b)
			if len(c) <= fromEnd {
				return nil
			}
			b[c[len(c)-1-fromEnd]+at] ^= 1
			return b
		})
	}
}

// remove deletes the newest file of a kind.
func remove(kind string) func(dir string) bool {
	return func(dir string) bool {
		names := filesOf(dir, kind)
		if len(names) == 0 {
			return false
		}
		must(os.Remove(filepath.Join(dir, names[len(names)-1])))
		return true
	}
}

// all does one thing after the other; it is one damage if each of them is.
func all(damages ...func(dir string) bool) func(dir string) bool {
	return func(dir string) bool {
		for _, d := range damages {
			if !d(dir) {
				return false
			}
		}
		return true
	}
}

func anotherBoot(dir string) bool { otherBoot(dir); return true }

func syncedZeroed(dir string) bool {
	must(os.WriteFile(filepath.Join(dir, ondisk.SyncedFile), make([]byte, 4096), 0o600))
	return true
}

// syncedGone makes the store one of a program from before there was this file.
func syncedGone(dir string) bool {
	must(os.Remove(filepath.Join(dir, ondisk.SyncedFile)))
	return true
}

// previousManifest makes the marker name the manifest of the life before.
func previousManifest(dir string) bool {
	manifests := filesOf(dir, "manifest")
	if len(manifests) < 2 {
		return false
	}
	is, was := manifests[len(manifests)-1], manifests[len(manifests)-2]
	for _, marker := range filesOf(dir, "marker") {
		if front, ok := strings.CutSuffix(marker, is); ok {
			must(os.Rename(filepath.Join(dir, marker), filepath.Join(dir, front+was)))
		}
	}
	return true
}

// damageOnPurpose does what chance would hardly find: the damages of which a store
// knows the least.
func damageOnPurpose(t *testing.T, stores []*damagedStore) {
	twice := &damagedStore{Age: "twice", Dir: filepath.Join(t.TempDir(), "twice"), Acked: map[int]conversation.Seq{}}
	for range 2 { // two lives that were closed, each with commits
		twice.stop(t, []int{0, 1, 2, 3}, testOptions(t), pebble.Sync, 100, nothing)
	}
	stores = append(slices.Clone(stores), twice)
	if testing.Short() {
		stores = slices.DeleteFunc(stores, func(s *damagedStore) bool { return s.Age != "old" && s.Age != "twice" })
	}
	for _, c := range []struct {
		name   string
		damage func(dir string) bool
	}{
		{"nothing but a power failure", anotherBoot},
		{"the marker names the manifest before", previousManifest},
		{"the manifest ends with a whole record", func(dir string) bool { return change(dir, "manifest", withoutLastRecord) }},
		{"the same after a power failure", func(dir string) bool {
			return anotherBoot(dir) && change(dir, "manifest", withoutLastRecord)
		}},
		{"the last chunk of the log flipped", flipChunk(0, 25)},
		{"the tenth chunk from the end flipped", flipChunk(9, 25)},
		{"its log number flipped, so that it looks like the log's end", flipChunk(9, 7)},
		{"the log cut", cut("log", 0.9)},
		{"the log cut to nothing", cut("log", 0)},
		{"the log gone", remove("log")},
		{"power failure, and the tenth chunk from the end flipped", all(anotherBoot, flipChunk(9, 25))},
		{"power failure, and its log number flipped", all(anotherBoot, flipChunk(9, 7))},
		{"power failure, and the log cut", all(anotherBoot, cut("log", 0.9))},
		{"power failure, and the log cut to nothing", all(anotherBoot, cut("log", 0))},
		{"power failure, and the log gone", all(anotherBoot, remove("log"))},
		{"power failure, and the manifest cut", all(anotherBoot, cut("manifest", 0.8))},
		// Two files at once, of which one is that of the synced lengths.
		{"SYNCED zeroed, and the log cut", all(syncedZeroed, cut("log", 0.9))},
		{"SYNCED zeroed, and the log gone", all(syncedZeroed, remove("log"))},
		{"SYNCED gone, and a log number flipped", all(syncedGone, flipChunk(9, 7))},
	} {
		for _, s := range stores {
			dir := filepath.Join(t.TempDir(), "store")
			v := s.tryWith(dir, c.damage)
			if testing.Verbose() {
				t.Logf("%s, %s store: %s: %s", c.name, s.Age, v.End, strings.ReplaceAll(v.Why, "\n", "; "))
			}
			if v.End == "silent" || len(v.Faults) > 0 {
				t.Errorf("%s, %s store: %s %q: %s", c.name, s.Age, v.End, v.Faults, v.Why)
			}
			must(os.RemoveAll(dir))
		}
	}
}

// withoutLastRecord takes the last chunk off a manifest: what is left looks whole.
func withoutLastRecord(manifest []byte) []byte {
	last := 0
	for at := 0; at+7 <= len(manifest); at += 7 + int(binary.LittleEndian.Uint16(manifest[at+4:])) {
		last = at
	}
	return manifest[:last]
}
