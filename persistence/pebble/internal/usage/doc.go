// Package usage knows how much each tenant has stored, and says when that is too much.
//
// What a session counts for stands in its head. Start adds these up in the background, as
// they were when the store was opened; what changes from then on is added as it happens.
// Until the sum is there nothing is refused. Sessions of before the count (Stored 0) count
// by what their tables take on the disk, about.
//
// persistence/pebble owns it. Start begins one goroutine, which Close ends; all of it may
// be used from any.
package usage
