package gateway_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
	"parley/gateway/gatewaytest"

	"github.com/coder/websocket"
)

// Where a follow begins.
// PROTOCOL.md, rules 5.5, 5.6.
func TestResume(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.sessions.Say(key, 99) // the head is 100
	r.sessions.Do(func() {})
	for _, x := range []struct {
		name          string
		data          obj
		first         uint64
		resumed, want string
	}{
		{"the whole tail", nil, 51, "false", ""},
		{"a shorter tail", obj{"tail": 3}, 98, "false", ""},
		{"no tail", obj{"tail": 0}, 101, "false", ""},
		{"a tail beyond the log", obj{"tail": 1000}, 1, "false", ""},
		{"since", obj{"since": 90}, 91, "true", ""},
		{"since the head", obj{"since": 100}, 101, "true", ""},
		{"since, the same log", obj{"since": 98, "log": "log-1"}, 99, "true", ""},
		{"another log", obj{"since": 98, "log": "log-0"}, 51, "false", "other_log"},
		{"beyond the head", obj{"since": 101}, 51, "false", "ahead"},
		{"since the first one", obj{"since": 1}, 2, "true", ""},
		{"since ever", obj{"since": 0, "tail": 5}, 1, "true", ""},
	} {
		t.Run(x.name, func(t *testing.T) {
			c := gatewaytest.Connect(t, r.addr)
			f := c.Do("follow", "s1", x.data)
			if f.Get("first") != strconv.FormatUint(x.first, 10) || f.Get("resumed") != x.resumed || f.Get("reason") != x.want || f.Get("head") != "100" {
				t.Errorf("%s", f.Raw)
			}
			for seq := x.first; seq <= 100; seq++ {
				if f := c.Read(); f.Seq != seq {
					t.Fatalf("want event %d: %s", seq, f.Raw)
				}
			}
			if f := c.Read(); f.Type != "synced" || f.Get("head") != "100" {
				t.Errorf("%s", f.Raw)
			}
		})
	}
	if n := r.metric("parley_gateway_resumes_total", "result", "other_log"); n != 1 {
		t.Errorf("other_log was counted %v times", n)
	}
}

// N-03: replayed and live bytes are equal, on a socket, in a page and in a stream.
func TestEqualBytes(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	live := gatewaytest.Connect(t, r.addr)
	live.Do("follow", "s1", obj{"since": 0})
	r.sessions.Say(key, 30)
	r.sessions.Commit(key, conversation.Event{Task: "t1-s1", Body: conversation.ToolStarted{Call: "c1", Tool: "clock", Args: `{ "a": "☃" }`}})
	r.sessions.Do(func() {})
	late := gatewaytest.Connect(t, r.addr)
	late.Do("follow", "s1", obj{"since": 0})
	page := r.call("GET", "/api/sessions/s1/events?limit=200", "").want(t, 200)
	var list struct{ Items []json.RawMessage }
	if err := json.Unmarshal(page.body, &list); err != nil {
		t.Fatal(err)
	}
	event := func(f gatewaytest.Frame) bool { return f.Seq > 0 }
	for i := range 32 {
		a, b := live.Until(event), late.Until(event)
		if !bytes.Equal(a.Raw, b.Raw) || !bytes.Equal(a.Raw, list.Items[i]) {
			t.Fatalf("live   %s\nreplay %s\npage   %s", a.Raw, b.Raw, list.Items[i])
		}
	}
}

// What was stored and never published is read from the log as soon as that is
// known, once and in order, by those who are live and those who are not.
func TestStoredNotPublished(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	c := gatewaytest.Connect(t, r.addr)
	c.Do("follow", "s1", obj{"since": 0})
	r.sessions.Say(key, 3)
	for range 3 {
		r.sessions.Store(key, conversation.Event{Body: conversation.SessionUpdated{Title: new("a title")}}, conversation.Event{Body: conversation.SessionUpdated{Title: new("a title")}})
		r.sessions.Store(key)
		r.sessions.Say(key, 1)
	}
	for want := uint64(1); want <= 13; want++ {
		if f := c.Until(func(f gatewaytest.Frame) bool { return f.Seq > 0 }); f.Seq != want {
			t.Fatalf("want event %d: %s", want, f.Raw)
		}
	}
}

