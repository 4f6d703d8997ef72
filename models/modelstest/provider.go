package modelstest

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
)

// Access are the options that an adapter's model is made with.
type Access struct {
	BaseURL     string
	Key         string
	Model       string
	Headers     map[string]string
	Stream      bool
	IdleTimeout time.Duration // 0 = none
	MaxBytes    int64         // 0 = the adapter's own limit
}

// Dial makes an adapter's model.
type Dial = func(t testing.TB, a Access) conversation.Model

// These values must appear on the wire, and nowhere else.
const (
	key    = "sk-test-0123456789abcdef"
	secret = "header-secret-0123456789"
	echo   = "what the provider says to itself"
)

func access(u *Upstream) Access {
	return Access{BaseURL: u.URL, Key: key, Model: "m", Headers: map[string]string{"X-Extra": secret}, Stream: true}
}

// RunUpstream runs the suite for an adapter of a provider: Run itself, with the
// answers streamed and not, and everything that a provider may do besides.
func RunUpstream(t *testing.T, wire Wire, dial Dial) Column {
	col := Column{Adapter: wire.Name}
	open := func(bytes bool) Opener {
		return func(t *testing.T, s Scenario) (conversation.Model, conversation.Request) {
			u := NewUpstream(t, wire, Reply{Scenario: s, Bytes: bytes})
			return closing(t, dial(t, access(u))), s.Request()
		}
	}
	p := &provider{wire: wire, dial: dial}
	col.add("", run(t, open(false), wire.Carries))
	col.run(t, "parallel tools", func(t *testing.T) {
		runWhole(t, Scenario{Items: []Item{call("lookup", `{"query":"a"}`), call("lookup", `{"query":"b"}`), call("lookup", `{}`)}}, open(false))
	})
	// characters that are split between chunks of bytes come out whole.
	col.run(t, "byte by byte", func(t *testing.T) {
		runWhole(t, Scenario{Items: wire.Carries([]Item{text("naïve 👩‍👩‍👧‍👦 日本語 𝄞"), call("lookup", `{"query":"ü"}`)})}, open(true))
	})
	// M-01: with stream=false the upstream call is not a streaming one.
	col.run(t, "stream=false", p.notStreaming)
	col.run(t, "other form", func(t *testing.T) {
		s := Scenario{Items: wire.Carries([]Item{text("One."), text("Two."), call("lookup", `{}`)})}
		p.otherForm(t, s)
	})
	col.run(t, "huge", p.huge)
	col.run(t, "limit of bytes", p.limit)
	col.run(t, "request", p.request)
	col.run(t, "transcript", p.transcript)
	col.run(t, "note", p.note)
	col.run(t, "pictures", p.pictures)
	col.run(t, "last step", p.lastStep)
	col.run(t, "calls alone", p.callsAlone)
	col.run(t, "calls alone, refused", p.choiceRefused)
	col.run(t, "foreign ids and names", p.foreign)
	col.run(t, "usage", p.usage)
	col.run(t, "signs of life", p.keepAlive)
	t.Run("refusal", func(t *testing.T) { col.add("refusal: ", p.refusals(t)) })
	t.Run("broken", func(t *testing.T) { col.add("broken: ", p.broken(t)) })
	col.run(t, "timeouts", p.timeouts)
	col.run(t, "disconnect", p.disconnect)
	col.run(t, "environment", p.environment)
	col.run(t, "many callers", p.many)
	return col
}

type provider struct {
	wire Wire
	dial Dial
}

// closing closes the model with the test, if it can be closed.
func closing(t testing.TB, m conversation.Model) conversation.Model {
	if c, can := m.(io.Closer); can {
		t.Cleanup(func() {
			if err := c.Close(); err != nil {
				t.Error(err)
			}
			if err := c.Close(); err != nil {
				t.Errorf("closed once more: %v", err)
			}
		})
	}
	return m
}

// open makes a stand-in and a model that asks it.
func (p *provider) open(t *testing.T, reply Reply, change ...func(*Access)) (conversation.Model, *Upstream) {
	t.Helper()
	u := NewUpstream(t, p.wire, reply)
	a := access(u)
	for _, c := range change {
		c(&a)
	}
	return closing(t, p.dial(t, a)), u
}

func (p *provider) notStreaming(t *testing.T) {
	for _, s := range wholeScenarios() {
		m, u := p.open(t, Reply{Scenario: s}, func(a *Access) { a.Stream = false })
		o := Ask(t.Context(), m, s.Request())
		if o.Err != nil || o.Text != "" || o.KeepAlives > 0 {
			t.Fatalf("%s: %+v", s.Name, o)
		}
		compare(t, p.wire.Carries(s.Items), o.Done.Items)
		if asked := u.Asked(); len(asked) != 1 || asked[0].Stream {
			t.Errorf("%s: the upstream calls are %+v", s.Name, asked)
		}
	}
}

