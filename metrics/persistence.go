package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// Persistence holds the collectors of the store. The codes of CommitErrors are fenced,
// conflict, duplicate, full, closed, cancelled and unknown.
type Persistence struct {
	CommitSeconds prometheus.Histogram     // from the call to durable
	CommitEvents  prometheus.Histogram     // the batch size: events in one commit
	WrittenKeys   prometheus.Counter       // keys that batches set or delete
	WritesPerSync prometheus.Histogram     // what one sync made durable
	CommitErrors  *prometheus.CounterVec   // code
	Duplicates    *prometheus.CounterVec   // kind: part, message
	Reads         *prometheus.CounterVec   // op
	ReadSeconds   *prometheus.HistogramVec // op
	QuotaRefused  *prometheus.CounterVec   // limit: sessions_per_tenant, stored_bytes_per_tenant
	LostBytes     prometheus.Gauge         // of the log, at the last start
	Backups       *prometheus.CounterVec   // result: ok, failed
	BackupTime    prometheus.Gauge         // of the last one that succeeded
	BackupSeconds prometheus.Gauge         // of the same one

	store *storeCollector
	pools *pools
	read  func(op string) read
}

// read are the collectors of one operation.
type read struct {
	n    prometheus.Counter
	took prometheus.Observer
}

// Read counts a read that began then, and ends now.
func (p *Persistence) Read(op string, begun time.Time) {
	r := p.read(op)
	r.n.Inc()
	r.took.Observe(time.Since(begun).Seconds())
}

// NewPersistence makes the store's metrics and registers them.
func NewPersistence(r prometheus.Registerer) *Persistence {
	f := newFactory(r, "parley_store_")
	p := &Persistence{
		CommitSeconds: f.histogram("commit_seconds", "Time of a successful commit, from the call until it is durable.", []float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 10}),
		CommitEvents:  f.histogram("commit_events", "Events in a successful commit.", []float64{0, 1, 2, 4, 8, 16, 32, 64, 128}),
		WrittenKeys:   f.counter("written_keys_total", "Keys that batches of writes set or deleted: each is one insert into the memory table."),
		WritesPerSync: f.histogram("writes_per_sync", "Commits, acquisitions and erasures that one sync made durable together.", []float64{1, 2, 4, 8, 16, 32, 64, 128, 256}),
		CommitErrors:  f.counters("commit_errors_total", "Commits that failed, by reason.", "code=fenced|conflict|duplicate|full|closed|cancelled|unknown"),
		Duplicates:    f.counters("duplicates_total", "Commits refused because a key was stored already, by the key's kind.", "kind=part|message"),
		Reads:         f.counters("reads_total", "Reads of the store, by operation.", "op"),
		ReadSeconds:   f.histograms("read_seconds", "Time of a read of the store, by operation; of records, of the first page.", []float64{.00001, .00005, .0001, .00025, .0005, .001, .0025, .005, .01, .05, .25, 1, 5}, "op"),
		QuotaRefused:  f.counters("quota_refused_total", "Refusals because a tenant has stored as much as it may, by limit.", "limit=sessions_per_tenant|stored_bytes_per_tenant"),
		LostBytes:     f.gauge("lost_bytes", "Bytes at the end of the log that this start could not read after a power failure; 0 = none."),
		Backups:       f.counters("backups_total", "Backups of the running store, by result; one that was refused is failed.", "result=ok|failed"),
		BackupTime:    f.gauge("backup_last_success_timestamp_seconds", "When the last backup was made; 0 if none since the start."),
		BackupSeconds: f.gauge("backup_last_success_seconds", "How long the last backup took, reading it back included."),
		store:         &storeCollector{},
	}
	p.read = lazily(func(op string) read { return read{p.Reads.WithLabelValues(op), p.ReadSeconds.WithLabelValues(op)} })
	p.pools = newPools(r)
	if d, ok := r.(describer); ok {
		for _, m := range storeMetrics {
			d.describe(m.name, m.word, m.help, m.labels)
		}
	}
	r.MustRegister(p.store)
	return p
}

