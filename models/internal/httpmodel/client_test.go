package httpmodel

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"parley/conversation"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// providerError is the error object of a provider that says one word.
type providerError struct {
	Message string `json:"error"`
}

func (e *providerError) Error() string         { return "told: " + e.Message }
func (e *providerError) Sentence() string      { return e.Message }
func (e *providerError) Status() int           { return http.StatusTooManyRequests }
func (e *providerError) ContextExceeded() bool { return e.Message == "long" }
func (e *providerError) QuotaExceeded() bool   { return e.Message == "poor" }
func (e *providerError) Withheld() bool        { return e.Message == "improper" }

var provider = Provider{
	Name: "words", BaseURL: "https://words.example/v1", MaxTemperature: 2,
	ParseError: func(body []byte) ProviderError {
		e := &providerError{}
		_ = json.Unmarshal(body, e)
		return e
	},
}

// exchange reads a body as one text.
func exchange(res func(context.Context, *Call) (*http.Response, error)) Exchange {
	return func(ctx context.Context, call *Call) (*conversation.ModelAnswer, error) {
		got, err := res(ctx, call)
		if err != nil {
			return nil, err
		}
		defer got.Body.Close()
		a := NewAssembly(&conversation.Request{}, &Names{}, call.Show)
		a.Items = []conversation.Item{{Kind: conversation.ItemText}}
		take := func(raw []byte) error { return a.Text(0, string(raw)) }
		err = ReadAnswer(got, true, func() error {
			raw, err := io.ReadAll(got.Body)
			return errors.Join(err, take(raw))
		}, take)
		if err != nil {
			return nil, err
		}
		return a.Answer("call_", nil)
	}
}

// ask sends an empty request.
func ask(ctx context.Context, c *Client) (text string, failure *conversation.ModelError, err error) {
	for out, e := range c.Ask(ctx, exchange(func(ctx context.Context, call *Call) (*http.Response, error) {
		return call.Post(ctx, "words", "", nil)
	})) {
		if out.Done != nil {
			text = out.Done.Items[0].Text
		}
		err = e
	}
	errors.As(err, &failure)
	return text, failure, err
}

func open(t *testing.T, o Options) *Client {
	t.Helper()
	if o.Model == "" {
		o.Model = "m"
	}
	c, err := New(o, provider)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}

// Every status and every word of a provider has one sentence, code and verdict.
func TestFailures(t *testing.T) {
	const unavailable, limited, internal = conversation.Unavailable, conversation.RateLimited, conversation.Internal
	for _, c := range []struct {
		status    int
		body      string
		code      conversation.Code
		permanent bool
	}{
		{400, `{"error":"long"}`, conversation.TooLarge, true},
		{429, `{"error":"poor"}`, limited, true},
		{402, ``, limited, true},
		{400, `{"error":"improper"}`, conversation.Forbidden, true},
		{500, `{"error":"improper"}`, conversation.Forbidden, true}, // to ask again would end the same way
		{429, `{"error":"slow down"}`, limited, false},
		{401, `{"error":"who?"}`, internal, true},
		{403, ``, internal, true},
		{404, `<html>`, internal, true},
		{408, ``, conversation.Timeout, false},
		{504, ``, conversation.Timeout, false},
		{413, ``, conversation.TooLarge, true},
		{409, ``, unavailable, false},
		{425, ``, unavailable, false},
		{500, ``, unavailable, false},
		{529, ``, unavailable, false},
		{422, ``, conversation.BadRequest, true},
		{307, ``, internal, true}, // a redirect is not followed: the key stays
	} {
		t.Run(fmt.Sprint(c.status, c.body), func(t *testing.T) {
			asked := 0
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				asked++
				w.Header().Set("Location", "/elsewhere")
				w.Header().Set("Retry-After", "7")
				w.WriteHeader(c.status)
				_, _ = io.WriteString(w, c.body)
			}))
			defer server.Close()
			_, failure, err := ask(t.Context(), open(t, Options{BaseURL: server.URL}))
			if failure == nil || failure.Failure.Code != c.code || failure.Permanent != c.permanent || failure.Failure.Message == "" {
				t.Fatalf("it failed with %+v", err)
			}
			if failure.RetryAfter != 7*time.Second || asked != 1 {
				t.Errorf("ask again after %v, asked %d times", failure.RetryAfter, asked)
			}
		})
	}
}

