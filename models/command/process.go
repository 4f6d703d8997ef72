package command

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"time"

	"parley/models/command/internal/guard"
)

// ending says why a run ended.
type ending int

const (
	endedCleanly    ending = iota // the process ended and its output was closed
	endedOutputOpen               // the process ended; others kept its output open and did not use it
	endedTimeout                  // it took too long
	endedByCaller                 // the caller has gone away
)

// process is one run of the agent, below a guard.
//
// It owns five goroutines: two read its output, one feeds it the prompt if that goes by
// standard input, one hears what its guard says, and the supervisor has everything
// ended that it has started and waits for the others. The caller of startProcess reads
// output to its end and then waits for done.
type process struct {
	output chan []byte   // its standard output, until that is closed
	done   chan struct{} // closed when nothing of the run is left and all goroutines but the supervisor have ended

	// To be read when done is closed:
	why    ending
	stdout tail
	stderr tail
	killed bool // it did not stop when it was asked to

	*guard.Guard
	limits       limits
	stdoutClosed chan struct{} // closed when its standard output is
	stderrClosed chan struct{} // closed when its standard error is
	stdinClosed  chan struct{} // closed when it needs no more input
	stdoutBytes  atomic.Int64  // bytes of output
}

// limits are the times of a run, and the functions that are called at them.
type limits struct {
	timeout time.Duration
	grace   time.Duration
	freed   func()                                // once, when nothing of the run is left
	stuck   func(since time.Duration, denied int) // once, when something is left a second after it was killed; denied: a process that may not be killed
}

// Times that need no option.
const (
	killStuck = time.Second            // what was killed and is there for longer is worth a line in the log
	pipeDrain = 100 * time.Millisecond // to read what is in a pipe when everything has gone
)

// startProcess starts the agent. Without input its standard input is at its end
// from the start. After an error nothing runs, and freed is not called.
func startProcess(ctx context.Context, cmd *exec.Cmd, input *string, l limits) (*process, error) {
	if cmd.Err != nil {
		return nil, cmd.Err // there is no such program
	}
	p := &process{
		output: make(chan []byte), done: make(chan struct{}), limits: l,
		stdoutClosed: make(chan struct{}), stderrClosed: make(chan struct{}), stdinClosed: make(chan struct{}),
	}
	var ours []*os.File
	shut := func(files ...*os.File) {
		for _, f := range files {
			_ = f.Close() // nothing was written that could be lost
		}
	}
	var theirs [3]*os.File
	for i := range theirs {
		r, w, err := os.Pipe()
		if err != nil {
			shut(ours...)
			shut(theirs[:i]...)
			return nil, err
		}
		if i == 0 {
			r, w = w, r // the pipe for the input runs the other way
		}
		ours, theirs[i] = append(ours, r), w
	}
	var err error
	if input == nil {
		shut(theirs[0])
		theirs[0], err = os.Open(os.DevNull)
	}
	if err != nil {
		shut(ours...)
		shut(theirs[1:]...)
		return nil, err
	}
	p.Guard, err = guard.Start(guard.Command{Path: cmd.Path, Args: cmd.Args, Env: cmd.Environ(), Dir: cmd.Dir, Files: theirs})
	if err != nil {
		shut(ours...)
		return nil, err
	}
	in, out, errs := ours[0], ours[1], ours[2]
	go p.feed(in, input)
	go p.readOutput(out)
	go p.readErrors(errs)
	go p.supervise(ctx, in, out, errs)
	return p, nil
}

