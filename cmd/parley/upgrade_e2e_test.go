package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"parley/persistence/postgres/pgtest"
)

// rolling is a cluster whose nodes are replaced one by one.
type rolling struct {
	t        *testing.T
	dsn      string // a file
	cluster  []string
	nodes    [3]atomic.Pointer[live]
	sessions []string
}

// args are those of the i-th node.
func (r *rolling) args(i int) []string {
	return []string{
		"--set", "store.postgres=file:" + r.dsn, "--set", "cluster.listen=" + r.cluster[i], "--set", "cluster.insecure=true",
		"--set", fmt.Sprint("cluster.node=n", i), "--set", "cluster.lease=2s",
	}
}

// once asks a node; 0 = there was no answer.
func once(ctx context.Context, l *live, method, path, body string) (int, []byte) {
	request, err := http.NewRequestWithContext(ctx, method, "http://"+l.addr+path, strings.NewReader(body))
	if err != nil {
		return 0, nil
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, nil
	}
	defer response.Body.Close()
	got, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, nil
	}
	return response.StatusCode, got
}

// talk sends messages to a session through all nodes in turn, each until it is answered, and
// says how many there were.
func (r *rolling) talk(ctx context.Context, k int, over <-chan struct{}) int {
	for n := 0; ; n++ {
		select {
		case <-over:
			return n
		default:
		}
		want := fmt.Sprintf("answer %d of %d", n, k)
		body := fmt.Sprintf(`{"client_msg_id":"m%d","text":"/say %s"}`, n, want)
		for try := 0; ; try++ {
			status, got := once(ctx, r.nodes[(k+n+try)%len(r.nodes)].Load(), "POST", "/api/sessions/"+r.sessions[k]+"/messages?wait=20s", body)
			if status == http.StatusOK {
				if !bytes.Contains(got, []byte(want)) {
					r.t.Errorf("message %d of session %d: %s", n, k, got)
				}
				break
			}
			switch {
			case ctx.Err() != nil:
				r.t.Errorf("message %d of session %d has no answer after %d tries: %d %s", n, k, try, status, got)
				return n
			case status != 0 && status != http.StatusAccepted && status != http.StatusServiceUnavailable && status != http.StatusGatewayTimeout:
				r.t.Errorf("message %d of session %d: %d %s", n, k, status, got)
				return n
			}
			<-time.After(20 * time.Millisecond)
		}
	}
}

// clear asks for what only the newer program can read, in each session, and says how many have
// done it; the others are refused, and may be asked again.
func (r *rolling) clear(ctx context.Context, by int) (done int) {
	for _, session := range r.sessions {
		status, body := once(ctx, r.nodes[by].Load(), "POST", "/api/sessions/"+session+"/clear", "{}")
		switch {
		case status == http.StatusOK:
			done++
		case status != http.StatusServiceUnavailable:
			r.t.Errorf("clear: %d %s", status, body)
		}
	}
	return done
}

// said counts what is in a session: messages by the client's id, and parts by their text.
func (r *rolling) said(k int, session string) map[string]int {
	said := map[string]int{}
	for cursor, more := "", true; more; {
		_, body := r.nodes[k%len(r.nodes)].Load().do("GET", "/api/sessions/"+session+"/messages?limit=200"+cursor, "")
		var page struct {
			Items []struct {
				Type, Text string
				ID         string `json:"client_msg_id"`
			}
			Next string `json:"next_cursor"`
		}
		if err := json.Unmarshal(body, &page); err != nil {
			r.t.Fatalf("%v: %s", err, body)
		}
		for _, item := range page.Items {
			if item.Type == "message" {
				item.Text = item.ID
			}
			said[item.Type+" "+item.Text]++
		}
		cursor, more = "&cursor="+url.QueryEscape(page.Next), page.Next != ""
	}
	return said
}

// Three nodes are replaced by those of a program that knows one feature more, one by one and
// under load. Every message is answered once, no task ends in ERROR, and what the older
// program could not read is not written as long as it is there. Afterwards it stays out.
func TestRollingUpgradeToANewerFeature(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: it builds a program")
	}
	if pgtest.Missing() != "" {
		t.Skip("NOT RUN: ", pgtest.Missing())
	}
	next := filepath.Join(t.TempDir(), "next")
	build := exec.Command("go", "build", "-tags", "nextrelease", "-o", next, "./cmd/parley")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	r := &rolling{t: t, dsn: filepath.Join(t.TempDir(), "dsn")}
	if err := os.WriteFile(r.dsn, []byte(pgtest.Open(t, pgtest.Settings{}).NewDatabase(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	for i := range r.nodes {
		port, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		r.cluster = append(r.cluster, port.Addr().String())
		_ = port.Close()
		r.nodes[i].Store(spawn(t, t.TempDir(), r.args(i)...))
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for range 24 {
		status, body := r.nodes[0].Load().do("POST", "/api/sessions", "{}")
		var made struct{ Session string }
		if err := json.Unmarshal(body, &made); err != nil || made.Session == "" {
			t.Fatalf("%d %s: %v", status, body, err)
		}
		r.sessions = append(r.sessions, made.Session)
	}
	over, answered := make(chan struct{}), make([]int, len(r.sessions))
	var all sync.WaitGroup
	for k := range r.sessions {
		all.Go(func() { answered[k] = r.talk(ctx, k, over) })
	}
	refused := 0
	for i := range r.nodes {
		old := r.nodes[i].Load()
		old.stop()
		// What this program's tests are told by, the other one does not know.
		cmd := exec.Command("env", append([]string{"-u", serveVariable, next}, childArgs(t, t.TempDir(), r.args(i)...)...)...)
		r.nodes[i].Store(launch(t, cmd))
		done := r.clear(ctx, i)
		t.Logf("%d of 3 nodes replaced: %d of %d sessions were cleared", i+1, done, len(r.sessions))
		if i < len(r.nodes)-1 {
			refused += len(r.sessions) - done
		}
	}
	for r.clear(ctx, 0) < len(r.sessions) { // the nodes have not all heard yet that the last old one has gone
		if ctx.Err() != nil {
			t.Fatal("not all sessions can be cleared, although all members are new")
		}
		<-time.After(50 * time.Millisecond)
	}
	close(over)
	all.Wait()
	if refused == 0 {
		t.Error("nothing was refused while members could not read it")
	}
	total := 0
	for k, session := range r.sessions {
		said := r.said(k, session)
		for n := range answered[k] {
			if id, want := fmt.Sprint("message m", n), fmt.Sprintf("part answer %d of %d", n, k); said[id] != 1 || said[want] != 1 {
				t.Errorf("session %d: message %d is there %d times, and its answer %d times", k, n, said[id], said[want])
			}
		}
		total += answered[k]
	}
	if _, body := r.nodes[0].Load().do("GET", "/api/tasks?status=ERROR", ""); !bytes.Contains(body, []byte(`"items":[]`)) {
		t.Errorf("tasks ended in ERROR: %s", body)
	}
	t.Logf("%d messages were answered, %d clears refused meanwhile", total, refused)

	r.nodes[0].Load().stop()
	for _, command := range []string{"serve", "doctor", "migrate"} {
		m := NewMain()
		var out bytes.Buffer
		m.Stdout, m.Stderr, m.Environ = &out, &out, nil
		args := append([]string{command, "--config", emptyConfig(t), "--listen", "127.0.0.1:0", "--data", t.TempDir()}, r.args(0)...)
		if code := m.Execute(ctx, args); code != exitFailed || !strings.Contains(out.String(), "newer programs have written") {
			t.Errorf("%s by the older program: %d %s", command, code, out.String())
		}
	}
}
