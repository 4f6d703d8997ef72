package openai

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"parley/conversation"
)

// BenchmarkCancel measures from cancelling a call in mid-stream to the upstream
// server seeing its connection go.
func BenchmarkCancel(b *testing.B) {
	gone := make(chan time.Time, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		fmt.Fprint(w, `data: {"id":"x","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":"one "}}]}`+"\n\n")
		w.(http.Flusher).Flush()
		<-r.Context().Done()
		gone <- time.Now()
	}))
	defer server.Close()
	m, err := New(Options{API: Chat, Connection: Connection{BaseURL: server.URL + "/v1", Model: "m", APIKey: "k", Stream: true}})
	if err != nil {
		b.Fatal(err)
	}
	defer m.Close()
	var total time.Duration
	for b.Loop() {
		ctx, cancel := context.WithCancel(b.Context())
		var at time.Time
		r := conversation.Request{
			Session: "s1", Task: "t1-s1", Step: 1, Attempt: 1, Stream: true,
			Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Message: "m1-s1", Text: "hi"}},
		}
		for out := range m.Stream(ctx, r) {
			if out.Delta != "" {
				at = time.Now()
				cancel()
			}
		}
		cancel()
		total += (<-gone).Sub(at)
	}
	b.ReportMetric(float64(total.Microseconds())/float64(b.N), "µs/disconnect")
}
