package guard

import (
	"bufio"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"
)

// RunVariable is in the environment of all that a run starts: another random text in
// each run.
const RunVariable = "PARLEY_AGENT_RUN"

// Command is what a guard starts.
type Command struct {
	Path string // of the program
	Args []string
	Env  []string
	Dir  string
	// The command's standard input, output and error. The server's own ones of these
	// are closed by Start.
	Files [3]*os.File
}

// Exit is how the command itself has ended.
type Exit struct {
	Known  bool // else its guard was killed
	Status syscall.WaitStatus
}

// Succeeded reports whether it ended by itself with status 0.
func (e Exit) Succeeded() bool { return e.Known && e.Status.Exited() && e.Status.ExitStatus() == 0 }

func (e Exit) String() string {
	switch {
	case !e.Known:
		return "killed together with its guard"
	case e.Status.Signaled():
		return "signal: " + e.Status.Signal().String()
	default:
		return fmt.Sprintf("exit status %d", e.Status.ExitStatus())
	}
}

// Guard is a run as the server sees it.
type Guard struct {
	Pid   int           // of the command, and of its process group
	Ended chan struct{} // closed when the command itself has ended
	Gone  chan struct{} // closed when nothing of the run is left

	// To be read when Ended is closed:
	Exit Exit
	// To be read when Gone is closed:
	Strays int  // processes that had left the group and were killed
	Lost   bool // the guard itself was killed

	// Denied gets the number of a process that the guard may not signal, once.
	Denied chan int

	process *exec.Cmd
	orders  *os.File // to it
	reports *json.Decoder
	marker  string // RunVariable and its value
}

// What the guard is told in a line each. The first line is a start.
const (
	orderStop = "stop" // ask all that runs to end
	orderKill = "kill" // end it
)

// start is what the guard needs to start the command. Its texts may hold any bytes.
type start struct {
	Path, Dir []byte
	Args, Env [][]byte
}

// report is what the guard says in a line each.
type report struct {
	Is reportKind
	N  int
}

type reportKind string

const (
	reportStarted reportKind = "started" // N is the command's number
	reportFailed  reportKind = "failed"  // it could not be started; N is the system's error
	reportEnded   reportKind = "ended"   // the command itself; N is its status
	reportDenied  reportKind = "denied"  // N may not be signalled by us
	reportGone    reportKind = "gone"    // nothing is left; N are the strays
)

// Available says why no guard could be started.
func Available() error {
	if _, err := os.Stat(self); err != nil {
		return fmt.Errorf("the guard that ends an agent with the server: %w", err)
	}
	return nil
}

// Start starts a command under a guard. After an error nothing runs; a
// *os.PathError is that of the command's own start.
func Start(c Command) (*Guard, error) {
	concealServer()
	var pipes [4]*os.File // no child inherits the server's ends: one that did would keep them open
	defer func() {
		for _, f := range append(pipes[:], c.Files[:]...) {
			if f != nil {
				_ = f.Close() // nothing was written that could be lost
			}
		}
	}()
	var err error
	for i := 0; i < len(pipes) && err == nil; i += 2 {
		pipes[i], pipes[i+1], err = os.Pipe()
	}
	if err != nil {
		return nil, err
	}
	marker := make([]byte, 16)
	_, _ = rand.Read(marker) // it does not fail
	reports := bufio.NewReader(pipes[2])
	g := &Guard{
		Ended: make(chan struct{}), Gone: make(chan struct{}), Denied: make(chan int, 1),
		orders: pipes[1], reports: json.NewDecoder(reports), marker: RunVariable + "=" + hex.EncodeToString(marker),
	}
	g.process = &exec.Cmd{
		Path: self, Args: []string{processName},
		Env:   []string{}, // it needs none of the server's, which may hold secrets
		Stdin: pipes[0], Stdout: pipes[3], ExtraFiles: c.Files[:],
		SysProcAttr: apart(),
	}
	if err := g.process.Start(); err != nil {
		return nil, fmt.Errorf("the guard: %w", err)
	}
	// Ours of them would keep open what a guard that has died does not read.
	for _, theirs := range []**os.File{&pipes[0], &pipes[3]} {
		_ = (*theirs).Close()
		*theirs = nil
	}
	order := start{Path: []byte(c.Path), Dir: []byte(c.Dir)}
	for _, arg := range c.Args {
		order.Args = append(order.Args, []byte(arg))
	}
	for _, kv := range c.Env {
		if !strings.HasPrefix(kv, RunVariable+"=") { // of an agent that has started this server
			order.Env = append(order.Env, []byte(kv))
		}
	}
	order.Env = append(order.Env, []byte(g.marker))
	err = json.NewEncoder(g.orders).Encode(order)
	var first report
	if err == nil {
		first, err = g.firstReport(pipes[2], reports)
	}
	if err == nil && first.Is == reportStarted {
		g.Pid = first.N
		go g.listen(pipes[2])
		pipes[1], pipes[2] = nil, nil // they are the guard's now
		return g, nil
	}
	_ = pipes[1].Close()
	pipes[1] = nil
	_ = g.process.Wait() // how it ended changes nothing
	if err == nil {
		return nil, &os.PathError{Op: "fork/exec", Path: c.Path, Err: syscall.Errno(first.N)}
	}
	g.sweep() // it may have been killed between the start of the command and its report
	return nil, fmt.Errorf("the guard has ended: %w", err)
}

