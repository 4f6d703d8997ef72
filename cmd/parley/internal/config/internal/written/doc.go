// Package written says how values stand in a TOML file: texts, tables, durations, sizes.
// It is pure.
package written