// BackedUp counts a backup.
func (p *Persistence) BackedUp(ok bool, at time.Time, took time.Duration) {
	if !ok {
		p.Backups.WithLabelValues("failed").Inc()
		return
	}
	p.Backups.WithLabelValues("ok").Inc()
	p.BackupTime.Set(float64(at.UnixMilli()) / 1000)
	p.BackupSeconds.Set(took.Seconds())
}

// Watch shows the numbers of an open embedded store with every scrape; ok =
// false leaves them out. stop must be called before the store goes away. Stores
// of one process are watched one at a time: the last one counts.
func (p *Persistence) Watch(stats func() (s StoreStats, ok bool)) (stop func()) {
	w := &watched{stats: stats}
	p.store.mu.Lock()
	p.store.now = w
	p.store.mu.Unlock()
	return func() {
		p.store.mu.Lock()
		defer p.store.mu.Unlock()
		if p.store.now == w {
			p.store.now = nil
		}
	}
}

// StoreStats is the state of an embedded store at one moment, without a word of
// the engine behind it.
type StoreStats struct {
	Fsync             Distribution // seconds
	WALBytesIn        uint64       // bytes that commits brought
	WALBytesWritten   uint64       // bytes that went to the log files
	WALFiles          int64
	LevelBytes        []int64 // by level, from 0
	LevelFiles        []int64
	ReadAmplification int
	CompactionDebt    uint64 // bytes
	Compactions       int64
	Flushes           int64
	MemTableBytes     uint64
	BlockCacheBytes   int64
	BlockCacheHits    int64
	BlockCacheMisses  int64
	FilterHits        int64
	FilterMisses      int64
	WriteStalls       int64
	WriteStallSeconds float64
	BackgroundErrors  int64
	Heads             int64  // sessions whose head is kept in memory
	DiskFree          uint64 // bytes; 0 with DiskKnown = false
	DiskKnown         bool
	SoftFree          uint64 // the watermarks, bytes; 0 = off
	HardFree          uint64
	DiskState         int // 0 ok, 1 below soft, 2 below hard
	Healthy           bool
}

// Distribution is a histogram as it was read.
type Distribution struct {
	Count   uint64
	Sum     float64
	Buckets map[float64]uint64 // cumulative, by upper bound
}

type watched struct {
	stats func() (StoreStats, bool)
}

type storeCollector struct {
	mu  sync.Mutex
	now *watched
}

// storeMetrics are all of them, as docs/METRICS.md has them.
var storeMetrics []described

func storeDesc(kind, name, help string, labels ...string) *prometheus.Desc {
	d := described{"parley_store_" + name, kind, help, labels}
	storeMetrics = append(storeMetrics, d)
	return prometheus.NewDesc(d.name, d.help, labelNames(d.labels), nil)
}