// seeded is a random source whose seed can be given again.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if s := os.Getenv("SEED"); s != "" {
		seed, _ = strconv.ParseUint(s, 10, 64)
	}
	t.Logf("rerun with: SEED=%d go test ./gateway -run '^%s$'", seed, strings.Split(t.Name(), "/")[0])
	return rand.New(rand.NewPCG(seed, 1))
}

// N-03: a follow in the middle of publishing gets every event once, in order, and
// nothing ephemeral before the event that it came after; whatever the timing.
// PROTOCOL.md, rule 5.1.
func TestHandOver(t *testing.T) {
	rnd := seeded(t)
	r := start(t, limits(func(l *gateway.Limits) { l.ReplayPage, l.FollowsPerConnection = 7, 0 }))
	for round := range 30 {
		session := "s" + strconv.Itoa(round)
		key := r.sessions.Open(session, "local")
		before, during := rnd.IntN(60), 100+rnd.IntN(200)
		r.sessions.Say(key, before)
		since := rnd.IntN(before + 1)
		c := gatewaytest.Connect(t, r.addr, "deltas")
		pause := rnd.IntN(during)
		go func() {
			for i := range during {
				r.sessions.Say(key, 1)
				if i%3 == 0 {
					r.sessions.Show(key, conversation.Thinking{Step: 1})
				}
				if i == pause {
					r.sessions.Do(func() {})
				}
			}
		}()
		c.Send("follow", session, obj{"since": since})
		next, synced, head := uint64(since)+1, false, uint64(0)
		for last := uint64(1 + before + during); next <= last || !synced; {
			f := c.Read()
			switch {
			case f.Re != nil:
				head, _ = strconv.ParseUint(f.Get("head"), 10, 64)
			case f.Type == "synced":
				if synced || next != head+1 {
					t.Fatalf("synced before %d, head %d", next, head)
				}
				synced = true
			case f.Seq > 0:
				if f.Seq != next {
					t.Fatalf("round %d: event %d, want %d (head %d)", round, f.Seq, next, head)
				}
				if !synced && f.Seq > head {
					t.Fatalf("event %d before synced{%d}", f.Seq, head)
				}
				next++
			case f.After != nil:
				if *f.After >= next {
					t.Fatalf("%s came before event %d", f.Raw, next)
				}
			}
		}
		_ = c.WS.CloseNow()
	}
}

// Following again replaces the follow: the events of the old one end with the
// answer, and nothing comes twice after it.
func TestFollowAgainAndUnfollow(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	c := gatewaytest.Connect(t, r.addr)
	c.Do("follow", "s1", obj{"since": 0})
	r.sessions.Say(key, 3)
	r.sessions.Do(func() {})
	id := c.Send("follow", "s1", obj{"since": 2})
	for c.Read().Re == nil {
	}
	_ = id
	for seq := uint64(3); seq <= 4; seq++ {
		if f := c.Read(); f.Seq != seq {
			t.Fatalf("want %d: %s", seq, f.Raw)
		}
	}
	c.Until(func(f gatewaytest.Frame) bool { return f.Type == "synced" })
	r.sessions.Say(key, 1)
	if f := c.Read(); f.Seq != 5 {
		t.Fatalf("%s", f.Raw)
	}
	c.Do("unfollow", "s1", nil)
	r.sessions.Say(key, 1)
	r.sessions.Do(func() {})
	if f := c.Do("ping", "", nil); f.Type != "ok" {
		t.Fatalf("%s", f.Raw)
	}
	if n := r.metric("parley_gateway_follows"); n != 0 {
		t.Errorf("%v follows are left", n)
	}
	// Nobody follows: nothing was encoded.
	if n := r.metric("parley_gateway_published_events_total"); n != 4 {
		t.Errorf("%v events were encoded, want 4", n)
	}
}