// otherForm: gateways that do not do what they were asked for.
func (p *provider) otherForm(t *testing.T, s Scenario) {
	for _, stream := range []bool{true, false} {
		m, _ := p.open(t, Reply{Scenario: s, Swap: true}, func(a *Access) { a.Stream = stream })
		o := Ask(t.Context(), m, s.Request())
		if o.Err != nil || o.Text != "" {
			t.Fatalf("stream=%v: %+v", stream, o)
		}
		compare(t, s.Items, o.Done.Items)
		if o.Done.Items[0].Streamed {
			t.Errorf("stream=%v: nothing was streamed", stream)
		}
	}
}

func (p *provider) huge(t *testing.T) {
	s := Scenario{Items: []Item{text(strings.Repeat("0123456789abcdeé", 1<<17))}} // 2 MiB
	for _, stream := range []bool{true, false} {
		m, _ := p.open(t, Reply{Scenario: s, Delta: 1 << 14}, func(a *Access) { a.Stream = stream })
		o := Ask(t.Context(), m, s.Request())
		if o.Err != nil || o.Done.Items[0].Text != s.Items[0].Text || stream && o.Text != s.Items[0].Text {
			t.Fatalf("stream=%v: %d bytes streamed, %v", stream, len(o.Text), o.Err)
		}
	}
}

func (p *provider) limit(t *testing.T) {
	s := Scenario{Items: []Item{text(strings.Repeat("0123456789", 100))}}
	for _, stream := range []bool{true, false} {
		for limit, fits := range map[int64]bool{900: false, 1 << 20: true} {
			m, _ := p.open(t, Reply{Scenario: s}, func(a *Access) { a.Stream, a.MaxBytes = stream, limit })
			o := Ask(t.Context(), m, s.Request())
			if fits {
				if o.Err != nil || o.Done == nil {
					t.Errorf("stream=%v, at most %d bytes: %v", stream, limit, o.Err)
				}
				continue
			}
			assertFailure(t, o, conversation.TooLarge, true)
		}
	}
}

// request: the request has everything in it, once.
func (p *provider) request(t *testing.T) {
	s := wholeScenarios()[0]
	m, u := p.open(t, Reply{Scenario: s})
	if o := Ask(t.Context(), m, s.Request()); o.Err != nil {
		t.Fatal(o.Err)
	}
	asked := u.Asked()
	if len(asked) != 1 {
		t.Fatalf("%d requests", len(asked))
	}
	a := asked[0]
	if a.Model != "m" || a.System != "Be brief." || a.User != "s1" || !a.Stream || !slices.Equal(a.Tools, []string{"lookup", conversation.ToolCover}) {
		t.Errorf("the request is %+v", a)
	}
	if !slices.Equal(a.Said, []string{"user: Tell me."}) {
		t.Errorf("the transcript is %q", a.Said)
	}
	if a.Header.Get("Authorization") != "Bearer "+key || a.Header.Get("X-Extra") != secret {
		t.Errorf("the headers are %v", a.Header)
	}
	// A gateway's own way to log in takes the place of the key.
	m, u = p.open(t, Reply{Scenario: s}, func(a *Access) { a.Headers = map[string]string{"Authorization": "Basic " + secret} })
	if o := Ask(t.Context(), m, s.Request()); o.Err != nil {
		t.Fatal(o.Err)
	}
	if got := u.Asked()[0].Header.Values("Authorization"); !slices.Equal(got, []string{"Basic " + secret}) {
		t.Errorf("the authorization is %q", got)
	}
}

