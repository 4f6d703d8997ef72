package gatewaytest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/oasdiff/yaml"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Contract holds the promises of openapi.yaml and asyncapi.yaml, to compare real
// frames and bodies with them. It is read once in a process and never changed.
type Contract struct {
	HTTP  *openapi3.T
	API   map[string]any // openapi.yaml as it stands there
	Async map[string]any // asyncapi.yaml as it stands there

	commands map[string]*jsonschema.Schema // type → what a client sends
	answers  map[string]*jsonschema.Schema // type of the command → its ok
	refusal  *jsonschema.Schema
	frames   map[string]*jsonschema.Schema // type → what the server sends by itself
	durable  []string                      // the types of stored events, as the document lists them
	payloads map[string]*jsonschema.Schema // name of the message → its payload
}

// Documents is the contract of the repository that the test belongs to. A
// document that does not hold together ends the test.
func Documents(t testing.TB) *Contract {
	t.Helper()
	c, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var documents = sync.OnceValues(func() (*Contract, error) {
	folder, err := gatewayFolder()
	if err != nil {
		return nil, err
	}
	api, err := os.ReadFile(filepath.Join(folder, "openapi.yaml"))
	if err != nil {
		return nil, err
	}
	async, err := os.ReadFile(filepath.Join(folder, "asyncapi.yaml"))
	if err != nil {
		return nil, err
	}
	return NewContract(api, async)
})

// gatewayFolder looks upwards from where the test runs, which is the folder of
// its package. The gateway itself embeds the documents, but may not be imported.
func gatewayFolder() (string, error) {
	folder, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(folder, "go.mod")); err == nil {
			return filepath.Join(folder, "gateway", "protocol"), nil
		}
		up := filepath.Dir(folder)
		if up == folder {
			return "", errors.New("the documents of the gateway were not found: run the test in its package's folder")
		}
		folder = up
	}
}

// NewContract reads the two documents and checks that each is one.
func NewContract(api, async []byte) (*Contract, error) {
	c := &Contract{
		commands: make(map[string]*jsonschema.Schema), answers: make(map[string]*jsonschema.Schema),
		frames: make(map[string]*jsonschema.Schema), payloads: make(map[string]*jsonschema.Schema),
	}
	var err error
	if c.HTTP, err = openapi3.NewLoader().LoadFromData(api); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	if err := c.HTTP.Validate(context.Background()); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	if c.API, err = plain(api); err != nil {
		return nil, fmt.Errorf("openapi.yaml: %w", err)
	}
	if err := c.readAsync(async); err != nil {
		return nil, fmt.Errorf("asyncapi.yaml: %w", err)
	}
	return c, nil
}

// plain is a document without the meaning of its parts.
func plain(text []byte) (map[string]any, error) {
	asJSON, err := yaml.YAMLToJSON(text)
	if err != nil {
		return nil, err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(asJSON))
	if err != nil {
		return nil, err
	}
	m, _ := document.(map[string]any)
	return m, nil
}

// operation is an operation of asyncapi.yaml.
type operation struct {
	Action   string
	Messages []struct {
		Ref string `json:"$ref"`
	}
	Reply struct {
		Messages []struct {
			Ref string `json:"$ref"`
		}
	}
}

