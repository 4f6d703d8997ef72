package waystest

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Reply is what a request was answered with.
type Reply struct {
	*http.Response

	Lines *bufio.Reader      // the body
	End   context.CancelFunc // gives up the request
	t     testing.TB
}

// Call makes a request; a body is JSON, and "" is none. Headers come in pairs.
func (r *Rig) Call(method, path, body string, headers ...string) *Reply {
	r.T.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	r.T.Cleanup(cancel)
	req, err := http.NewRequestWithContext(ctx, method, r.URL+path, strings.NewReader(body))
	if err != nil {
		r.T.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	response, err := r.HTTP.Do(req)
	if err != nil {
		r.T.Fatal(err)
	}
	r.T.Cleanup(func() { _ = response.Body.Close() })
	return &Reply{Response: response, Lines: bufio.NewReaderSize(response.Body, 64<<10), End: cancel, t: r.T}
}

// All is the rest of the body.
func (r *Reply) All() string {
	r.t.Helper()
	b, err := io.ReadAll(r.Lines)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(b)
}

// Want fails unless the request was answered with a status.
func (r *Reply) Want(status int) *Reply {
	r.t.Helper()
	if r.StatusCode != status {
		r.t.Fatalf("status %d, want %d: %s", r.StatusCode, status, r.All())
	}
	return r
}

// Until reads events until one has a text, and gives back all that was read.
func (r *Reply) Until(text string) string {
	r.t.Helper()
	read := ""
	for {
		line, err := r.Lines.ReadString('\n')
		read += line
		if err != nil {
			r.t.Fatalf("%v before %q, behind %s", err, text, read)
		}
		if strings.Contains(line, text) {
			end, _ := r.Lines.ReadString('\n')
			return read + end
		}
	}
}
