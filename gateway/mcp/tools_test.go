package mcp

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"reflect"
	"strconv"
	"strings"
	"testing"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/service"
	"parley/metrics"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// A question is a form: text, one of its choices, or a yes or no.
func TestElicitation(t *testing.T) {
	for _, test := range []struct {
		asked conversation.Asked
		want  string
	}{
		{conversation.Asked{Text: "Why?"}, `{"mode":"","message":"Why?","requestedSchema":{"properties":{"answer":{"minLength":1,"title":"Answer","type":"string"}},"required":["answer"],"type":"object"}}`},
		{conversation.Asked{Text: "Which?", Choices: []string{"A", "B"}}, `{"mode":"","message":"Which?","requestedSchema":{"properties":{"answer":{"enum":["A","B"],"title":"Answer","type":"string"}},"required":["answer"],"type":"object"}}`},
		{conversation.Asked{Text: "May I?", Approval: &conversation.Approval{Tool: "deploy", Args: "{}"}}, `{"mode":"","message":"May I?\n\n{}","requestedSchema":{"properties":{"approve":{"title":"Approve","type":"boolean"}},"required":["approve"],"type":"object"}}`},
	} {
		p := elicitation(&conversation.QuestionView{Asked: test.asked})
		p.Mode = ""
		b, err := json.Marshal(p)
		if err != nil || string(b) != test.want {
			t.Errorf("%s %v\nwant %s", b, err, test.want)
		}
	}
}

// The result of a run says everything that it has come to.
func TestResult(t *testing.T) {
	run := exchange.NewRun("m1-S", "t1-S")
	run.Status, run.How, run.Evidence = conversation.TaskComplete, conversation.ResolvedAnswered, conversation.EvidenceNamed
	run.Texts = []*exchange.Item{{Text: "Hello", Part: conversation.Part{Message: "p1-S", InReplyTo: "m1-S"}}}
	run.Questions = []*conversation.QuestionView{{Asked: conversation.Asked{Question: "q1", Text: "Which?"}}}
	r, o := result(conversation.SessionKey{Session: "S"}, run, "")
	if r.IsError {
		t.Fatal(r)
	}
	b, err := json.Marshal(o)
	want := `{"session":"S","message":"m1-S","task":"t1-S","status":"COMPLETE","texts":[{"message":"p1-S","text":"Hello","in_reply_to":"m1-S"}],` +
		`"questions":[{"question":"q1","text":"Which?","blocking":false}],"receipt":{"how":"answered","evidence":"named"}}`
	if err != nil || string(b) != want {
		t.Errorf("%s %v\nwant %s", b, err, want)
	}
	if text := r.Content[0].(*sdk.TextContent).Text; text != "Hello\n\n[question q1] Which?" {
		t.Errorf("in words %q", text)
	}
}

// The id of an MCP session is good for its user alone, on every node with the same secret, and
// nobody else can make one.
func TestSessionIDs(t *testing.T) {
	ann, bob := &service.Principal{Tenant: "a", User: "ann"}, &service.Principal{Tenant: "a", User: "bob"}
	one, other := service.NewCursors([]byte("secret")), service.NewCursors([]byte("other"))
	said := host{Version: "2025-11-25", Form: true, Nonce: "N"}
	id := said.seal(one.For(ann, sealedHosts))
	if h, ok := unseal(service.NewCursors([]byte("secret")).For(ann, sealedHosts), id); !ok || h != said {
		t.Errorf("another node reads %+v %v", h, ok)
	}
	for name, by := range map[string]service.ListCursors{
		"another user": one.For(bob, sealedHosts), "a user of another tenant": one.For(&service.Principal{Tenant: "b", User: "ann"}, sealedHosts),
		"other sessions": other.For(ann, sealedHosts), "a cursor of a list": one.For(ann, "sessions"),
	} {
		if h, ok := unseal(by, id); ok {
			t.Errorf("%s reads %+v", name, h)
		}
	}
	if _, ok := unseal(one.For(ann, sealedHosts), one.For(ann, sealedHosts).Hide("{}")); ok {
		t.Error("an id without a nonce is taken")
	}
}

// What a host brings back as requestState may be anything.
func FuzzState(f *testing.F) {
	f.Add(`{"m":"m1-S","t":"t1-S"}`)
	f.Add(`{"t":"t1-"}`)
	f.Fuzz(func(t *testing.T, text string) {
		var st state
		if json.Unmarshal([]byte(text), &st) != nil {
			return
		}
		who := &service.Principal{Tenant: "a", User: "ann"}
		key, err := exchange.TaskKey(who, st.Task)
		if err == nil && (key.Tenant != "a" || key.Session == "") {
			t.Errorf("%q names %v", text, key)
		}
	})
}

