package modelstest

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"parley/conversation"
)

// Fixed returns a provider that sends one thing, whatever it is asked; asked is the
// body of the last request.
func Fixed(t *testing.T, media, body string) (url string, asked *map[string]any) {
	t.Helper()
	asked = new(map[string]any)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		*asked = nil
		if err := json.Unmarshal(raw, asked); err != nil {
			t.Error(err)
		}
		w.Header().Set("Content-Type", media)
		_, _ = io.WriteString(w, body)
	}))
	t.Cleanup(server.Close)
	return server.URL, asked
}

// Bodies returns a provider that has no money left for whatever it is asked: nothing in the
// request is the cause. Each body that comes is handed over.
func Bodies(t *testing.T, take func(body string)) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		raw, _ := io.ReadAll(req.Body)
		take(string(raw))
		w.WriteHeader(http.StatusPaymentRequired)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// SSE makes a stream of frames.
func SSE(frames ...string) string { return "data: " + strings.Join(frames, "\n\ndata: ") + "\n\n" }

// Collect makes a call and returns its deltas joined, the whole answer and the error.
func Collect(ctx context.Context, m conversation.Model, r conversation.Request) (deltas string, done *conversation.ModelAnswer, err error) {
	for out, e := range m.Stream(ctx, r) {
		if e != nil {
			err = e
		}
		if out.Done != nil {
			done = out.Done
		}
		deltas += out.Delta
	}
	return deltas, done, err
}
