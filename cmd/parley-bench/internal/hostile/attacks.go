package hostile

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
)

// attack is one thing that a hostile client does.
type attack struct {
	name    string // by which --only finds it
	does    string
	drain   bool                              // the server is told to end while the attacker holds what it has
	set     []string                          // settings of the server, "key=value"
	prepare func(*attacking) error            // what is not measured; nil = nothing
	run     func(context.Context, *attacking) // until it is done or the context ends
}

// attacks is the list. The names group them: connections, pings, responses, profiles,
// streams, requests, followers, hello, fields, slow clients, and the end.
func attacks() []attack {
	return []attack{
		{name: "connections", does: "5,000 TCP connections from two addresses that say nothing", run: connections},
		{name: "connections-many", does: "5,000 TCP connections from 200 addresses that say nothing", run: manyConnections},
		{name: "pings", does: "one socket that sends pings and never reads", run: pings},
		{name: "pings-slow", does: "one socket that sends pings and reads 64 KiB now and then", run: pingsReadSlowly},
		{name: "pings-early", does: "20 sockets that send pings and never hello", run: pingsBeforeHello},
		{name: "unread", does: "80 requests for 13 MB of events each, read by nobody", prepare: largeLog, run: unreadPages},
		{name: "pipeline", does: "20 connections with 400 requests each, read by nobody", run: pipelines},
		{name: "profile", does: "a web page that starts traces and profiles for a day", run: profiles},
		{name: "streams", does: "1,500 event streams opened and closed", prepare: oneSession, run: streams},
		{name: "create", does: "new sessions as fast as they are answered, 4 clients", run: createSessions},
		{name: "tasks", does: "lists of 200 waiting tasks, 4 clients", prepare: waitingTasks, run: listTasks},
		{name: "waits", does: "900 requests that wait for an answer, given up at once; then 10 events a second", prepare: waitingTask, run: deadWaits},
		{name: "followers", does: "20 sockets that follow a long answer and never read", set: []string{"scripted.token_delay=100us", "model.delta_every=1ms"},
			prepare: oneSession, run: slowFollowers},
		{name: "hello", does: "sockets without hello from 20 addresses, 40 new ones a second", run: withoutHello},
		{name: "fields-hello", does: "80 sockets with 250 KB of client name", run: largeNames},
		{name: "fields-reply", does: "100 messages that answer an id of 900 KB", prepare: oneSession, run: largeReplies},
		{name: "slow-heads", does: "600 requests whose headers come byte by byte", run: slowHeads},
		{name: "slow-bodies", does: "600 requests whose bodies come byte by byte", run: slowBodies},

		{name: "end-nobody", does: "nobody", drain: true, run: nothing},
		{name: "end-wait", does: "a request that waits for an answer", drain: true, prepare: oneSession, run: holdWait},
		{name: "end-unread", does: "responses that nobody reads", drain: true, prepare: largeLog, run: holdUnread},
		{name: "end-half", does: "half a request", drain: true, run: holdHalf},
		{name: "end-unused", does: "a connection that is not used", drain: true, run: holdUnused},
		{name: "end-sockets", does: "1,000 sockets", drain: true, set: manySockets, run: holdSockets},
		{name: "end-streams", does: "1,000 event streams", drain: true, set: manySockets, prepare: oneSession, run: holdStreams},
	}
}

var manySockets = []string{"limits.connections_per_user=0", "limits.connections_before_hello=0"}

// oneSession makes a session.
func oneSession(a *attacking) error { return a.newSession(`{}`) }

func (a *attacking) newSession(body string) error {
	answer, err := a.tell(0, post("/api/sessions", a.addr, body))
	if err != nil {
		return err
	}
	var created struct{ Session string }
	if err := json.Unmarshal([]byte(answer), &created); err != nil {
		return err
	}
	if a.session = created.Session; a.session == "" {
		return fmt.Errorf("no session in %s", answer)
	}
	return nil
}

// largeLog makes a session with 100 parts of 128 KiB.
func largeLog(a *attacking) error {
	if err := a.newSession(`{"agent":"outside"}`); err != nil {
		return err
	}
	part := post("/api/sessions/"+a.session+"/parts", a.addr, `{"text":"`+strings.Repeat("x", 130_000)+`"}`)
	for i := range 100 {
		if _, err := a.tell(i, part); err != nil {
			return err
		}
	}
	return nil
}

// waitingTask makes a session whose task waits for an hour.
func waitingTask(a *attacking) error {
	if err := oneSession(a); err != nil {
		return err
	}
	return a.say(0, `/wait 1h\n/say x`, "")
}

// waitingTasks makes 200 tasks more that wait behind it.
func waitingTasks(a *attacking) error {
	if err := waitingTask(a); err != nil {
		return err
	}
	for i := range 200 {
		if err := a.say(i, "/say x", "queue"); err != nil {
			return err
		}
	}
	return nil
}

func (a *attacking) say(n int, text, mode string) error {
	_, err := a.tell(n, post("/api/sessions/"+a.session+"/messages", a.addr, message(text, mode)))
	return err
}

func message(text, mode string) string {
	if mode == "" {
		return `{"text":"` + text + `"}`
	}
	return `{"text":"` + text + `","mode":"` + mode + `"}`
}
