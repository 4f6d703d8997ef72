package pebble

import (
	"context"
	"time"

	dto "github.com/prometheus/client_model/go"

	"github.com/cockroachdb/pebble/v2"

	"parley/metrics"
)

// fsyncBounds are the buckets of the log's sync times, in seconds: a tenth of the
// hundred that Pebble keeps.
var fsyncBounds = []float64{.0001, .0002, .0005, .001, .002, .005, .01, .02, .05, .1, .5, 1, 10}

// stats reads what metrics show; ok is false when the store is closed.
func (db *DB) stats() (metrics.StoreStats, bool) {
	if err := db.enter(context.Background()); err != nil {
		return metrics.StoreStats{}, false
	}
	defer db.leave()
	m := db.p.Metrics()
	s := metrics.StoreStats{
		Fsync:             fsyncTimes(m),
		WALBytesIn:        m.WAL.BytesIn,
		WALBytesWritten:   m.WAL.BytesWritten,
		WALFiles:          m.WAL.Files,
		ReadAmplification: m.ReadAmp(),
		CompactionDebt:    m.Compact.EstimatedDebt,
		Compactions:       m.Compact.Count,
		Flushes:           m.Flush.Count,
		MemTableBytes:     m.MemTable.Size,
		BlockCacheBytes:   m.BlockCache.Size,
		BlockCacheHits:    m.BlockCache.Hits,
		BlockCacheMisses:  m.BlockCache.Misses,
		FilterHits:        m.Filter.Hits,
		FilterMisses:      m.Filter.Misses,
		WriteStalls:       db.health.stalls.Load(),
		WriteStallSeconds: time.Duration(db.health.stallNanos.Load()).Seconds(),
		BackgroundErrors:  db.health.background.Load(),
		Heads:             db.cache.Count(),
		Healthy:           db.health.err() == nil,
	}
	for _, level := range m.Levels {
		s.LevelBytes = append(s.LevelBytes, level.TablesSize)
		s.LevelFiles = append(s.LevelFiles, level.TablesCount)
	}
	space := db.Space()
	s.DiskFree, s.DiskKnown, s.SoftFree, s.HardFree, s.DiskState = space.Free, space.Known, space.Soft, space.Hard, int(space.Level)
	return s, true
}

// fsyncTimes re-reads Pebble's histogram, which counts nanoseconds and is not
// registered anywhere, in seconds and with fewer buckets.
func fsyncTimes(m *pebble.Metrics) metrics.Distribution {
	d := metrics.Distribution{Buckets: map[float64]uint64{}}
	var read dto.Metric
	if m.LogWriter.FsyncLatency == nil || m.LogWriter.FsyncLatency.Write(&read) != nil {
		return d
	}
	h := read.GetHistogram()
	d.Count, d.Sum = h.GetSampleCount(), time.Duration(h.GetSampleSum()).Seconds()
	for _, bound := range fsyncBounds {
		var n uint64
		for _, b := range h.GetBucket() { // cumulative: the last one that fits
			if b.GetUpperBound() <= bound*float64(time.Second) {
				n = b.GetCumulativeCount()
			}
		}
		d.Buckets[bound] = n
	}
	return d
}
