package webhook_test

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/feed"
	"parley/gateway/gatewaytest"
	"parley/gateway/webhook"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// secret is that of the examples of Standard Webhooks.
const secret = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"

// rig is a store, receivers and what sends to them.
type rig struct {
	t        *testing.T
	store    *gatewaytest.Chats
	feeds    *feed.Feeds
	registry *prometheus.Registry
	metrics  *metrics.Webhooks
	log      bytes.Buffer // to be read when nothing runs
	keep     webhook.Retention

	mu      sync.Mutex
	answers map[string]func(n int, r *http.Request) (*http.Response, error) // by host; nil = 200
	got     map[string][]received                                           // by host
}

// received is a request as a receiver has seen it.
type received struct {
	number int
	id     string
	body   string
	header http.Header
	at     time.Time
}

func newRig(t *testing.T) *rig {
	r := &rig{
		t: t, store: gatewaytest.NewChats(), registry: prometheus.NewRegistry(), keep: webhook.DefaultRetention(),
		answers: map[string]func(int, *http.Request) (*http.Response, error){}, got: map[string][]received{},
	}
	r.metrics = metrics.NewWebhooks(r.registry)
	r.feeds = feed.New(r.store, feed.Polling{Poll: 100 * time.Millisecond}, metrics.NewFeeds(prometheus.NewRegistry()), nil)
	t.Cleanup(r.feeds.Close)
	return r
}

// RoundTrip implements http.RoundTripper: it is all receivers.
func (r *rig) RoundTrip(req *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, err
	}
	_, digits, _ := strings.Cut(req.Header.Get("webhook-id"), ":")
	number, err := strconv.Atoi(digits)
	if err != nil {
		return nil, err
	}
	r.mu.Lock()
	host := req.URL.Host
	r.got[host] = append(r.got[host], received{number, req.Header.Get("webhook-id"), string(body), req.Header, time.Now()})
	n, answer := len(r.got[host]), r.answers[host]
	r.mu.Unlock()
	if answer == nil {
		return status(200), nil
	}
	return answer(n, req)
}

func status(code int, headers ...string) *http.Response {
	h := http.Header{}
	for i := 0; i+1 < len(headers); i += 2 {
		h.Set(headers[i], headers[i+1])
	}
	return &http.Response{StatusCode: code, Header: h, Body: io.NopCloser(strings.NewReader("thanks"))}
}

// seen is what a receiver has been sent.
func (r *rig) seen(host string) []received {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got[host])
}

func numbersOf(all []received) (numbers []int) {
	for _, x := range all {
		numbers = append(numbers, x.number)
	}
	return numbers
}

// hook is one to https://NAME.example/path/token, changed by change.
func hook(name string, change ...func(*webhook.Hook)) webhook.Hook {
	h := webhook.DefaultHook(name)
	h.URL, h.SecretEnv = "https://"+name+".example/path/token", "SECRET"
	for _, f := range change {
		f(&h)
	}
	return h
}

func (r *rig) needs() webhook.Needs {
	return webhook.Needs{
		Store: r.store, Feeds: r.feeds, Metrics: r.metrics, Transport: r,
		Logger: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
		Env: func(name string) (string, bool) {
			return secret, name == "SECRET"
		},
	}
}

// run runs hooks until stop is called.
func (r *rig) run(hooks ...webhook.Hook) (stop func()) {
	r.t.Helper()
	d, err := webhook.New(hooks, r.keep, r.needs())
	if err != nil {
		r.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- d.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Error(err)
		}
	})
	r.t.Cleanup(stop)
	synctest.Wait()
	return stop
}

// happen adds n entries of a topic to a feed.
func (r *rig) happen(tenant conversation.TenantID, topic string, n int) {
	r.t.Helper()
	for range n {
		value := fmt.Appendf(nil, `{"topic":%q,"project":%q}`, topic, tenant)
		if err := r.store.Save(r.t.Context(), tenant, nil, []chats.Entry{{At: time.Now(), Session: "s1", Value: value}}); err != nil {
			r.t.Fatal(err)
		}
	}
}

