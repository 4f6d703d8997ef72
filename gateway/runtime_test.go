package gateway_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"
	"parley/gateway/waystest"
)

// What outside runtimes send and are answered. What becomes of it is the machine's
// business: docs/MACHINE.md, section 9.

// openOutside makes a session for runtimes.
func openOutside(r *rig, session string, owner conversation.UserID) conversation.SessionKey {
	key := gatewaytest.Key(session)
	r.sessions.Play(func(w *machinetest.World) {
		w.Tell(key, conversation.Create{Owner: owner, Agent: conversation.External}, nil)
	})
	return key
}

// scripted answers every command with o and keeps the last one.
func scripted(r *rig, o gatewaytest.Outcome) *conversation.Command {
	var last conversation.Command
	r.sessions.Script = func(t gatewaytest.Told) (gatewaytest.Outcome, bool) {
		last = t.Command
		return o, true
	}
	return &last
}

// M-08, M-12, M-13, M-14, N-17: every member of a part reaches the machine, and every
// answer the runtime.
// PROTOCOL.md, rules 8.7, 8.8.
func TestPartsAreReadAndAnswered(t *testing.T) {
	r := start(t)
	openOutside(r, "s1", "ann")
	told := scripted(r, gatewaytest.Outcome{Receipt: conversation.Receipt{Message: "p1-s1", Seq: 7, PartIndex: 2}})
	post := func(body string, headers ...string) answer {
		t.Helper()
		return r.call("POST", "/api/sessions/s1/parts", body, headers...)
	}
	for body, want := range map[string]conversation.AddPart{
		`{"source_id":"m1-s1","part_index":2,"generation":3,"text":"x"}`:           {Source: "m1-s1", Index: 2, Indexed: true, Generation: 3, Text: "x"},
		`{"source_id":"m1-s1","part_index":0,"text":"x"}`:                          {Source: "m1-s1", Indexed: true, Text: "x"},
		`{"source_id":"m1-s1","text":"x"}`:                                         {Source: "m1-s1", Text: "x"},
		`{"source_id":"m1-s1","final":true}`:                                       {Source: "m1-s1", Final: true},
		`{"source_id":"m1-s1","generation":4294967295,"final":true,"text":" "}`:    {Source: "m1-s1", Final: true, Generation: 4294967295, Text: " "},
		`{"source_id":"m1-s1","part_index":null,"generation":null,"text":"x"}`:     {Source: "m1-s1", Text: "x"},
		`{"text":"x","part_index":4}`:                                              {Text: "x"},
		`{"source_id":"` + strings.Repeat("s", 128) + `","text":"x"}`:              {Source: strings.Repeat("s", 128), Text: "x"},
		`{"source_id":"m1-s1","part_index":2147483647,"text":"x","future":[true]}`: {Source: "m1-s1", Index: 2147483647, Indexed: true, Text: "x"},
	} {
		post(body).want(t, 201)
		want.Author = "local"
		if !reflect.DeepEqual(*told, conversation.Command(want)) {
			t.Errorf("%s\n became %+v\n want   %+v", body, *told, want)
		}
	}
	post(`{"source_id":"m1-s1","text":"x"}`, "Idempotency-Key", "k").want(t, 201)
	if part, _ := (*told).(conversation.AddPart); part.ClientMsgID != "" {
		t.Errorf("a part with a source has the client's id %q", part.ClientMsgID)
	}
	post(`{"text":"x"}`, "Idempotency-Key", "k").want(t, 201)
	if part, _ := (*told).(conversation.AddPart); part.ClientMsgID != "\x01part:k" {
		t.Errorf("a plain part has the client's id %q", part.ClientMsgID)
	}
	for _, bad := range []string{
		``, `{}`, `{"final":false}`, `{"text":null}`, `{"text":"x","final":1}`, `{"text":"x","generation":0}`, `{"text":"x","generation":4294967296}`, `{"text":"x","generation":"1"}`,
		`{"text":"x","part_index":2147483648}`, `{"text":"x","source_id":"` + strings.Repeat("s", 129) + `"}`,
	} {
		post(bad).problem(t, 400, "bad_request")
	}
	for name, x := range map[string]struct {
		receipt conversation.Receipt
		status  int
		body    string
	}{
		"new":            {conversation.Receipt{Message: "p1-s1", Seq: 7, PartIndex: 2}, 201, `{"message":"p1-s1","seq":7,"part_index":2,"duplicate":false}`},
		"again":          {conversation.Receipt{Message: "p1-s1", Seq: 7, PartIndex: 2, Duplicate: true}, 200, `{"message":"p1-s1","seq":7,"part_index":2,"duplicate":true}`},
		"another text":   {conversation.Receipt{Message: "p1-s1", Seq: 7, Duplicate: true, OtherText: true}, 200, `{"message":"p1-s1","seq":7,"part_index":0,"duplicate":true,"same_text":false}`},
		"blank":          {conversation.Receipt{Ignored: true}, 204, ``},
		"without a word": {conversation.Receipt{Seq: 9}, 204, ``},
	} {
		scripted(r, gatewaytest.Outcome{Receipt: x.receipt})
		if a := post(`{"source_id":"m1-s1","text":"x","final":true}`).want(t, x.status); string(a.body) != x.body {
			t.Errorf("%s: %s", name, a.body)
		}
	}
}

