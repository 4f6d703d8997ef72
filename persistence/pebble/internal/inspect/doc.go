// Package inspect decides, from the files of a directory alone, whether there is a
// store that may be opened, and what opening it would lose.
//
// Directory looks at the markers, reads the manifest and the logs that count, and
// compares them with the lengths that had been synced (package synced). What it
// refuses is what Pebble would take for another state than the one that was left.
// ADR 12 has the rules and why they are so.
//
// Rules:
//   - Nothing is written.
//   - Damage is refused where it is sure; where a power failure may leave the same,
//     Findings say how many bytes are lost.
//   - Errors are *OpenError, *ondisk.Damage, or the file system's; Explain makes an
//     *OpenError of each.
//
// persistence/pebble calls it before it opens a directory for writing or reading.
// It owns no goroutine.
package inspect