// metric is a sample of one hook.
func (r *rig) metric(name, hook string, labels ...string) float64 {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	want := map[string]string{"webhook": hook}
	for i := 0; i+1 < len(labels); i += 2 {
		want[labels[i]] = labels[i+1]
	}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			have := map[string]string{}
			for _, l := range m.GetLabel() {
				have[l.GetName()] = l.GetValue()
			}
			if f.GetName() == name && fmt.Sprint(have) == fmt.Sprint(want) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return 0
}

// upTo is 1 … n.
func upTo(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

// A hook is sent what happens from its beginning on, in order, with the headers of the
// standard, and goes on where it has ended.
func TestSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.happen("default", "chat.message", 5) // before the hook was there
		stop := r.run(hook("a"))
		r.happen("default", "chat.message", 40)
		time.Sleep(time.Second)
		stop()
		r.happen("default", "chat.response", 10) // while nothing runs
		stop = r.run(hook("a"))
		time.Sleep(time.Second)
		stop()
		got := r.seen("a.example")
		if want := upTo(55)[5:]; !slices.Equal(numbersOf(got), want) {
			t.Errorf("%v", numbersOf(got))
		}
		first := got[0]
		if first.id != "default:6" || first.body != `{"number":6,"topic":"chat.message","project":"default"}` || first.header.Get("Content-Type") != "application/json" ||
			first.header.Get("webhook-timestamp") != strconv.FormatInt(first.at.Unix(), 10) {
			t.Errorf("%+v", first)
		}
		for _, x := range got {
			key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
			if err != nil {
				t.Fatal(err)
			}
			mac := hmac.New(sha256.New, key)
			_, _ = fmt.Fprintf(mac, "%s.%s.%s", x.id, x.header.Get("webhook-timestamp"), x.body)
			if want := "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil)); x.header.Get("webhook-signature") != want {
				t.Errorf("%+v is signed, want %s", x, want)
			}
		}
		for name, want := range map[string]float64{"parley_webhook_sent_total": 50, "parley_webhook_delivery_duration_seconds": 50, "parley_webhook_waiting": 0, "parley_webhook_retries_total": 0} {
			if n := r.metric(name, "a"); n != want {
				t.Errorf("%s is %v, want %v", name, n, want)
			}
		}
	})
}

// Only the topics that a hook names are sent; the others are no reason to read them again.
func TestTopics(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		errorsOnly := hook("a", func(h *webhook.Hook) { h.Topics = []string{"chat.error"} })
		stop := r.run(errorsOnly)
		r.happen("default", "chat.message", 3)
		r.happen("default", "chat.error", 1)
		r.happen("default", "chat.response", 100)
		time.Sleep(time.Second)
		stop()
		if got := numbersOf(r.seen("a.example")); !slices.Equal(got, []int{4}) {
			t.Errorf("%v", got)
		}
		row, err := r.store.Load(t.Context(), chats.Key{Tenant: "default", Channel: "webhook", Chat: "a"})
		if err != nil || string(row.Value) != `{"after":104}` || row.Session != "" {
			t.Errorf("the cursor is %s, %v", row.Value, err)
		}
	})
}

