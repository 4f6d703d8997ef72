package mcp

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/tools/toolstest"
)

// site serves a peer over streamable HTTP to those who have the token.
type site struct {
	*peer
	*httptest.Server
	mu    sync.Mutex
	token string
	busy  bool        // answers 503
	seen  http.Header // of the last request
}

const siteToken = "open-sesame-4711"

func newSite(t *testing.T, address string, o sdk.StreamableHTTPOptions) *site {
	t.Helper()
	s := &site{peer: newPeer(), token: siteToken}
	handler := sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return s.peer.Server }, &o)
	listener, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = &httptest.Server{Listener: listener, Config: &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.seen = r.Header.Clone()
		token, busy := s.token, s.busy
		s.mu.Unlock()
		if busy {
			http.Error(w, "not now", http.StatusServiceUnavailable)
			return
		}
		if r.Header.Get("Authorization") != "Bearer "+token {
			http.Error(w, "who is "+r.Header.Get("Authorization"), http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	})}}
	s.Start()
	t.Cleanup(s.stop)
	return s
}

func (s *site) stop() {
	for session := range s.Sessions() { // those of clients that went without a word
		_ = session.Close()
	}
	s.CloseClientConnections()
	s.Close()
}

// remote is a configured server at an address, with the token in a file.
func remote(t *testing.T, address string) (c Server, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte(siteToken+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	c = DefaultServer("peer")
	c.URL = address + "/mcp?api_key=${env:QUERY_KEY}"
	c.Headers = map[string]Secret{"Authorization": NewSecret("Bearer ${file:" + file + "}"), "X-Client": NewSecret("parley")}
	return c, file
}

func remotes(t *testing.T, limits func(*Limits), servers ...Server) *world {
	t.Helper()
	o := Options{Servers: servers, Limits: DefaultLimits(), Lookup: func(name string) (string, bool) { return "query-key-0815", name == "QUERY_KEY" }}
	o.Limits.BackoffMin, o.Limits.BackoffMax = time.Millisecond, 20*time.Millisecond
	if limits != nil {
		limits(&o.Limits)
	}
	return inMemory(t, o).open()
}

// leaks looks for what must not be seen in logs, statuses and errors.
func leaks(t *testing.T, w *world) {
	t.Helper()
	w.Servers.Close()
	text := w.log.String()
	for _, st := range w.Status() {
		text += st.Err + st.Target + strings.Join(st.Refused, "")
	}
	for _, secret := range []string{siteToken, "sesame", "query-key", "Mcp-Session"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is shown: %s", secret, text)
		}
	}
}

func TestHTTP(t *testing.T) {
	for name, o := range map[string]sdk.StreamableHTTPOptions{
		"stream": {}, "json": {JSONResponse: true}, "stateless": {Stateless: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "127.0.0.1:0", o)
			c, _ := remote(t, s.URL)
			w := remotes(t, nil, c)
			toolstest.Run(t, w.tool("peer_echo"), toolstest.Cases{Good: []string{`{"text":"hello"}`}, Bad: []string{`{}`}})
			w.run("peer_fail", `{}`, "!the disk is on fire")
			w.run("peer_echo", `{"text":"`+siteToken+`"}`, "you said [secret]")
			s.mu.Lock()
			if s.seen.Get("X-Client") != "parley" {
				t.Errorf("the headers are %v", s.seen)
			}
			s.mu.Unlock()
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			defer cancel()
			slow := "peer_slow"
			if o.Stateless { // such a server cannot be told
				slow = "peer_deaf"
				defer close(s.release)
			}
			if _, err := w.tool(slow).Run(ctx, call(`{}`)); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("the error is %v", err)
			}
			if !o.Stateless {
				<-s.ended
			}
			if st := w.Status()[0]; st.Kind != "http" || st.Target != s.URL || st.State != StateConnected {
				t.Errorf("the status is %+v", st)
			}
			leaks(t, w)
		})
	}
}

