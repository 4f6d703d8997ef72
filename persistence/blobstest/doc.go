// Package blobstest is the suite that every store of what is attached to messages passes,
// and a map-backed one.
package blobstest
