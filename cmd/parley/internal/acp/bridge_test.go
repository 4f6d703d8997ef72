package acp

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"go.uber.org/goleak"
)

// patience only bounds a failing test.
const patience = 10 * time.Second

// server gives the test each connection that is made.
type server struct {
	t     *testing.T
	url   string
	conns chan *websocket.Conn
	keys  chan string
}

func serve(t *testing.T) *server {
	s := &server{t: t, conns: make(chan *websocket.Conn), keys: make(chan string, 16)}
	h := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.keys <- r.Header.Get("Authorization")
		c, err := websocket.Accept(w, r, nil)
		if err != nil {
			return
		}
		c.SetReadLimit(-1)
		t.Cleanup(func() { _ = c.CloseNow() })
		s.conns <- c
	}))
	t.Cleanup(h.Close)
	s.url = strings.Replace(h.URL, "http", "ws", 1) + "/acp"
	return s
}

// peer is one side, as the test plays it.
type peer struct {
	t     *testing.T
	read  func() (string, error)
	write func(string) error
}

func (s *server) next() (*peer, *websocket.Conn) {
	s.t.Helper()
	select {
	case c := <-s.conns:
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		s.t.Cleanup(cancel)
		return &peer{s.t, func() (string, error) {
			_, b, err := c.Read(ctx)
			return string(b), err
		}, func(text string) error { return c.Write(ctx, websocket.MessageText, []byte(text)) }}, c
	case <-time.After(patience):
		s.t.Fatal("nobody connects")
	}
	return nil, nil
}

// bridged is an editor with a bridge to an address.
func bridged(t *testing.T, address string, key string) (*peer, io.Closer, chan error, *strings.Builder) {
	in, toBridge := io.Pipe()
	fromBridge, out := io.Pipe()
	var words strings.Builder
	ended := make(chan error, 1)
	e := Ends{Address: address, In: in, Out: out, Err: &words}
	if key != "" {
		e.Token = func() (string, error) { return key, nil }
	}
	go func() {
		ended <- Run(context.Background(), e)
		_ = out.Close()
	}()
	t.Cleanup(func() {
		_ = toBridge.Close()
		_ = fromBridge.Close()
	})
	lines := bufio.NewScanner(fromBridge)
	lines.Buffer(nil, maxFrame)
	return &peer{t, func() (string, error) {
		if !lines.Scan() {
			return "", io.EOF
		}
		return lines.Text(), nil
	}, func(text string) error {
		_, err := io.WriteString(toBridge, text+"\n")
		return err
	}}, toBridge, ended, &words
}

func (p *peer) says(text string) {
	p.t.Helper()
	if err := p.write(text); err != nil {
		p.t.Fatal(err)
	}
}

// hears fails unless the next message has all of these.
func (p *peer) hears(parts ...string) string {
	p.t.Helper()
	text, err := p.read()
	if err != nil {
		p.t.Fatalf("%v instead of %s", err, parts)
	}
	for _, part := range parts {
		if !strings.Contains(text, part) {
			p.t.Fatalf("%s is not in %s", part, text)
		}
	}
	return text
}

func id(message string) string {
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	_ = json.Unmarshal([]byte(message), &m)
	return string(m.ID)
}

const (
	hello   = `{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":1}}`
	greeted = `{"jsonrpc":"2.0","id":0,"result":{"protocolVersion":1,"_meta":{"parley":{"messageBytes":4096}}}}`
	opened  = `{"jsonrpc":"2.0","id":1,"result":{"sessionId":"S","_meta":{"parley":{"cursor":"0-1"}}}}`
)

