package gateway_test

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
)

// sse is one server-sent event.
type sse struct{ id, event, data, comment string }

// streamOf opens a stream and reads events from it, those behind hello.
func (r *rig) streamOf(path string, headers ...string) (next func() (sse, bool), cancel func()) {
	r.t.Helper()
	next, cancel = r.wholeStreamOf(path, headers...)
	if e, _ := next(); e.event != "hello" || e.id != "" {
		r.t.Fatalf("it began with %+v", e)
	}
	return next, cancel
}

// wholeStreamOf opens a stream and reads events from it.
func (r *rig) wholeStreamOf(path string, headers ...string) (next func() (sse, bool), cancel func()) {
	r.t.Helper()
	ctx, stop := context.WithTimeout(context.Background(), patience)
	req, err := http.NewRequestWithContext(ctx, "GET", "http://"+r.addr+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	if response.StatusCode != 200 || response.Header.Get("Content-Type") != "text/event-stream" {
		r.t.Fatalf("%d %v", response.StatusCode, response.Header)
	}
	lines := bufio.NewScanner(response.Body)
	lines.Buffer(nil, 1<<20)
	r.t.Cleanup(func() { stop(); _ = response.Body.Close() })
	return func() (sse, bool) {
		var e sse
		for lines.Scan() {
			switch line := lines.Text(); {
			case line == "":
				if e != (sse{}) {
					return e, true
				}
			case strings.HasPrefix(line, ":"):
				e.comment = line
			case strings.HasPrefix(line, "id: "):
				e.id = line[4:]
			case strings.HasPrefix(line, "event: "):
				e.event = line[7:]
			case strings.HasPrefix(line, "data: "):
				e.data = line[6:]
			}
		}
		return e, false
	}, func() { stop(); _ = response.Body.Close() }
}

// A stream resumes by Last-Event-ID or since; without either it is live only.
// PROTOCOL.md, rule 8.10.
func TestStream(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.sessions.Say(key, 20)
	r.sessions.Do(func() {})
	for _, x := range []struct {
		path   string
		header []string
		from   int
	}{
		{"?since=0", nil, 1}, {"?since=15", nil, 16}, {"", []string{"Last-Event-ID", "18"}, 19}, {"?since=3", []string{"Last-Event-ID", "18"}, 19}, {"", nil, 22},
	} {
		next, cancel := r.streamOf("/api/sessions/s1/stream"+x.path, x.header...)
		for seq := x.from; seq <= 21; seq++ {
			if e, _ := next(); e.id != strconv.Itoa(seq) || !strings.Contains(e.data, `"seq":`+e.id+`,`) || !strings.HasPrefix(e.data, `{"type":"`+e.event+`"`) {
				t.Fatalf("want %d: %+v", seq, e)
			}
		}
		if e, _ := next(); e.event != "synced" || e.id != "" {
			t.Errorf("%+v", e)
		}
		r.sessions.Show(key, conversation.Delta{Draft: "1.1.0", Text: "two\nlines"})
		if e, _ := next(); e.event != "delta" || e.id != "" || !strings.Contains(e.data, `two\nlines`) {
			t.Errorf("%+v", e)
		}
		cancel()
	}
	r.call("HEAD", "/api/sessions/s1/stream?since=0", "").want(t, 200) // opens none
	waitFor(t, func() bool {
		r.sessions.Show(key, conversation.Thinking{Step: 1}) // a dead stream is noticed when it is written to
		return r.metric("parley_gateway_streams") == 0
	})
	r.call("GET", "/api/sessions/s1/stream?since=x", "").problem(t, 400, "bad_request")
	r.call("GET", "/api/sessions/nobody/stream", "").problem(t, 404, "not_found")
	waitFor(t, func() bool { return r.metric("parley_gateway_follows") == 0 })
}

// A stream says first which log it is of, and where it begins. A cursor of another log, or
// one that the log does not reach, is answered with the tail. PROTOCOL.md, rule 8.10.
func TestStreamHello(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.sessions.Say(key, 99)
	r.sessions.Do(func() {})
	for _, c := range []struct {
		path, header string
		want         string // of the hello, besides log and head
		first        int
	}{
		{"", "", `"first":101,"resumed":false`, 0},
		{"?since=90", "", `"first":91,"resumed":true`, 91},
		{"?since=90&log=log-1", "", `"first":91,"resumed":true`, 91},
		{"?log=log-1", "98", `"first":99,"resumed":true`, 99},
		{"?log=log-0", "98", `"first":51,"resumed":false,"reason":"other_log"`, 51},
		{"", "101", `"first":51,"resumed":false,"reason":"ahead"`, 51},
		{"?since=999", "", `"first":51,"resumed":false,"reason":"ahead"`, 51},
	} {
		var headers []string
		if c.header != "" {
			headers = []string{"Last-Event-ID", c.header}
		}
		next, cancel := r.wholeStreamOf("/api/sessions/s1/stream"+c.path, headers...)
		want := `{"type":"hello","session":"s1","data":{"log":"log-1","head":100,` + c.want + `}}`
		if e, _ := next(); e.event != "hello" || e.id != "" || e.data != want {
			t.Errorf("%s %s: %+v\nwant %s", c.path, c.header, e, want)
		}
		if e, _ := next(); c.first > 0 && e.id != strconv.Itoa(c.first) {
			t.Errorf("%s %s: the first event is %+v", c.path, c.header, e)
		}
		cancel()
	}
}

// Streams are live, commented when silent, and end with the session or the server.
func TestStreamEnds(t *testing.T) {
	r := start(t, times(func(x *gateway.Times) { x.Comment = 10 * time.Millisecond }), limits(func(l *gateway.Limits) { l.Streams = 2 }))
	key := r.sessions.Open("s1", "local")
	r.sessions.Open("s2", "local")
	one, _ := r.streamOf("/api/sessions/s1/stream")
	two, _ := r.streamOf("/api/sessions/s2/stream")
	r.call("GET", "/api/sessions/s2/stream", "").problem(t, 503, "overloaded")
	for _, next := range []func() (sse, bool){one, two} {
		if e, _ := next(); e.event != "synced" {
			t.Errorf("%+v", e)
		}
		if e, _ := next(); e.comment == "" {
			t.Errorf("%+v", e)
		}
	}
	r.sessions.Say(key, 1)
	if e := skipComments(one); e.id != "2" {
		t.Errorf("%+v", e)
	}
	if err := r.sessions.Erase(t.Context(), key, "local"); err != nil {
		t.Fatal(err)
	}
	if e := skipComments(one); e.event != "gone" {
		t.Errorf("%+v", e)
	}
	if e, more := one(); more {
		t.Errorf("after the end %+v", e)
	}
	go func() { _ = r.stop() }()
	if e := skipComments(two); e.event != "goaway" {
		t.Errorf("%+v", e)
	}
	for {
		if _, more := two(); !more {
			break
		}
	}
	if err := r.stop(); err != nil {
		t.Error(err)
	}
}

// A stream whose client takes nothing is cut off and delays nobody.
func TestBlockedStream(t *testing.T) {
	r := start(t, times(func(x *gateway.Times) { x.Write = 50 * time.Millisecond }))
	key := r.sessions.Open("s1", "local")
	conn, err := net.Dial("tcp", r.addr)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "GET /api/sessions/s1/stream?since=0 HTTP/1.1\r\nHost: "+r.addr+"\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return r.metric("parley_gateway_streams") == 1 })
	text := strings.Repeat("x", 60_000)
	for range 500 {
		r.sessions.Commit(key, conversation.Event{Body: conversation.MessageEdited{Message: "m1", Text: text}})
	}
	waitFor(t, func() bool { return r.metric("parley_gateway_streams") == 0 && r.metric("parley_gateway_follows") == 0 })
}

func skipComments(next func() (sse, bool)) sse {
	for {
		if e, more := next(); e.comment == "" || !more {
			return e
		}
	}
}
