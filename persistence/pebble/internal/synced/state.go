package synced

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/persistence/pebble/internal/ondisk"
)

// Phase is where the store is in its life.
type Phase uint8

// The phases.
const (
	Creating Phase = 1 + iota // nothing has been stored yet
	Running                   // a process has it open, or had it and did not close it
	Closed                    // closed in order: the lengths are exact whatever happened since
)

// File identifies a log, a manifest, or the marker that names a manifest.
type File struct {
	Type FileType
	Num  uint64
}

// FileType is the type of a file whose length is kept.
type FileType uint8

// The types of files.
const (
	Log      FileType = 1
	Manifest FileType = 2
	Marker   FileType = 3 // its Num is that of the manifest; its length says nothing
)

// State is what the file says.
type State struct {
	Phase Phase
	Boot  string // the boot of the machine that the process ran in; "" = not known
	// Lost is how many bytes of a log could not be read when the store was opened,
	// as long as the store has no new identity for it.
	Lost  int64
	Files map[File]int64 // how much of each is synced
}

// The file is a header and a slot for each file. Numbers are little endian, each
// part ends with its checksum.
const (
	headerSize = 128
	slotSize   = 32
	roomSize   = 4096
	magic      = "parley: synced lengths, version 1\n"

	atPhase = 48
	atLost  = 56
	atBoot  = 64 // length and bytes
	maxBoot = headerSize - 4 - atBoot - 1
)

// Named is the newest manifest that the marker is known to have named; 0 = not known.
func (s *State) Named() uint64 {
	newest := uint64(0)
	for file := range s.Files {
		if file.Type == Marker {
			newest = max(newest, file.Num)
		}
	}
	return newest
}

// ErrDamaged says that the file is there and cannot be read.
var ErrDamaged = errors.New("is damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Read reads the state that is kept in a directory; it is nil if there is none.
func Read(fs vfs.FS, dir string) (_ *State, err error) {
	f, err := fs.Open(fs.PathJoin(dir, ondisk.SyncedFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	b, err := io.ReadAll(f)
	if err != nil {
		return nil, err
	}
	return decode(b)
}

func decode(b []byte) (*State, error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic || !whole(b[:headerSize]) {
		return nil, fmt.Errorf("%s %w", ondisk.SyncedFile, ErrDamaged)
	}
	s := &State{
		Phase: Phase(b[atPhase]), Lost: int64(binary.LittleEndian.Uint64(b[atLost:])),
		Files: map[File]int64{},
	}
	s.Boot = string(b[atBoot+1 : atBoot+1+min(int(b[atBoot]), maxBoot)])
	for b = b[headerSize:]; len(b) >= slotSize; b = b[slotSize:] {
		slot := b[:slotSize]
		if slot[0] == 0 {
			continue
		}
		if !whole(slot) {
			return s, fmt.Errorf("%s %w", ondisk.SyncedFile, ErrDamaged)
		}
		file := File{FileType(slot[0]), binary.LittleEndian.Uint64(slot[8:])}
		s.Files[file] = int64(binary.LittleEndian.Uint64(slot[16:]))
	}
	return s, nil
}

func whole(b []byte) bool {
	n := len(b) - 4
	return crc32.Checksum(b[:n], castagnoli) == binary.LittleEndian.Uint32(b[n:])
}

func seal(b []byte) []byte {
	n := len(b) - 4
	binary.LittleEndian.PutUint32(b[n:], crc32.Checksum(b[:n], castagnoli))
	return b
}

func (s *State) header() []byte {
	b := make([]byte, headerSize)
	copy(b, magic)
	b[atPhase] = byte(s.Phase)
	binary.LittleEndian.PutUint64(b[atLost:], uint64(s.Lost))
	boot := s.Boot[:min(len(s.Boot), maxBoot)]
	b[atBoot] = byte(len(boot))
	copy(b[atBoot+1:], boot)
	return seal(b)
}

func slotOf(b *[slotSize]byte, file File, length int64) []byte {
	*b = [slotSize]byte{0: byte(file.Type)}
	binary.LittleEndian.PutUint64(b[8:], file.Num)
	binary.LittleEndian.PutUint64(b[16:], uint64(length))
	return seal(b[:])
}