// M-16: a part that leaves a gap is refused and told which one is next, of a message as
// of a source that is kept apart.
// PROTOCOL.md, rule 8.7.
func TestPartsLeaveNoGap(t *testing.T) {
	r := start(t)
	key := openOutside(r, "s1", "local")
	r.sessions.Play(func(w *machinetest.World) {
		w.Tell(key, conversation.Say{Author: "local", ClientMsgID: "a", Text: "hello"}, nil)
	})
	for _, source := range []string{"m1-s1", "ticket-7"} {
		post := func(index int) answer {
			t.Helper()
			return r.call("POST", "/api/sessions/s1/parts", fmt.Sprintf(`{"source_id":%q,"part_index":%d,"text":"x"}`, source, index))
		}
		for _, x := range []struct{ index, status, next int }{{2, 409, 0}, {0, 201, 0}, {2, 409, 1}, {1, 201, 0}, {2, 201, 0}, {2, 200, 0}, {2147483647, 409, 3}} {
			a := post(x.index)
			if x.status != 409 {
				a.want(t, x.status)
				continue
			}
			if a.problem(t, 409, "conflict"); !strings.Contains(string(a.body), fmt.Sprintf(`"next_part":%d`, x.next)) {
				t.Errorf("part %d of %s: %s, want next_part %d", x.index, source, a.body, x.next)
			}
		}
	}
}

// N-17: read, alive, failed.
// PROTOCOL.md, rule 8.7b.
func TestRuntimeStatusRoute(t *testing.T) {
	r := start(t)
	openOutside(r, "s1", "ann")
	until := gatewaytest.Epoch.Add(10 * time.Minute)
	told := scripted(r, gatewaytest.Outcome{Receipt: conversation.Receipt{Generation: 2, Until: until}})
	post := func(body string, headers ...string) answer {
		t.Helper()
		return r.call("POST", "/api/sessions/s1/messages/m1-s1/runtime", body, headers...)
	}
	for body, want := range map[string]conversation.RuntimeSays{
		`{"status":"read","generation":2}`:                                      {Status: conversation.RuntimeRead, Generation: 2},
		`{"status":"alive","generation":2,"error":"none","permanent":true}`:     {Status: conversation.RuntimeAlive, Generation: 2},
		`{"status":"failed","generation":2,"error":"no tool","permanent":true}`: {Status: conversation.RuntimeFailed, Generation: 2, Error: "no tool", Permanent: true},
		`{"status":"failed"}`: {Status: conversation.RuntimeFailed},
		`{"status":"failed","generation":1,"error":"` + strings.Repeat("e", 512) + `"}`: {Status: conversation.RuntimeFailed, Generation: 1, Error: strings.Repeat("e", 512)},
	} {
		a := post(body, "Idempotency-Key", "k").want(t, 200)
		if got, want := string(a.body), `{"generation":2,"until":"`+until.Format("2006-01-02T15:04:05.000Z")+`"}`; got != want {
			t.Errorf("%s: %s, want %s", body, got, want)
		}
		want.Message = "m1-s1"
		if !reflect.DeepEqual(*told, conversation.Command(want)) {
			t.Errorf("%s\n became %+v\n want   %+v", body, *told, want)
		}
	}
	scripted(r, gatewaytest.Outcome{Receipt: conversation.Receipt{Generation: 2}})
	if a := post(`{"status":"alive","generation":2}`).want(t, 200); string(a.body) != `{"generation":2}` {
		t.Errorf("a lease without an end: %s", a.body)
	}
	for _, bad := range []string{
		``, `{}`, `{"status":"handed_out"}`, `{"status":"gone"}`, `{"status":1}`, `{"status":"alive","generation":0}`, `{"status":"alive","generation":1.5}`,
		`{"status":"failed","error":"` + strings.Repeat("e", 513) + `"}`, `{"status":"failed","permanent":"yes"}`,
	} {
		post(bad).problem(t, 400, "bad_request")
	}
	post(`{"status":"alive"}`, "Idempotency-Key", strings.Repeat("k", 256)).problem(t, 400, "bad_request")
}