// transcript: D-04 (verbatim, in order), results with their calls, users who
// speak twice in a row, ids given back.
func (p *provider) transcript(t *testing.T) {
	s := wholeScenarios()[0]
	r := s.Request()
	user := func(text string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleUser, Text: text}
	}
	tool := func(id, text string) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleTool, CallID: id, Text: text}
	}
	said := func(items ...Item) conversation.Entry {
		return conversation.Entry{Role: conversation.RoleAssistant, ResponseID: "resp_0", Items: items}
	}
	with := func(i Item, id string) Item { i.ID = id; return i }
	r.Entries = []conversation.Entry{
		user("First:  two spaces\nand a line"),
		said(with(text("On it."), "msg_1"), with(call("lookup", `{"query":"a"}`), "call_a"), with(call("lookup", `{"query":"b"}`), "call_b")),
		tool("call_b", "found b"), tool("call_a", ""),
		user("Second"), user("[delegation d1 (developer) finished: ok]"),
		said(with(text("Here you are."), "msg_2"), text("   ")),
		user("Third"), said(),
	}
	r.Note = `Open messages: [1] "Third"`
	m, u := p.open(t, Reply{Scenario: s})
	if o := Ask(t.Context(), m, r); o.Err != nil {
		t.Fatal(o.Err)
	}
	want := []string{
		"user: First:  two spaces\nand a line",
		"assistant: On it.", `call call_a lookup {"query":"a"}`, `call call_b lookup {"query":"b"}`,
		"result call_a (no output)", "result call_b found b",
		"user: Second", "user: [delegation d1 (developer) finished: ok]",
		"assistant: Here you are.",
		"user: Third", `user: Open messages: [1] "Third"`,
	}
	// The note is no turn of its own: behind a blank line, or in a block of its own.
	got := strings.ReplaceAll(strings.Join(u.Asked()[0].Said, "\n"), "Third\n\nOpen", "Third\nuser: Open")
	if want := strings.Join(want, "\n"); got != want {
		t.Errorf("the transcript is\n%s\nnot\n%s", got, want)
	}
}

// note: it stands behind the last result, where it is no turn of its own, and what
// comes before it is byte for byte what the next request begins with: providers
// cache by prefix.
func (p *provider) note(t *testing.T) {
	s := wholeScenarios()[0]
	r := s.Request()
	r.Entries = []conversation.Entry{
		{Role: conversation.RoleUser, Text: "First"},
		{Role: conversation.RoleAssistant, Items: []Item{{Kind: conversation.ItemCall, ID: "call_a", Tool: "lookup", Args: `{"query":"a"}`}}},
		{Role: conversation.RoleTool, CallID: "call_a", Text: "found a"},
	}
	r.Note = "Open messages: [1] First [2] Second"
	m, u := p.open(t, Reply{Scenario: s})
	ask := func(r conversation.Request) Asked {
		if o := Ask(t.Context(), m, r); o.Err != nil {
			t.Fatal(o.Err)
		}
		all := u.Asked()
		return all[len(all)-1]
	}
	with := ask(r)
	if got, want := with.Said[len(with.Said)-1], "result call_a found a\n\n"+r.Note; got != want {
		t.Errorf("the last thing said is %q, not %q", got, want)
	}
	r.Note = ""
	r.Entries = append(r.Entries,
		conversation.Entry{Role: conversation.RoleAssistant, Items: []Item{text("Found it.")}},
		conversation.Entry{Role: conversation.RoleUser, Text: "Second"})
	next := ask(r)
	with.Raw, next.Raw = WithoutMarks(with.Raw), WithoutMarks(next.Raw)
	if upto := strings.Index(with.Raw, "found a") + len("found a"); upto > len(next.Raw) || with.Raw[:upto] != next.Raw[:upto] {
		t.Errorf("the next request begins otherwise:\n%s\n%s", with.Raw, next.Raw)
	}
	r.Entries = r.Entries[:4] // nothing of the user is at the end
	r.Note = "Open messages: [1] First"
	if last := ask(r).Said; !strings.HasSuffix(last[len(last)-1], r.Note) {
		t.Errorf("the note is not the last thing said: %q", last)
	}
}

// lastStep: no tools, but calls in the transcript; and one that begins and ends
// with the assistant, as after a trim.
func (p *provider) lastStep(t *testing.T) {
	s := wholeScenarios()[0]
	r := s.Request()
	r.Tools, r.WrapUp = nil, true
	r.Entries = []conversation.Entry{
		{Role: conversation.RoleTool, CallID: "call_lost", Text: "a result without its call"},
		{Role: conversation.RoleAssistant, Items: []Item{{Kind: conversation.ItemCall, ID: "call_1", Tool: "lookup", Args: "not JSON"}}},
		{Role: conversation.RoleAssistant, Items: []Item{text("Said.")}},
	}
	m, u := p.open(t, Reply{Scenario: s})
	if o := Ask(t.Context(), m, r); o.Err != nil {
		t.Fatal(o.Err)
	}
	got := u.Asked()[0].Said
	for _, want := range []string{"user: [result of call call_lost: a result without its call]", "call call_1 lookup {}", "result call_1 no result", "assistant: Said."} {
		if !slices.Contains(got, want) {
			t.Errorf("%q is not in %q", want, got)
		}
	}
	r.Entries = nil
	if o := Ask(t.Context(), m, r); o.Err != nil {
		t.Fatalf("an empty transcript: %v", o.Err)
	}
}