// patience is how long a guard that says nothing of its command is left alone: the
// command, which runs before that, may have stopped it.
const patience = 200 * time.Millisecond

// firstReport reads what has become of the start.
func (g *Guard) firstReport(from *os.File, buffered *bufio.Reader) (first report, err error) {
	var line []byte
	for {
		_ = from.SetReadDeadline(time.Now().Add(patience)) // pipes have deadlines
		more, wrong := buffered.ReadBytes('\n')
		line = append(line, more...)
		switch {
		case wrong == nil:
			_ = from.SetReadDeadline(time.Time{})
			err = json.Unmarshal(line, &first)
			return first, err
		case !errors.Is(wrong, os.ErrDeadlineExceeded):
			return first, wrong
		}
		g.Wake()
	}
}

// Stop asks all that runs to end.
func (g *Guard) Stop() { g.order(orderStop) }

// Kill ends all that runs.
func (g *Guard) Kill() { g.order(orderKill) }

// order tells the guard something. One that has ended hears nothing any more.
func (g *Guard) order(word string) {
	_, _ = io.WriteString(g.orders, `"`+word+"\"\n")
	g.Wake()
}

// Wake lets a guard go on that was stopped: what it guards is of the same user and may
// send it the signal.
func (g *Guard) Wake() { _ = g.process.Process.Signal(syscall.SIGCONT) } // one that has ended needs it no more

// listen reads what the guard says until it has ended.
func (g *Guard) listen(reports *os.File) {
	defer close(g.Gone)
	ended, gone := false, false
	for {
		var r report
		if g.reports.Decode(&r) != nil {
			break // it has ended
		}
		switch r.Is {
		case reportEnded:
			if ended {
				continue // another process of the run, which was given the command's number
			}
			g.Exit, ended = Exit{Known: true, Status: syscall.WaitStatus(r.N)}, true
			close(g.Ended)
		case reportDenied:
			select {
			case g.Denied <- r.N:
			default: // one is enough
			}
		case reportGone:
			g.Strays, gone = r.N, true
		}
	}
	_ = g.process.Wait() // how it ended changes nothing
	_, _ = g.orders.Close(), reports.Close()
	if !gone {
		g.Lost = true
		g.sweep()
	}
	if !ended {
		close(g.Ended)
	}
}

// poll is the time between two looks at processes that are to end.
const poll = 20 * time.Millisecond

// sweep ends a run whose guard was killed: its group, and what has its marker.
func (g *Guard) sweep() {
	look := time.NewTicker(poll)
	defer look.Stop()
	var killed []int
	// Twice: a process shows no environment while it becomes another program.
	for quiet := 0; quiet < 2; <-look.C {
		quiet++
		for _, pid := range carriers(g.marker) {
			quiet = 0
			_ = syscall.Kill(pid, syscall.SIGKILL)
			if !slices.Contains(killed, pid) {
				killed = append(killed, pid)
			}
		}
		if g.Pid > 0 {
			if err := syscall.Kill(-g.Pid, syscall.SIGKILL); err == nil && !reaps {
				quiet = 0
			}
		}
		// They are ours to bury where the server is the first process of a container.
		for _, pid := range append(killed, g.Pid) {
			if pid > 0 {
				_, _ = syscall.Wait4(pid, nil, syscall.WNOHANG, nil)
			}
		}
	}
	g.Strays = len(slices.DeleteFunc(killed, func(pid int) bool { return pid == g.Pid }))
}
