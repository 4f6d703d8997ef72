package httpmodel

import (
	"context"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"parley/conversation"
)

// A probe says in words what would keep calls from working, and is content with servers
// that have no list of models.
func TestProbe(t *testing.T) {
	const list = `{"data":[{"id":"right"},{"id":"models/gemini"},{"id":"tagged:latest"},{"id":"maker/one"},{"id":"dated-20260101"},{"id":"far away"},{"id":"wrung"}]}`
	type answer struct {
		status     int
		kind, body string
	}
	json := func(body string) answer { return answer{200, "application/json", body} }
	page := answer{200, "text/html; charset=utf-8", "<html>hello"}
	missing := answer{404, "text/plain", "not found"}
	for name, c := range map[string]struct {
		path, model string
		answers     map[string]answer // by method and path; else missing
		says        string
		bad         bool
	}{
		"listed":                     {"/v1", "right", map[string]answer{"GET /v1/models": json(list)}, "listed by HOST", false},
		"listed with a word before":  {"/v1", "gemini", map[string]answer{"GET /v1/models": json(list)}, "listed by HOST", false},
		"listed with a tag":          {"/v1", "tagged", map[string]answer{"GET /v1/models": json(list)}, "listed by HOST", false},
		"listed with a date":         {"/v1", "dated", map[string]answer{"GET /v1/models": json(list)}, "listed by HOST", false},
		"a variant":                  {"/v1", "maker/one:fast", map[string]answer{"GET /v1/models": json(list)}, "listed by HOST", false},
		"other tag":                  {"/v1", "tagged:8b", map[string]answer{"GET /v1/models": json(list)}, `HOST has no model "tagged:8b"; it has tagged:latest, `, true},
		"not there":                  {"/v1", "wrong", map[string]answer{"GET /v1/models": json(list)}, `HOST has no model "wrong"; it has wrung, right, `, true},
		"names that steer a screen":  {"/v1", "red", map[string]answer{"GET /v1/models": json(`{"data":[{"id":"\u001b[31mred\nok"},{"id":"` + strings.Repeat("long", 99) + `"}]}`)}, `HOST has no model "red"; it has "\x1b[31mred\nok", ` + strings.Repeat("long", 20) + "…", true},
		"a list of names":            {"/v1", "a", map[string]answer{"GET /v1/models": json(`{"models":[{"name":"a"}]}`)}, "listed by HOST", false},
		"a list that goes on":        {"/v1", "z", map[string]answer{"GET /v1/models": json(`{"data":[{"id":"a"}],"has_more":true}`)}, "not listed: the list of HOST is long", false},
		"no list in it":              {"/v1", "a", map[string]answer{"GET /v1/models": json(`{"hello":1}`)}, "not listed: HOST has no list of models", false},
		"no list, but the API":       {"/v1", "a", map[string]answer{"POST /v1/chat/completions": {400, "application/json", "{}"}}, "not listed: HOST has no list of models", false},
		"no list, and no such model": {"/v1", "a", map[string]answer{"POST /v1/chat/completions": {404, "application/json", `{"error":"model is missing"}`}}, "not listed: HOST has no list of models", false},
		"a wrong path":               {"/v2", "a", nil, "the path is wrong: HOST at /v2/chat/completions has nothing (404)", true},
		"without /v1":                {"", "right", map[string]answer{"GET /v1/models": json(list)}, "the path is wrong: HOST at /chat/completions has nothing, but there is a list of models below /v1: base_url is to end in /v1", true},
		"a web page":                 {"/v1", "a", map[string]answer{"GET /v1/models": page}, "the path is wrong: HOST at /v1/chat/completions answers with a web page", true},
		"the key":                    {"/v1", "a", map[string]answer{"GET /v1/models": {401, "", "the-secret-key is bad"}}, "HOST does not accept the key (401)", true},
		"forbidden":                  {"/v1", "a", map[string]answer{"GET /v1/models": {403, "", ""}}, "HOST does not accept the key (403)", true},
		"too many":                   {"/v1", "a", map[string]answer{"GET /v1/models": {429, "", ""}}, "not looked up: HOST has too many requests now (429)", false},
		"broken":                     {"/v1", "a", map[string]answer{"GET /v1/models": {503, "", ""}}, "HOST fails (503)", true},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				a, has := c.answers[r.Method+" "+r.URL.Path]
				if !has {
					a = missing
				}
				if got := r.Header.Get("Authorization"); got != "Bearer the-secret-key" {
					t.Errorf("the key is %q", got)
				}
				w.Header().Set("Content-Type", a.kind)
				w.WriteHeader(a.status)
				_, _ = w.Write([]byte(a.body))
			}))
			defer server.Close()
			wantProbe(t, probed(t, server.URL+c.path, c.model), strings.ReplaceAll(c.says, "HOST", strings.TrimPrefix(server.URL, "http://")), c.bad)
		})
	}
}

// result is what a probe said.
type result struct {
	says string
	err  error
}

