package gateway_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/protobuf/encoding/protodelim"

	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/service"
	"parley/metrics"
)

// A scrape that asks for OpenMetrics gets exemplars, one that asks for protobuf native
// histograms beside the classic buckets, and one that asks for nothing the plain text. N-14.
func TestFormatsOfMetrics(t *testing.T) {
	registry := prometheus.NewRegistry()
	actors := metrics.NewActors(metrics.With(registry, metrics.Options{NativeHistograms: true}))
	metrics.Observe(actors.Ack, 0.003, "4bf92f3577b34da6a3ce929d0e0e4736")
	metrics.Observe(actors.Ack, 0.004, "")
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) { d.Gatherer = registry })
	const name = "parley_message_ack_duration_seconds"

	status, text := ask(t, "GET", "http://"+r.addr+"/metrics", "Accept", "application/openmetrics-text; version=1.0.0")
	if status != 200 || !strings.Contains(text, `# {trace_id="4bf92f3577b34da6a3ce929d0e0e4736"} 0.003`) || !strings.HasSuffix(text, "# EOF\n") {
		t.Errorf("OpenMetrics: %d, no exemplar in\n%.2000s", status, text)
	}
	status, text = ask(t, "GET", "http://"+r.addr+"/metrics")
	if status != 200 || !strings.Contains(text, name+`_bucket{le="0.005"} 2`) || strings.Contains(text, "trace_id") {
		t.Errorf("plain text: %d\n%.2000s", status, text)
	}
	status, raw := ask(t, "GET", "http://"+r.addr+"/metrics", "Accept", "application/vnd.google.protobuf; proto=io.prometheus.client.MetricFamily; encoding=delimited")
	found := false
	for in := bufio.NewReader(strings.NewReader(raw)); ; {
		family := &dto.MetricFamily{}
		err := protodelim.UnmarshalFrom(in, family)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if family.GetName() == name {
			found = true
			h := family.GetMetric()[0].GetHistogram()
			if h.GetSchema() != 3 || len(h.GetPositiveSpan()) == 0 || h.GetSampleCount() != 2 || len(h.GetBucket()) == 0 {
				t.Errorf("protobuf: schema %d, %d spans, %d values, %d classic buckets", h.GetSchema(), len(h.GetPositiveSpan()), h.GetSampleCount(), len(h.GetBucket()))
			}
		}
	}
	if status != 200 || !found {
		t.Errorf("protobuf: %d, found: %v", status, found)
	}
}

// Routes, methods, types and results are closed sets: what strangers send makes no series. N-14.
func TestStrangersMakeNoSeries(t *testing.T) {
	r := start(t)
	series := func() (n int) {
		t.Helper()
		families, err := r.registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, family := range families {
			if strings.HasPrefix(family.GetName(), "parley_") {
				n += len(family.GetMetric())
				for _, m := range family.GetMetric() {
					for _, l := range m.GetLabel() {
						if strings.Contains(strings.ToLower(l.GetValue()), "odd") {
							t.Fatalf("%s has the label %s = %q", family.GetName(), l.GetName(), l.GetValue())
						}
					}
				}
			}
		}
		return n
	}
	c := gatewaytest.Dial(t, r.addr)
	c.Do("hello", "", obj{"proto": 1})
	odd := func(i int) {
		for _, method := range []string{"GET", "ODD" + strconv.Itoa(i), "POST", "TRACE"} {
			ask(t, method, fmt.Sprintf("http://%s/v1/odd-%d?odd=%d", r.addr, i, i))
			ask(t, method, fmt.Sprintf("http://%s/v1/sessions/odd-%d", r.addr, i))
		}
		c.Do(fmt.Sprintf("odd-%d", i), "odd-session", nil)
	}
	odd(0)
	before := series()
	for i := 1; i < 10; i++ {
		odd(i)
	}
	if after := series(); after != before {
		t.Errorf("%d series after one stranger, %d after ten", before, after)
	}
}

