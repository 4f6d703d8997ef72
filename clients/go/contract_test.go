package parley

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/oasdiff/yaml"
)

const protocolRoom = "../../gateway/protocol/"

// schema is what is read of a schema of asyncapi.yaml.
type schema struct {
	Ref        string            `json:"$ref"`
	Const      any               `json:"const"`
	Properties map[string]schema `json:"properties"`
	AnyOf      []schema          `json:"anyOf"`
	AllOf      []schema          `json:"allOf"`
}

type asyncapi struct {
	Operations map[string]struct {
		Action   string `json:"action"`
		Messages []struct {
			Ref string `json:"$ref"`
		} `json:"messages"`
	} `json:"operations"`
	Components struct {
		Messages map[string]struct {
			Name    string `json:"name"`
			Payload schema `json:"payload"`
		} `json:"messages"`
		Schemas map[string]schema `json:"schemas"`
	} `json:"components"`
	Errors []struct{ Code Code } `json:"x-error-codes"`
	Closes []struct {
		Code      int
		Reconnect bool
	} `json:"x-close-codes"`
}

func readAsyncAPI(t *testing.T) asyncapi {
	t.Helper()
	b, err := os.ReadFile(protocolRoom + "asyncapi.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var doc asyncapi
	if _, err := yaml.Unmarshal(b, &doc, yaml.DecodeOpts{}); err != nil {
		t.Fatal(err)
	}
	return doc
}

func (d asyncapi) find(s schema) schema {
	for s.Ref != "" {
		s = d.Components.Schemas[s.Ref[strings.LastIndex(s.Ref, "/")+1:]]
	}
	return s
}

// Each command and each event of the protocol has its place here, with all its members.
func TestTypesAreThoseOfTheProtocol(t *testing.T) {
	doc := readAsyncAPI(t)
	events, received := 0, 0
	for _, op := range doc.Operations {
		for _, m := range op.Messages {
			message := doc.Components.Messages[m.Ref[strings.LastIndex(m.Ref, "/")+1:]]
			payload := doc.find(message.Payload)
			typ, _ := payload.Properties["type"].Const.(string)
			if op.Action == "receive" {
				received++
				if !slices.Contains(commands, typ) {
					t.Errorf("the command %s has no place in this package", typ)
				}
				continue
			}
			events++
			makes := bodies[typ]
			if makes == nil {
				t.Errorf("the event %s has no type in this package", typ)
				continue
			}
			has := members(reflect.TypeOf(makes()).Elem())
			for name := range doc.find(payload.Properties["data"]).Properties {
				if !has[name] {
					t.Errorf("%s.%s has no field in this package", typ, name)
				}
			}
		}
	}
	if events < 30 || received < 15 {
		t.Errorf("only %d events and %d commands were looked at", events, received)
	}
	has := members(reflect.TypeFor[Hello]())
	for name := range doc.find(schema{Ref: "ok_hello"}).Properties["data"].Properties {
		if !has[name] {
			t.Errorf("the answer to hello has %s, and Hello has no field for it", name)
		}
	}
	for name, is := range map[string]reflect.Type{
		"receipt": reflect.TypeFor[Receipt](), "answer_receipt": reflect.TypeFor[Receipt](), "state": reflect.TypeFor[State](),
		"limits": reflect.TypeFor[Limits](), "open_question": reflect.TypeFor[OpenQuestion](), "feed_start": reflect.TypeFor[FeedStart](),
		"create_data": reflect.TypeFor[NewSession](), "claim_data": reflect.TypeFor[Claim](), "usage": reflect.TypeFor[Usage](),
		"approval": reflect.TypeFor[Approval](), "failure": reflect.TypeFor[Failure](), "chat_entry": reflect.TypeFor[ChatEntry](),
	} {
		has := members(is)
		properties := doc.find(schema{Ref: name}).Properties
		if len(properties) == 0 {
			t.Errorf("there is no schema %s", name)
		}
		for member := range properties {
			if !has[member] {
				t.Errorf("%s.%s has no field in %s", name, member, is)
			}
		}
	}
}

// members are the names that a struct has in JSON.
func members(of reflect.Type) map[string]bool {
	names := map[string]bool{}
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if !f.Anonymous && name != "-" {
			names[name] = true
		}
	}
	return names
}

func TestCodesAreThoseOfTheProtocol(t *testing.T) {
	doc := readAsyncAPI(t)
	for _, c := range doc.Closes {
		if got := (&CloseError{Code: c.Code}).Reconnect(); got != c.Reconnect {
			t.Errorf("close code %d: reconnect %v", c.Code, got)
		}
	}
	source, err := os.ReadFile("errors.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range doc.Errors {
		if !bytes.Contains(source, []byte(`= "`+string(e.Code)+`"`)) {
			t.Errorf("the error code %s has no constant", e.Code)
		}
	}
	if len(doc.Closes) < 15 || len(doc.Errors) < 20 {
		t.Errorf("only %d close codes and %d error codes", len(doc.Closes), len(doc.Errors))
	}
}

// The frames that the server's own tests hold it to decode without a member left over.
func TestGoldenFramesDecode(t *testing.T) {
	files, err := filepath.Glob(protocolRoom + "testdata/*/*.json")
	if err != nil || len(files) < 50 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		e, err := Decode(b)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if e.Type == "ok" || e.Type == "error" {
			continue
		}
		if _, unknown := e.Body.(*Unknown); unknown {
			t.Errorf("%s: an unknown event", file)
			continue
		}
		var f frameIn
		strict(t, file, b, &f)
		strict(t, file, f.Data, bodies[e.Type]())
		if filepath.Base(filepath.Dir(file)) == "events" && (e.Seq != 7 || e.Session != "s1" || e.Time.IsZero()) {
			t.Errorf("%s: %+v", file, e)
		}
	}
}

func strict(t *testing.T, what string, b []byte, into any) {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(into); err != nil {
		t.Errorf("%s: %v", what, err)
	}
}

// A newer server has events and members that this package does not know.
func TestUnknownEventsPass(t *testing.T) {
	for name, frame := range map[string]string{
		"type":   `{"type":"song","session":"s1","seq":4,"ts":"2026-11-21T08:30:05.007Z","data":{"a":[1]},"more":1}`,
		"member": `{"type":"question_closed","session":"s1","seq":4,"data":{"question":"q1","reason":"bored","why":{"x":1}}}`,
		"shape":  `{"type":"question_closed","session":"s1","seq":4,"data":["no","object"]}`,
		"null":   `{"type":"question_closed","session":"s1","seq":4,"task":null,"data":null}`,
	} {
		e, err := Decode([]byte(frame))
		if err != nil || e.Seq != 4 || e.Body == nil {
			t.Errorf("%s: %+v, %v", name, e, err)
		}
	}
	if _, err := Decode([]byte(`[1]`)); err == nil {
		t.Error("a frame that is no object decodes")
	}
}
