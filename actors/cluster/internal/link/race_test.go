//go:build race

package link

// The actor library sets the log of gRPC, which all nodes of a process share, whenever one
// starts: with several nodes in one process the detector finds that first.
const underRace = true