// What is not taken is tried again under the same id, ever later, and what is behind it waits;
// the other hooks do not.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		failures := []func(*http.Request) (*http.Response, error){
			func(*http.Request) (*http.Response, error) { return status(500), nil },
			func(*http.Request) (*http.Response, error) { return status(404), nil },
			func(*http.Request) (*http.Response, error) { return status(302, "Location", "https://b.example/"), nil },
			func(*http.Request) (*http.Response, error) { return nil, errors.New("connection refused") },
			func(req *http.Request) (*http.Response, error) {
				<-req.Context().Done()
				return nil, req.Context().Err()
			},
			func(*http.Request) (*http.Response, error) { return status(429, "Retry-After", "100"), nil },
			func(*http.Request) (*http.Response, error) {
				return status(503, "Retry-After", time.Now().Add(200*time.Second).UTC().Format(http.TimeFormat)), nil
			},
		}
		r.answers["a.example"] = func(n int, req *http.Request) (*http.Response, error) {
			if n <= len(failures) {
				return failures[n-1](req)
			}
			return status(204), nil
		}
		stop := r.run(hook("a"), hook("b"))
		began := time.Now()
		r.happen("default", "chat.message", 2)
		time.Sleep(time.Second / 2)
		if got := numbersOf(r.seen("b.example")); !slices.Equal(got, upTo(2)) {
			t.Errorf("the other hook was sent %v", got)
		}
		time.Sleep(time.Minute)
		if age := r.metric("parley_webhook_lag_seconds", "a"); age < 30 || age > 61 {
			t.Errorf("the lag is %v s", age)
		}
		if n := r.metric("parley_webhook_waiting", "a"); n != 2 {
			t.Errorf("%v wait", n)
		}
		time.Sleep(time.Hour)
		stop()
		got := r.seen("a.example")
		if !slices.Equal(numbersOf(got), []int{1, 1, 1, 1, 1, 1, 1, 1, 2}) {
			t.Fatalf("%v", numbersOf(got))
		}
		pauses := make([]time.Duration, 0, 8)
		for i := range 7 {
			pauses = append(pauses, got[i+1].at.Sub(got[i].at))
		}
		least := []time.Duration{500, 1000, 2000, 4000, 8000 + 15_000, 100_000, 199_000} // ms; the fifth took its whole time
		for i, p := range pauses {
			if low := least[i] * time.Millisecond; p < low || i < 4 && p > 2*low {
				t.Errorf("pause %d is %v, at least %v", i+1, p, low)
			}
		}
		if took := got[7].at.Sub(began); took > 10*time.Minute {
			t.Errorf("it took %v", took)
		}
		for reason, want := range map[string]float64{"server_error": 2, "client_error": 1, "redirect": 1, "connection": 1, "timeout": 1, "rate_limited": 1} {
			if n := r.metric("parley_webhook_failed_total", "a", "reason", reason); n != want {
				t.Errorf("%s: %v, want %v", reason, n, want)
			}
		}
		if n := r.metric("parley_webhook_retries_total", "a"); n != 7 {
			t.Errorf("%v retries", n)
		}
		for _, hidden := range []string{"whsec", "MfKQ9r8", "token", "path"} {
			if strings.Contains(r.log.String(), hidden) {
				t.Errorf("the log has %q: %s", hidden, r.log.String())
			}
		}
	})
}

// What is too old is skipped and counted: while it is tried, while nothing runs, and when it
// was trimmed. What was erased while it was tried is not sent again, nor counted.
func TestSkips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.keep = webhook.Retention{Age: time.Hour, Entries: 1000}
		down := true
		r.answers["a.example"] = func(int, *http.Request) (*http.Response, error) {
			if down {
				return status(500), nil
			}
			return status(200), nil
		}
		impatient := hook("b", func(h *webhook.Hook) { h.GiveUp = time.Minute })
		r.answers["b.example"] = r.answers["a.example"]
		stop := r.run(hook("a"), impatient)
		r.happen("default", "chat.message", 3)
		time.Sleep(10 * time.Minute)
		if n := r.metric("parley_webhook_skipped_total", "b"); n != 3 {
			t.Errorf("the impatient one has skipped %v", n)
		}
		if n := r.metric("parley_webhook_skipped_total", "a"); n != 0 {
			t.Errorf("the patient one has skipped %v", n)
		}
		time.Sleep(2 * time.Hour)
		if n := r.metric("parley_webhook_skipped_total", "a"); n != 3 {
			t.Errorf("%v were skipped", n)
		}
		if feed, err := r.store.Feed(t.Context(), "default"); err != nil || feed.First != 4 {
			t.Errorf("%+v %v", feed, err)
		}
		r.happen("default", "chat.message", 2)
		time.Sleep(time.Minute)
		r.store.Erase(conversation.SessionKey{Tenant: "default", Session: "s1"})
		tries := len(r.seen("a.example"))
		time.Sleep(10 * time.Minute)
		if n := r.metric("parley_webhook_skipped_total", "a"); n != 3 || len(r.seen("a.example")) != tries {
			t.Errorf("of what was erased %v were counted and %d sent", n-3, len(r.seen("a.example"))-tries)
		}
		stop()
		r.happen("default", "chat.message", 4) // 6 … 9, and trimmed before anybody looks
		if err := r.store.Trim(t.Context(), "default", 7); err != nil {
			t.Fatal(err)
		}
		down = false
		stop = r.run(hook("a"))
		time.Sleep(time.Second)
		stop()
		if n := r.metric("parley_webhook_skipped_total", "a"); n != 5 {
			t.Errorf("%v were skipped", n)
		}
		if got := numbersOf(r.seen("a.example")); !slices.Equal(got[len(got)-2:], []int{8, 9}) {
			t.Errorf("%v", got)
		}
	})
}

