package space

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
)

// Level says how much of the disk is left.
type Level uint8

// The levels.
const (
	OK   Level = iota // or not watched
	Soft              // below the soft watermark: commands from outside are refused
	Hard              // below the hard one: every commit is refused
)

func (s Level) String() string {
	return [...]string{"ok", "soft", "hard"}[s]
}

// Space is the disk at the guard's last check.
type Space struct {
	Free, Total uint64 // bytes
	Soft, Hard  uint64 // the watermarks, bytes; 0 = off
	Level       Level
	Known       bool // free space could be read
}

// Guard reads free space and decides what may still be written.
type Guard struct {
	o           Disk
	ballastSize uint64
	ballastMu   sync.Mutex
	ballastHere bool

	soft, hard  uint64 // set once, by New
	free, total atomic.Uint64
	known       atomic.Bool
	state       atomic.Uint32

	stop chan struct{}
	done chan struct{}
}

// Disk says what is watched, and how. All are needed but Unread.
type Disk struct {
	Log   *slog.Logger
	Read  func() (free, total uint64, err error)
	Every time.Duration // between two checks
	// Unread is told when the disk could not be read; the last known state stays.
	Unread func(error)

	SoftFree, HardFree int64 // the watermarks, bytes free; 0 = off, less than 0 = by the size of the disk
	MemTable           int64 // the size of a memory table, bytes

	Ballast   int64  // bytes; 0 = none
	BallastAt string // its file
	FS        vfs.FS // for the ballast: not the one that reports a full disk
}

// watermarks computes the automatic ones for a disk.
func watermarks(soft, hard, memTable int64, total uint64) (uint64, uint64) {
	s := uint64(max(soft, 0))
	if soft < 0 {
		s = max(512<<20, 8*uint64(memTable))
		if total > 0 {
			s = min(s, total/10)
		}
	}
	h := uint64(max(hard, 0))
	if hard < 0 {
		h = s / 4
	}
	return s, h
}

// New reads the disk, sets the watermarks and makes the ballast anew: one that the
// process before has left is given up first. It also returns the size of memory
// tables that suits the disk, in bytes.
func New(o Disk) (g *Guard, memTable int64) {
	_ = o.FS.Remove(o.BallastAt)
	free, total, err := o.Read()
	memTable = o.MemTable
	if total > 0 {
		memTable = min(memTable, max(1<<20, int64(total/64)))
	}
	g = &Guard{o: o, ballastSize: min(uint64(max(o.Ballast, 0)), total/100)}
	g.soft, g.hard = watermarks(o.SoftFree, o.HardFree, memTable, total)
	if errors.Is(err, vfs.ErrUnsupported) {
		g.soft, g.hard = 0, 0
	}
	g.see(free, total, err)
	return g, memTable
}

// Start begins to watch.
func (g *Guard) Start() {
	g.stop, g.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(g.done)
		tick := time.NewTicker(g.o.Every)
		defer tick.Stop()
		for {
			select {
			case <-g.stop:
				return
			case <-tick.C:
				g.Check()
			}
		}
	}()
}

// Close ends the watching.
func (g *Guard) Close() {
	close(g.stop)
	<-g.done
}

// Check reads the disk once.
func (g *Guard) Check() {
	free, total, err := g.o.Read()
	g.see(free, total, err)
}

func (g *Guard) see(free, total uint64, err error) {
	if err != nil {
		// The last known state stays: an unreadable number is no reason to start
		// refusing commands, nor to accept them again after the disk was full.
		if g.o.Unread != nil {
			g.o.Unread(err)
		}
		return
	}
	g.free.Store(free)
	g.total.Store(total)
	g.known.Store(true)
	state := OK
	switch {
	case free < g.hard:
		state = Hard
	case free < g.soft:
		state = Soft
	}
	g.enter(state)
	if state == OK {
		g.makeBallast(free)
	}
}

func (g *Guard) enter(state Level) {
	was := Level(g.state.Swap(uint32(state)))
	if was == state {
		return
	}
	level := slog.LevelWarn
	if state == OK {
		level = slog.LevelInfo
	}
	g.o.Log.Log(context.Background(), level, "disk space", "state", state, "was", was,
		"free_mib", g.free.Load()>>20, "soft_mib", g.soft>>20, "hard_mib", g.hard>>20)
}

// Allow returns ErrFull if a commit must not be written now.
func (g *Guard) Allow(inner bool) error {
	state := Level(g.state.Load())
	if state == OK || inner && state == Soft {
		return nil
	}
	need := g.soft
	if inner {
		need = g.hard
	}
	return fmt.Errorf("%w: %d MiB free, need %d", conversation.ErrFull, g.free.Load()>>20, need>>20)
}

// makeBallast reserves the ballast if it is not there and there is room to spare.
func (g *Guard) makeBallast(free uint64) {
	g.ballastMu.Lock()
	defer g.ballastMu.Unlock()
	if g.ballastHere || g.ballastSize == 0 || free < g.soft+2*g.ballastSize {
		return
	}
	f, err := g.o.FS.Create(g.o.BallastAt, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Preallocate(0, int64(g.ballastSize)), f.Close())
	}
	if err != nil {
		g.o.Log.Debug("no ballast file", "error", err)
		return
	}
	g.ballastHere = true
}

// DropBallast is called by the file system layer when a write found no space;
// that write is tried once more afterwards. The next check decides when commits
// are taken again.
func (g *Guard) DropBallast() {
	g.ballastMu.Lock()
	defer g.ballastMu.Unlock()
	if g.known.Load() {
		g.enter(Hard)
	}
	if !g.ballastHere {
		return
	}
	g.ballastHere = false
	err := g.o.FS.Remove(g.o.BallastAt)
	g.o.Log.Error("the disk is full: the ballast file was given up", "mib", g.ballastSize>>20, "error", err)
}

// Space returns the disk as of the last check.
func (g *Guard) Space() Space {
	return Space{
		Free: g.free.Load(), Total: g.total.Load(), Soft: g.soft, Hard: g.hard,
		Level: Level(g.state.Load()), Known: g.known.Load(),
	}
}