// A refusal tells a runtime where it stands, over HTTP as over a socket.
// PROTOCOL.md, rule 8.7c.
func TestRuntimeIsToldWhereItStands(t *testing.T) {
	r := start(t)
	openOutside(r, "s1", "local")
	c := gatewaytest.Connect(t, r.addr)
	next := conversation.PartIndex(0)
	for want, e := range map[string]*conversation.Error{
		`"next_part":0`:             {NextPart: &next},
		`"generation":3`:            {Generation: 3},
		`"task_status":"CANCELLED"`: {TaskStatus: conversation.TaskCancelled},
		`"task_status":"COMPLETE","next_part":0,"generation":3`: {TaskStatus: conversation.TaskComplete, NextPart: &next, Generation: 3},
	} {
		e.Code, e.Message = conversation.Conflict, "no"
		scripted(r, gatewaytest.Outcome{Err: e})
		for _, path := range []string{"/api/sessions/s1/parts", "/api/sessions/s1/messages/m1/runtime"} {
			a := r.call("POST", path, `{"source_id":"m1","text":"x","status":"alive","generation":1}`).problem(t, 409, "conflict")
			if !strings.Contains(string(a.body), want) || strings.Count(string(a.body), "next_part")+strings.Count(string(a.body), `"generation"`)+strings.Count(string(a.body), "task_status") != strings.Count(want, `":`) {
				t.Errorf("%s: %s, want %s alone", path, a.body, want)
			}
		}
		if f := c.Do("send", "s1", obj{"client_msg_id": "a", "text": "x"}); f.Error == nil || !strings.Contains(string(f.Raw), want) {
			t.Errorf("over the socket: %s, want %s", f.Raw, want)
		}
	}
}

var handed = []conversation.HandedOut{
	{Key: gatewaytest.Key("s1"), Message: "m1-s1", Author: "ann", Text: "Fix it", Generation: 1, Until: gatewaytest.Epoch.Add(time.Minute)},
	{Key: gatewaytest.Key("s2"), Message: "m7-s2", Author: "bob", Text: "…and this", Generation: 3, NextPart: 2},
}

var handedJSON = `{"items":[{"session":"s1","message":"m1-s1","text":"Fix it","author":"ann","generation":1,"until":"` + gatewaytest.Epoch.Add(time.Minute).Format("2006-01-02T15:04:05.000Z") +
	`","next_part":0,"context_url":"/api/sessions/s1/messages"},{"session":"s2","message":"m7-s2","text":"…and this","author":"bob","generation":3,"next_part":2,"context_url":"/api/sessions/s2/messages"}]}`

