package main

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"parley/conversation/policy"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"
)

// N-12: the whole engine runs with no key and no other server; D-12: exactly one
// response, and the task's end after it.
func TestFirstTurn(t *testing.T) {
	l := start(t, t.TempDir())
	u := l.user()
	if u.hello["model"] != "scripted" || u.hello["user"] != "local" || u.hello["limits"] == nil {
		t.Errorf("hello: %v", u.hello)
	}
	s := u.create(map[string]any{"title": "first"})
	if got := u.follow(s, 0); len(got) != 1 || got[0].Type != "session_created" || got[0].text("agent") != "coordinator" {
		t.Fatalf("a new session: %s", shown(got))
	}
	ok := u.send(s, "a", "/say hello")
	if ok["disposition"] != "started" || ok["duplicate"] != false {
		t.Errorf("send: %v", ok)
	}
	events := u.until(done)
	gapless(t, durable(events), 2)
	responses := of(events, "response")
	if len(responses) != 1 || responses[0].text("text") != "hello" || responses[0].text("in_reply_to") != ok["message"] {
		t.Errorf("responses: %s", shown(responses))
	}
	if again := u.send(s, "a", "/say hello"); again["duplicate"] != true || again["message"] != ok["message"] {
		t.Errorf("the same message again: %v", again)
	}
	if conflict := u.try("send", s, map[string]any{"client_msg_id": "a", "text": "other"}); conflict.Error == nil || conflict.Error.Code != "conflict" {
		t.Errorf("the same id with another text: %s", conflict.raw)
	}
	l.stop()
	out := l.out.String()
	for _, want := range []string{"http://" + l.addr, "scripted demo model: rules, not AI"} {
		if !strings.Contains(out, want) {
			t.Errorf("the server did not print %q but\n%s", want, out)
		}
	}
}

// N-01, N-03: what was acknowledged is there after a restart, byte for byte.
func TestRestartFindsEverything(t *testing.T) {
	data := t.TempDir()
	l := start(t, data)
	u := l.user()
	s := u.create(map[string]any{"client_session_id": "mine", "title": "kept"})
	u.follow(s, 0)
	for i := range 3 {
		u.send(s, fmt.Sprint(i), "/parts one | two\n/tool clock {}\n/say three")
		u.until(done)
	}
	before := u.ask("follow", s, map[string]any{"since": 0})
	first := u.until(is("synced"))
	_, list := l.do("GET", "/api/sessions", "")
	_, tasks := l.do("GET", "/api/tasks?session="+s, "")
	l.stop()

	l = start(t, data)
	u = l.user()
	if again := u.create(map[string]any{"client_session_id": "mine"}); again != s {
		t.Errorf("client_session_id names session %s, before it was %s", again, s)
	}
	after := u.ask("follow", s, map[string]any{"since": 0, "log": before["log"]})
	if after["resumed"] != true || after["log"] != before["log"] || after["head"] != before["head"] {
		t.Errorf("follow: %v, before %v", after, before)
	}
	if second := u.until(is("synced")); shown(durable(first)) != shown(durable(second)) {
		t.Errorf("the log before:\n%s\nand after:\n%s", shown(durable(first)), shown(durable(second)))
	}
	if _, again := l.do("GET", "/api/sessions", ""); string(again) != string(list) {
		t.Errorf("the list of sessions: %s, before %s", again, list)
	}
	if _, again := l.do("GET", "/api/tasks?session="+s, ""); string(again) != string(tasks) {
		t.Errorf("the list of tasks: %s, before %s", again, tasks)
	}
	u.send(s, "more", "/say more")
	if events := u.until(done); len(of(events, "response")) != 1 {
		t.Errorf("after the restart: %s", shown(events))
	}
	l.stop()
}

