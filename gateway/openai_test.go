package gateway_test

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/conversation/policy"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/protocol"

	"github.com/coder/websocket"
)

// startOpenAI is start, for requests of another protocol than that of the documents.
func startOpenAI(t *testing.T, changes ...setup) *rig {
	t.Helper()
	r := start(t, changes...)
	r.http = r.plain
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
	r.call("POST", "/v1/responses", strings.ReplaceAll(both, "done", "other")).want(t, 409)
}

// A client that sends the results again with something new behind them, for the model had said
// nothing to them, is answered what is new.
func TestOpenAISaidBehindKnownResults(t *testing.T) {
	r := startOpenAI(t)
	first := r.respond(`{"input":"Go","background":true,"tools":` + twoTools + `}`)
	r.sessions.Model(first.key(), machinetest.Call("a", `{}`))
	output := `{"type":"function_call_output","call_id":"` + r.retrieve(first.ID).Output[0].CallID + `","output":"done"}`
	r.respond(`{"background":true,"input":[` + output + `],"tools":` + twoTools + `}`)
	r.sessions.Model(first.key(), machinetest.Text("Done"))
	seen := map[string]bool{}
	for _, text := range []string{"More", "Even more"} {
		body := `{"background":true,"input":[` + output + `,{"role":"user","content":"` + text + `"}],"tools":` + twoTools + `}`
		next := r.respond(body)
		r.sessions.Model(first.key(), machinetest.Text("To "+text))
		if again := r.respond(body); again.ID != next.ID || again.Status != "completed" || again.Output[0].Content[0].Text != "To "+text || seen[next.ID] {
			t.Errorf("%s is answered by %s: %+v", text, next.ID, again)
		}
		seen[next.ID] = true
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

// So is one that has answered a question, one of an earlier task, and one whose tools are not
// those of the session any more.
func TestOpenAIRepeatedLater(t *testing.T) {
	r := startOpenAI(t)
	send := func(key, text, more string) apiResponse {
		return r.respond(`{"input":"`+text+`","background":true,"metadata":{"session":"mine"}`+more+`}`, "Idempotency-Key", key)
	}
	const tools = `,"tools":` + twoTools
	first := send("1", "Hello", "")
	r.sessions.Model(first.key(), machinetest.Text("Hello"))
	second := send("2", "Go", tools)
	r.sessions.Model(first.key(), machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
	answer := send("3", "Here", tools)
	r.sessions.Model(first.key(), machinetest.Call("a", `{}`))
	before := len(events(r, first.key()))
	for want, got := range map[string]apiResponse{first.ID: send("1", "Hello", ""), second.ID: send("2", "Go", tools), answer.ID: send("3", "Here", tools)} {
		if got.ID != want || got.Status != "completed" {
			t.Errorf("%s comes again as %s, %s", want, got.ID, got.Status)
		}
	}
	if now := len(events(r, first.key())); now != before {
		t.Errorf("%d events became %d", before, now)
	}
	for _, in := range []string{`,"metadata":{"session":"mine"}`, ``} {
		a := r.call("POST", "/v1/responses", `{"background":true,"input":"other"`+in+`}`, "Idempotency-Key", "3")
		if in == "" { // the key's own session
			a.want(t, 200)
			a = r.call("POST", "/v1/responses", `{"input":"another"}`, "Idempotency-Key", "3")
		}
		if a.want(t, 409); strings.Contains(string(a.body), `u0001`) || strings.Contains(string(a.body), "x01") {
			t.Errorf("%s", a.body)
		}
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

// Every refusal has the API's shape, with the status by which SDKs choose their class.
func TestOpenAIErrors(t *testing.T) {
	r := startOpenAI(t, func(c *gateway.Config, d *gateway.Deps) {
		d.Authenticator = openAIUsers{}
		c.Limits.BodyBytes, c.Limits.TextBytes = 4096, 2048
	})
	ann := func(method, path, body string) answer {
		return r.call(method, path, body, "Authorization", "Bearer ann")
	}
	mine := responseOf(t, ann("POST", "/v1/responses", `{"input":"Go","background":true}`))
	user := func(body string) string { return `{"input":"x",` + body + `}` }
	chat := func(body string) string { return `{"messages":[{"role":"user","content":"x"}],` + body + `}` }
	for _, test := range []struct {
		method, path, body, token string
		status                    int
		kind, code                string
	}{
		{"POST", "/v1/responses", user(`"model":"parley"`), "", 401, "authentication_error", "invalid_api_key"},
		{"GET", "/v1/models", "", "nobody", 401, "authentication_error", "invalid_api_key"},
		{"GET", "/v1/models", "", "narrow", 403, "permission_error", "forbidden"},
		{"GET", "/v1/responses/" + mine.ID, "", "eve", 404, "not_found_error", "null"},
		{"GET", "/v1/responses/" + mine.ID + "?stream=true", "", "eve", 404, "not_found_error", "null"},
		{"GET", "/v1/responses/" + mine.ID + "/input_items", "", "eve", 404, "not_found_error", "null"},
		{"POST", "/v1/responses/" + mine.ID + "/cancel", "", "eve", 404, "not_found_error", "null"},
		{"DELETE", "/v1/responses/" + mine.ID, "", "eve", 404, "not_found_error", "null"},
		{"GET", "/v1/conversations/" + mine.Conversation.ID, "", "eve", 404, "not_found_error", "null"},
		{"POST", "/v1/conversations/" + mine.Conversation.ID, `{"metadata":{"title":"stolen"}}`, "eve", 404, "not_found_error", "null"},
		{"DELETE", "/v1/conversations/" + mine.Conversation.ID, "", "eve", 404, "not_found_error", "null"},
		{"GET", "/v1/conversations/" + mine.Conversation.ID + "/items", "", "eve", 404, "not_found_error", "null"},
		{"GET", "/v1/conversations/" + mine.Conversation.ID + "/items/msg_m1", "", "eve", 404, "not_found_error", "null"},
		{"POST", "/v1/conversations/" + mine.Conversation.ID + "/items", `{"items":[]}`, "eve", 404, "not_found_error", "null"},
		{"DELETE", "/v1/conversations/" + mine.Conversation.ID + "/items/msg_m1", "", "eve", 404, "not_found_error", "null"},
		{"POST", "/v1/responses", user(`"conversation":"` + mine.Conversation.ID + `"`), "eve", 404, "not_found_error", "null"},
		{"POST", "/v1/responses", user(`"previous_response_id":"` + mine.ID + `"`), "eve", 400, "invalid_request_error", "previous_response_not_found"},
		{"GET", "/v1/responses/" + mine.ID + ".99", "", "ann", 404, "not_found_error", "null"},
		{"GET", "/v1/responses/" + mine.ID + "?stream=true&starting_after=x", "", "ann", 400, "invalid_request_error", "invalid_value"},
		{"GET", "/v1/responses/" + mine.ID + "?stream=true&starting_after=9007199254740991", "", "ann", 409, "invalid_request_error", "conflict"},
		{"GET", "/v1/responses", "", "ann", 426, "invalid_request_error", "upgrade_required"},
		{"DELETE", "/v1/responses/" + mine.ID, "", "ann", 405, "invalid_request_error", "not_supported"},
		{"GET", "/v1/models/gpt-0", "", "ann", 404, "not_found_error", "model_not_found"},
		{"GET", "/v1/conversations/" + mine.Conversation.ID + "/items?limit=0", "", "ann", 400, "invalid_request_error", "invalid_value"},
		{"GET", "/v1/conversations/" + mine.Conversation.ID + "/items?after=x", "", "ann", 400, "invalid_request_error", "invalid_value"},
		{"GET", "/v1/conversations/" + mine.Conversation.ID + "/items?order=x", "", "ann", 400, "invalid_request_error", "invalid_value"},
		{"POST", "/v1/conversations/" + mine.Conversation.ID + "/items", `{"items":[{"role":"user","content":"x"}]}`, "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"DELETE", "/v1/conversations/" + mine.Conversation.ID + "/items/msg_m1", "", "ann", 405, "invalid_request_error", "not_supported"},
		{"POST", "/v1/responses", `{"input":"x"`, "ann", 400, "invalid_request_error", "invalid_json"},
		{"POST", "/v1/responses", `{"input":7}`, "ann", 400, "invalid_request_error", "invalid_type"},
		{"POST", "/v1/responses", `{"input":"  "}`, "ann", 400, "invalid_request_error", "bad_request"},
		{"POST", "/v1/responses", `{"input":"` + strings.Repeat("x", 3000) + `"}`, "ann", 413, "invalid_request_error", "too_large"},
		{"POST", "/v1/responses", `{"input":"` + strings.Repeat("x", 5000) + `"}`, "ann", 413, "invalid_request_error", "too_large"},
		{"POST", "/v1/responses", user(`"model":"gpt-0"`), "ann", 404, "not_found_error", "model_not_found"},
		{"POST", "/v1/responses", user(`"prompt":{"id":"p"}`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", user(`"text":{"format":{"type":"json_schema","name":"x","schema":{}}}`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", user(`"tool_choice":"required"`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", user(`"tool_choice":"any"`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", user(`"tool_choice":{"type":"function","name":"a"}`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", `{"input":"x"}]`, "ann", 400, "invalid_request_error", "invalid_json"},
		{"POST", "/v1/responses", `{"input":"x"} {}`, "ann", 400, "invalid_request_error", "invalid_json"},
		{"POST", "/v1/responses", `{"input":[{"type":"function_call_output","call_id":"call_c1-t1-x","output":[` + inputPicture + `]}]}`, "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", `{"input":[{"role":"system","content":[` + inputPicture + `]},{"role":"user","content":"x"}]}`, "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"tool","tool_call_id":"call_c1-t1-x","content":[` + inputPicture + `]}]}`, "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", user(`"tools":[{"type":"web_search"}]`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", user(`"tools":[{"type":"function","name":"not a name"}]`), "ann", 400, "invalid_request_error", "bad_request"},
		{"POST", "/v1/responses", user(`"tools":[{"type":"function","name":"a"},{"type":"function","name":"a"}]`), "ann", 400, "invalid_request_error", "bad_request"},
		{"POST", "/v1/responses", user(`"metadata":{"mode":"now"}`), "ann", 400, "invalid_request_error", "invalid_value"},
		{"POST", "/v1/responses", user(`"metadata":{"session":"` + strings.Repeat("x", 200) + `"}`), "ann", 400, "invalid_request_error", "invalid_value"},
		{"POST", "/v1/responses", user(`"conversation":"conv_a","previous_response_id":"resp_b"`), "ann", 400, "invalid_request_error", "mutually_exclusive_parameters"},
		{"POST", "/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_image","image_url":"https://example.org/a.png"}]}]}`, "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", `{"input":[{"role":"user","content":[{"type":"input_audio"}]}]}`, "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", `{"input":[{"type":"web_search_call"}]}`, "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/responses", `{"input":[{"role":"assistant","content":"x"}]}`, "ann", 400, "invalid_request_error", "missing_required_parameter"},
		{"POST", "/v1/responses", `{"input":[{"type":"function_call_output","call_id":"call_x","output":"y"}]}`, "ann", 400, "invalid_request_error", "invalid_value"},
		{"POST", "/v1/responses", `{"input":[{"type":"function_call_output","call_id":"call_c9-` + strings.TrimPrefix(mine.ID, "resp_") + `","output":"y"}]}`, "ann", 400, "invalid_request_error", "invalid_value"},
		{"POST", "/v1/chat/completions", chat(`"n":2`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/chat/completions", chat(`"logprobs":true`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/chat/completions", chat(`"response_format":{"type":"json_object"}`), "ann", 400, "invalid_request_error", "unsupported_parameter"},
		{"POST", "/v1/chat/completions", `{"messages":[]}`, "ann", 400, "invalid_request_error", "missing_required_parameter"},
		{"POST", "/v1/chat/completions", `{"messages":[{"role":"narrator","content":"x"}]}`, "ann", 400, "invalid_request_error", "invalid_value"},
	} {
		name := test.method + " " + test.path + " " + test.body
		if len(name) > 160 {
			name = name[:160]
		}
		var headers []string
		if test.token != "" {
			headers = []string{"Authorization", "Bearer " + test.token}
		}
		a := r.call(test.method, test.path, test.body, headers...)
		if a.status != test.status {
			t.Errorf("%s\nstatus %d, want %d: %s", name, a.status, test.status, a.body)
			continue
		}
		var got struct {
			Error struct {
				Message, Type string
				Code          json.RawMessage
			}
		}
		if err := json.Unmarshal(a.body, &got); err != nil || got.Error.Message == "" {
			t.Errorf("%s\n%s: %v", name, a.body, err)
		}
		if code := strings.Trim(string(got.Error.Code), `"`); got.Error.Type != test.kind || code != test.code {
			t.Errorf("%s\n%s, want %s %s", name, a.body, test.kind, test.code)
		}
		if test.status == 401 && a.header.Get("Www-Authenticate") != "Bearer" {
			t.Errorf("%s: no WWW-Authenticate", name)
		}
	}
	if n := len(events(r, conversation.SessionKey{Tenant: "acme", Session: mine.key().Session})); n != 4 {
		t.Errorf("of all that was refused the session has %d events", n)
	}
}

const inputPicture = `{"type":"input_image","image_url":"data:image/png;base64,AAAA"}`

// openAIUsers are ann of one tenant, eve of another, and one who may not chat.
type openAIUsers struct{}

func (openAIUsers) Mode() string { return "keys" }

func (openAIUsers) Authenticate(_ context.Context, c gateway.Credential) (*gateway.Principal, error) {
	switch c.Token {
	case "ann":
		return &gateway.Principal{Tenant: "acme", User: "ann", Scopes: []string{gateway.ScopeChat}}, nil
	case "bob":
		return &gateway.Principal{Tenant: "acme", User: "bob", Scopes: []string{gateway.ScopeChat}}, nil
	case "eve":
		return &gateway.Principal{Tenant: "other", User: "eve", Scopes: []string{gateway.ScopeChat}}, nil
	case "narrow":
		return &gateway.Principal{Tenant: "acme", User: "ann", Scopes: []string{gateway.ScopeRuntime}}, nil
	}
	return nil, conversation.Errorf(conversation.Unauthenticated, "who are you?")
}

// What is another user's, of the same tenant or another one, is answered as what is not there.
func TestOpenAIOthersAreNotThere(t *testing.T) {
	r := startOpenAI(t, func(_ *gateway.Config, d *gateway.Deps) { d.Authenticator = openAIUsers{} })
	mine := responseOf(t, r.call("POST", "/v1/responses", `{"input":"Go","background":true}`, "Authorization", "Bearer ann"))
	session := strings.TrimPrefix(mine.Conversation.ID, "conv_")
	ask := func(token, session string) (all string) {
		for _, route := range []string{
			"GET /v1/responses/resp_t1-S", "GET /v1/responses/resp_t1-S?stream=true", "POST /v1/responses/resp_t1-S/cancel", "DELETE /v1/responses/resp_t1-S", "GET /v1/responses/resp_t1-S/input_items",
			"GET /v1/conversations/conv_S", "DELETE /v1/conversations/conv_S", "GET /v1/conversations/conv_S/items", "GET /v1/conversations/conv_S/items/msg_m1-S", "DELETE /v1/conversations/conv_S/items/x",
			`POST /v1/conversations/conv_S {"metadata":{"title":"x"}}`, `POST /v1/conversations/conv_S/items {"items":[{}]}`, `POST /v1/responses {"input":"x","conversation":"conv_S"}`,
			`POST /v1/responses {"input":"x","previous_response_id":"resp_t1-S"}`, `POST /v1/responses {"input":[{"type":"function_call_output","call_id":"call_c1-t1-S","output":"x"}]}`,
		} {
			method, rest, _ := strings.Cut(strings.ReplaceAll(route, "-S", "-"+session), " ")
			path, body, _ := strings.Cut(strings.ReplaceAll(rest, "conv_S", "conv_"+session), " ")
			a := r.call(method, path, body, "Authorization", "Bearer "+token)
			if a.status < 400 {
				t.Errorf("%s is answered %d: %s", route, a.status, a.body)
			}
			all += route + "\n" + string(a.body) + "\n"
		}
		return strings.ReplaceAll(all, session, "S")
	}
	missing := ask("bob", "aaaaaaaaaaaaaaaa")
	for _, token := range []string{"bob", "eve"} {
		if got := ask(token, session); got != missing {
			t.Errorf("%s is told\n%s\nand of what is not there\n%s", token, got, missing)
		}
	}
}

// A conversation is read page by page, in both orders: each item once, and no page is longer than asked.
func TestOpenAIPages(t *testing.T) {
	r := startOpenAI(t)
	first := r.respond(`{"input":"0","background":true}`)
	for i := range 4 {
		r.sessions.Model(first.key(), machinetest.Text("answer"))
		if i < 3 {
			r.respond(`{"input":"` + strconv.Itoa(i+1) + `","background":true,"conversation":"` + first.Conversation.ID + `"}`)
		}
	}
	walk := func(order string, limit int) (all []string) {
		for after := ""; ; {
			path := "/v1/conversations/" + first.Conversation.ID + "/items?order=" + order + "&limit=" + strconv.Itoa(limit) + "&after=" + after
			var page struct {
				Data    []struct{ ID string }
				HasMore bool   `json:"has_more"`
				FirstID string `json:"first_id"`
				LastID  string `json:"last_id"`
			}
			if err := json.Unmarshal(r.call("GET", path, "").want(t, 200).body, &page); err != nil {
				t.Fatal(err)
			}
			if n := len(page.Data); n == 0 || n > limit || page.FirstID != page.Data[0].ID || page.LastID != page.Data[n-1].ID {
				t.Fatalf("%s: %+v", path, page)
			}
			for _, item := range page.Data {
				all = append(all, item.ID)
			}
			if after = page.LastID; !page.HasMore {
				return all
			}
		}
	}
	whole := walk("asc", 100)
	if len(whole) != 8 {
		t.Fatalf("%d items: %v", len(whole), whole)
	}
	for limit := 1; limit < 9; limit++ {
		back := walk("desc", limit)
		slices.Reverse(back)
		if asc := walk("asc", limit); !slices.Equal(asc, whole) || !slices.Equal(back, whole) {
			t.Errorf("pages of %d: %v and %v", limit, asc, back)
		}
	}
	for _, id := range whole {
		if got := r.call("GET", "/v1/conversations/"+first.Conversation.ID+"/items/"+id, "").want(t, 200); !strings.Contains(string(got.body), `"`+id+`"`) {
			t.Errorf("%s", got.body)
		}
	}
	r.call("GET", "/v1/conversations/"+first.Conversation.ID+"/items/msg_none", "").want(t, 404)
}

// Who may only speak in a session brings neither another agent nor instructions nor tools, and
// leaves those of its owner as they are.
func TestOpenAISettingsAreTheOwners(t *testing.T) {
	r := startOpenAI(t, func(c *gateway.Config, d *gateway.Deps) {
		d.Authenticator = openAIUsers{}
		c.Offer.Agents = []protocol.OfferedAgent{{Name: "coordinator"}, {Name: "developer"}}
	})
	ask := func(token, body string) answer {
		return r.call("POST", "/v1/responses", body, "Authorization", "Bearer "+token)
	}
	mine := responseOf(t, ask("ann", `{"input":"Go","background":true,"instructions":"Be brief","tools":`+twoTools+`}`))
	key := conversation.SessionKey{Tenant: "acme", Session: mine.key().Session}
	r.sessions.Model(key, machinetest.Text("Done"))
	r.call("PATCH", "/api/sessions/"+string(key.Session), `{"access":"tenant"}`, "Authorization", "Bearer ann").want(t, 200)
	in := `"background":true,"conversation":"` + mine.Conversation.ID + `","input":"x"`
	for _, more := range []string{`"model":"developer"`, `"instructions":"Be long"`, `"tools":[{"type":"function","name":"c"}]`} {
		ask("bob", `{`+in+`,`+more+`}`).want(t, 403)
	}
	ask("bob", `{`+in+`}`).want(t, 200)
	view := string(r.call("GET", "/api/sessions/"+string(key.Session), "", "Authorization", "Bearer ann").want(t, 200).body)
	if !strings.Contains(view, `"Be brief"`) || !strings.Contains(view, `"tools.caller"`) || !strings.Contains(view, `"agent":"coordinator"`) {
		t.Errorf("%s", view)
	}
	// The owner's next request takes the tools away that it does not name, and leaves the instructions.
	ask("ann", `{`+in+`,"model":"developer"}`).want(t, 200)
	view = string(r.call("GET", "/api/sessions/"+string(key.Session), "", "Authorization", "Bearer ann").want(t, 200).body)
	if !strings.Contains(view, `"Be brief"`) || strings.Contains(view, `"tools.caller"`) || !strings.Contains(view, `"agent":"developer"`) {
		t.Errorf("%s", view)
	}
}

// Whichever event a client has seen last, it is told the rest, byte for byte as it was.
func TestOpenAIResumesFromEveryEvent(t *testing.T) {
	r := startOpenAI(t)
	first := r.respond(`{"input":"Go","background":true,"tools":` + twoTools + `}`)
	r.sessions.Model(first.key(), machinetest.Text("One"), machinetest.Text("Zwö\n"), machinetest.Call("a", `{"x":1}`), machinetest.Call("b", `{}`))
	whole := string(r.call("GET", "/v1/responses/"+first.ID+"?stream=true", "").want(t, 200).body)
	if !strings.HasSuffix(whole, "data: [DONE]\n\n") {
		t.Fatalf("it has no end: %s", whole)
	}
	seen := 0
	for event := range strings.SplitAfterSeq(whole, "\n\n") {
		_, number, has := strings.Cut(event, `"sequence_number":`)
		if !has {
			continue
		}
		number, _, _ = strings.Cut(number, ",")
		rest := r.call("GET", "/v1/responses/"+first.ID+"?stream=true&starting_after="+number, "").want(t, 200).body
		if _, want, _ := strings.Cut(whole, event); string(rest) != want {
			t.Errorf("behind %s it is\n%s\nwant\n%s", number, rest, want)
		}
		seen++
	}
	if seen < 20 {
		t.Errorf("%d events: %s", seen, whole)
	}
}

// What waits and what streams is bounded as everywhere: a wait that has no room is accepted all
// the same, and a stream that has none is refused before anything is said.
func TestOpenAILimits(t *testing.T) {
	r := startOpenAI(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.Streams = 1 })
	first := r.respond(`{"input":"Go","background":true}`)
	open, err := r.http.Get("http://" + r.addr + "/v1/responses/" + first.ID + "?stream=true")
	if err != nil {
		t.Fatal(err)
	}
	defer open.Body.Close()
	before := len(events(r, first.key()))
	refused := r.call("POST", "/v1/responses", `{"input":"x","stream":true,"conversation":"`+first.Conversation.ID+`"}`).want(t, 503)
	if refused.header.Get("Retry-After") == "" || !strings.Contains(string(refused.body), `"server_error"`) {
		t.Errorf("%v: %s", refused.header, refused.body)
	}
	if now := len(events(r, first.key())); now != before {
		t.Errorf("what was refused was said: %d events became %d", before, now)
	}
}

// A response takes longer than a request may wait: it is accepted, and in progress still. A
// completion has no such word, and must not be said again by its client.
func TestOpenAIWaitEnds(t *testing.T) {
	r := startOpenAI(t, func(c *gateway.Config, _ *gateway.Deps) { c.Times.WaitMax = time.Millisecond })
	if got := r.respond(`{"input":"Go"}`); got.Status != "in_progress" {
		t.Errorf("%+v", got)
	}
	late := r.call("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"Go"}]}`).want(t, 504)
	if late.header.Get("X-Should-Retry") != "false" {
		t.Errorf("%v: %s", late.header, late.body)
	}
}

// Who waits longer than a request may take is told how far the response is, for both times are
// the operator's.
func TestOpenAIWaitsLongerThanARequestTakes(t *testing.T) {
	r := startOpenAI(t, times(func(times *gateway.Times) { times.Request, times.WaitMax = 500*time.Millisecond, 600*time.Millisecond }))
	first := responseOf(t, r.call("POST", "/v1/responses", `{"input":"Go"}`))
	if first.Status != "in_progress" {
		t.Errorf("it is %s", first.Status)
	}
	if got := r.call("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"Go"}]}`).want(t, 504); !strings.Contains(string(got.body), "resp_t1-") {
		t.Errorf("%s", got.body)
	}
}

// What has become of a message is no reason to say it again: SDKs repeat a request by themselves
// behind 409 and 500 unless they are told not to.
func TestOpenAIKeptIsNotRepeated(t *testing.T) {
	for name, test := range map[string]struct {
		ends   func(r *rig, key conversation.SessionKey)
		status int
	}{
		"failed": {func(r *rig, key conversation.SessionKey) {
			r.sessions.Play(func(w *machinetest.World) {
				w.Tell(key, conversation.ModelFailed{Step: 1, Attempt: 1, Failure: conversation.Failure{Code: conversation.Forbidden, Message: "no"}, Permanent: true}, nil)
			})
		}, 500},
		"cancelled": {func(r *rig, key conversation.SessionKey) {
			r.call("POST", "/v1/responses/resp_t1-"+string(key.Session)+"/cancel", "{}").want(t, 200)
		}, 409},
		"erased": {func(r *rig, key conversation.SessionKey) {
			r.call("DELETE", "/v1/conversations/conv_"+string(key.Session), "").want(t, 200)
		}, 404},
	} {
		t.Run(name, func(t *testing.T) {
			r := startOpenAI(t)
			key := gatewaytest.Key(strings.TrimPrefix(r.call("POST", "/v1/conversations", `{"metadata":{"session":"mine"}}`).want(t, 200).get(t, "id"), "conv_"))
			begun := make(chan struct{})
			r.sessions.Do(func() {
				r.sessions.Script = func(told gatewaytest.Told) (o gatewaytest.Outcome, ok bool) {
					if _, says := told.Command.(conversation.Say); says {
						close(begun)
					}
					return o, false
				}
			})
			answered := make(chan answer)
			go func() {
				answered <- r.call("POST", "/v1/chat/completions", `{"metadata":{"session":"mine"},"messages":[{"role":"user","content":"Go"}]}`)
			}()
			<-begun
			r.sessions.Do(func() {}) // behind the message: it is stored
			test.ends(r, key)
			a := (<-answered).want(t, test.status)
			if got := a.header.Get("X-Should-Retry"); got != "false" {
				t.Errorf("it may be repeated (%q): %s", got, a.body)
			}
		})
	}
}

// A request that is refused leaves no session behind that nobody knows of.
func TestOpenAIRefusedOpensNothing(t *testing.T) {
	r := startOpenAI(t, limits(func(l *gateway.Limits) { l.TextBytes = 100 }))
	for _, input := range []string{
		`" "`, `"` + strings.Repeat("x", 101) + `"`,
		`[{"role":"user","content":[{"type":"input_file","filename":"a.x","file_data":"data:application/x-none;base64,AAAA"}]}]`,
	} {
		if a := r.call("POST", "/v1/responses", `{"background":true,"input":`+input+`}`); a.status < 400 {
			t.Errorf("%s: %d", input, a.status)
		}
	}
	for _, code := range []conversation.Code{conversation.Overloaded, conversation.InboxFull} {
		r.sessions.Do(func() {
			r.sessions.Script = func(told gatewaytest.Told) (o gatewaytest.Outcome, is bool) {
				_, is = told.Command.(conversation.Say)
				return gatewaytest.Outcome{Err: conversation.Errorf(code, "no")}, is
			}
		})
		r.call("POST", "/v1/chat/completions", `{"messages":[{"role":"user","content":"x"}]}`)
	}
	if a := r.call("GET", "/api/sessions", "").want(t, 200); a.get(t, "items") != "[]" {
		t.Errorf("left behind: %s", a.body)
	}
}

// While a request opens the session of a name, another one says something in it. That the first is
// refused then does not take it away.
func TestOpenAIRefusedErasesNothingOfOthers(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) {
		r.sessions.Script = func(told gatewaytest.Told) (o gatewaytest.Outcome, is bool) {
			say, is := told.Command.(conversation.Say)
			if is {
				say.Text, say.ClientMsgID = "of the other", "another"
				w.Tell(told.Key, say, nil)
			}
			return gatewaytest.Outcome{Err: conversation.Errorf(conversation.Overloaded, "no")}, is
		}
	})
	r.call("POST", "/v1/responses", `{"background":true,"metadata":{"session":"mine"},"input":"Go"}`).want(t, 503)
	if a := r.call("GET", "/api/sessions", "").want(t, 200); a.get(t, "items") == "[]" {
		t.Error("the session is gone")
	}
}

// Nothing of a session is changed for a message that is refused.
func TestOpenAIRefusedKeepsSettings(t *testing.T) {
	r := startOpenAI(t, limits(func(l *gateway.Limits) { l.TextBytes = 100 }))
	first := r.respond(`{"input":"Go","background":true}`)
	before := len(events(r, first.key()))
	for _, input := range []string{
		`" "`, `"` + strings.Repeat("x", 101) + `"`,
		`[{"role":"user","content":[{"type":"input_file","filename":"a.x","file_data":"data:application/x-none;base64,AAAA"}]}]`,
	} {
		r.call("POST", "/v1/responses", `{"instructions":"Be brief","conversation":"`+first.Conversation.ID+`","input":`+input+`}`)
	}
	if now := len(events(r, first.key())); now != before {
		t.Errorf("%d events became %d", before, now)
	}
}

// Only the session knows whether it takes a message: when it does not, it is set to what it was
// before, and a closed one is never set to anything else.
func TestOpenAIRefusedByTheSessionKeepsSettings(t *testing.T) {
	refuses := func(code conversation.Code) func(r *rig, key conversation.SessionKey) {
		return func(r *rig, _ conversation.SessionKey) {
			r.sessions.Do(func() {
				r.sessions.Script = func(told gatewaytest.Told) (o gatewaytest.Outcome, is bool) {
					_, is = told.Command.(conversation.Say)
					return gatewaytest.Outcome{Err: conversation.Errorf(code, "no")}, is
				}
			})
		}
	}
	const others = `"tools":[{"type":"function","name":"c"}]`
	for name, test := range map[string]struct {
		before func(r *rig, key conversation.SessionKey)
		more   string
		status int
		still  bool // nothing is stored, not even for a moment
	}{
		"closed": {func(r *rig, key conversation.SessionKey) {
			r.sessions.Play(func(w *machinetest.World) { w.Do(key, conversation.Close{}) })
		}, `"input":"x",` + others, 410, true},
		"full": {func(r *rig, key conversation.SessionKey) {
			r.call("PATCH", "/api/sessions/"+string(key.Session), `{"policy":{"inbox.max_queued":1}}`).want(t, 200)
			r.respond(`{"input":"Waits","background":true,"conversation":"conv_` + string(key.Session) + `","tools":` + twoTools + `}`)
		}, `"input":"x",` + others, 429, false},
		"busy":          {func(*rig, conversation.SessionKey) {}, `"input":"x","metadata":{"mode":"reject"},` + others, 409, false},
		"overloaded":    {refuses(conversation.Overloaded), `"input":"x","instructions":"",` + others, 503, false},
		"another agent": {refuses(conversation.Overloaded), `"input":"x","model":"developer"`, 503, false},
		"said before, with a file": {func(r *rig, key conversation.SessionKey) {
			r.call("POST", "/v1/responses", `{"background":true,"conversation":"conv_`+string(key.Session)+`","tools":`+twoTools+`,"input":"other"}`, "Idempotency-Key", "k").want(t, 200)
		}, `"input":[{"role":"user","content":[{"type":"input_file","filename":"a.txt","file_data":"data:text/plain;base64,aGk="}]}],` + others, 409, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := startOpenAI(t, func(c *gateway.Config, _ *gateway.Deps) {
				c.Offer.Agents = []protocol.OfferedAgent{{Name: "coordinator"}, {Name: "developer"}}
			})
			first := r.respond(`{"input":"Go","background":true,"instructions":"Be brief","tools":` + twoTools + `}`)
			test.before(r, first.key())
			was, before := settingsOf(r, first.key()), len(events(r, first.key()))
			r.call("POST", "/v1/responses", `{"background":true,"conversation":"`+first.Conversation.ID+`",`+test.more+`}`, "Idempotency-Key", "k").want(t, test.status)
			if now := settingsOf(r, first.key()); now != was {
				t.Errorf("%s\nwas %s", now, was)
			}
			if now := len(events(r, first.key())); test.still && now != before {
				t.Errorf("%d events became %d", before, now)
			}
		})
	}
}

// settingsOf is what a session is set to.
func settingsOf(r *rig, key conversation.SessionKey) (set string) {
	r.sessions.Play(func(w *machinetest.World) {
		v := w.Session(key).Machine.View()
		b, err := json.Marshal(map[string]any{"agent": v.Agent, "policy": v.Policy})
		if set = string(b); err != nil {
			r.t.Error(err)
		}
	})
	return set
}

// What another request has set while a message was refused stays.
func TestOpenAIRefusedLeavesOthersSettings(t *testing.T) {
	r := startOpenAI(t)
	first := r.respond(`{"input":"Go","background":true}`)
	r.sessions.Play(func(w *machinetest.World) {
		r.sessions.Script = func(told gatewaytest.Told) (o gatewaytest.Outcome, is bool) {
			if _, is = told.Command.(conversation.Say); is {
				w.Tell(told.Key, conversation.Update{By: told.As, Policy: conversation.Overrides{"instructions": json.RawMessage(`"Of another"`)}}, nil)
			}
			return gatewaytest.Outcome{Err: conversation.Errorf(conversation.InboxFull, "no")}, is
		}
	})
	r.call("POST", "/v1/responses", `{"background":true,"input":"x","instructions":"Mine","tools":`+twoTools+`,"conversation":"`+first.Conversation.ID+`"}`).want(t, 429)
	if set := settingsOf(r, first.key()); !strings.Contains(set, "Of another") || strings.Contains(set, "tools.caller") {
		t.Errorf("%s", set)
	}
}

// Of several answers one that cannot be taken refuses all, and so does a text beside them.
func TestOpenAIRefusedAnswersNothing(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) {
		w.Rules.Tools["mail"] = policy.ToolRule{Spec: conversation.ToolSpec{Name: "mail", Approval: true}}
	})
	calls := r.respond(`{"input":"Go","background":true,"tools":` + twoTools + `}`)
	r.sessions.Model(calls.key(), machinetest.Call("a", `{}`), machinetest.Call("b", `{}`))
	calls = r.retrieve(calls.ID)
	output := func(id, text string) string {
		return `{"type":"function_call_output","call_id":"` + id + `","output":"` + text + `"}`
	}
	a, b := output(calls.Output[0].CallID, "1"), output(calls.Output[1].CallID, "2")
	task := strings.TrimPrefix(calls.ID, "resp_")
	mails := r.respond(`{"input":"Go","background":true}`)
	r.sessions.Model(mails.key(), machinetest.Call("mail", `{}`), machinetest.Call("mail", `{}`))
	mails = r.retrieve(mails.ID)
	approve := func(id string) string {
		return `{"type":"mcp_approval_response","approval_request_id":"` + id + `","approve":true}`
	}
	for name, test := range map[string]struct {
		of     apiResponse
		input  string
		status int
	}{
		"no such call":        {calls, a + `,` + b + `,` + output("call_c9-"+task, "3"), 400},
		"two for one":         {calls, a + `,` + b + `,` + output(calls.Output[1].CallID, "3"), 400},
		"a call as approval":  {calls, a + `,` + b + `,` + approve("mcpr_q2-"+task), 400},
		"a file of no type":   {calls, a + `,` + b + `,{"role":"user","content":[{"type":"input_file","filename":"a.x","file_data":"data:application/x-none;base64,AAAA"}]}`, 415},
		"no such approval":    {mails, approve(mails.Output[0].ID) + `,` + approve("mcpr_q9-"+strings.TrimPrefix(mails.ID, "resp_")), 404},
		"an approval as call": {mails, approve(mails.Output[0].ID) + `,` + output("call_c1-"+strings.TrimPrefix(mails.ID, "resp_"), "x"), 400},
	} {
		before := len(events(r, test.of.key()))
		if got := r.call("POST", "/v1/responses", `{"background":true,"input":[`+test.input+`]}`); got.status != test.status {
			t.Errorf("%s: %d %s", name, got.status, got.body)
		}
		if now := len(events(r, test.of.key())); now != before {
			t.Errorf("%s: %d events became %d", name, before, now)
		}
	}
	r.sessions.Play(func(w *machinetest.World) { w.Do(calls.key(), conversation.Close{}) })
	before := len(events(r, calls.key()))
	r.call("POST", "/v1/responses", `{"background":true,"input":[`+a+`,`+b+`,{"role":"user","content":"More"}]}`).want(t, 410)
	if now := len(events(r, calls.key())); now != before {
		t.Errorf("closed: %d events became %d", before, now)
	}
	if next := r.respond(`{"background":true,"input":[` + a + `,` + b + `]}`); next.Status == "completed" {
		t.Errorf("%+v", next)
	}
}