// 410 ends a hook, also over a restart; another address begins behind what was sent.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.answers["a.example"] = func(n int, _ *http.Request) (*http.Response, error) {
			if n == 2 {
				return status(410), nil
			}
			return status(200), nil
		}
		for range 2 {
			stop := r.run(hook("a"), hook("b"))
			r.happen("default", "chat.message", 3)
			time.Sleep(time.Hour)
			if n := r.metric("parley_webhook_gone", "a"); n != 1 {
				t.Errorf("gone is %v", n)
			}
			stop()
		}
		if got := numbersOf(r.seen("a.example")); !slices.Equal(got, upTo(2)) {
			t.Errorf("%v", got)
		}
		if got := numbersOf(r.seen("b.example")); !slices.Equal(got, upTo(6)) {
			t.Errorf("%v", got)
		}
		if n := strings.Count(r.log.String(), "(410)"); n != 2 { // once each start
			t.Errorf("%d lines: %s", n, r.log.String())
		}
		stop := r.run(hook("a", func(h *webhook.Hook) { h.URL = "https://new.example/" }))
		time.Sleep(time.Second)
		stop()
		if got := numbersOf(r.seen("new.example")); !slices.Equal(got, upTo(6)[1:]) {
			t.Errorf("%v", got)
		}
	})
}

// Each entry comes at least once and in order, however the store fails, the run ends and two
// run at a time; it comes twice only for that.
func TestStoreAndRunsFail(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stop := r.run(hook("a"))
		other := func() {}
		for i := range 60 {
			switch i % 12 {
			case 3:
				r.store.Fail(errors.New("the database is away"))
				time.Sleep(3 * time.Second)
				r.store.Fail(nil)
			case 6:
				stop()
				stop = r.run(hook("a"))
			case 8:
				other = r.run(hook("a"))
			case 10:
				other()
			}
			r.happen("default", "chat.message", 1)
			time.Sleep(time.Duration(i*37%300) * time.Millisecond)
		}
		time.Sleep(time.Minute)
		stop()
		got := numbersOf(r.seen("a.example"))
		next, twice := 1, 0
		for _, n := range got {
			switch {
			case n == next:
				next++
			case n < next:
				twice++
			default:
				t.Fatalf("%d came before %d: %v", n, next, got)
			}
		}
		if next != 61 || twice > 20 {
			t.Errorf("%d entries, %d more than once: %v", next-1, twice, got)
		}
	})
}

// A crash between the sending and its note: the entry comes again under the same id.
func TestCrashBehindASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		stop := r.run(hook("a"))
		r.answers["a.example"] = func(int, *http.Request) (*http.Response, error) {
			r.store.Fail(errors.New("the process has no time left"))
			return status(200), nil
		}
		r.happen("default", "chat.message", 1)
		time.Sleep(time.Second)
		stop()
		r.store.Fail(nil)
		r.answers["a.example"] = nil
		stop = r.run(hook("a"))
		time.Sleep(time.Second)
		stop()
		got := r.seen("a.example")
		if len(got) != 2 || got[0].id != "default:1" || got[0].id != got[1].id || got[0].body != got[1].body {
			t.Errorf("%+v", got)
		}
	})
}

// A run that ends while an entry is taken remembers that: it is not sent again.
func TestEndBehindASend(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		d, err := webhook.New([]webhook.Hook{hook("a")}, r.keep, r.needs())
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		r.answers["a.example"] = func(int, *http.Request) (*http.Response, error) {
			cancel()
			return status(200), nil
		}
		ended := make(chan error)
		go func() { ended <- d.Run(ctx) }()
		synctest.Wait()
		r.happen("default", "chat.message", 2)
		if err := <-ended; err != nil {
			t.Fatal(err)
		}
		r.answers["a.example"] = nil
		stop := r.run(hook("a"))
		time.Sleep(time.Second)
		stop()
		if got := numbersOf(r.seen("a.example")); !slices.Equal(got, upTo(2)) {
			t.Errorf("%v", got)
		}
	})
}

// A store that is closed ends the run, with its error.
func TestStoreClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		d, err := webhook.New([]webhook.Hook{hook("a")}, r.keep, r.needs())
		if err != nil {
			t.Fatal(err)
		}
		r.store.Fail(conversation.ErrClosed)
		if err := d.Run(t.Context()); !errors.Is(err, conversation.ErrClosed) {
			t.Error(err)
		}
	})
}

