package rooms

import (
	"slices"
	"strings"
)

// Split gives every sample's value of a kind ("cpu/nanoseconds") to a room; ok is
// false if the profile has no such kind.
func (p *Profile) Split(kind string) (byRoom map[string]int64, ok bool) {
	i := slices.Index(p.Types, kind)
	if i < 0 {
		return nil, false
	}
	byRoom = map[string]int64{}
	for _, s := range p.Samples {
		if v := s.Values[i]; v != 0 {
			byRoom[RoomOf(s.Stack)] += v
		}
	}
	return byRoom, true
}

// The rooms that are no package of ours.
const (
	collector = "runtime: garbage collector"
	scheduler = "runtime: scheduler"
	other     = "other"
)

// A mark is a function, by the beginning of its name, that puts a stack into a room.
type mark struct{ function, room string }

// calls are the calls of the system, the most exact first.
var calls = []mark{
	{"syscall.fdatasync", "system: sync of the log"},
	{"golang.org/x/sys/unix.Fdatasync", "system: sync of the log"},
	{"syscall.Fdatasync", "system: sync of the log"},
	{"syscall.fsync", "system: sync of the log"},
	{"syscall.write", "system: write"},
	{"syscall.writev", "system: write"},
	{"golang.org/x/sys/unix.writev", "system: write"},
	{"syscall.read", "system: read"},
	{"runtime.futex", "runtime: threads sleep and wake"},
	{"runtime.epollwait", "runtime: waiting for sockets"},
	{"internal/runtime/syscall.EpollWait", "runtime: waiting for sockets"},
	{"internal/runtime/syscall/linux.EpollWait", "runtime: waiting for sockets"},
	{"runtime.netpoll", "runtime: waiting for sockets"},
	{"runtime.usleep", "runtime: threads sleep and wake"},
}

// collecting are what the garbage collector runs in, its own goroutines and others'.
var collecting = []mark{
	{"runtime.gcBgMarkWorker", collector}, {"runtime.gcAssistAlloc", collector}, {"runtime.bgsweep", collector}, {"runtime.bgscavenge", collector},
	{"runtime.gcStart", collector}, {"runtime.gcMarkTermination", collector}, {"runtime.deductSweepCredit", collector},
}

// libraries are those with a line of their own. The store's engine has some, because
// most of its time is there.
var libraries = []mark{
	{"github.com/cockroachdb/pebble/v2/internal/arenaskl.", "Pebble: memory table"},
	{"github.com/cockroachdb/pebble/v2/record.", "Pebble: log"},
	{"github.com/cockroachdb/pebble/v2/wal.", "Pebble: log"},
	{"github.com/cockroachdb/pebble/v2.(*DB).flush", "Pebble: flushes and compactions"},
	{"github.com/cockroachdb/pebble/v2.(*DB).compact", "Pebble: flushes and compactions"},
	{"github.com/cockroachdb/pebble/v2/sstable", "Pebble: tables"},
	{"github.com/cockroachdb/pebble/", "Pebble: else"},
	{"github.com/asynkron/protoactor-go/", "actor library"},
	{"github.com/prometheus/", "metrics"},
}

// background are those of a whole goroutine, wherever in it the time goes.
var background = []mark{
	{"github.com/cockroachdb/pebble/v2.(*DB).flush", "Pebble: flushes and compactions"},
	{"github.com/cockroachdb/pebble/v2.(*DB).compact", "Pebble: flushes and compactions"},
}

// RoomOf is the room of a stack of functions, the innermost first.
func RoomOf(stack []string) string {
	for _, marks := range [][]mark{collecting, calls, background} {
		for _, m := range marks {
			if slices.ContainsFunc(stack, func(f string) bool { return strings.HasPrefix(f, m.function) }) {
				return whose(m.room, stack)
			}
		}
	}
	if room := owner(stack); room != "" {
		return room
	}
	for _, f := range stack {
		switch f {
		case "runtime.schedule", "runtime.findRunnable", "runtime.mcall", "runtime.park_m", "runtime.mstart", "runtime.sysmon":
			return scheduler
		}
	}
	return other
}

// whose tells a call's file from its socket.
func whose(room string, stack []string) string {
	if room != "system: write" && room != "system: read" {
		return room
	}
	for _, f := range stack {
		switch {
		case strings.HasPrefix(f, "net.(*"):
			return room + " (sockets)"
		case strings.HasPrefix(f, "os.(*File)"):
			return room + " (files)"
		}
	}
	return room
}

// owner is the room of the innermost function that is of one.
func owner(stack []string) string {
	for _, f := range stack {
		if of, ok := strings.CutPrefix(f, "parley/"); ok {
			return room(of)
		}
		if strings.HasPrefix(f, "main.") {
			return "cmd/parley"
		}
		for _, l := range libraries {
			if strings.HasPrefix(f, l.function) {
				return l.room
			}
		}
	}
	return ""
}

// room is the package of a function, its internal ones counted to the one above them.
func room(function string) string {
	function, _, _ = strings.Cut(function, "[") // the types of a generic one have paths of their own
	slash := strings.LastIndexByte(function, '/') + 1
	name, _, _ := strings.Cut(function[slash:], ".")
	path := function[:slash] + name
	path, _, _ = strings.Cut(path, "/internal/")
	return path
}