// Deltas go to those who asked for them; the draft of a stream that is under way
// is shown after the follow.
// PROTOCOL.md, rules 4.2, 4.4.
func TestDrafts(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	r.sessions.Drafts(key, conversation.DraftView{Task: "t1-s1", Draft: "1.1.0", Text: "Hel"})
	with, without := gatewaytest.Connect(t, r.addr, "deltas"), gatewaytest.Connect(t, r.addr)
	with.Do("follow", "s1", obj{"since": 0})
	without.Do("follow", "s1", obj{"since": 1})
	if f := with.Read(); f.Seq != 1 {
		t.Errorf("%s", f.Raw)
	}
	with.Until(func(f gatewaytest.Frame) bool { return f.Type == "synced" })
	if f := with.Until(func(f gatewaytest.Frame) bool { return f.Type == "draft_state" }); f.Get("text") != "Hel" || *f.After != 1 {
		t.Errorf("%s", f.Raw)
	}
	without.Until(func(f gatewaytest.Frame) bool { return f.Type == "synced" })
	r.sessions.Show(key, conversation.Delta{Task: "t1-s1", Draft: "1.1.0", At: 3, Text: "lo"})
	r.sessions.Show(key, conversation.DraftDropped{Task: "t1-s1", Draft: "1.1.0"})
	r.sessions.Show(key, conversation.Thinking{Task: "t1-s1", Agent: "coordinator", Step: 1})
	for _, want := range []string{"delta", "draft_dropped", "thinking"} {
		if f := with.Read(); f.Type != want {
			t.Errorf("want %s: %s", want, f.Raw)
		}
	}
	if f := without.Read(); f.Type != "thinking" {
		t.Errorf("without the cap: %s", f.Raw)
	}
	for _, kind := range []string{"draft_state", "delta", "draft_dropped", "thinking"} {
		if n := r.metric("parley_gateway_ephemeral_total", "type", kind); n != 1 {
			t.Errorf("%s was counted %v times", kind, n)
		}
	}
}

// typing goes to the other followers, gone to all of them.
// PROTOCOL.md, rules 4.6, 4.7.
func TestTypingAndGone(t *testing.T) {
	r := start(t)
	key := r.sessions.Open("s1", "local")
	a, b := gatewaytest.Connect(t, r.addr), gatewaytest.Connect(t, r.addr)
	for _, c := range []*gatewaytest.Client{a, b} {
		c.Do("follow", "s1", obj{"since": 1})
		c.Until(func(f gatewaytest.Frame) bool { return f.Type == "synced" })
	}
	a.Write(`{"type":"typing","session":"s1","data":{"on":true}}`)
	if f := b.Read(); f.Type != "typing" || f.Get("user") != "local" || f.Get("on") != "true" {
		t.Errorf("%s", f.Raw)
	}
	if err := r.sessions.Erase(t.Context(), key, "local"); err != nil {
		t.Fatal(err)
	}
	for _, c := range []*gatewaytest.Client{a, b} {
		if f := c.Read(); f.Type != "gone" || f.Get("reason") != "erased" {
			t.Errorf("%s", f.Raw)
		}
		if f := c.Do("follow", "s1", nil); f.Error == nil || f.Error.Code != "not_found" {
			t.Errorf("%s", f.Raw)
		}
	}
}

