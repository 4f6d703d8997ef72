// Package findable keeps what can be found of sessions: a search.Index, under the keys of each
// session, so that an erasure takes it along in its own batch.
//
// It is written behind the commits, by whoever reads the logs for it: one batch for each news,
// which is not synced. The log of writes keeps the order, so that after a crash it is not ahead
// of what was read for it.
package findable
