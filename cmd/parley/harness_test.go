package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
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
	"testing"
	"time"

	"github.com/coder/websocket"
)

// patience bounds every wait of these tests; nothing waits for it to pass.
const patience = 2 * time.Minute

// TestMain lets this test program be the server, too: a child process with
// PARLEY_TEST_SERVE set runs main's code and can be killed.
func TestMain(m *testing.M) {
	if os.Getenv(mcpVariable) != "" {
		serveMCP()
		os.Exit(0)
	}
	if os.Getenv(serveVariable) != "" {
		os.Args = append([]string{"parley"}, os.Args[1:]...)
		os.Unsetenv(serveVariable)
		main()
	}
	os.Exit(m.Run())
}

const serveVariable = "PARLEY_TEST_SERVE"

// quick are settings that make nothing wait.
var quick = []string{"--set", "scripted.token_delay=0s", "--set", "gateway.drain_spread=0s", "--set", "gateway.close_timeout=50ms"}

// syncBuffer is a buffer that a server writes and a test reads.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

// A live server: in this process (main is set) or a child (cmd is set).
type live struct {
	t      *testing.T
	addr   string
	out    *syncBuffer
	err    *syncBuffer
	cancel context.CancelFunc
	ended  chan int // the exit code
	cmd    *exec.Cmd
}

// start runs Main in this process, on a free port.
func start(t *testing.T, data string, args ...string) *live {
	t.Helper()
	return startWith(t, data, nil, args...)
}

// startWith is start with a Main that was changed before.
func startWith(t *testing.T, data string, change func(*Main), args ...string) *live {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	l := &live{t: t, out: &syncBuffer{}, err: &syncBuffer{}, cancel: cancel, ended: make(chan int, 1)}
	m := NewMain()
	m.Stdout, m.Stderr, m.Environ = l.out, l.err, nil
	if change != nil {
		change(m)
	}
	full := append([]string{"serve", "--config", emptyConfig(t), "--listen", "127.0.0.1:0", "--data", data}, quick...)
	over := make(chan struct{})
	go func() {
		l.ended <- m.Execute(ctx, append(full, args...))
		close(over)
	}()
	select {
	case <-m.Listening():
		l.addr = m.Addr()
	case code := <-l.ended:
		cancel()
		t.Fatalf("the server ended with %d: %s", code, l.err)
	case <-time.After(patience):
		cancel()
		t.Fatalf("the server does not listen: %s", l.err)
	}
	t.Cleanup(func() {
		cancel()
		// Its directory goes next, and a store that cannot write ends the process: this one.
		select {
		case <-over:
		case <-time.After(patience):
			t.Error("the server does not end")
		}
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", l.end())
		}
	})
	return l
}

// end is the end of the server's log.
func (l *live) end() string {
	log := l.err.String()
	return log[max(0, len(log)-4000):]
}

// stop drains the server and waits for its end.
func (l *live) stop() {
	l.t.Helper()
	if l.cmd != nil {
		if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			l.t.Fatal(err)
		}
	}
	l.cancel()
	select {
	case code := <-l.ended:
		if code != exitOK {
			l.t.Errorf("the server ended with %d: %s", code, l.err)
		}
	case <-time.After(patience):
		l.t.Fatalf("the server does not end: %s", l.err)
	}
}

// kill ends a child server as kill -9 does.
func (l *live) kill() {
	l.t.Helper()
	if err := l.cmd.Process.Kill(); err != nil {
		l.t.Fatal(err)
	}
	<-l.ended
}

// spawn runs the server as a child process, on a free port.
func spawn(t *testing.T, data string, args ...string) *live {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return launch(t, exec.Command(self, childArgs(t, data, args...)...))
}

// spawnWithFiles is spawn for a child that may have only so many files open.
func spawnWithFiles(t *testing.T, files int, data string, args ...string) *live {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	limited := fmt.Sprintf(`ulimit -n %d; exec "$0" "$@"`, files)
	return launch(t, exec.Command("/bin/sh", append([]string{"-c", limited, self}, childArgs(t, data, args...)...)...))
}

func childArgs(t *testing.T, data string, args ...string) []string {
	full := append([]string{"serve", "--config", emptyConfig(t), "--listen", "127.0.0.1:0", "--data", data}, quick...)
	return append(full, args...)
}

