package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// The claude command itself, with a stand-in of the service that it asks.

// claudeVariable names the program; without it, it is looked for in PATH.
const claudeVariable = "PARLEY_CLAUDE"

// claude is the program, in a world of its own: a home, a directory to work in and a
// service, all of this test.
type claude struct {
	t       *testing.T
	program string
	home    string
	dir     string
	service *claudeService
}

// newClaude skips a test where the program is not there.
func newClaude(t *testing.T) *claude {
	t.Helper()
	program := os.Getenv(claudeVariable)
	if program == "" {
		var err error
		if program, err = exec.LookPath("claude"); err != nil {
			t.Skipf("NOT RUN: the claude command is not there: %v (make claude installs it, or %s names it)", err, claudeVariable)
		}
	}
	c := &claude{t: t, program: program, home: t.TempDir(), dir: t.TempDir(), service: newClaudeService(t)}
	for _, variable := range os.Environ() { // what a developer has set up for real
		name, _, _ := strings.Cut(variable, "=")
		if strings.HasPrefix(name, "ANTHROPIC_") || strings.HasPrefix(name, "CLAUDE") || strings.HasSuffix(strings.ToLower(name), "_proxy") {
			t.Setenv(name, "")
			os.Unsetenv(name)
		}
	}
	for name, value := range map[string]string{
		"HOME": c.home, "ANTHROPIC_BASE_URL": c.service.URL, "ANTHROPIC_API_KEY": "dummy", "XDG_CONFIG_HOME": c.home,
		"CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1", "DISABLE_TELEMETRY": "1", "DISABLE_AUTOUPDATER": "1", "DISABLE_ERROR_REPORTING": "1",
	} {
		t.Setenv(name, value)
	}
	t.Cleanup(func() { // whatever went wrong
		for pid := range c.processes(0) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
	})
	return c
}

// config is a configuration file with the program as the model of all; more are keys of
// its block.
func (c *claude) config(more string) string {
	return write(c.t, fmt.Sprintf(`
[model]
default = "agent"
[models.agent]
provider = "command"
command = %q
dir = %q
args = ["--include-partial-messages", "--allowedTools", "Bash"]
format = "stream-json"
prompt_arg = "--append-system-prompt"
ask_marker = "ASK:"
%s
[[agents]]
name = "coordinator"
prompt = "You are the support of Acme."
`, c.program, c.dir, more))
}

// processes are the program's and those that it has started, in whatever session: all
// have its home. The server, which has it too, is not one of them.
func (c *claude) processes(server int) map[int]string {
	list := map[int]string{}
	paths, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, path := range paths {
		environ, _ := os.ReadFile(path) // "" of those that have ended
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if pid != server && strings.Contains("\x00"+string(environ), "\x00HOME="+c.home+"\x00") {
			line, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
			list[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	return list
}

// eventually waits until a condition holds.
func (c *claude) eventually(what string, holds func() bool) {
	c.t.Helper()
	for deadline := time.Now().Add(patience); !holds(); {
		if time.Now().After(deadline) {
			c.t.Fatalf("%s did not come, after %d requests; there are %v", what, len(c.service.requests()), c.processes(0))
		}
	}
}

// claudeService is a stand-in of the service: it answers each request as the test says,
// and keeps what it was asked.
type claudeService struct {
	*httptest.Server
	// answer says what a request is answered with. Set it before the first one.
	answer func(claudeRequest) claudeAnswer

	mu    sync.Mutex
	asked []claudeRequest
}

// claudeRequest is what one request held.
type claudeRequest struct {
	system  string
	prompt  string   // the last text of the user
	others  []string // what the program attached besides
	results []string // of tools
}

// claudeAnswer is a text in pieces, or a command for the Bash tool.
type claudeAnswer struct {
	pieces []string
	hold   <-chan struct{} // after the first piece, until it is closed
	shell  string
}

func newClaudeService(t *testing.T) *claudeService {
	s := &claudeService{answer: func(claudeRequest) claudeAnswer { return claudeAnswer{pieces: []string{"Understood."}} }}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.CloseClientConnections) // a killed program asks no more
	return s
}

// requests are those that the service has got so far.
func (s *claudeService) requests() []claudeRequest {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]claudeRequest(nil), s.asked...)
}

