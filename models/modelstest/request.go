package modelstest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"parley/conversation"
)

// RequestCase is a request whose bytes are compared with a golden file.
type RequestCase struct {
	Name    string // also the file's name: testdata/requests/NAME.txt
	Request conversation.Request
	Model   func(t *testing.T, baseURL string) conversation.Model
	// Answer is a whole answer of the provider, as JSON.
	Answer string
}

// GoldenRequests compares what each case sends with its golden file: the
// request line, the headers that a server may act on, and the body, byte by
// byte. With rewrite it writes the files instead.
func GoldenRequests(t *testing.T, rewrite bool, cases []RequestCase) {
	for _, c := range cases {
		t.Run(c.Name, func(t *testing.T) {
			var got string
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
				body, err := io.ReadAll(req.Body)
				if err != nil {
					t.Error(err)
				}
				got = describeRequest(t, req, body)
				w.Header().Set("Content-Type", "application/json")
				_, _ = io.WriteString(w, c.Answer)
			}))
			defer server.Close()
			m := c.Model(t, server.URL)
			if closer, can := m.(io.Closer); can {
				defer func() { _ = closer.Close() }()
			}
			if _, _, err := Collect(t.Context(), m, c.Request); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", "requests", c.Name+".txt")
			if rewrite {
				if err := os.MkdirAll(filepath.Dir(golden), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got != string(want) {
				t.Errorf("the request is\n%s\nnot\n%s", got, want)
			}
		})
	}
}

// GoldenBody reads the body of a golden request.
func GoldenBody(t *testing.T, name string) []byte {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", "requests", name+".txt"))
	if err != nil {
		t.Fatal(err)
	}
	_, body, _ := bytes.Cut(raw, []byte("\n\n"))
	return body
}

// describeRequest writes a request as its golden file has it: with the body indented, and
// without the headers that HTTP itself needs or that name the client.
func describeRequest(t *testing.T, req *http.Request, body []byte) string {
	t.Helper()
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s\n", req.Method, req.URL)
	for _, name := range slices.Sorted(maps.Keys(req.Header)) {
		switch {
		case name == "Content-Length", name == "Accept-Encoding", name == "User-Agent", strings.HasPrefix(name, "X-Stainless-"):
		default:
			fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(req.Header[name], ", "))
		}
	}
	var indented, compact bytes.Buffer
	if err := json.Indent(&indented, body, "", "  "); err != nil {
		t.Errorf("the body is not JSON: %v\n%s", err, body)
	}
	// Indenting changes white space only, so the body is held byte by byte.
	if err := json.Compact(&compact, body); err != nil || compact.String() != string(body) {
		t.Errorf("the body has white space in it: %v\n%s", err, body)
	}
	return b.String() + "\n" + indented.String() + "\n"
}

// FullRequest has everything in it that a request can have: texts with
// characters that JSON may escape, tools with and without a schema, calls with
// and without a result, an answer of another model, and opaque items of the
// model whose origin is given.
func FullRequest(origin string, opaque ...string) conversation.Request {
	item := func(kind conversation.ItemKind, id, text string) conversation.Item {
		return conversation.Item{Kind: kind, ID: id, Text: text}
	}
	call := func(id, tool, args string) conversation.Item {
		return conversation.Item{Kind: conversation.ItemCall, ID: id, Tool: tool, Args: args}
	}
	said := []conversation.Item{
		item(conversation.ItemText, "msg_1", "I look.\n"), item(conversation.ItemText, "msg_1", "And again."),
		call("call_1", "lookup", `{"query": "a<b>&c", "deep":{"z":1,"a":[1.50,2e3,null]}}`),
		call("m1-s1:1.2 of another model, and longer than sixty-four characters are", "my server.find/it", `not JSON`),
		item(conversation.ItemText, "m1-s1:1", "of another model"),
		call("call_3", "lookup", `[1]`),
	}
	for i, text := range opaque {
		at := []int{0, 2}[i]
		said[at].Opaque, said[at].OpaqueBy = text, origin
	}
	return conversation.Request{
		Session: "s1", Task: "t1-s1", Stream: true, Note: `Open messages: [1] "First:  tw…" [2] "Third"`,
		System: "Be brief & <kind>.\n\"Quoted\" \\ \u2028 \u00e9 \U0001F600 \x7f \t",
		Tools: []conversation.ToolSpec{
			{Name: "lookup", Description: "Looks <it> up & \"more\".", Schema: json.RawMessage(`{"type":"object","required":["query"],"properties":{"query":{"type":"string","description":"a <b> & c"},"n":{"type":"integer","minimum":1.0,"maximum":12345678901234567890}},"additionalProperties":false,"$defs":{"A":{"type":"string"}}}`)},
			{Name: "my server.find/it"},
			{Name: "bare", Description: "no properties", Schema: json.RawMessage(`{"description":"x"}`)},
		},
		Entries: []conversation.Entry{
			{Role: conversation.RoleUser, Task: "t1-s1", Text: "First:  two <spaces> & a line\nend \u2029 \x01"},
			{Role: conversation.RoleUser, Task: "t1-s1", Text: "Second"},
			{Role: conversation.RoleAssistant, Task: "t1-s1", ResponseID: "resp_1", Items: said},
			{Role: conversation.RoleTool, Task: "t1-s1", CallID: "call_1", Text: "found <a> & b"},
			{Role: conversation.RoleTool, Task: "t1-s1", CallID: "call_3", Text: " "},
			{Role: conversation.RoleTool, Task: "t1-s1", CallID: "call_9", Text: "late"},
			{Role: conversation.RoleUser, Task: "t1-s1", Text: "Third"},
		},
	}
}
