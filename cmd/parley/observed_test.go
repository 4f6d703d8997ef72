package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"

	"parley/metrics/tracing/tracingtest"
)

// asked sends a request with headers, and returns the answer's body.
func (l *live) asked(method, path, body string, headers ...string) string {
	l.t.Helper()
	req, err := http.NewRequest(method, "http://"+l.addr+path, strings.NewReader(body))
	if err != nil {
		l.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		l.t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	answer, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode > 299 {
		l.t.Fatalf("%s %s: %d %s", method, path, res.StatusCode, answer)
	}
	return string(answer)
}

// An address of the environment is checked as one of the configuration is, and what it may
// hold of secrets is not said.
func TestTracesToNoCollector(t *testing.T) {
	for _, address := range []string{"http://marker-user:marker-secret@collector:4318", "http://collector:4318/?token=marker-secret", "127.0.0.1:4318"} {
		m, out := NewMain(), &syncBuffer{}
		m.Stdout, m.Stderr, m.Environ = out, out, []string{"OTEL_EXPORTER_OTLP_ENDPOINT=" + address}
		ctx, cancel := context.WithCancel(t.Context())
		go func() {
			select {
			case <-m.Listening():
				cancel()
			case <-ctx.Done():
			}
		}()
		code := m.Execute(ctx, append([]string{"serve", "--config", emptyConfig(t), "--listen", "127.0.0.1:0", "--data", t.TempDir()}, quick...))
		cancel()
		if said := out.String(); code != exitUsage || !strings.Contains(said, "OTEL_EXPORTER_OTLP_ENDPOINT: must be ") || strings.Contains(said, "marker") {
			t.Errorf("with %s it ended with %d and said\n%s", address, code, said)
		}
	}
}

// N-14: traces reach a collector with what it wants as a password; they and the log of
// requests hold no text, no secret, no query; what has not been sent is sent at the end.
func TestTracesAndRequestLog(t *testing.T) {
	to := &tracingtest.Receiver{}
	collector := httptest.NewServer(to)
	defer collector.Close()
	file := write(t, `
[tracing]
endpoint = "`+collector.URL+`"
headers = { Authorization = "Bearer ${env:COLLECTOR_TOKEN}" }
[log]
level = "debug"
format = "json"
requests = true
`)
	s := startWith(t, filepath.Join(t.TempDir(), "data"), func(m *Main) {
		m.Environ = []string{"COLLECTOR_TOKEN=marker-secret"}
	}, "--config", file)
	session := s.session()
	const caller = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	s.asked("POST", "/api/sessions/"+session+"/messages?wait=30s&ticket=marker-ticket", `{"client_msg_id":"a","text":"/delegate communicator marker-text"}`,
		"Traceparent", caller, "X-Request-ID", "request-7", "Authorization", "Bearer marker-bearer")
	s.asked("GET", "/livez", "")
	s.stop()

	tree := to.Tree("store commit")
	for _, want := range []string{"task coordinator\n", "  step\n    chat scripted\n", "  invoke_agent communicator\n    task communicator\n", "message\n"} {
		if !strings.Contains(tree, want) {
			t.Errorf("%q is not among the spans:\n%s", want, tree)
		}
	}
	ours := map[string]bool{}
	for _, span := range to.Spans() {
		if span.Trace == "0af7651916cd43dd8448eb211c80319c" {
			if span.Name != "message" || span.Parent != "b7ad6b7169203331" {
				t.Errorf("in the client's trace: %+v", span)
			}
			continue
		}
		ours[span.Trace] = true
	}
	if len(ours) != 1 {
		t.Errorf("%d traces", len(ours))
	}
	if to.Header("Authorization") != "Bearer marker-secret" {
		t.Errorf("the collector is shown %q", to.Header("Authorization"))
	}

	log := s.err.String()
	for _, never := range []string{"marker-secret", "marker-ticket", "marker-text", "marker-bearer"} {
		if strings.Contains(log, never) {
			t.Errorf("%s is in the log", never)
		}
		if to.Holds(never) {
			t.Errorf("%s is in a span", never)
		}
	}
	var posted, health, ended map[string]any
	for line := range strings.Lines(log) {
		var entry map[string]any
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			continue
		}
		switch {
		case entry["msg"] == "request" && entry["request_id"] == "request-7":
			posted = entry
		case entry["msg"] == "request" && entry["route"] == "/livez":
			health = entry
		case entry["msg"] == "task ended" && entry["agent"] == "coordinator":
			ended = entry
		}
	}
	for key, want := range map[string]any{"level": "INFO", "method": "POST", "route": "/api/sessions/:id/messages", "status": 200.0, "session": session, "room": "gateway"} {
		if posted[key] != want {
			t.Errorf("%s is %v, want %v: %v", key, posted[key], want, posted)
		}
	}
	if took := fmt.Sprint(posted["took"]); !strings.HasSuffix(took, "s") || posted["remote"] == nil {
		t.Errorf("%v", posted)
	}
	if health == nil || health["level"] != "DEBUG" {
		t.Errorf("a request for the health: %v", health)
	}
	if trace, _ := ended["trace_id"].(string); !ours[trace] || ended["delegations"] != 1.0 {
		t.Errorf("the end of the task: %v", ended)
	}
}

// Each command of a socket is a line, too.
func TestCommandLog(t *testing.T) {
	s := start(t, filepath.Join(t.TempDir(), "data"), "--set", "log.requests=true", "--set", "log.format=json")
	u := s.user()
	session := u.create(nil)
	u.send(session, "a", "marker-text")
	s.stop()
	var seen []string
	for line := range strings.Lines(s.err.String()) {
		var entry map[string]any
		if json.Unmarshal([]byte(line), &entry) == nil && entry["msg"] == "command" {
			seen = append(seen, fmt.Sprint(entry["command"], " ", entry["code"], " ", entry["session"], " ", entry["took"] != nil, " ", entry["conn"] != nil))
		}
	}
	for _, want := range []string{"hello ok <nil> true true", "create ok <nil> true true", "send ok " + session + " true true"} {
		if !strings.Contains(strings.Join(seen, "\n"), want) {
			t.Errorf("no %q among %q", want, seen)
		}
	}
	if strings.Contains(s.err.String(), "marker-text") {
		t.Error("a text is in the log")
	}
}
