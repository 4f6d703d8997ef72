package mcp

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// The host of an address is what one looks for; its path and query may hold keys.
func TestHostsAreShown(t *testing.T) {
	for text, want := range map[string]string{
		`Post "https://mcp.example.com/v1/key-4711?token=a": dial tcp: refused`: `Post "https://mcp.example.com/…": dial tcp: refused`,
		`Post "http://127.0.0.1:8080": refused`:                                 `Post "http://127.0.0.1:8080": refused`,
		`Post "http://127.0.0.1:8080/": refused`:                                `Post "http://127.0.0.1:8080": refused`,
		`Get "HTTPS://user:word@host?x=1", then https://other/a b`:              `Get "HTTPS://host/…", then https://other/… b`,
		"no address: https and http://":                                         "no address: https and http://",
	} {
		if got := hosts(text); got != want {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
}

// A server that is away is named by its host in the status and the log, a call's error
// by its name; nothing else of the address or the headers is seen.
func TestUnreachableHost(t *testing.T) {
	c, _ := remote(t, "http://127.0.0.1:9")
	w := remotes(t, nil, c)
	st := w.until("waiting", func(st Status) bool { return st.State == StateWaiting })
	leaks(t, w)
	if !strings.Contains(st.Err, `Post "http://127.0.0.1:9/…": `) || !strings.Contains(w.log.String(), "127.0.0.1:9/…") {
		t.Errorf("the reason is %q", st.Err)
	}
}

func TestUnknownAuthority(t *testing.T) {
	s := httptest.NewUnstartedServer(http.NotFoundHandler())
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	s.StartTLS()
	defer s.Close()
	c, _ := remote(t, s.URL)
	c.ConnectTimeout = time.Minute
	w := remotes(t, nil, c)
	st := w.until("waiting", func(st Status) bool { return st.State == StateWaiting })
	if !strings.Contains(st.Err, "certificate signed by unknown authority") || !strings.Contains(st.Err, strings.TrimPrefix(s.URL, "https://")) {
		t.Errorf("the reason is %q", st.Err)
	}
	leaks(t, w)
}