// socketOf is a WebSocket of /v1/responses: say sends a message, next is the next one that comes.
func (r *rig) socketOf() (say func(message string), next func() (string, error)) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	ws, _, err := websocket.Dial(ctx, "ws://"+r.addr+"/v1/responses", nil)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(func() { cancel(); _ = ws.CloseNow() })
	say = func(message string) {
		if err := ws.Write(ctx, websocket.MessageText, []byte(message)); err != nil {
			r.t.Fatal(err)
		}
	}
	return say, func() (string, error) {
		_, b, err := ws.Read(ctx)
		return string(b), err
	}
}

// What the client names comes back with each event, so that it is bounded.
func TestOpenAISocketBounds(t *testing.T) {
	r := startOpenAI(t)
	say, next := r.socketOf()
	for _, test := range []struct {
		length int
		want   string
	}{{129, `{"type":"error","status":400,`}, {128, `{"type":"response.created",`}} {
		say(`{"type":"response.create","input":"Go","stream_id":"` + strings.Repeat("x", test.length) + `"}`)
		if got, err := next(); err != nil || !strings.HasPrefix(got, test.want) {
			t.Errorf("%d: %s %v", test.length, got, err)
		}
	}
}

// A message that is no UTF-8 is refused: bytes of it that stay as they are, a tool's schema, would
// end the sockets of clients that are shown them.
func TestOpenAISocketWantsUTF8(t *testing.T) {
	r := startOpenAI(t)
	say, next := r.socketOf()
	say("{\"type\":\"response.create\",\"input\":\"Go\",\"tools\":[{\"type\":\"function\",\"name\":\"a\",\"parameters\":{\"description\":\"\xff\"}}]}")
	if got, err := next(); err != nil || !strings.Contains(got, `"invalid_json"`) {
		t.Errorf("%s %v", got, err)
	}
	if a := r.call("GET", "/api/sessions", "").want(t, 200); a.get(t, "items") != "[]" {
		t.Errorf("%s", a.body)
	}
}