func TestHTTPDiesAndComesBack(t *testing.T) {
	s := newSite(t, "127.0.0.1:0", sdk.StreamableHTTPOptions{})
	address := s.Listener.Addr().String()
	c, file := remote(t, s.URL)
	w := remotes(t, nil, c)
	w.run("peer_echo", `{"text":"a"}`, "you said a")
	s.stop()
	_, err := w.tool("peer_echo").Run(t.Context(), call(`{"text":"a"}`))
	if err == nil || !strings.Contains(err.Error(), "the server peer") || strings.Contains(err.Error(), address) {
		t.Errorf("the error is %v", err)
	}
	w.until("waiting", func(st Status) bool { return st.State == StateWaiting })
	// The new one wants another token, which is read at each attempt.
	if err := os.WriteFile(file, []byte("other-token-0042\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	again := newSite(t, address, sdk.StreamableHTTPOptions{})
	again.mu.Lock()
	again.token = "other-token-0042"
	again.mu.Unlock()
	w.until("back", func(st Status) bool { return st.State == StateConnected && st.Connects == 2 })
	w.run("peer_echo", `{"text":"b"}`, "you said b")
	leaks(t, w)
}

// A proxy that has a bad moment is no lost connection.
func TestHTTPBusy(t *testing.T) {
	s := newSite(t, "127.0.0.1:0", sdk.StreamableHTTPOptions{})
	c, _ := remote(t, s.URL)
	w := remotes(t, nil, c)
	set := func(busy bool) { s.mu.Lock(); defer s.mu.Unlock(); s.busy = busy }
	set(true)
	w.run("peer_echo", `{"text":"a"}`, "!the server peer gave no answer")
	set(false)
	w.run("peer_echo", `{"text":"a"}`, "you said a")
	if st := w.Status()[0]; st.Connects != 1 {
		t.Errorf("the status is %+v", st)
	}
	leaks(t, w)
}

func TestHTTPRefuses(t *testing.T) {
	s := newSite(t, "127.0.0.1:0", sdk.StreamableHTTPOptions{})
	c, file := remote(t, s.URL)
	if err := os.WriteFile(file, []byte("sesame-of-yesterday"), 0o600); err != nil {
		t.Fatal(err)
	}
	w := remotes(t, nil, c)
	if st := w.until("waiting", func(st Status) bool { return st.State == StateWaiting }); len(w.Tools()) != 0 || !strings.Contains(st.Err, "Unauthorized") {
		t.Errorf("the status is %+v", st)
	}
	leaks(t, w)
}

// Headers are for the host that they were configured for.
func TestHTTPRedirect(t *testing.T) {
	var mu sync.Mutex
	var stolen []string
	thief := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		stolen = append(stolen, r.Header.Get("Authorization"))
	}))
	defer thief.Close()
	door := httptest.NewServer(http.RedirectHandler(thief.URL, http.StatusTemporaryRedirect))
	defer door.Close()
	c, _ := remote(t, door.URL)
	w := remotes(t, nil, c)
	st := w.until("waiting", func(st Status) bool { return st.State == StateWaiting })
	if !strings.Contains(st.Err, "redirects to another host") {
		t.Errorf("the reason is %q", st.Err)
	}
	leaks(t, w)
	mu.Lock()
	defer mu.Unlock()
	if len(stolen) > 0 {
		t.Errorf("the other host was asked, with %q", stolen)
	}
}

func TestHTTPMessages(t *testing.T) {
	for name, o := range map[string]sdk.StreamableHTTPOptions{"stream": {}, "json": {JSONResponse: true}} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t, "127.0.0.1:0", o)
			add(s.peer, "huge", "Says much.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
				return said(strings.Repeat("x", 300_000)), nil
			})
			c, _ := remote(t, s.URL)
			fits := remotes(t, func(l *Limits) { l.Message = 400_000 }, c)
			if got, err := fits.tool("peer_huge").Run(t.Context(), call(`{}`)); err != nil || len(got) > DefaultLimits().Result || len(got) < 60_000 {
				t.Errorf("the result has %d bytes, %v", len(got), err)
			}
			tight := remotes(t, func(l *Limits) { l.Message = 200_000 }, c)
			tight.run("peer_huge", `{}`, "!whether it was carried out is not known")
			tight.until("back", func(st Status) bool { return st.State == StateConnected })
			leaks(t, fits)
			leaks(t, tight)
		})
	}
}

func TestBounded(t *testing.T) {
	for limit, want := range map[int64]error{4: errTooLong, 5: nil, 6: nil, -1: nil} {
		b := &limitedBody{ReadCloser: io.NopCloser(strings.NewReader("12345")), left: limit, release: func() {}}
		got, err := io.ReadAll(b)
		if !errors.Is(err, want) || want == nil && string(got) != "12345" {
			t.Errorf("limit %d: %q, %v", limit, got, err)
		}
	}
}

// forgetful is a site that answers POSTs with an unknown session id as it says, as
// servers do that were started again.
type forgetful struct {
	*site
	mu     sync.Mutex
	answer func(w http.ResponseWriter)
	old    map[string]bool // ids of sessions that it has forgotten
	all    map[string]bool
	posts  int // that were refused: a call, and what is said of its end
}

func newForgetful(t *testing.T, answer func(http.ResponseWriter)) *forgetful {
	f := &forgetful{site: newSite(t, "127.0.0.1:0", sdk.StreamableHTTPOptions{}), answer: answer, old: map[string]bool{}, all: map[string]bool{}}
	inner := f.site.Config.Handler
	f.site.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id := r.Header.Get("Mcp-Session-Id")
		f.mu.Lock()
		f.all[id] = id != ""
		gone := f.old[id]
		if gone && r.Method == http.MethodPost {
			f.posts++
		}
		f.mu.Unlock()
		if gone {
			f.answer(w)
			return
		}
		inner.ServeHTTP(w, r)
	})
	return f
}

