package member

import (
	"fmt"

	"parley/conversation"
)

// The two tables of what needs which feature. 0 = nobody has given it one: it is never
// written in a cluster.

// featureOf is what a program must know to read an event: the feature of its kind, or a
// higher one if it holds a value that came later.
func featureOf(b conversation.EventBody) Feature {
	var f Feature
	if k := b.Kind(); k >= conversation.KindSessionCreated && k <= conversation.KindContextCleared {
		f = 1
	}
	return max(f, ofNext(b))
}

// featureOfSnapshot is what a program must know to read a snapshot of a version.
func featureOfSnapshot(version int) Feature {
	if version >= 1 && version <= 5 {
		return 1
	}
	return 0
}

// Readable is an error if there is an event that some member could not read: it would not
// serve the session any more after that had moved there. level is the highest feature that
// all of them know; nil = there are no others.
func Readable(events []conversation.Event, level func() Feature) error {
	if level == nil {
		return nil
	}
	known := level()
	for i := range events {
		if f := featureOf(events[i].Body); f > known || f == 0 {
			return fmt.Errorf("%s needs feature %d, and a member of the cluster knows no higher one than %d", events[i].Body.Kind(), f, known)
		}
	}
	return nil
}

// Snapshotter makes snapshots of one version.
type Snapshotter interface {
	SnapshotVersion() int
	Snapshot() ([]byte, error)
}

// Snapshot is a snapshot of s; nil if some member could not use it. The log is as good
// without, and what the others wrote last stays.
func Snapshot(s Snapshotter, level func() Feature) ([]byte, error) {
	if level != nil {
		if f := featureOfSnapshot(s.SnapshotVersion()); f == 0 || f > level() {
			return nil, nil
		}
	}
	return s.Snapshot()
}
