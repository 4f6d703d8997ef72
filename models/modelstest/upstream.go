package modelstest

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// Upstream is a stand-in of a provider's server, on the loopback. It is strict:
// a request that the real server would refuse fails the test.
type Upstream struct {
	URL string // the base URL for the adapter

	t       *testing.T
	wire    Wire
	reply   Reply
	stop    chan struct{} // closed at the end of the test
	arrived chan struct{} // a value for each request that is held without a word
	gone    chan struct{} // a value for each request that its caller has given up

	mu    sync.Mutex
	asked []Asked
}

// Reply describes how a stand-in answers a request.
type Reply struct {
	Scenario Scenario    // the answer, if there is no Status and no Body
	Status   int         // 0 = 200
	Header   http.Header // more headers
	Type     string      // the content type; "" = what the wire says
	Body     string      // instead of the scenario
	End      End
	Silent   bool // not even a status comes until the caller goes away
	Delta    int  // characters in a delta; 0 = 7
	Bytes    bool // each byte is sent alone
	NoUsage  bool // the provider does not count
	Strict   bool // nothing but what the reference has: no liberties of gateways
	Swap     bool // a body for who asked for a stream, and the other way round
	// Refuses is a member of a request's body, "" = none. A request that has it is refused with RefusedBy.
	Refuses   string
	RefusedBy *Reply
}

// End says how an answer ends.
type End uint8

// The ends. With Scenario.Cut the stream ends in the middle of the first item.
const (
	Whole      End = iota
	Unfinished     // all is there but the terminal event
	Broken         // the connection breaks in the middle of the first item
	MidFrame       // the body ends in the middle of a frame
	Garbled        // a frame that is not JSON
	Refused        // a frame with an error, after some text
)

// NewUpstream starts a stand-in. It ends with the test.
func NewUpstream(t *testing.T, wire Wire, reply Reply) *Upstream {
	t.Helper()
	u := &Upstream{t: t, wire: wire, reply: reply, stop: make(chan struct{}), arrived: make(chan struct{}, 16), gone: make(chan struct{}, 16)}
	server := httptest.NewServer(u)
	t.Cleanup(func() {
		close(u.stop)
		server.Close()
	})
	u.URL = server.URL + wire.Base
	return u
}

// Asked returns the requests that came, in order.
func (u *Upstream) Asked() []Asked {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]Asked(nil), u.asked...)
}

// AwaitGone waits until a caller has given up its request.
func (u *Upstream) AwaitGone(t *testing.T) {
	t.Helper()
	select {
	case <-u.gone:
	case <-time.After(20 * time.Second):
		t.Fatal("the connection to the provider was not given up")
	}
}

// Asked is a request in words that all wire formats share.
type Asked struct {
	Header http.Header
	Body   map[string]any
	Raw    string // the body as it came
	Model  string
	System string
	User   string
	Stream bool
	Tools  []string
	Choice string // which answers it asks for: "required" = calls alone, "none" = no call, "" = it does not say
	// Said is the transcript, a line for each thing: "user: …", "assistant: …",
	// "call ID TOOL ARGS", "result ID TEXT".
	Said []string
}

func (u *Upstream) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(req.Body)
	if err != nil {
		return // the caller has given up
	}
	var body map[string]any
	if err := json.Unmarshal(raw, &body); err != nil {
		u.t.Errorf("the request's body is not JSON: %v", err)
	}
	if req.Method != http.MethodPost || req.URL.Path != u.wire.Base+u.wire.Path {
		u.t.Errorf("the request is %s %s", req.Method, req.URL.Path)
	}
	asked, wrong := u.wire.read(body)
	if u.wire.wants != nil {
		wrong = append(wrong, u.wire.wants(body)...)
	}
	for _, w := range wrong {
		u.t.Errorf("the provider would refuse this request: %s\n%s", w, raw)
	}
	asked.Header, asked.Body, asked.Raw = req.Header, body, string(raw)
	u.mu.Lock()
	u.asked = append(u.asked, asked)
	u.mu.Unlock()

	if u.reply.Silent {
		u.arrived <- struct{}{}
		u.hold(req)
		return
	}
	reply := u.reply
	if _, has := body[reply.Refuses]; has {
		reply = *reply.RefusedBy
	}
	for name, values := range reply.Header {
		w.Header()[name] = values
	}
	streaming := asked.Stream != reply.Swap
	switch {
	case reply.Type != "":
		w.Header().Set("Content-Type", reply.Type)
	case reply.Body == "" && reply.Status == 0 && streaming:
		w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	default:
		w.Header().Set("Content-Type", "application/json")
	}
	if reply.Status != 0 {
		w.WriteHeader(reply.Status)
	}
	if reply.Body != "" || reply.Status != 0 {
		_, _ = io.WriteString(w, reply.Body)
		return
	}
	if !streaming {
		u.sendBody(w, req)
		return
	}
	u.stream(w, req)
}