// The history that a client sends gives way to its instructions, and to what the operator allows.
func TestOpenAIHistoryGivesWay(t *testing.T) {
	for _, test := range []struct{ system, most, status int }{{0, 16 << 10, 200}, {10_000, 16 << 10, 200}, {16_300, 16 << 10, 200}, {17_000, 16 << 10, 400}, {0, 600, 200}, {0, 0, 200}, {1, 0, 400}} {
		r := startOpenAI(t, times(func(times *gateway.Times) { times.WaitMax = time.Millisecond }))
		r.sessions.Play(func(w *machinetest.World) { w.Rules.Policy.MaxInstructions = test.most })
		body := `{"messages":[{"role":"system","content":"` + strings.Repeat("s", test.system) + `"},{"role":"user","content":"` + strings.Repeat("u", 9000) + `"},` +
			`{"role":"assistant","content":"` + strings.Repeat("a\\n", 4500) + `Goodbye"},{"role":"user","content":"Go"}]}`
		want := test.status
		if want == 200 {
			want = 504 // nobody answers
		}
		r.call("POST", "/v1/chat/completions", body).want(t, want)
		if want != 504 {
			continue
		}
		var list struct{ Items []struct{ Session string } }
		if err := json.Unmarshal(r.call("GET", "/api/sessions", "").body, &list); err != nil || len(list.Items) != 1 {
			t.Fatalf("%+v %v", list, err)
		}
		view := string(r.call("GET", "/api/sessions/"+list.Items[0].Session, "").want(t, 200).body)
		if has, room := strings.Contains(view, `Goodbye`), test.most > test.system+leastOfAHistory; has != room {
			t.Errorf("with %d of %d bytes it has the end of the history: %v", test.system, test.most, has)
		}
	}
}

