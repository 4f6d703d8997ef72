package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"unicode/utf8"
)

// A chat with a command-line agent, over HTTP. A-15: a busy chat says so. A-16: when
// the agent runs as many processes as it may, another chat is told that it is busy, and
// nothing is queued. A-17: a busy chat comes first, and what is refused is not
// recorded. A-19: the message is recorded before the agent runs, its answer in the form
// in which it was cut. A-20: the answer comes with the conversation that it belongs to.
func TestChatWithCommandAgent(t *testing.T) {
	dir := t.TempDir()
	gate, prompts := filepath.Join(dir, "gate"), filepath.Join(dir, "prompts")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	script := write(t, `for last; do :; done; printf '%s\n' "$last" >> `+prompts+`; cat `+gate+` > `+os.DevNull+`; printf 'A long answer, word after word after word'`)
	config := write(t, fmt.Sprintf(`
[model]
default = "agent"
[models.agent]
provider = "command"
command = "sh"
args = [%q]
max_concurrent = 1
max_response_length = 30
[admission]
on_full = "reject"
[channels.http]
mode = "reject"
`, script))
	l := start(t, t.TempDir(), "--config", config)
	u := l.user()
	busy, other := u.create(nil), u.create(nil)
	post := func(session, id, text string) (int, string) {
		status, body := l.do("POST", "/api/sessions/"+session+"/messages", fmt.Sprintf(`{"client_msg_id":%q,"text":%q}`, id, text))
		return status, string(body)
	}
	recorded := func(session string) (items []struct{ Type, Text, ReadAt string }) {
		var page struct {
			Items []struct {
				Type, Text string
				ReadAt     string `json:"read_at"`
			}
		}
		if _, body := l.do("GET", "/api/sessions/"+session+"/messages", ""); json.Unmarshal(body, &page) != nil {
			t.Fatalf("%s", body)
		}
		for _, i := range page.Items {
			items = append(items, struct{ Type, Text, ReadAt string }{i.Type, i.Text, i.ReadAt})
		}
		return items
	}
	release := func() *os.File { // returns while the agent runs; it ends when the file is closed
		f, err := os.OpenFile(gate, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		return f
	}

	if status, body := post(busy, "1", "Hello"); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	running := release()
	if items := recorded(busy); len(items) != 1 || items[0].Text != "Hello" || items[0].ReadAt == "" {
		t.Errorf("while the agent runs, recorded is %+v", items)
	}
	if status, body := post(busy, "2", "Are you there?"); status != 409 || !strings.Contains(body, "Please wait, I'm still thinking…") {
		t.Errorf("the chat is busy, and so is the agent: %d %s", status, body)
	}
	if status, body := post(other, "1", "Hi"); status != 503 || !strings.Contains(body, `"overloaded"`) || !strings.Contains(body, "AI is busy, please try again in a moment") {
		t.Errorf("another chat: %d %s", status, body)
	}
	if a, b := recorded(busy), recorded(other); len(a) != 1 || len(b) != 0 {
		t.Errorf("refused messages are recorded: %+v, %+v", a, b)
	}
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	const cut = "A long answer, w[...truncated]"
	status, body := l.do("POST", "/api/sessions/"+busy+"/messages?wait=30s", `{"client_msg_id":"1","text":"Hello"}`)
	var answer struct {
		Message, Task string
		Parts         []struct{ Message, Text string }
	}
	if err := json.Unmarshal(body, &answer); err != nil || status != 200 || len(answer.Parts) != 1 {
		t.Fatalf("%d %s", status, body)
	}
	if text := answer.Parts[0].Text; text != cut || utf8.RuneCountInString(text) > 30 {
		t.Errorf("the answer is %q", text)
	}
	var of struct{ Output, Session string }
	if _, body := l.do("GET", "/api/tasks/"+answer.Task, ""); json.Unmarshal(body, &of) != nil || of.Session != busy || of.Output != cut {
		t.Errorf("the answer with its conversation is %s", body)
	}
	if items := recorded(busy); len(items) != 2 || items[1].Type != "part" || items[1].Text != cut {
		t.Errorf("recorded is %+v", items)
	}

	// The next run is shown what was recorded, and there is room for another chat.
	if status, body := post(busy, "3", "And then?"); status != 202 {
		t.Fatalf("%d %s", status, body)
	}
	if err := release().Close(); err != nil {
		t.Fatal(err)
	}
	l.do("POST", "/api/sessions/"+busy+"/messages?wait=30s", `{"client_msg_id":"3","text":"And then?"}`)
	asked, err := os.ReadFile(prompts)
	if want := "Hello\nPrevious conversation context:\nUser: Hello\nAssistant: " + cut + "\n\nCurrent message:\nAnd then?\n"; err != nil || string(asked) != want {
		t.Errorf("%v: the agent was asked\n%s\nwant\n%s", err, asked, want)
	}
	status, body = 503, nil
	for tries := 0; status == 503 && tries < 1000; tries++ { // its place is free a moment after its answer is seen
		status, body = l.do("POST", "/api/tasks", fmt.Sprintf(`{"prompt":"Hi","session":%q}`, other))
	}
	var task struct {
		Task    string `json:"task_id"`
		Session string
	}
	if err := json.Unmarshal(body, &task); err != nil || status != 202 || task.Session != other {
		t.Fatalf("a free agent: %d %s", status, body)
	}
	if err := release().Close(); err != nil {
		t.Fatal(err)
	}
	l.stop()
}