func (f *forgetful) refused() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.posts
}

func (f *forgetful) forget() {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id := range f.all {
		f.old[id] = f.all[id]
	}
}

func plain404(w http.ResponseWriter) { http.Error(w, "session not found", http.StatusNotFound) }

// A session that the endpoint does not know any more is begun anew, and the call that
// met it is made once more: it was certainly not carried out.
func TestForgottenSession(t *testing.T) {
	body := func(status int, message string) func(http.ResponseWriter) {
		return func(w http.ResponseWriter) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"`+message+`"},"id":`+map[bool]string{true: "null", false: "2"}[status == 404]+`}`)
		}
	}
	for name, answer := range map[string]func(http.ResponseWriter){
		"text": plain404, "a message": body(404, "Session not found"), "400": body(400, "Bad Request: No valid session ID provided"),
	} {
		t.Run(name, func(t *testing.T) {
			f := newForgetful(t, answer)
			c, _ := remote(t, f.URL)
			w := remotes(t, func(l *Limits) { l.BackoffMin, l.BackoffMax = time.Hour, time.Hour }, c) // it must not wait
			w.run("peer_echo", `{"text":"a"}`, "you said a")
			f.forget()
			w.run("peer_echo", `{"text":"b"}`, "you said b")
			st := w.until("connected anew", func(st Status) bool { return st.Connects > 1 })
			if st.Connects != 2 || f.calls.Load() != 2 || f.refused() == 0 {
				t.Errorf("%d calls reached it, %d were refused; the status is %+v", f.calls.Load(), f.refused(), st)
			}
			w.counted(map[Outcome]int{CallOK: 2})
			leaks(t, w)
		})
	}
}

// All calls that meet a forgotten session are made once more, not only the first to be
// told.
func TestForgottenSessionOfMany(t *testing.T) {
	const many = 4
	var sent sync.WaitGroup
	sent.Add(many)
	var posts atomic.Int64
	var old *connection
	f := newForgetful(t, func(w http.ResponseWriter) {
		if n := posts.Add(1); n <= many {
			sent.Done()
			sent.Wait()
			if n > 1 {
				<-old.disconnected // by what the first was told
			}
		}
		plain404(w)
	})
	c, _ := remote(t, f.URL)
	w := remotes(t, func(l *Limits) { l.BackoffMin, l.BackoffMax = time.Hour, time.Hour }, c) // it must not wait
	old = w.servers[0].conn
	f.forget()
	var calls sync.WaitGroup
	for range many {
		calls.Go(func() { w.run("peer_echo", `{"text":"b"}`, "you said b") })
	}
	calls.Wait()
	if n := f.calls.Load(); n != many {
		t.Errorf("%d calls were carried out", n)
	}
	w.counted(map[Outcome]int{CallOK: many})
	leaks(t, w)
}

// It is made once more only once, and not where it is not certain.
func TestForgottenAgain(t *testing.T) {
	t.Run("forgotten at once", func(t *testing.T) {
		f := newForgetful(t, plain404)
		c, _ := remote(t, f.URL)
		w := remotes(t, nil, c)
		f.site.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
			return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
				if method == "tools/list" {
					defer f.forget()
				}
				return next(ctx, method, r)
			}
		})
		f.forget()
		w.run("peer_echo", `{"text":"a"}`, "!it was not carried out")
		if f.calls.Load() != 0 || f.refused() < 2 {
			t.Errorf("%d calls reached it, %d were refused", f.calls.Load(), f.refused())
		}
		w.counted(map[Outcome]int{CallUnavailable: 1})
	})
	t.Run("away when it is to begin anew", func(t *testing.T) {
		f := newForgetful(t, plain404)
		c, file := remote(t, f.URL)
		w := remotes(t, nil, c)
		f.forget()
		if err := os.WriteFile(file, []byte("sesame-of-yesterday"), 0o600); err != nil {
			t.Fatal(err)
		}
		w.run("peer_echo", `{"text":"a"}`, "!the server peer is not connected")
		w.counted(map[Outcome]int{CallUnavailable: 1})
		leaks(t, w)
	})
	t.Run("another error", func(t *testing.T) {
		f := newForgetful(t, func(w http.ResponseWriter) { http.Error(w, "no", http.StatusGone) })
		c, _ := remote(t, f.URL)
		w := remotes(t, nil, c)
		f.forget()
		w.run("peer_echo", `{"text":"a"}`, "!whether it was carried out is not known")
		if f.refused() == 0 || f.calls.Load() != 0 {
			t.Errorf("%d were refused, %d calls reached it", f.refused(), f.calls.Load())
		}
	})
}
