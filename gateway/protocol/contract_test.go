package protocol

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/gateway/gatewaytest"
)

// What both documents describe is described in the same way.
func TestDocumentsAgree(t *testing.T) {
	c := gatewaytest.Documents(t)
	api, err := c.HTTP.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	var http struct {
		Components struct{ Schemas map[string]any }
	}
	if err := json.Unmarshal(api, &http); err != nil {
		t.Fatal(err)
	}
	shared := 0
	for name, schema := range c.Schemas() {
		other, both := http.Components.Schemas[name]
		if !both {
			continue
		}
		shared++
		if a, b := gatewaytest.Canonical(t, schema), gatewaytest.Canonical(t, other); a != b {
			t.Errorf("%s\n asyncapi %s\n openapi  %s", name, a, b)
		}
	}
	if shared < 20 {
		t.Errorf("the documents share only %d schemas", shared)
	}
}

// Every reference of asyncapi.yaml leads somewhere, nothing of it is unused, and
// no operation, command or frame is left out of the channel.
func TestAsyncAPIHoldsTogether(t *testing.T) {
	c := gatewaytest.Documents(t)
	used := make(map[string]bool)
	var walk func(v any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			if ref, ok := v["$ref"].(string); ok {
				used[ref] = true
				path := strings.Split(strings.TrimPrefix(ref, "#/"), "/")
				if gatewaytest.Inside(c.Async, path...) == nil {
					t.Errorf("%s leads nowhere", ref)
				}
			}
			for _, child := range v {
				walk(child)
			}
		case []any:
			for _, child := range v {
				walk(child)
			}
		}
	}
	walk(c.Async)
	for name := range c.Schemas() {
		if !used["#/components/schemas/"+name] {
			t.Errorf("nothing uses the schema %s", name)
		}
	}
	for _, name := range c.Messages() {
		for _, from := range []string{"#/components/messages/", "#/channels/socket/messages/"} {
			if !used[from+name] {
				t.Errorf("nothing uses %s%s", from, name)
			}
		}
		examples, _ := gatewaytest.Inside(c.Async, "components", "messages", name, "examples").([]any)
		if len(examples) == 0 {
			t.Errorf("message %s has no example", name)
		}
		for _, e := range examples {
			if err := c.Payload(name, []byte(gatewaytest.Canonical(t, gatewaytest.Inside(e, "payload")))); err != nil {
				t.Errorf("the example of %s: %v", name, err)
			}
		}
	}
}

// Every stored event has a schema that is closed, so that a private field or a
// new one cannot get out unnoticed: not into the frame, nor into its data.
func TestEveryEventHasAClosedSchema(t *testing.T) {
	c := gatewaytest.Documents(t)
	var want []string
	for _, kind := range conversation.EventKinds() {
		want = append(want, kind.String())
	}
	if got := c.Durable(); !slices.Equal(got, want) {
		t.Errorf("documented %v\nthe vocabulary has %v", got, want)
	}
	for name, e := range gatewaytest.Samples() {
		kind := e.Body.Kind().String()
		for _, path := range [][]string{{}, {"properties", "data"}} {
			if open := gatewaytest.Inside(c.Schemas()["event_"+kind], append(path, "additionalProperties")...); open != false {
				t.Errorf("%s: the schema is open at %v", kind, path)
			}
		}
		for _, redact := range []bool{false, true} {
			frame := AppendEvent(nil, "s1", &e, redact)
			if err := c.Event(frame); err != nil {
				t.Errorf("%s: %s\n%v", name, frame, err)
			}
			var members map[string]any
			if err := json.Unmarshal(frame, &members); err != nil {
				t.Fatal(err)
			}
			data, _ := members["data"].(map[string]any)
			for _, in := range []map[string]any{members, data} {
				in["leak"] = "private"
				if c.Event([]byte(gatewaytest.Canonical(t, members))) == nil {
					t.Errorf("%s: a member that nobody knows is let through: %v", name, members)
				}
				delete(in, "leak")
			}
		}
	}
}