// Typing of somebody who is far behind comes after what the others have seen.
func TestTypingFromBehind(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.QueueFrames, l.QueueBytes, l.ReplayPage = 16, 64<<10, 10 }),
		times(func(x *gateway.Times) { x.Write, x.ReadDeadline = time.Hour, time.Hour }))
	key := r.sessions.Open("s1", "local")
	text := strings.Repeat("x", 60_000)
	for range 500 { // 30 MB: more than the kernel takes for a client that does not read
		r.sessions.Commit(key, conversation.Event{Body: conversation.MessageEdited{Message: "m1", Text: text}})
	}
	ahead := gatewaytest.Connect(t, r.addr)
	ahead.Do("follow", "s1", obj{"since": 501})
	ahead.Until(func(f gatewaytest.Frame) bool { return f.Type == "synced" })
	behind := dialRaw(t, r.addr)
	behind.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
	behind.send(1, gatewaytest.Command("follow", "2", "s1", obj{"since": 0}))
	behind.read()
	behind.read() // both are answered, and no more is read
	behind.send(1, `{"type":"typing","session":"s1","data":{"on":true}}`)
	if f := ahead.Read(); f.Type != "typing" || !strings.Contains(string(f.Raw), `"after":501`) {
		t.Errorf("%.200s", f.Raw)
	}
}

// What one may not see is not found, on every command.
// PROTOCOL.md, rule 9.3.
func TestInvisible(t *testing.T) {
	r := start(t, withAuth(badAuth{}))
	r.sessions.Open("s1", "ann")
	bob := gatewaytest.Dial(t, r.addr)
	bob.Do("hello", "", obj{"proto": 1, "token": "bob"})
	for kind, data := range map[string]obj{
		"follow": {}, "send": {"client_msg_id": "a", "text": "x"}, "answer": {"client_msg_id": "a", "question": "q1", "text": "x"},
		"edit": {"message": "m", "text": "x"}, "withdraw": {"message": "m"}, "move": {"message": "m"}, "cancel": {}, "clear": {}, "policy": {"inbox.mode": "queue"}, "seen": {"seq": 1},
	} {
		if f := bob.Do(kind, "s1", data); f.Error == nil || f.Error.Code != "not_found" {
			t.Errorf("%s: %s", kind, f.Raw)
		}
	}
}

// Without read:tools the same events come, redacted.
// PROTOCOL.md, rule 9.4.
func TestRedaction(t *testing.T) {
	r := start(t, withAuth(badAuth{}))
	key := r.sessions.Open("s1", "ann")
	c := gatewaytest.Dial(t, r.addr)
	c.Do("hello", "", obj{"proto": 1, "token": "good"})
	c.Do("follow", "s1", obj{"since": 1})
	c.Until(func(f gatewaytest.Frame) bool { return f.Type == "synced" })
	c.Do("send", "s1", obj{"client_msg_id": "a", "text": "mail it"})
	r.sessions.Model(key, machinetest.Call("mail", `{"secret":1}`))
	r.sessions.Play(func(w *machinetest.World) { w.Session(key).Return("c1", "secret", 0) })
	r.sessions.Commit(key, conversation.Event{Task: "t1-s1", Body: conversation.DelegationStarted{
		Delegation: "d7", Agent: "developer", Objective: "the secret", Session: "s1/d7", Deadline: gatewaytest.Epoch,
	}})
	r.sessions.Show(key, conversation.Progress{Task: "t1-s1", Call: "d7", Note: "found the secret", Percent: gatewaytest.Ptr(50)})
	redacted := map[string]string{"tool_started": "args", "tool_finished": "summary", "delegation_started": "objective", "progress": "note"}
	for len(redacted) > 0 {
		f := c.Read()
		if name := redacted[f.Type]; strings.Contains(string(f.Raw), "secret") || name != "" && f.Get(name) != `{"redacted":true}` {
			t.Errorf("%s", f.Raw)
		}
		delete(redacted, f.Type)
	}
	r.call("GET", "/api/sessions/s1/calls/c1", "", "Authorization", "Bearer good").want(t, 200)
	if a := r.call("GET", "/api/sessions/s1/calls/c1", "", "Authorization", "Bearer good"); strings.Contains(string(a.body), "secret") {
		t.Errorf("%s", a.body)
	}
	if a := r.call("GET", "/api/sessions/s1/calls/d7", "", "Authorization", "Bearer good").want(t, 200); strings.Contains(string(a.body), "secret") {
		t.Errorf("%s", a.body)
	}
	if a := r.call("GET", "/api/sessions/s1/events", "", "Authorization", "Bearer good"); strings.Contains(string(a.body), "secret") {
		t.Errorf("%s", a.body)
	}
}

