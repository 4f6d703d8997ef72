package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"parley/conversation/policy"
)

// The claude command behind a server: its text is shown while it is written, the next
// turn tells the one before, its own prompt reaches it, and what it used is counted,
// with what its service had in the cache.
func TestClaudeAnswers(t *testing.T) {
	c := newClaude(t)
	shown1 := make(chan struct{})
	c.service.answer = func(r claudeRequest) claudeAnswer {
		if strings.Contains(r.prompt, "And now?") {
			return claudeAnswer{pieces: []string{"Now too."}}
		}
		return claudeAnswer{pieces: []string{"Hello ", "to you."}, hold: shown1}
	}
	l := spawn(t, t.TempDir(), "--config", c.config(""))
	u := l.user("deltas")
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "Hello")
	u.until(is("delta")) // the service holds the rest back
	close(shown1)
	events := u.until(done)
	if r := of(events, "response"); len(r) != 1 || r[0].text("text") != "Hello to you." {
		t.Errorf("the answer: %s", shown(events))
	}
	finished := of(events, "step_finished")
	if len(finished) != 1 || fmt.Sprint(finished[0].Data["usage"]) != "map[cached_tokens:100 input_tokens:127 output_tokens:5]" {
		t.Errorf("it used: %s", shown(finished))
	}
	first := c.service.last()
	if first.prompt != "Hello" {
		t.Errorf("it was asked %q", first.prompt)
	}
	for _, want := range []string{"You are the support of Acme.", "end with a line that begins with ASK:,"} {
		if !strings.Contains(first.system, want) || strings.Contains(first.prompt, want) {
			t.Errorf("it was not told %q", want)
		}
	}
	if strings.Contains(first.system, "respondToUser") {
		t.Error("it was told of the engine's tools")
	}
	u.send(s, "2", "And now?")
	u.until(done)
	if got := c.service.last().prompt; got != "Previous conversation context:\nUser: Hello\nAssistant: Hello to you.\n\nCurrent message:\nAnd now?" {
		t.Errorf("then it was asked\n%s", got)
	}
	if strings.Contains(l.err.String(), "support of Acme") {
		t.Error("the agent's own prompt is in the log")
	}
	l.stop()
}