// A provider's error object inside of an answer is told by its own status; what
// it said is for the log, without what is secret in it.
func TestWhatIsToldIsForTheLog(t *testing.T) {
	c := open(t, Options{APIKey: "sk-hidden", Headers: map[string]string{"X-Key": "Bearer veiled"}, Proxy: "http://u:masked@proxy"})
	said := "the key sk-hidden of veiled at masked" + strings.Repeat("é", 400)
	err := c.failure(t.Context(), &providerError{Message: said})
	var failure *conversation.ModelError
	if !errors.As(err, &failure) || failure.Failure.Code != conversation.RateLimited || strings.Contains(failure.Failure.Message, "key") {
		t.Fatalf("%+v", err)
	}
	log := failure.Err.Error()
	if strings.Contains(log, "hidden") || strings.Contains(log, "veiled") || strings.Contains(log, "masked") || !strings.Contains(log, "[redacted]") || len(log) > 520 {
		t.Errorf("the log has %q", log)
	}
}

// How long a provider wants to be left alone, in each way to say it.
func TestRetryAfter(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, c := range []struct {
		name, value string
		want        time.Duration
	}{
		{"Retry-After", "1.5", 1500 * time.Millisecond},
		{"Retry-After", "Fri, 02 Jan 2026 03:05:05 GMT", time.Minute},
		{"Retry-After", "Fri, 02 Jan 2026 03:04:00 GMT", 0},
		{"Retry-After", "Sat, 02 Jan 2077 03:04:05 GMT", maxRetryAfter},
		{"Retry-After", "-3", 0},
		{"Retry-After", "NaN", 0},
		{"Retry-After", "soon", 0},
		{"Retry-After", "1e300", maxRetryAfter},
		{"Retry-After-Ms", "250", 250 * time.Millisecond},
		{"X", "1", 0},
	} {
		h := http.Header{}
		h.Set(c.name, c.value)
		if got := retryAfter(h, now); got != c.want {
			t.Errorf("%s: %s is %v, not %v", c.name, c.value, got, c.want)
		}
	}
}

// body is a body that gives a byte every time it is waited for so long.
type body struct {
	ctx   context.Context
	every time.Duration
	bytes int
}

func (b *body) Read(p []byte) (int, error) {
	if b.bytes == 0 {
		return 0, io.EOF
	}
	b.bytes--
	select {
	case <-time.After(b.every):
		p[0] = 'x'
		return 1, nil
	case <-b.ctx.Done():
		return 0, b.ctx.Err()
	}
}

func (b *body) Close() error { return nil }

// answering is a transport without a network.
type answering func(*http.Request) *http.Response

func (a answering) RoundTrip(req *http.Request) (*http.Response, error) { return a(req), nil }

// The watch over a call: silence ends it, bytes hold that off, and their number
// has a limit.
func TestWatch(t *testing.T) {
	for name, c := range map[string]struct {
		o     Options
		every time.Duration
		bytes int
		code  conversation.Code // "" = an answer
	}{
		"slow, but never silent":  {Options{IdleTimeout: time.Minute}, 59 * time.Second, 5, ""},
		"silent":                  {Options{IdleTimeout: time.Minute}, 61 * time.Second, 5, conversation.Timeout},
		"no limit of silence":     {Options{}, time.Hour, 5, ""},
		"as long as may be":       {Options{MaxBytes: 5}, 0, 5, ""},
		"a byte longer than that": {Options{MaxBytes: 4}, 0, 5, conversation.TooLarge},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				client := open(t, c.o)
				client.http = &http.Client{Transport: answering(func(req *http.Request) *http.Response {
					return &http.Response{StatusCode: http.StatusOK, Body: &body{ctx: req.Context(), every: c.every, bytes: c.bytes}}
				})}
				text, failure, _ := ask(t.Context(), client)
				switch {
				case c.code == "" && (failure != nil || len(text) != c.bytes):
					t.Errorf("%q, %+v", text, failure)
				case c.code != "" && (failure == nil || failure.Failure.Code != c.code || text != ""):
					t.Errorf("%q, %+v", text, failure)
				}
			})
		})
	}
}

