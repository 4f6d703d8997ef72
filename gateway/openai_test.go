package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/policy"
	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// startOpenAI is start, for requests of another protocol than that of the documents.
func startOpenAI(t *testing.T, changes ...setup) *rig {
	t.Helper()
	r := start(t, changes...)
	transport := &http.Transport{}
	r.http = &http.Client{Transport: transport, Timeout: 30 * time.Second}
	t.Cleanup(transport.CloseIdleConnections)
	return r
}

// apiResponse is a response of the OpenAI API, as far as tests look at it.
type apiResponse struct {
	ID, Status   string
	Conversation struct{ ID string }
	Metadata     map[string]string
	Incomplete   *struct{ Reason string } `json:"incomplete_details"`
	Output       []struct {
		ID, Type, Status, Name, Arguments string
		CallID                            string `json:"call_id"`
		Content                           []struct{ Text string }
	}
}

func (r apiResponse) types() (types []string) {
	for _, o := range r.Output {
		types = append(types, o.Type)
	}
	return types
}

func responseOf(t *testing.T, a answer) (r apiResponse) {
	t.Helper()
	if err := json.Unmarshal(a.want(t, 200).body, &r); err != nil {
		t.Fatalf("%s: %v", a.body, err)
	}
	return r
}

// keyOf is the session of a response.
func (r apiResponse) key() conversation.SessionKey {
	return gatewaytest.Key(strings.TrimPrefix(r.Conversation.ID, "conv_"))
}

const twoTools = `[{"type":"function","name":"a"},{"type":"function","name":"b"}]`

// respond begins a response in the background: the test plays the model.
func (r *rig) respond(body string, headers ...string) apiResponse {
	r.t.Helper()
	return responseOf(r.t, r.call("POST", "/v1/responses", body, headers...))
}

func (r *rig) retrieve(id string) apiResponse {
	r.t.Helper()
	return responseOf(r.t, r.call("GET", "/v1/responses/"+id, ""))
}

// A model that calls two functions at once is answered with both results in one request: the
// response to that goes on until the task rests.
func TestOpenAITwoCallsAtOnce(t *testing.T) {
	r := startOpenAI(t)
	first := r.respond(`{"input":"Go","background":true,"tools":` + twoTools + `}`)
	r.sessions.Model(first.key(), machinetest.Call("a", `{"x":1}`), machinetest.Call("b", `{"x":2}`))
	first = r.retrieve(first.ID)
	if got := strings.Join(first.types(), " "); first.Status != "completed" || got != "function_call function_call" {
		t.Fatalf("%s: %s", first.Status, got)
	}
	output := func(i int) string {
		return `{"type":"function_call_output","call_id":"` + first.Output[i].CallID + `","output":"done"}`
	}
	// One of them is not enough, and changes nothing.
	refused := r.call("POST", "/v1/responses", `{"input":[`+output(0)+`],"tools":`+twoTools+`}`).want(t, 400)
	if !strings.Contains(string(refused.body), "No tool output found for function call "+first.Output[1].CallID) {
		t.Errorf("%s", refused.body)
	}
	both := `{"input":[` + output(0) + `,` + output(1) + `],"background":true,"tools":` + twoTools + `}`
	next := r.respond(both)
	if next.Status != "queued" && next.Status != "in_progress" {
		t.Fatalf("with both results it is %s: %v", next.Status, next.types())
	}
	r.sessions.Model(first.key(), machinetest.Text("All done"))
	next = r.retrieve(next.ID)
	if next.Status != "completed" || len(next.Output) != 1 || next.Output[0].Content[0].Text != "All done" {
		t.Errorf("%+v", next)
	}
	if again := r.respond(both); again.ID != next.ID {
		t.Errorf("the same results again are %s, not %s", again.ID, next.ID)
	}
}

