package mcp

import (
	"context"
	"net/http"
	"strings"
	"testing"
)

// What a handler answers whole is known whole; what it flushes as server-sent events flows.
func TestWriterDecides(t *testing.T) {
	for _, test := range []struct {
		name    string
		do      func(w http.ResponseWriter)
		streams bool
		status  int
		body    string
	}{
		{"nothing at all", func(http.ResponseWriter) {}, false, 200, ""},
		{"a status", func(w http.ResponseWriter) { w.WriteHeader(202) }, false, 202, ""},
		{"an object", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte("{}"))
			w.(http.Flusher).Flush()
		}, false, 200, "{}"},
		{"events", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("data: 1\n\n"))
			w.(http.Flusher).Flush()
			_, _ = w.Write([]byte("data: 2\n\n"))
		}, true, 200, "data: 1\n\n"},
		{"events without a flush", func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = w.Write([]byte("data: 1\n\n"))
		}, false, 200, "data: 1\n\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := newWriter(context.Background())
			go func() {
				test.do(w)
				w.end()
			}()
			if streams := w.decided(); streams != test.streams || w.status != test.status {
				t.Errorf("streams %v, status %d", streams, w.status)
			}
			if got := w.body.String(); got != test.body {
				t.Errorf("%q, want %q", got, test.body)
			}
			if test.streams {
				rest := make([]byte, 100)
				n, err := w.out.Read(rest)
				if got := string(rest[:n]); err != nil || got != "data: 2\n\n" {
					t.Errorf("then %q %v", got, err)
				}
			}
		})
	}
}

// A panic of the handler is an answer of the server, if there is none yet.
func TestWriterFails(t *testing.T) {
	w := newWriter(context.Background())
	w.fail()
	w.end()
	if w.decided() || w.status != 500 || strings.Contains(w.body.String(), "panic") {
		t.Errorf("%d %q", w.status, w.body.String())
	}
}