// closingStep is the answer to a closing request, and the request: the engine's own tools
// alone, and calls of another one in the transcript.
func closingStep() (Scenario, conversation.Request) {
	s := Scenario{Items: []Item{call(conversation.ToolCover, `{"messageId":"1","as":"answered"}`)}}
	r := s.Request()
	respond := conversation.ToolSpec{Name: conversation.ToolRespond, Description: "Answers a message."}
	r.MustCall, r.Tools, r.Forbidden = true, []conversation.ToolSpec{respond, r.Tools[1]}, r.Tools[:1]
	r.Entries = append(r.Entries,
		conversation.Entry{Role: conversation.RoleAssistant, Items: []Item{text("I look."), {Kind: conversation.ItemCall, ID: "call_1", Tool: "lookup", Args: "{}"}}},
		conversation.Entry{Role: conversation.RoleTool, CallID: "call_1", Text: "found"})
	return s, r
}

// callsAlone: a request whose answer must be calls says so, describes the tools that may be
// called and no others, and is the same each time. Other requests do not say so.
func (p *provider) callsAlone(t *testing.T) {
	s, r := closingStep()
	m, u := p.open(t, Reply{Scenario: s})
	open := r
	open.MustCall, open.Tools, open.Forbidden = false, append(r.Forbidden, r.Tools...), nil
	for _, one := range []conversation.Request{r, r, open} {
		o := Ask(t.Context(), m, one)
		if o.Err != nil {
			t.Fatal(o.Err)
		}
		compare(t, s.Items, o.Done.Items)
	}
	asked := u.Asked()
	if a := asked[0]; a.Choice != required || !slices.Equal(a.Tools, []string{conversation.ToolRespond, conversation.ToolCover}) {
		t.Errorf("the choice is %q of %q", a.Choice, a.Tools)
	}
	if asked[0].Raw != asked[1].Raw {
		t.Errorf("the same request is written in two ways:\n%s\n%s", asked[0].Raw, asked[1].Raw)
	}
	if a := asked[2]; a.Choice != "" || len(a.Tools) != 3 {
		t.Errorf("of another request the choice is %q of %q", a.Choice, a.Tools)
	}
}

// choiceRefused: a provider that refuses the choice is asked again without, once, and is
// not told of it any more if it has named it. Another refusal stays one.
func (p *provider) choiceRefused(t *testing.T) {
	s, r := closingStep()
	body := func(words string) string {
		return `{"type":"error","error":{"type":"invalid_request_error","code":null,"message":"` + words + `"}}`
	}
	named := body("tool_choice 'required' is incompatible with thinking enabled")
	for _, c := range []struct {
		name    string
		refusal Reply
		want    []string // the choices of all requests of two calls
		fails   bool
	}{
		{"named", Reply{Status: 400, Body: named}, []string{required, "", ""}, false},
		{"with a status of its own", Reply{Status: 404, Body: body("No endpoints found that support the provided 'tool_choice' value.")}, []string{required, "", ""}, false},
		{"in the stream", Reply{Body: named}, []string{required, "", ""}, false},
		{"not named", Reply{Status: 422, Body: body("unprocessable")}, []string{required, "", required, ""}, false},
		{"by the answer", Reply{Status: 400, Body: body("Tool choice is required, but model did not call a tool")}, []string{required, "", required, ""}, false},
		{"of something else", Reply{Status: 401, Body: body("who are you?")}, []string{required, required}, true},
		{"because of too many", Reply{Status: 429, Body: body("slow down")}, []string{required, required}, true},
		{"without a fault of its own", Reply{Status: 500, Body: body("oops")}, []string{required, required}, true},
		{"because of its size", p.wire.full, []string{required, required}, true},
	} {
		m, u := p.open(t, Reply{Scenario: s, Refuses: "tool_choice", RefusedBy: &c.refusal})
		for range 2 {
			o := Ask(t.Context(), m, r)
			if c.fails != (o.Err != nil) {
				t.Fatalf("%s: %v", c.name, o.Err)
			}
			if !c.fails {
				compare(t, s.Items, o.Done.Items)
			}
		}
		var got []string
		for _, a := range u.Asked() {
			got = append(got, a.Choice)
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: the choices were %q, not %q", c.name, got, c.want)
		}
	}
	m, u := p.open(t, Reply{Status: 400, Body: body("a picture is damaged")})
	assertFailure(t, Ask(t.Context(), m, r), conversation.BadRequest, true)
	if n := len(u.Asked()); n != 2 {
		t.Errorf("a request that is refused in any case is sent %d times", n)
	}
}

