package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
)

// The examples of docs/RUNTIMES.md, in their order, against a real server: the
// answers are those that stand there, "…" being anything. M-15, N-17.
func TestRuntimesDocument(t *testing.T) {
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("NOT TESTED: the examples of docs/RUNTIMES.md. There is no curl in PATH")
	}
	s := start(t, filepath.Join(t.TempDir(), "data"))
	defer s.stop()
	examples := regexp.MustCompile("(?s)```sh\n(.*?)\n```\n```json\n(.*?)\n```").FindAllStringSubmatch(document(t, "RUNTIMES.md"), -1)
	if len(examples) < 8 {
		t.Fatalf("only %d examples", len(examples))
	}
	session := ""
	for _, x := range examples {
		shell := exec.CommandContext(t.Context(), "bash", "-c", x[1])
		shell.Env = append(os.Environ(), "SERVER=http://"+s.addr, "SESSION="+session, "MESSAGE=m1-"+session)
		got, err := shell.Output()
		if err != nil {
			t.Fatalf("%s\n%v", x[1], err)
		}
		want := "^" + strings.ReplaceAll(regexp.QuoteMeta(x[2]), "…", ".*") + "$"
		if !regexp.MustCompile(want).Match(got) {
			t.Fatalf("%s\nwas answered %s\nwant         %s", x[1], got, x[2])
		}
		var made struct{ Session string }
		if _ = json.Unmarshal(got, &made); made.Session != "" {
			session = made.Session
		}
	}
}

// examples are the runtimes that stand in docs, by language: how each is started.
func exampleRuntimes(t *testing.T) map[string]func() *exec.Cmd {
	t.Helper()
	folder := filepath.Join(root, "docs", "runtimes")
	program := filepath.Join(t.TempDir(), "runtime")
	build := exec.Command("go", "build", "-o", program, filepath.Join(folder, "go", "main.go"))
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	all := map[string]func() *exec.Cmd{"go": func() *exec.Cmd { return exec.Command(program) }, "js": nil}
	if node, err := exec.LookPath("node"); err == nil {
		all["js"] = func() *exec.Cmd { return exec.Command(node, filepath.Join(folder, "js", "runtime.mjs")) }
	}
	return all
}

// gate is between a runtime and the server. It stops one request, before the server
// has got it or after, and keeps it until the runtime goes or the gate opens.
type gate struct {
	server atomic.Pointer[string]
	stop   atomic.Pointer[stop]
}

// stop says which request is stopped: that of the part with this index.
type stop struct {
	index   int
	after   bool          // the server has answered it, and the runtime does not hear of it
	reached chan struct{} // closed when the request is there
	open    chan struct{} // closed to let it go on
}

func (g *gate) stopAt(index int, after bool) *stop {
	s := &stop{index, after, make(chan struct{}), make(chan struct{})}
	g.stop.Store(s)
	return s
}

// ServeHTTP passes a request on, and its answer back.
func (g *gate) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	var part struct {
		Index *int `json:"part_index"`
	}
	_ = json.Unmarshal(body, &part)
	at := g.stop.Load()
	if at != nil && (part.Index == nil || *part.Index != at.index || !g.stop.CompareAndSwap(at, nil)) {
		at = nil
	}
	wait := func() (gone bool) {
		close(at.reached)
		select {
		case <-r.Context().Done():
			return true
		case <-at.open:
			return false
		}
	}
	if at != nil && !at.after && wait() {
		return
	}
	request, err := http.NewRequestWithContext(r.Context(), r.Method, "http://"+*g.server.Load()+r.URL.Path, bytes.NewReader(body))
	if err != nil {
		w.WriteHeader(http.StatusInternalServerError)
		return
	}
	request.Header.Set("Content-Type", r.Header.Get("Content-Type"))
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.WriteHeader(http.StatusBadGateway)
		return
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(response.Body)
	if err != nil || at != nil && at.after && wait() {
		return
	}
	w.WriteHeader(response.StatusCode)
	_, _ = w.Write(answer)
}

// M-10, M-16, M-18, M-32, M-33, N-02, N-17: a message is answered in three parts
// while the runtime is killed twice and the server once, each in the middle; every
// part is there once, in order, and the session goes on.
func TestRuntimeExamples(t *testing.T) {
	for language, program := range exampleRuntimes(t) {
		t.Run(language, func(t *testing.T) {
			if program == nil {
				t.Skip("NOT TESTED: docs/runtimes/js. There is no node in PATH; it needs node 20 or newer, nothing else")
			}
			data := filepath.Join(t.TempDir(), "data")
			settings := []string{"--set", "outside.lease=300ms", "--set", "retry.max_attempts=100", "--set", "retry.backoff_min=5ms", "--set", "retry.backoff_max=20ms"}
			server := spawn(t, data, settings...)
			g := &gate{}
			g.server.Store(&server.addr)
			front := httptest.NewServer(g)
			defer front.Close()
			defer front.CloseClientConnections()
			run := func() *exec.Cmd {
				t.Helper()
				cmd := program()
				cmd.Env = append(os.Environ(), "PARLEY_URL="+front.URL)
				var log syncBuffer
				cmd.Stderr = &log
				if err := cmd.Start(); err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
					if t.Failed() {
						t.Logf("the runtime says %s", &log)
					}
				})
				return cmd
			}
			kill := func(cmd *exec.Cmd) {
				t.Helper()
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
				_ = cmd.Wait()
			}
			u := server.user()
			session := u.create(map[string]any{"agent": "outside"})
			u.send(session, "a", "one|two|three")
			u.send(session, "b", "four")

			lost := g.stopAt(1, true) // "two" is stored, and the runtime does not hear of it
			first := run()
			<-lost.reached
			kill(first)
			early := g.stopAt(2, false) // "three" is on its way
			second := run()
			<-early.reached
			kill(second)
			open := g.stopAt(2, false)
			run()
			<-open.reached
			server.kill()
			server = spawn(t, data, settings...)
			g.server.Store(&server.addr)
			close(open.open)

			u = server.user()
			u.ask("follow", session, map[string]any{"since": 0})
			ended := 0
			events := durable(u.until(func(f frame) bool {
				if done(f) {
					ended++
				}
				return ended == 2
			}))
			gapless(t, events, 1)
			var said []string
			for _, f := range events {
				switch f.Type {
				case "partial_response", "response":
					said = append(said, fmt.Sprint(f.Type, " ", f.text("source"), " ", f.Data["part"], " ", f.text("text")))
				case "message_resolved":
					said = append(said, f.text("message")+" "+f.text("how")+" "+f.text("evidence"))
				case "task_status":
					if done(f) {
						said = append(said, f.text("new_status"))
					}
				}
			}
			want := strings.ReplaceAll(`partial_response m1-S 0 one
partial_response m1-S 1 two
response m1-S 2 three
m1-S answered named
COMPLETE
response m2-S 0 four
m2-S answered named
COMPLETE`, "S", session)
			if got := strings.Join(said, "\n"); got != want {
				t.Errorf("the log says\n%s\nwant\n%s\nall of it:\n%s", got, want, shown(events))
			}
			generations := 0
			for _, f := range of(events, "runtime_status") {
				if f.text("status") == "handed_out" && f.text("message") == "m1-"+session {
					generations++
				}
			}
			if generations < 3 {
				t.Errorf("handed out %d times to three runtimes:\n%s", generations, shown(events))
			}
		})
	}
}
