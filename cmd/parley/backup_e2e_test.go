package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// talk is clients that talk, each in a session of its own, until stop is closed.
// What a client has seen is noted before its next message.
type talk struct {
	mu    sync.Mutex
	seen  map[string][]frame // by session: the durable events, in order
	stop  chan struct{}
	ended sync.WaitGroup
}

func (k *talk) run(u *user, session string, followed []frame) {
	k.note(session, followed)
	for i := 0; ; i++ {
		select {
		case <-k.stop:
			return
		default:
		}
		u.send(session, fmt.Sprint("m", i), "/parts one | two\n/say three "+fmt.Sprint(i))
		k.note(session, u.until(done))
	}
}

func (k *talk) note(session string, frames []frame) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.seen[session] = append(k.seen[session], durable(frames)...)
}

// now is what was acknowledged so far.
func (k *talk) now() map[string][]frame {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := map[string][]frame{}
	for s, frames := range k.seen {
		all[s] = append([]frame(nil), frames...)
	}
	return all
}

// M-31: a server under load is backed up through its own address, killed, and
// restored into a new place: everything that was acknowledged before the backup is
// there, byte for byte, and a client that knows the old log is told to begin anew.
func TestBackupUnderLoadAndRestore(t *testing.T) {
	root := t.TempDir()
	data, dest, place := filepath.Join(root, "data"), filepath.Join(root, "backup"), filepath.Join(root, "new")
	l := spawn(t, data)
	k := &talk{seen: map[string][]frame{}, stop: make(chan struct{})}
	warm := make(chan struct{}, 4)
	logs := map[string]any{}
	for i := range 4 {
		u := l.user()
		s := u.create(map[string]any{"title": fmt.Sprint("talk ", i)})
		logs[s] = u.ask("follow", s, map[string]any{"since": 0})["log"]
		first := u.until(is("synced"))
		u.send(s, "first", "/say first")
		first = append(first, u.until(done)...)
		k.ended.Go(func() {
			warm <- struct{}{}
			k.run(u, s, first)
		})
	}
	for range 4 {
		<-warm
	}
	acked := k.now()
	if code, out, errs := run("backup", dest, "--config", emptyConfig(t), "--server", "http://"+l.addr); code != exitOK || !strings.Contains(out, "read back and whole") {
		t.Fatalf("backup: %d %s%s", code, out, errs)
	}
	close(k.stop)
	k.ended.Wait()
	l.measured(`parley_store_backups_total{result="ok"} 1`)
	if code, _, errs := run("backup", dest, "--config", emptyConfig(t), "--server", "http://"+l.addr); code != exitFailed || !strings.Contains(errs, "exists already") {
		t.Errorf("a second backup to the same place: %d %s", code, errs)
	}
	if code, _, errs := run("verify", data, "--config", emptyConfig(t)); code != exitFailed || !strings.Contains(errs, "in use") {
		t.Errorf("verify of a running server's directory: %d %s", code, errs)
	}
	l.kill()

	if code, _, errs := run("serve", "--config", emptyConfig(t), "--listen", "127.0.0.1:0", "--data", dest); code != exitFailed || !strings.Contains(errs, "is a backup") {
		t.Errorf("a server on a backup: %d %s", code, errs)
	}
	if code, out, errs := run("restore", dest, "--config", emptyConfig(t), "--data", place); code != exitOK {
		t.Fatalf("restore: %d %s%s", code, out, errs)
	}
	if code, _, errs := run("restore", dest, "--config", emptyConfig(t), "--data", place); code != exitFailed || !strings.Contains(errs, "--replace") {
		t.Errorf("restore over a store: %d %s", code, errs)
	}
	for _, dir := range []string{dest, place, data} {
		if code, out, errs := run("verify", dir, "--config", emptyConfig(t)); code != exitOK || !strings.Contains(out, "no problem found") {
			t.Errorf("verify %s: %d %s%s", dir, code, out, errs)
		}
	}
	exported := exportOf(t, place)
	for s, events := range exported {
		code, out, _ := run("export", "--config", emptyConfig(t), "--data", place, "--session", s)
		if n := strings.Count(out, "\n"); code != exitOK || n != len(events)+3 {
			t.Errorf("export of session %s: %d lines, %d events", s, n, len(events))
		}
	}
	if code, _, errs := run("export", emptyConfig(t), "--config", emptyConfig(t), "--data", place); code != exitFailed {
		t.Errorf("an export over a file: %d %s", code, errs)
	}

	l = start(t, place)
	u := l.user()
	for s, before := range acked {
		follow := u.ask("follow", s, map[string]any{"since": 1, "log": logs[s]})
		if follow["resumed"] != false || follow["log"] == logs[s] {
			t.Errorf("a client of the old log: %v", follow)
		}
		u.until(is("synced"))
		after := l.user().follow(s, 0)
		gapless(t, after, 1)
		if len(after) < len(before) || shown(after[:len(before)]) != shown(before) {
			t.Errorf("session %s: acknowledged before the backup:\n%s\nrestored:\n%s", s, shown(before), shown(after))
		}
		if got := exported[s]; len(got) < len(before) || strings.Join(got[:len(before)], "\n")+"\n" != shown(before) {
			t.Errorf("session %s: exported:\n%s\nacknowledged:\n%s", s, strings.Join(got, "\n"), shown(before))
		}
		u.send(s, "more", "/say more")
		if events := u.until(done); len(of(events, "response")) != 1 {
			t.Errorf("after the restore: %s", shown(events))
		}
	}
	l.stop()
}

