package hostile

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"parley/cmd/parley-bench/internal/cputime"
)

// descriptors is how many files a server may have open: few, so that to use them up
// takes little.
const descriptors = 4096

// server is a parley with its default limits, which is watched.
type server struct {
	cmd   *exec.Cmd
	addr  string
	ended chan struct{} // closed when the process is gone

	mu       sync.Mutex
	log      []byte
	exit     error
	killed   string // why the guard killed it
	memory   int    // the most MB that it held
	openFDs  int    // the most descriptors
	cpu      time.Duration
	guard    int
	sampling context.CancelFunc
}

// start starts the program and waits until it listens.
func start(path, dir string, guard int, set []string) (*server, error) {
	args := []string{"-c", fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, descriptors), path,
		"serve", "--listen", "127.0.0.1:0", "--data", filepath.Join(dir, "data")}
	for _, kv := range append([]string{"scripted.token_delay=0s", "log.level=warn"}, set...) {
		args = append(args, "--set", kv)
	}
	s := &server{cmd: exec.Command("/bin/sh", args...), ended: make(chan struct{}), guard: guard}
	s.cmd.Dir = dir
	s.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PARLEY_") })
	s.cmd.Stderr = s
	stdout, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	lines := bufio.NewScanner(stdout)
	for s.addr == "" && lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "http://"); ok {
			s.addr, _, _ = strings.Cut(strings.TrimSuffix(rest, "/"), " ")
		}
	}
	go func() {
		_, _ = io.Copy(io.Discard, stdout) // Wait may be called when all is read
		err := s.cmd.Wait()
		s.mu.Lock()
		s.exit = err
		s.mu.Unlock()
		close(s.ended)
	}()
	if s.addr == "" {
		<-s.ended
		return nil, fmt.Errorf("the server did not start: %w: %s", s.exit, s.lastWords())
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.sampling = cancel
	go s.watch(ctx)
	return s, nil
}

// watch notes what the server holds, and kills it when that is too much.
func (s *server) watch(ctx context.Context) {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for ctx.Err() == nil {
		mb, fds := s.holds()
		cpu := cputime.Of(s.cmd.Process.Pid)
		s.mu.Lock()
		s.cpu = max(s.cpu, cpu)
		s.memory, s.openFDs = max(s.memory, mb), max(s.openFDs, fds)
		if mb > s.guard && s.killed == "" {
			s.killed = fmt.Sprintf("**killed: over %d MB**", s.guard)
			_ = s.cmd.Process.Kill()
		}
		s.mu.Unlock()
		select {
		case <-tick.C:
		case <-ctx.Done():
		case <-s.ended:
			return
		}
	}
}

// holds reads the memory and the open files of the process; 0 of one that has ended.
func (s *server) holds() (mb, fds int) {
	proc := "/proc/" + strconv.Itoa(s.cmd.Process.Pid)
	status, _ := os.ReadFile(proc + "/status")
	for line := range strings.Lines(string(status)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kb, _ := strconv.Atoi(strings.Fields(rest)[0])
			mb = kb >> 10
		}
	}
	open, _ := os.ReadDir(proc + "/fd")
	return mb, len(open)
}

// Write keeps the end of what the server logs.
func (s *server) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.log = append(s.log, p...); len(s.log) > 8192 {
		s.log = s.log[len(s.log)-4096:]
	}
	return len(p), nil
}

// lastWords is the last line of the log.
func (s *server) lastWords() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	lines := strings.Split(strings.TrimSpace(string(s.log)), "\n")
	last := strings.NewReplacer("|", "/", "\t", " ").Replace(lines[len(lines)-1])
	return last[:min(len(last), 110)]
}

// serves is the fate that is wanted.
const serves = "serves"

// fate says how the server is: whether it still answers, or how it ended.
func (s *server) fate() string {
	select {
	case <-s.ended:
	default:
		c, err := dialFrom("", s.addr)
		if err == nil {
			_, _, err = exchange(c, get("/livez", s.addr))
		}
		if err != nil {
			return fmt.Sprintf("**no new connection**: %s", s.lastWords())
		}
		return serves
	}
	s.mu.Lock()
	killed, exit := s.killed, s.exit
	s.mu.Unlock()
	if killed != "" {
		return killed
	}
	return fmt.Sprintf("**ended (%v): %s**", exit, s.lastWords())
}

// stop ends the server with SIGTERM and says how long that took and with what exit.
func (s *server) stop(most time.Duration) (took time.Duration, exit string) {
	began := time.Now()
	_ = s.cmd.Process.Signal(syscall.SIGTERM) // one that has ended is seen below
	select {
	case <-s.ended:
		took = time.Since(began)
	case <-time.After(most):
		s.kill()
		return most, "killed"
	}
	s.sampling()
	var failed *exec.ExitError
	if s.exit == nil {
		return took, "0"
	}
	if errors.As(s.exit, &failed) {
		return took, fmt.Sprintf("**%d**: %s", failed.ExitCode(), s.lastWords())
	}
	return took, s.exit.Error()
}

func (s *server) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
	s.sampling()
}