// N-11, N-03: any number of clients; one that comes later sees the same.
func TestTwoClientsSeeTheSame(t *testing.T) {
	l := start(t, t.TempDir())
	a, b := l.user(), l.user("deltas")
	s := a.create(nil)
	fromA := a.follow(s, 0)
	fromB := b.follow(s, 0)
	a.send(s, "1", "/partial p\n/stream 30 word\n/say end")
	fromA = append(fromA, a.until(done)...)
	fromB = append(fromB, b.until(done)...)
	b.send(s, "2", "/say from b")
	fromA = append(fromA, a.until(done)...)
	fromB = append(fromB, b.until(done)...)
	if shown(durable(fromA)) != shown(durable(fromB)) {
		t.Errorf("a saw\n%s\nb saw\n%s", shown(durable(fromA)), shown(durable(fromB)))
	}
	late := l.user().follow(s, 0)
	if shown(late) != shown(durable(fromA)) {
		t.Errorf("a later client saw\n%s\nbut it was\n%s", shown(late), shown(durable(fromA)))
	}
	gapless(t, late, 1)
	l.stop()
}

// D-18: two independent tasks, in words.
func TestTwoIndependentTasks(t *testing.T) { twoIndependentTasks(t, start(t, t.TempDir())) }

func twoIndependentTasks(t *testing.T, l *live) {
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	m1 := u.send(s, "1", "Fix the login bug")["message"]
	events := u.until(is("delegation_started"))
	second := u.send(s, "2", "What's the weather?")
	events = append(events, u.until(done)...)
	if second["disposition"] != "joined" {
		t.Errorf("the second message: %v", second)
	}
	gapless(t, durable(events), 2)
	partial, final := of(events, "partial_response"), of(events, "response")
	if len(partial) != 1 || partial[0].text("in_reply_to") != second["message"] || len(final) != 1 || final[0].text("in_reply_to") != m1 {
		t.Errorf("answers: %s%s", shown(partial), shown(final))
	}
	if n := of(events, "coverage_nudge"); len(n) != 0 { // D-23
		t.Errorf("nudged: %s", shown(n))
	}
	wantResolved(t, events, map[any]string{m1: "answered", second["message"]: "answered"})
	l.stop()
}

// D-17: an amendment, in words; one answer covers both.
func TestAmendment(t *testing.T) { amendment(t, start(t, t.TempDir())) }

func amendment(t *testing.T, l *live) {
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	m1 := u.send(s, "1", "Fix the login bug")["message"]
	events := u.until(is("delegation_started"))
	m2 := u.send(s, "2", "Actually use OAuth instead")["message"]
	events = append(events, u.until(done)...)
	answers := append(of(events, "partial_response"), of(events, "response")...)
	if len(answers) != 1 || !strings.Contains(answers[0].text("text"), "OAuth") {
		t.Errorf("answers: %s", shown(answers))
	}
	wantResolved(t, events, map[any]string{m1: "answered", m2: "merged"})
	l.stop()
}

// D-19: a question that does not block, other work meanwhile, then its answer.
func TestParallelQuestion(t *testing.T) { parallelQuestion(t, start(t, t.TempDir())) }

func parallelQuestion(t *testing.T, l *live) {
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	m1 := u.send(s, "1", "Set up auth")["message"]
	events := u.until(is("question"))
	if events[len(events)-1].Data["blocking"] != false {
		t.Errorf("the question: %s", events[len(events)-1].raw)
	}
	m2 := u.send(s, "2", "Send the report to Max")["message"]
	events = append(events, u.until(is("partial_response"))...)
	m3 := u.send(s, "3", "JWT")["message"]
	events = append(events, u.until(done)...)
	gapless(t, durable(events), 2)
	if q := of(events, "question_answered"); len(q) != 1 {
		t.Errorf("the question was not answered: %s", shown(events))
	}
	final := of(events, "response")
	if len(final) != 1 || !strings.Contains(final[0].text("text"), "JWT") {
		t.Errorf("the final answer: %s", shown(final))
	}
	wantResolved(t, events, map[any]string{m1: "answered", m2: "answered", m3: "merged"})
	l.stop()
}

func wantResolved(t *testing.T, events []frame, want map[any]string) {
	t.Helper()
	got := map[any]string{}
	for _, f := range of(events, "message_resolved") {
		if _, twice := got[f.text("message")]; twice {
			t.Errorf("%s is resolved twice", f.text("message"))
		}
		got[f.text("message")] = f.text("how")
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("resolved %v, want %v; events:\n%s", got, want, shown(events))
	}
}