// A caller who goes away, by the context or by breaking off, hears no failure.
func TestGone(t *testing.T) {
	c := open(t, Options{})
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := ask(ctx, c); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled call ends with %v", err)
	}
	for out, err := range c.Ask(t.Context(), func(_ context.Context, call *Call) (*conversation.ModelAnswer, error) {
		if err := call.Show(conversation.Output{Delta: "a"}); err == nil {
			t.Error("the adapter is not told that the caller has gone")
		} else {
			return nil, err
		}
		return nil, nil
	}) {
		if out.Delta != "a" || err != nil {
			t.Errorf("%+v %v", out, err)
		}
		break
	}
}

// A page and a body come through whatever was asked for.
func TestRead(t *testing.T) {
	for _, c := range []struct {
		media     string
		streaming bool
		want      string
	}{
		{"text/event-stream; charset=utf-8", false, "stream"},
		{"application/json", true, "whole"},
		{"", true, "stream"},
		{"", false, "whole"},
		{"text/html", true, errHTML.Error()},
	} {
		res := &http.Response{Header: http.Header{"Content-Type": {c.media}}, Body: io.NopCloser(strings.NewReader("x"))}
		err := ReadAnswer(res, c.streaming, func() error { return errors.New("stream") }, func([]byte) error { return errors.New("whole") })
		if err.Error() != c.want {
			t.Errorf("%q, streaming %v: read as %v, not %s", c.media, c.streaming, err, c.want)
		}
	}
}

func TestOptions(t *testing.T) {
	for name, o := range map[string]Options{
		"no model":            {Model: " "},
		"no address":          {Model: "m", BaseURL: "localhost:11434"},
		"another scheme":      {Model: "m", BaseURL: "ftp://host/v1"},
		"a key in the URL":    {Model: "m", BaseURL: "https://host/v1?key=hidden"},
		"a user in the URL":   {Model: "m", BaseURL: "https://u:hidden@host/v1"},
		"a key's line break":  {Model: "m", APIKey: "hidden\n"},
		"a key of two lines":  {Model: "m", APIKey: "hidden\r\nX: y"},
		"a header's name":     {Model: "m", Headers: map[string]string{"X Y": "hidden"}},
		"a header's value":    {Model: "m", Headers: map[string]string{"X": "hidden\n"}},
		"a negative limit":    {Model: "m", MaxOutputTokens: -1},
		"a temperature":       {Model: "m", Temperature: new(2.1)},
		"a negative timeout":  {Model: "m", IdleTimeout: -time.Second},
		"a negative size":     {Model: "m", MaxBytes: -1},
		"a proxy of nowhere":  {Model: "m", Proxy: "hidden"},
		"a proxy, not a URL":  {Model: "m", Proxy: "http://u:hidden@%zz"},
		"an address, not one": {Model: "m", BaseURL: "http://u:hidden@%zz"},
	} {
		if _, err := New(o, provider); err == nil {
			t.Errorf("%s is accepted", name)
		} else if strings.Contains(err.Error(), "hidden") {
			t.Errorf("%s: the error tells a secret: %v", name, err)
		}
	}
	c := open(t, Options{Model: "org/a model"})
	if c.Label() != "words:org/a_model" || c.Options().BaseURL != provider.BaseURL || c.Options().MaxBytes != DefaultMaxBytes {
		t.Errorf("%+v", c.Options())
	}
	if c = open(t, Options{Label: "local", Proxy: "http://proxy:3128"}); c.Label() != "local" {
		t.Error(c.Label())
	}
	want, err := c.transport.Proxy(httptest.NewRequest(http.MethodPost, "https://host/", nil))
	if err != nil || want.Host != "proxy:3128" {
		t.Errorf("the proxy is %v, %v", want, err)
	}
}

