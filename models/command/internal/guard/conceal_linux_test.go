package guard

import (
	"testing"

	"golang.org/x/sys/unix"
)

// what the server's own environment and memory hold is not there below /proc for
// the agents of its user.
func TestServerIsConcealed(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 1, 0, 0, 0); err != nil { // other tests conceal it, too
		t.Fatal(err)
	}
	if _, err := Start(Command{Path: "/", Dir: "/"}); err == nil {
		t.Error("a directory was started")
	}
	if now, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0); err != nil || now != 0 {
		t.Errorf("processes of the same user may read it: %d, %v", now, err)
	}
}
