// Package carry reads and writes what only goes along when a whole store is carried to
// another place: cursors, tombstones, what is attached, what sessions wait for, what channels remember, the identity of the logs. Package
// pebble calls it; it owns no goroutines.
package carry