// lacksResources reports whether a process could not be started for want of
// something that may be there again in a moment.
func lacksResources(err error) bool {
	for _, e := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// tooLong reports whether the arguments were longer than the system takes.
func tooLong(err error) bool { return errors.Is(err, syscall.E2BIG) }

// feed gives the agent its prompt. An agent may end without having read it all.
func (p *process) feed(in *os.File, input *string) {
	defer close(p.stdinClosed)
	if input != nil {
		_, _ = io.WriteString(in, *input)
	}
	_ = in.Close()
}

// readOutput reads up to the close of the stream, not only to the end of the
// process: what is in the pipe then counts as well.
func (p *process) readOutput(out *os.File) {
	defer close(p.stdoutClosed)
	defer close(p.output)
	for {
		chunk := make([]byte, 32<<10)
		n, err := out.Read(chunk)
		if n > 0 {
			p.stdoutBytes.Add(int64(n))
			_, _ = p.stdout.Write(chunk[:n]) // it does not fail
			p.output <- chunk[:n]
		}
		if err != nil {
			return
		}
	}
}

func (p *process) readErrors(errs *os.File) {
	defer close(p.stderrClosed)
	_, _ = io.Copy(&p.stderr, errs)
}

// supervise ends the run in time, waits for the other goroutines and closes done.
func (p *process) supervise(ctx context.Context, in, out, errs *os.File) {
	defer close(p.done)
	p.why = p.watch(ctx)
	if p.why == endedTimeout || p.why == endedByCaller {
		p.killed = !p.stop()
	}
	p.kill()
	p.limits.freed()
	_ = in.Close()
	// Somebody else may hold the pipes: one who was given them.
	until := time.Now().Add(pipeDrain)
	_ = out.SetReadDeadline(until) // pipes have deadlines
	_ = errs.SetReadDeadline(until)
	<-p.stdinClosed
	<-p.stdoutClosed
	<-p.stderrClosed
	_ = out.Close()
	_ = errs.Close()
}

// watch waits for the end of the run, or for a reason to end it.
func (p *process) watch(ctx context.Context) ending {
	limit := time.NewTimer(p.limits.timeout)
	defer limit.Stop()
	var linger <-chan time.Time
	var heard int64
	exited, closed := p.Ended, p.stdoutClosed
	for exited != nil || closed != nil {
		select {
		case <-exited:
			exited, heard, linger = nil, p.stdoutBytes.Load(), time.After(p.limits.grace)
		case <-closed:
			closed = nil
		case <-linger:
			if now := p.stdoutBytes.Load(); now != heard {
				heard, linger = now, time.After(p.limits.grace)
				continue
			}
			return endedOutputOpen
		case <-limit.C:
			if exited == nil {
				return endedOutputOpen // it has done its work in time
			}
			return endedTimeout
		case <-ctx.Done():
			return endedByCaller
		}
	}
	return endedCleanly
}

// stop asks all that runs to end, and reports whether it did so in time.
func (p *process) stop() bool {
	p.Guard.Stop()
	limit := time.NewTimer(p.limits.grace)
	defer limit.Stop()
	select {
	case <-p.Gone:
		return true
	case <-limit.C:
		return false
	}
}

// kill ends what is left, also after the agent itself has ended. It returns when
// nothing is.
func (p *process) kill() {
	p.Guard.Kill()
	limit := time.NewTimer(killStuck)
	defer limit.Stop()
	select {
	case <-p.Gone:
	case <-limit.C:
		denied := 0
		select {
		case denied = <-p.Denied:
		default:
		}
		p.limits.stuck(killStuck, denied)
	}
	wake := time.NewTicker(killStuck)
	defer wake.Stop()
	for {
		select {
		case <-p.Gone:
			return
		case <-wake.C: // the guard may have been stopped once more
			p.Wake()
		}
	}
}

// tail keeps the last bytes that are written to it.
type tail struct {
	kept  []byte
	total int64
}

// maxTail bounds the part of an agent's standard output or error that is kept for the log, in bytes.
const maxTail = 8 << 10

func (t *tail) Write(b []byte) (int, error) {
	t.total += int64(len(b))
	t.kept = append(t.kept, b...)
	if len(t.kept) > 4*maxTail {
		t.kept = append(t.kept[:0], t.kept[len(t.kept)-maxTail:]...)
	}
	return len(b), nil
}

// text returns the kept bytes in whole lines; cut = there was more before them.
func (t *tail) text() (text string, cut bool) {
	kept := t.kept[max(0, len(t.kept)-maxTail):]
	if t.total == int64(len(kept)) {
		return clean(string(kept)), false
	}
	// The first line lacks its beginning.
	for i, c := range kept {
		if c == '\n' {
			return clean(string(kept[i+1:])), true
		}
	}
	return "", true
}