// leastOfAHistory is what is worth to be told, with the words around it.
const leastOfAHistory = 400

// Of a task that was answered the response before is over: to cancel it leaves the one that works alone.
func TestOpenAICancelsNoLaterResponse(t *testing.T) {
	r := startOpenAI(t)
	asks := r.respond(`{"input":"Go","background":true}`)
	r.sessions.Model(asks.key(), machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
	works := r.respond(`{"input":"Here","background":true,"previous_response_id":"` + asks.ID + `"}`)
	refused := r.call("POST", "/v1/responses/"+asks.ID+"/cancel", "").want(t, 400)
	if now := r.retrieve(works.ID); now.Status != "in_progress" || !strings.Contains(string(refused.body), "response_not_cancellable") {
		t.Errorf("%s: %s", now.Status, refused.body)
	}
	for range 2 {
		if got := responseOf(t, r.call("POST", "/v1/responses/"+works.ID+"/cancel", "")); got.Status != "cancelled" {
			t.Errorf("%+v", got)
		}
	}
	// One that waits ends, and nothing else.
	waits := r.respond(`{"input":"Go","background":true}`)
	r.sessions.Model(waits.key(), machinetest.Call(conversation.ToolAsk, `{"question":"Where?"}`))
	for range 2 {
		r.call("POST", "/v1/responses/"+waits.ID+"/cancel", "").want(t, 200)
	}
}

// socketEvent is an event of a socket, as far as tests look at it.
type socketEvent struct {
	Type     string
	Stream   string `json:"stream_id"`
	Response struct {
		apiResponse
		Previous string `json:"previous_response_id"`
	}
	Steer struct {
		ID       string
		Previous string `json:"previous_response_id"`
		Input    json.RawMessage
	}
	Error struct{ Code string }
}

// steerSocket is a socket on which a response has begun. next is the next event of a type, "" = any;
// those between are passed over, but none that says what has become of a response or a steer.
func (r *rig) steerSocket(create string) (first socketEvent, steer func(of socketEvent, input string), next func(kind string) socketEvent) {
	say, event := r.socketOf()
	next = func(kind string) (e socketEvent) {
		r.t.Helper()
		for {
			text, err := event()
			if e = (socketEvent{}); err != nil || json.Unmarshal([]byte(text), &e) != nil {
				r.t.Fatalf("%s instead of %s: %v", text, kind, err)
			}
			switch {
			case e.Type == kind, kind == "":
				return e
			case strings.Contains(e.Type, "steer"), strings.HasSuffix(e.Type, "completed"), strings.HasSuffix(e.Type, "incomplete"), e.Type == "response.created", e.Type == "error":
				r.t.Fatalf("%s instead of %s", text, kind)
			}
		}
	}
	steer = func(of socketEvent, input string) {
		say(`{"type":"response.steer","previous_response_id":"` + of.Response.ID + `","input":` + input + `}`)
	}
	say(create)
	return next("response.created"), steer, next
}

// inputOf are the texts that were said to a response.
func (r *rig) inputOf(id string) string {
	r.t.Helper()
	var list struct {
		Data []struct{ Content []struct{ Text string } }
	}
	if err := json.Unmarshal(r.call("GET", "/v1/responses/"+id+"/input_items?order=asc", "").want(r.t, 200).body, &list); err != nil {
		r.t.Fatal(err)
	}
	var texts []string
	for _, item := range list.Data {
		texts = append(texts, item.Content[0].Text)
	}
	return strings.Join(texts, "|")
}

// A response that is steered ends where the model reads what was said, and the next one begins
// there: on the socket by itself, and in the log.
func TestOpenAISteer(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) { w.Rules.Policy.MaxNudges, w.Rules.Policy.Read = 0, policy.ReadAll })
	first, steer, next := r.steerSocket(`{"type":"response.create","input":"Go","stream_id":"lane","instructions":"Be brief"}`)
	steer(first, `"And that"`)
	accepted := next("response.steer.accepted")
	steer(first, `[{"role":"user","content":[{"type":"input_text","text":"And this"}]}]`)
	if second := next("response.steer.accepted"); accepted.Steer.ID == second.Steer.ID || accepted.Steer.Previous != first.Response.ID || accepted.Stream != "lane" {
		t.Errorf("%+v %+v", accepted, second)
	}
	r.sessions.Model(first.Response.key(), machinetest.Text("One"))
	ended, begun := next("response.incomplete"), next("response.created")
	if ended.Response.Incomplete == nil || ended.Response.Incomplete.Reason != "steered" || ended.Response.Output[0].Content[0].Text != "One" {
		t.Errorf("%+v", ended)
	}
	if begun.Response.Previous != first.Response.ID || begun.Stream != "lane" || begun.Response.ID == first.Response.ID {
		t.Errorf("%+v", begun)
	}
	steer(first, `"Too late"`)
	if e := next("response.steer.failed"); e.Error.Code != "response_already_completed" {
		t.Errorf("%+v", e)
	}
	steer(begun, `"Last"`)
	next("response.steer.accepted")
	r.sessions.Model(first.Response.key(), machinetest.Text("Two"))
	next("response.incomplete")
	last := next("response.created")
	r.sessions.Model(first.Response.key(), machinetest.Text("Three"))
	if e := next("response.completed"); e.Response.ID != last.Response.ID || len(e.Response.Output) != 1 || e.Response.Output[0].Content[0].Text != "Three" || e.Response.Previous != begun.Response.ID {
		t.Errorf("%+v", e)
	}
	for i, want := range []struct{ id, status, text, input string }{
		{first.Response.ID, "incomplete", "One", "Go"}, {begun.Response.ID, "incomplete", "Two", "And that|And this"}, {last.Response.ID, "completed", "Three", "Last"},
	} {
		got := r.retrieve(want.id)
		if input := r.inputOf(want.id); got.Status != want.status || len(got.Output) != 1 || got.Output[0].Content[0].Text != want.text || input != want.input {
			t.Errorf("%d: %v %+v", i, input, got)
		}
	}
	r.call("POST", "/v1/responses/"+first.Response.ID+"/cancel", "").want(t, 400)
}