// last is the newest request.
func (s *claudeService) last() claudeRequest {
	all := s.requests()
	if len(all) == 0 {
		return claudeRequest{}
	}
	return all[len(all)-1]
}

func (s *claudeService) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Model            string
		System, Messages json.RawMessage
		Tools            []json.RawMessage
	}
	if r.Method != http.MethodPost || r.URL.Path != "/v1/messages" || json.NewDecoder(r.Body).Decode(&body) != nil {
		http.Error(w, `{"type":"error","error":{"type":"not_found_error","message":"no"}}`, http.StatusNotFound)
		return
	}
	answer := claudeAnswer{pieces: []string{"Fine."}}
	if len(body.Tools) > 0 { // else it is a side task of the program
		request := readClaude(body.System, body.Messages)
		s.mu.Lock()
		s.asked = append(s.asked, request)
		s.mu.Unlock()
		answer = s.answer(request)
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(kind, members string) {
		fmt.Fprintf(w, "event: %s\ndata: {\"type\":%q%s}\n\n", kind, kind, members)
		_ = http.NewResponseController(w).Flush()
	}
	send("message_start", fmt.Sprintf(`,"message":{"id":"msg_1","type":"message","role":"assistant","model":%q,"content":[],"stop_reason":null,`+
		`"usage":{"input_tokens":7,"cache_creation_input_tokens":20,"cache_read_input_tokens":100,"output_tokens":1}}`, body.Model))
	stop := "end_turn"
	if answer.shell != "" {
		stop = "tool_use"
		input, _ := json.Marshal(map[string]string{"command": answer.shell, "description": "work"})
		send("content_block_start", `,"index":0,"content_block":{"type":"tool_use","id":"toolu_1","name":"Bash","input":{}}`)
		send("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"input_json_delta","partial_json":%s}`, quoted(string(input))))
	} else {
		send("content_block_start", `,"index":0,"content_block":{"type":"text","text":""}`)
	}
	for i, piece := range answer.pieces {
		if i == 1 && answer.hold != nil {
			select {
			case <-answer.hold:
			case <-r.Context().Done():
				return
			}
		}
		send("content_block_delta", fmt.Sprintf(`,"index":0,"delta":{"type":"text_delta","text":%s}`, quoted(piece)))
	}
	send("content_block_stop", `,"index":0`)
	send("message_delta", fmt.Sprintf(`,"delta":{"stop_reason":%q,"stop_sequence":null},"usage":{"output_tokens":5}`, stop))
	send("message_stop", "")
}

// quoted is a text as JSON, and so JavaScript, writes it.
func quoted(text string) string {
	b, _ := json.Marshal(text) // a string can be
	return string(b)
}

// readClaude reads a request. The program wraps in <system-reminder> what it adds itself.
func readClaude(system, messages json.RawMessage) (r claudeRequest) {
	r.system = strings.Join(textsOf(system), "\n")
	var list []struct {
		Role    string
		Content json.RawMessage
	}
	_ = json.Unmarshal(messages, &list)
	for _, m := range list {
		if m.Role != "user" {
			continue
		}
		var blocks []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(m.Content, &blocks)
		for _, b := range blocks {
			if b.Type == "tool_result" {
				r.results = append(r.results, strings.Join(textsOf(b.Content), "\n"))
			}
		}
		for _, text := range textsOf(m.Content) {
			if strings.HasPrefix(text, "<system-reminder>") {
				r.others = append(r.others, text)
			} else {
				r.prompt = text
			}
		}
	}
	return r
}

// textsOf are the texts of a content: one, or those of its blocks.
func textsOf(content json.RawMessage) (texts []string) {
	var one string
	if json.Unmarshal(content, &one) == nil {
		return []string{one}
	}
	var blocks []struct{ Type, Text string }
	_ = json.Unmarshal(content, &blocks)
	for _, b := range blocks {
		if b.Type == "text" {
			texts = append(texts, b.Text)
		}
	}
	return texts
}
