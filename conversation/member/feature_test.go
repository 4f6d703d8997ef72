package member

import (
	"errors"
	"testing"

	"parley/conversation"
)

// Every kind of event has a feature, none a higher one than this program can read, and an
// event is refused while a member does not know its feature.
func TestFeatures(t *testing.T) {
	for _, k := range conversation.EventKinds() {
		if f := featureOf(kind(k)); f == 0 || f > Newest {
			t.Errorf("%s has the feature %d; the newest is %d", k, f, Newest)
		}
	}
	if featureOf(kind(99)) != 0 {
		t.Error("a kind that does not exist has a feature")
	}
	events := []conversation.Event{{Body: conversation.SessionClosed{}}}
	for level, wrong := range map[Feature]bool{0: true, 1: false, 2: false} {
		if err := Readable(events, func() Feature { return level }); (err != nil) != wrong {
			t.Errorf("level %d: %v", level, err)
		}
	}
	if err := Readable(events, nil); err != nil {
		t.Error(err)
	}
}

// kinded is a body that is nothing but a kind.
type kinded struct {
	conversation.EventBody
	k conversation.EventKind
}

func (b kinded) Kind() conversation.EventKind { return b.k }

func kind(k conversation.EventKind) kinded { return kinded{k: k} }

type snapshots int

func (v snapshots) SnapshotVersion() int    { return int(v) }
func (snapshots) Snapshot() ([]byte, error) { return []byte("a snapshot"), nil }

// A snapshot that some member could not use is not made; one of a version that nobody has
// given a feature is made for nobody but a program that is alone.
func TestSnapshotsOfAllMembers(t *testing.T) {
	at := func(f Feature) func() Feature { return func() Feature { return f } }
	for _, c := range []struct {
		version int
		level   func() Feature
		made    bool
	}{
		{4, at(1), true}, {4, at(2), true}, {4, at(0), false}, {4, nil, true}, {5, at(1), true}, {6, at(Newest), false}, {6, nil, true},
	} {
		data, err := Snapshot(snapshots(c.version), c.level)
		if err != nil || (data != nil) != c.made {
			t.Errorf("version %d: %q, %v", c.version, data, err)
		}
	}
}

func TestTooOld(t *testing.T) {
	err := error(&TooOldError{Known: 1, Needed: 2})
	if !errors.Is(err, ErrDeposed) || !errors.Is(err, conversation.ErrTooNew) || errors.Is(err, conversation.ErrFenced) {
		t.Error("a program that is too old is not deposed by what is too new for it")
	}
}
