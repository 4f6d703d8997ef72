package conform

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/fasthttp/websocket"
)

// The test's program is also the client under test: a small one that is right, and that
// makes one mistake when PARLEY_MISTAKE names it.
func TestMain(m *testing.M) {
	if os.Getenv("PARLEY_URL") != "" {
		newClient(os.Getenv("PARLEY_MISTAKE")).run()
		return
	}
	code := m.Run()
	unbuild()
	os.Exit(code)
}

// smallClient is a client with one session. One goroutine reads its commands; the other
// one owns everything else.
type smallClient struct {
	mistake string
	told    chan map[string]string

	session   string
	log       string
	last      int64
	unsent    []map[string]string // not acknowledged, in order
	asked     map[string]string   // command id → its type
	following bool                // a follow is under way
	next      int                 // of command ids
	attempt   int
	retry     <-chan time.Time
}

func newClient(mistake string) *smallClient {
	return &smallClient{mistake: mistake, told: make(chan map[string]string)}
}

func (c *smallClient) say(line map[string]any) {
	b, _ := json.Marshal(line)
	fmt.Println(string(b))
}

func (c *smallClient) run() {
	go func() {
		in := bufio.NewScanner(os.Stdin)
		for in.Scan() {
			all := make(map[string]any)
			if json.Unmarshal(in.Bytes(), &all) != nil {
				continue
			}
			if all["stop"] != nil {
				os.Exit(0)
			}
			command := make(map[string]string)
			for k, v := range all {
				command[k], _ = v.(string)
			}
			c.told <- command
		}
		os.Exit(0)
	}()
	first := <-c.told
	c.session = first["follow"]
	for {
		wait, code := c.connect()
		if final := code != 0 && slices.Contains(staysAway, code); final && c.mistake != "comes back" || code != 0 && c.mistake == "stays away" {
			c.say(map[string]any{"stopped": code})
			for {
				<-c.told
			}
		}
		if wait == 0 {
			full := min(20000, 400<<min(c.attempt, 6))
			wait = time.Duration(100+rand.IntN(full-100)) * time.Millisecond
		}
		if c.mistake == "hammers" {
			wait = time.Millisecond
		}
		c.attempt++
		timer := time.NewTimer(wait)
		for over := false; !over; {
			select {
			case m := <-c.told:
				c.unsent = append(c.unsent, m)
			case <-timer.C:
				over = true
			}
		}
	}
}

// connect holds one connection; wait is how long the server has asked to stay away, code
// why the connection ended.
func (c *smallClient) connect() (wait time.Duration, code int) {
	patience := 2 * time.Second
	if c.mistake == "waits for ever" {
		patience = 0
	}
	ws, _, err := (&websocket.Dialer{Subprotocols: []string{"parley.v1"}, HandshakeTimeout: patience}).
		Dial(strings.Replace(os.Getenv("PARLEY_URL"), "http", "ws", 1)+"/ws", nil)
	if err != nil {
		return 0, 0
	}
	defer ws.Close()
	switch c.mistake {
	case "no pong":
		ws.SetPingHandler(func(string) error { return nil })
	case "empty pong":
		ws.SetPingHandler(func(string) error { return ws.WriteControl(websocket.PongMessage, nil, time.Now().Add(time.Second)) })
	}
	c.asked, c.following, c.next, c.retry = make(map[string]string), false, 0, nil
	frames, ended, over := make(chan message), make(chan error, 1), make(chan struct{})
	defer close(over)
	silence := 30 * time.Second
	go func() {
		for {
			_, raw, err := ws.ReadMessage()
			if err != nil {
				ended <- err
				return
			}
			select {
			case frames <- parse(raw):
			case <-over:
				return
			}
		}
	}()
	if c.mistake == "no hello" {
		c.follow(ws)
	}
	c.ask(ws, "hello", "", map[string]any{"proto": 1})
	quiet := time.NewTimer(silence)
	for {
		select {
		case m := <-c.told:
			c.unsent = append(c.unsent, m)
			c.send(ws)
		case <-c.retry:
			c.retry = nil
			c.send(ws)
		case <-quiet.C:
			return 0, 0
		case err := <-ended:
			var closed *websocket.CloseError
			if errors.As(err, &closed) && closed.Code != websocket.CloseAbnormalClosure {
				return wait, closed.Code
			}
			return wait, 0
		case m := <-frames:
			if m.text("type") == "ok" && c.asked[m.text("re")] == "hello" && c.mistake != "never doubts" {
				silence = 2 * time.Second
			}
			quiet.Reset(silence)
			if w := c.frame(ws, m); w > 0 && c.mistake != "ignores goaway" {
				wait = w
			}
		}
	}
}

