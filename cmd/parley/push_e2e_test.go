//go:build e2e

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// postbox takes what is pushed.
type postbox struct {
	*httptest.Server
	mu   sync.Mutex
	got  map[string][]string // by path: what was pushed, each once
	ids  map[string]bool
	more chan struct{}
}

func newPostbox(t *testing.T) *postbox {
	p := &postbox{got: map[string][]string{}, ids: map[string]bool{}, more: make(chan struct{}, 1000)}
	p.Server = httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body) // a body that is cut off is no JSON
		p.mu.Lock()
		defer p.mu.Unlock()
		if id := r.Header.Get("webhook-id"); !p.ids[id] {
			p.ids[id] = true
			p.got[r.URL.Path] = append(p.got[r.URL.Path], string(body))
		}
		p.more <- struct{}{}
	}))
	t.Cleanup(p.Close)
	return p
}

// until waits until a text was pushed to a path.
func (p *postbox) until(t *testing.T, path, text string) {
	t.Helper()
	for deadline := time.After(patience); !strings.Contains(strings.Join(p.at(path), ""), text); {
		select {
		case <-p.more:
		case <-deadline:
			t.Fatalf("no %s at %s: %s", text, path, p.at(path))
		}
	}
}

func (p *postbox) at(path string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string(nil), p.got[path]...)
}

// texts are those that were pushed to a path, and the last state.
func (p *postbox) texts(t *testing.T, path string) (texts []string, state string) {
	t.Helper()
	for _, body := range p.at(path) {
		var e struct {
			ArtifactUpdate *struct {
				Artifact struct{ Parts []struct{ Text string } }
			}
			StatusUpdate *struct{ Status struct{ State string } }
		}
		if err := json.Unmarshal([]byte(body), &e); err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		switch {
		case e.ArtifactUpdate != nil:
			texts = append(texts, e.ArtifactUpdate.Artifact.Parts[0].Text)
		case e.StatusUpdate != nil:
			state = e.StatusUpdate.Status.State
		}
	}
	return texts, state
}

// sends is true for the node that pushes.
func (l *live) sends() bool {
	_, metrics := l.do("GET", "/metrics", "")
	return strings.Contains(string(metrics), "parley_cluster_singleton_runs{singleton=\"pushes\"} 1")
}

// One node of a cluster pushes what happens in sessions wherever they live. Killed (kill -9), it
// has another one go on: nothing is missing, and what comes twice has the same id.
func TestPushInACluster(t *testing.T) {
	nodes := clustered(t, 3, "--set", `push.hosts=["127.0.0.1"]`, "--set", "push.private=true", "--set", "cluster.lease=3s")
	box := newPostbox(t)
	var tasks []string
	for i := range 6 {
		status, answer := nodes[i%3].do("POST", "/a2a/message:send", fmt.Sprintf(
			`{"message":{"messageId":"m%d","role":"ROLE_USER","parts":[{"text":"/partial One\n/wait 4s\n/partial Two\n/wait 4s\n/say End"}]},"configuration":{"returnImmediately":true,"taskPushNotificationConfig":{"url":"%s/%d"}}}`, i, box.URL, i))
		var made struct{ Task struct{ ID string } }
		if err := json.Unmarshal(answer, &made); err != nil || status != 200 {
			t.Fatalf("%d %s", status, answer)
		}
		tasks = append(tasks, made.Task.ID)
	}
	for i := range tasks {
		box.until(t, fmt.Sprint("/", i), `"One"`)
	}
	sender := -1
	for i, n := range nodes {
		if n.sends() {
			sender = i
		}
	}
	if sender < 0 {
		t.Fatal("no node pushes")
	}
	nodes[sender].kill()
	for i := range tasks {
		path := fmt.Sprint("/", i)
		box.until(t, path, "TASK_STATE_COMPLETED")
		if texts, state := box.texts(t, path); fmt.Sprint(texts) != "[One Two End]" || state != "TASK_STATE_COMPLETED" {
			t.Errorf("%s: %q, %s", path, texts, state)
		}
	}
}