// A completion has no word for a steer: it is all that the task says.
func TestOpenAISteerOfACompletion(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) { w.Rules.Policy.MaxNudges, w.Rules.Policy.Read = 0, policy.ReadAll })
	first, steer, next := r.steerSocket(`{"type":"response.create","input":"Go","metadata":{"session":"mine"}}`)
	told, said := make(chan string), make(chan struct{})
	r.sessions.Do(func() {
		r.sessions.Script = func(told gatewaytest.Told) (o gatewaytest.Outcome, ok bool) {
			if say, says := told.Command.(conversation.Say); says && say.Text == "More" {
				close(said)
			}
			return o, false
		}
	})
	go func() {
		told <- string(r.call("POST", "/v1/chat/completions", `{"metadata":{"session":"mine","mode":"steer"},"messages":[{"role":"user","content":"More"}]}`).body)
	}()
	<-said
	steer(first, `"And that"`)
	next("response.steer.accepted")
	r.sessions.Model(first.Response.key(), machinetest.Text("One"))
	next("response.incomplete")
	next("response.created")
	r.sessions.Model(first.Response.key(), machinetest.Text("Two"))
	next("response.completed")
	if body := <-told; !strings.Contains(body, `"content":"One\n\nTwo"`) || !strings.Contains(body, `"finish_reason":"stop"`) {
		t.Errorf("%s", body)
	}
}