// A request that comes again under its Idempotency-Key is the same response, also when its task
// waits for the caller by then.
func TestOpenAIRepeatedWhileItWaits(t *testing.T) {
	for name, play := range map[string]conversation.Item{
		"a call":     machinetest.Call("a", `{}`),
		"a question": machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`),
	} {
		t.Run(name, func(t *testing.T) {
			r := startOpenAI(t)
			body := `{"input":"Go","background":true,"metadata":{"session":"mine"},"tools":` + twoTools + `}`
			first := r.respond(body, "Idempotency-Key", "k")
			r.sessions.Model(first.key(), play)
			again := r.respond(body, "Idempotency-Key", "k")
			if again.ID != first.ID || again.Status != "completed" || len(again.Output) != 1 {
				t.Errorf("%s is %s: %v; it was %s", again.ID, again.Status, again.types(), first.ID)
			}
		})
	}
}

// A request that is refused changes nothing of its session.
func TestOpenAIRefusedChangesNothing(t *testing.T) {
	r := startOpenAI(t)
	first := r.respond(`{"input":"Go","background":true,"tools":` + twoTools + `}`)
	r.sessions.Model(first.key(), machinetest.Call("a", `{}`))
	before := len(events(r, first.key()))
	r.call("POST", "/v1/responses", `{"input":"hello?","instructions":"Be brief","conversation":"`+first.Conversation.ID+`"}`).want(t, 400)
	if now := len(events(r, first.key())); now != before {
		t.Errorf("%d events became %d", before, now)
	}
}

func events(r *rig, key conversation.SessionKey) (all []conversation.Event) {
	r.sessions.Play(func(w *machinetest.World) { all = w.Session(key).Events() })
	return all
}

// Attachments are bounded as everywhere.
func TestOpenAIAttachmentsAreBounded(t *testing.T) {
	const picture = `{"type":"input_image","image_url":"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="}`
	for _, test := range []struct{ files, status int }{{2, 200}, {3, 413}} {
		r := startOpenAI(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.AttachmentsPerMessage = 2 })
		pictures := strings.TrimSuffix(strings.Repeat(picture+",", test.files), ",")
		r.call("POST", "/v1/responses", `{"background":true,"input":[{"role":"user","content":[`+pictures+`]}]}`).want(t, test.status)
	}
}

// A text that the provider held back is incomplete for that reason.
func TestOpenAIFiltered(t *testing.T) {
	r := startOpenAI(t)
	first := r.respond(`{"input":"Go","background":true}`)
	r.sessions.Play(func(w *machinetest.World) {
		w.Tell(first.key(), conversation.ModelAnswered{Step: 1, Attempt: 1, Answer: conversation.ModelAnswer{Stop: conversation.StopFiltered, Items: []conversation.Item{machinetest.Text("Ha")}}}, nil)
	})
	if got := r.retrieve(first.ID); got.Status != "incomplete" || got.Incomplete == nil || got.Incomplete.Reason != "content_filter" {
		t.Errorf("%s %+v", got.Status, got.Incomplete)
	}
}

// Of several approvals one is answered: the response says what is still to be allowed.
func TestOpenAIOneOfTwoApprovals(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) {
		w.Rules.Tools["mail"] = policy.ToolRule{Spec: conversation.ToolSpec{Name: "mail", Approval: true}}
	})
	first := r.respond(`{"input":"Go","background":true}`)
	r.sessions.Model(first.key(), machinetest.Call("mail", `{"to":"a"}`), machinetest.Call("mail", `{"to":"b"}`))
	first = r.retrieve(first.ID)
	if len(first.Output) != 2 || first.Output[0].Type != "mcp_approval_request" {
		t.Fatalf("%+v", first)
	}
	next := r.respond(`{"background":true,"input":[{"type":"mcp_approval_response","approval_request_id":"` + first.Output[0].ID + `","approve":true}]}`)
	if next.Status != "completed" || len(next.Output) != 1 || next.Output[0].ID != first.Output[1].ID {
		t.Errorf("%s: %+v", next.Status, next.Output)
	}
}