// N-11: a client that does not read delays nobody. Its live subscription is detached, and
// when it reads again it gets everything from the log, in order.
// PROTOCOL.md, rule 5.7.
func TestSlowConsumer(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.QueueFrames, l.QueueBytes, l.ReplayPage = 16, 64<<10, 10 }),
		times(func(x *gateway.Times) { x.Write, x.ReadDeadline = time.Hour, time.Hour })) // the fast one may need its time for 30 MB
	key := r.sessions.Open("s1", "local")
	slow := dialRaw(t, r.addr)
	slow.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1, "caps": []string{"deltas"}}))
	slow.send(1, gatewaytest.Command("follow", "2", "s1", obj{"since": 0}))
	fast := gatewaytest.Connect(t, r.addr)
	fast.Do("follow", "s1", obj{"since": 0})
	waitFor(t, func() bool { return r.metric("parley_gateway_follows") == 2 })
	text := strings.Repeat("x", 20_000)
	const n = 1500 // 30 MB: more than the kernel takes for a client that does not read
	for range n {
		r.sessions.Commit(key, conversation.Event{Body: conversation.MessageEdited{Message: "m1", Text: text}})
		r.sessions.Show(key, conversation.Delta{Draft: "1.1.0", Text: "y"})
	}
	next := uint64(1)
	for next <= n+1 {
		if f := fast.Read(); f.Seq > 0 {
			if f.Seq != next {
				t.Fatalf("the fast one got %d, want %d", f.Seq, next)
			}
			next++
		}
	}
	if lags := r.metric("parley_gateway_lag_detaches_total"); lags == 0 {
		t.Error("nothing was detached")
	}
	next = 1
	for next <= n+1 {
		op, payload := slow.read()
		if op == 8 {
			t.Fatalf("closed: %q", payload)
		}
		var f gatewaytest.Frame
		if op == 1 && json.Unmarshal(payload, &f) == nil && f.Seq > 0 {
			if f.Seq != next {
				t.Fatalf("the slow one got %d, want %d", f.Seq, next)
			}
			next++
		}
	}
}

// Only a write that is blocked for too long ends the connection: 4004.
// PROTOCOL.md, rule 5.8.
func TestBlockedWrite(t *testing.T) {
	r := start(t, times(func(x *gateway.Times) { x.Write, x.Close = 50*time.Millisecond, 50*time.Millisecond }))
	key := r.sessions.Open("s1", "local")
	slow := dialRaw(t, r.addr)
	slow.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
	slow.send(1, gatewaytest.Command("follow", "2", "s1", obj{"since": 0}))
	text := strings.Repeat("x", 60_000)
	for range 500 {
		r.sessions.Commit(key, conversation.Event{Body: conversation.MessageEdited{Message: "m1", Text: text}})
	}
	waitFor(t, func() bool { return r.metric("parley_gateway_closes_total", "code", "4004") == 1 })
}