// exportOf is the exported events of a directory, by session.
func exportOf(t *testing.T, dir string) map[string][]string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "all.jsonl")
	if code, out, errs := run("export", file, "--config", emptyConfig(t), "--data", dir); code != exitOK || out != "" {
		t.Fatalf("export of %s: %d %s%s", dir, code, out, errs)
	}
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	events := map[string][]string{}
	var types []string
	for text := range strings.Lines(string(raw)) {
		var line struct{ Type, Session string }
		if err := json.Unmarshal([]byte(text), &line); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		types = append(types, line.Type)
		if line.Type != "store" && line.Type != "session" && line.Type != "end" {
			events[line.Session] = append(events[line.Session], strings.TrimSpace(text))
		}
	}
	if len(types) < 2 || types[0] != "store" || types[1] != "session" || types[len(types)-1] != "end" {
		t.Errorf("the export of %s has the lines %v", dir, types)
	}
	return events
}

// A stopped store is backed up without a server, by the configuration and by --data.
func TestBackupOfAStoppedStore(t *testing.T) {
	root := t.TempDir()
	data := filepath.Join(root, "data")
	l := start(t, data)
	u := l.user()
	u.send(u.create(nil), "1", "/say kept")
	if code, _, errs := run("backup", filepath.Join(root, "a"), "--config", emptyConfig(t), "--data", data); code != exitFailed || !strings.Contains(errs, "--server") {
		t.Errorf("--data of a running server: %d %s", code, errs)
	}
	config := filepath.Join(root, "config.toml")
	if err := os.WriteFile(config, fmt.Appendf(nil, "data = %q\nlisten = %q\n", data, l.addr), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, out, errs := run("backup", filepath.Join(root, "b"), "--config", config); code != exitOK { // through the server
		t.Errorf("by the configuration, running: %d %s%s", code, out, errs)
	}
	l.stop()
	if code, out, errs := run("backup", filepath.Join(root, "c"), "--config", config); code != exitOK {
		t.Errorf("by the configuration, stopped: %d %s%s", code, out, errs)
	}
	if code, _, errs := run("backup", "relative", "--config", config, "--server", "http://127.0.0.1:1"); code != exitUsage || !strings.Contains(errs, "absolute") {
		t.Errorf("a relative path on another machine: %d %s", code, errs)
	}
	if code, out, _ := run("doctor", "--config", emptyConfig(t), "--data", filepath.Join(root, "c"), "--listen", "127.0.0.1:0"); code != exitFailed || !strings.Contains(out, "is a backup") {
		t.Errorf("doctor of a backup: %d %s", code, out)
	}
	for _, dir := range []string{"b", "c"} {
		if code, out, errs := run("restore", filepath.Join(root, dir), "--config", config, "--replace"); code != exitOK || !strings.Contains(out, ".before-") {
			t.Errorf("restore %s: %d %s%s", dir, code, out, errs)
		}
	}
	start(t, data).stop()
}

// Who may ask a running server for a backup, and what it refuses.
func TestBackupRoute(t *testing.T) {
	root := t.TempDir()
	l := start(t, filepath.Join(root, "data"), "--set", `gateway.allowed_origins=["https://app.example"]`)
	public := start(t, filepath.Join(root, "public"), "--set", `gateway.public_hosts=["chat.example"]`, "--set", "auth.mode=keys")
	memory := start(t, "unused", "--set", "memory.mode=ephemeral")
	body := fmt.Sprintf(`{"dest":%q}`, filepath.Join(root, "b"))
	for _, c := range []struct {
		name         string
		l            *live
		host, origin string
		kind, body   string
		status       int
		says         string
	}{
		{"a form", l, "", "", "text/plain", body, 415, "application/json"},
		{"another site", l, "", "https://evil.example", "application/json", body, 403, "evil.example"},
		{"an allowed page", l, "", "https://app.example", "application/json", body, 403, "may not administer"},
		{"another name", l, "evil.example", "", "application/json", body, 403, "not called"},
		{"no body", l, "", "", "application/json", "", 400, "dest"},
		{"an unknown member", l, "", "", "application/json", `{"dest":"/x","force":true}`, 400, "dest"},
		{"a relative path", l, "", "", "application/json", `{"dest":"b"}`, 400, "absolute"},
		{"inside of the data", l, "", "", "application/json", fmt.Sprintf(`{"dest":%q}`, filepath.Join(root, "data", "b")), 400, "inside of the data directory"},
		{"something there", l, "", "", "application/json", fmt.Sprintf(`{"dest":%q}`, root), 409, "exists already"},
		{"in memory", memory, "", "", "application/json", body, 400, "ephemeral"},
		{"behind a proxy", public, "", "", "application/json", body, 404, ""},
		{"as it should be", l, "", "", "application/json; charset=utf-8", body, 201, `"sessions":0`},
	} {
		request, err := http.NewRequestWithContext(t.Context(), "POST", "http://"+c.l.addr+"/admin/backup", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		request.Header.Set("Content-Type", c.kind)
		if c.origin != "" {
			request.Header.Set("Origin", c.origin)
		}
		request.Host = c.host
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		got := new(bytes.Buffer)
		_, _ = got.ReadFrom(response.Body)
		_ = response.Body.Close()
		if response.StatusCode != c.status || !strings.Contains(got.String(), c.says) {
			t.Errorf("%s: %d %s", c.name, response.StatusCode, got)
		}
	}
	for _, s := range []*live{l, public, memory} {
		s.stop()
	}
}
