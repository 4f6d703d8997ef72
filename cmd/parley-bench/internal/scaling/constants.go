package scaling

// A source says where a number comes from.
type source string

const (
	measured source = "measured" // on 2 cores of a virtual machine, which server and clients share
	assumed  source = "assumed"  // of machines and people that nobody has measured here
)

// constant is one number of the model.
type constant struct {
	value float64
	unit  string
	from  source
	what  string
	how   string
}

// The constants. Whoever measures anew changes them here, and rewrites the document's
// tables with `go test ./cmd/parley-bench/internal/scaling -rewrite`.
var (
	turnCPU     = constant{125, "µs", measured, "processor time of a turn, all rooms", "`make bench`, 200 clients"}
	mergeCPU    = constant{24, "µs", measured, "of it in the goroutine that merges commits and gives them to Pebble", "CPU profile: `group.(*Committer).apply`"}
	sessionCPU  = constant{60, "µs", measured, "of it in the sessions' mailboxes: decisions (15), filling the commit, telling followers (8), the transcript (6)", "CPU profile: `actors.(*session).Receive`"}
	sendCPU     = constant{12.5, "µs", measured, "of it in writes to sockets", "CPU profile: `gateway/ws.(*conn).send`"}
	readCPU     = constant{12, "µs", measured, "of it in reading sockets and commands", "CPU profile: `gateway/ws.(*conn).read`"}
	logCPU      = constant{6, "µs", measured, "of it in Pebble's log writer, another goroutine that works alone", "CPU profile: `record.(*LogWriter).flushLoop`"}
	modelCPU    = constant{6, "µs", measured, "of it in the scripted model", "CPU profile: `modelcall.Start.func1`"}
	finishCPU   = constant{4, "µs", measured, "of it in the goroutine that waits for syncs and tells the sessions", "CPU profile: `group.(*Committer).finish`"}
	commits     = constant{2, "", measured, "commits of a turn", "`make bench`, counts"}
	keys        = constant{12.1, "", measured, "keys that a turn writes", "`make bench`, counts"}
	logBytes    = constant{1780, "B", measured, "bytes of the write-ahead log a turn", "`make bench`, counts"}
	keptBytes   = constant{400, "B", measured, "bytes of a turn on the disk later: 7 events and their indexes, compressed", "30,000 turns, then a stop: size of `*.sst`"}
	syncTime    = constant{540, "µs", measured, "a sync of the log on this disk", "`parley_store_wal_fsync_seconds`, quiet machine"}
	poolLocks   = constant{10.1, "", measured, "times a turn takes the lock of the pool of goroutines (`actors/internal/workers`)", "each `Lock` counted, 200 clients"}
	senderLocks = constant{5.1, "", measured, "times it takes the lock of the senders (`gateway/ws`)", "the same"}
	slotLocks   = constant{2, "", measured, "times it takes the lock of admission", "the same"}
	groupLocks  = constant{2.1, "", measured, "times it takes the lock of the group of commits", "the same"}
	writes      = constant{2, "", measured, "writes to a follower's socket a turn, of 9 frames", "`make bench`, counts"}
	outBytes    = constant{2060, "B", measured, "bytes of those frames", "`parley_gateway_out_bytes_total`"}
	deliverCPU  = constant{7.6, "µs", measured, "processor time of one frame to one follower, when frames come one by one", "`make bench-peers`, paced"}
	burstCPU    = constant{0.29, "µs", measured, "the same in a burst, when one write takes many", "`make bench-peers`, burst"}
	socketBytes = constant{28, "KB", measured, "memory of an idle WebSocket that follows a session", "resident memory, 5,000 sockets"}
	sessionIdle = constant{2.5, "KB", measured, "memory of a session that waits in memory (10 ended tasks)", "`make bench`, memory"}
	fixedMemory = constant{0.4, "GB", measured, "memory of the process with its default tables and caches", "resident memory after 70,000 turns"}

	lockTime   = constant{100, "ns", assumed, "a lock held and handed on between many cores: its cache line travels", "two transfers of 40 to 60 ns"}
	busy       = constant{0.7, "", assumed, "how much of all cores may be used before latencies grow", ""}
	serialBusy = constant{0.8, "", assumed, "how much of one core may be used by a goroutine that works alone", ""}
	diskSpeed  = constant{500, "MB/s", assumed, "what a disk takes in synced sequential writes", "an NVMe disk with power-loss protection"}
	rewriting  = constant{6, "", assumed, "how often a byte is written again by flushes and compactions", ""}
	netSpeed   = constant{1.25, "GB/s", assumed, "a network card of 10 Gbit/s", ""}
	callTime   = constant{8, "s", assumed, "how long a real model answers", ""}
	shownEvery = constant{0.03, "s", assumed, "how often streamed text is shown meanwhile: the default of `model.delta_every`", ""}
	streamCPU  = constant{1.5, "ms", assumed, "processor time for reading the stream of one such answer", "not measured: the scripted model has no socket"}
	callMemory = constant{150, "KB", assumed, "memory of a call that runs: connection, buffers, request, two stacks", "not measured"}
	spare      = constant{2, "", assumed, "memory for the collector: twice what is live", "GOGC=100"}
)
