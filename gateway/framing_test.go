package gateway_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"testing"

	"parley/gateway"
)

// What a proxy before this server may read in another way is refused, and the connection with it.
func TestAmbiguousRequests(t *testing.T) {
	r := start(t)
	for name, head := range map[string]string{
		"both lengths":          "POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"both, the other way":   "POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\ntransfer-encoding: chunked\r\ncontent-length: 2\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
		"a space in a name":     "GET /livez HTTP/1.1\r\nHost: localhost\r\nX Y: 1\r\n\r\n",
		"a space behind a name": "GET /livez HTTP/1.1\r\nHost: localhost\r\nX-Y : 1\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			c, in := r.raw(t, head)
			resp, err := http.ReadResponse(in, nil)
			if err != nil || resp.StatusCode != 400 {
				t.Fatalf("%+v, %v", resp, err)
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			if _, err := in.ReadByte(); err != io.EOF {
				t.Errorf("the connection stays: %v", err)
			}
			_ = c.Close()
		})
	}
	for name, head := range map[string]string{
		"a length": "POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}",
		"chunks":   "POST /api/sessions HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n{}\r\n0\r\n\r\n",
	} {
		if status := statusOf(t, r.addr, head); status != 201 {
			t.Errorf("%s: %d", name, status)
		}
	}
}

func statusOf(t *testing.T, addr, head string) int {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, head); err != nil {
		t.Fatal(err)
	}
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode
}

// A page of another site may lead here by a link, and an allowed origin may ask; what is
// embedded anywhere else is refused.
func TestPagesOfOtherSites(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.AllowedOrigins = []string{"https://app.example"} })
	for _, row := range []struct {
		name    string
		path    string
		status  int
		headers []string
	}{
		{"a program", "/api/sessions", 200, nil},
		{"the page itself", "/api/sessions", 200, []string{"Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"}},
		{"typed in", "/livez", 200, []string{"Sec-Fetch-Site", "none", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{"a link", "/livez", 200, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "document"}},
		{"an image", "/api/sessions", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "image"}},
		{"a frame", "/livez", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "navigate", "Sec-Fetch-Dest", "iframe"}},
		{"another port", "/livez", 403, []string{"Sec-Fetch-Site", "same-site", "Sec-Fetch-Mode", "no-cors", "Sec-Fetch-Dest", "script"}},
		{"an allowed origin", "/api/sessions", 200, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", "https://app.example"}},
		{"another origin", "/api/sessions", 403, []string{"Sec-Fetch-Site", "cross-site", "Sec-Fetch-Mode", "cors", "Origin", "https://evil.example"}},
	} {
		if status, body := ask(t, "GET", "http://"+r.addr+row.path, row.headers...); status != row.status {
			t.Errorf("%s: %d %.200s, want %d", row.name, status, body, row.status)
		}
	}
}
