package scaling

import (
	"cmp"
	"math"
	"slices"
)

// Load is what users do.
type Load struct {
	Sessions float64 // in memory: with a socket, or used in the last minutes
	Sockets  float64 // each follows one session
	Turns    float64 // a second
	Streams  bool    // a real model, whose answers are shown while they come
}

// perTurn is the processor time of a turn in µs, with one follower.
func (l Load) perTurn() float64 {
	if !l.Streams {
		return turnCPU.value
	}
	shown := callTime.value / shownEvery.value
	return turnCPU.value + shown*deliverCPU.value + streamCPU.value*1000
}

// Need is what a load takes.
type Need struct {
	Cores       float64
	Memory      float64 // GB
	LogMB       float64 // a second
	DiskGBADay  float64 // that stays
	NetworkMB   float64 // a second, to clients
	RunningNow  float64 // calls of a model at the same time
	MergeShare  float64 // of one core, by the goroutine that works alone
	Transaction float64 // commits a second, for a store that does not merge
}

func (l Load) need() Need {
	running := 0.0
	bytes := outBytes.value
	if l.Streams {
		running = l.Turns * callTime.value
		bytes += callTime.value / shownEvery.value * deltaBytes
	}
	live := (l.Sockets*socketBytes.value + l.Sessions*sessionIdle.value*spare.value + running*callMemory.value*spare.value) * 1e3
	return Need{
		Cores:       l.Turns * l.perTurn() / 1e6 / busy.value,
		Memory:      fixedMemory.value + live/1e9,
		LogMB:       l.Turns * logBytes.value / 1e6,
		DiskGBADay:  l.Turns * keptBytes.value * 86400 / 1e9,
		NetworkMB:   l.Turns * bytes / 1e6,
		RunningNow:  running,
		MergeShare:  l.Turns * mergeCPU.value / 1e6,
		Transaction: l.Turns * commits.value,
	}
}

// deltaBytes is a frame of streamed text: its envelope and some words.
const deltaBytes = 180

// limit is the most turns a second that one resource of a node allows.
type limit struct {
	resource string
	turns    float64
}

// mergersOf is how many goroutines merge commits on so many cores: what
// persistence/pebble does (internal/group).
func mergersOf(cores float64) float64 { return max(1, math.Floor(cores/4)) }

// limits of one node with so many cores and so many goroutines that merge commits,
// the lowest first.
func limits(cores, mergers float64, streams bool) []limit {
	l := Load{Streams: streams}
	bytes := Load{Turns: 1e6, Streams: streams}.need().NetworkMB                                 // of one turn
	locked := func(times constant) float64 { return 1e9 / (times.value * lockTime.value) * 0.5 } // half: a queue before it
	all := []limit{
		{"all cores", cores * busy.value * 1e6 / l.perTurn()},
		{"the goroutines that merge commits", mergers * serialBusy.value * 1e6 / mergeCPU.value},
		{"the goroutines that wait for syncs", mergers * serialBusy.value * 1e6 / finishCPU.value},
		{"the disk: log, flushes and compactions", diskSpeed.value * 1e6 / (logBytes.value + keptBytes.value*rewriting.value)},
		{"lock of the pool of goroutines", locked(poolLocks)},
		{"lock of the senders", locked(senderLocks)},
		{"lock of admission", locked(slotLocks)},
		{"the network card", netSpeed.value * 1e9 / bytes},
	}
	slices.SortFunc(all, func(a, b limit) int { return cmp.Compare(a.turns, b.turns) })
	return all
}

// latency is the least time of a turn in ms: two commits, each of which waits for half
// a sync that is under way and for its own.
func latency(sync float64) float64 { return commits.value * 1.5 * sync / 1000 }

// round keeps two digits: more would claim more than is known.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	digits := math.Pow(10, math.Floor(math.Log10(math.Abs(v)))-1)
	return math.Round(v/digits) * digits
}
