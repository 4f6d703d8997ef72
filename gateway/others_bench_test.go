package gateway_test

import (
	"bytes"
	"net/http"
	"testing"

	"parley/conversation"
	"parley/gateway/waystest"
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
	r := waystest.Begin(b)
	key := r.Sessions.Open("s1", "local")
	said := make(chan error, 1)
	r.Sessions.Tell(key, "local", conversation.Say{Author: "local", ClientMsgID: "m", Text: "go"}, func(_ conversation.Receipt, err error) { said <- err })
	if err := <-said; err != nil {
		b.Fatal(err)
	}
	r.HTTP.Timeout = 0 // of benchmarks the caller says how long they take
	stream := r.Call(method, path, body, "A2A-Version", "1.0").Want(http.StatusOK)
	defer stream.End()
	r.Way(b, key, func(word string) {
		for {
			line, err := stream.Lines.ReadSlice('\n')
			if err != nil {
				b.Fatal(err)
			}
			if bytes.HasPrefix(line, []byte("data:")) && bytes.Contains(line, []byte(word)) {
				return
			}
		}
	})
}
