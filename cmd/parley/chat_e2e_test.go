package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/golang-jwt/jwt/v5"
)

// chatting runs "parley chat" with what comes in.
func chatting(t *testing.T, in io.Reader, args ...string) (code int, out, errs string) {
	t.Helper()
	m := NewMain()
	var o, e syncBuffer
	m.Stdin, m.Stdout, m.Stderr, m.Environ = in, &o, &e, []string{"KEY=wrong"}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code = m.Execute(ctx, append([]string{"chat"}, args...))
	return code, o.String(), e.String()
}

func TestChatInAPipe(t *testing.T) {
	l := start(t, t.TempDir())
	defer l.stop()
	server := "http://" + l.addr
	for _, c := range []struct {
		name, in  string
		args      []string
		code      int
		out, errs string // parts of them
	}{
		{"one message", "/say hello\n", nil, exitOK, "hello", ""},
		{"lines", "/say one\n\n/say two\n", []string{"--lines"}, exitOK, "two", ""},
		{"two sums at once", "what is 2+2?\nwhat is 12*12?\n", []string{"--lines"}, exitOK, "The calculator says: 144", ""},
		{"the command line", "", []string{"/say", "from", "here"}, exitOK, "from here", ""},
		{"control characters", "/say a\x1b[2Jb\u202ec", nil, exitOK, "a[2Jbc", ""},
		{"nothing", " \n", nil, exitUsage, "", "nothing to say"},
		{"no text", "caf\xe9", nil, exitUsage, "", "no text in UTF-8"},
		{"a line that is none", "caf\xe9\n", []string{"--lines"}, exitUsage, "", "no text in UTF-8"},
		{"a line without end", strings.Repeat("x", 1<<20+1), []string{"--lines"}, exitUsage, "", "longer than 1 MiB"},
		{"too much", strings.Repeat("x", 8<<20+1), nil, exitUsage, "", "longer than 8 MiB"},
		{"no such session", "hi", []string{"--session", "aaaaaaaaaaaaaaaa"}, exitFailed, "", "no such session"},
		{"no such agent", "hi", []string{"--agent", "nobody"}, exitFailed, "", "nobody"},
		{"no such variable", "hi", []string{"--token-env", "NO_KEY"}, exitUsage, "", "NO_KEY"},
		{"no such mode", "hi", []string{"--mode", "shout"}, exitUsage, "", "--mode"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := chatting(t, strings.NewReader(c.in), append([]string{"--server", server}, c.args...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) || strings.ContainsAny(out, "\x1b\u202e") {
				t.Errorf("exit code %d, %q, %q", code, out, errs)
			}
		})
	}
	code, _, errs := chatting(t, strings.NewReader("hi"), "--server", "foo://x")
	if code != exitFailed || strings.Count(errs, "parley:") != 1 {
		t.Errorf("a wrong address: %d, %s", code, errs)
	}
	code, _, errs = chatting(t, strings.NewReader("hi"), "--server", "http://127.0.0.1:1")
	if code != exitFailed || !strings.Contains(errs, `"parley serve" starts one`) {
		t.Errorf("without a server: %d, %s", code, errs)
	}
}

