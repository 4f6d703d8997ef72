package pgtest

import (
	"bytes"
	"fmt"
	"os"
	osuser "os/user"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
)

// process is one run of a server.
type process struct {
	pid   int
	proc  *os.Process
	ended chan struct{} // closed when it has ended
}

// start runs the server's program with its output in the log.
func (s *Server) start(program string, args []string) (*process, error) {
	out, err := os.OpenFile(s.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	attr, err := runAs()
	if err != nil {
		return nil, err
	}
	type started struct {
		p   *process
		err error
	}
	begun := make(chan started, 1)
	go func() {
		// The server is told of its parent's end by the thread that has started it. So that
		// thread does nothing else and stays for as long as the server does.
		runtime.LockOSThread()
		defer func() { _ = out.Close() }()
		attr.Setpgid = true // an interrupt at the terminal is for the test, which ends it then
		dieWithParent(attr)
		path := filepath.Join(s.bin, program)
		proc, err := os.StartProcess(path, append([]string{path}, args...), &os.ProcAttr{
			Dir: s.dir, Env: append(os.Environ(), "LC_ALL=C"), Files: []*os.File{nil, out, out}, Sys: attr,
		})
		if err != nil {
			begun <- started{err: fmt.Errorf("start %s: %w", program, err)}
			return
		}
		p := &process{pid: proc.Pid, proc: proc, ended: make(chan struct{})}
		begun <- started{p: p}
		_, _ = proc.Wait()
		close(p.ended)
	}()
	b := <-begun
	return b.p, b.err
}

func (p *process) signal(sig syscall.Signal) { _ = p.proc.Signal(sig) }

// kill ends the process for good, and waits for it.
func (p *process) kill() {
	_ = p.proc.Kill()
	<-p.ended
}

// signalAll sends to the server and to all processes that it has started. Those are
// leaders of groups of their own. The first is stopped first and starts no more.
func (s *Server) signalAll(p *process, sig syscall.Signal) {
	p.signal(sig)
	for _, pid := range children(p.pid) {
		_ = syscall.Kill(pid, sig)
	}
}

// children are the processes that a process has started and that live, from /proc.
func children(of int) []int {
	var found []int
	entries, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, path := range entries {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended
		}
		// pid (name) state parent …; the name may hold anything.
		_, rest, ok := bytes.Cut(text[max(0, bytes.LastIndexByte(text, ')')):], []byte(") "))
		fields := bytes.Fields(rest)
		if !ok || len(fields) < 2 || string(fields[1]) != strconv.Itoa(of) {
			continue
		}
		if pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path))); err == nil {
			found = append(found, pid)
		}
	}
	return found
}

// runAs has a program run as the user postgres where this process is root's.
func runAs() (*syscall.SysProcAttr, error) {
	attr := &syscall.SysProcAttr{}
	if os.Getuid() != 0 {
		return attr, nil
	}
	uid, gid, err := postgresUser()
	if err != nil {
		return nil, err
	}
	attr.Credential = &syscall.Credential{Uid: uint32(uid), Gid: uint32(gid)}
	return attr, nil
}

func postgresUser() (uid, gid int, err error) {
	who, err := osuser.Lookup("postgres")
	if err != nil {
		return 0, 0, fmt.Errorf("PostgreSQL does not run as root, and there is no user postgres: %w", err)
	}
	if uid, err = strconv.Atoi(who.Uid); err == nil {
		gid, err = strconv.Atoi(who.Gid)
	}
	return uid, gid, err
}

// give makes the server's user the owner of a file.
func (s *Server) give(path string) error {
	if os.Getuid() != 0 {
		return nil
	}
	uid, gid, err := postgresUser()
	if err != nil {
		return err
	}
	return os.Chown(path, uid, gid)
}

func (s *Server) writeFile(path, text string) error {
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		return err
	}
	return s.give(path)
}