// Every golden frame is what the document says, and every frame that the server
// sends by itself has one.
func TestGoldenFramesMatchTheDocument(t *testing.T) {
	c := gatewaytest.Documents(t)
	answers := map[string]string{"follow": "ok_follow", "watch_chats": "ok_watch_chats", "watch_chats.ahead": "ok_watch_chats", "ok": "ok_seq", "ok.empty": "ok_empty", "error": "error", "error.unreadable": "error"}
	seen := make(map[string]bool)
	for _, folder := range []string{"events", "ephemeral"} {
		files, err := filepath.Glob(filepath.Join("testdata", folder, "*.json"))
		if err != nil || len(files) < 10 {
			t.Fatalf("%d golden frames in %s: %v", len(files), folder, err)
		}
		for _, file := range files {
			frame, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			name := strings.TrimSuffix(filepath.Base(file), ".json")
			switch message, isAnswer := answers[name]; {
			case folder == "events":
				err = c.Event(frame)
			case isAnswer:
				err = c.Payload(message, frame)
			default:
				err = c.Frame(frame)
			}
			if err != nil {
				t.Errorf("%s: %v", file, err)
			}
			kind, _, _ := strings.Cut(name, ".")
			seen[kind] = true
		}
	}
	for _, kind := range c.Pushed() {
		if !seen[kind] {
			t.Errorf("%s has no golden frame", kind)
		}
	}
}

// words are the spellings of a stored number: those before the first unknown one.
func words[T ~uint8](from T, spell func(T) string) (all []any) {
	for i := from; !strings.HasPrefix(spell(i), "unknown("); i++ {
		all = append(all, spell(i))
	}
	return all
}

// The documents' lists of words are those of the vocabulary.
func TestWordsAreDocumented(t *testing.T) {
	c := gatewaytest.Documents(t)
	data := func(event string) []string { return []string{"event_" + event, "properties", "data", "properties"} }
	calls := words(conversation.CallOK, conversation.CallStatus.String)
	both := func(path []string, more ...string) []string { return append(slices.Clone(path), more...) }
	for _, x := range []struct {
		name string
		path []string
		want []any
	}{
		{"Via", []string{"via", "enum"}, words(conversation.ViaWebSocket, conversation.Via.String)},
		{"Mode", []string{"mode", "enum"}, words(conversation.ModeSteer, conversation.Mode.String)},
		{"Disposition", []string{"disposition", "enum"}, words(conversation.Started, conversation.Disposition.String)},
		{"Resolution", []string{"resolution", "enum"}, words(conversation.ResolvedAnswered, conversation.Resolution.String)},
		{"TaskStatus", []string{"task_status", "enum"}, words(conversation.TaskQueued, conversation.TaskStatus.String)},
		{"Access", []string{"access", "enum"}, words(conversation.AccessPrivate, conversation.Access.String)},
		{"ResponseKind", []string{"response_kind", "enum"}, words(conversation.ResponseError, conversation.ResponseKind.String)},
		{"CancelBy", both(data("task_cancelling"), "by", "enum"), words(conversation.ByUser, conversation.CancelBy.String)},
		{"Cause", both(data("step_started"), "cause", "enum"), words(conversation.CauseError, conversation.Cause.String)},
		{"StepOutcome", both(data("step_finished"), "outcome", "enum"), words(conversation.StepOK, conversation.StepOutcome.String)},
		{"StopReason", both(data("step_finished"), "stop", "enum"), slices.DeleteFunc(words(conversation.StopLength, conversation.StopReason.String), func(w any) bool { return w == "refused" })},
		{"Evidence", []string{"evidence", "enum"}, words(conversation.EvidenceNamed, conversation.Evidence.String)},
		{"RuntimeState", both(data("runtime_status"), "status", "enum"), words(conversation.RuntimeHandedOut, conversation.RuntimeState.String)},
		{"Decision", both(data("step_finished"), "decisions", "items", "enum"), words(conversation.DecisionAnswer, conversation.Decision.String)},
		{"ClosedReason", both(data("question_closed"), "reason", "enum"), words(conversation.QuestionExpired, conversation.ClosedReason.String)},
		{"CallStatus", both(data("tool_finished"), "status", "enum"), slices.DeleteFunc(slices.Clone(calls), func(w any) bool { return w == "failed" })},
	} {
		if got := gatewaytest.Inside(c.Schemas(), x.path...); !reflect.DeepEqual(got, x.want) {
			t.Errorf("%s: documented %v, want %v", x.name, got, x.want)
		}
	}
	var keys []string
	if p, ok := gatewaytest.Inside(c.Schemas(), "policy", "properties").(map[string]any); ok {
		keys = slices.Sorted(maps.Keys(p))
	}
	if want := policy.OverrideKeys(); !slices.Equal(keys, want) {
		t.Errorf("policies: documented %v, want %v", keys, want)
	}
}