// foreign: an agent may change models within a conversation, and tools from
// elsewhere have any names.
func (p *provider) foreign(t *testing.T) {
	name := "my server.find/it:" + strings.Repeat("x", 80)
	id := "m1-s1:1.2 of another model, " + strings.Repeat("x", 80)
	r := wholeScenarios()[0].Request()
	r.Tools = []conversation.ToolSpec{{Name: name, Description: "d"}}
	r.Entries = append(r.Entries,
		conversation.Entry{Role: conversation.RoleAssistant, Items: []Item{{Kind: conversation.ItemText, ID: "m1-s1:1", Text: "x"}, {Kind: conversation.ItemCall, ID: id, Tool: name, Args: `{}`}}},
		conversation.Entry{Role: conversation.RoleTool, CallID: id, Text: "found"})
	m, u := p.open(t, Reply{Scenario: wholeScenarios()[0]})
	if o := Ask(t.Context(), m, r); o.Err != nil {
		t.Fatal(o.Err)
	}
	theirs := u.Asked()[0].Tools[0]
	m, _ = p.open(t, Reply{Scenario: Scenario{Items: []Item{call(theirs, `{"a":1}`)}}})
	o := Ask(t.Context(), m, r)
	if o.Err != nil || len(o.Done.Items) != 1 || o.Done.Items[0].Tool != name {
		t.Fatalf("%v %+v", o.Err, o.Done)
	}
	// An id that the conversation has already cannot pair another result.
	first := o.Done.Items[0].ID
	r.Entries[1].Items[1].ID, r.Entries[2].CallID = first, first
	if o = Ask(t.Context(), m, r); o.Err != nil || o.Done.Items[0].ID == first || o.Done.Items[0].ID == "" {
		t.Fatalf("the call's id is %q again, %v", first, o.Err)
	}
}

func (p *provider) usage(t *testing.T) {
	s := wholeScenarios()[0]
	for _, stream := range []bool{true, false} {
		for _, counted := range []bool{true, false} {
			m, _ := p.open(t, Reply{Scenario: s, NoUsage: !counted}, func(a *Access) { a.Stream = stream })
			o := Ask(t.Context(), m, s.Request())
			if o.Err != nil {
				t.Fatal(o.Err)
			}
			if got := o.Done.Usage; counted && got != (conversation.Usage{InputTokens: usageIn, OutputTokens: usageOut, CachedTokens: usageCached}) {
				t.Errorf("stream=%v: the usage is %+v", stream, got)
			} else if !counted && (!got.Estimated || got.InputTokens < 1 || got.OutputTokens < 1) {
				t.Errorf("stream=%v: the estimate is %+v", stream, got)
			}
			if o.Done.ResponseID == "" {
				t.Error("the answer has no id")
			}
		}
	}
}

// alive: arguments are not shown, but while they come the model is not silent.
func (p *provider) keepAlive(t *testing.T) {
	s := Scenario{Items: []Item{call("lookup", `{"query":"`+strings.Repeat("x", 200)+`"}`)}}
	m, _ := p.open(t, Reply{Scenario: s})
	if o := Ask(t.Context(), m, s.Request()); o.Err != nil || o.KeepAlives < 20 || o.Text != "" {
		t.Fatalf("%+v", o)
	}
}

// assertFailure checks a failure: its kind, that it is safe to show, and that no answer
// came with it.
func assertFailure(t *testing.T, o Heard, code conversation.Code, permanent bool) *conversation.ModelError {
	t.Helper()
	var e *conversation.ModelError
	if o.Done != nil || !errors.As(o.Err, &e) {
		t.Fatalf("the outcome is %+v, %T, not a model error", o, o.Err)
	}
	if e.Failure.Code != code || e.Permanent != permanent {
		t.Errorf("the failure is %s, permanent %v, not %s, %v: %v", e.Failure.Code, e.Permanent, code, permanent, e.Err)
	}
	assertNoSecret(t, e)
	return e
}

// safe: no secret in any text of an error, and nothing of the provider's in what
// a client sees.
func assertNoSecret(t *testing.T, e *conversation.ModelError) {
	t.Helper()
	for _, hidden := range []string{key, secret, echo, "http://", "127.0.0.1"} {
		if strings.Contains(e.Failure.Message, hidden) {
			t.Errorf("the sentence for clients has %q in it: %s", hidden, e.Failure.Message)
		}
	}
	if e.Failure.Message == "" {
		t.Error("the failure has no sentence")
	}
	texts := []string{e.Error(), fmt.Sprintf("%+v %#v", e, e)}
	for err := e.Err; err != nil; err = errors.Unwrap(err) {
		texts = append(texts, err.Error(), fmt.Sprintf("%+v %#v", err, err))
	}
	for _, text := range texts {
		if strings.Contains(text, key) || strings.Contains(text, secret) {
			t.Errorf("a secret is in %q", text)
		}
		if strings.Contains(text, "://") {
			t.Errorf("an address, which may have secrets in it, is in %q", text)
		}
	}
}