// A question ends the command with 3; the next one in that session answers it.
func TestChatAsks(t *testing.T) {
	l := start(t, t.TempDir())
	defer l.stop()
	session := l.user().create(nil)
	args := []string{"--server", "http://" + l.addr, "--session", session}
	code, out, errs := chatting(t, strings.NewReader("/ask Which colour?\n/say so $reply"), args...)
	if code != 3 || !strings.Contains(out, "? Which colour?") || !strings.Contains(errs, "parley chat --server http://"+l.addr+" --session "+session) {
		t.Fatalf("%d, %q, %q", code, out, errs)
	}
	code, out, errs = chatting(t, strings.NewReader("green"), args...)
	if code != exitOK || !strings.Contains(out, "so green") {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
}

// What a program is asked that brought tools to the session is no person's question: what is
// typed is a message, and the command waits for the answer as for that of any tool.
func TestChatBesideAProgramsTool(t *testing.T) {
	l := start(t, t.TempDir())
	defer l.stop()
	status, made := l.do("POST", "/api/sessions", `{"policy":{"tools.caller":[{"name":"get_weather"}]}}`)
	var s struct{ Session string }
	if err := json.Unmarshal(made, &s); err != nil || status != 201 {
		t.Fatalf("%d %s", status, made)
	}
	u := l.user()
	u.follow(s.Session, 0)
	u.send(s.Session, "1", "/tool get_weather {}\n/say It is $result")
	u.until(func(f frame) bool { return f.Type == "task_status" && f.text("new_status") == "AWAITING_RESPONSE" })
	args := []string{"--server", "http://" + l.addr, "--session", s.Session}
	code, out, errs := chatting(t, strings.NewReader("/say hello"), args...)
	if code != exitOK || !strings.Contains(out, "hello") || strings.Contains(out, "yours to run") {
		t.Fatalf("%d, %q, %q", code, out, errs)
	}
	if status, open := l.do("GET", "/api/sessions/"+s.Session+"/questions", ""); status != 200 || !strings.Contains(string(open), `"q1"`) {
		t.Errorf("%d %s", status, open)
	}
	go func() {
		u.until(func(f frame) bool { return f.Type == "question" && f.text("question") == "q2" })
		l.do("POST", "/api/sessions/"+s.Session+"/questions/q2/answer", `{"text":"wet","client_msg_id":"2"}`)
	}()
	code, out, errs = chatting(t, strings.NewReader("/tool get_weather {}\n/say So $result"), args...)
	if code != exitOK || !strings.Contains(out, "So wet") || !strings.Contains(errs, "get_weather waits for its result") {
		t.Errorf("%d, %q, %q", code, out, errs)
	}
}

func TestChatWithKeys(t *testing.T) {
	l := start(t, t.TempDir(), "--set", "auth.mode=jwt", "--set", "auth.tenant=acme", "--set", "auth.hs256_secret="+strings.Repeat("s", 40))
	defer l.stop()
	code, _, errs := chatting(t, strings.NewReader("hi"), "--server", "http://"+l.addr, "--token-env", "KEY")
	if code != exitFailed || !strings.Contains(errs, "the server wants a key") || strings.Contains(errs, "wrong") {
		t.Errorf("%d, %s", code, errs)
	}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(strings.Repeat("s", 40)))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, out, errs := chatting(t, strings.NewReader("/say hello"), "--server", "http://"+l.addr, "--token-file", file)
	if code != exitOK || !strings.Contains(out, "hello") {
		t.Errorf("%d, %q, %s", code, out, errs)
	}
}

