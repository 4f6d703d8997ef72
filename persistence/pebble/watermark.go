package pebble

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

// SpaceState says how much of the disk is left.
type SpaceState uint8

// The states of the disk.
const (
	SpaceOK   SpaceState = iota // or not watched
	SpaceSoft                   // below the soft watermark: commands from outside are refused
	SpaceHard                   // below the hard one: every commit is refused
)

func (s SpaceState) String() string {
	return [...]string{"ok", "soft", "hard"}[s]
}

// Space is the state of the disk at the guard's last check.
type Space struct {
	Free, Total uint64 // bytes
	Soft, Hard  uint64 // the watermarks, bytes; 0 = off
	State       SpaceState
	Known       bool // free space could be read
}

// guard reads free space and decides what may still be written. A full disk must
// be noticed before Pebble does: its flushes would fail without end and its
// writers block without end.
type guard struct {
	log   *slog.Logger
	read  func() (free, total uint64, err error)
	every time.Duration

	ballastFS   vfs.FS // not the one that reports a full disk
	ballastPath string
	ballastSize uint64
	ballastMu   sync.Mutex
	ballastHere bool

	soft, hard  uint64 // set once by first
	free, total atomic.Uint64
	known       atomic.Bool
	state       atomic.Uint32
	unread      limit

	stop chan struct{}
	done chan struct{}
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

// first reads the disk, sets the watermarks and makes the ballast. It returns the
// size of memory tables that suits the disk.
func (g *guard) first(o Options) (memTable int64) {
	free, total, err := g.read()
	memTable = o.MemTableBytes
	if total > 0 {
		memTable = min(memTable, max(1<<20, int64(total/64)))
	}
	g.soft, g.hard = watermarks(o.SoftFree, o.HardFree, memTable, total)
	if errors.Is(err, vfs.ErrUnsupported) {
		g.soft, g.hard = 0, 0
	}
	g.ballastSize = min(uint64(max(o.Ballast, 0)), total/100)
	g.see(free, total, err)
	return memTable
}

// start begins to watch.
func (g *guard) start() {
	g.stop, g.done = make(chan struct{}), make(chan struct{})
	go func() {
		defer close(g.done)
		tick := time.NewTicker(g.every)
		defer tick.Stop()
		for {
			select {
			case <-g.stop:
				return
			case <-tick.C:
				g.check()
			}
		}
	}()
}

func (g *guard) close() {
	close(g.stop)
	<-g.done
}

// check reads the disk once.
func (g *guard) check() {
	free, total, err := g.read()
	g.see(free, total, err)
}

func (g *guard) see(free, total uint64, err error) {
	if err != nil {
		// The last known state stays: an unreadable number is no reason to start
		// refusing commands, nor to accept them again after the disk was full.
		if n, ok := g.unread.take(time.Now()); ok {
			g.log.Debug("free disk space cannot be read", "error", err, "times", n)
		}
		return
	}
	g.free.Store(free)
	g.total.Store(total)
	g.known.Store(true)
	state := SpaceOK
	switch {
	case free < g.hard:
		state = SpaceHard
	case free < g.soft:
		state = SpaceSoft
	}
	g.enter(state)
	if state == SpaceOK {
		g.makeBallast(free)
	}
}

func (g *guard) enter(state SpaceState) {
	was := SpaceState(g.state.Swap(uint32(state)))
	if was == state {
		return
	}
	level := slog.LevelWarn
	if state == SpaceOK {
		level = slog.LevelInfo
	}
	g.log.Log(context.Background(), level, "disk space", "state", state, "was", was,
		"free_mib", g.free.Load()>>20, "soft_mib", g.soft>>20, "hard_mib", g.hard>>20)
}

// allow returns ErrFull if a commit must not be written now.
func (g *guard) allow(inner bool) error {
	state := SpaceState(g.state.Load())
	if state == SpaceOK || inner && state == SpaceSoft {
		return nil
	}
	need := g.soft
	if inner {
		need = g.hard
	}
	return fmt.Errorf("%w: %d MiB free, need %d", conversation.ErrFull, g.free.Load()>>20, need>>20)
}

// makeBallast reserves the ballast if it is not there and there is room to spare.
func (g *guard) makeBallast(free uint64) {
	g.ballastMu.Lock()
	defer g.ballastMu.Unlock()
	if g.ballastHere || g.ballastSize == 0 || free < g.soft+2*g.ballastSize {
		return
	}
	f, err := g.ballastFS.Create(g.ballastPath, vfs.WriteCategoryUnspecified)
	if err == nil {
		err = errors.Join(f.Preallocate(0, int64(g.ballastSize)), f.Close())
	}
	if err != nil {
		g.log.Debug("no ballast file", "error", err)
		return
	}
	g.ballastHere = true
}

// dropBallast is called by the file system layer when a write found no space;
// that write is tried once more afterwards. The next check decides when commits
// are taken again.
func (g *guard) dropBallast() {
	g.ballastMu.Lock()
	defer g.ballastMu.Unlock()
	if g.known.Load() {
		g.enter(SpaceHard)
	}
	if !g.ballastHere {
		return
	}
	g.ballastHere = false
	err := g.ballastFS.Remove(g.ballastPath)
	g.log.Error("the disk is full: the ballast file was given up", "mib", g.ballastSize>>20, "error", err)
}

func (g *guard) space() Space {
	return Space{
		Free: g.free.Load(), Total: g.total.Load(), Soft: g.soft, Hard: g.hard,
		State: SpaceState(g.state.Load()), Known: g.known.Load(),
	}
}