// refusals: a status and its body become a code. The provider is asked once:
// repeating is the engine's.
func (p *provider) refusals(t *testing.T) Column {
	col := Column{}
	after := func(name, value string) http.Header { return http.Header{http.CanonicalHeaderKey(name): {value}} }
	type refusal struct {
		name      string
		reply     Reply
		code      conversation.Code
		permanent bool
		from, to  time.Duration // what RetryAfter is between
	}
	list := []refusal{
		{name: "429", reply: Reply{Status: 429}, code: conversation.RateLimited},
		{name: "429 Retry-After", reply: Reply{Status: 429, Header: after("Retry-After", "7")}, code: conversation.RateLimited, from: 7 * time.Second, to: 7 * time.Second},
		{name: "429 Retry-After-Ms", reply: Reply{Status: 429, Header: after("Retry-After-Ms", "1500")}, code: conversation.RateLimited, from: 1500 * time.Millisecond, to: 1500 * time.Millisecond},
		{name: "429 Retry-After date", reply: Reply{Status: 429, Header: after("Retry-After", time.Now().Add(time.Hour).UTC().Format(http.TimeFormat))}, code: conversation.RateLimited, from: 50 * time.Minute, to: time.Hour},
		{name: "429 Retry-After nonsense", reply: Reply{Status: 429, Header: after("Retry-After", "-1e999")}, code: conversation.RateLimited},
		{name: "500", reply: Reply{Status: 500}, code: conversation.Unavailable},
		{name: "502 of a proxy", reply: Reply{Status: 502, Type: "text/html", Body: "<html>" + echo + "</html>"}, code: conversation.Unavailable},
		{name: "503 Retry-After", reply: Reply{Status: 503, Header: after("Retry-After", "2")}, code: conversation.Unavailable, from: 2 * time.Second, to: 2 * time.Second},
		{name: "529", reply: Reply{Status: 529}, code: conversation.Unavailable},
		{name: "408", reply: Reply{Status: 408}, code: conversation.Timeout},
		{name: "504", reply: Reply{Status: 504}, code: conversation.Timeout},
		{name: "409", reply: Reply{Status: 409}, code: conversation.Unavailable},
		{name: "400", reply: Reply{Status: 400}, code: conversation.BadRequest, permanent: true},
		{name: "422", reply: Reply{Status: 422}, code: conversation.BadRequest, permanent: true},
		{name: "401", reply: Reply{Status: 401}, code: conversation.Internal, permanent: true},
		{name: "403", reply: Reply{Status: 403}, code: conversation.Internal, permanent: true},
		{name: "404", reply: Reply{Status: 404}, code: conversation.Internal, permanent: true},
		{name: "413", reply: Reply{Status: 413}, code: conversation.TooLarge, permanent: true},
		{name: "context length", reply: p.wire.full, code: conversation.TooLarge, permanent: true},
		{name: "a redirect", reply: Reply{Status: 307, Header: after("Location", "/elsewhere")}, code: conversation.Internal, permanent: true},
		{name: "200 and a page", reply: Reply{Type: "text/html; charset=utf-8", Body: "<html>Log in: " + echo + "</html>"}, code: conversation.Unavailable},
		{name: "200 and an error", reply: Reply{Body: `{"type":"error","error":{"type":"rate_limit_error","message":"` + echo + `"}}`}, code: conversation.RateLimited},
	}
	if p.wire.broke != nil {
		list = append(list, refusal{name: "no credit", reply: *p.wire.broke, code: conversation.RateLimited, permanent: true})
	}
	for _, c := range list {
		col.run(t, c.name, func(t *testing.T) {
			if c.reply.Body == "" {
				// Providers like to repeat what they were sent.
				c.reply.Body = `{"type":"error","error":{"type":"some_error","code":"some_error","message":"` + echo + ` ` + key + ` ` + secret + `"}}`
			}
			for _, stream := range []bool{true, false} {
				m, u := p.open(t, c.reply, func(a *Access) { a.Stream = stream })
				e := assertFailure(t, Ask(t.Context(), m, wholeScenarios()[0].Request()), c.code, c.permanent)
				if e.RetryAfter < c.from || e.RetryAfter > c.to {
					t.Errorf("ask again after %s, not %s to %s", e.RetryAfter, c.from, c.to)
				}
				if n := len(u.Asked()); n != 1 {
					t.Errorf("the provider was asked %d times", n)
				}
			}
		})
	}
	col.run(t, "no server", func(t *testing.T) {
		gone := httptest.NewServer(http.NotFoundHandler())
		gone.Close()
		m := closing(t, p.dial(t, Access{BaseURL: gone.URL + p.wire.Base, Key: key, Model: "m", Headers: map[string]string{"X-Extra": secret}, Stream: true}))
		assertFailure(t, Ask(t.Context(), m, wholeScenarios()[0].Request()), conversation.Unavailable, false)
	})
	return col
}

