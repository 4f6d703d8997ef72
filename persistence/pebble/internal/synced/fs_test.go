package synced

import (
	"errors"
	"maps"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

const dir = "store"

func start(t *testing.T, fs vfs.FS, s State) *FS {
	t.Helper()
	if err := fs.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if s.Files == nil {
		s.Files = map[File]int64{}
	}
	f, err := Start(fs, dir, s)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// wantFiles compares what the disk says, as a process that is killed now leaves it.
func wantFiles(t *testing.T, fs vfs.FS, want map[File]int64) {
	t.Helper()
	s, err := Read(fs, dir)
	if err != nil || s == nil || !maps.Equal(s.Files, want) {
		t.Fatalf("%+v, %v; want %v", s, err, want)
	}
}

func write(t *testing.T, f vfs.File, n int) {
	t.Helper()
	if _, err := f.Write(make([]byte, n)); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, fs vfs.FS, path string) vfs.File {
	t.Helper()
	f, err := fs.Create(path, "test")
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// What is synced is known after each sync, and not before.
func TestLengths(t *testing.T) {
	fs := vfs.NewMem()
	if s, err := Read(fs, dir); s != nil || err != nil {
		t.Fatalf("%+v, %v", s, err)
	}
	f := start(t, fs, State{Phase: Running, Boot: "b"})
	log := create(t, f, dir+"/000007.log")
	wantFiles(t, fs, map[File]int64{{Log, 7}: 0})
	write(t, log, 100)
	wantFiles(t, fs, map[File]int64{{Log, 7}: 0})
	for i, sync := range []func() error{log.Sync, log.SyncData, func() error { _, err := log.SyncTo(1); return err }} {
		write(t, log, 10)
		if err := sync(); err != nil {
			t.Fatal(err)
		}
		wantFiles(t, fs, map[File]int64{{Log, 7}: min(120, 110+10*int64(i))}) // SyncTo promises nothing
	}
	manifest := create(t, f, dir+"/MANIFEST-000008")
	write(t, manifest, 30)
	if err := manifest.Sync(); err != nil {
		t.Fatal(err)
	}
	for _, other := range []string{"copy/000009.log", dir + "/000009.sst", dir + "/OPTIONS-000009"} {
		if err := fs.MkdirAll("copy", 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, create(t, f, other), 5)
	}
	wantFiles(t, fs, map[File]int64{{Log, 7}: 120, {Manifest, 8}: 30})

	// An old log is not written over: it is gone, and the new one is empty.
	fresh, err := f.ReuseForWrite(dir+"/000007.log", dir+"/000010.log", "test")
	if err != nil {
		t.Fatal(err)
	}
	if info, err := fresh.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := fs.Stat(dir + "/000007.log"); err == nil {
		t.Error("the old log is still there")
	}
	wantFiles(t, fs, map[File]int64{{Manifest, 8}: 30, {Log, 10}: 0})
	if err := f.Remove(dir + "/MANIFEST-000008"); err != nil {
		t.Fatal(err)
	}
	wantFiles(t, fs, map[File]int64{{Log, 10}: 0})
	for n := range uint64(200) { // more than there is room for at first
		if err := f.keep(File{Log, 100 + n}, int64(n)); err != nil {
			t.Fatal(err)
		}
	}
	if s, err := Read(fs, dir); err != nil || len(s.Files) != 201 || s.Files[File{Log, 299}] != 199 {
		t.Errorf("%+v, %v", s, err)
	}
	if err := f.Close(true); err != nil {
		t.Fatal(err)
	}
}

// The phases, the boot and what is owed go round.
func TestStates(t *testing.T) {
	fs := vfs.NewMem()
	for _, want := range []State{
		{Phase: Creating},
		{Phase: Running, Boot: "3c1a4d2e-0000-4000-8000-00000000abcd", Lost: 99, Files: map[File]int64{{Log, 1 << 40}: 1 << 50}},
	} {
		f := start(t, fs, want)
		s, err := Read(fs, dir)
		if err != nil || s.Phase != want.Phase || s.Boot != want.Boot || s.Lost != want.Lost || len(s.Files) != len(want.Files) {
			t.Errorf("%+v, %v; want %+v", s, err, want)
		}
		if err := f.Settle(); err != nil {
			t.Fatal(err)
		}
		if err := errors.Join(f.Close(true), f.Close(false)); err != nil {
			t.Fatal(err)
		}
		if s, err = Read(fs, dir); err != nil || s.Phase != Closed || s.Lost != 0 || s.Boot != want.Boot {
			t.Errorf("%+v, %v", s, err)
		}
	}
}

// After a power failure each length is one that was true once, and the manifest's
// and the beginnings of logs are there.
func TestLengthsAfterPowerFailure(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		fs := vfs.NewCrashableMem()
		f := start(t, fs, State{Phase: Running})
		root, err := fs.OpenDir("")
		if err := errors.Join(err, root.Sync()); err != nil {
			t.Fatal(err)
		}
		log, manifest := create(t, f, dir+"/000003.log"), create(t, f, dir+"/MANIFEST-000004")
		logs, manifests := 0, 0
		for range rng.IntN(30) {
			if rng.IntN(4) > 0 {
				write(t, log, 10)
				logs += 10
				if err := log.Sync(); err != nil {
					t.Fatal(err)
				}
				continue
			}
			write(t, manifest, 10)
			manifests += 10
			if err := manifest.Sync(); err != nil {
				t.Fatal(err)
			}
		}
		s, err := Read(fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50, RNG: rng}), dir)
		if err != nil || s == nil {
			t.Fatalf("%+v, %v", s, err)
		}
		length, there := s.Files[File{Log, 3}]
		if !there || length > int64(logs) || length%10 != 0 {
			t.Errorf("log %d, %v; wrote %d", length, there, logs)
		}
		if is := s.Files[File{Manifest, 4}]; is != int64(manifests) {
			t.Errorf("manifest %d, wrote %d", is, manifests)
		}
	}
}

// A length that cannot be written down is a sync that failed.
func TestLengthThatCannotBeWritten(t *testing.T) {
	broken := false
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken && op.Kind == errorfs.OpFileWriteAt {
			return errors.New("bad sector")
		}
		return nil
	}))
	f := start(t, fs, State{Phase: Running})
	log := create(t, f, dir+"/000003.log")
	write(t, log, 10)
	broken = true
	if err := log.SyncData(); err == nil {
		t.Error("synced, and nobody knows")
	}
}

// Any flipped bit is noticed, or is in what says nothing.
func TestDamagedState(t *testing.T) {
	fs := vfs.NewMem()
	f := start(t, fs, State{Phase: Running, Boot: "b", Files: map[File]int64{{Log, 3}: 1000, {Manifest, 4}: 50}})
	if err := f.Close(false); err != nil {
		t.Fatal(err)
	}
	in, err := fs.Open(dir + "/SYNCED")
	if err != nil {
		t.Fatal(err)
	}
	good := make([]byte, headerSize+2*slotSize)
	if _, err := in.ReadAt(good, 0); err != nil {
		t.Fatal(err)
	}
	for at := range good {
		for _, bit := range []byte{1, 0x80} {
			b := append([]byte(nil), good...)
			b[at] ^= bit
			if _, err := decode(b); !errors.Is(err, ErrDamaged) && (at < headerSize || b[at-at%slotSize] != 0) {
				t.Errorf("byte %d, bit %#x: %v", at, bit, err)
			}
		}
		if _, err := decode(good[:at]); at < headerSize && !errors.Is(err, ErrDamaged) {
			t.Errorf("cut at %d: %v", at, err)
		}
	}
}