// N-17: a claim by the route and by the socket is the same.
// PROTOCOL.md, rules 2.14, 8.7a.
func TestClaim(t *testing.T) {
	r := start(t)
	var asked conversation.ClaimRequest
	var outcome []conversation.HandedOut
	var failure error
	r.sessions.Claims = func(_ context.Context, c conversation.ClaimRequest) ([]conversation.HandedOut, error) {
		asked = c
		return outcome, failure
	}
	c := gatewaytest.Connect(t, r.addr)
	// both claims in both ways; the error's code is "" when there is none.
	both := func(body string) (answers [2]string, code [2]string) {
		t.Helper()
		a := r.call("POST", "/api/runtime/claim", body, "Idempotency-Key", "k")
		if answers[0] = string(a.body); a.status != 200 {
			code[0] = a.get(t, "code")
		}
		c.Write(`{"type":"claim","id":"` + fmt.Sprint(len(body)) + `","data":` + body + `}`)
		f := c.Read()
		if answers[1] = string(f.Data); f.Error != nil {
			code[1] = f.Error.Code
		}
		return answers, code
	}
	outcome = handed
	long := strings.Repeat("r", 128)
	for body, want := range map[string]conversation.ClaimRequest{
		`{"runtime":"r"}`: {Runtime: "r", Limit: 1},
		`{"runtime":"r","agent":"outside","limit":100,"wait":"30s"}`:      {Runtime: "r", Agent: "outside", Limit: 100, Wait: 30 * time.Second},
		`{"runtime":"r","agent":"outside:ops","limit":101,"wait":"31s"}`:  {Runtime: "r", Agent: "outside:ops", Limit: 100, Wait: 30 * time.Second},
		`{"runtime":"` + long + `","agent":null,"limit":null,"wait":"0"}`: {Runtime: conversation.RuntimeName(long), Limit: 1},
	} {
		answers, code := both(body)
		if code != [2]string{} || answers[0] != handedJSON || answers[1] != handedJSON {
			t.Errorf("%s\n was answered %v %s", body, code, answers)
		}
		want.Tenant = "default"
		if asked != want {
			t.Errorf("%s\n became %+v\n want   %+v", body, asked, want)
		}
	}
	outcome = nil
	if answers, code := both(`{"runtime":"r"}`); code != [2]string{} || answers != [2]string{`{"items":[]}`, `{"items":[]}`} {
		t.Errorf("nothing waits: %v %s", code, answers)
	}
	for _, bad := range []string{
		`{}`, `{"runtime":" "}`, `{"runtime":7}`, `{"runtime":"r` + long + `"}`, `{"runtime":"r","agent":"coordinator"}`, `{"runtime":"r","agent":"outsider"}`,
		`{"runtime":"r","limit":0}`, `{"runtime":"r","limit":"5"}`, `{"runtime":"r","wait":"soon"}`, `{"runtime":"r","wait":"-1s"}`, `{"runtime":"r","wait":30}`,
	} {
		if answers, code := both(bad); code != [2]string{"bad_request", "bad_request"} {
			t.Errorf("%s\n was answered %v %s", bad, code, answers)
		}
	}
	for _, x := range []struct {
		err  error
		code string
	}{
		{conversation.Errorf(conversation.Unavailable, "no"), "unavailable"}, {conversation.ErrFull, "storage_full"}, {errTest, "internal"},
	} {
		failure = x.err
		if _, code := both(`{"runtime":"r"}`); code != [2]string{x.code, x.code} {
			t.Errorf("%v became %v", x.err, code)
		}
	}
}

// A connection has one claim at a time, its end takes the claim along, and so does a
// drain, on both ways: nobody waits for a claim that waits.
// PROTOCOL.md, rule 2.14.
func TestWaitingClaimsEnd(t *testing.T) {
	r := start(t)
	waiting, ended := make(chan struct{}, 1), make(chan error, 1)
	r.sessions.Claims = func(ctx context.Context, _ conversation.ClaimRequest) ([]conversation.HandedOut, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		ended <- ctx.Err()
		return nil, ctx.Err()
	}
	first := gatewaytest.Connect(t, r.addr)
	first.Send("claim", "", obj{"runtime": "r", "wait": "30s"})
	<-waiting
	if f := first.Do("claim", "", obj{"runtime": "r"}); f.Error == nil || f.Error.Code != "conflict" {
		t.Errorf("a second claim on a connection: %s", f.Raw)
	}
	if f := first.Do("ping", "", nil); f.Type != "ok" {
		t.Errorf("a connection that claims cannot do anything else: %s", f.Raw)
	}
	_ = first.WS.CloseNow()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("with its connection a claim ends by %v", err)
	}

	second := gatewaytest.Connect(t, r.addr)
	second.Send("claim", "", obj{"runtime": "r", "wait": "30s"})
	<-waiting
	status := make(chan int, 1)
	go func() {
		response, err := http.Post("http://"+r.addr+"/api/runtime/claim", "application/json", strings.NewReader(`{"runtime":"q","wait":"30s"}`))
		if err != nil {
			status <- 0
			return
		}
		_ = response.Body.Close()
		status <- response.StatusCode
	}()
	<-waiting
	stopped := make(chan error, 1)
	go func() { stopped <- r.stop() }()
	if code, _, _ := second.Closed(); code != 1012 {
		t.Errorf("closed with %d", code)
	}
	if err := errors.Join(<-ended, <-ended); !errors.Is(err, context.Canceled) {
		t.Errorf("in a drain claims end by %v", err)
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	if got := <-status; got != http.StatusServiceUnavailable {
		t.Errorf("in a drain a claim is answered %d", got)
	}
}

// keyring is keys by their token: each is a user of a tenant with scopes.
type keyring = waystest.Keyring

