//go:build e2e

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"parley/gateway/telegram/telegramtest"
)

// A scene is what the dashboards show in the test: a server with every kind of
// neighbour, and two nodes of a cluster.
type scene struct {
	t      *testing.T
	solo   *live
	nodes  []*live
	person *telegramPerson
	round  int
	taker  string // the address of who takes what is posted
	old    string // a session that lives through all rounds
	seq    int
}

// sceneConfig is the configuration of the server that is alone.
const sceneConfig = `
[metrics]
tenant_label = true
[context]
budget = 12000
threshold = 8000
keep = 1000
summary = 200
[titles]
model = "plain"
[models.plain]
provider = "scripted"
token_delay = "0s"
price = { input = 2.5, output = 10.0 }
rate = "100/s"
max_concurrent = 20
[models.broken]
provider = "openai"
api = "chat"
model = "m"
base_url = "http://127.0.0.1:1"
context = 16000
fallback = ["plain"]
[models.shell]
provider = "command"
command = "sh"
args = ["-c", "echo the shell says hello", "agent"]
[[agents]]
name = "cheap"
prompt = "You help."
model = "plain"
[[agents]]
name = "unlucky"
prompt = "You help."
model = "broken"
[[agents]]
name = "shell"
prompt = "You help."
model = "shell"
[[mcp]]
name = "hello"
command = %q
env = { %q = "forms" }
allow = ["greet", "order"]
never = ["greet", "order"]
prefix = "hi_"
[[mcp]]
name = "gone"
command = "no-such-program"
[[chats.webhooks]]
name = "crm"
url = %q
secret_file = %q
allow_private = true
[[chats.webhooks]]
name = "old"
url = %q
secret_file = %q
allow_private = true
[push]
hosts = ["127.0.0.1"]
private = true
[backup]
dir = %q
every = "1h"
`

func newScene(t *testing.T) *scene {
	t.Helper()
	s := &scene{t: t}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	taker := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(io.Discard, r.Body) }))
	t.Cleanup(taker.Close)
	s.taker = taker.URL
	gone := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusGone) }))
	t.Cleanup(gone.Close)
	platform := telegramtest.Start()
	t.Cleanup(platform.Close)
	s.person = &telegramPerson{f: platform}
	args, environ := s.person.settings()
	for _, one := range environ {
		name, value, _ := strings.Cut(one, "=")
		t.Setenv(name, value)
	}
	secret := secretFile(t, "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw")
	config := fmt.Sprintf(sceneConfig, self, mcpVariable, taker.URL, secret, gone.URL, secret, t.TempDir())
	if !strings.Contains(document(t, "../config.toml"), "\n[backup]\n") {
		config, _, _ = strings.Cut(config, "[backup]")
	}
	s.solo = spawn(t, t.TempDir(), append(args, "--config", write(t, config), "--set", "limits.commands_per_second=0",
		"--set", "admission.max_concurrent=2", "--set", "retry.backoff_min=10ms", "--set", "retry.backoff_max=20ms")...)
	hooks := write(t, fmt.Sprintf("[[chats.webhooks]]\nname = \"crm\"\nurl = %q\nsecret_file = %q\nallow_private = true\n", taker.URL, secret))
	s.nodes = clustered(t, 2, "--config", hooks)
	return s
}

// id is another one with each call.
func (s *scene) id() string {
	s.seq++
	return fmt.Sprint("c", s.seq)
}

// post sends JSON to the server that is alone and wants one of these statuses.
func (s *scene) post(path, body string, want ...int) []byte {
	s.t.Helper()
	status, got := s.solo.do("POST", path, body)
	for _, one := range want {
		if status == one {
			return got
		}
	}
	s.t.Fatalf("POST %s %s: %d %s, want %v", path, body, status, got, want)
	return nil
}

// session makes a session for an agent over HTTP.
func (s *scene) session(agent string) string {
	s.t.Helper()
	var made struct{ Session string }
	if err := json.Unmarshal(s.post("/api/sessions", fmt.Sprintf(`{"agent":%q}`, agent), 200, 201), &made); err != nil {
		s.t.Fatal(err)
	}
	return made.Session
}

// ask sends a message over HTTP and waits for what becomes of it.
func (s *scene) ask(session, text string) string {
	s.t.Helper()
	body, _ := json.Marshal(map[string]any{"text": text, "client_msg_id": s.id()})
	return string(s.post("/api/sessions/"+session+"/messages?wait=30s", string(body), 200, 202))
}