// Two tools whose names differ only in what providers refuse stay two.
func TestNames(t *testing.T) {
	n := &Names{}
	seen := map[string]string{}
	for _, name := range []string{"plain_name-1", "a.b", "a/b", "a:b", strings.Repeat("x", 65), strings.Repeat("x", 66), "日本"} {
		theirs := n.ToProvider(name)
		if !ValidName(theirs, maxToolName) || seen[theirs] != "" {
			t.Errorf("%q becomes %q, as %q does", name, theirs, seen[theirs])
		}
		seen[theirs] = name
	}
	for _, theirs := range slices.Sorted(maps.Keys(seen)) {
		if got := n.FromProvider(theirs); got != seen[theirs] {
			t.Errorf("%q comes back as %q, not %q", theirs, got, seen[theirs])
		}
	}
	if CallID("call_1", 40) != "call_1" || !ValidName(CallID("a.b", 40), 40) || CallID("a.b", 40) == CallID("a/b", 40) {
		t.Error("ids of calls are not given back as they must be")
	}
}

// Each call is followed by its result, whatever the transcript has.
func TestTurns(t *testing.T) {
	call := func(id, args string) conversation.Item {
		return conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: "f", Args: args}
	}
	text := func(text string) conversation.Item { return conversation.Item{Kind: conversation.ItemText, Text: text} }
	got := Turns(&conversation.Request{Entries: []conversation.Entry{
		{Role: conversation.RoleUser, Text: " \n"},
		{Role: conversation.RoleUser, Text: "a"},
		{Role: conversation.RoleAssistant, Items: []conversation.Item{text(" "), call("1", "{"), text("x"), call("2", `{"a":1}`), call("3", "{}")}},
		{Role: conversation.RoleTool, CallID: "2", Text: "found"},
		{Role: conversation.RoleTool, CallID: "9", Text: "of another day"},
		{Role: conversation.RoleTool, CallID: "3", Text: " "},
		{Role: conversation.RoleAssistant, Items: []conversation.Item{text("")}},
		{Role: conversation.RoleTool, CallID: "2", Text: "late"},
	}}, "words:m@host")
	want := []Turn{
		{Role: conversation.RoleUser, Text: "a"},
		{
			Role: conversation.RoleAssistant, Items: []conversation.Item{call("1", "{}"), text("x"), call("2", `{"a":1}`), call("3", "{}")},
			Results: []Result{{ID: "1", Text: noResult}, {ID: "2", Text: "found"}, {ID: "3", Text: "(no output)"}},
		},
		{Role: conversation.RoleUser, Text: "[result of call 9: of another day]"},
		{Role: conversation.RoleUser, Text: "[result of call 2: late]"},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the turns are\n%+v\nnot\n%+v", got, want)
	}
}