// What a response does not read before it rests is a task of its own, and the next response.
func TestOpenAISteerLeftOver(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) { w.Rules.Policy.MaxNudges, w.Rules.Policy.Read = 0, policy.ReadAll })
	first, steer, next := r.steerSocket(`{"type":"response.create","input":"Go","tools":` + twoTools + `}`)
	for _, more := range []string{"And that", "And this"} {
		steer(first, `"`+more+`"`)
		next("response.steer.accepted")
	}
	r.sessions.Model(first.Response.key(), machinetest.Call("a", `{}`))
	next("response.completed")
	begun := next("response.created")
	if begun.Response.ID != "resp_t2-"+string(first.Response.key().Session) || begun.Response.Previous != first.Response.ID {
		t.Errorf("%+v", begun)
	}
	steer(first, `"Too late"`)
	if e := next("response.steer.failed"); e.Error.Code != "response_already_completed" || string(e.Steer.Input) != `"Too late"` || e.Steer.ID != "" {
		t.Errorf("%+v", e)
	}
	r.sessions.Model(first.Response.key(), machinetest.Text("Two"))
	if e := next("response.completed"); e.Response.ID != begun.Response.ID {
		t.Errorf("%+v", e)
	}
	if was, now := r.inputOf(first.Response.ID), r.inputOf(begun.Response.ID); was != "Go" || now != "And that|And this" {
		t.Errorf("they were said %q and %q", was, now)
	}
}