// ask, reply over HTTP, and a second reply that comes too late.
func TestReplyRoute(t *testing.T) { replyRoute(t, start(t, t.TempDir())) }

func replyRoute(t *testing.T, l *live) {
	status, body := l.do("POST", "/api/tasks", `{"prompt":"/ask Which one? [A/B]\n/say You chose $reply"}`)
	var made struct {
		TaskID  string `json:"task_id"`
		Session string
	}
	if err := json.Unmarshal(body, &made); err != nil || status != 202 {
		t.Fatalf("POST /api/tasks: %d %s", status, body)
	}
	u := l.user()
	u.follow(made.Session, 0)
	if _, body = l.do("GET", "/api/tasks/"+made.TaskID, ""); !strings.Contains(string(body), `"AWAITING_RESPONSE"`) {
		u.until(func(f frame) bool { return f.Type == "task_status" && f.text("new_status") == "AWAITING_RESPONSE" })
	}
	for _, bad := range []string{`{"reply":"  "}`, `{"reply":5}`, `{}`} {
		if status, body = l.do("POST", "/api/tasks/"+made.TaskID+"/reply", bad); status != 400 {
			t.Errorf("reply %s: %d %s", bad, status, body)
		}
	}
	status, body = l.do("POST", "/api/tasks/"+made.TaskID+"/reply", `{"reply":" B\nplease "}`)
	var reply map[string]any
	_ = json.Unmarshal(body, &reply)
	if want := map[string]any{"success": true, "task_id": made.TaskID, "old_status": "AWAITING_RESPONSE", "new_status": "QUEUED"}; status != 200 || !reflect.DeepEqual(reply, want) {
		t.Errorf("reply: %d %s", status, body)
	}
	events := u.until(done)
	if got := of(events, "response"); len(got) != 1 || got[0].text("text") != "You chose B\nplease" {
		t.Errorf("the answer: %s", shown(got))
	}
	if status, body = l.do("POST", "/api/tasks/"+made.TaskID+"/reply", `{"reply":"A"}`); status != 409 || !strings.Contains(string(body), "task_not_awaiting") {
		t.Errorf("a second reply: %d %s", status, body)
	}
	if status, _ = l.do("POST", "/api/tasks/t1-nosuchsession/reply", `{"reply":"A"}`); status != 404 {
		t.Errorf("an unknown task: %d", status)
	}
	l.stop()
}

// N-02: kill -9 in the middle of an answer. Both clients resume by seq, the task
// goes on by itself, and nobody has to do anything.
func TestKilledInMidAnswer(t *testing.T) {
	for _, c := range []struct{ name, text, until string }{
		{"while it streams", "/partial before\n/stream 400 word", "delta"},
		{"while the model thinks", "/partial before\n/wait 1h\n/say never", "partial_response"},
		{"while a tool runs", "/tool wait {\"duration\":\"1s\"}\n/say after: $result", "tool_started"},
		{"while a delegate works", "/delegate researcher /wait 500ms && /say found\n/say after: $result", "delegation_started"},
	} {
		t.Run(c.name, func(t *testing.T) {
			data := t.TempDir()
			l := spawn(t, data, "--set", "scripted.token_delay=5ms")
			a, b := l.user("deltas"), l.user("deltas")
			s := a.create(nil)
			fromA, fromB := a.follow(s, 0), b.follow(s, 0)
			sent := a.send(s, "1", c.text)
			fromA = append(fromA, a.until(is(c.until))...)
			fromB = append(fromB, b.until(is(c.until))...)
			l.kill()

			l = spawn(t, data)
			resumed := func(u *user, seen []frame) []frame {
				seen = durable(seen)
				more := u.follow(s, len(seen))
				seen = append(seen, more...)
				gapless(t, seen, 1)
				return seen
			}
			a, b = l.user(), l.user()
			fromA, fromB = resumed(a, fromA), resumed(b, fromB)
			if again := a.send(s, "1", c.text); again["duplicate"] != true || again["message"] != sent["message"] {
				t.Errorf("sent again: %v, the first time %v", again, sent)
			}
			if strings.Contains(c.text, "/wait 1h") { // it would never end: a stop must (N-06)
				a.ask("cancel", s, map[string]any{})
			}
			finish := func(u *user, seen []frame) []frame {
				if !slices.ContainsFunc(seen, done) {
					seen = append(seen, u.until(done)...)
				}
				return durable(seen)
			}
			fromA, fromB = finish(a, fromA), finish(b, fromB)
			gapless(t, fromA, 1)
			if shown(fromA) != shown(fromB) {
				t.Errorf("a saw\n%s\nb saw\n%s", shown(fromA), shown(fromB))
			}
			responses := of(fromA, "response")
			switch c.name {
			case "while it streams":
				if len(responses) != 1 || strings.Count(responses[0].text("text"), "word") != 400 {
					t.Errorf("the answer: %s", shown(responses))
				}
			case "while the model thinks":
				wantResolved(t, fromA, map[any]string{sent["message"]: "answered"}) // by the part before
			case "while a tool runs": // N-07: this one is idempotent, so it runs again as the same call
				finished := of(fromA, "tool_finished")
				if len(finished) != 1 || finished[0].text("status") != "ok" || len(of(fromA, "tool_started")) != 1 || len(responses) != 1 {
					t.Errorf("events: %s", shown(fromA))
				}
			case "while a delegate works":
				if len(responses) != 1 || responses[0].text("text") != "after: found" {
					t.Errorf("the answer: %s", shown(responses))
				}
			}
			l.stop()
		})
	}
}

