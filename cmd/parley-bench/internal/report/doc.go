// Package report writes what was measured as tables in Markdown: of each figure the
// least, the median and the greatest of the rounds, and how the medians of one run
// compare.
package report
