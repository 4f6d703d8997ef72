// Package ownline keeps the lines that the server itself writes for a model apart from the
// lines of texts that others wrote: no text can forge one.
package ownline
