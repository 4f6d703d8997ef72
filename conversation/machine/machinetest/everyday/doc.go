// Package everyday holds conversations as people have them: two or three messages in quick
// succession, alike or not, in six languages, each with its answer. Tests and benchmarks of
// receipts play them with models of many kinds.
package everyday
