package gatewaytest_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"parley/gateway/gatewaytest"
)

// noted takes the place of a test and keeps what it is told.
type noted struct {
	testing.TB
	said []string
}

func (n *noted) Name() string { return "" }

func (n *noted) Helper() {}

func (n *noted) Errorf(f string, a ...any) { n.said = append(n.said, fmt.Sprintf(f, a...)) }

// The listener reports what the document does not allow; a guard that lets
// everything through would look the same as a server without faults.
func TestListenerNotices(t *testing.T) {
	c := gatewaytest.Documents(t)
	const ping, ok = `{"type":"ping","id":"1"}`, `{"type":"ok","re":"1","data":{}}`
	const badRequest = `{"type":"error","re":"1","error":{"code":"bad_request","message":"x","retryable":false}}`
	for _, x := range []struct {
		name, sent, received string
		fine                 bool
	}{
		{"an ok", ping, ok, true},
		{"a refusal", `{"type":"ping"}`, `{"type":"error","re":null,"error":{"code":"bad_request","message":"x","retryable":false}}`, true},
		{"a refusal of what is wrong", `{"type":"seen","id":"1","session":"s1","data":{}}`, badRequest, true},
		{"an event", "", `{"type":"session_closed","session":"s1","seq":7,"ts":"2026-11-21T08:30:05.007Z","data":{"reason":"done"}}`, true},
		{"no JSON", "", `hello`, false},
		{"an unknown event", "", `{"type":"news","session":"s1","seq":7,"ts":"2026-11-21T08:30:05.007Z","data":{}}`, false},
		{"a private field", "", `{"type":"session_closed","session":"s1","seq":7,"ts":"2026-11-21T08:30:05.007Z","data":{"reason":"done","model_call":"x"}}`, false},
		{"a time without milliseconds", "", `{"type":"session_closed","session":"s1","seq":7,"ts":"2026-11-21T08:30:05Z","data":{"reason":"done"}}`, false},
		{"an ok that nobody waits for", "", ok, false},
		{"an ok without re", ping, `{"type":"ok","re":null,"data":{}}`, false},
		{"the ok of another command", `{"type":"create","id":"1"}`, ok, false},
		{"an unknown code", ping, `{"type":"error","re":"1","error":{"code":"oops","message":"x","retryable":false}}`, false},
		{"an ok to what is wrong", `{"type":"seen","id":"1","session":"s1","data":{}}`, ok, false},
		{"an ok to an unknown command", `{"type":"dance","id":"1"}`, ok, false},
		{"a bad request that is none", ping, badRequest, false},
	} {
		n := &noted{}
		l := c.Listen(n)
		if x.sent != "" {
			l.Sent([]byte(x.sent))
		}
		l.Received([]byte(x.received))
		if fine := len(n.said) == 0; fine != x.fine {
			t.Errorf("%s: %v", x.name, n.said)
		}
	}
}

// canned answers every request with one response.
type canned struct {
	status       int
	header, body string
}

func (r canned) RoundTrip(req *http.Request) (*http.Response, error) {
	h := http.Header{"X-Request-Id": {"r1"}, "Cache-Control": {"no-cache"}}
	if name, value, ok := strings.Cut(r.header, ": "); ok {
		h.Set(name, value)
	}
	if h.Get("Content-Type") == "" {
		h.Set("Content-Type", "application/json")
	}
	return &http.Response{StatusCode: r.status, Header: h, Request: req, Body: io.NopCloser(strings.NewReader(r.body))}, nil
}