var (
	descFsync       = storeDesc("histogram", "wal_fsync_seconds", "Time of a write-ahead log sync.")
	descWALBytes    = storeDesc("counter", "wal_bytes_total", "Bytes brought to (in) and written to (written) the write-ahead log.", "dir=in|written")
	descWALFiles    = storeDesc("gauge", "wal_files", "Live write-ahead log files.")
	descLevelBytes  = storeDesc("gauge", "level_bytes", "Bytes of table files, by level.", "level=0|1|2|3|4|5|6")
	descLevelFiles  = storeDesc("gauge", "level_files", "Table files, by level.", "level=0|1|2|3|4|5|6")
	descReadAmp     = storeDesc("gauge", "read_amplification", "Tables that a read may have to look at.")
	descDebt        = storeDesc("gauge", "compaction_debt_bytes", "Bytes that wait to be compacted.")
	descCompactions = storeDesc("counter", "compactions_total", "Compactions.")
	descFlushes     = storeDesc("counter", "flushes_total", "Memory tables written to disk.")
	descMemTable    = storeDesc("gauge", "memtable_bytes", "Bytes of memory tables.")
	descCacheBytes  = storeDesc("gauge", "block_cache_bytes", "Bytes in the block cache.")
	descCache       = storeDesc("counter", "block_cache_requests_total", "Look-ups in the block cache, by result.", "result=hit|miss")
	descFilter      = storeDesc("counter", "filter_requests_total", "Questions to bloom filters, by result; a hit saved a read.", "result=hit|miss")
	descStalls      = storeDesc("counter", "write_stalls_total", "Times that writes had to wait for flushes or compactions.")
	descStallTime   = storeDesc("counter", "write_stall_seconds_total", "Time that writes had to wait for flushes or compactions.")
	descBackground  = storeDesc("counter", "background_errors_total", "Failed flushes and compactions; they are tried again.")
	descHeads       = storeDesc("gauge", "heads", "Sessions whose head is kept in memory.")
	descFree        = storeDesc("gauge", "disk_free_bytes", "Free space where the store lives.")
	descWatermark   = storeDesc("gauge", "disk_watermark_bytes", "Free space below which commands (soft) or all commits (hard) are refused; 0 = off.", "watermark=soft|hard")
	descDiskState   = storeDesc("gauge", "disk_state", "0 = enough space, 1 = below the soft watermark, 2 = below the hard one.")
	descHealthy     = storeDesc("gauge", "healthy", "1 = the store works, 0 = it reported a failure that needs a person.")
)

// Describe implements prometheus.Collector.
func (c *storeCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		descFsync, descWALBytes, descWALFiles, descLevelBytes, descLevelFiles, descReadAmp, descDebt,
		descCompactions, descFlushes, descMemTable, descCacheBytes, descCache, descFilter, descStalls,
		descStallTime, descBackground, descHeads, descFree, descWatermark, descDiskState, descHealthy,
	} {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *storeCollector) Collect(ch chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock() // a store that stops being watched waits for a scrape to end
	if c.now == nil {
		return
	}
	s, ok := c.now.stats()
	if !ok {
		return
	}
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	counter := func(d *prometheus.Desc, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
	}
	ch <- prometheus.MustNewConstHistogram(descFsync, s.Fsync.Count, s.Fsync.Sum, s.Fsync.Buckets)
	counter(descWALBytes, float64(s.WALBytesIn), "in")
	counter(descWALBytes, float64(s.WALBytesWritten), "written")
	gauge(descWALFiles, float64(s.WALFiles))
	for level := range s.LevelBytes {
		gauge(descLevelBytes, float64(s.LevelBytes[level]), strconv.Itoa(level))
		gauge(descLevelFiles, float64(s.LevelFiles[level]), strconv.Itoa(level))
	}
	gauge(descReadAmp, float64(s.ReadAmplification))
	gauge(descDebt, float64(s.CompactionDebt))
	counter(descCompactions, float64(s.Compactions))
	counter(descFlushes, float64(s.Flushes))
	gauge(descMemTable, float64(s.MemTableBytes))
	gauge(descCacheBytes, float64(s.BlockCacheBytes))
	counter(descCache, float64(s.BlockCacheHits), "hit")
	counter(descCache, float64(s.BlockCacheMisses), "miss")
	counter(descFilter, float64(s.FilterHits), "hit")
	counter(descFilter, float64(s.FilterMisses), "miss")
	counter(descStalls, float64(s.WriteStalls))
	counter(descStallTime, s.WriteStallSeconds)
	counter(descBackground, float64(s.BackgroundErrors))
	gauge(descHeads, float64(s.Heads))
	if s.DiskKnown {
		gauge(descFree, float64(s.DiskFree))
	}
	gauge(descWatermark, float64(s.SoftFree), "soft")
	gauge(descWatermark, float64(s.HardFree), "hard")
	gauge(descDiskState, float64(s.DiskState))
	healthy := 0.0
	if s.Healthy {
		healthy = 1
	}
	gauge(descHealthy, healthy)
}