// N-17, M-25: the scope runtime reads, claims and answers in every outside session of its
// tenant and in no other, and a key without it in none.
// PROTOCOL.md, rule 9.3a.
func TestRuntimeScope(t *testing.T) {
	scopes := func(s ...string) []string { return s }
	r := start(t, withAuth(keyring{
		"chat":    {Tenant: "default", User: "ann", Scopes: scopes("chat", "read:tools")},
		"runtime": {Tenant: "default", User: "worker", Scopes: scopes("runtime")},
		"both":    {Tenant: "default", User: "bob", Scopes: scopes("chat", "runtime")},
		"foreign": {Tenant: "other", User: "worker", Scopes: scopes("runtime")},
		"owner":   {Tenant: "default", User: "ann", Scopes: scopes("runtime")}, // of ours, but for runtimes alone
	}), func(c *gateway.Config, _ *gateway.Deps) {})
	openOutside(r, "out", "ann")
	r.sessions.Open("ours", "ann")
	r.sessions.Open("bobs", "bob")
	routes := []struct{ name, method, path, body string }{
		{"read", "GET", "", ""},
		{"messages", "GET", "/messages", ""},
		{"events", "GET", "/events", ""},
		{"part", "POST", "/parts", `{"source_id":"m9","part_index":0,"text":"x"}`},
		{"status", "POST", "/messages/m9/runtime", `{"status":"alive","generation":1}`},
		{"say", "POST", "/messages", `{"text":"x"}`},
		{"patch", "PATCH", "", `{"title":"x"}`},
		{"cancel", "POST", "/cancel", ""},
		{"erase", "DELETE", "", ""},
	}
	// By key and session: the statuses of the routes above, in their order. What the
	// machine is asked is answered 200.
	scripted(r, gatewaytest.Outcome{Receipt: conversation.Receipt{Message: "p1", Seq: 2, Duplicate: true, Generation: 1, Disposition: conversation.Started, Task: "t1-out", OldStatus: conversation.TaskRunning}})
	for who, want := range map[string][]int{
		"runtime out":  {200, 200, 200, 200, 200, 403, 403, 403, 403},
		"runtime ours": {404, 404, 404, 404, 404, 403, 403, 403, 403},
		"runtime none": {404, 404, 404, 404, 404, 403, 403, 403, 403},
		"foreign out":  {404, 404, 404, 404, 404, 403, 403, 403, 403},
		"owner ours":   {404, 404, 404, 404, 404, 403, 403, 403, 403},
		"owner out":    {200, 200, 200, 200, 200, 403, 403, 403, 403},
		"chat out":     {200, 200, 200, 403, 403, 202, 200, 202, 204},
		"both out":     {200, 200, 200, 200, 200, 404, 404, 404, 404},
		"both ours":    {404, 404, 404, 404, 404, 404, 404, 404, 404},
		"both bobs":    {200, 200, 200, 200, 200, 202, 200, 202, 204},
	} {
		token, session, _ := strings.Cut(who, " ")
		for i, x := range routes {
			if want[i] == 204 {
				continue // it would be gone for the others
			}
			if a := r.call(x.method, "/api/sessions/"+session+x.path, x.body, "Authorization", "Bearer "+token); a.status != want[i] {
				t.Errorf("%s: %s is answered %d, want %d: %s", who, x.name, a.status, want[i], a.body)
			}
		}
		if status := r.streamStatus("/api/sessions/"+session+"/stream", token); status != want[0] {
			t.Errorf("%s: the stream is answered %d, want %d", who, status, want[0])
		}
		c := gatewaytest.Dial(t, r.addr)
		c.Do("hello", "", obj{"proto": 1, "token": token})
		code := map[int]string{200: "", 404: "not_found"}[want[0]]
		got := ""
		if f := c.Do("follow", session, obj{"since": 0}); f.Error != nil {
			got = f.Error.Code
		}
		if got != code {
			t.Errorf("%s: follow is answered %q, want %q", who, got, code)
		}
		claim := c.Do("claim", "", obj{"runtime": "r"})
		if (claim.Error == nil) != (token != "chat") || claim.Error != nil && claim.Error.Code != "forbidden" {
			t.Errorf("%s: claim is answered %s", who, claim.Raw)
		}
		f := c.Do("send", session, obj{"client_msg_id": "a", "text": "x"})
		if forbidden := f.Error != nil && f.Error.Code == "forbidden"; forbidden != (want[5] == 403) {
			t.Errorf("%s: send is answered %s", who, f.Raw)
		}
		_ = c.WS.CloseNow()
	}
	for token, want := range map[string]int{"chat": 403, "runtime": 200, "both": 200, "foreign": 200, "nobody": 401} {
		r.call("POST", "/api/runtime/claim", `{"runtime":"r"}`, "Authorization", "Bearer "+token).want(t, want)
	}
}

// streamStatus opens a stream and closes it at once.
func (r *rig) streamStatus(path, token string) int {
	r.t.Helper()
	request, err := http.NewRequest("GET", "http://"+r.addr+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+token)
	response, err := r.http.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}
