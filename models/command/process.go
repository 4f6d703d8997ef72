package command

import (
	"context"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync/atomic"
	"time"
)

// ending says why a run ended.
type ending int

const (
	endedCleanly    ending = iota // the process ended and its output was closed
	endedOutputOpen               // the process ended; others kept its output open and did not use it
	endedTimeout                  // it took too long
	endedByCaller                 // the caller has gone away
)

// process is one run of the agent, in a process group of its own.
//
// It owns five goroutines: two read its output, one feeds it the prompt if that goes by
// standard input, one has started it and waits for its end, and the supervisor ends the
// whole group and waits for the others. The caller of startProcess reads output to its
// end and then waits for done. A guard beside it ends the group if the server ends first.
type process struct {
	output chan []byte   // its standard output, until that is closed
	done   chan struct{} // closed when the group has gone and all goroutines but the supervisor have ended

	// To be read when done is closed:
	why    ending
	state  *os.ProcessState
	stderr tail
	killed bool // it did not stop when it was asked to

	cmd          *exec.Cmd
	guard        *guard
	limits       limits
	exited       chan struct{} // closed when the process itself has ended
	stdoutClosed chan struct{} // closed when its standard output is
	stderrClosed chan struct{} // closed when its standard error is
	stdinClosed  chan struct{} // closed when it needs no more input
	stdoutBytes  atomic.Int64  // bytes of output
}

// limits are the times of a run, and the functions that are called at them.
type limits struct {
	timeout time.Duration
	grace   time.Duration
	freed   func()                    // once, when the group has gone
	stuck   func(since time.Duration) // once, when the group is still there a second after it was killed
}

// Times that need no option.
const (
	groupPoll  = 20 * time.Millisecond  // between two looks at a group that is to end
	groupStuck = time.Second            // a killed group that is there for longer is worth a line in the log
	pipeDrain  = 100 * time.Millisecond // to read what is in a pipe when the group has gone
)

// startProcess starts the agent. Without input its standard input is at its end
// from the start. After an error nothing runs, and freed is not called.
func startProcess(ctx context.Context, cmd *exec.Cmd, input *string, l limits) (*process, error) {
	p := &process{
		output: make(chan []byte), done: make(chan struct{}), cmd: cmd, limits: l,
		exited: make(chan struct{}), stdoutClosed: make(chan struct{}), stderrClosed: make(chan struct{}), stdinClosed: make(chan struct{}),
	}
	cmd.SysProcAttr = withServer()
	var ours, theirs []*os.File
	shut := func(files []*os.File) {
		for _, f := range files {
			_ = f.Close() // nothing was written that could be lost
		}
	}
	for range 3 {
		r, w, err := os.Pipe()
		if err != nil {
			shut(ours)
			shut(theirs)
			return nil, err
		}
		ours, theirs = append(ours, r), append(theirs, w)
	}
	// The pipe for the input runs the other way.
	ours[0], theirs[0] = theirs[0], ours[0]
	if input != nil {
		cmd.Stdin = theirs[0]
	}
	cmd.Stdout, cmd.Stderr = theirs[1], theirs[2]
	var err error
	if p.guard, err = startGuard(); err == nil {
		started := make(chan error, 1)
		go p.run(started)
		if err = <-started; err != nil {
			p.guard.release()
		}
	}
	shut(theirs)
	if err != nil {
		shut(ours)
		return nil, err
	}
	p.guard.watch(cmd.Process.Pid)
	in, out, errs := ours[0], ours[1], ours[2]
	go p.feed(in, input)
	go p.readOutput(out)
	go p.readErrors(errs)
	go p.supervise(ctx, in, out, errs)
	return p, nil
}

// succeeded reports whether the process ended by itself with status 0.
func (p *process) succeeded() bool { return p.state != nil && p.state.Success() }

// run starts the process and waits for its end. It keeps its thread until then: the
// kernel takes the end of a thread for that of the server.
func (p *process) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := p.cmd.Start()
	started <- err
	if err != nil {
		return
	}
	defer close(p.exited)
	p.state, _ = p.cmd.Process.Wait() // it fails only for processes that are not ours
}

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

// supervise ends the group in time, waits for the other goroutines and closes done.
func (p *process) supervise(ctx context.Context, in, out, errs *os.File) {
	defer close(p.done)
	p.why = p.watch(ctx)
	if p.why == endedTimeout || p.why == endedByCaller {
		p.killed = !p.stop()
	}
	p.kill()
	p.guard.release()
	p.limits.freed()
	// One that has left the group may still hold the pipes.
	_ = in.Close()
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
	exited, closed := p.exited, p.stdoutClosed
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

// stop asks the group to stop, and reports whether it did so in time.
func (p *process) stop() bool {
	signalGroup(p.cmd.Process.Pid, stopSignal)
	return p.waitGroupGone(p.limits.grace)
}

// kill ends the rest of the group, also after its first process has ended by itself. It
// returns when the whole group has gone.
func (p *process) kill() {
	signalGroup(p.cmd.Process.Pid, killSignal)
	if !p.waitGroupGone(groupStuck) {
		p.limits.stuck(groupStuck)
		for !p.waitGroupGone(groupStuck) {
		}
	}
}

// waitGroupGone reports whether the group was gone within that time.
func (p *process) waitGroupGone(within time.Duration) bool {
	limit := time.NewTimer(within)
	defer limit.Stop()
	look := time.NewTicker(groupPoll)
	defer look.Stop()
	exited := p.exited
	for {
		if exited == nil && !groupLives(p.cmd.Process.Pid) {
			return true
		}
		select {
		case <-exited:
			exited = nil
		case <-look.C:
		case <-limit.C:
			return false
		}
	}
}

// tail keeps the last bytes that are written to it.
type tail struct {
	kept  []byte
	total int64
}

// maxTail bounds the part of an agent's standard error that is kept for the log, in bytes.
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
