package gateway_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/gateway"
)

// A body above limits.body_bytes is refused in the words of the protocol whose route it came to,
// whether it was read (up to four times the limit) or not. What has no route, or none that
// has words of its own, is answered by a problem.
func TestTooLargeIsSaidInTheProtocolsWords(t *testing.T) {
	const most = 10_000
	r := startOpenAI(t, limits(func(l *gateway.Limits) { l.BodyBytes = most }))
	const (
		openai  = `{"error":{"message":"`
		jsonRPC = `{"jsonrpc":"2.0","id":null,"error":{"code":-32000,"message":"`
		google  = `{"error":{"code":413,"status":"RESOURCE_EXHAUSTED","message":"`
		problem = `{"type":"about:blank","title":"`
	)
	refused := 0.0
	for _, route := range []struct {
		method, path, kind, begins string
		status                     int
	}{
		{"POST", "/v1/responses", "application/json", openai, 413},
		{"POST", "/v1/chat/completions", "application/json", openai, 413},
		{"GET", "/v1/models", "application/json", openai, 413},
		{"POST", "/mcp", "application/json", jsonRPC, 413},
		{"POST", "/a2a", "application/json", jsonRPC, 413},
		{"POST", "/a2a/message:send", "application/json", google, 413},
		{"POST", "/agui", "application/json", `{"type":"RUN_ERROR","message":"`, 413},
		{"POST", "/api/ui/chat", "text/plain; charset=utf-8", "the ", 413},
		{"GET", "/acp", "application/problem+json", problem, 413},
		{"GET", "/.well-known/agent-card.json", "application/json", google, 413},
		{"POST", "/v1/nothing", "application/problem+json", problem, 413},
		{"POST", "/api/sessions", "application/problem+json", problem, 413},
		{"GET", "/livez", "application/problem+json", problem, 413},
		{"GET", "/ws", "application/problem+json", problem, 413},
	} {
		for _, size := range []int{most + 1, 4 * most, 4*most + 1, 6 * most} {
			a := r.call(route.method, route.path, strings.Repeat("x", size))
			if kind := a.header.Get("Content-Type"); a.status != route.status || kind != route.kind || !strings.HasPrefix(string(a.body), route.begins) {
				t.Errorf("%s %s of %d bytes: %d %s %s", route.method, route.path, size, a.status, kind, a.body)
			}
			refused++
		}
		if a := r.call(route.method, route.path, strings.Repeat(" ", most)); strings.Contains(string(a.body), "too_large") {
			t.Errorf("%s %s, not too large: %s", route.method, route.path, a.body)
		}
	}
	if got := r.metric("parley_gateway_refused_total", "limit", "body_bytes"); got != refused {
		t.Errorf("%v were refused, and %v are counted", refused, got)
	}
	if n := len(r.call("GET", "/api/sessions", "").body); n > 60 {
		t.Errorf("a session was opened: %d bytes", n)
	}
}

// A body that was read leaves its connection to the next request, and one that was not ends it:
// for a protocol that is not ours as for ours. No method of HTTP is needed for that.
func TestTooLargeAndTheConnection(t *testing.T) {
	const most = 10_000
	r := startOpenAI(t, limits(func(l *gateway.Limits) { l.BodyBytes = most }))
	for _, test := range []struct {
		method string
		size   int
		closes bool
	}{{"POST", 4 * most, false}, {"POST", 4*most + 1, true}, {"BREW", 4*most + 1, true}} {
		conn, err := net.Dial("tcp", r.addr)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(patience))
		fmt.Fprintf(conn, "%s /v1/responses HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", test.method, r.addr, test.size, strings.Repeat("x", test.size))
		answers := bufio.NewReader(conn)
		a, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(io.Discard, a.Body); err != nil || a.StatusCode != 413 || a.Close != test.closes {
			t.Errorf("%s of %d bytes: %d, closed %v, %v", test.method, test.size, a.StatusCode, a.Close, err)
		}
	}
}

// A refusal is kept by no cache, not even that of what everybody may keep; and it is in the protocol's
// words whatever else is wrong with the request.
func TestTooLargeIsAllThatIsSaid(t *testing.T) {
	const most = 10_000
	r := startOpenAI(t, limits(func(l *gateway.Limits) { l.BodyBytes = most }))
	for _, size := range []int{most + 1, 4*most + 1} {
		a := r.call("GET", "/.well-known/agent-card.json", strings.Repeat("x", size)).want(t, 413)
		if keep, tag := a.header.Get("Cache-Control"), a.header.Get("ETag"); keep != "no-store" || tag != "" {
			t.Errorf("%d bytes: Cache-Control %q, ETag %q", size, keep, tag)
		}
		a = r.call("POST", "/a2a/message:send", strings.Repeat("x", size), "A2A-Version", "0.3").want(t, 413)
		if kind := a.header.Get("Content-Type"); kind != "application/json" || !strings.Contains(string(a.body), "RESOURCE_EXHAUSTED") {
			t.Errorf("%d bytes: %s %s", size, kind, a.body)
		}
	}
}
