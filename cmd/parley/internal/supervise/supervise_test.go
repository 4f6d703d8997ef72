package supervise

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"parley/gateway"
)

func TestConfigured(t *testing.T) {
	for name, c := range map[string]struct {
		config gateway.Config
		want   string // URL, name and the other address
	}{
		"default":      {gateway.Config{Listen: "127.0.0.1:8080"}, "http://127.0.0.1:8080  "},
		"everywhere":   {gateway.Config{Listen: "0.0.0.0:8080"}, "http://127.0.0.1:8080  [::1]:8080"},
		"no host":      {gateway.Config{Listen: ":8080"}, "http://127.0.0.1:8080  [::1]:8080"},
		"as Go has it": {gateway.Config{Listen: "[::]:8080"}, "http://127.0.0.1:8080  [::1]:8080"}, // also of 0.0.0.0
		"IPv6":         {gateway.Config{Listen: "[::1]:8080"}, "http://[::1]:8080  "},
		"files":        {gateway.Config{Listen: "10.0.0.1:443", TLS: gateway.TLS{CertFile: "c.pem"}}, "https://10.0.0.1:443  "},
		"ACME":         {gateway.Config{Listen: "0.0.0.0:443", TLS: gateway.TLS{ACMEHosts: []string{"chat.example"}}}, "https://127.0.0.1:443 chat.example [::1]:443"},
		"admin":        {gateway.Config{Listen: "0.0.0.0:443", AdminListen: "127.0.0.1:9090", TLS: gateway.TLS{CertFile: "c.pem"}}, "http://127.0.0.1:9090  "},
		"any port":     {gateway.Config{Listen: "127.0.0.1:0"}, ""},
		"no address":   {gateway.Config{Listen: "nowhere"}, ""},
	} {
		s, err := Configured(c.config)
		if got := s.URL + " " + s.Name + " " + s.Else; (err != nil) != (c.want == "") || err == nil && (got != c.want || !s.Own) {
			t.Errorf("%s: %q, %v; want %q", name, got, err, c.want)
		}
	}
}