// A steer that is taken back before a model reads it comes back to the socket.
func TestOpenAISteerTakenBack(t *testing.T) {
	r := startOpenAI(t)
	first, steer, next := r.steerSocket(`{"type":"response.create","input":"Go"}`)
	steer(first, `"And that"`)
	accepted := next("response.steer.accepted")
	session, message := string(first.Response.key().Session), strings.TrimPrefix(accepted.Steer.ID, "steer_")
	r.call("DELETE", "/api/sessions/"+session+"/messages/"+message, "").want(t, 200)
	if e := next("response.steer.failed"); e.Steer.ID != accepted.Steer.ID || e.Error.Code != "successor_creation_failed" || string(e.Steer.Input) != `"And that"` {
		t.Errorf("%+v", e)
	}
	r.sessions.Model(first.Response.key(), machinetest.Text("One"))
	next("response.completed")
}

// A steer that cannot be taken is given back with the API's reason, and stores nothing.
func TestOpenAISteerRefused(t *testing.T) {
	r := startOpenAI(t, limits(func(l *gateway.Limits) { l.TextBytes = 100 }))
	first, steer, next := r.steerSocket(`{"type":"response.create","input":"Go"}`)
	queued := r.respond(`{"input":"Waits","background":true,"conversation":"` + first.Response.Conversation.ID + `"}`)
	of := func(id string) (e socketEvent) { e.Response.ID = id; return e }
	before := len(events(r, first.Response.key()))
	for _, test := range []struct {
		of          socketEvent
		input, code string
	}{
		{of("resp_t9-x"), `"x"`, "response_not_found"},
		{of("nonsense"), `"x"`, "response_not_found"},
		{of(first.Response.ID + ".99"), `"x"`, "response_not_found"},
		{of(queued.ID), `"x"`, "response_not_active"},
		{first, `7`, "invalid_input"},
		{first, `[]`, "invalid_input"},
		{first, `" "`, "invalid_input"},
		{first, `"` + strings.Repeat("x", 101) + `"`, "invalid_input"},
		{first, `[{"role":"system","content":"Be brief"},{"role":"user","content":"x"}]`, "invalid_input"},
		{first, `[{"role":"assistant","content":"y"},{"role":"user","content":"x"}]`, "invalid_input"},
		{first, `[{"type":"function_call_output","call_id":"call_c1-t1-x","output":"y"}]`, "invalid_input"},
		{first, `[{"role":"user","content":[{"type":"input_file","filename":"a.x","file_data":"data:application/x-none;base64,AAAA"}]}]`, "invalid_input"},
	} {
		steer(test.of, test.input)
		if e := next("response.steer.failed"); e.Error.Code != test.code || e.Steer.Previous != test.of.Response.ID || string(e.Steer.Input) != test.input {
			t.Errorf("%s %s: %+v", test.of.Response.ID, test.input, e)
		}
	}
	if now := len(events(r, first.Response.key())); now != before {
		t.Errorf("%d events became %d", before, now)
	}
	r.call("PATCH", "/api/sessions/"+string(first.Response.key().Session), `{"policy":{"inbox.max_queued":1}}`).want(t, 200)
	steer(first, `"x"`)
	if e := next("response.steer.failed"); e.Error.Code != "too_many_pending_steers" {
		t.Errorf("%+v", e)
	}
}

// A response can end while a steer is on its way. It is taken back, or, if a model reads it by then,
// it is the next response.
func TestOpenAISteerLate(t *testing.T) {
	for name, full := range map[string]bool{"taken back": true, "worked on": false} {
		t.Run(name, func(t *testing.T) {
			r := startOpenAI(t)
			first, steer, next := r.steerSocket(`{"type":"response.create","input":"Go","stream_id":"lane"}`)
			r.sessions.Play(func(w *machinetest.World) {
				r.sessions.Script = func(told gatewaytest.Told) (o gatewaytest.Outcome, ok bool) {
					if _, says := told.Command.(conversation.Say); says {
						w.Session(told.Key).Answer(machinetest.Text("One"))
						w.Rest()
						w.Full = full
					}
					return o, false
				}
			})
			steer(first, `"And that"`)
			wanted := []string{"response.completed", "response.steer.accepted", "response.created"}
			if full {
				wanted = []string{"response.completed", "response.steer.failed"}
			}
			said := map[string]socketEvent{}
			for len(said) < len(wanted) {
				if e := next(""); slices.Contains(wanted, e.Type) {
					said[e.Type] = e
				} else if strings.Contains(e.Type, "steer") {
					t.Fatalf("%+v", e)
				}
			}
			if e := said["response.steer.failed"]; full && e.Error.Code != "response_already_completed" {
				t.Errorf("%+v", e)
			}
			if e := said["response.created"]; !full && (e.Response.Previous != first.Response.ID || !strings.HasPrefix(e.Response.ID, "resp_t2-")) {
				t.Errorf("%+v", e)
			}
		})
	}
}

// A message that has joined a task is a response of its own. A steer that the same step reads is read
// with it, and does not end that response before it has an answer; a later one does.
func TestOpenAISteerOfWhatHasJoined(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) { w.Rules.Policy.MaxNudges, w.Rules.Policy.Read = 0, policy.ReadAll })
	first, steer, next := r.steerSocket(`{"type":"response.create","input":"Go"}`)
	joined := r.respond(`{"background":true,"conversation":"` + first.Response.Conversation.ID + `","metadata":{"mode":"steer"},"input":"More"}`)
	steer(first, `"And that"`)
	next("response.steer.accepted")
	r.sessions.Model(first.Response.key(), machinetest.Text("One"))
	next("response.incomplete")
	begun := next("response.created")
	if got := r.retrieve(joined.ID); got.Status != "in_progress" {
		t.Errorf("%+v", got)
	}
	if got := r.inputOf(joined.ID); got != "More|And that" {
		t.Errorf("it was said %q", got)
	}
	steer(begun, `"Last"`)
	next("response.steer.accepted")
	r.sessions.Model(first.Response.key(), machinetest.Text("Two"))
	next("response.incomplete")
	next("response.created")
	got := r.retrieve(joined.ID)
	if got.Status != "incomplete" || got.Incomplete.Reason != "steered" || got.Output[len(got.Output)-1].Content[0].Text != "Two" {
		t.Errorf("%+v", got)
	}
	r.sessions.Model(first.Response.key(), machinetest.Text("Three"))
	next("response.completed")
}

