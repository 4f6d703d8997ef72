//go:build race

package link

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestMain starts the tests anew with a race detector that leaves out what is in known_races.txt:
// it reads its options once, before anything runs. The actor library sets the log of gRPC,
// which all nodes of a process share and which gRPC does not guard, whenever a node starts.
// That is the library's, and harms nobody; all else is to be found.
func TestMain(m *testing.M) {
	if strings.Contains(os.Getenv("GORACE"), "suppressions=") {
		os.Exit(m.Run())
	}
	known, err := filepath.Abs("testdata/known_races.txt")
	if err != nil {
		panic(err)
	}
	program, err := os.Executable()
	if err != nil {
		panic(err)
	}
	panic(syscall.Exec(program, os.Args, append(os.Environ(), "GORACE="+os.Getenv("GORACE")+" suppressions='"+known+"'")))
}
