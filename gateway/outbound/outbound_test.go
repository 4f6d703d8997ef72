package outbound

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// The vector of the specification's reference libraries, and two keys.
func TestSign(t *testing.T) {
	key, err := ParseSecret("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	if err != nil {
		t.Fatal(err)
	}
	const want = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
	at := time.Date(2021, 2, 25, 15, 2, 10, 0, time.UTC)
	timestamp, got := Sign([][]byte{key}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, []byte(`{"test": 2432232314}`))
	if timestamp != "1614265330" || got != want {
		t.Errorf("%s %s, want %s", timestamp, got, want)
	}
	other := []byte(strings.Repeat("x", 32))
	_, both := Sign([][]byte{key, other}, "msg_p5jXN8AQM9LWM0D4loKWxJek", at, []byte(`{"test": 2432232314}`))
	if first, second, ok := strings.Cut(both, " "); !ok || first != want || second == want || !strings.HasPrefix(second, "v1,") {
		t.Errorf("%s", both)
	}
}

// Which addresses everybody on the Internet can reach.
func TestPublic(t *testing.T) {
	for text, want := range map[string]bool{
		"8.8.8.8": true, "93.184.216.34": true, "2606:4700::1111": true, "::ffff:8.8.8.8": true, "100.63.255.255": true, "172.32.0.1": true,
		"127.0.0.1": false, "127.8.9.10": false, "0.0.0.0": false, "0.1.2.3": false, "10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false,
		"192.168.1.1": false, "169.254.169.254": false, "100.64.0.1": false, "192.0.0.8": false, "198.18.0.1": false, "224.0.0.1": false,
		"255.255.255.255": false, "240.0.0.1": false, "192.0.2.1": false, "203.0.113.7": false,
		"::1": false, "::": false, "fe80::1": false, "fe80::1%eth0": false, "fc00::1": false, "fd12::1": false, "ff02::1": false, "fec0::1": false,
		"::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::127.0.0.1": false, "64:ff9b::7f00:1": false, "64:ff9b::a00:1": false,
		"2002:7f00:1::": false, "2001:0:4136:e378:8000:63bf:3fff:fdd2": false, "2001:db8::1": false,
		"::ffff:0:7f00:1": false, "64:ff9b:1::7f00:1": false, "100::1": false, "100:0:0:1::1": false, "5f00::1": false, "4000::1": false, "3fff::1": false, "192.88.99.1": false,
	} {
		if got := IsPublic(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s is public: %v", text, got)
		}
	}
	for _, address := range []string{"127.0.0.1:80", "[::1]:80", "[fe80::1%lo]:80", "nonsense", ""} {
		if Public.check("tcp", address, nil) == nil {
			t.Errorf("%q is let through", address)
		}
	}
}

// receiver counts connections and requests, and answers one of them.
type receiver struct {
	*httptest.Server
	connections, requests atomic.Int32
}

func newReceiver(t *testing.T, answer http.HandlerFunc) *receiver {
	r := &receiver{}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		r.requests.Add(1)
		answer(w, req)
	}))
	r.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			r.connections.Add(1)
		}
	}
	r.Config.ErrorLog = nil
	r.Start()
	t.Cleanup(r.Close)
	return r
}

func posterOf(reach Reach) *Poster {
	return NewPoster(Using{Reach: reach, Timeout: 5 * time.Second, PerHost: 2})
}

// An address out of reach is not even connected to, whatever it is called.
func TestReach(t *testing.T) {
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		b, err := io.ReadAll(req.Body)
		if err != nil || string(b) != "body" || req.Header.Get("webhook-id") != "7" || req.Header.Get("User-Agent") != "parley" {
			w.WriteHeader(http.StatusBadRequest)
		}
	})
	_, port, err := net.SplitHostPort(r.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	post := func(reach Reach, host string) *NotTaken {
		c := posterOf(reach)
		defer c.CloseIdle()
		return c.Post(t.Context(), "http://"+host+":"+port+"/token", http.Header{HeaderID: {"7"}}, []byte("body"))
	}
	for _, host := range []string{"127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "127.1", "0.0.0.0", "2130706433"} {
		f := post(Public, host)
		// Some spellings are names that nobody knows.
		if f == nil || f.Reason != ReasonPrivate && (f.Reason != ReasonConnection || !strings.Contains(f.Text, "lookup")) || strings.Contains(f.Text, "token") {
			t.Errorf("%s: %+v", host, f)
		}
	}
	for _, host := range []string{"8.8.8.8", "10.1.2.3", "0.0.0.0", "169.254.169.254", "[2606:4700::1111]"} {
		if f := post(Loopback, host); f == nil || f.Reason != ReasonPrivate {
			t.Errorf("of this machine, %s: %+v", host, f)
		}
	}
	if n := r.connections.Load(); n != 0 {
		t.Errorf("%d connections", n)
	}
	for _, reach := range []Reach{Anywhere, Loopback} {
		if f := post(reach, "127.0.0.1"); f != nil {
			t.Errorf("%v: %+v", reach, f)
		}
	}
	if n := r.requests.Load(); n != 2 {
		t.Errorf("%d requests", n)
	}
}

