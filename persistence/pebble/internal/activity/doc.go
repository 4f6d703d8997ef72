// Package activity reads the list of root sessions by their last activity, table 03
// of the layout: newest first for people, oldest first for retention.
//
// persistence/pebble calls it with a snapshot. It owns no goroutine.
package activity
