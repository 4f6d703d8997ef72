package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/persistence/postgres/pgtest"
)

// underWay is what is begun at one place, and ends at another one.
type underWay struct {
	working, delegating, asked, outside string // sessions
	message                             string // that a runtime has claimed
	generation                          int
}

func begin(t *testing.T, l *live) (w underWay) {
	t.Helper()
	post := func(path, body string, into any) {
		t.Helper()
		if status, got := l.do("POST", path, body); status/100 != 2 || json.Unmarshal(got, into) != nil {
			t.Fatalf("%s: %d %s", path, status, got)
		}
	}
	open := func(agent, text, shown string) string {
		t.Helper()
		var made struct{ Session string }
		post("/api/sessions", fmt.Sprintf(`{"agent":%q}`, agent), &made)
		u := l.user()
		u.follow(made.Session, 0)
		u.send(made.Session, "m", text)
		u.until(is(shown))
		return made.Session
	}
	w.working = open("", "/wait 2s\n/say worked", "step_started")
	w.delegating = open("", "/delegate researcher /wait 2s && /say found\n/say after: $result", "delegation_started")
	w.asked = open("", "/ask Which city?\n/say done", "question")
	w.outside = open("outside", "what is it?", "message_accepted")
	var claimed struct {
		Items []struct {
			Session, Message string
			Generation       int
		}
	}
	post("/api/runtime/claim", `{"runtime":"r1","wait":"20s"}`, &claimed)
	if len(claimed.Items) != 1 || claimed.Items[0].Session != w.outside {
		t.Fatalf("claimed: %+v", claimed)
	}
	w.message, w.generation = claimed.Items[0].Message, claimed.Items[0].Generation
	post("/api/sessions/"+w.outside+"/parts", w.part(0, "the first half", false), new(any))
	return w
}

func (w *underWay) part(index int, text string, final bool) string {
	return fmt.Sprintf(`{"source_id":%q,"part_index":%d,"text":%q,"final":%v,"generation":%d}`, w.message, index, text, final, w.generation)
}

// end sees to it that all of it ends well where it is now.
func (w *underWay) end(t *testing.T, l *live) {
	t.Helper()
	for _, c := range []struct{ session, text, want string }{
		{w.working, "/wait 2s\n/say worked", "worked"},
		{w.delegating, "/delegate researcher /wait 2s && /say found\n/say after: $result", "after: found"},
	} { // the same message again: it is known, and its answer is waited for
		body, _ := json.Marshal(map[string]string{"client_msg_id": "m", "text": c.text})
		if status, got := l.do("POST", "/api/sessions/"+c.session+"/messages?wait=60s", string(body)); status != 200 || !strings.Contains(string(got), c.want) || !strings.Contains(string(got), `"COMPLETE"`) {
			t.Errorf("%s: %d %s", c.want, status, got)
		}
	}
	if status, got := l.do("POST", "/api/tasks/t1-"+w.asked+"/reply", `{"reply":"Berlin"}`); status != 200 {
		t.Errorf("the open question: %d %s", status, got)
	}
	if status, got := l.do("POST", "/api/sessions/"+w.outside+"/parts", w.part(0, "the first half", false)); status != 200 || !strings.Contains(string(got), `"duplicate":true`) {
		t.Errorf("the part of before again: %d %s", status, got)
	}
	if status, got := l.do("POST", "/api/sessions/"+w.outside+"/parts", w.part(1, "the rest", true)); status != 201 {
		t.Errorf("the runtime goes on under its lease: %d %s", status, got)
	}
	for _, session := range []string{w.working, w.delegating, w.asked, w.outside} {
		u := l.user()
		if events := u.follow(session, 0); !ended(events) {
			u.until(done)
		}
		gapless(t, l.user().follow(session, 0), 1)
	}
	if _, got := l.do("GET", "/api/tasks?status=ERROR", ""); !strings.Contains(string(got), `"items":[]`) {
		t.Errorf("tasks ended in ERROR: %s", got)
	}
}

func ended(events []frame) bool {
	for _, e := range events {
		if done(e) {
			return true
		}
	}
	return false
}

// What is under way when a server is killed goes on at the place to which its store is moved,
// as after a restart: a running call, a delegation, an open question, and what an outside
// runtime has claimed, under the same lease.
func TestMoveOfWorkUnderWay(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: it takes seconds")
	}
	root := t.TempDir()
	dsn := filepath.Join(root, "dsn")
	if err := os.WriteFile(dsn, []byte(pgtest.Open(t, pgtest.Settings{}).NewDatabase(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	places := []at{
		{data: filepath.Join(root, "before")},
		{filepath.Join(root, "beside"), nil, []string{"--set", "store.postgres=file:" + dsn, "--set", "cluster.lease=1s"}},
		{data: filepath.Join(root, "after")},
	}
	l := spawn(t, places[0].data, places[0].args...)
	for i, to := range places[1:] {
		work := begin(t, l)
		l.kill()
		from, file := places[i], filepath.Join(root, fmt.Sprint("file", i))
		for deadline := time.Now().Add(patience); ; {
			code, text := from.move(t, "out", file)
			if code == exitOK {
				break
			}
			if !strings.Contains(text, "in use") || time.Now().After(deadline) { // until the lease of who was killed is over
				t.Fatalf("out: %d %s", code, text)
			}
			<-time.After(100 * time.Millisecond)
		}
		if code, text := to.move(t, "in", file); code != exitOK {
			t.Fatalf("in: %d %s", code, text)
		}
		l = spawn(t, to.data, to.args...)
		work.end(t, l)
	}
	l.stop()
}