// A drain: exit 0, clients are told, and what was running goes on after the start.
func TestTerminatedInMidAnswer(t *testing.T) {
	data := t.TempDir()
	l := spawn(t, data, "--set", "drain.timeout=100ms")
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "/partial before\n/wait 1s\n/say after")
	seen := durable(u.until(is("partial_response")))
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	goaway := false
	for {
		f, err := u.read()
		if err != nil {
			if code := websocket.CloseStatus(err); code != websocket.StatusServiceRestart {
				t.Errorf("closed with %d, want 1012: %v", code, err)
			}
			break
		}
		if f.Seq > 0 {
			seen = append(seen, f)
		}
		goaway = goaway || f.Type == "goaway"
	}
	if !goaway {
		t.Error("no goaway")
	}
	if code := <-l.ended; code != exitOK {
		t.Errorf("exit code %d", code)
	}

	l = spawn(t, data)
	u = l.user()
	seen = append(seen, u.follow(s, len(seen)+1)...)
	if !slices.ContainsFunc(seen, done) {
		seen = append(seen, durable(u.until(done))...)
	}
	gapless(t, seen, 2)
	if r := of(seen, "response"); len(r) != 1 || r[0].text("text") != "after" {
		t.Errorf("the answer: %s", shown(seen))
	}
	l.stop()
}

// A second signal ends the process at once.
func TestSecondSignal(t *testing.T) {
	l := spawn(t, t.TempDir(), "--set", "drain.timeout=1h")
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "/wait 1h\n/say x")
	u.until(is("step_started"))
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	u.until(is("goaway")) // the drain has begun
	if err := l.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	select {
	case code := <-l.ended:
		if code != exitFailed {
			t.Errorf("exit code %d, want %d", code, exitFailed)
		}
	case <-time.After(patience):
		t.Error("it goes on")
	}
}

func TestWrongStarts(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	locked := t.TempDir()
	l := start(t, locked)
	foreign := t.TempDir()
	if err := os.WriteFile(filepath.Join(foreign, "letter.txt"), []byte("hello"), 0o600); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	config := write(t, "[inbox]\nmode = \"stear\"\n")
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"the port is taken", []string{"--listen", taken.Addr().String()}, exitFailed, "the address " + taken.Addr().String() + " is in use"},
		{"the data directory is in use", []string{"--data", locked}, exitFailed, "in use"},
		{"the data directory holds something else", []string{"--data", foreign}, exitFailed, foreign},
		{"the data directory is a file", []string{"--data", file}, exitFailed, file},
		{"an unknown flag", []string{"--bogus"}, exitUsage, "--bogus"},
		{"an unknown command", []string{"bogus"}, exitUsage, "bogus"},
		{"a wrong file", []string{"--config", config}, exitUsage, config + `:2: inbox.mode = "stear"`},
		{"an absent file", []string{"--config", "absent.toml"}, exitUsage, "absent.toml"},
		{"a wrong key", []string{"--set", "inbox.mod=queue"}, exitUsage, "did you mean inbox.mode?"},
		{"an address for everyone", []string{"--listen", "0.0.0.0:0"}, exitUsage, "loopback"},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "d")}, c.args...)
			code, _, stderr := run(args...)
			if code != c.code || !strings.Contains(stderr, c.says) {
				t.Errorf("code %d, want %d; it says %q, want %q in it", code, c.code, stderr, c.says)
			}
			if n := strings.Count(strings.TrimSpace(stderr), "\n"); n > 0 {
				t.Errorf("more than a sentence:\n%s", stderr)
			}
		})
	}
	l.stop()
}