// Two tenants, three chats and a hook each: nothing of one reaches the other's. A-38.
func TestTenantsStayApart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		of := func(tenant string) func(*webhook.Hook) { return func(h *webhook.Hook) { h.Tenant = tenant } }
		stop := r.run(hook("a", of("acme")), hook("b", of("beta / ü")), hook("c"))
		for range 20 {
			for tenant, all := range map[conversation.TenantID][]chats.Chat{"acme": {"telegram:42", "discord:7"}, "beta / ü": {"telegram:42"}} {
				for _, chat := range all {
					value := gatewaytest.ChatHappening(tenant, chat, "hello")
					if err := r.store.Save(t.Context(), tenant, nil, []chats.Entry{{At: time.Now(), Value: value}}); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		time.Sleep(time.Second)
		stop()
		for host, x := range map[string]struct {
			tenant, id string
			entries    int
		}{"a.example": {"acme", "acme:", 40}, "b.example": {"beta / ü", "beta%20%2F%20%C3%BC:", 20}, "c.example": {"default", "default:", 0}} {
			got := r.seen(host)
			for _, e := range got {
				var body struct{ Project string }
				if err := json.Unmarshal([]byte(e.body), &body); err != nil || body.Project != x.tenant || !strings.HasPrefix(e.id, x.id) {
					t.Errorf("%s was sent %s %s, %v", host, e.id, e.body, err)
				}
			}
			if len(got) != x.entries {
				t.Errorf("%s was sent %d, want %d", host, len(got), x.entries)
			}
		}
	})
}

// Feeds are trimmed by age and by number, those of all tenants that are named.
func TestTrim(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		r.keep = webhook.Retention{Age: time.Hour, Entries: 50}
		needs := r.needs()
		needs.Tenants = []conversation.TenantID{"acme"}
		d, err := webhook.New(nil, r.keep, needs)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go func() { _ = d.Run(ctx) }()
		kept := func(tenant conversation.TenantID) chats.Feed {
			feed, err := r.store.Feed(t.Context(), tenant)
			if err != nil {
				t.Fatal(err)
			}
			return feed
		}
		for i := range 30 { // one every four minutes: 14 are younger than an hour at the end
			session := conversation.SessionID("s1")
			if i%7 == 3 {
				session = "s2"
			}
			if err := r.store.Save(t.Context(), "acme", nil, []chats.Entry{{At: time.Now(), Session: session, Value: []byte(`{}`)}}); err != nil {
				t.Fatal(err)
			}
			if i == 12 {
				r.store.Erase(conversation.SessionKey{Tenant: "acme", Session: "s2"})
			}
			time.Sleep(4 * time.Minute)
		}
		r.store.Erase(conversation.SessionKey{Tenant: "acme", Session: "s2"})
		time.Sleep(90 * time.Second)
		if got := kept("acme"); got != (chats.Feed{First: 17, Last: 30}) {
			t.Errorf("%+v", got)
		}
		r.happen("default", "chat.message", 80)
		r.happen("acme", "chat.message", 60)
		r.happen("stranger", "chat.message", 60)
		time.Sleep(2 * time.Minute)
		for tenant, want := range map[conversation.TenantID]chats.Feed{"default": {First: 31, Last: 80}, "acme": {First: 41, Last: 90}, "stranger": {First: 1, Last: 60}} {
			if got := kept(tenant); got != want {
				t.Errorf("%s: %+v, want %+v", tenant, got, want)
			}
		}
		time.Sleep(2 * time.Hour)
		if got := kept("default"); got != (chats.Feed{First: 81, Last: 80}) {
			t.Errorf("%+v", got)
		}
	})
}

