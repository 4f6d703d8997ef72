package gateway_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway"
	"parley/gateway/attach"
	"parley/gateway/gatewaytest"
	"parley/gateway/waystest"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

var _ gateway.Sessions = (*gatewaytest.Sessions)(nil)

// rig is a running server with a stand-in for the engine.
type rig struct {
	t        *testing.T
	sessions *gatewaytest.Sessions
	hub      *gateway.Hub
	server   *gateway.Server
	addr     string
	registry *prometheus.Registry
	log      *logged
	http     *http.Client // which holds what it is answered against the documents
	plain    *http.Client // for what is not of them
	stop     func() error
	files    *attach.Files
}

// logged keeps what the server logs.
type logged struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logged) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(b)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

// setup changes what a rig is made of.
type setup = waystest.Setup

func start(t *testing.T, changes ...setup) *rig {
	t.Helper()
	log := &logged{}
	base := func(c *gateway.Config, d *gateway.Deps) {
		c.Node, c.Model = "n1", "scripted"
		c.Limits.CommandsPerSecond = 0 // tests of the limit set it
		c.Times.DrainSpread = time.Second
		d.Logger = slog.New(slog.NewTextHandler(log, nil))
		d.Files.Log = d.Logger
	}
	s := waystest.Begin(t, append([]setup{base}, changes...)...)
	plain := *s.HTTP
	s.HTTP.Transport = gatewaytest.Documents(t).Transport(t, s.HTTP.Transport)
	return &rig{
		t: t, sessions: s.Sessions, hub: s.Hub, server: s.Gateway, addr: s.Addr, registry: s.Registry, log: log, http: s.HTTP, plain: &plain,
		stop: s.Stop, files: s.Files,
	}
}

// answer is an HTTP response.
type answer struct {
	status int
	header http.Header
	body   []byte
}

func (a answer) get(t *testing.T, name string) string {
	t.Helper()
	var members map[string]json.RawMessage
	if err := json.Unmarshal(a.body, &members); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	var s string
	if json.Unmarshal(members[name], &s) == nil {
		return s
	}
	return string(members[name])
}

// call makes a request; body "" is none. Headers come in pairs.
func (r *rig) call(method, path, body string, headers ...string) answer {
	r.t.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	req, err := http.NewRequest(method, "http://"+r.addr+path, in)
	if err != nil {
		r.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		if headers[i] == "Host" {
			req.Host = headers[i+1]
			continue
		}
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := r.http.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.Header, b}
}

// want fails unless a request was answered with status.
func (a answer) want(t *testing.T, status int) answer {
	t.Helper()
	if a.status != status {
		t.Fatalf("status %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// problem fails unless a request was answered with a problem of that status and code.
func (a answer) problem(t *testing.T, status int, code conversation.Code) answer {
	t.Helper()
	a.want(t, status)
	if kind := a.header.Get("Content-Type"); kind != "application/problem+json" {
		t.Errorf("Content-Type %q: %s", kind, a.body)
	}
	var p struct {
		Type, Title, Detail, Instance, Code string
		Status                              int
		RequestID                           string `json:"request_id"`
	}
	if err := json.Unmarshal(a.body, &p); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	if p.Code != string(code) || p.Status != status || p.Title == "" || p.Detail == "" || p.Type == "" {
		t.Errorf("problem %s, want code %s", a.body, code)
	}
	if p.RequestID == "" || p.RequestID != a.header.Get("X-Request-Id") {
		t.Errorf("request_id %q, header %q", p.RequestID, a.header.Get("X-Request-Id"))
	}
	return a
}

// metric sums the values of a metric whose labels include the given pairs.
func (r *rig) metric(name string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	sum := 0.0
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
	metric:
		for _, m := range f.GetMetric() {
			for i := 0; i+1 < len(labels); i += 2 {
				found := false
				for _, l := range m.GetLabel() {
					found = found || (l.GetName() == labels[i] && l.GetValue() == labels[i+1])
				}
				if !found {
					continue metric
				}
			}
			sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
		}
	}
	return sum
}

// promtool's rules for names and help texts.
func TestMetricNames(t *testing.T) {
	r := prometheus.NewRegistry()
	m := metrics.NewGateway(r)
	m.Commands.WithLabelValues("send", "ok").Inc()
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), "parley_gateway_") || f.GetHelp() == "" {
			t.Errorf("%s: %q", f.GetName(), f.GetHelp())
		}
	}
}