// An answer is judged by its status; a redirect is not followed, an endless answer is not read
// to its end, and no error has the address in it.
func TestAnswers(t *testing.T) {
	elsewhere := newReceiver(t, func(http.ResponseWriter, *http.Request) {})
	codes := map[string]struct {
		code   int
		reason string
	}{
		"/200": {200, ""}, "/204": {204, ""}, "/299": {299, ""}, "/301": {301, ReasonRedirect}, "/307": {307, ReasonRedirect}, "/308": {308, ReasonRedirect}, "/400": {400, ReasonClient},
		"/401": {401, ReasonClient}, "/410": {410, ReasonGone}, "/429": {429, ReasonRate}, "/500": {500, ReasonServer}, "/503": {503, ReasonServer},
	}
	r := newReceiver(t, func(w http.ResponseWriter, req *http.Request) {
		w.Header().Set("Location", elsewhere.URL)
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(codes[req.URL.Path].code)
		if req.URL.Path != "/200" {
			return
		}
		for { // ends with the client
			if _, err := w.Write(make([]byte, 64<<10)); err != nil {
				return
			}
		}
	})
	for path, x := range codes {
		c := posterOf(Anywhere)
		f := c.Post(t.Context(), r.URL+path, http.Header{}, nil)
		c.CloseIdle()
		switch {
		case (f == nil) != (x.reason == ""):
			t.Errorf("%s: %+v", path, f)
		case f != nil && (f.Reason != x.reason || f.After != 7*time.Second):
			t.Errorf("%s: %+v", path, f)
		}
	}
	if n := elsewhere.requests.Load(); n != 0 {
		t.Errorf("%d redirects were followed", n)
	}
	r.Close()
	f := posterOf(Anywhere).Post(t.Context(), r.URL+"/token", http.Header{}, nil)
	if f == nil || f.Reason != ReasonConnection || strings.Contains(f.Text, "token") {
		t.Errorf("%+v", f)
	}
}

// A receiver that sends back what it was sent brings neither the address nor a secret into the log.
func TestReceiverThatEchoes(t *testing.T) {
	for name, answer := range map[string]func(line string) string{
		"an echo":   func(line string) string { return line },
		"a status":  func(line string) string { return "HTTP/1.1 " + line },
		"a header":  func(line string) string { return "HTTP/1.1 200 OK\r\n" + line + "\r\n" },
		"a length":  func(line string) string { return "HTTP/1.1 200 OK\r\nContent-Length: " + line + "\r\n" },
		"a place":   func(line string) string { return "HTTP/1.1 302 Found\r\nLocation: http://[" + line + "\r\n" },
		"a coding":  func(line string) string { return "HTTP/1.1 200 OK\r\nTransfer-Encoding: " + line + "\r\n" },
		"a silence": func(string) string { return "" },
	} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		go func() { // ends with its connection
			c, err := l.Accept()
			if err != nil {
				return
			}
			line, err := bufio.NewReader(c).ReadString('\n')
			if err == nil {
				_, _ = c.Write([]byte(answer(line)))
			}
			_ = c.Close()
		}()
		c := posterOf(Anywhere)
		f := c.Post(t.Context(), "http://"+l.Addr().String()+"/hook/s3cret", http.Header{}, nil)
		c.CloseIdle()
		if f == nil || f.Reason != ReasonConnection || f.Text == "" || strings.Contains(f.Text, "s3cret") {
			t.Errorf("%s: %+v", name, f)
		}
		_ = l.Close()
	}
}

// A receiver that does not answer takes its time and no more.
func TestSilentReceiver(t *testing.T) {
	hold := make(chan struct{})
	r := newReceiver(t, func(http.ResponseWriter, *http.Request) { <-hold })
	defer close(hold)
	c := NewPoster(Using{Reach: Anywhere, Timeout: 20 * time.Millisecond})
	defer c.CloseIdle()
	if f := c.Post(context.Background(), r.URL, http.Header{}, nil); f == nil || f.Reason != ReasonTimeout {
		t.Errorf("%+v", f)
	}
}

func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for value, want := range map[string]time.Duration{
		"": 0, "0": 0, "5": 5 * time.Second, " 5 ": 5 * time.Second, "-5": 0, "soon": 0, "1.5": 0, "999999999": 24 * time.Hour, "99999999999999999999": 0,
		"Mon, 23 Nov 2026 12:01:00 GMT": time.Minute, "Mon, 23 Nov 2026 11:00:00 GMT": 0, "Tue, 23 Nov 2027 12:00:00 GMT": 24 * time.Hour,
	} {
		if got := retryAfter(value, now); got != want {
			t.Errorf("%q is %v, want %v", value, got, want)
		}
	}
}