// hold waits until the caller goes away.
func (u *Upstream) hold(req *http.Request) {
	select {
	case <-req.Context().Done():
		u.gone <- struct{}{}
	case <-u.stop:
	}
}

// sendBody answers with one body.
func (u *Upstream) sendBody(w http.ResponseWriter, req *http.Request) {
	body := u.wire.body(u.reply.Scenario, u.reply)
	if u.reply.Scenario.Hold {
		u.hold(req)
		return
	}
	switch {
	case u.reply.End == Broken:
		_, _ = io.WriteString(w, body[:len(body)/2])
		flush(w)
		panic(http.ErrAbortHandler)
	case u.reply.Scenario.Cut, u.reply.End == MidFrame, u.reply.End == Unfinished:
		body = body[:len(body)/2]
	case u.reply.End == Garbled:
		body = "This is {not JSON."
	}
	_, _ = io.WriteString(w, body)
}

// stream answers with server-sent events.
func (u *Upstream) stream(w http.ResponseWriter, req *http.Request) {
	s := u.reply.Scenario
	frames := u.wire.frames(s, u.reply)
	deltas := 0
	for _, f := range frames {
		if f.delta {
			deltas++
		}
	}
	sent := 0
	for _, f := range frames {
		middle := sent == max(1, deltas/2) && !f.end
		switch {
		case middle && s.Hold:
			u.hold(req)
			return
		case middle && s.Cut, f.end && u.reply.End == Unfinished:
			return
		case middle && u.reply.End == Broken:
			panic(http.ErrAbortHandler)
		case middle && u.reply.End == MidFrame:
			_, _ = io.WriteString(w, f.text[:len(f.text)/2])
			return
		case middle && u.reply.End == Garbled:
			_, _ = io.WriteString(w, "event: message\ndata: {\"type\": oops\n\n")
			return
		case middle && u.reply.End == Refused:
			_, _ = io.WriteString(w, u.wire.errorFrame)
			return
		}
		if u.reply.Bytes {
			for i := range len(f.text) {
				_, _ = io.WriteString(w, f.text[i:i+1])
				flush(w)
			}
		} else {
			_, _ = io.WriteString(w, f.text)
			flush(w)
		}
		if f.delta {
			sent++
		}
	}
}

func flush(w http.ResponseWriter) { _ = http.NewResponseController(w).Flush() }

// Wire is a provider's wire format, as far as a stand-in needs it.
type Wire struct {
	Name string
	Base string // what the base URL has behind the host
	Path string // what the adapter adds to it
	// Carries returns the items that the format can carry, in its order.
	Carries func(items []Item) []Item

	plain      bool   // a body that is not JSON is taken for plain text (M-07)
	full       Reply  // the context is full
	broke      *Reply // the quota is used up; nil = the provider does not say
	errorFrame string
	frames     func(s Scenario, r Reply) []frame
	body       func(s Scenario, r Reply) string
	read       func(body map[string]any) (a Asked, wrong []string)
	wants      func(body map[string]any) (wrong []string) // what a provider would not refuse, and we miss; nil = nothing
}

// Read reads the body of a request, and says what the wire's reference does not allow in it.
func (w Wire) Read(body map[string]any) (a Asked, wrong []string) { return w.read(body) }

// frame is one server-sent event.
type frame struct {
	text  string
	delta bool // text of an item
	end   bool // the terminal event, and what comes behind it
}

func event(name string, data any) string {
	raw, err := json.Marshal(data)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	if name == "" {
		return "data: " + string(raw) + "\n\n"
	}
	return "event: " + name + "\ndata: " + string(raw) + "\n\n"
}

// pieces cuts text into deltas.
func pieces(text string, r Reply) []string {
	n := r.Delta
	if n == 0 {
		n = 7
	}
	var list []string
	for rest := []rune(text); len(rest) > 0; rest = rest[min(n, len(rest)):] {
		list = append(list, string(rest[:min(n, len(rest))]))
	}
	return list
}

func str(v any) string {
	s, _ := v.(string)
	return s
}

// array and object read JSON; a value of another type is empty.
func array(v any) []any {
	list, _ := v.([]any)
	return list
}

func object(v any) map[string]any {
	m, _ := v.(map[string]any)
	return m
}

// words returns the text of a content: a string, or blocks.
func words(content any) string {
	if s := str(content); s != "" {
		return s
	}
	var texts []string
	for _, block := range array(content) {
		if text, is := object(block)["text"]; is {
			texts = append(texts, str(text))
		}
	}
	return strings.Join(texts, "\n\n")
}
