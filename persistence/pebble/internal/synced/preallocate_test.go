package synced

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// reserving notes what room its files are given.
type reserving struct {
	vfs.FS
	room []int64 // up to where, in MiB
}

type reservingFile struct {
	vfs.File
	fs *reserving
}

func (r *reserving) Create(path string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := r.FS.Create(path, category)
	return &reservingFile{f, r}, err
}

func (f *reservingFile) Preallocate(offset, length int64) error {
	f.fs.room = append(f.fs.room, (offset+length)>>20)
	return nil
}

// A log takes room as it grows, and never more than was asked for; other files are
// given what is asked for.
func TestLogsTakeRoomInSteps(t *testing.T) {
	r := &reserving{FS: vfs.NewMem()}
	if err := r.MkdirAll("store", 0o700); err != nil {
		t.Fatal(err)
	}
	fs, err := Start(r, "store", State{Phase: Running, Files: map[File]int64{}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = fs.Close(false) }()
	for _, c := range []struct {
		name   string
		asked  int64 // MiB
		writes int   // of 1 MiB
		want   []int64
	}{
		{"000004.log", 141, 0, []int64{1}},
		{"000005.log", 141, 1, []int64{1}},
		{"000006.log", 141, 2, []int64{1, 2}},
		{"000007.log", 141, 50, []int64{1, 2, 4, 8, 16, 32, 48, 64}},
		{"000008.log", 6, 10, []int64{1, 2, 4, 6}},
		{"MANIFEST-000009", 5, 10, []int64{5}},
	} {
		r.room = nil
		f, err := fs.Create("store/"+c.name, vfs.WriteCategoryUnspecified)
		if err != nil {
			t.Fatal(err)
		}
		if err := f.Preallocate(0, c.asked<<20); err != nil {
			t.Error(err)
		}
		for range c.writes {
			if _, err := f.Write(make([]byte, 1<<20)); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(r.room, c.want) {
			t.Errorf("%s of %d MiB has room up to %v, want %v", c.name, c.writes, r.room, c.want)
		}
		_ = f.Close()
	}
}