// Where one family of addresses does not exist, the server is found at the other.
func TestAskElse(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"status":"alive"}`)) }))
	defer server.Close()
	there, nowhere := server.Listener.Addr().String(), "127.0.0.1:1"
	for _, s := range []Asked{{URL: server.URL, Else: nowhere}, {URL: "http://" + nowhere, Else: there}} {
		if got, err := Ask(t.Context(), s, Live); got != "alive" || err != nil {
			t.Errorf("%+v: %q, %v", s, got, err)
		}
	}
	if _, err := Ask(t.Context(), Asked{URL: "http://" + nowhere, Else: "127.0.0.1:2"}, Live); err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1 does not answer: dial tcp 127.0.0.1:1: ") {
		t.Errorf("a server that is nowhere: %v", err)
	}
}

func TestNamed(t *testing.T) {
	for address, own := range map[string]bool{"http://127.0.0.1:8080": true, "https://localhost/": true, "https://chat.example": false} {
		if s, err := Named(address); err != nil || s.Own != own || s.URL != strings.TrimSuffix(address, "/") {
			t.Errorf("%s: %+v, %v", address, s, err)
		}
	}
	for _, address := range []string{"", "127.0.0.1:8080", "ftp://x", "http://", "http://a:b@x", "http://x/readyz", "http://x?y"} {
		if s, err := Named(address); err == nil {
			t.Errorf("%q is the address %+v", address, s)
		}
	}
}

func TestAsk(t *testing.T) {
	var status int
	var body string
	handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != Ready && r.URL.Path != Live {
			t.Errorf("asked %s", r.URL)
		}
		w.Header().Set("Location", "/elsewhere")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	})
	server := httptest.NewServer(handler)
	defer server.Close()
	for _, c := range []struct {
		status            int
		body, want, fails string
	}{
		{200, `{"status":"ready"}`, "ready", ""},
		{200, `{"status":"degraded","reason":"something cannot be read"}`, "degraded: something cannot be read", ""},
		{503, `{"status":503,"title":"unavailable","detail":"the server is going away"}`, "", "is not well: the server is going away"},
		{503, ``, "", "it answers 503 Service Unavailable"},
		{302, ``, "", "it answers 302 Found"},
		{200, `<!doctype html>`, "", "is no server of this kind"},
		{200, `{}`, "", "is no server of this kind"},
		{200, `{"status":"ready","reason":"` + strings.Repeat("x", maxAnswer) + `"}`, "", "is no server of this kind"},
	} {
		status, body = c.status, c.body
		got, err := Ask(t.Context(), Asked{URL: server.URL}, Ready)
		if got != c.want || (err != nil) != (c.fails != "") || err != nil && !strings.Contains(err.Error(), c.fails) {
			t.Errorf("%d %.60s: %q, %v; want %q, %q", c.status, c.body, got, err, c.want, c.fails)
		}
	}

	encrypted := httptest.NewTLSServer(handler)
	encrypted.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	defer encrypted.Close()
	status, body = 200, `{"status":"alive"}`
	if got, err := Ask(t.Context(), Asked{URL: encrypted.URL, Own: true}, Live); got != "alive" || err != nil {
		t.Errorf("a server of this machine with a certificate that nobody knows: %q, %v", got, err)
	}
	if _, err := Ask(t.Context(), Asked{URL: encrypted.URL}, Live); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server elsewhere with a certificate that nobody knows: %v", err)
	}

	server.Close()
	if _, err := Ask(t.Context(), Asked{URL: server.URL}, Ready); err == nil || !strings.Contains(err.Error(), "does not answer: dial") {
		t.Errorf("a server that is not there: %v", err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if _, err := Ask(late, Asked{URL: encrypted.URL, Own: true}, Ready); err == nil || !strings.Contains(err.Error(), "in time") {
		t.Errorf("a server that is too late: %v", err)
	}
}

// manager is a service manager's end of the socket.
func manager(t *testing.T) *net.UnixConn {
	t.Helper()
	dir, err := os.MkdirTemp("", "notify") //nolint:usetesting // a path of a socket may not be as long as those of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetReadDeadline(time.Now().Add(time.Minute)) // nothing waits for it to pass
	t.Setenv("NOTIFY_SOCKET", path)
	return conn
}

func told(t *testing.T, conn *net.UnixConn) string {
	t.Helper()
	b := make([]byte, 4096)
	n, err := conn.Read(b)
	if err != nil {
		t.Fatal(err)
	}
	return string(b[:n])
}

func TestTell(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	Tell(logger, Serving) // nobody listens
	conn := manager(t)
	Tell(logger, Stopping, Status("drains\nREADY=1"), Within(1500*time.Millisecond))
	if got := told(t, conn); got != "STOPPING=1\nSTATUS=drains READY=1\nEXTEND_TIMEOUT_USEC=1500000" {
		t.Errorf("told %q", got)
	}
	if log.Len() > 0 {
		t.Errorf("logged %s", log.String())
	}
	_ = conn.Close()
	Tell(logger, Serving)
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("a manager that has gone is no warning: %s", log.String())
	}
}

// A service manager that reads nothing holds nobody up for long: its socket takes a number
// of lines, and then a line is given up.
func TestTellOneThatDoesNotRead(t *testing.T) {
	manager(t)
	for range 100_000 {
		if err := notify("WATCHDOG=1", time.Now().Add(50*time.Millisecond)); err != nil {
			return
		}
	}
	t.Error("a socket that nobody reads takes every line")
}

// The watchdog is served as long as the server answers, and only then.
func TestWatch(t *testing.T) {
	conn := manager(t)
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	Watch(t.Context(), logger, func(context.Context) error { t.Error("asked without a watchdog"); return nil })
	t.Setenv("WATCHDOG_USEC", "30000")
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()+1))
	Watch(t.Context(), logger, func(context.Context) error { t.Error("asked for another process's watchdog"); return nil })
	t.Setenv("WATCHDOG_PID", strconv.Itoa(os.Getpid()))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := 0
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		Watch(ctx, logger, func(asking context.Context) error {
			if at, ok := asking.Deadline(); !ok || time.Until(at) > 10*time.Millisecond {
				t.Error("the question has no bound of its own")
			}
			if asked++; asked == 4 {
				cancel()
			}
			if asked < 3 {
				return errors.New("nobody is there")
			}
			return nil
		})
	}()
	if got := told(t, conn); got != "WATCHDOG=1" {
		t.Errorf("told %q", got)
	}
	<-ended
	if n := strings.Count(log.String(), "nobody is there"); n != 2 {
		t.Errorf("what was wrong is logged %d times, want 2: %s", n, log.String())
	}
}