func (c *Contract) readAsync(text []byte) error {
	plain, err := yaml.YAMLToJSON(text)
	if err != nil {
		return err
	}
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(plain))
	if err != nil {
		return err
	}
	c.Async, _ = document.(map[string]any)
	var shape struct {
		AsyncAPI   string
		Operations map[string]operation
		Components struct {
			Messages map[string]struct {
				Name    string
				Payload struct {
					Ref string `json:"$ref"`
				}
			}
		}
	}
	if err := json.Unmarshal(plain, &shape); err != nil {
		return err
	}
	if shape.AsyncAPI != "3.0.0" {
		return fmt.Errorf("version %q, want 3.0.0", shape.AsyncAPI)
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft7) // what AsyncAPI's own schema objects are
	compiler.AssertFormat()
	if err := compiler.AddResource("asyncapi.json", document); err != nil {
		return err
	}
	for name, m := range shape.Components.Messages {
		if c.payloads[name], err = compiler.Compile("asyncapi.json" + m.Payload.Ref); err != nil {
			return fmt.Errorf("message %s: %w", name, err)
		}
	}
	// message is the one that an operation refers to, by way of the channel.
	message := func(ref string) (string, *jsonschema.Schema, error) {
		name, ok := strings.CutPrefix(ref, "#/channels/socket/messages/")
		if !ok || c.payloads[name] == nil {
			return "", nil, fmt.Errorf("%q is not a message of the channel", ref)
		}
		return name, c.payloads[name], nil
	}
	for title, o := range shape.Operations {
		for i, m := range o.Messages {
			name, schema, err := message(m.Ref)
			if err != nil {
				return fmt.Errorf("operation %s: %w", title, err)
			}
			kind := shape.Components.Messages[name].Name
			switch {
			case o.Action == "send":
				if c.frames[kind] != nil {
					return fmt.Errorf("operation %s: %s is sent by another one already", title, kind)
				}
				c.frames[kind] = schema
				if title == "durable" {
					c.durable = append(c.durable, kind)
				}
			case o.Action == "receive" && i == 0 && len(o.Reply.Messages) == 2:
				c.commands[kind] = schema
				if _, c.answers[kind], err = message(o.Reply.Messages[0].Ref); err != nil {
					return fmt.Errorf("operation %s: %w", title, err)
				}
				if _, c.refusal, err = message(o.Reply.Messages[1].Ref); err != nil {
					return fmt.Errorf("operation %s: %w", title, err)
				}
			default:
				return fmt.Errorf("operation %s: a command has one message and two replies, ok and error", title)
			}
		}
	}
	return nil
}

// Commands are the types of commands, sorted.
func (c *Contract) Commands() []string { return slices.Sorted(maps.Keys(c.commands)) }

// Durable are the types of stored events, in the document's order.
func (c *Contract) Durable() []string { return slices.Clone(c.durable) }

// Pushed are the types of all frames that the server sends by itself, sorted.
func (c *Contract) Pushed() []string { return slices.Sorted(maps.Keys(c.frames)) }

// Messages are the names of all messages, sorted.
func (c *Contract) Messages() []string { return slices.Sorted(maps.Keys(c.payloads)) }

// Payload checks a frame with the schema of the message of that name.
func (c *Contract) Payload(message string, b []byte) error { return check(c.payloads[message], b) }

// Command checks a client's frame.
func (c *Contract) Command(b []byte) error {
	kind, err := kindOf(b)
	if err != nil {
		return err
	}
	if c.commands[kind] == nil {
		return fmt.Errorf("%q is not a command", kind)
	}
	return check(c.commands[kind], b)
}

// Answer checks the server's ok to a command of that type.
func (c *Contract) Answer(command string, b []byte) error {
	if c.answers[command] == nil {
		return fmt.Errorf("%q is not a command, yet it is answered", command)
	}
	return check(c.answers[command], b)
}

// Refusal checks an error frame.
func (c *Contract) Refusal(b []byte) error { return check(c.refusal, b) }

// Frame checks a frame that the server sends by itself. Types that the document
// does not know are errors here, though clients must ignore them.
func (c *Contract) Frame(b []byte) error {
	kind, err := kindOf(b)
	if err != nil {
		return err
	}
	if c.frames[kind] == nil {
		return fmt.Errorf("the document has no frame of type %q", kind)
	}
	return check(c.frames[kind], b)
}

// Event checks the frame of a durable event.
func (c *Contract) Event(b []byte) error {
	if kind, err := kindOf(b); err == nil && !slices.Contains(c.durable, kind) {
		return fmt.Errorf("%q is not a durable event", kind)
	}
	return c.Frame(b)
}

func kindOf(b []byte) (string, error) {
	var head struct{ Type string }
	if err := json.Unmarshal(b, &head); err != nil {
		return "", err
	}
	return head.Type, nil
}