// begun is an editor that has opened the session S.
func begun(t *testing.T, s *server) (editor, there *peer, c *websocket.Conn, stop func()) {
	editor, in, ended, _ := bridged(t, s.url, "k1")
	there, c = s.next()
	if key := <-s.keys; key != "Bearer k1" {
		t.Errorf("the key is %q", key)
	}
	editor.says(hello)
	there.hears(`"client":"`)
	there.says(greeted)
	editor.hears(`"id":0`)
	editor.says(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{"cwd":"/","mcpServers":[]}}`)
	there.hears(`"session/new"`, `"_meta":{"parley":{"id":"`)
	there.says(opened)
	editor.hears(`"sessionId":"S"`)
	return editor, there, c, func() {
		_ = in.Close()
		go func() {
			for { // what is still said
				if _, err := editor.read(); err != nil {
					return
				}
			}
		}()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
}

// A prompt that has no answer when the connection ends is sent again, under the same id, behind
// what the server has to know before; and a cancel behind it.
func TestGoesOn(t *testing.T) {
	s := serve(t)
	editor, there, c, stop := begun(t, s)
	defer stop()
	editor.says(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"S","prompt":[{"type":"text","text":"<Go>"}],"_meta":{"other":1}}}`)
	prompt := there.hears(`"session/prompt"`, `"_meta":{"other":1,"parley":{"id":"`)
	there.says(`{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"S","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Hel"},"_meta":{"parley":{"cursor":"3-99"}}}}}`)
	editor.hears("Hel")
	editor.says(`{"jsonrpc":"2.0","method":"session/cancel","params":{"sessionId":"S"}}`)
	there.hears("session/cancel")
	_ = c.CloseNow()
	there, c = s.next()
	again := there.hears("initialize", `"client":"`)
	resume := there.hears("session/resume", `"sessionId":"S"`, `"after":"3-99"`)
	if got := there.hears(`"id":2`); got != prompt {
		t.Errorf("the prompt is %s, and was %s", got, prompt)
	}
	there.hears("session/cancel")
	for _, own := range []string{again, resume} {
		there.says(`{"jsonrpc":"2.0","id":` + id(own) + `,"result":{}}`)
	}
	there.says("{\"jsonrpc\":\"2.0\",\"id\":2,\n\"result\":{\"stopReason\":\"cancelled\"}}")
	editor.hears(`{"jsonrpc":"2.0","id":2,"result":{"stopReason":"cancelled"}}`)
	_ = c.CloseNow()
	there, _ = s.next() // nothing is sent again that has its answer
	there.hears("initialize")
	failed := there.hears("session/resume", `"after":"3-99"`)
	there.says(`{"jsonrpc":"2.0","id":` + id(failed) + `,"error":{"code":-32603,"message":"another log"}}`)
	if anew := there.hears("session/resume"); strings.Contains(anew, "after") {
		t.Errorf("from now on it is %s", anew)
	}
}

// A question is put to the editor once, whatever happens to the connection; its answer gets to the
// server; and what is not asked any more is taken back.
func TestQuestions(t *testing.T) {
	s := serve(t)
	editor, there, c, stop := begun(t, s)
	defer stop()
	ask := func(q string) string {
		return `{"jsonrpc":"2.0","id":"S#` + q + `","method":"elicitation/create","params":{"sessionId":"S"}}`
	}
	there.says(ask("q1"))
	there.says(ask("q2"))
	editor.hears("S#q1")
	editor.hears("S#q2")
	answer := `{"jsonrpc":"2.0","id":"S#q1","result":{"action":"accept"}}`
	editor.says(answer)
	there.hears("S#q1")
	_ = c.CloseNow()
	there, _ = s.next()
	there.hears("initialize")
	resume := there.hears("session/resume")
	there.says(ask("q1")) // the answer was lost
	if got := there.hears("S#q1"); got != answer {
		t.Errorf("the answer is %s", got)
	}
	there.says(ask("q3"))
	editor.hears("S#q3") // and neither of the others
	there.says(`{"jsonrpc":"2.0","id":` + id(resume) + `,"result":{"_meta":{"parley":{"asks":["S#q3"]}}}}`)
	editor.hears("$/cancel_request", "S#q2")
	there.says(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"S#q2"}}`) // taken back already
	there.says(`{"jsonrpc":"2.0","method":"$/cancel_request","params":{"requestId":"S#q3"}}`)
	editor.hears("$/cancel_request", "S#q3")
}

// What cannot be carried is answered.
func TestLines(t *testing.T) {
	s := serve(t)
	editor, there, _, stop := begun(t, s)
	defer stop()
	for _, bad := range []string{"{", "[]", "7", `"x"`} {
		editor.says(bad)
		editor.hears(`"id":null`, "-32700")
	}
	editor.says("")
	editor.says(`{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"text":"` + strings.Repeat("x", 4096) + `"}}`)
	editor.hears(`"id":7`, "-32602", "4096"[:1])
	editor.says(`{"jsonrpc":"2.0","id":8,"method":"session/prompt","params":7}`)
	there.hears(`"id":8`, `"params":7`) // the server says what is wrong with it
	there.says(`{"jsonrpc":"2.0","id":8,"error":{"code":-32602,"message":"no"}}`)
	editor.hears(`"id":8`, "-32602")
	there.says(`{"jsonrpc":"2.0","id":8,"result":{}}`) // to nothing
	there.says(`{"jsonrpc":"2.0","method":"_new/word","params":{}}`)
	editor.hears("_new/word")
}

// What is said before initialize has its answer waits for it: only then it is known how long a message may be.
func TestBeforeTheAnswerToInitialize(t *testing.T) {
	s := serve(t)
	editor, _, _, _ := bridged(t, s.url, "")
	there, c := s.next()
	editor.says(`{"jsonrpc":"2.0","id":5,"method":"session/list","params":{}}`)
	editor.hears(`"id":5`, "-32600", "initialize")
	editor.says(hello)
	there.hears("initialize")
	editor.says(`{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"sessionId":"S","text":"` + strings.Repeat("x", 4096) + `"}}`)
	editor.says(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`)
	editor.says(`{"jsonrpc":"2.0","method":"_a/word","params":{}}`)
	_ = c.CloseNow() // all of it comes again, in its order
	there, _ = s.next()
	there.hears("initialize")
	there.says(greeted)
	editor.hears(`"id":0`)
	editor.hears(`"id":7`, "-32602", "3072")
	there.hears(`"id":1`, "session/new")
	there.hears("_a/word")
	there.says(opened)
	editor.hears(`"id":1`)
	editor.says(hello)
	there.hears("initialize") // the server says that it was said before
	there.says(`{"jsonrpc":"2.0","id":0,"error":{"code":-32600,"message":"no"}}`)
	editor.hears(`"id":0`, "-32600")
}