func TestCommands(t *testing.T) {
	data := t.TempDir()
	busy := start(t, data)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"version", []string{"version"}, exitOK, "parley "},
		{"help", []string{"--help"}, exitOK, "config print"},
		{"config check", []string{"config", "check", "--config", filepath.Join(root, "config.toml")}, exitOK, "no problem found"},
		{"config print", []string{"config", "print", "--set", "inbox.mode=queue"}, exitOK, "[inbox]\nmode = \"queue\"\n"},
		{"doctor is content", []string{"doctor", "--listen", "127.0.0.1:0", "--data", filepath.Join(t.TempDir(), "a", "b")}, exitOK, "ok  data"},
		{"doctor finds the store locked", []string{"doctor", "--listen", "127.0.0.1:0", "--data", data}, exitFailed, "BAD data"},
		{"doctor finds the port taken", []string{"doctor", "--listen", busy.addr, "--data", t.TempDir()}, exitFailed, "BAD address"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, stdout, stderr := run(c.args...)
			if code != c.code || !strings.Contains(stdout, c.says) {
				t.Errorf("code %d, want %d; it says\n%s%s\nwant %q in it", code, c.code, stdout, stderr, c.says)
			}
		})
	}
	busy.stop()
}

// memory.mode=ephemeral keeps nothing.
func TestEphemeralLeavesNothing(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	l := start(t, data, "--set", "memory.mode=ephemeral")
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "/say hello")
	u.until(done)
	l.stop()
	if _, err := os.Stat(data); !os.IsNotExist(err) {
		t.Errorf("%s exists (%v)", data, err)
	}
}

// refusals in the configured words; a channel has its own mode.
func TestBusyTexts(t *testing.T) {
	t.Run("same session", func(t *testing.T) {
		l := start(t, t.TempDir(), "--set", "channels.http.mode=reject", "--set", "texts.busy=One moment.")
		u := l.user()
		s := u.create(nil)
		u.follow(s, 0)
		u.send(s, "1", "/wait 1h\n/say x")
		status, body := l.do("POST", "/api/sessions/"+s+"/messages", `{"text":"/say y"}`)
		if status != 409 || !strings.Contains(string(body), "session_busy") || !strings.Contains(string(body), "One moment.") {
			t.Errorf("over HTTP: %d %s", status, body)
		}
		if ok := u.send(s, "2", "/say z"); ok["disposition"] != "joined" {
			t.Errorf("over WebSocket: %v", ok)
		}
		u.ask("cancel", s, map[string]any{"waiting": "drop"})
		u.until(done)
		l.stop()
	})
	t.Run("whole node", func(t *testing.T) {
		l := start(t, t.TempDir(), "--set", "admission.max_concurrent=1", "--set", "admission.on_full=reject")
		u := l.user()
		s, other := u.create(nil), u.create(nil)
		u.follow(s, 0)
		u.send(s, "1", "/wait 1h\n/say x")
		refused := u.try("send", other, map[string]any{"client_msg_id": "1", "text": "/say y"})
		if refused.Error == nil || refused.Error.Code != "overloaded" || refused.Error.Message != policy.DefaultPolicy().Texts.Overloaded {
			t.Errorf("the second task: %s", refused.raw)
		}
		u.ask("cancel", s, map[string]any{})
		u.until(done)
		l.stop()
	})
}