// Two responses of one task can be told on one socket. What they are steered to is one response, and
// is told once, in one of their lanes.
func TestOpenAISteerOfTwoOnOneSocket(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) { w.Rules.Policy.MaxNudges = 0 })
	say, event := r.socketOf()
	said := map[string]int{}
	read := func() (e socketEvent) {
		t.Helper()
		text, err := event()
		if err != nil || json.Unmarshal([]byte(text), &e) != nil {
			t.Fatalf("%s: %v behind %v", text, err, said)
		}
		said[e.Type+" "+e.Response.ID]++
		return e
	}
	next := func(kind string) (e socketEvent) {
		t.Helper()
		for e.Type != kind {
			e = read()
		}
		return e
	}
	say(`{"type":"response.create","input":"Go","metadata":{"session":"mine"},"stream_id":"a"}`)
	first := next("response.created").Response
	say(`{"type":"response.create","input":"More","metadata":{"session":"mine","mode":"steer"},"stream_id":"b"}`)
	second := next("response.created").Response
	r.sessions.Model(first.key(), machinetest.Text("One"))
	steer := func(of, input string) {
		say(`{"type":"response.steer","previous_response_id":"` + of + `","input":"` + input + `"}`)
		next("response.steer.accepted")
	}
	steer(second.ID, "And that")
	r.sessions.Model(first.key(), machinetest.Text("Two"))
	begun := next("response.created").Response
	steer(begun.ID, "Last")
	r.sessions.Model(first.key(), machinetest.Call("hi", `{}`))
	r.sessions.Model(first.key(), machinetest.Text("Three"))
	last := next("response.completed").Response
	for said["response.incomplete "+first.ID] == 0 || said["response.incomplete "+second.ID] == 0 {
		read()
	}
	say(`{"type":"response.create","input":"After","metadata":{"session":"mine"}}`)
	next("response.created")
	for _, id := range []string{first.ID, second.ID, begun.ID, last.ID} {
		ends := said["response.incomplete "+id] + said["response.completed "+id]
		if said["response.created "+id] != 1 || ends != 1 {
			t.Errorf("%s: %v", id, said)
		}
	}
}

// When a steer that has come late is worked on, and the socket has no lane left to tell what comes of
// it, the client hears that.
func TestOpenAISteerLateWithoutALane(t *testing.T) {
	r := startOpenAI(t, limits(func(l *gateway.Limits) { l.FollowsPerConnection = 1 }))
	_, steer, next := r.steerSocket(`{"type":"response.create","input":"Takes the lane"}`)
	var first socketEvent
	first.Response.apiResponse = r.respond(`{"input":"Go","background":true}`)
	r.sessions.Play(func(w *machinetest.World) {
		r.sessions.Script = func(told gatewaytest.Told) (o gatewaytest.Outcome, ok bool) {
			if _, says := told.Command.(conversation.Say); says {
				w.Session(told.Key).Answer(machinetest.Text("One"))
				w.Rest()
			}
			return o, false
		}
	})
	steer(first, `"And that"`)
	next("response.steer.accepted")
	if e := next("error"); e.Error.Code != "rate_limit_exceeded" {
		t.Errorf("%+v", e)
	}
}

// A request that is sent again before it is answered is one: its repetition does not put back what
// it sets.
func TestOpenAIRepeatedAtOnceSets(t *testing.T) {
	r := startOpenAI(t)
	first := r.respond(`{"input":"Go","background":true,"instructions":"Be brief"}`)
	r.call("PATCH", "/api/sessions/"+string(first.key().Session), `{"policy":{"inbox.max_queued":100}}`).want(t, 200)
	for i := range 20 {
		var all sync.WaitGroup
		n := strconv.Itoa(i)
		for range 4 {
			all.Go(func() {
				a := r.call("POST", "/v1/responses", `{"background":true,"input":"x","instructions":"Number `+n+`","conversation":"`+first.Conversation.ID+`"}`, "Idempotency-Key", n)
				if a.status != 200 {
					t.Errorf("%d %s", a.status, a.body)
				}
			})
		}
		all.Wait()
		if set := settingsOf(r, first.key()); !strings.Contains(set, `"Number `+n+`"`) {
			t.Fatalf("%s: it is set to %s", n, set)
		}
	}
}

// A client that has not steered, and has no socket, finds the rest of what it has asked for: each
// response that was steered names the next one, and each of them can be streamed, from anywhere in it.
func TestOpenAISteeredIsFoundAgain(t *testing.T) {
	r := startOpenAI(t)
	r.sessions.Play(func(w *machinetest.World) { w.Rules.Policy.MaxNudges = 0 })
	_, steer, next := r.steerSocket(`{"type":"response.create","input":"In another session"}`)
	asked := r.respond(`{"input":"Go","background":true}`)
	stream := func(id, after string) (events []string) {
		for event := range strings.SplitSeq(string(r.call("GET", "/v1/responses/"+id+"?stream=true"+after, "").want(t, 200).body), "\n\n") {
			if _, data, is := strings.Cut(event, "data: {"); is {
				events = append(events, "{"+data)
			}
		}
		return events
	}
	of := socketEvent{}
	of.Response.apiResponse = asked
	for _, text := range []string{"One", "Two", "Three"} {
		if text != "Three" {
			steer(of, `"More"`)
			next("response.steer.accepted")
		}
		r.sessions.Model(asked.key(), machinetest.Text(text))
		got := r.retrieve(of.Response.ID)
		if len(got.Output) != 1 || got.Output[0].Content[0].Text != text || (got.Status == "completed") != (text == "Three") {
			t.Errorf("%s: %+v", text, got)
		}
		whole := stream(got.ID, "")
		for i, event := range whole {
			var at struct {
				Number uint64 `json:"sequence_number"`
			}
			if err := json.Unmarshal([]byte(event), &at); err != nil {
				t.Fatalf("%s: %v", event, err)
			}
			if rest := stream(got.ID, "&starting_after="+strconv.FormatUint(at.Number, 10)); !slices.Equal(rest, whole[i+1:]) {
				t.Errorf("%s behind %s: %v", text, event, rest)
			}
		}
		if of.Response.ID = got.Metadata["parley.next"]; (of.Response.ID == "") != (text == "Three") {
			t.Fatalf("%s: %v", text, got.Metadata)
		}
	}
}

// Of two requests at once that answer the same calls, one is taken as a whole, and the other one not
// at all.
func TestOpenAIAnsweredAtOnce(t *testing.T) {
	r := startOpenAI(t)
	for range 20 {
		calls := r.respond(`{"input":"Go","background":true,"tools":` + twoTools + `}`)
		r.sessions.Model(calls.key(), machinetest.Call("a", `{}`), machinetest.Call("b", `{}`))
		calls = r.retrieve(calls.ID)
		var all sync.WaitGroup
		statuses := make([]int, 4)
		for i := range statuses {
			all.Go(func() {
				order := []string{calls.Output[i%2].CallID, calls.Output[1-i%2].CallID}
				var outputs []string
				for _, id := range order {
					outputs = append(outputs, `{"type":"function_call_output","call_id":"`+id+`","output":"`+strconv.Itoa(i)+`"}`)
				}
				statuses[i] = r.call("POST", "/v1/responses", `{"background":true,"input":[`+strings.Join(outputs, ",")+`],"tools":`+twoTools+`}`).status
			})
		}
		all.Wait()
		said := map[string]bool{}
		for _, e := range events(r, calls.key()) {
			if b, is := e.Body.(conversation.QuestionAnswered); is {
				said[b.Text] = true
			}
		}
		slices.Sort(statuses)
		if len(said) != 1 || !slices.Equal(statuses, []int{200, 409, 409, 409}) {
			t.Fatalf("%v: answered by %v", statuses, said)
		}
	}
}