// When initialize is refused, so is what waits for its answer.
func TestInitializeIsRefused(t *testing.T) {
	s := serve(t)
	editor, _, _, _ := bridged(t, s.url, "")
	there, _ := s.next()
	editor.says(hello)
	there.hears("initialize")
	editor.says(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`)
	editor.says(`{"jsonrpc":"2.0","id":2,"method":"authenticate","params":{}}`) // read, so the one before is, too
	there.says(`{"jsonrpc":"2.0","id":0,"error":{"code":-32602,"message":"no"}}`)
	editor.hears(`"id":0`, "-32602")
	editor.hears(`"id":1`, "-32600")
	editor.hears(`"id":2`, "-32600")
	editor.says(hello)
	there.hears("initialize")
}

// A message that the server ends the connection for is answered once, and not sent again: initialize, of which
// it is not known how long it may be, and others when the server takes less than it has said.
func TestTooLongForTheServer(t *testing.T) {
	s := serve(t)
	editor, _, _, words := bridged(t, s.url, "")
	there, c := s.next()
	editor.says(hello)
	there.hears("initialize")
	_ = c.Close(websocket.StatusMessageTooBig, "")
	editor.hears(`"id":0`, "-32602")
	there, c = s.next()
	editor.says(hello)
	there.hears("initialize")
	there.says(greeted)
	editor.hears(`"id":0`)

	editor.says(`{"jsonrpc":"2.0","id":1,"method":"session/new","params":{}}`)
	there.hears("session/new")
	editor.says(`{"jsonrpc":"2.0","id":2,"method":"session/prompt","params":{"sessionId":"S","text":"` + strings.Repeat("x", 2000) + `"}}`)
	there.hears("session/prompt")
	_ = c.Close(websocket.StatusMessageTooBig, "")
	editor.hears(`"id":2`, "-32602")
	there, c = s.next()
	there.hears("initialize")
	there.says(`{"jsonrpc":"2.0","id":"parley-bridge:2:hello","result":{"_meta":{"parley":{"messageBytes":2048}}}}`)
	there.hears(`"id":1`, "session/new")
	there.says(opened)
	editor.hears(`"id":1`)
	editor.says(`{"jsonrpc":"2.0","id":3,"method":"session/prompt","params":{"sessionId":"S","text":"` + strings.Repeat("x", 1100) + `"}}`)
	editor.hears(`"id":3`, "-32602", "1024")

	there.says(`{"jsonrpc":"2.0","id":"S#q1","method":"elicitation/create","params":{"sessionId":"S"}}`)
	editor.hears("S#q1")
	editor.says(`{"jsonrpc":"2.0","id":"S#q1","result":{"action":"accept","content":{"answer":"` + strings.Repeat("x", 900) + `"}}}`)
	there.hears("S#q1")
	_ = c.Close(websocket.StatusMessageTooBig, "")
	there, _ = s.next()
	there.hears("initialize")
	there.hears("session/resume")
	there.says(`{"jsonrpc":"2.0","id":"S#q1","method":"elicitation/create","params":{"sessionId":"S"}}`)
	there.hears("S#q1", "error")
	if !strings.Contains(words.String(), "an answer was not sent") {
		t.Errorf("people are told %s", words)
	}
}

// A line that no memory should hold is answered by its id, and passed over.
func TestLongLines(t *testing.T) {
	s := serve(t)
	editor, there, _, stop := begun(t, s)
	defer stop()
	long := strings.Repeat("x", maxLine)
	for line, want := range map[string]string{
		`{"jsonrpc":"2.0","id":7,"method":"session/prompt","params":{"text":"` + long + `"}}`: `"id":7`,
		`{"params":{"text":"` + long + `"},"id":8,"method":"session/prompt"}`:                 `"id":null`,
		long: `"id":null`,
	} {
		editor.says(line)
		editor.hears(want, `"error"`, "16777216")
	}
	editor.says(`{"jsonrpc":"2.0","id":"S#q1","result":{"text":"` + long + `"}}`)
	editor.says(`{"jsonrpc":"2.0","id":9,"method":"session/prompt","params":{"sessionId":"S"}}` + "\r")
	there.hears(`"id":9`)
}

// Without a server, and with a key that is not good, the editor is told so.
func TestNoServer(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/problem+json")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = io.WriteString(w, `{"detail":"who are you?"}`)
	}))
	defer refusing.Close()
	for address, says := range map[string]string{"ws://127.0.0.1:1/acp": "-32603", strings.Replace(refusing.URL, "http", "ws", 1) + "/acp": "who are you?"} {
		editor, _, ended, words := bridged(t, address, "")
		editor.says(hello)
		editor.hears(`"id":0`, `"error"`, says)
		if err := <-ended; !errors.Is(err, ErrStart) {
			t.Errorf("it ends with %v", err)
		}
		if !strings.Contains(words.String(), "no connection") {
			t.Errorf("it says %q", words)
		}
	}
}

func TestAddress(t *testing.T) {
	for server, want := range map[string]string{
		"http://127.0.0.1:8080": "ws://127.0.0.1:8080/acp", "https://p.example/base/": "wss://p.example/base/acp", "ws://h/acp": "ws://h/acp", "wss://h": "wss://h/acp",
		"127.0.0.1:8080": "", "": "", "ftp://h": "", "http://": "", "http://a b": "",
	} {
		if got, err := Address(server); got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q, %v", server, got, err)
		}
	}
}

func FuzzMessage(f *testing.F) {
	for _, seed := range []string{hello, greeted, opened, `{"params":null}`, `{"params":{"_meta":7}}`, `[]`, `{"id":"S#q","result":{"_meta":{"parley":{"asks":["x"]}}}}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		id, kind := head(b)
		if id != nil && !json.Valid(id) {
			t.Fatalf("the id is %q", id)
		}
		m, ok := read(b)
		if !ok {
			return
		}
		if !bytes.Contains(b, []byte(`\u`)) && kind == "notification" && (m.ID != nil || m.Method == "") {
			t.Fatalf("%s is no notification: %+v", b, m)
		}
		if l := line(b); strings.ContainsAny(string(l[:len(l)-1]), "\n") || !json.Valid(l) {
			t.Fatalf("the line is %q", l)
		}
		if changed := with(b, "id", "7"); !json.Valid(changed) {
			t.Fatalf("%s became %s", b, changed)
		}
	})
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}