// broken: whatever ends too early is worth another attempt, and never an answer.
func (p *provider) broken(t *testing.T) Column {
	col := Column{}
	s := Scenario{Items: []Item{text("Half of this is lost, and nobody may take it for whole.")}}
	for _, c := range []struct {
		name string
		end  End
		code conversation.Code
	}{
		{"no terminal event", Unfinished, conversation.Unavailable},
		{"connection lost", Broken, conversation.Unavailable},
		{"cut in a frame", MidFrame, conversation.Unavailable},
		{"a frame that is not JSON", Garbled, conversation.Unavailable},
		{"an error in the stream", Refused, conversation.RateLimited},
	} {
		col.run(t, c.name, func(t *testing.T) {
			m, _ := p.open(t, Reply{Scenario: s, End: c.end})
			o := Ask(t.Context(), m, s.Request())
			assertFailure(t, o, c.code, false)
			if o.Text == "" || !strings.HasPrefix(s.Items[0].Text, o.Text) {
				t.Errorf("before that came %q", o.Text)
			}
		})
	}
	for name, end := range map[string]End{"a body cut": MidFrame, "a body's connection lost": Broken} {
		col.run(t, name, func(t *testing.T) {
			m, _ := p.open(t, Reply{Scenario: s, End: end}, func(a *Access) { a.Stream = false })
			assertFailure(t, Ask(t.Context(), m, s.Request()), conversation.Unavailable, false)
		})
	}
	// M-07: no crash; where the provider is known for it, plain text.
	col.run(t, "a body that is not JSON", func(t *testing.T) {
		m, _ := p.open(t, Reply{Scenario: s, End: Garbled}, func(a *Access) { a.Stream = false })
		o := Ask(t.Context(), m, s.Request())
		if !p.wire.plain {
			assertFailure(t, o, conversation.Unavailable, false)
			return
		}
		if o.Err != nil || len(o.Done.Items) != 1 || o.Done.Items[0].Text != "This is {not JSON." {
			t.Fatalf("%v %+v", o.Err, o.Done)
		}
	})
	return col
}

// timeouts: a provider that falls silent, before and after its first word, and a
// caller's deadline.
func (p *provider) timeouts(t *testing.T) {
	for name, reply := range map[string]Reply{"silent": {Silent: true}, "stalled": {Scenario: held}} {
		t.Run(name, func(t *testing.T) {
			m, u := p.open(t, reply, func(a *Access) { a.IdleTimeout = 30 * time.Millisecond })
			o := Ask(t.Context(), m, held.Request())
			if e := assertFailure(t, o, conversation.Timeout, false); errors.Is(e, context.DeadlineExceeded) {
				t.Error("the caller had no deadline")
			}
			u.AwaitGone(t)
		})
		t.Run("deadline, "+name, func(t *testing.T) {
			m, u := p.open(t, reply)
			ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
			defer cancel()
			if e := assertFailure(t, Ask(ctx, m, held.Request()), conversation.Timeout, false); !errors.Is(e, context.DeadlineExceeded) {
				t.Error("the error does not say that the caller's deadline has passed")
			}
			u.AwaitGone(t)
		})
	}
}

// disconnect: N-06. Who is not listened to any more is hung up on: the provider
// sees the connection end.
func (p *provider) disconnect(t *testing.T) {
	t.Run("cancel in the middle", func(t *testing.T) {
		m, u := p.open(t, Reply{Scenario: held})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		for out, err := range m.Stream(ctx, held.Request()) {
			if out.Delta != "" {
				cancel()
			} else if err != nil && !errors.Is(err, context.Canceled) {
				t.Fatal(err)
			}
		}
		u.AwaitGone(t)
	})
	t.Run("break in the middle", func(t *testing.T) {
		m, u := p.open(t, Reply{Scenario: held})
		for out, err := range m.Stream(t.Context(), held.Request()) {
			if err != nil {
				t.Fatal(err)
			}
			if out.Delta != "" {
				break
			}
		}
		u.AwaitGone(t)
	})
	for _, stream := range []bool{true, false} {
		t.Run(fmt.Sprintf("cancel before the first byte, stream=%v", stream), func(t *testing.T) {
			m, u := p.open(t, Reply{Silent: true}, func(a *Access) { a.Stream = stream })
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan Heard, 1)
			go func() { ended <- Ask(ctx, m, held.Request()) }()
			select { // until the provider has the request
			case <-u.arrived:
			case o := <-ended:
				t.Fatalf("the call ended with %v", o.Err)
			}
			cancel()
			u.AwaitGone(t)
			if o := <-ended; !errors.Is(o.Err, context.Canceled) || o.Done != nil {
				t.Fatalf("%+v", o)
			}
		})
	}
}