// constants are the values of the constants of a file that are fit by their names.
func constants(t *testing.T, file string, fits func(name, typ string) bool) []string {
	t.Helper()
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		typ := ""
		if i, ok := spec.Type.(*ast.Ident); ok {
			typ = i.Name
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok && fits(spec.Names[0].Name, typ) {
			all = append(all, strings.Trim(value.Value, `"`))
		}
		return true
	})
	slices.Sort(all)
	return all
}

// Close codes, error codes with their statuses, and limits with their defaults
// are those of the server.
// PROTOCOL.md, rules 6.2, 6.4, 6.5.
func TestCodesAndLimitsAreDocumented(t *testing.T) {
	c := gatewaytest.Documents(t)
	list := func(name string) (all []map[string]any) {
		items, _ := c.Async[name].([]any)
		for _, i := range items {
			m, _ := i.(map[string]any)
			all = append(all, m)
		}
		return all
	}

	var closes []string
	for _, x := range list("x-close-codes") {
		closes = append(closes, fmt.Sprint(x["code"]))
		code, _ := strconv.Atoi(fmt.Sprint(x["code"]))
		// The protocol's split: 4000 to 4499 are worth coming back for, 4500 and above are not.
		if code >= 4000 && (x["reconnect"] == true) != (code < 4500) {
			t.Errorf("close code %d: reconnect is %v", code, x["reconnect"])
		}
		if CloseLabel(code) == "other" {
			t.Errorf("close code %d has no label in the metrics", code)
		}
	}
	slices.Sort(closes)
	want := constants(t, "close_codes.go", func(name, _ string) bool {
		return strings.HasPrefix(name, "Close")
	})
	if !slices.Equal(closes, want) {
		t.Errorf("close codes: documented %v, the server has %v", closes, want)
	}

	var codes []string
	for _, x := range list("x-error-codes") {
		name, _ := x["code"].(string)
		codes = append(codes, name)
		e := conversation.Error{Code: conversation.Code(name)}
		if got := fmt.Sprint(x["status"]); got != strconv.Itoa(StatusOf(e.Code)) || x["retryable"] != e.Retryable() {
			t.Errorf("%s: documented %s, retryable %v; the server has %d, %v", name, got, x["retryable"], StatusOf(e.Code), e.Retryable())
		}
	}
	enumerated, _ := gatewaytest.Inside(c.Schemas(), "error_code", "enum").([]any)
	for _, code := range enumerated {
		if !slices.Contains(codes, code.(string)) {
			t.Errorf("%s has no line in x-error-codes", code)
		}
	}
	slices.Sort(codes)
	known := constants(t, filepath.Join("..", "..", "conversation", "error.go"), func(_, typ string) bool { return typ == "Code" })
	if !slices.Equal(codes, known) || len(enumerated) != len(known) {
		t.Errorf("error codes: documented %v, the vocabulary has %v", codes, known)
	}

	var told struct{ Limits map[string]any }
	o := NewObject(nil)
	DefaultLimits().Append(&o)
	if err := json.Unmarshal(o.Close(), &told); err != nil {
		t.Fatal(err)
	}
	if got, want := gatewaytest.Canonical(t, c.Async["x-limits"]), gatewaytest.Canonical(t, told.Limits); got != want {
		t.Errorf("limits: documented %s\nthe server has %s", got, want)
	}
	required, _ := gatewaytest.Inside(c.Schemas(), "limits", "required").([]any)
	if len(required) != len(told.Limits) {
		t.Errorf("the schema of limits requires %v", required)
	}
}