// model.stream=false (M-01): whole answers, no deltas; with it, deltas.
func TestStreamingCanBeTurnedOff(t *testing.T) {
	for _, on := range []bool{true, false} {
		l := start(t, t.TempDir(), "--set", fmt.Sprintf("model.stream=%v", on), "--set", "model.delta_every=1ms", "--set", "scripted.token_delay=2ms")
		u := l.user("deltas")
		s := u.create(nil)
		u.follow(s, 0)
		u.send(s, "1", "/stream 50 word")
		events := u.until(done)
		if got := len(of(events, "delta")) > 0; got != on {
			t.Errorf("model.stream=%v: deltas came: %v", on, got)
		}
		l.stop()
	}
}

// The page, the health routes and the metrics are there; promtool likes them (N-14).
func TestRoutesOfOperators(t *testing.T) {
	l := start(t, t.TempDir())
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "/tool clock {}\n/say hello")
	u.until(done)
	for path, want := range map[string]string{
		"/": "<!doctype html", "/livez": "", "/readyz": "", "/version": version(), "/openapi.yaml": "openapi: 3.1",
		"/asyncapi.yaml": "asyncapi: 3.0", "/metrics": "parley_store_commit_seconds_count",
	} {
		status, body := l.do("GET", path, "")
		if status != 200 || !strings.Contains(strings.ToLower(string(body)), want) {
			t.Errorf("GET %s: %d, want %q in %.200s", path, status, want, body)
		}
	}
	_, page := l.do("GET", "/metrics", "")
	promtoolLikes(t, page)
	l.stop()
}

// admin.listen serves the metrics on an address of its own.
func TestAdminListener(t *testing.T) {
	l := start(t, t.TempDir(), "--set", "admin.listen=127.0.0.1:0")
	_, rest, ok := strings.Cut(l.out.String(), "admin  http://")
	if !ok {
		t.Fatalf("its address is not printed:\n%s", l.out)
	}
	addr, _, _ := strings.Cut(rest, "/")
	admin := &live{t: t, addr: addr}
	if status, body := admin.do("GET", "/metrics", ""); status != 200 || !strings.Contains(string(body), "parley_sessions_active") {
		t.Errorf("GET /metrics: %d %.200s", status, body)
	}
	if status, _ := admin.do("GET", "/api/sessions", ""); status != 404 {
		t.Errorf("GET /api/sessions at the admin address: %d, want 404", status)
	}
	l.stop()
}

// A damaged log is refused in a sentence, never silently cut short.
func TestDamagedLogIsRefused(t *testing.T) {
	data := t.TempDir()
	l := spawn(t, data, "--set", "limits.commands_per_second=0")
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	for i := range 100 {
		u.send(s, fmt.Sprint(i), "/say "+strings.Repeat("word ", 100))
		u.until(done)
	}
	l.kill()
	logs, err := filepath.Glob(filepath.Join(data, "*.log"))
	if err != nil || len(logs) == 0 {
		t.Fatalf("no log: %v", err)
	}
	slices.SortFunc(logs, func(a, b string) int { return int(size(t, b) - size(t, a)) })
	bytes, err := os.ReadFile(logs[0])
	if err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		bytes[len(bytes)/4+i] ^= 0xff
	}
	if err := os.WriteFile(logs[0], bytes, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := run("--listen", "127.0.0.1:0", "--data", data)
	if code != exitFailed || !strings.Contains(stderr, "damaged") || strings.Count(strings.TrimSpace(stderr), "\n") > 0 {
		t.Errorf("code %d, it says %s", code, stderr)
	}
}

func size(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// kill -9 at random moments under load, a few times; "make crash" does it longer.
// N-01, N-02, N-03.
func TestCrashLoop(t *testing.T) {
	dir := t.TempDir()
	build := exec.Command("go", "build", "-o", dir, "./cmd/parley", "./cmd/parley-bench")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	loop := exec.CommandContext(t.Context(), filepath.Join(dir, "parley-bench"), "crash",
		"--server", filepath.Join(dir, "parley"), "--rounds", "5", "--clients", "4", "--most", "400ms")
	out, err := loop.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
