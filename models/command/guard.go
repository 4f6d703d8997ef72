package command

import (
	"io"
	"os"
	"os/exec"
	"strconv"
)

// guard ends a process group when this server has ended without doing so: killed,
// or out of memory. It is a shell that only reads what the server writes. The
// server's end of the pipe closes with the server, whatever ends it.
type guard struct {
	cmd      *exec.Cmd
	line     *os.File // to the shell
	watching bool
}

// guardShell is there wherever an agent has something to start its tools with.
const guardShell = "/bin/sh"

// guardScript reads the group's number, then waits for the word that the group has
// gone. If its input ends before that word, the server has ended.
const guardScript = `trap '' HUP INT QUIT TERM; read -r group || exit 0; read -r gone || kill -s KILL -- "-$group"`

// startGuard starts a guard that has nothing to watch yet.
func startGuard() (*guard, error) {
	r, w, err := os.Pipe() // no child inherits w: one that did would keep it open
	if err != nil {
		return nil, err
	}
	cmd := exec.Command(guardShell, "-c", guardScript)
	cmd.Env = []string{} // it needs none of the server's, which may hold secrets
	cmd.Stdin, cmd.SysProcAttr = r, ownGroup()
	err = cmd.Start()
	_ = r.Close() // the shell has its own
	if err != nil {
		_ = w.Close()
		return nil, err
	}
	return &guard{cmd: cmd, line: w}, nil
}

// watch tells the guard which group it ends with the server.
func (g *guard) watch(group int) {
	g.watching = true
	g.tell(strconv.Itoa(group))
}

// release ends the guard: the group has gone, or was never there.
func (g *guard) release() {
	if g.watching {
		g.tell("gone")
	}
	_ = g.line.Close()
	_ = g.cmd.Wait() // how it ended changes nothing
}

// tell writes a line. A guard that somebody has killed hears nothing any more.
func (g *guard) tell(word string) { _, _ = io.WriteString(g.line, word+"\n") }
