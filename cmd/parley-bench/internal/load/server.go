package load

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"parley/cmd/parley-bench/internal/cputime"
)

// Server is a parley in a process of its own, on a loopback address.
type Server struct {
	cmd  *exec.Cmd
	Addr string
	Log  *tail
}

// unlimited lifts every limit that is there to keep one client from hurting
// others: the load comes from one address and one user.
var unlimited = []string{
	"limits.commands_per_second=0", "limits.commands_burst=0", "limits.follows_per_connection=0",
	"limits.connections_per_user=0", "limits.connections_per_tenant=0",
	"limits.requests_per_second=0", "limits.requests_per_second_per_address=0", "limits.streams_per_address=0",
	"limits.connections_per_address=0", "limits.connections_before_hello=0", "limits.connections_before_hello_per_address=0",
	"admission.max_concurrent=100000", "scripted.token_delay=0s", "log.level=warn", "log.format=json",
}

// StartServer starts the program at path with a data directory and settings
// ("key=value"), and waits until it listens.
func StartServer(path, data string, set ...string) (*Server, error) {
	return Launch{Path: path, Data: data, Set: set}.Start()
}

// Launch says how a server is started.
type Launch struct {
	Path, Data string
	Env        []string  // beside that of this process
	More       []string  // arguments, such as --config
	Set        []string  // settings, as key=value
	Log        io.Writer // gets what the server logs, beside the end of it that is kept; nil = nothing does
}

// known are those of settings whose keys the program at path has: it may be an older one.
func known(path string, settings []string) []string {
	show := exec.Command(path, "config", "print")
	show.Dir, show.Env = os.TempDir(), []string{}
	text, err := show.Output()
	if err != nil {
		return settings // it will say itself what is wrong
	}
	return slices.DeleteFunc(slices.Clone(settings), func(kv string) bool {
		key, _, _ := strings.Cut(kv, "=")
		return !strings.Contains(string(text), "\n"+key[strings.LastIndexByte(key, '.')+1:]+" =")
	})
}

// Start starts the server and waits until it listens.
func (l Launch) Start() (*Server, error) {
	args := append([]string{"serve", "--listen", "127.0.0.1:0", "--data", l.Data}, l.More...)
	for _, kv := range append(known(l.Path, unlimited), l.Set...) {
		args = append(args, "--set", kv)
	}
	cmd := exec.Command(l.Path, args...)
	cmd.Dir = filepath.Dir(l.Data)                                                                              // no config.toml lies there but one that the caller wrote
	cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PARLEY_") }) // the load decides, not the shell
	cmd.Env = append(cmd.Env, l.Env...)
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s := &Server{cmd: cmd, Log: &tail{}}
	cmd.Stderr = s.Log
	if l.Log != nil {
		cmd.Stderr = io.MultiWriter(s.Log, l.Log)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", l.Path, err)
	}
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), "http://"); ok {
			s.Addr, _, _ = strings.Cut(strings.TrimSuffix(rest, "/"), " ")
			go io.Copy(io.Discard, stdout) //nolint:errcheck // ends with the process
			return s, nil
		}
	}
	if err = cmd.Wait(); err == nil {
		err = errors.New("it ended and said no address")
	}
	return nil, fmt.Errorf("the server did not start: %w\n%s", err, s.Log)
}

// Stop drains the server and waits for its end.
func (s *Server) Stop() error {
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return err
	}
	if err := s.cmd.Wait(); err != nil {
		return fmt.Errorf("the server ended badly: %w\n%s", err, s.Log)
	}
	return nil
}

// Kill ends the server with kill -9.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait()
}

// Signal sends a signal to the server's process.
func (s *Server) Signal(signal os.Signal) error { return s.cmd.Process.Signal(signal) }

// Wait waits for the end of the server's process, and gives its exit code; -1 = a signal
// ended it.
func (s *Server) Wait() int {
	_ = s.cmd.Wait() // how it ended is in the state
	return s.cmd.ProcessState.ExitCode()
}

// Pid is the server's process.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// CPU is the processor time that the server has used so far.
func (s *Server) CPU() time.Duration { return cputime.Of(s.cmd.Process.Pid) }

// Heap is the live heap of the server after a garbage collection, in bytes.
func (s *Server) Heap(ctx context.Context) (float64, error) {
	for range 2 { // the second one frees what finalizers of the first let go
		if _, err := s.Get(ctx, "/debug/pprof/heap?gc=1"); err != nil {
			return 0, err
		}
	}
	return s.Metric(ctx, "go_memstats_heap_alloc_bytes")
}

// Metric is the sum of all series of a name at /metrics, of those with one label (name{label="value"}), or one
// series; an absent one is 0.
func (s *Server) Metric(ctx context.Context, name string) (float64, error) {
	c, err := s.counted(ctx)
	return c.metrics[name], err
}

// Get is the body of an answer with status 200; any other status is an error.
func (s *Server) Get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.Addr+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s: %.200s", path, response.Status, body)
	}
	return body, err
}

// tail keeps the last of what was written to it, for error messages.
type tail struct {
	mu sync.Mutex
	b  []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if len(t.b) > 8192 {
		t.b = t.b[len(t.b)-4096:]
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}

// BuildServer builds the server when no path was given; cleanup removes it.
func BuildServer(path string) (built string, cleanup func(), err error) {
	if path != "" {
		abs, err := filepath.Abs(path)
		return abs, func() {}, err
	}
	dir, err := os.MkdirTemp("", "parley-bench-")
	if err != nil {
		return "", nil, err
	}
	cleanup = func() { os.RemoveAll(dir) }
	built = filepath.Join(dir, "parley")
	if out, err := exec.Command("go", "build", "-o", built, "parley/cmd/parley").CombinedOutput(); err != nil {
		cleanup()
		return "", nil, fmt.Errorf("build the server (or name one with --server): %w\n%s", err, out)
	}
	return built, cleanup, nil
}