// launch starts a child and waits until it listens.
func launch(t *testing.T, cmd *exec.Cmd) *live {
	t.Helper()
	l := &live{t: t, out: &syncBuffer{}, err: &syncBuffer{}, cancel: func() {}, ended: make(chan int, 1), cmd: cmd}
	l.cmd.Env = slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PARLEY_") })
	l.cmd.Env = append(l.cmd.Env, serveVariable+"=1")
	l.cmd.Stderr = l.err
	stdout, err := l.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	address := make(chan string, 1)
	go func() {
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			fmt.Fprintln(l.out, lines.Text())
			if _, rest, ok := strings.Cut(lines.Text(), "http://"); ok {
				rest, _, _ = strings.Cut(rest, " ")
				select {
				case address <- strings.TrimSuffix(rest, "/"):
				default:
				}
			}
		}
		_ = l.cmd.Wait()
		l.ended <- l.cmd.ProcessState.ExitCode()
	}()
	t.Cleanup(func() {
		_ = l.cmd.Process.Kill()
		if t.Failed() {
			t.Logf("the end of the server's log:\n%s", l.end())
		}
	})
	select {
	case l.addr = <-address:
	case code := <-l.ended:
		t.Fatalf("the server ended with %d: %s", code, l.err)
	case <-time.After(patience):
		t.Fatalf("the server does not listen: %s", l.err)
	}
	return l
}

// emptyConfig is a configuration file that says nothing, so that one in the
// working directory is not read.
func emptyConfig(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "empty.toml")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// do makes an HTTP request with a JSON body ("" = none) and returns status and body.
func (l *live) do(method, path, body string) (int, []byte) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, method, "http://"+l.addr+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		l.t.Fatal(err)
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		l.t.Fatal(err)
	}
	return response.StatusCode, got
}

// A frame is what the server sends.
type frame struct {
	Type    string
	Re      *string
	Session string
	Seq     int
	Task    string
	Data    map[string]any
	Error   *struct {
		Code, Message string
		Retryable     bool
	}
	raw string
}

func (f frame) text(key string) string { s, _ := f.Data[key].(string); return s }

// A user is one socket that has said hello.
type user struct {
	t       *testing.T
	ws      *websocket.Conn
	next    int
	pending []frame // events that came before an answer
	hello   map[string]any
}

// measured waits until the metrics have these series; promtool likes them.
func (l *live) measured(series ...string) {
	l.t.Helper()
	for deadline := time.Now().Add(patience); ; {
		_, page := l.do("GET", "/metrics", "")
		lines := strings.Split(string(page), "\n")
		missing := slices.DeleteFunc(slices.Clone(series), func(want string) bool { return slices.Contains(lines, want) })
		if len(missing) == 0 {
			promtoolLikes(l.t, page)
			return
		}
		if time.Now().After(deadline) {
			l.t.Fatalf("the metrics do not have\n%s\nbut\n%s", strings.Join(missing, "\n"), page)
		}
	}
}

// promtoolLikes looks at the names and helps of metrics (N-14).
func promtoolLikes(t *testing.T, page []byte) {
	t.Helper()
	if _, err := exec.LookPath("promtool"); err != nil && os.Getenv("CI") == "" {
		t.Log("NOT TESTED: the names of metrics. There is no promtool in PATH; make setup installs it")
		return
	}
	promtool := exec.Command("promtool", "check", "metrics")
	promtool.Stdin = bytes.NewReader(page)
	if out, err := promtool.CombinedOutput(); err != nil || len(bytes.TrimSpace(out)) > 0 {
		t.Errorf("promtool check metrics (make setup installs it): %v\n%s", err, out)
	}
}

func (l *live) user(caps ...string) *user {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+l.addr+"/ws", &websocket.DialOptions{Subprotocols: []string{"parley.v1"}})
	if err != nil {
		l.t.Fatal(err)
	}
	ws.SetReadLimit(4 << 20)
	u := &user{t: l.t, ws: ws}
	l.t.Cleanup(func() { ws.CloseNow() })
	u.hello = u.ask("hello", "", map[string]any{"proto": 1, "caps": caps})
	return u
}

