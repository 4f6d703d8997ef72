//go:build unix

package guard

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// A guard that dies before it has read what it is to start, as one for which the system
// has no thread, fails the start, however long the command's arguments are.
func TestGuardThatDiesAtOnce(t *testing.T) {
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip("NOT RUN: there is no program true")
	}
	before := self
	self = program
	t.Cleanup(func() { self = before })
	var files [3]*os.File
	for i := range files {
		if files[i], err = os.Open(os.DevNull); err != nil {
			t.Fatal(err)
		}
	}
	long := strings.Repeat("x", 100<<10)
	if _, err := Start(Command{Path: program, Args: []string{"true", long, long}, Files: files}); err == nil || !strings.Contains(err.Error(), "the guard has ended") {
		t.Errorf("the start says %v", err)
	}
}

// The number of a command that has ended may be given to another process of the same run,
// whose end is then reported as the command's once more.
func TestEndIsToldOnce(t *testing.T) {
	var pipes [4]*os.File
	var err error
	for i := 0; i < len(pipes) && err == nil; i += 2 {
		pipes[i], pipes[i+1], err = os.Pipe()
	}
	if err != nil {
		t.Fatal(err)
	}
	program, err := exec.LookPath("true")
	if err != nil {
		t.Skip("NOT RUN: there is no program true")
	}
	g := &Guard{Ended: make(chan struct{}), Gone: make(chan struct{}), orders: pipes[1], reports: json.NewDecoder(pipes[2]), process: exec.Command(program)}
	if err := g.process.Start(); err != nil {
		t.Fatal(err)
	}
	out := json.NewEncoder(pipes[3])
	for _, r := range []report{{reportEnded, 0}, {reportEnded, 9}, {reportGone, 0}} {
		if err := out.Encode(r); err != nil {
			t.Fatal(err)
		}
	}
	_, _ = pipes[3].Close(), pipes[0].Close()
	g.listen(pipes[2])
	if !g.Exit.Succeeded() {
		t.Errorf("the end is %s", g.Exit)
	}
}
