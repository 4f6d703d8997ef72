package mcp

import (
	"encoding/json"
	"testing"

	"parley/conversation"
	"parley/gateway/exchange"
	"parley/gateway/service"

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
	f.Add(`{"s":"S","m":"m1-S","t":"t1-S"}`)
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