// What a configuration may not say, by its key; the secret is in no sentence.
func TestValidate(t *testing.T) {
	if wrong := hook("a").Validate(); len(wrong) > 0 {
		t.Fatal(wrong)
	}
	for name, x := range map[string]struct {
		change func(*webhook.Hook)
		key    string
	}{
		"no name":      {func(h *webhook.Hook) { h.Name = "" }, "name"},
		"bad name":     {func(h *webhook.Hook) { h.Name = "A b" }, "name"},
		"no url":       {func(h *webhook.Hook) { h.URL = "" }, "url"},
		"no address":   {func(h *webhook.Hook) { h.URL = "token" }, "url"},
		"ftp":          {func(h *webhook.Hook) { h.URL = "ftp://a.example/token" }, "url"},
		"http":         {func(h *webhook.Hook) { h.URL = "http://a.example/token" }, "url"},
		"password":     {func(h *webhook.Hook) { h.URL = "https://u:token@a.example/" }, "url"},
		"no tenant":    {func(h *webhook.Hook) { h.Tenant = "" }, "tenant"},
		"no secret":    {func(h *webhook.Hook) { h.SecretEnv = "" }, "secret_env"},
		"two secrets":  {func(h *webhook.Hook) { h.SecretFile = "f" }, "secret_env"},
		"topic":        {func(h *webhook.Hook) { h.Topics = []string{"chat.gossip"} }, "topics"},
		"no timeout":   {func(h *webhook.Hook) { h.Timeout = 0 }, "timeout"},
		"long timeout": {func(h *webhook.Hook) { h.Timeout = time.Hour }, "timeout"},
		"no pause":     {func(h *webhook.Hook) { h.MaxPause = 0 }, "max_pause"},
		"give up":      {func(h *webhook.Hook) { h.GiveUp = -1 }, "give_up"},
	} {
		wrong := hook("a", x.change).Validate()
		if len(wrong) != 1 || wrong[0].Key != x.key || strings.Contains(wrong[0].Error(), "token") {
			t.Errorf("%s: %v, want %s", name, wrong, x.key)
		}
	}
	private := hook("a", func(h *webhook.Hook) { h.URL, h.AllowPrivate = "http://10.0.0.1/", true })
	if wrong := private.Validate(); len(wrong) > 0 {
		t.Error(wrong)
	}
	if wrong := webhook.DefaultRetention().Validate(); len(wrong) > 0 {
		t.Error(wrong)
	}
	if wrong := (webhook.Retention{Age: -1, Entries: -1}).Validate(); len(wrong) != 2 {
		t.Error(wrong)
	}
}

// Where secrets are, and what is said when they are not.
func TestSecrets(t *testing.T) {
	r := newRig(t)
	folder := t.TempDir()
	file := func(name, text string) func(*webhook.Hook) {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return func(h *webhook.Hook) { h.SecretEnv, h.SecretFile = "", path }
	}
	for name, x := range map[string]struct {
		change func(*webhook.Hook)
		wrong  string // part of the error; "" = none
	}{
		"variable":     {func(*webhook.Hook) {}, ""},
		"file":         {file("good", secret+"\n"), ""},
		"two":          {file("two", secret+"\n"+secret+"\n"), ""},
		"not set":      {func(h *webhook.Hook) { h.SecretEnv = "OTHER" }, "must begin with"},
		"empty":        {file("empty", " \n"), "is not set or empty"},
		"absent":       {func(h *webhook.Hook) { h.SecretEnv, h.SecretFile = "", filepath.Join(folder, "none") }, "no such file"},
		"not a secret": {file("plain", "hunter2"), `must begin with "whsec_"`},
		"not base64":   {file("base64", "whsec_hunter2!"), "must be base64"},
		"short":        {file("short", "whsec_aHVudGVyMg=="), "24 to 64 bytes"},
		"large":        {file("large", strings.Repeat("hunter2 ", 1000)), "larger than"},
	} {
		needs := r.needs()
		needs.Env = func(name string) (string, bool) {
			if name == "SECRET" {
				return secret, true
			}
			return "hunter2", true
		}
		_, err := webhook.New([]webhook.Hook{hook("a", x.change)}, r.keep, needs)
		switch {
		case (err == nil) != (x.wrong == ""), err != nil && !strings.Contains(err.Error(), x.wrong):
			t.Errorf("%s: %v, want %q", name, err, x.wrong)
		case err != nil && strings.Contains(err.Error(), "hunter2"):
			t.Errorf("%s: the secret is in the error: %v", name, err)
		}
	}
	if _, err := webhook.New([]webhook.Hook{hook("a"), hook("a")}, r.keep, r.needs()); err == nil || !strings.Contains(err.Error(), "two of this name") {
		t.Errorf("%v", err)
	}
}
