package member

import (
	"context"
	"errors"
	"fmt"
	"time"

	"parley/conversation"
)

// Info is what a member says of itself.
type Info struct {
	conversation.Member
	Address  string // host:port where other members reach it (cluster.advertise)
	Sessions bool   // it runs sessions; false = a gateway only
	Version  string // of the program, for people
	Feature  Feature
	Draining bool // it gives its sessions up and takes no more
	Owned    int  // sessions in its memory
}

// Feature numbers what can be written so that only newer programs can read it. A member
// says the highest number that it can read; a member writes a thing only when the
// lowest number of all living members says that all can read it. What needs one is said in
// the package's comment.
type Feature uint32

// Peer is a member as the others see it.
type Peer struct {
	Info
	Silent time.Duration // since its last sign of life, by the clock of the list
	Left   time.Duration // until it is dead, if it stays silent; 0 = it is
	Dead   bool          // its lease has run out
}

// List is the members as of one moment.
type List struct {
	Members []Peer // ordered by node; the caller is among them
	Log     conversation.LogID
	Feature Feature // the lowest of those that are not dead
}

// ErrDeposed says that the member is not in the list any more, or that a later run of its
// node is: it must end, and write nothing more.
var ErrDeposed = errors.New("this node was removed from the cluster, or has been started again elsewhere")

// TooOldError says that a program cannot read what the members of the cluster may have
// written: they have all known a higher feature than it does, if only for a moment. It is
// an ErrDeposed, for the node must end and write nothing more, and a conversation.ErrTooNew.
type TooOldError struct {
	Known, Needed Feature
}

func (e *TooOldError) Error() string {
	return fmt.Sprintf("newer programs may have written what this one cannot read: they know feature %d, and this one %d; use a newer version", e.Needed, e.Known)
}

// Is makes it an ErrDeposed and a conversation.ErrTooNew.
func (e *TooOldError) Is(target error) bool {
	return target == ErrDeposed || target == conversation.ErrTooNew
}

// ErrOtherCluster says, beside a *conversation.OwnedError, that the owner is a member of a cluster
// of another name on the same database: it is not in the list, and cannot be asked.
var ErrOtherCluster = errors.New("its owner is of another cluster on the same database (cluster.name)")

// Table is the list of the members of one cluster. Its methods may be called from any
// goroutine; an error that is not ErrDeposed or the context's says that the list
// cannot be reached now.
//
// The table remembers the highest List.Feature that it has given out: something may have been
// written that needs it. Who knows a lower one cannot join, nor renew its lease after it was
// dead, and gets a *TooOldError.
type Table interface {
	// Join puts a node into the list with the next incarnation, which replaces one
	// that is there. Its lease begins now; a member that does not Renew for so long is dead.
	Join(ctx context.Context, who Info, lease time.Duration) (conversation.Member, error)

	// Renew begins the lease anew and brings the list up to date with who. After the
	// list was out of reach for all of them, nobody is Dead before it has been back
	// for one lease.
	Renew(ctx context.Context, who Info) (List, error)

	// Leave takes a member out. One that is not there is no error.
	Leave(ctx context.Context, who conversation.Member) error
}