// load is a little of everything that the server can do.
func (s *scene) load() {
	s.t.Helper()
	s.round++
	for _, part := range []struct {
		name string
		do   func()
	}{{"conversation", s.conversation}, {"admission", s.admission}, {"http", s.http}, {"chat", s.chat}, {"runtime", s.runtime}, {"cluster", s.cluster}} {
		began := time.Now()
		part.do()
		s.t.Logf("round %d, %s: %s", s.round, part.name, time.Since(began).Round(time.Millisecond))
	}
}

// conversation uses a socket: modes, questions, tools, delegations, failures.
func (s *scene) conversation() {
	s.t.Helper()
	u := s.solo.user("deltas", "html")
	defer u.ws.CloseNow()
	u.ask("watch", "", map[string]any{})
	u.ask("watch_chats", "", map[string]any{})
	if s.old == "" {
		s.old = u.create(nil)
	}
	u.follow(s.old, s.round) // a resume, from the second round on
	say := func(session, text string, more ...string) map[string]any {
		data := map[string]any{"client_msg_id": s.id(), "text": text}
		if len(more) > 0 {
			data["mode"] = more[0]
		}
		return u.ask("send", session, data)
	}
	turn := func(text string) {
		say(s.old, text)
		u.until(done)
	}
	turn("/stream 20 word\n/partial **half** of it\n/say the rest of it, `with code`")
	turn("/tool clock {}\n/say $result")
	turn(`/tool hi_greet {"name":"Max"}` + "\n/say $result")
	turn("/delegate researcher /say found && /say again\n/say $result")
	turn("/delegate nobody /say x\n/say $result")
	turn("/fail 500 1\n/say at last")
	turn("/say " + strings.Repeat("long ", 1500)) // until it is summarised
	// A question, answered by a button, and a form of an MCP server, which is cancelled.
	say(s.old, "/ask Which one? [A/B]\n/say You chose $reply")
	seen := u.until(is("question"))
	question := seen[len(seen)-1].text("question")
	u.ask("answer", s.old, map[string]any{"client_msg_id": s.id(), "question": question, "text": "A"})
	u.until(done)
	say(s.old, `/tool hi_order {"name":"x"}`+"\n/say $result")
	u.until(is("question"))
	u.ask("cancel", s.old, map[string]any{})
	u.until(done)
	// Inbox modes, on a session of their own each.
	for _, mode := range []string{"steer", "queue", "collect", "interrupt", "reject"} {
		session := u.create(map[string]any{"client_session_id": fmt.Sprint(mode, s.round)})
		u.follow(session, 0)
		say(session, "/wait 300ms\n/say one")
		second := map[string]any{"client_msg_id": s.id(), "text": "/say two", "mode": mode}
		if f := u.try("send", session, second); f.Type == "ok" {
			u.ask("send", session, second) // a duplicate
		}
		u.until(done)
		u.ask("unfollow", session, map[string]any{})
	}
	// Read and not answered: a nudge, and a receipt that says so.
	ignored := u.create(nil)
	u.follow(ignored, 0)
	say(ignored, "/ignore")
	u.until(done)
	u.ask("typing", ignored, map[string]any{"on": true})
	u.try("send", ignored, map[string]any{"client_msg_id": "", "text": ""}) // refused
	u.try("answer", ignored, map[string]any{"client_msg_id": s.id(), "question": "q1", "text": "late"})
	u.ask("seen", ignored, map[string]any{"seq": 1})
}

// admission starts more tasks than may run at once, so that one waits for a slot.
func (s *scene) admission() {
	s.t.Helper()
	u := s.solo.user()
	defer u.ws.CloseNow()
	for range 3 {
		session := u.create(nil)
		u.follow(session, 0)
		u.send(session, s.id(), "/wait 100ms\n/say done")
	}
	for range 3 {
		u.until(done)
	}
}