// Clients that do not read hold up none of those who do, however many they are: nothing
// that writes for all of them waits for one.
func TestBlockedClientsHoldUpNobody(t *testing.T) {
	for _, c := range []struct {
		name   string
		queue  int // bytes
		behind bool
	}{{"that have fallen behind", 1 << 20, true}, {"that wait in their queues", 1 << 30, false}} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, limits(func(l *gateway.Limits) {
				l.ConnectionsBeforeHello, l.ConnectionsBeforeHelloByAddress, l.QueueBytes = 0, 0, c.queue
			}), times(func(x *gateway.Times) { x.Write, x.ReadDeadline = time.Hour, time.Hour }))
			key := r.sessions.Open("s1", "local")
			reader := gatewaytest.Connect(t, r.addr)
			blocked := 2*runtime.GOMAXPROCS(0) + 2
			for range blocked {
				s := dialRaw(t, r.addr)
				s.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
				s.send(1, gatewaytest.Command("follow", "2", "s1", obj{"since": 0}))
				for synced := false; !synced; { // one that still reads the log is not detached
					op, payload := s.read()
					if op == 8 {
						t.Fatalf("closed: %q", payload)
					}
					synced = strings.Contains(string(payload), `"type":"synced"`)
				}
			}
			text := strings.Repeat("x", 60_000)
			for range 300 {
				r.sessions.Commit(key, conversation.Event{Body: conversation.MessageEdited{Message: "m1", Text: text}})
			}
			if c.behind {
				waitFor(t, func() bool { return r.metric("parley_gateway_lag_detaches_total") >= float64(blocked) })
			}
			for range 100 {
				if f := reader.Do("ping", "", nil); f.Type != "ok" {
					t.Fatalf("%s", f.Raw)
				}
			}
			reader.Do("follow", "s1", obj{"tail": 0})
			reader.Read() // synced
			r.sessions.Commit(key, conversation.Event{Body: conversation.MessageEdited{Message: "m1", Text: "y"}})
			if f := reader.Read(); f.Seq != 302 {
				t.Errorf("%s", f.Raw)
			}
			if !c.behind && r.metric("parley_gateway_lag_detaches_total") != 0 {
				t.Error("a client has fallen behind: the test shows nothing")
			}
		})
	}
}

// Answers pile up only so far: then commands are not read until they are taken.
func TestAnswersAreBounded(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.QueueFrames, l.QueueBytes = 8, 32<<10 }))
	s := dialRaw(t, r.addr)
	s.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
	const n = 3000
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range n {
			s.send(1, gatewaytest.Command("ping", strconv.Itoa(i), "", obj{"t": strings.Repeat("x", 500)}))
		}
	}()
	for answers := 0; answers < n+1; {
		if op, _ := s.read(); op == 1 {
			answers++
		}
	}
	<-done
}

// N-03, chaos: clients that drop their sockets at any moment and come back with
// their cursor see the log once, in order, without a hole.
// PROTOCOL.md, rule 5.2.
func TestChaos(t *testing.T) {
	rnd := seeded(t)
	r := start(t, limits(func(l *gateway.Limits) {
		l.QueueFrames, l.ReplayPage = 32, 11
		l.ConnectionsBeforeHello, l.ConnectionsBeforeHelloByAddress = 0, 0
	}))
	key := r.sessions.Open("s1", "local")
	const n = 3000
	go func() {
		for range n / 10 {
			r.sessions.Say(key, 10)
			r.sessions.Do(func() {}) // at the engine's pace
		}
	}()
	var all sync.WaitGroup
	for i := range 8 {
		own := rand.New(rand.NewPCG(rnd.Uint64(), uint64(i)))
		all.Go(func() {
			cursor := uint64(0)
			for cursor < n+1 {
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				ws, _, err := websocket.Dial(ctx, "ws://"+r.addr+"/ws", nil)
				if err != nil {
					cancel()
					t.Error(err)
					return
				}
				ws.SetReadLimit(-1)
				_ = ws.Write(ctx, websocket.MessageText, []byte(`{"type":"hello","id":"1","data":{"proto":1}}`))
				_ = ws.Write(ctx, websocket.MessageText, []byte(gatewaytest.Command("follow", "2", "s1", obj{"since": cursor, "log": "log-1"})))
				for left := 1 + own.IntN(400); left > 0 && cursor < n+1; left-- {
					_, b, err := ws.Read(ctx)
					if err != nil {
						t.Error(err)
						break
					}
					var f gatewaytest.Frame
					if json.Unmarshal(b, &f) != nil {
						t.Errorf("%s", b)
					}
					if f.Seq == 0 {
						continue
					}
					if f.Seq != cursor+1 {
						t.Errorf("client %d got %d after %d", i, f.Seq, cursor)
						cursor = n + 1
						break
					}
					cursor = f.Seq
				}
				if own.IntN(2) == 0 {
					_ = ws.CloseNow()
				} else {
					_ = ws.Close(websocket.StatusNormalClosure, "")
				}
				cancel()
			}
		})
	}
	all.Wait()
}