func probed(t *testing.T, base, model string) result {
	t.Helper()
	c, err := New(Options{BaseURL: base, Model: model, APIKey: "the-secret-key"}, Provider{AskPath: "chat/completions", ListPath: "models", MaxTemperature: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	says, err := c.Probe(ctx)
	return result{says, err}
}

func wantProbe(t *testing.T, r result, want string, bad bool) {
	t.Helper()
	got := r.says
	if r.err != nil {
		got = r.err.Error()
	}
	if (r.err != nil) != bad || !strings.HasPrefix(got, want) || strings.Contains(got, "the-secret-key") {
		t.Errorf("it says %q (bad: %v), want %q", got, r.err != nil, want)
	}
}

// Nothing that listens, no such host, TLS that is not trusted or not spoken, an address
// that sends callers elsewhere.
func TestProbeOfWhatIsNotThere(t *testing.T) {
	secure := httptest.NewUnstartedServer(http.NotFoundHandler())
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	elsewhere := httptest.NewServer(http.RedirectHandler("https://elsewhere.example/login?key=the-secret-key", http.StatusFound))
	defer elsewhere.Close()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	gone := l.Addr().String()
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	plain := strings.TrimPrefix(elsewhere.URL, "http://")
	for _, c := range []struct{ base, want string }{
		{"http://" + gone + "/v1", "nobody listens at " + gone + " (connection refused)"},
		{secure.URL + "/v1", "the certificate of " + strings.TrimPrefix(secure.URL, "https://") + " is signed by an authority that is not known here; SSL_CERT_FILE=FILE names one of your own"},
		{"https://" + plain + "/v1", plain + " does not speak TLS; is it http:// instead of https://?"},
		{elsewhere.URL + "/v1", plain + " sends its callers elsewhere, to elsewhere.example (302), and no key is sent after that: write the address itself"},
	} {
		wantProbe(t, probed(t, c.base, "m"), c.want, true)
	}
	proxied, err := New(Options{BaseURL: "http://example.org/v1", Model: "m", Proxy: "http://user:the-secret-key@" + gone}, Provider{AskPath: "responses", ListPath: "models"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = proxied.Close() }()
	if _, err := proxied.Probe(t.Context()); err == nil || err.Error() != "nobody listens at the proxy "+gone+" (connection refused)" {
		t.Error(err)
	}
	c := &Client{}
	c.base = mustURL(t, "http://no.such.host/v1")
	if err := c.unreachable(t.Context(), &net.DNSError{Err: "no such host", Name: "no.such.host", IsNotFound: true}); err.Error() != "there is no host no.such.host" {
		t.Error(err)
	}
}

// A server that takes the connection and says nothing is given up when the time is over.
func TestProbeIsBounded(t *testing.T) {
	stop := make(chan struct{})
	silent := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { <-stop }))
	defer silent.Close()
	defer close(stop)
	c, err := New(Options{BaseURL: silent.URL, Model: "m"}, Provider{AskPath: "responses", ListPath: "models"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	_, err = c.Probe(ctx)
	wantProbe(t, result{err: err}, strings.TrimPrefix(silent.URL, "http://")+" did not answer in time", true)
}

// An address with some of the API's path at its end is refused, with what to write; so is
// one with a port that there cannot be.
func TestBaseURLEndsBeforeThePath(t *testing.T) {
	for _, c := range []struct{ path, base, want string }{
		{"chat/completions", "https://h/v1/chat/completions", "before /chat/completions, which each call adds by itself: write https://h/v1"},
		{"chat/completions", "https://h/api/chat/completions/", "write https://h/api"},
		{"responses", "https://h/v1/responses", "write https://h/v1"},
		{"responses", "https://h/v1/messages", "write https://h/v1"},
		{"v1/messages", "https://h/v1/messages", "before /v1/messages, which each call adds by itself: write https://h"},
		{"v1/messages", "https://h/anthropic/v1", "before /v1, which each call adds by itself: write https://h/anthropic"},
		{"v1/messages", "https://h/v1/chat/completions", "write https://h"},
		{"v1/messages", "https://h/anthropic", ""},
		{"chat/completions", "https://h/v1", ""},
		{"chat/completions", "https://h/v1/models", "write https://h/v1"},
		{"chat/completions", "https://h/models", ""},
		{"v1/messages", "https://h/v1/models", "write https://h"},
		{"chat/completions", "http://h:65536/v1", "the port is from 1 to 65535, not 65536"},
		{"chat/completions", "http://h:0/v1", "not 0"},
		{"chat/completions", "http://h:65535/v1", ""},
		{"chat/completions", "https://h/responses/v1", ""},
	} {
		wrong := Options{BaseURL: c.base, Model: "m"}.Validate(Provider{AskPath: c.path})
		switch {
		case c.want == "" && len(wrong) > 0:
			t.Errorf("%s: %v", c.base, wrong)
		case c.want != "" && (len(wrong) != 1 || wrong[0].Key != "base_url" || !strings.HasSuffix(wrong[0].Sentence, c.want)):
			t.Errorf("%s: %v, want %q", c.base, wrong, c.want)
		}
	}
}

func mustURL(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// The log of a failed call names the host, which is what one looks for; what people read
// does not.
func TestFailuresNameTheHost(t *testing.T) {
	server := httptest.NewServer(http.NotFoundHandler())
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	c, err := New(Options{BaseURL: server.URL + "/secret-path", Model: "m"}, Provider{AskPath: "responses", ParseError: parseNothing})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	_, err = c.call(t.Context(), func(ctx context.Context, call *Call) (*conversation.ModelAnswer, error) {
		_, err := call.Post(ctx, "responses", "", []byte("{}"))
		return nil, err
	}, func(conversation.Output) error { return nil })
	failure, ok := errors.AsType[*conversation.ModelError](c.failure(t.Context(), err))
	if !ok || failure.Err.Error() != host+": HTTP status 404" || strings.Contains(failure.Failure.Message, host) {
		t.Errorf("%+v: %v", failure, failure.Err)
	}
}

type nothing struct{ error }

func (nothing) Sentence() string      { return "" }
func (nothing) Status() int           { return 0 }
func (nothing) ContextExceeded() bool { return false }
func (nothing) QuotaExceeded() bool   { return false }
func (nothing) Withheld() bool        { return false }

func parseNothing([]byte) ProviderError { return nothing{} }