// And so may the id of the last event: what is taken of it is bounded, and says the same again.
func FuzzCursor(f *testing.F) {
	f.Add(cursor{Request: json.RawMessage("7"), Message: "m1-S", Task: "t1-S", At: 411041792, Token: json.RawMessage(`"p"`), Until: 1, Forms: "X", Asked: []conversation.QuestionID{"q1"}}.String())
	f.Add(cursor{Watched: map[conversation.SessionID]conversation.Seq{"S": 4}}.String())
	f.Add(cursor{Request: json.RawMessage("{}"), Task: "t1-S"}.String())
	f.Add(cursor{Request: json.RawMessage("1"), Token: json.RawMessage("[\n\n]"), Task: "t1-S"}.String())
	f.Fuzz(func(t *testing.T, id string) {
		c, ok := readCursor(id)
		if !ok {
			return
		}
		again, ok := readCursor(c.String())
		if !ok || !reflect.DeepEqual(again, c) {
			t.Errorf("%q is %+v, and then %+v", id, c, again)
		}
		if c.Task != "" {
			if id, err := c.id(); err != nil || !id.IsValid() {
				t.Errorf("%q answers no request: %v", c.Request, err)
			}
		}
		if b := appendProgress(nil, c.Token, 1, "text", "", ""); len(c.Token) > 0 && (!json.Valid(b) || strings.Contains(string(b), "\n")) {
			t.Errorf("its token is %q", c.Token)
		}
	})
}

// A message of a host may be anything, and its headers, too.
func FuzzMessage(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"send_message","arguments":{"wait_seconds":0}}}`), "2026-07-28", "tools/call", "send_message")
	f.Add([]byte(`{"jsonrpc":"2.0","id":"form:X:q1:S/d1","result":{"action":"accept"}}`), "", "", "")
	f.Add([]byte(`[{"jsonrpc":"2.0","method":"notifications/cancelled"}]`), "2025-03-26", "", "")
	f.Fuzz(func(t *testing.T, b []byte, version, method, name string) {
		msg, err := readMessage(b)
		if err != nil {
			return
		}
		switch msg := msg.(type) {
		case *jsonrpc.Request:
			takesLong(msg)
			header := func(h string, _ ...string) string {
				return map[string]string{headerVersion: version, headerMethod: method, headerName: name}[h]
			}
			if checkHeaders(header, version, msg) == nil && version >= versionNoState && method != msg.Method {
				t.Errorf("%q passes for %q", method, msg.Method)
			}
		case *jsonrpc.Response:
			if _, q, _, ok := readFormID(msg.ID); ok && q == "" {
				t.Errorf("%v names no question", msg.ID)
			}
		}
	})
}

// A form's id says which question it is for, also in sessions of delegations.
func TestFormID(t *testing.T) {
	f := follower{key: conversation.SessionKey{Session: "S/d1"}, at: cursor{Forms: "X"}}
	id, err := jsonrpc.MakeID(f.formID("d1.q2"))
	if forms, q, session, ok := readFormID(id); err != nil || !ok || forms != "X" || q != "d1.q2" || session != "S/d1" {
		t.Errorf("%s %s %s %v %v", forms, q, session, ok, err)
	}
}

// The id of an event goes back in a header, with a key and an MCP session id beside it.
func TestCursorsAreShort(t *testing.T) {
	session := conversation.SessionID(strings.Repeat("S", 26) + "/d1")
	long := cursor{Request: json.RawMessage(strings.Repeat("1", maxID)), Message: conversation.MessageID("m1000000-" + session), Task: conversation.TaskID("t1000000-" + session),
		At: 1<<53 - 1, Token: json.RawMessage(strings.Repeat("1", maxID)), Until: 1 << 40, Forms: strings.Repeat("X", 26)}
	for range maxAsked {
		long.Asked = append(long.Asked, "d1000.q1000")
	}
	many := cursor{Watched: map[conversation.SessionID]conversation.Seq{}}
	for i := range maxWatched {
		many.Watched[session+conversation.SessionID(strconv.Itoa(i))] = 1 << 27
	}
	for _, c := range []cursor{long, many} {
		if id := c.String(); len(id) > maxCursor {
			t.Errorf("%d bytes", len(id))
		}
	}
}

// A panic ends its request, with an error that says nothing of the server, and is counted.
func TestSurvive(t *testing.T) {
	m := &way{Exchange: exchange.New(door.New(&service.Services{Metrics: metrics.NewGateway(metrics.NewRegistry()), Log: slog.New(slog.DiscardHandler)}))}
	handler := m.survive(func(context.Context, string, sdk.Request) (sdk.Result, error) { panic("secret") })
	ctx := context.WithValue(t.Context(), callKey{}, &call{ctx: t.Context()})
	_, err := handler(ctx, "tools/call", nil)
	var wire *jsonrpc.Error
	if !errors.As(err, &wire) || wire.Code != jsonrpc.CodeInternalError || strings.Contains(wire.Message, "secret") {
		t.Error(err)
	}
}

// What one piece of a text costs on its way to a host: the notification, with the id of the event.
func BenchmarkProgress(b *testing.B) {
	f := follower{at: cursor{Request: json.RawMessage("7"), Message: "m1-S", Task: "t1-S", Token: json.RawMessage("7"), Forms: "X"}}
	text := strings.Repeat("word ", 8)
	b.ReportAllocs()
	for b.Loop() {
		f.at.At++
		message := appendProgress(nil, f.at.Token, 1.5, "text", "1.1.0-t1-S", text)
		appendEvent(make([]byte, 0, len(message)+200), f.id(), message)
	}
}