// broken fails to read the log.
type broken struct{ *standIn }

type standIn = gatewaytest.Sessions

func (broken) Records(context.Context, conversation.SessionKey, conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		yield(conversation.Record{}, fmt.Errorf("secret: a broken block"))
	}
}

// A log that cannot be read is never shown as a short one.
func TestBrokenLog(t *testing.T) {
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		d.Sessions = broken{d.Sessions.(*gatewaytest.Sessions)}
	})
	r.sessions.Open("s1", "local")
	c := gatewaytest.Connect(t, r.addr)
	c.Do("follow", "s1", obj{"since": 0})
	code, reason, before := c.Closed()
	if code != 4000 || strings.Contains(reason, "secret") {
		t.Errorf("closed with %d %q", code, reason)
	}
	for _, f := range before {
		if f.Type == "synced" || f.Seq > 0 {
			t.Errorf("%s", f.Raw)
		}
	}
	for _, path := range []string{"/events", "/messages", "/calls/c1"} {
		a := r.call("GET", "/api/sessions/s1"+path, "").problem(t, 500, "internal")
		if strings.Contains(string(a.body), "secret") {
			t.Errorf("%s", a.body)
		}
	}
}

// A far cursor is replayed page by page at its client's pace: commands are answered in
// between, the follows of the connection take turns, nothing ephemeral comes before synced.
// PROTOCOL.md, rule 5.6.
func TestFarResume(t *testing.T) {
	r := start(t, limits(func(l *gateway.Limits) { l.ReplayPage, l.QueueFrames = 100, 200 }))
	const n = 20_000
	keys := []conversation.SessionKey{r.sessions.Open("s1", "local"), r.sessions.Open("s2", "local")}
	for _, key := range keys {
		r.sessions.Say(key, n-1)
	}
	r.sessions.Do(func() {})
	c := gatewaytest.Connect(t, r.addr, "deltas")
	c.Send("follow", "s1", obj{"since": 1})
	c.Send("follow", "s2", obj{"since": 0})
	ping := c.Send("ping", "", nil)
	last, synced := map[string]uint64{"s1": 1}, map[string]bool{}
	var atPing, turns uint64
	for before := ""; len(synced) < 2 || last["s1"] < n+1; {
		f := c.Read()
		switch {
		case f.Re != nil && *f.Re == ping:
			atPing = max(last["s1"], last["s2"])
			for _, key := range keys { // live in the middle of the replay
				r.sessions.Show(key, conversation.Thinking{Step: 1})
			}
			r.sessions.Say(keys[0], 1)
		case f.Type == "ok":
			if f.Get("resumed") != "true" {
				t.Fatalf("%s", f.Raw)
			}
		case f.Type == "synced":
			synced[f.Session] = true
		case f.Seq == 0:
			if !synced[f.Session] {
				t.Fatalf("before synced of %s: %s", f.Session, f.Raw)
			}
		case f.Seq != last[f.Session]+1:
			t.Fatalf("event %d of %s after %d", f.Seq, f.Session, last[f.Session])
		default:
			last[f.Session] = f.Seq
			if f.Session != before {
				turns, before = turns+1, f.Session
			}
		}
	}
	if atPing == 0 || atPing > n/2 {
		t.Errorf("the ping was answered after event %d of %d", atPing, n)
	}
	if turns < 50 {
		t.Errorf("the follows took %d turns", turns)
	}
}