// what a user writes is text to the claude command: no command of it, and nothing
// that attaches a file, wherever it stands, also in later turns. Without the guard both
// happen, so that the test shows something.
func TestClaudeIsToldOnlyText(t *testing.T) {
	c := newClaude(t)
	secrets := 0
	put := func(path string) {
		t.Helper()
		secrets++
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte("a secret of the server\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	outside := filepath.Join(t.TempDir(), "key")
	put(outside)
	put(filepath.Join(c.home, "key"))
	for _, name := range []string{"a.txt", "b c.txt", "sub/d.txt"} {
		put(filepath.Join(c.dir, name))
	}
	settings := filepath.Join(c.home, ".claude", "settings.json")
	mentions := "@a.txt\n@" + outside + "\t@~/key @./a.txt @sub @sub/ @a.txt#L1 @\"b c.txt\" @../" + filepath.Base(filepath.Dir(outside)) + "/key\r\n" +
		"see\u00a0@a.txt\u3000@sub/d.txt\ufeff@a.txt\u2028@a.txt\v@a.txt。@a.txt、@sub/d.txt？@a.txt！@a.txt (@a.txt) \"@a.txt\" x@[y](claude-ref:a \"b\")@a.txt @@a.txt " +
		"@/etc/hostname @~/.claude.json write to jo@example.org"
	commands := []string{"/config permissionMode=acceptEdits", "/clear", "/review", " /config permissionMode=acceptEdits"}
	c.service.answer = func(r claudeRequest) claudeAnswer {
		return claudeAnswer{pieces: []string{"I would look at @" + outside + " too."}}
	}
	ask := func(u *user, s, id, text string) []frame {
		u.send(s, id, text)
		return u.until(done)
	}
	attached := func() (n int) {
		for _, text := range c.service.last().others {
			n += strings.Count(text, "a secret of the server") + strings.Count(text, "Called the Read tool") + strings.Count(text, "Called the Bash tool")
		}
		return n
	}

	l := spawn(t, t.TempDir(), "--config", c.config(""))
	u := l.user()
	for _, text := range commands {
		s := u.create(nil)
		u.follow(s, 0)
		events := ask(u, s, "1", text)
		if got := c.service.last().prompt; got != "Current message:\n"+text {
			t.Errorf("%q reached the model as %q", text, got)
		}
		if len(of(events, "response")) != 1 {
			t.Errorf("%q: %s", text, shown(events))
		}
	}
	if text, err := os.ReadFile(settings); err == nil {
		t.Errorf("the settings are now %s", text)
	}
	s := u.create(nil)
	u.follow(s, 0)
	for _, id := range []string{"1", "2"} { // the second time in the context, too
		accepted := of(ask(u, s, id, mentions), "message_accepted")
		got := c.service.last()
		if n := attached(); n > 0 {
			t.Errorf("turn %s: the request has %d files or directories: %q", id, n, got.others)
		}
		if !strings.HasSuffix(strings.ReplaceAll(got.prompt, "\u2060", ""), mentions) || !strings.HasSuffix(got.prompt, "write to jo@example.org") {
			t.Errorf("turn %s: the model was told %q", id, got.prompt)
		}
		if !strings.Contains(got.system, "(U+2060, word joiner)") {
			t.Errorf("turn %s: nothing explains the invisible characters", id)
		}
		if len(accepted) != 1 || accepted[0].text("text") != mentions {
			t.Errorf("turn %s: the message is shown as %s", id, shown(accepted))
		}
	}
	l.stop()

	l = spawn(t, t.TempDir(), "--config", c.config(`guard = "none"`))
	u = l.user()
	s = u.create(nil)
	u.follow(s, 0)
	if ask(u, s, "1", mentions); attached() < secrets {
		t.Errorf("without the guard the request has only %q: this program attaches other things than the test thinks", c.service.last().others)
	}
	s = u.create(nil)
	u.follow(s, 0)
	ask(u, s, "1", commands[0])
	if _, err := os.Stat(settings); err != nil {
		t.Errorf("without the guard no settings were written, so this program has other commands than the test thinks: %v", err)
	}
	l.stop()
}

// the agent asks with the marker, waits, and goes on with the reply.
func TestClaudeAsks(t *testing.T) {
	c := newClaude(t)
	c.service.answer = func(r claudeRequest) claudeAnswer {
		if strings.Contains(r.prompt, "[User Reply]") {
			return claudeAnswer{pieces: []string{"Done with JWT."}}
		}
		return claudeAnswer{pieces: []string{"I looked at it.\n\nAS", "K: OAuth or JWT?"}}
	}
	l := spawn(t, t.TempDir(), "--config", c.config(""))
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "Fix the login")
	if q := of(u.until(is("question")), "question")[0]; q.text("text") != "OAuth or JWT?" || q.Data["blocking"] != true {
		t.Errorf("the question: %s", q.raw)
	}
	u.send(s, "2", "JWT, please")
	if events := u.until(done); len(of(events, "response")) != 1 || of(events, "response")[0].text("text") != "Done with JWT." {
		t.Errorf("the answer: %s", shown(events))
	}
	want := "Fix the login\n\n[Previous Output]\nI looked at it.\n\nASK: OAuth or JWT?\n\n[User Reply]\nJWT, please\n\n[Continue Task]\n"
	if got := c.service.last().prompt; !strings.HasPrefix(got, want) {
		t.Errorf("it went on with\n%s", got)
	}
	l.stop()
}

// working makes the agent work: its shell tool notes in a file that it has begun, and
// then does not end. count is how often it has begun.
func (c *claude) working() (count func() int) {
	note := filepath.Join(c.t.TempDir(), "begun")
	c.service.answer = func(r claudeRequest) claudeAnswer {
		if len(r.results) > 0 {
			return claudeAnswer{pieces: []string{"Done."}}
		}
		return claudeAnswer{shell: "echo begun >> '" + note + "'; tail -f " + os.DevNull}
	}
	return func() int {
		text, _ := os.ReadFile(note)
		return strings.Count(string(text), "\n")
	}
}

// N-07: the server is killed while the agent's shell tool runs, in a session of its own.
// Nothing is left of it, and after the start it is not run again.
func TestClaudeEndsWithKilledServer(t *testing.T) {
	c := newClaude(t)
	begun := c.working()
	data, config := t.TempDir(), c.config("")
	l := spawn(t, data, "--config", config)
	u := l.user()
	s := u.create(nil)
	u.follow(s, 0)
	u.send(s, "1", "Do it")
	c.eventually("the shell tool", func() bool { return begun() == 1 })
	l.kill()
	c.eventually("the end of all processes", func() bool { return len(c.processes(l.cmd.Process.Pid)) == 0 })

	l = spawn(t, data, "--config", config)
	u = l.user()
	events := u.follow(s, 0)
	for len(of(events, "task_status")) == 0 || !done(of(events, "task_status")[len(of(events, "task_status"))-1]) {
		events = append(events, u.until(done)...)
	}
	ends := of(events, "task_status")
	end, _ := ends[len(ends)-1].Data["error"].(map[string]any)
	if text := policy.DefaultPolicy().Texts.Interrupted; ends[len(ends)-1].text("new_status") != "ERROR" || end["message"] != text || !strings.Contains(shown(of(events, "response")), text) {
		t.Errorf("the task ended with %s and said %s", ends[len(ends)-1].raw, shown(of(events, "response")))
	}
	l.stop()
	if begun() != 1 || len(c.service.requests()) != 1 {
		t.Errorf("it worked %d times, in %d requests", begun(), len(c.service.requests()))
	}
	if left := c.processes(0); len(left) > 0 {
		t.Errorf("left are %v", left)
	}
}

// N-06: a task is cancelled while the agent's shell tool runs, also when the agent itself
// hangs and cannot end it. When the task says so, nothing is left.
func TestClaudeEndsWithCancel(t *testing.T) {
	for name, hangs := range map[string]bool{"it listens": false, "it hangs": true} {
		t.Run(name, func(t *testing.T) {
			c := newClaude(t)
			begun := c.working()
			l := spawn(t, t.TempDir(), "--config", c.config(`grace = "1s"`))
			u := l.user()
			s := u.create(nil)
			u.follow(s, 0)
			u.send(s, "1", "Do it")
			c.eventually("the shell tool", func() bool { return begun() == 1 })
			for pid, line := range c.processes(l.cmd.Process.Pid) {
				if hangs && strings.Contains(line, " --append-system-prompt ") {
					if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
						t.Error(err)
					}
				}
			}
			u.ask("cancel", s, map[string]any{})
			events := u.until(done)
			left := c.processes(l.cmd.Process.Pid)
			if ends := of(events, "task_status"); ends[len(ends)-1].text("new_status") != "CANCELLED" {
				t.Errorf("the task ended with %s", shown(ends))
			}
			if len(left) > 0 || begun() != 1 {
				t.Errorf("it worked %d times, and left are %v", begun(), left)
			}
			l.stop()
		})
	}
}
