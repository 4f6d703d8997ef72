package pebble

import (
	"log/slog"
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"parley/conversation/option"
	"parley/metrics"
)

// Auto as a watermark lets Open choose it from the size of the disk.
const Auto = -1

// Options of a store. The zero value works: no watermarks, no ballast, defaults
// for the rest. A server starts from Defaults.
//
// The tags describe a field to the configuration: option.FieldError lists them.
type Options struct {
	Logger  *slog.Logger         // nil = silent
	Metrics *metrics.Persistence // nil = not shown

	// MemTableBytes is the size of a memory table; 0 = 64 MiB. It was measured
	// (BenchmarkStartAfterKill, and 250,000 commits of 200 sessions): two full tables are
	// what a killed process can leave in its logs, and 64 MiB of table take half a second
	// to read again, 128 MiB a whole one. A commit costs as much processor time with
	// 64 MiB as with 128 MiB, 8 % more with 32 MiB, 40 % more with 16 MiB: flushes and
	// compactions come more often.
	// The tables grow on demand: an idle store holds a few hundred KiB. At most a
	// 64th of the disk, so that one can be written below the hard watermark.
	MemTableBytes int64 `key:"storage.mem_table" min:"1" unit:"bytes"`
	CacheBytes    int64 `key:"storage.cache" min:"1" unit:"bytes"` // block cache; 0 = 64 MiB
	Heads         int   `key:"storage.heads" min:"1"`              // sessions whose head is kept in memory for the next commit; 0 = 16384

	// SoftFree and HardFree are the disk watermarks, in bytes of free space.
	// Below SoftFree commits that are not Inner are refused with ErrFull, below
	// HardFree all are. 0 = off. Auto: SoftFree is max(512 MiB, 8 memory tables),
	// but at most a tenth of the disk; HardFree is a quarter of SoftFree.
	SoftFree int64 `key:"storage.soft_free" min:"0" unit:"bytes" auto:"-1"`
	HardFree int64 `key:"storage.hard_free" min:"0" unit:"bytes" auto:"-1"`

	// The most that one tenant may store; 0 = no limit. Sessions are root sessions.
	SessionsPerTenant    int64 `key:"limits.sessions_per_tenant" min:"0"`
	StoredBytesPerTenant int64 `key:"limits.stored_bytes_per_tenant" min:"0" unit:"bytes"`

	// Ballast is the size of a file that is given up when the disk is full all
	// the same, so that what is in memory can still be written; 0 = none. At most
	// a hundredth of the disk. Only where the file system can reserve space.
	Ballast int64 `key:"storage.ballast" min:"0" unit:"bytes"`

	// CheckEvery is the time between two checks of the free space; 0 = 1 s.
	CheckEvery time.Duration `key:"storage.check_every" min:"1ms"`

	// Tombstones is how long the id of an erased session stays taken, so that nothing
	// that is late for it makes it again: the next session of its name has another
	// id. 0 = for ever.
	Tombstones time.Duration `key:"storage.tombstones" min:"0s"`

	// ErasePause is the least time from one rewriting of tables that held erased
	// text to the next; 0 = 50 s. One that follows a pause comes within seconds.
	ErasePause time.Duration

	// Committers is how many goroutines join commits, each for a part of the sessions; 0 =
	// one for every four processors.
	Committers int

	// OpenWait is how long Open waits for a disk that takes no tables; 0 = 1 minute.
	OpenWait time.Duration

	// FreeSpace reads free and total bytes of the disk that dir is on; nil asks
	// the operating system.
	FreeSpace func(dir string) (free, total uint64, err error)

	// OnFatal is called, from whatever goroutine saw it, when a commit can no
	// longer be made durable. It must not return in a server: the default logs
	// and exits with status 1, and the supervisor starts a process that replays
	// what is on disk. If it returns, every later call fails.
	OnFatal func(error)
}

// The defaults where Options say 0.
const (
	defaultMemTable   = 64 << 20
	defaultCache      = 64 << 20
	defaultHeads      = 16384
	defaultCheckEvery = time.Second
	defaultOpenWait   = time.Minute
)

// Defaults are the options of a server: nothing in them is 0 that has a default.
func Defaults() Options {
	return Options{
		MemTableBytes: defaultMemTable, CacheBytes: defaultCache, Heads: defaultHeads,
		SoftFree: Auto, HardFree: Auto, Ballast: 64 << 20, CheckEvery: defaultCheckEvery, OpenWait: defaultOpenWait,
		Tombstones: 30 * 24 * time.Hour,
	}
}

// Validate says which options contradict each other.
func (o Options) Validate() []option.FieldError {
	if o.SoftFree >= 0 && o.HardFree > o.SoftFree {
		return []option.FieldError{{Key: "storage.hard_free", AtMost: "storage.soft_free"}}
	}
	return nil
}

func (o Options) filled() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Metrics == nil {
		o.Metrics = metrics.NewPersistence(prometheus.NewRegistry())
	}
	if o.MemTableBytes <= 0 {
		o.MemTableBytes = defaultMemTable
	}
	if o.CacheBytes <= 0 {
		o.CacheBytes = defaultCache
	}
	if o.Heads <= 0 {
		o.Heads = defaultHeads
	}
	if o.CheckEvery <= 0 {
		o.CheckEvery = defaultCheckEvery
	}
	if o.OpenWait <= 0 {
		o.OpenWait = defaultOpenWait
	}
	if o.OnFatal == nil {
		o.OnFatal = func(error) { os.Exit(1) }
	}
	return o
}