// read waits for the next frame; an error is the end of the socket.
func (u *user) read() (frame, error) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	_, b, err := u.ws.Read(ctx)
	if err != nil {
		return frame{}, err
	}
	f := frame{raw: string(b)}
	if err := json.Unmarshal(b, &f); err != nil {
		return frame{}, fmt.Errorf("%w: %s", err, b)
	}
	return f, nil
}

// try sends a command and waits for its answer; events meanwhile are kept.
func (u *user) try(typ, session string, data any) frame {
	u.t.Helper()
	u.next++
	id := fmt.Sprint(u.next)
	command := map[string]any{"type": typ, "id": id, "data": data}
	if session != "" {
		command["session"] = session
	}
	b, err := json.Marshal(command)
	if err != nil {
		u.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := u.ws.Write(ctx, websocket.MessageText, b); err != nil {
		u.t.Fatal(err)
	}
	for {
		f, err := u.read()
		if err != nil {
			u.t.Fatalf("%s: %v", typ, err)
		}
		if f.Re == nil {
			u.pending = append(u.pending, f)
			continue
		}
		if *f.Re != id {
			u.t.Fatalf("%s %s: an answer to %s: %s", typ, id, *f.Re, f.raw)
		}
		return f
	}
}

// ask is try for commands that must succeed.
func (u *user) ask(typ, session string, data any) map[string]any {
	u.t.Helper()
	f := u.try(typ, session, data)
	if f.Type != "ok" {
		u.t.Fatalf("%s: %s", typ, f.raw)
	}
	return f.Data
}

func (u *user) create(data map[string]any) string {
	u.t.Helper()
	return u.ask("create", "", data)["session"].(string)
}

// follow follows from since and returns the events up to synced.
func (u *user) follow(session string, since int) []frame {
	u.t.Helper()
	u.ask("follow", session, map[string]any{"since": since})
	var events []frame
	u.until(func(f frame) bool {
		if f.Seq > 0 {
			events = append(events, f)
		}
		return f.Type == "synced"
	})
	return events
}

func (u *user) send(session, id, text string) map[string]any {
	u.t.Helper()
	return u.ask("send", session, map[string]any{"client_msg_id": id, "text": text})
}

// until reads events until one fits and returns all of them.
func (u *user) until(fits func(frame) bool) []frame {
	u.t.Helper()
	var all []frame
	for {
		var f frame
		if len(u.pending) > 0 {
			f, u.pending = u.pending[0], u.pending[1:]
		} else {
			var err error
			if f, err = u.read(); err != nil {
				u.t.Fatalf("waiting for an event: %v; so far:\n%s", err, shown(all))
			}
		}
		all = append(all, f)
		if fits(f) {
			return all
		}
	}
}

// done fits the end of a task.
func done(f frame) bool {
	return f.Type == "task_status" && (f.text("new_status") == "COMPLETE" || f.text("new_status") == "ERROR" || f.text("new_status") == "CANCELLED")
}

func is(typ string) func(frame) bool { return func(f frame) bool { return f.Type == typ } }

func durable(frames []frame) []frame {
	var list []frame
	for _, f := range frames {
		if f.Seq > 0 {
			list = append(list, f)
		}
	}
	return list
}

func of(frames []frame, typ string) []frame {
	var list []frame
	for _, f := range frames {
		if f.Type == typ {
			list = append(list, f)
		}
	}
	return list
}

func shown(frames []frame) string {
	var b strings.Builder
	for _, f := range frames {
		b.WriteString(f.raw + "\n")
	}
	return b.String()
}

// gapless fails unless the frames are seq first, first+1, …
func gapless(t *testing.T, frames []frame, first int) {
	t.Helper()
	for i, f := range frames {
		if f.Seq != first+i {
			t.Fatalf("seq %d at the place of %d:\n%s", f.Seq, first+i, shown(frames))
		}
	}
}

// run executes a command of the program and returns what it printed.
func run(args ...string) (code int, stdout, stderr string) {
	m := NewMain()
	var out, errs bytes.Buffer
	m.Stdout, m.Stderr, m.Environ = &out, &errs, nil
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, errors.New("the command does not end"))
	defer cancel()
	code = m.Execute(ctx, args)
	return code, out.String(), errs.String()
}