// environment: a developer's shell has no say.
func (p *provider) environment(t *testing.T) {
	trap := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the environment was read") }))
	defer trap.Close()
	for _, name := range []string{"OPENAI_BASE_URL", "ANTHROPIC_BASE_URL", "HTTP_PROXY", "http_proxy"} {
		t.Setenv(name, trap.URL)
	}
	for _, name := range []string{
		"OPENAI_API_KEY", "OPENAI_ADMIN_KEY", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID",
		"ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "ANTHROPIC_PROFILE",
	} {
		t.Setenv(name, "from-the-shell")
	}
	t.Setenv("OPENAI_CUSTOM_HEADERS", "X-Shell: from-the-shell")
	t.Setenv("ANTHROPIC_CUSTOM_HEADERS", "X-Shell: from-the-shell")
	for _, own := range []string{key, ""} {
		m, u := p.open(t, Reply{Scenario: wholeScenarios()[0]}, func(a *Access) { a.Key = own })
		if o := Ask(t.Context(), m, wholeScenarios()[0].Request()); o.Err != nil {
			t.Fatal(o.Err)
		}
		want := ""
		if own != "" {
			want = "Bearer " + own
		}
		header := u.Asked()[0].Header
		if got := header.Get("Authorization"); got != want {
			t.Errorf("with the key %q the authorization is %q", own, got)
		}
		for name, values := range header {
			if slices.Contains(values, "from-the-shell") {
				t.Errorf("the header %s is of the shell", name)
			}
		}
	}
}

// many: one model, many callers.
func (p *provider) many(t *testing.T) {
	s := Scenario{Items: p.wire.Carries([]Item{text("One answer for everybody."), call("lookup", `{"query":"a"}`)})}
	m, _ := p.open(t, Reply{Scenario: s})
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 3 {
				o := Ask(context.Background(), m, s.Request())
				if o.Err != nil || o.Text != s.Items[0].Text || len(o.Done.Items) != 2 {
					t.Errorf("%+v", o)
				}
			}
		})
	}
	all.Wait()
}

// Bench measures what a call costs against a stand-in that answers at once:
// streaming 100 deltas, and whole. The stand-in's own work is in the numbers;
// the bare request shows how much that is.
func Bench(b *testing.B, wire Wire, dial Dial) {
	s := Scenario{Items: []Item{text(strings.Repeat("seven c", 100))}}
	r := s.Request()
	streamed, body := "", wire.body(s, Reply{})
	for _, f := range wire.frames(s, Reply{}) {
		streamed += f.text
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		if req.Header.Get("X-Stream") == "yes" {
			w.Header().Set("Content-Type", "text/event-stream")
			_, _ = io.WriteString(w, streamed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, body)
	}))
	defer server.Close()
	long := r
	long.Entries = nil
	for range 100 {
		long.Entries = append(long.Entries, r.Entries[0], conversation.Entry{Role: conversation.RoleAssistant, Items: []Item{{Kind: conversation.ItemText, ID: "msg_1", Text: s.Items[0].Text}}})
	}
	long.Entries = append(long.Entries, r.Entries[0])
	// The baseline: the same bytes without an adapter.
	b.Run("bare HTTP, 100 deltas", func(b *testing.B) {
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		b.ReportAllocs()
		for b.Loop() {
			req, err := http.NewRequestWithContext(b.Context(), http.MethodPost, server.URL, strings.NewReader(body))
			if err != nil {
				b.Fatal(err)
			}
			req.Header.Set("X-Stream", "yes")
			res, err := client.Do(req)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, res.Body)
			_ = res.Body.Close()
		}
	})
	for _, c := range []struct {
		name   string
		stream bool
		r      conversation.Request
	}{{"whole", false, r}, {"100 deltas", true, r}, {"whole, 201 entries", false, long}} {
		b.Run(c.name, func(b *testing.B) {
			a := Access{BaseURL: server.URL + wire.Base, Key: key, Model: "m", Stream: c.stream}
			if c.stream {
				a.Headers = map[string]string{"X-Stream": "yes"}
			}
			m := closing(b, dial(b, a))
			b.ReportAllocs()
			for b.Loop() {
				if o := Ask(b.Context(), m, c.r); o.Err != nil || o.Done == nil {
					b.Fatal(o.Err)
				}
			}
		})
	}
}
