package mcp

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os/exec"
	"sync"
	"syscall"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// writeTimeout is how long a message may wait for a server that does not read;
// then the connection is given up.
const writeTimeout = 10 * time.Second

// process is a connection to a program of our own: a process group, spoken to
// over standard input and output.
type process struct {
	cmd    *exec.Cmd
	stdin  io.WriteCloser
	stdout io.ReadCloser
	stderr *stderr
	limits Limits

	started    bool
	stop       sync.Once
	exitReason string // how it exited; to be read after terminate
}

// newProcess prepares a program; Connect starts it.
func newProcess(s *Server, env []string, limits Limits, log *slog.Logger, redact redactor) *process {
	cmd := exec.Command(s.Command, s.Args...)
	cmd.Env = env
	cmd.Dir = s.Dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // its children are stopped with it
	// A process that left the group may hold standard error open without end.
	cmd.WaitDelay = time.Second
	p := &process{cmd: cmd, limits: limits}
	p.stderr = newStderr(log, redact, limits.StderrLine)
	cmd.Stderr = p.stderr
	return p
}

// Connect starts the program.
func (p *process) Connect(ctx context.Context) (sdk.Connection, error) {
	var err error
	if p.stdin, err = p.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if p.stdout, err = p.cmd.StdoutPipe(); err != nil {
		return nil, err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	p.started = true
	// The reader stays open: terminate reads it to see the program's end.
	out := newMessages(p.stdout, p.limits.Message, p.stderr.noMessage)
	return (&sdk.IOTransport{Reader: io.NopCloser(out), Writer: deadlineWriter{p.stdin}, MaxLineLength: -1}).Connect(ctx)
}

// terminate stops the whole group and returns when it is gone: standard input is
// closed, then SIGTERM, then SIGKILL, each after the grace.
//
// The program is waited for only after the group was killed: until then its id,
// which is the group's, cannot be given to another process.
func (p *process) terminate() string {
	p.stop.Do(func() {
		if !p.started {
			return
		}
		_ = p.stdin.Close()
		quiet := make(chan struct{}) // closed when no process of the group writes any more
		go func() {
			defer close(quiet)
			_, _ = io.Copy(io.Discard, p.stdout)
		}()
		if !within(quiet, p.limits.StopGrace) {
			p.signal(syscall.SIGTERM)
			within(quiet, p.limits.StopGrace)
		}
		p.signal(syscall.SIGKILL)
		_ = p.cmd.Wait() // closes our end of stdout, should one that left the group still hold the other
		<-quiet
		if status, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || !status.Signaled() || status.Signal() != syscall.SIGKILL && status.Signal() != syscall.SIGTERM {
			p.exitReason = p.cmd.ProcessState.String()
			if last := p.stderr.lastLine(); last != "" {
				p.exitReason += ": " + last
			}
		}
	})
	return p.exitReason
}

func (p *process) signal(s syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, s) }

func within(done <-chan struct{}, grace time.Duration) bool {
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-done:
		return true
	case <-timer.C:
		return false
	}
}

// deadlineWriter bounds each write to a pipe by writeTimeout: a server that does not
// read must not block the calls without end.
type deadlineWriter struct{ io.WriteCloser }

func (w deadlineWriter) Write(data []byte) (int, error) {
	if pipe, ok := w.WriteCloser.(interface{ SetWriteDeadline(time.Time) error }); ok {
		_ = pipe.SetWriteDeadline(time.Now().Add(writeTimeout))
	}
	return w.WriteCloser.Write(data)
}

// environment makes the environment of a program: the variables that it may inherit,
// then its own.
func environment(s *Server, lookup func(string) (string, bool)) (env, secrets []string, err error) {
	for _, name := range s.Inherit {
		if value, ok := lookup(name); ok {
			if _, own := s.Env[name]; !own {
				env = append(env, name+"="+value)
			}
		}
	}
	for _, name := range sorted(s.Env) {
		value, found, err := fill(name, s.Env[name], lookup, false)
		if err != nil {
			return nil, nil, fmt.Errorf("env: %s: %w", name, err)
		}
		env, secrets = append(env, name+"="+value), append(secrets, found...)
	}
	if env == nil {
		env = []string{} // nil would be this process's own
	}
	return env, secrets, nil
}
