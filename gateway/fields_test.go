package gateway_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// document finds what a document describes.
type document map[string]any

func (d document) resolve(schema map[string]any) map[string]any {
	for {
		ref, ok := schema["$ref"].(string)
		if !ok {
			return schema
		}
		var at any = map[string]any(d)
		for name := range strings.SplitSeq(strings.TrimPrefix(ref, "#/"), "/") {
			at = at.(map[string]any)[name]
		}
		schema = at.(map[string]any)
	}
}

// textField is a field that a client fills with a text of its own.
type textField struct {
	path []string
	most int // bytes; 0 = the document names none
}

// texts walks over all text fields of a schema; those that take one of a few words are
// none, and "spoken" is what limits.text_bytes bounds.
func (d document) texts(schema map[string]any, path ...string) (fields []textField) {
	if ref, _ := schema["$ref"].(string); strings.HasSuffix(ref, "/spoken") || strings.HasSuffix(ref, "/policy") {
		return nil
	}
	schema = d.resolve(schema)
	for _, key := range []string{"allOf", "oneOf"} {
		parts, _ := schema[key].([]any)
		for _, part := range parts {
			fields = append(fields, d.texts(part.(map[string]any), path...)...)
		}
	}
	properties, _ := schema["properties"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property, ok := properties[name].(map[string]any)
		if !ok || len(path) == 0 && name == "data" && d["asyncapi"] == nil {
			continue
		}
		fields = append(fields, d.texts(property, append(slices.Clone(path), name)...)...)
	}
	if items, ok := schema["items"].(map[string]any); ok {
		fields = append(fields, d.texts(items, append(slices.Clone(path), "[]")...)...)
	}
	if !strings.Contains(fmt.Sprint(schema["type"]), "string") || schema["enum"] != nil || schema["const"] != nil {
		return fields
	}
	most, _ := schema["maxLength"].(json.Number)
	n, _ := most.Int64()
	return append(fields, textField{path, int(n)})
}

// body is a JSON object with a text of n bytes in the field.
func (f textField) body(n int) any {
	var value any = strings.Repeat("x", n)
	for _, name := range slices.Backward(f.path) {
		if name == "[]" {
			value = []any{value}
		} else {
			value = map[string]any{name: value}
		}
	}
	return value
}

func (f textField) name() string { return strings.TrimSuffix(strings.Join(f.path, "."), ".[]") }

func readDocument(t *testing.T, v any) document {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	var d document
	in := json.NewDecoder(strings.NewReader(string(b)))
	in.UseNumber()
	if err := in.Decode(&d); err != nil {
		t.Fatal(err)
	}
	return d
}

// unbounded are fields that no schema can bound: limits.text_bytes does.
var unbounded = []string{"text", "prompt", "reply"}