func (c *smallClient) ask(ws *websocket.Conn, kind, session string, data map[string]any) {
	c.next++
	id := strconv.Itoa(c.next)
	c.asked[id] = kind
	frame := map[string]any{"type": kind, "id": id, "data": data}
	if session != "" {
		frame["session"] = session
	}
	if c.mistake == "numbers as ids" && kind == "follow" {
		frame["id"] = c.next
	}
	_ = ws.WriteMessage(websocket.TextMessage, made(frame).raw)
}

func (c *smallClient) follow(ws *websocket.Conn) {
	if c.following {
		return
	}
	c.following = true
	data := map[string]any{"since": c.last}
	if c.log != "" && c.mistake != "forgets the log" {
		data["log"] = c.log
	}
	if c.mistake == "takes the tail" {
		data = map[string]any{"tail": 5}
	}
	c.ask(ws, "follow", c.session, data)
}

// send sends what is the oldest.
func (c *smallClient) send(ws *websocket.Conn) {
	busy := c.retry != nil
	for _, kind := range c.asked {
		busy = busy || kind == "hello" || kind == "send" || kind == "answer"
	}
	if busy || len(c.unsent) == 0 {
		return
	}
	m := c.unsent[0]
	id := m["id"]
	if c.mistake == "new ids" {
		id += fmt.Sprint("-", rand.Int())
	}
	if question := m["answer"]; question != "" {
		c.ask(ws, "answer", c.session, map[string]any{"client_msg_id": id, "question": question, "text": m["text"]})
		return
	}
	c.ask(ws, "send", c.session, map[string]any{"client_msg_id": id, "text": m["send"]})
	if c.mistake == "sends once" {
		c.say(map[string]any{"sent": m["id"]})
		c.unsent = c.unsent[1:]
	}
}

// frame takes what the server says.
func (c *smallClient) frame(ws *websocket.Conn, m message) (wait time.Duration) {
	kind := c.asked[m.text("re")]
	switch m.text("type") {
	case "ok":
		delete(c.asked, m.text("re"))
		data, _ := m.object["data"].(map[string]any)
		switch kind {
		case "hello":
			c.attempt = 0
			c.follow(ws)
		case "follow":
			c.following = false
			if log, _ := data["log"].(string); log != c.log {
				if c.log != "" && c.mistake != "mixes logs" {
					switch c.mistake {
					case "keeps its place":
					case "shows the tail":
						c.last = m.number("head") - newTail
					default:
						c.last = 0
					}
					c.say(map[string]any{"reset": c.session, "reason": data["reason"]})
					c.log = log
					c.follow(ws)
				}
				c.log = log
			}
		case "send", "answer":
			if c.mistake == "sends once" && kind == "send" {
				break
			}
			c.say(map[string]any{"sent": c.unsent[0]["id"], "message": data["message"]})
			c.unsent = c.unsent[1:]
		}
		if kind != "" {
			c.send(ws)
		}
	case "error":
		delete(c.asked, m.text("re"))
		e, _ := m.object["error"].(map[string]any)
		if kind == "follow" {
			c.following = false
		}
		if kind != "send" && kind != "answer" {
			return 0
		}
		if c.mistake == "gives up" {
			c.say(map[string]any{"failed": c.unsent[0]["id"], "code": e["code"]})
			c.unsent = c.unsent[1:]
			return 0
		}
		after, _ := e["retry_after_ms"].(json.Number)
		ms, _ := after.Int64()
		if c.mistake == "does not wait" {
			ms = 1
		}
		if c.mistake == "lets others pass" {
			c.unsent = append(c.unsent[1:], c.unsent[0])
		}
		c.retry = time.After(time.Duration(max(ms, 1)) * time.Millisecond)
	case "goaway":
		data, _ := m.object["data"].(map[string]any)
		n, _ := data["retry_in_ms"].(json.Number)
		ms, _ := n.Int64()
		return time.Duration(ms) * time.Millisecond
	default:
		c.event(ws, m)
	}
	return 0
}

func (c *smallClient) event(ws *websocket.Conn, m message) {
	seq := m.seq()
	if m.text("type") == "synced" && m.number("head") > c.last && c.mistake != "ignores synced" {
		c.follow(ws)
	}
	if seq == 0 || m.text("session") != c.session {
		return
	}
	if seq <= c.last && c.mistake != "shows doubles" {
		return
	}
	if seq > c.last+1 && c.mistake != "skips gaps" && c.mistake != "takes the tail" {
		c.follow(ws)
		return
	}
	if c.mistake == "stumbles" && strings.HasPrefix(m.text("type"), "from_a_later") {
		return
	}
	if data, _ := m.object["data"].(map[string]any); c.mistake == "knows no files" && data["attachments"] != nil {
		return
	}
	c.last = max(seq, c.last)
	c.say(map[string]any{"seq": seq, "type": m.text("type"), "session": c.session})
}