// The same of the transport.
func TestTransportNotices(t *testing.T) {
	c := gatewaytest.Documents(t)
	problem := func(status int, code string) canned {
		return canned{status, "Content-Type: application/problem+json", fmt.Sprintf(
			`{"type":"about:blank","title":"T","status":%d,"detail":"d","instance":"/","code":%q,"request_id":"r1","retryable":false}`, status, code)}
	}
	stream := func(body string) canned {
		return canned{200, "Content-Type: text/event-stream", body}
	}
	const frame = `{"type":"session_closed","session":"s1","seq":7,"ts":"2026-11-21T08:30:05.007Z","data":{"reason":"done"}}`
	for _, x := range []struct {
		name, method, path, body string
		answer                   canned
		fine                     bool
	}{
		{"fine", "GET", "/livez", "", canned{200, "", `{"status":"alive"}`}, true},
		{"another word", "GET", "/livez", "", canned{200, "", `{"status":"well"}`}, false},
		{"another member", "GET", "/livez", "", canned{200, "", `{"status":"alive","more":1}`}, false},
		{"another status", "GET", "/livez", "", canned{201, "", `{"status":"alive"}`}, false},
		{"another type", "GET", "/livez", "", canned{200, "Content-Type: text/plain", `{"status":"alive"}`}, false},
		{"an unknown path", "GET", "/nothing", "", problem(404, "not_found"), true},
		{"an unknown path that is there", "GET", "/nothing", "", canned{200, "", `{}`}, false},
		{"a wrong method", "PUT", "/livez", "", problem(405, "method_not_allowed"), true},
		{"a wrong method that is fine", "PUT", "/livez", "", canned{200, "", `{"status":"alive"}`}, false},
		{"a code of another status", "GET", "/api/sessions/s1", "", problem(404, "conflict"), false},
		{"a status that the route has not", "GET", "/api/sessions/s1", "", problem(409, "conflict"), false},
		{"a delegation", "GET", "/api/sessions/s1%2Fd1", "", problem(404, "not_found"), true},
		{"a made session without its place", "POST", "/api/sessions", "{}", canned{201, "", `{"session":"s1"}`}, false},
		{"a made session", "POST", "/api/sessions", "{}", canned{201, "Location: /api/sessions/s1", `{"session":"s1"}`}, true},
		{"a wrong body that is taken", "POST", "/api/sessions", `{"title":1}`, canned{201, "Location: /api/sessions/s1", `{"session":"s1"}`}, false},
		{"a wrong body", "POST", "/api/sessions", `{"title":1}`, problem(400, "bad_request"), true},
		{"a right body that is refused", "POST", "/api/sessions", `{"title":"x"}`, problem(400, "bad_request"), false},
		{"a wrong query", "GET", "/api/sessions?limit=0", "", problem(400, "bad_request"), true},
		{"a right query that is refused", "GET", "/api/sessions?limit=1", "", problem(400, "bad_request"), false},
		{"a page of events", "GET", "/api/sessions/s1/events", "", canned{200, "", `{"items":[` + frame + `],"next_cursor":null}`}, true},
		{"a leak in a page", "GET", "/api/sessions/s1/events", "", canned{200, "", `{"items":[` + strings.Replace(frame, `"reason"`, `"leak":1,"reason"`, 1) + `],"next_cursor":null}`}, false},
		{"a stream", "GET", "/api/sessions/s1/stream", "", stream("retry: 2000\n\n: hb\n\nid: 7\nevent: session_closed\ndata: " + frame + "\n\n"), true},
		{"a stream without ids", "GET", "/api/sessions/s1/stream", "", stream("event: session_closed\ndata: " + frame + "\n\n"), false},
		{"a leak in a stream", "GET", "/api/sessions/s1/stream", "", stream("id: 7\nevent: session_closed\ndata: " + strings.Replace(frame, `"reason"`, `"leak":1,"reason"`, 1) + "\n\n"), false},
		{"an unknown field in a stream", "GET", "/api/sessions/s1/stream", "", stream("what: 7\n\n"), false},
	} {
		n := &noted{}
		req, err := http.NewRequest(x.method, "http://localhost"+x.path, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Content-Type", "application/json")
		resp, err := c.Transport(n, x.answer).RoundTrip(req)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.ReadAll(resp.Body); err != nil {
			t.Fatal(err)
		}
		if fine := len(n.said) == 0; fine != x.fine {
			t.Errorf("%s: %v", x.name, n.said)
		}
	}
}
