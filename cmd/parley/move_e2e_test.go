package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"parley/persistence/postgres/pgtest"
)

// at is an installation: a data directory, or a database.
type at struct {
	data    string
	environ []string
	args    []string
}

func (a at) start(t *testing.T) *live {
	t.Helper()
	return startWith(t, a.data, func(m *Main) { m.Environ = a.environ }, a.args...)
}

// move runs "parley move out", "parley move in" or "parley import" at the installation.
func (a at) move(t *testing.T, way, file string) (code int, text string) {
	t.Helper()
	if way == "import" {
		return a.run(t, way, file)
	}
	return a.run(t, "move", way, file)
}

func (a at) run(t *testing.T, args ...string) (code int, text string) {
	t.Helper()
	m := NewMain()
	var out bytes.Buffer
	m.Stdout, m.Stderr, m.Environ = &out, &out, a.environ
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	code = m.Execute(ctx, append(append(args, "--config", emptyConfig(t), "--data", a.data), a.args...))
	return code, out.String()
}

// A whole installation moves from a directory to PostgreSQL and back: clients find their
// events, their place and what they had open, and what was erased stays erased.
func TestMoveUpAndBack(t *testing.T) {
	root := t.TempDir()
	server := pgtest.Open(t, pgtest.Settings{})
	directory := at{data: filepath.Join(root, "before")}
	database := at{filepath.Join(root, "beside"), []string{"DATABASE_URL=" + server.NewDatabase(t)}, []string{"--set", "store.postgres=env:DATABASE_URL"}}
	last := at{data: filepath.Join(root, "after")}

	l := directory.start(t)
	u := l.user()
	talked, gone := u.create(map[string]any{"title": "talked"}), u.create(map[string]any{"title": "gone"})
	log := u.ask("follow", talked, map[string]any{"since": 0})["log"]
	u.until(is("synced"))
	u.send(talked, "a", "/say hello")
	u.until(done)
	picture, text := append([]byte("\x89PNG\r\n\x1a\n"), bytes.Repeat([]byte("pixel"), 1<<17)...), []byte("notes")
	upload := func(kind string, body []byte) string {
		t.Helper()
		hash, status, err := l.upload(talked, kind, body)
		if err != nil || status != 201 {
			t.Fatal(status, err)
		}
		return hash
	}
	named, lent := upload("image/png", picture), upload("text/plain", text)
	attach := func(l *live, id, hash string) {
		t.Helper()
		body := fmt.Sprintf(`{"client_msg_id":%q,"text":"/say seen","attachments":[{"hash":%q}]}`, id, hash)
		if status, got := l.do("POST", "/api/sessions/"+talked+"/messages?wait=20s", body); status != 200 {
			t.Fatalf("%d %s", status, got)
		}
	}
	attach(l, "with a picture", named)
	u.until(done)
	u.send(talked, "b", "/ask Which city?\n/say done")
	u.until(func(f frame) bool { return f.text("new_status") == "AWAITING_RESPONSE" })
	if status, body := l.do("DELETE", "/api/sessions/"+gone, ""); status/100 != 2 {
		t.Fatalf("erase: %d %s", status, body)
	}
	u.ask("seen", talked, map[string]any{"seq": 4})
	look := func(l *live) string {
		t.Helper()
		events := l.user().follow(talked, 0)
		gapless(t, events, 1)
		_, list := l.do("GET", "/api/sessions", "")
		for hash, want := range map[string][]byte{named: picture, lent: text} {
			if status, got := l.do("GET", "/api/blobs/"+hash, ""); status != 200 || !bytes.Equal(got, want) {
				t.Errorf("%d, %d bytes of %d", status, len(got), len(want))
			}
		}
		return shown(events) + string(list)
	}
	before := look(l)
	if !strings.Contains(before, `"seen":4`) {
		t.Fatalf("there is no read cursor in\n%s", before)
	}
	moved := func(from, to at, l *live, name string) *live {
		t.Helper()
		file := filepath.Join(root, name)
		if code, text := from.move(t, "out", file); code != exitFailed || !strings.Contains(text, "in use") {
			t.Fatalf("while the server runs: %d %s", code, text)
		}
		l.stop()
		if code, text := from.move(t, "out", file); code != exitOK {
			t.Fatalf("out: %d %s", code, text)
		}
		for i := range 2 {
			if code, text := to.move(t, []string{"in", "import"}[i], file); code != exitOK || !strings.Contains(text, fmt.Sprint("log ", log)) || (i == 1) != strings.Contains(text, "there already") {
				t.Fatalf("in, time %d: %d %s", i, code, text)
			}
		}
		l = to.start(t)
		if code, text := to.move(t, "in", file); code != exitFailed || !strings.Contains(text, "in use") {
			t.Fatalf("into a running server: %d %s", code, text)
		}
		if status, body := l.do("GET", "/api/sessions/"+gone, ""); status != 404 {
			t.Errorf("the erased session: %d %s", status, body)
		}
		if got := l.user().ask("follow", talked, map[string]any{"since": 0})["log"]; got != log {
			t.Errorf("log %v became %v", log, got)
		}
		return l
	}

	l = moved(directory, database, l, "up")
	if got := look(l); got != before {
		t.Fatalf("in the database:\n%s\nbefore:\n%s", got, before)
	}
	u = l.user()
	u.follow(talked, 0)
	if again := u.send(talked, "a", "/say hello"); again["duplicate"] != true {
		t.Errorf("a message of before is sent again: %v", again)
	}
	if status, body := l.do("POST", "/api/tasks/t3-"+talked+"/reply", `{"reply":"Berlin"}`); status != 200 {
		t.Errorf("the open question: %d %s", status, body)
	}
	u.until(done)
	attach(l, "with what was uploaded before", lent)
	u.until(done)
	before = look(l)

	l = moved(database, last, l, "back")
	if got := look(l); got != before {
		t.Errorf("back in a directory:\n%s\nin the database:\n%s", got, before)
	}
	l.stop()
	lines := filepath.Join(root, "lines")
	if code, text := last.run(t, "export", lines); code != exitOK {
		t.Fatalf("export: %d %s", code, text)
	}
	if code, text := directory.move(t, "import", lines); code != exitFailed || !strings.Contains(text, "for people") {
		t.Errorf("what an export has written: %d %s", code, text)
	}
	if code, text := directory.move(t, "in", filepath.Join(root, "back")); code != exitFailed || !strings.Contains(text, "other content") {
		t.Errorf("over the directory of before: %d %s", code, text)
	}
}

// A file that another version of the program has begun is begun anew, and the line about it
// does not blame the store alone.
func TestMoveOutBegunByAnotherVersion(t *testing.T) {
	root := t.TempDir()
	from := at{data: filepath.Join(root, "source")}
	many(t, from.data, 2)
	whole, file := filepath.Join(root, "whole"), filepath.Join(root, "file")
	if code, text := from.move(t, "out", whole); code != exitOK {
		t.Fatal(code, text)
	}
	want, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	had := bytes.Replace(want, []byte(`"program":"`), []byte(`"program":"older-`), 1)
	if err := os.WriteFile(file+".writing", had, 0o600); err != nil {
		t.Fatal(err)
	}
	const says = "the store is not what it was when %[1]s.writing was begun, or another version of parley has begun it: from the beginning\n"
	if code, text := from.move(t, "out", file); code != exitOK || !strings.Contains(text, fmt.Sprintf(says, file)) {
		t.Errorf("%d %s", code, text)
	}
	if got, err := os.ReadFile(file); err != nil || len(afterFirst(got)) != len(afterFirst(want)) || bytes.Contains(got, []byte("older-")) {
		t.Errorf("%d bytes, want %d; %v", len(got), len(want), err)
	}
}