// What is opaque goes back to whom it came from, within its task: not to another
// model, such as a fallback, and not with another request of the user.
func TestOpaqueGoesBack(t *testing.T) {
	item := conversation.Item{Kind: conversation.ItemText, Text: "x", Opaque: Pack([]string{"sealed"}), OpaqueBy: "words:m@host"}
	entries := []conversation.Entry{{Role: conversation.RoleAssistant, Task: "t1-s1", Items: []conversation.Item{item}}}
	for _, c := range []struct {
		origin string
		task   conversation.TaskID
		want   []string
	}{
		{"words:m@host", "t1-s1", []string{"sealed"}},
		{"words:other@host", "t1-s1", nil},
		{"words:m@host", "t2-s1", nil},
	} {
		turns := Turns(&conversation.Request{Task: c.task, Entries: entries}, c.origin)
		if got := Unpack[string](&turns[0].Items[0]); !slices.Equal(got, c.want) {
			t.Errorf("%s in %s gets %q back, not %q", c.origin, c.task, got, c.want)
		}
	}
	if entries[0].Items[0] != item {
		t.Error("the request's entries were written to")
	}
	// What stays goes with the other requests, too, but still to nobody else.
	entries[0].Items[0].OpaqueStays = true
	for origin, want := range map[string][]string{"words:m@host": {"sealed"}, "words:other@host": nil} {
		turns := Turns(&conversation.Request{Task: "t2-s1", Entries: entries}, origin)
		if got := Unpack[string](&turns[0].Items[0]); !slices.Equal(got, want) || turns[0].Items[0].OpaqueStays != (want != nil) {
			t.Errorf("%s gets %q back, not %q", origin, got, want)
		}
	}
	if Pack([]string(nil)) != "" || Pack([]json.RawMessage{json.RawMessage("{")}) != "" {
		t.Error("nothing, or half a thing, is kept")
	}
}

// Calls get ids that pair their results in the whole conversation, and the
// engine's names; what was not counted is estimated.
func TestAnswer(t *testing.T) {
	r := &conversation.Request{
		System: "1234", Tools: []conversation.ToolSpec{{Name: "a.b"}},
		Entries: []conversation.Entry{{Role: conversation.RoleAssistant, Items: []conversation.Item{{Kind: conversation.ItemCall, ID: "call_0", Args: "{}"}}}},
	}
	names := NewNames(r)
	var shown []conversation.Output
	a := NewAssembly(r, names, func(out conversation.Output) error {
		shown = append(shown, out)
		return nil
	})
	a.ID, a.Items = "r1", []conversation.Item{
		{Kind: conversation.ItemCall, ID: "call_0", Tool: names.ToProvider("a.b")}, {Kind: conversation.ItemCall, ID: "own", Tool: "c", Args: "{}"},
		{Kind: conversation.ItemCall, ID: "own", Tool: "c", Args: "{}"}, {Kind: conversation.ItemText},
	}
	if err := errors.Join(a.Text(3, "abcde"), a.Text(3, ""), a.KeepAlive()); err != nil {
		t.Fatal(err)
	}
	if want := []conversation.Output{{Item: 3, Delta: "abcde"}, {Item: 3}}; !reflect.DeepEqual(shown, want) {
		t.Errorf("shown is %+v", shown)
	}
	a.StopStreaming()
	if err := errors.Join(a.Text(3, "f"), a.KeepAlive()); err != nil || len(shown) != 2 {
		t.Errorf("%v, shown is %+v", err, shown)
	}
	done, err := a.Answer("pre_", nil)
	if err != nil {
		t.Fatal(err)
	}
	first, second, third := done.Items[0], done.Items[1], done.Items[2]
	if !strings.HasPrefix(first.ID, "pre_") || first.Tool != "a.b" || first.Args != "{}" || second.ID != "own" || !strings.HasPrefix(third.ID, "pre_") || third.ID == first.ID {
		t.Errorf("the calls are %+v", done.Items)
	}
	if done.ResponseID != "r1" || done.Items[3].Text != "abcdef" || !done.Items[3].Streamed {
		t.Errorf("the answer is %+v", done)
	}
	if want := (conversation.Usage{InputTokens: 2, OutputTokens: 3, Estimated: true}); done.Usage != want {
		t.Errorf("the usage is %+v, not %+v", done.Usage, want)
	}
	counted := conversation.Usage{InputTokens: 9}
	if done, err = a.Answer("pre_", &counted); err != nil || done.Usage != counted {
		t.Errorf("the usage is %+v, %v", done.Usage, err)
	}
}