func TestChatInAScript(t *testing.T) {
	l := start(t, t.TempDir())
	defer l.stop()
	in := `{"type":"send","id":1,"data":{"text":"/say hello","client_msg_id":"a"}}
{"type":"withdraw","id":"two","data":{"message":"m9"}}
{"type":"policy","data":{"inbox.mode":"queue"}}
no json
`
	code, out, errs := chatting(t, strings.NewReader(in), "--server", "http://"+l.addr, "--json")
	seqs, types := 0, map[string]int{}
	for l := range strings.Lines(out) {
		var f struct {
			Type string
			Seq  int
			Re   json.RawMessage
		}
		if err := json.Unmarshal([]byte(l), &f); err != nil {
			t.Fatalf("%v: %s", err, l)
		}
		types[f.Type+string(f.Re)]++
		if f.Seq > 0 {
			if seqs++; f.Seq != seqs {
				t.Errorf("seq %d at the place of %d", f.Seq, seqs)
			}
		}
	}
	for _, want := range []string{"followed", "session_created", "message_accepted", "response", "message_resolved", "ok1", `error"two"`, "oknull", "errornull"} {
		if types[want] != 1 {
			t.Errorf("%d of %s in\n%s", types[want], want, out)
		}
	}
	if code != exitFailed {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// Files go with the first message, by the command line and by the command upload of a
// script; what cannot be attached is said before anything is sent.
func TestChatAttaches(t *testing.T) {
	l := start(t, t.TempDir())
	defer l.stop()
	notes := filepath.Join(t.TempDir(), "notes, of us.md")
	if err := os.WriteFile(notes, []byte("# Notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	if err := os.WriteFile(program, []byte("\x7fELF\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	server := []string{"--server", "http://" + l.addr}
	for _, c := range []struct {
		name, in  string
		args      []string
		code      int
		out, errs string
	}{
		{"with a text", "look", []string{"--attach", notes}, exitOK, "notes of us.md", ""},
		{"alone, and twice the same", "", []string{"--attach", notes, "--attach", notes}, exitOK, "notes of us.md", ""},
		{"the first of some lines", "look\n/say two\n", []string{"--attach", notes, "--lines"}, exitOK, "two", ""},
		{"a script", `{"type":"upload","id":"f","data":{"file":` + strconv.Quote(notes) + "}}\n", []string{"--json"}, exitOK, `"type":"text/markdown"`, ""},
		{"a script without a file", `{"type":"upload","id":"f","data":{"file":"` + filepath.Dir(notes) + `"}}` + "\n", []string{"--json"}, exitFailed, "only a regular file", ""},
		{"no file", "look", []string{"--attach", notes + "x"}, exitUsage, "", "no such file"},
		{"a directory", "look", []string{"--attach", filepath.Dir(notes)}, exitUsage, "", "only a regular file"},
		{"neither picture nor text", "look", []string{"--attach", program}, exitFailed, "", "program: files of the type application/octet-stream are not taken"},
		{"the flag in a script", "", []string{"--attach", notes, "--json"}, exitUsage, "", `"type":"upload"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := chatting(t, strings.NewReader(c.in), append(server, c.args...)...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
				t.Errorf("exit code %d, %q, %q", code, out, errs)
			}
		})
	}
	session := l.user().create(nil)
	if code, _, errs := chatting(t, strings.NewReader("look"), append(server, "--attach", notes, "--session", session)...); code != exitOK {
		t.Fatalf("%d, %s", code, errs)
	}
	_, body := l.do("GET", "/api/sessions/"+session+"/messages", "")
	if !strings.Contains(string(body), `"name":"notes of us.md","type":"text/markdown","size":8`) {
		t.Errorf("%s", body)
	}
}

// kill -9 of the server in the middle of an answer: the answer is whole after its restart.
func TestChatSurvivesItsServer(t *testing.T) {
	data := t.TempDir()
	slow := []string{"--set", "scripted.token_delay=50ms"}
	l := spawn(t, data, slow...)
	watcher := l.user("deltas")
	session := watcher.create(nil)
	watcher.follow(session, 0)
	type end struct {
		code      int
		out, errs string
	}
	ended := make(chan end, 1)
	go func() {
		code, out, errs := chatting(t, strings.NewReader("/say one two three four five six seven eight nine ten"), "--server", "http://"+l.addr, "--session", session)
		ended <- end{code, out, errs}
	}()
	watcher.until(is("delta"))
	l.kill()
	spawn(t, data, append(slow, "--listen", l.addr)...)
	got := <-ended
	if got.code != exitOK || strings.Count(got.out, "one two three four five six seven eight nine ten") != 1 || !strings.Contains(got.errs, "connecting again") {
		t.Errorf("%+v", got)
	}
}

// What is shown to come back leads to the same server as the same user, in a shell.
func TestChatComesBackToItsServer(t *testing.T) {
	for want, line := range map[string]chatCmd{
		"": {Server: "http://127.0.0.1:8080"},
		"--server https://p.example --token-env KEY":            {Server: "https://p.example", TokenEnv: "KEY"},
		`--server 'http://h/a b;c' --token-file 'it'\''s here'`: {Server: "http://h/a b;c", TokenFile: "it's here"},
	} {
		if got := line.again(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A command of a script that is answered by an error makes the exit code 1, and one for
// another session is such a command.
func TestChatRefusesInAScript(t *testing.T) {
	l := start(t, t.TempDir())
	defer l.stop()
	mine, other := l.user().create(nil), l.user().create(nil)
	for _, c := range []struct {
		name, in, code string
	}{
		{"another session", `{"type":"send","session":"` + other + `","data":{"text":"/say hello"}}`, "bad_request"},
		{"no JSON", "hi", "invalid_json"},
		{"no text", `{"type":"send","data":{"text":"caf` + "\xe9" + `"}}`, "invalid_json"},
		{"no such command", `{"type":"dance"}`, "unknown_type"},
		{"nothing to stop", `{"type":"cancel"}`, "not_found"},
	} {
		t.Run(c.name, func(t *testing.T) {
			code, out, errs := chatting(t, strings.NewReader(c.in+"\n"), "--server", "http://"+l.addr, "--session", mine, "--json")
			if code != exitFailed || !strings.Contains(out, `"code":"`+c.code+`"`) {
				t.Errorf("exit code %d, %s, %s", code, out, errs)
			}
		})
	}
	for _, session := range []string{mine, other} {
		if _, body := l.do("GET", "/api/sessions/"+session+"/messages", ""); strings.Contains(string(body), `"text"`) {
			t.Errorf("something was sent: %s", body)
		}
	}
}

// full is a disk that is full.
type full struct{}

func (full) Write([]byte) (int, error) { return 0, syscall.ENOSPC }

// What cannot be printed is no answer, in either form.
func TestChatSaysThatNothingWasPrinted(t *testing.T) {
	l := start(t, t.TempDir())
	defer l.stop()
	for in, args := range map[string][]string{
		"/say hello": nil,
		`{"type":"send","data":{"text":"/say hello"}}` + "\n": {"--json"},
	} {
		m := NewMain()
		var errs syncBuffer
		m.Stdin, m.Stdout, m.Stderr = strings.NewReader(in), full{}, &errs
		if code := m.Execute(t.Context(), append([]string{"chat", "--server", "http://" + l.addr}, args...)); code != exitFailed || !strings.Contains(errs.String(), "no space left") {
			t.Errorf("%v: exit code %d, %s", args, code, errs.String())
		}
	}
}

// atPty runs "parley chat" at a terminal of its own. What it writes comes on screen,
// which is closed with the program.
func atPty(t *testing.T, term string, args ...string) (terminal *os.File, screen chan []byte, wait func() error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, append([]string{"chat"}, args...)...)
	cmd.Env = append(os.Environ(), serveVariable+"=1", "TERM="+term)
	if terminal, err = pty.StartWithSize(cmd, &pty.Winsize{Rows: 24, Cols: 80}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { terminal.Close() })
	screen = make(chan []byte)
	go func() { // ends with the program
		defer close(screen)
		for {
			b := make([]byte, 4096)
			n, err := terminal.Read(b)
			if err != nil {
				return
			}
			screen <- b[:n]
		}
	}()
	return terminal, screen, cmd.Wait
}

// A session that is not there is said in words alone: a terminal that was asked something
// would answer into the shell.
func TestChatAsksTheTerminalNothingForNoSession(t *testing.T) {
	l := spawn(t, t.TempDir())
	_, screen, wait := atPty(t, "xterm-256color", "--server", "http://"+l.addr, "--session", "aaaaaaaaaaaaaaaa")
	var seen bytes.Buffer
	for b := range screen {
		seen.Write(b)
	}
	if err := wait(); err == nil || !strings.Contains(seen.String(), "no such session") || strings.Contains(seen.String(), "\x1b") {
		t.Errorf("%v, %q", err, seen.String())
	}
}

// A terminal that knows no commands is sent none: lines in, answers out.
func TestChatAtADumbTerminal(t *testing.T) {
	l := spawn(t, t.TempDir())
	terminal, screen, wait := atPty(t, "dumb", "--server", "http://"+l.addr)
	if _, err := io.WriteString(terminal, "/say hello-from-here\n\x04"); err != nil {
		t.Fatal(err)
	}
	var seen bytes.Buffer
	for b := range screen {
		seen.Write(b)
	}
	if err := wait(); err != nil || strings.Count(seen.String(), "hello-from-here") != 2 || strings.Contains(seen.String(), "\x1b") {
		t.Errorf("%v, %q", err, seen.String())
	}
}

// typist is somebody at the terminal of a "parley chat".
type typist struct {
	t        *testing.T
	terminal *os.File
	screen   chan []byte
	wait     func() error
	seen     bytes.Buffer
	late     <-chan time.Time
}

func sitDown(t *testing.T, args ...string) *typist {
	t.Helper()
	terminal, screen, wait := atPty(t, "xterm-256color", args...)
	return &typist{t: t, terminal: terminal, screen: screen, wait: wait, late: time.After(patience)}
}

// until waits for a text on the screen.
func (y *typist) until(text string) {
	y.t.Helper()
	for !strings.Contains(y.seen.String(), text) {
		select {
		case b, ok := <-y.screen:
			if !ok {
				y.t.Fatalf("the program ended; %q is not on %q", text, y.seen.String())
			}
			y.seen.Write(b)
		case <-y.late:
			y.t.Fatalf("%q is not on %q", text, y.seen.String())
		}
	}
	y.seen.Reset()
}

func (y *typist) press(keys string) {
	y.t.Helper()
	if _, err := io.WriteString(y.terminal, keys); err != nil {
		y.t.Fatal(err)
	}
}

// end waits until the program has ended: what it said last, and its error.
func (y *typist) end() (string, error) {
	y.t.Helper()
	for {
		select {
		case b, ok := <-y.screen:
			if !ok {
				return y.seen.String(), y.wait()
			}
			y.seen.Write(b)
		case <-y.late:
			y.t.Fatalf("the program does not end: %q", y.seen.String())
		}
	}
}

// At a terminal: an answer, and two Ctrl+C.
func TestChatAtATerminal(t *testing.T) {
	l := spawn(t, t.TempDir())
	y := sitDown(t, "--server", "http://"+l.addr)
	y.until("/help")
	y.press("//say hello-from-here\r")
	y.until("hello-from-here")
	y.press("\x03")
	y.until("again")
	y.press("\x03")
	y.until("parley chat --server http://" + l.addr + " --session")
	if _, err := y.end(); err != nil {
		t.Error(err)
	}
}

// A session is made with the first message, in a pipe too: who says nothing leaves none.
// What is typed before it is there comes in its order.
func TestChatMakesNoEmptySession(t *testing.T) {
	l := spawn(t, t.TempDir())
	server := []string{"--server", "http://" + l.addr}
	sessions := func() (all []string) {
		var page struct{ Items []struct{ Session string } }
		if _, body := l.do("GET", "/api/sessions", ""); json.Unmarshal(body, &page) != nil {
			t.Fatalf("%s", body)
		}
		for _, i := range page.Items {
			all = append(all, i.Session)
		}
		return all
	}
	y := sitDown(t, server...)
	y.until("/help")
	y.press("/stop\r")
	y.until("nothing was said here yet")
	y.press("/new\r/quit\r")
	if said, err := y.end(); err != nil || strings.Contains(said, "come back") {
		t.Errorf("%v, %q", err, said)
	}
	chatting(t, strings.NewReader(" \n"), server...)
	chatting(t, strings.NewReader("caf\xe9"), server...)
	y = sitDown(t, append(server, "--agent", "nobody")...)
	if said, err := y.end(); err == nil || !strings.Contains(said, "there is no agent \"nobody\"; there are: ") || strings.Contains(said, "\x1b") {
		t.Errorf("%v, %q", err, said)
	}
	if all := sessions(); len(all) != 0 {
		t.Fatalf("%v", all)
	}
	y = sitDown(t, server...)
	y.until("/help")
	y.press("//say one\r//say two\r//say three\r/quit\r")
	said, err := y.end()
	all := sessions()
	if err != nil || len(all) != 1 || !strings.Contains(said, "--session "+all[0]) {
		t.Fatalf("%v, %v, %q", err, all, said)
	}
	_, body := l.do("GET", "/api/sessions/"+all[0]+"/messages", "")
	one, two, three := strings.Index(string(body), "/say one"), strings.Index(string(body), "/say two"), strings.Index(string(body), "/say three")
	if one < 0 || two < one || three < two {
		t.Errorf("%s", body)
	}
}

// Who leaves without a connection is told what was not sent, and the exit code is 1; who
// leaves at once after Enter has sent it.
func TestChatSaysWhatWasNotSent(t *testing.T) {
	l := spawn(t, t.TempDir())
	session := l.user().create(nil)
	args := []string{"--server", "http://" + l.addr, "--session", session}
	y := sitDown(t, args...)
	y.until("/help")
	y.press("//say sent-at-the-last-moment\r/quit\r")
	if said, err := y.end(); err != nil || strings.Contains(said, "not confirmed") {
		t.Errorf("%v, %q", err, said)
	}
	if _, body := l.do("GET", "/api/sessions/"+session+"/messages", ""); !strings.Contains(string(body), "sent-at-the-last-moment") {
		t.Errorf("%s", body)
	}
	y = sitDown(t, args...)
	y.until("sent-at-the-last-moment")
	l.kill()
	y.until("connection")
	y.press("IMPORTANT unsent\r")
	y.until("not sent yet: ")
	y.press("/quit\r")
	if said, err := y.end(); err == nil || err.Error() != "exit status 1" || !strings.Contains(said, "has not confirmed this") || !strings.Contains(said, "  IMPORTANT unsent") {
		t.Errorf("%v, %q", err, said)
	}
}