// The requests of the operator's own address are counted and timed as those of the main one,
// by their routes. N-14.
func TestOperatorsRequestsAreMeasured(t *testing.T) {
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.AdminListen = "127.0.0.1:0" })
	admin := "http://" + r.server.AdminAddr().String()
	for _, path := range []string{"/livez", "/debug/pprof/symbol", "/debug/pprof/cmdline", "/odd", "/odd2"} {
		ask(t, "GET", admin+path)
	}
	ask(t, "BREW", admin+"/livez")
	_, text := ask(t, "GET", admin+"/metrics")
	for _, want := range []string{
		`parley_gateway_http_requests_total{method="GET",route="/livez",status="2xx"} 1`,
		`parley_gateway_http_requests_total{method="GET",route="/debug/pprof/*",status="2xx"} 2`,
		`parley_gateway_http_requests_total{method="GET",route="other",status="4xx"} 2`,
		`parley_gateway_http_requests_total{method="other",route="/livez",status="4xx"} 1`,
		`parley_gateway_http_request_seconds_count{method="GET",route="/livez"} 1`,
	} {
		if !strings.Contains(text, want+"\n") {
			t.Errorf("no %s", want)
		}
	}
	if strings.Contains(text, "odd") || strings.Contains(text, "BREW") {
		t.Error("what a stranger has sent is a label")
	}
}

// A line of the log of requests has the route of the operator's address, and never a path that
// a stranger has made up: not where it is unknown, nor where a key is wanted before that is found.
func TestOperatorsRequestsAreLogged(t *testing.T) {
	for name, wantsKey := range map[string]bool{"open": false, "with keys": true} {
		t.Run(name, func(t *testing.T) {
			var lines logged
			r := start(t, func(c *gateway.Config, d *gateway.Deps) {
				c.AdminListen = "127.0.0.1:0"
				if wantsKey {
					c.AdminListen = "0.0.0.0:0"
					d.Authenticator = twoKeys{}
				}
				d.Requests = &service.RequestLog{Log: slog.New(slog.NewJSONHandler(&lines, nil))}
			})
			_, port, _ := net.SplitHostPort(r.server.AdminAddr().String())
			for _, path := range []string{"/debug/pprof/cmdline", "/marker", "/debug/pprof/marker", "/debug/pprof/%0amarker"} {
				ask(t, "GET", "http://127.0.0.1:"+port+path)
			}
			if text := lines.String(); strings.Contains(text, "marker") || strings.Count(text, `"route":"/debug/pprof/*"`) != 3 || strings.Count(text, `"route":"other"`) != 1 {
				t.Errorf("the log says\n%s", text)
			}
			ask(t, "HEAD", "http://127.0.0.1:"+port+"/livez")
			if n := r.metric("parley_gateway_http_requests_total", "route", "/livez", "method", "HEAD"); n != 1 {
				t.Errorf("%v requests with HEAD are counted", n)
			}
			if text := lines.String(); strings.Contains(text, `"remote":"127.0.0.1:`) || strings.Count(text, `"request_id"`) == 0 {
				t.Errorf("the log says\n%s", text)
			}
		})
	}
}

// What a stranger names as a session is no part of the log.
func TestStrangersSessionsAreNotLogged(t *testing.T) {
	var lines logged
	r := start(t, withAuth(twoKeys{}), func(_ *gateway.Config, d *gateway.Deps) {
		d.Requests = &service.RequestLog{Log: slog.New(slog.NewJSONHandler(&lines, nil))}
	})
	ask(t, "GET", "http://"+r.addr+"/api/sessions/marker")
	ask(t, "GET", "http://"+r.addr+"/api/sessions/marker%20"+strings.Repeat("x", 3000), "Authorization", "Bearer admin")
	ask(t, "GET", "http://"+r.addr+"/api/sessions/known/events", "Authorization", "Bearer admin")
	c := gatewaytest.Dial(t, r.addr)
	c.Write(`{"type":"send","id":"1","session":"marker","data":{}}`)
	c.Closed()
	if text := lines.String(); strings.Contains(text, "marker") || strings.Count(text, `"session":"known"`) != 1 || !strings.Contains(text, `"msg":"command"`) {
		t.Errorf("the log says\n%s", text)
	}
}