// Every text that a client sends has a bound in the documents, and one byte more is
// refused by name. The walk is over all request bodies of openapi.yaml.
func TestRequestTextsAreBounded(t *testing.T) {
	c := gatewaytest.Documents(t)
	d := readDocument(t, c.HTTP)
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.RequestsPerSecondPerAddress = 0 })
	r.sessions.Open("s1", "local")
	tried := 0
	for path, item := range d["paths"].(map[string]any) {
		for method, operation := range item.(map[string]any) {
			body, ok := operation.(map[string]any)
			if ok {
				body, ok = body["requestBody"].(map[string]any)
			}
			if !ok || strings.HasPrefix(path, "/admin") {
				continue
			}
			schema, ok := body["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
			if !ok { // a file
				continue
			}
			url := strings.NewReplacer("{id}", "s1", "{taskId}", "t1-s1", "{user}", "bob").Replace(path)
			for _, f := range d.texts(schema) {
				if slices.Contains(unbounded, f.name()) {
					continue
				}
				tried++
				if f.most == 0 {
					t.Errorf("%s %s: %s has no maxLength", method, path, f.name())
					continue
				}
				text, _ := json.Marshal(f.body(f.most + 1))
				a := r.call(strings.ToUpper(method), url, string(text))
				last := f.path[len(f.path)-1]
				if a.status != http.StatusBadRequest || !strings.Contains(string(a.body), last+" must be at most "+fmt.Sprint(f.most)+" bytes") {
					t.Errorf("%s %s: %s of %d bytes: %d %s", method, path, f.name(), f.most+1, a.status, a.body)
				}
			}
		}
	}
	if tried < 20 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// The same for all commands of asyncapi.yaml.
func TestCommandTextsAreBounded(t *testing.T) {
	c := gatewaytest.Documents(t)
	d := readDocument(t, c.Async)
	r := start(t)
	r.sessions.Open("s1", "local")
	schemas := d["components"].(map[string]any)["schemas"].(map[string]any)
	tried := 0
	for _, command := range c.Commands() {
		for _, f := range d.texts(schemas["command_"+command].(map[string]any)) {
			if slices.Contains(unbounded, f.path[len(f.path)-1]) {
				continue
			}
			tried++
			if f.most == 0 {
				t.Errorf("%s: %s has no maxLength", command, f.name())
				continue
			}
			frame := f.body(f.most + 1).(map[string]any)
			for name, value := range map[string]any{"type": command, "id": "x", "session": "s1", "data": map[string]any{}} {
				if frame[name] == nil {
					frame[name] = value
				}
			}
			ws := gatewaytest.Dial(t, r.addr)
			if command != "hello" {
				ws.Do("hello", "", obj{"proto": 1})
			}
			text, _ := json.Marshal(frame)
			ws.Write(string(text))
			answer := ws.Until(func(f gatewaytest.Frame) bool { return f.Type == "error" })
			name := strings.TrimSuffix(f.path[len(f.path)-1], "[]")
			if name == "" {
				name = f.path[len(f.path)-2]
			}
			want := name + " must be at most " + fmt.Sprint(f.most) + " bytes"
			if answer.Error.Message != want && answer.Error.Code != "not_found" {
				t.Errorf("%s: %s of %d bytes: %s", command, f.name(), f.most+1, answer.Raw)
			}
			_ = ws.WS.CloseNow()
		}
	}
	if tried < 40 {
		t.Errorf("only %d fields were tried", tried)
	}
}

// What the documents name by words is one of them or absent: "" is none. A member that a
// command does not have is ignored, whatever it is. Titles are lines without controls.
func TestStrictFields(t *testing.T) {
	r := start(t)
	r.sessions.Open("s1", "local")
	for path, bodies := range map[string][]string{
		"/api/sessions":             {`{"access":""}`},
		"/api/sessions/s1/messages": {`{"text":"x","mode":""}`},
		"/api/sessions/s1/cancel":   {`{"waiting":""}`},
	} {
		for _, body := range bodies {
			r.call("POST", path, body).problem(t, 400, "bad_request")
		}
	}
	ws := gatewaytest.Connect(t, r.addr)
	for _, kind := range []string{"edit", "withdraw"} {
		if f := ws.Do(kind, "s1", obj{"message": "m9", "text": "x", "before": 7}); f.Error.Code != "not_found" {
			t.Errorf("%s: %s", kind, f.Raw)
		}
	}
	if f := ws.Do("move", "s1", obj{"message": "m9", "before": 7}); f.Error.Code != "bad_request" {
		t.Errorf("move: %s", f.Raw)
	}
	id := r.call("POST", "/api/sessions", `{"title":"\u001b]0;owned\u0007 a\u202eb"}`).want(t, 201).get(t, "session")
	if state := r.call("GET", "/api/sessions/"+id, "").want(t, 200).get(t, "state"); !strings.Contains(state, `"title":"]0;owned ab"`) {
		t.Errorf("created: %s", state)
	}
	if state := r.call("PATCH", "/api/sessions/"+id, `{"title":"two\nlines\u0085"}`).want(t, 200).get(t, "state"); !strings.Contains(state, `"title":"two lines"`) {
		t.Errorf("changed: %s", state)
	}
	for _, query := range []string{"since=1&cursor=x", "cursor=x", "since=x"} {
		r.call("GET", "/api/sessions/s1/events?"+query, "").problem(t, 400, "bad_request")
	}
}
