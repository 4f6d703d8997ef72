// Package group joins the writes of many sessions that wait at the same time: one
// batch for Pebble, one sync for all.
//
// persistence/pebble starts Several committers when it has opened a store for writing (one
// on a machine of few cores), hands them each write with the locks of what the write
// changes, and closes them before Pebble. A Committer owns two goroutines, from Start to
// Close.
package group