func check(schema *jsonschema.Schema, b []byte) error {
	if schema == nil {
		return errors.New("there is no schema for it")
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(b))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

// Listener hears what a WebSocket client and the server say to each other and
// reports what the document does not allow. It is safe for several goroutines.
type Listener struct {
	c *Contract
	t testing.TB

	mu      sync.Mutex
	waiting map[string][]spoken // by id: commands without an answer yet
}

// spoken is a command as it was sent, and what is wrong with it.
type spoken struct {
	kind  string
	text  []byte
	wrong error
}

// Listen hears one connection.
func (c *Contract) Listen(t testing.TB) *Listener {
	return &Listener{c: c, t: t, waiting: make(map[string][]spoken)}
}

// Sent hears a command. Tests may send nonsense: what counts is how it is answered.
func (l *Listener) Sent(b []byte) {
	var head struct {
		Type any
		ID   any
	}
	_ = json.Unmarshal(b, &head)
	said := spoken{text: slices.Clone(b), wrong: l.c.Command(b)}
	said.kind, _ = head.Type.(string)
	if id, ok := head.ID.(string); ok {
		l.mu.Lock()
		l.waiting[id] = append(l.waiting[id], said)
		l.mu.Unlock()
	}
}

// Received hears a frame of the server.
func (l *Listener) Received(b []byte) {
	l.t.Helper()
	var head struct {
		Type  string
		Re    *string
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(b, &head); err != nil {
		l.t.Errorf("contract: the server sent no JSON: %s", b)
		return
	}
	if head.Type != "ok" && head.Type != "error" {
		if err := l.c.Frame(b); err != nil {
			l.t.Errorf("contract: the server sent %s\n%v", b, err)
		}
		return
	}
	if head.Re == nil {
		if head.Type == "ok" {
			l.t.Errorf("contract: an ok that answers nothing: %s", b)
		} else if err := l.c.Refusal(b); err != nil {
			l.t.Errorf("contract: the server sent %s\n%v", b, err)
		}
		return
	}
	l.mu.Lock()
	said, known := spoken{}, len(l.waiting[*head.Re]) > 0
	if known {
		said = l.waiting[*head.Re][0]
		l.waiting[*head.Re] = l.waiting[*head.Re][1:]
	}
	l.mu.Unlock()
	var err error
	switch {
	case !known:
		err = errors.New("no command with this id waits for an answer")
	case head.Type == "error":
		if err = l.c.Refusal(b); err == nil && head.Error.Code == "bad_request" && said.wrong == nil && !depends(said.kind, head.Error.Message) {
			err = errors.New("the document allows what the server calls a bad request")
		}
	case said.wrong != nil:
		err = fmt.Errorf("the document does not allow what the server accepts: %w", said.wrong)
	default:
		err = l.c.Answer(said.kind, b)
	}
	if err != nil {
		l.t.Errorf("contract: %s\n was answered %s\n%v", said.text, b, err)
	}
}

// depends is true for requests that are bad only here and now, which no schema
// can say: hello said twice or not first, typing without a follow, a refresh
// without tokens, an agent that the configuration does not have, a cursor beyond
// the head, a policy above what is configured, an approval that is answered with neither
// yes nor no, a cursor of another list or user.
func depends(command, message string) bool {
	if command == "hello" || command == "typing" || command == "refresh" || strings.Contains(message, "which is what the server allows") {
		return true
	}
	return slices.ContainsFunc([]string{
		"the first command must be hello", "there is no agent", "seq ", "a message cannot be moved before itself",
		"the task waits for an approval", "this question asks for an approval", "the edited arguments do not fit",
		"q has ", "messages are not searched here", "cursor must be a next_cursor of this very list",
	}, func(start string) bool { return strings.HasPrefix(message, start) })
}

// Transport checks every exchange that goes through next.
func (c *Contract) Transport(t testing.TB, next http.RoundTripper) http.RoundTripper {
	return &exchanges{c: c, t: t, next: next}
}

type exchanges struct {
	c    *Contract
	t    testing.TB
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (x *exchanges) RoundTrip(req *http.Request) (*http.Response, error) {
	x.t.Helper()
	var sent []byte
	if req.Body != nil {
		var err error
		if sent, err = io.ReadAll(req.Body); err != nil {
			return nil, err
		}
		req.Body = io.NopCloser(bytes.NewReader(sent))
	}
	resp, err := x.next.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if resp.StatusCode == http.StatusSwitchingProtocols || kind == "text/event-stream" {
		x.report(req, sent, resp, nil)
		if kind == "text/event-stream" {
			resp.Body = &streamed{ReadCloser: resp.Body, x: x}
		}
		return resp, nil
	}
	got, err := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	resp.Body = io.NopCloser(bytes.NewReader(got))
	if err != nil {
		resp.Body = io.NopCloser(io.MultiReader(bytes.NewReader(got), failing{err}))
		return resp, nil
	}
	x.report(req, sent, resp, got)
	return resp, nil
}

type failing struct{ err error }

func (f failing) Read([]byte) (int, error) { return 0, f.err }

func (x *exchanges) report(req *http.Request, sent []byte, resp *http.Response, got []byte) {
	x.t.Helper()
	if err := x.c.Exchange(req, sent, resp, got); err != nil {
		x.t.Errorf("contract: %s %s %.300s\n was answered %d %.600s\n%v", req.Method, req.URL.RequestURI(), sent, resp.StatusCode, got, err)
	}
}

// Exchange checks a request and its response; a nil body is not looked at.
func (c *Contract) Exchange(req *http.Request, sent []byte, resp *http.Response, got []byte) error {
	at, params, found := c.find(req.Method, req.URL.EscapedPath())
	route := &routers.Route{Spec: c.HTTP, Path: at, Method: req.Method, PathItem: &openapi3.PathItem{}}
	switch {
	case resp.StatusCode == http.StatusRequestHeaderFieldsTooLarge: // before any route was looked for
		route.Operation, found = c.only("HeadTooLarge"), false
	case req.Method == http.MethodOptions && req.Header.Get("Access-Control-Request-Method") != "":
		route.Operation, found = c.only("Preflight", "Forbidden", "NotFound", "MethodNotAllowed"), false
	case at == "":
		route.Operation = c.only("NotFound", "Forbidden")
	case !found:
		route.Operation = c.only("MethodNotAllowed", "Forbidden")
	default:
		route.PathItem = c.HTTP.Paths.Value(at)
		route.Operation = route.PathItem.GetOperation(method(req.Method))
	}
	again := req.Clone(context.Background())
	again.Body, again.ContentLength = nil, int64(len(sent))
	if len(sent) > 0 {
		again.Body = io.NopCloser(bytes.NewReader(sent))
	}
	input := &openapi3filter.RequestValidationInput{
		Request: again, PathParams: params, Route: route, QueryParams: req.URL.Query(),
		Options: &openapi3filter.Options{
			AuthenticationFunc: openapi3filter.NoopAuthenticationFunc, IncludeResponseStatus: true, SkipSettingDefaults: true,
			ExcludeResponseBody: got == nil || !isJSON(resp.Header),
		},
	}
	if found && !restOfPath(route.PathItem) {
		wrong := openapi3filter.ValidateRequest(context.Background(), input)
		switch {
		case resp.StatusCode < 400 && wrong != nil:
			return fmt.Errorf("the document does not allow what the server accepts: %w", wrong)
		case resp.StatusCode == http.StatusBadRequest && wrong == nil:
			var p struct{ Code, Detail string }
			if json.Unmarshal(got, &p) == nil && p.Code == "bad_request" && !depends("", p.Detail) {
				return errors.New("the document allows what the server calls a bad request")
			}
		}
	}
	output := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: input, Status: resp.StatusCode, Header: resp.Header, Options: input.Options,
		Body: io.NopCloser(bytes.NewReader(got)),
	}
	if err := openapi3filter.ValidateResponse(context.Background(), output); err != nil {
		return err
	}
	if input.Options.ExcludeResponseBody && req.Method != http.MethodHead && !contentKnown(route.Operation, resp) {
		return fmt.Errorf("the document does not have Content-Type %q for status %d", resp.Header.Get("Content-Type"), resp.StatusCode)
	}
	if route.Operation.OperationID == "listEvents" && resp.StatusCode == http.StatusOK && got != nil && req.Method == http.MethodGet {
		return c.events(got)
	}
	return nil
}

// events checks a page of the log.
func (c *Contract) events(page []byte) error {
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(page, &list); err != nil {
		return err
	}
	for _, item := range list.Items {
		if err := c.Event(item); err != nil {
			return fmt.Errorf("%s: %w", item, err)
		}
	}
	return nil
}

// method is the one whose operation counts: GET answers HEAD too.
func method(m string) string {
	if m == http.MethodHead {
		return http.MethodGet
	}
	return m
}

func isJSON(h http.Header) bool {
	kind, _, _ := mime.ParseMediaType(h.Get("Content-Type"))
	return kind == "application/json" || kind == "application/problem+json"
}

func contentKnown(o *openapi3.Operation, resp *http.Response) bool {
	documented := o.Responses.Status(resp.StatusCode)
	if documented == nil || documented.Value == nil || len(documented.Value.Content) == 0 {
		return true
	}
	return documented.Value.Content.Get(resp.Header.Get("Content-Type")) != nil
}

// only is the operation of requests that no operation of the document is for: it
// can have these responses.
func (c *Contract) only(names ...string) *openapi3.Operation {
	statuses := map[string]int{
		"Preflight": http.StatusNoContent, "Forbidden": http.StatusForbidden, "NotFound": http.StatusNotFound,
		"MethodNotAllowed": http.StatusMethodNotAllowed, "HeadTooLarge": http.StatusRequestHeaderFieldsTooLarge,
	}
	responses := openapi3.NewResponsesWithCapacity(len(names))
	for _, name := range names {
		responses.Set(strconv.Itoa(statuses[name]), c.HTTP.Components.Responses[name])
	}
	return &openapi3.Operation{Responses: responses}
}

// restOfPath is true for a path whose last parameter stands for all that is left.
func restOfPath(p *openapi3.PathItem) bool { return p.Extensions["x-rest-of-path"] == true }

// find is the documented path that a request is for; found is false when that
// path does not have the method.
func (c *Contract) find(m, path string) (at string, params map[string]string, found bool) {
	for _, template := range c.HTTP.Paths.InMatchingOrder() {
		item := c.HTTP.Paths.Value(template)
		values, ok := matches(template, path, restOfPath(item))
		if ok {
			return template, values, item.GetOperation(method(m)) != nil
		}
	}
	return "", nil, false
}

func matches(template, path string, rest bool) (map[string]string, bool) {
	want, got := strings.Split(template, "/"), strings.Split(path, "/")
	if rest && len(got) >= len(want) {
		last := len(want) - 1
		got = append(slices.Clone(got[:last]), strings.Join(got[last:], "/"))
	}
	if len(want) != len(got) {
		return nil, false
	}
	params := make(map[string]string)
	for i, w := range want {
		if name, isParam := strings.CutPrefix(w, "{"); isParam && (got[i] != "" || rest) {
			value, err := url.PathUnescape(got[i])
			if err != nil {
				return nil, false
			}
			params[strings.TrimSuffix(name, "}")] = value
		} else if w != got[i] {
			return nil, false
		}
	}
	return params, true
}

// streamed checks server-sent events while they are read.
type streamed struct {
	io.ReadCloser
	x     *exchanges
	rest  []byte
	event map[string]string
}

func (s *streamed) Read(p []byte) (int, error) {
	n, err := s.ReadCloser.Read(p)
	s.rest = append(s.rest, p[:n]...)
	for {
		line, rest, whole := bytes.Cut(s.rest, []byte("\n"))
		if !whole {
			return n, err
		}
		s.rest = rest
		if wrong := s.line(string(line)); wrong != nil {
			s.x.t.Errorf("contract: in a stream: %s\n%v", line, wrong)
		}
	}
}

func (s *streamed) line(line string) error {
	if line == "" {
		event := s.event
		s.event = nil
		if event == nil {
			return nil
		}
		data := []byte(event["data"])
		var head struct {
			Type, Topic string
			Session     *string
			Seq, Number *json.Number
		}
		if err := json.Unmarshal(data, &head); err != nil {
			return err
		}
		if head.Type == "" && head.Topic == event["event"] && head.Number != nil && head.Number.String() == event["id"] {
			return s.x.c.component("chat_entry", data)
		}
		if head.Type != event["event"] || (head.Seq == nil) != (event["id"] == "") || (head.Seq != nil && head.Seq.String() != event["id"]) {
			return fmt.Errorf("event %q with id %q holds %s", event["event"], event["id"], data)
		}
		switch {
		case head.Type == "hello" && head.Session == nil:
			return s.x.c.component("ChatsHello", data)
		case head.Type == "hello":
			return s.x.c.component("StreamHello", data)
		}
		return s.x.c.Frame(data)
	}
	name, value, _ := strings.Cut(line, ": ")
	switch name {
	case "", "retry":
	case "id", "event", "data":
		if s.event == nil {
			s.event = make(map[string]string)
		}
		s.event[name] = value
	default:
		return errors.New("neither a comment nor a field that the document has")
	}
	return nil
}

// component checks JSON with a schema of openapi.yaml.
func (c *Contract) component(name string, b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err != nil {
		return err
	}
	return c.HTTP.Components.Schemas[name].Value.VisitJSON(v, openapi3.EnableJSONSchema2020())
}

// Canonical is v as JSON with sorted members.
func Canonical(t testing.TB, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var plain any
	if err := json.Unmarshal(b, &plain); err != nil {
		t.Fatal(err)
	}
	b, err = json.Marshal(plain)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// Inside walks into a document.
func Inside(v any, path ...string) any {
	for _, p := range path {
		m, _ := v.(map[string]any)
		v = m[p]
	}
	return v
}

// Schemas are the schemas of asyncapi.yaml, by name.
func (c *Contract) Schemas() map[string]any {
	m, _ := Inside(c.Async, "components", "schemas").(map[string]any)
	return m
}
