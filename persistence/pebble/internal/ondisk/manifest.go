package ondisk

import (
	"encoding/binary"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Comparer is the name of Pebble's default order of keys, which the store uses.
const Comparer = "leveldb.BytewiseComparator"

// Manifest is what a manifest says, as far as it can be read.
type Manifest struct {
	Tail     Tail
	Records  int
	Comparer string
	FirstLog uint64 // the lowest number of a log that still counts
}

// The fields that each record of a manifest begins with, if it has them.
const (
	tagComparer = 1
	tagFirstLog = 2
)

// ReadManifest reads a manifest.
func ReadManifest(fs vfs.FS, path string) (Manifest, error) {
	var m Manifest
	tail, err := readChunks(fs, path, 0, false, func(record []byte) error {
		m.Records++
		m.edit(record)
		return nil
	})
	m.Tail = tail
	return m, err
}

// edit takes from a record the two fields that are looked at: they come first.
func (m *Manifest) edit(b []byte) {
	tag, n := binary.Uvarint(b)
	if n > 0 && tag == tagComparer {
		b = b[n:]
		size, n := binary.Uvarint(b)
		if n <= 0 || size > uint64(len(b)-n) {
			return
		}
		end := n + int(size)
		m.Comparer, b = string(b[n:end]), b[end:]
	}
	tag, n = binary.Uvarint(b)
	if n <= 0 || tag != tagFirstLog {
		return
	}
	if log, ok := binary.Uvarint(b[n:]); ok > 0 {
		m.FirstLog = log
	}
}

// ReadLog reads a log and hands out each whole record of its intact beginning; a
// record is valid until take returns.
func ReadLog(fs vfs.FS, path string, number uint64, take func(record []byte) error) (Tail, error) {
	return readChunks(fs, path, number, true, take)
}