// http uses the routes: messages, uploads, searches, lists, streams, backups.
func (s *scene) http() {
	s.t.Helper()
	session := s.session("cheap")
	s.ask(session, "/say by HTTP")
	s.ask(session, "/say "+strings.Repeat("more ", 1200))
	s.ask(s.session("unlucky"), "hello")
	s.ask(s.session("shell"), "hello")
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	s.post("/a2a/message:send", fmt.Sprintf(`{"message":{"messageId":%q,"role":"ROLE_USER","parts":[{"text":"/say pushed"}]},"configuration":{"taskPushNotificationConfig":{"url":%q}}}`, s.id(), s.taker), 200)
	stream, err := http.NewRequestWithContext(ctx, "GET", "http://"+s.solo.addr+"/api/sessions/"+session+"/stream?since=0", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	opened, err := http.DefaultClient.Do(stream)
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := io.ReadAtLeast(opened.Body, make([]byte, 64), 64); err != nil {
		s.t.Fatal(err)
	}
	opened.Body.Close()
	upload, err := http.NewRequestWithContext(ctx, "POST", "http://"+s.solo.addr+"/api/sessions/"+session+"/blobs?name=notes.txt", strings.NewReader(fmt.Sprint("notes of round ", s.round)))
	if err != nil {
		s.t.Fatal(err)
	}
	upload.Header.Set("Content-Type", "text/plain")
	answer, err := http.DefaultClient.Do(upload)
	if err != nil {
		s.t.Fatal(err)
	}
	var file struct{ Hash string }
	err = json.NewDecoder(answer.Body).Decode(&file)
	answer.Body.Close()
	if err != nil || answer.StatusCode/100 != 2 {
		s.t.Fatalf("upload: %d %v", answer.StatusCode, err)
	}
	body, _ := json.Marshal(map[string]any{"text": "/say I see a file", "client_msg_id": s.id(), "attachments": []map[string]string{{"hash": file.Hash, "name": "notes.txt"}}})
	s.post("/api/sessions/"+session+"/messages?wait=30s", string(body), 200, 202)
	for _, path := range []string{"/api/sessions", "/api/tasks", "/api/sessions/" + session + "/events", "/api/sessions?in=messages&q=" + url.QueryEscape("round HTTP"), "/api/sessions/absent"} {
		s.solo.do("GET", path, "")
	}
	s.post("/api/sessions/"+session+"/messages", `{"text":"`+strings.Repeat("x", 3<<20)+`"}`, 413) // refused
	s.post("/admin/backup", fmt.Sprintf(`{"dest":%q}`, s.t.TempDir()+"/copy"), 200, 201, 204)
	s.solo.do("DELETE", "/api/sessions/"+s.session("cheap"), "")
}

// chat speaks on a chat platform; webhooks hear of it.
func (s *scene) chat() {
	s.t.Helper()
	s.person.say("/help")
	s.person.say(fmt.Sprintf("What is %d + 1?", s.round))
	wait(s.t, s.person, fmt.Sprint(s.round+1))
	s.person.again()
}

// runtime plays an outside runtime.
func (s *scene) runtime() {
	s.t.Helper()
	session := s.session("outside")
	body := fmt.Sprintf(`{"text":"What is new?","client_msg_id":%q}`, s.id())
	s.post("/api/sessions/"+session+"/messages", body, 200, 202)
	var claimed struct {
		Items []struct {
			Message    string
			Generation int
		}
	}
	if err := json.Unmarshal(s.post("/api/runtime/claim", `{"runtime":"r1","wait":"10s"}`, 200), &claimed); err != nil || len(claimed.Items) == 0 {
		s.t.Fatalf("nothing was claimed: %v", err)
	}
	source := claimed.Items[0].Message
	part := func(index int, final bool, want ...int) {
		s.post("/api/sessions/"+session+"/parts", fmt.Sprintf(`{"source_id":%q,"part_index":%d,"generation":%d,"text":"part","final":%v}`, source, index, claimed.Items[0].Generation, final), want...)
	}
	part(0, false, 200, 201, 202)
	part(5, false, 409) // too early
	part(1, true, 200, 201, 202)
}

// cluster speaks to sessions at either node from both.
func (s *scene) cluster() {
	s.t.Helper()
	for i, node := range s.nodes {
		there := s.nodes[1-i]
		for range 4 {
			u, far := node.user("deltas"), there.user("deltas")
			session := u.create(map[string]any{"access": "tenant"})
			u.follow(session, 0)
			far.follow(session, 0)
			far.send(session, s.id(), "/stream 5 word\n/say from afar")
			u.until(done)
			far.until(done)
			u.ws.CloseNow()
			far.ws.CloseNow()
		}
	}
}
