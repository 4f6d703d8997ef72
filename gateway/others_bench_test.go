package gateway

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway/fanout"
	"parley/gateway/gatewaytest"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// BenchmarkWays is how long a piece of text is on its way from the engine to a client, over the
// server's own event stream and over those of other protocols: what they add is the difference.
// The figure is the median (p50-µs); all go over a real connection on loopback.
func BenchmarkWays(b *testing.B) {
	for _, way := range []struct{ name, method, path, body string }{
		{"own", "GET", "/api/sessions/s1/stream", ""},
		{"openai", "GET", "/v1/responses/resp_t1-s1?stream=true", ""},
		{"uistream", "GET", "/api/ui/chat/s1/stream", ""},
		{"agui", "GET", "/agui/s1/runs/t1-s1", ""},
		{"a2a", "POST", "/a2a", `{"jsonrpc":"2.0","id":"1","method":"SubscribeToTask","params":{"id":"t1-s1"}}`},
	} {
		b.Run(way.name, func(b *testing.B) { benchmarkWay(b, way.method, way.path, way.body) })
	}
}

func benchmarkWay(b *testing.B, method, path, body string) {
	m := metrics.NewGateway(prometheus.NewRegistry())
	hub := fanout.NewHub(m)
	sessions := gatewaytest.NewSessions(hub)
	defer sessions.Close()
	cfg := DefaultConfig()
	cfg.Listen = "127.0.0.1:0"
	server, err := New(cfg, Deps{Sessions: sessions, Hub: hub, Metrics: m, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		b.Fatal(err)
	}
	addr, err := server.Listen()
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Run(ctx) }()
	defer func() { stop(); <-ended }()

	key := sessions.Open("s1", "local")
	said := make(chan error, 1)
	sessions.Tell(key, "local", conversation.Say{Author: "local", ClientMsgID: "m", Text: "go"}, func(_ conversation.Receipt, err error) { said <- err })
	if err := <-said; err != nil {
		b.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{}}
	defer client.CloseIdleConnections()
	alive, cancel := context.WithCancel(b.Context())
	defer cancel()
	r, err := http.NewRequestWithContext(alive, method, "http://"+addr.String()+path, strings.NewReader(body))
	if err != nil {
		b.Fatal(err)
	}
	r.Header.Set("A2A-Version", "1.0")
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	answer, err := client.Do(r)
	if err != nil {
		b.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode != http.StatusOK {
		b.Fatalf("%s answers %d", path, answer.StatusCode)
	}
	lines := bufio.NewReaderSize(answer.Body, 64<<10)
	task := conversation.TaskID("t1-s1")
	at := 0
	show := func(word string) time.Duration {
		begun := time.Now()
		sessions.Show(key, conversation.Delta{Task: task, Draft: "1.1.0", At: at, Text: word})
		at += len(word)
		for {
			line, err := lines.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if bytes.HasPrefix(line, []byte("data:")) && bytes.Contains(line, []byte(word)) {
				return time.Since(begun)
			}
		}
	}
	show("first-word ")
	took := make([]time.Duration, 0, b.N)
	b.ReportAllocs()
	b.ResetTimer()
	for i := range b.N {
		took = append(took, show(fmt.Sprintf("word-%d. ", i)))
	}
	b.StopTimer()
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
	cancel()
}
