package main

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"parley/cmd/parley/internal/store"
)

// scheduled lists the whole backups in a directory, the oldest first.
func scheduled(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.IsDir() && !strings.Contains(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// eventually asks again until it is so.
func eventually(t *testing.T, what string, so func() bool) {
	t.Helper()
	again := time.NewTicker(5 * time.Millisecond)
	defer again.Stop()
	for deadline := time.Now().Add(patience); !so(); <-again.C {
		if time.Now().After(deadline) {
			t.Fatal("it never comes to it: ", what)
		}
	}
}

// The server makes backups by itself and keeps some of them; a start makes none that is not
// due; where none can be made it says so and serves all the same.
func TestScheduledBackups(t *testing.T) {
	root := t.TempDir()
	data, dir := filepath.Join(root, "data"), filepath.Join(root, "backups")
	every := func(how string) []string {
		return []string{"--set", "backup.every=" + how, "--set", "backup.keep=2", "--set", "backup.dir=" + dir}
	}
	l := start(t, data, every("1s")...) // the directory is not there
	u := l.user()
	session := u.create(nil)
	u.follow(session, 0)
	u.send(session, "1", "/say served")
	u.until(done)
	eventually(t, "an error in the log", func() bool { return strings.Contains(l.err.String(), "backup_failed") })
	if text := l.err.String(); !strings.Contains(text, dir+" does not exist: make it first") {
		t.Errorf("the log says\n%s", text)
	}
	l.measured("parley_backup_every_seconds 1", "parley_backup_last_good_timestamp_seconds 0")
	if code, out, _ := run(append([]string{"doctor", "--config", emptyConfig(t), "--data", filepath.Join(root, "none"), "--listen", "127.0.0.1:0"}, every("1s")...)...); code != exitFailed || !strings.Contains(out, "BAD backups") {
		t.Errorf("doctor without the directory: %d %s", code, out)
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	var first string
	eventually(t, "two backups, and the first one gone", func() bool {
		names := scheduled(t, dir)
		if first == "" && len(names) > 0 {
			first = names[0]
		}
		return len(names) == 2 && !slices.Contains(names, first)
	})
	l.measured("parley_backups_kept 2")
	l.stop()
	names := scheduled(t, dir)
	for _, name := range names {
		if code, out, errs := run("verify", filepath.Join(dir, name), "--config", emptyConfig(t)); code != exitOK {
			t.Errorf("verify %s: %d %s%s", name, code, out, errs)
		}
	}
	info, err := store.ReadBackup(filepath.Join(dir, names[len(names)-1]))
	if err != nil {
		t.Fatal(err)
	}

	l = start(t, data, every("24h")...)
	l.measured("parley_backups_kept "+fmt.Sprint(len(names)), "parley_backup_every_seconds 86400",
		"parley_backup_last_good_timestamp_seconds "+strings.TrimSpace(fmt.Sprintf("%v", float64(info.Time.UnixMilli())/1000)))
	l.stop()
	if got := scheduled(t, dir); !slices.Equal(got, names) {
		t.Errorf("a start made another one: %v after %v", got, names)
	}
	code, out, _ := run(append([]string{"doctor", "--config", emptyConfig(t), "--data", data, "--listen", "127.0.0.1:0"}, every("24h")...)...)
	if code != exitOK || !strings.Contains(out, "ok  backups") || !strings.Contains(out, "the last good one is of "+info.Time.Format(time.RFC3339)) {
		t.Errorf("doctor: %d %s", code, out)
	}
	// A start counts those of its own store, so doctor does: a restored one has none of them.
	restored := filepath.Join(root, "restored")
	if code, out, errs := run("restore", filepath.Join(dir, names[0]), "--config", emptyConfig(t), "--data", restored); code != exitOK {
		t.Fatalf("restore: %d %s%s", code, out, errs)
	}
	for place, want := range map[string][]string{
		data:                        {fmt.Sprintf(", %d of them there,", len(names)), "the last good one is of"},
		restored:                    {", 0 of them there,", "there is none yet; the start makes one"},
		filepath.Join(root, "none"): {fmt.Sprintf(", %d of them there, of any store,", len(names)), "the last good one of any store is of"},
	} {
		_, out, _ := run(append([]string{"doctor", "--config", emptyConfig(t), "--data", place, "--listen", "127.0.0.1:0"}, every("24h")...)...)
		for _, text := range want {
			if !strings.Contains(out, text) {
				t.Errorf("doctor does not say of %s %q:\n%s", place, text, out)
			}
		}
	}
	for set, says := range map[string]string{
		"backup.dir=" + filepath.Join(data, "b"):          "must not lie in the data directory",
		"backup.dir=":                                     "must name a directory",
		"store.postgres=postgres://nobody@127.0.0.1:1/db": "PostgreSQL's own tools make the backups",
		"memory.mode=ephemeral":                           "there is nothing to back up",
	} {
		args := append([]string{"config", "check", "--config", emptyConfig(t), "--data", data}, every("24h")...)
		if code, _, errs := run(append(args, "--set", set)...); code != exitUsage || !strings.Contains(errs, says) {
			t.Errorf("%s: %d %s", set, code, errs)
		}
	}
}

// The drill of docs/OPERATIONS.md (M-31): a server under load makes its backups by itself and
// is killed; the newest backup is restored, verified and served. Event by event it is what
// the log of the killed server was when the backup was made, and nothing that clients had
// seen before that is missing.
func TestRestoreDrill(t *testing.T) {
	root := t.TempDir()
	data, dir, place := filepath.Join(root, "data"), filepath.Join(root, "backups"), filepath.Join(root, "restored")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	schedule := []string{"--set", "backup.every=1s", "--set", "backup.keep=3", "--set", "backup.dir=" + dir}
	l := spawn(t, data, append(schedule, "--set", "limits.commands_per_second=0", "--set", "limits.requests_per_second=0", "--set", "limits.requests_per_second_per_address=0")...)
	var writers sync.WaitGroup // who go on until the server is dead
	for i := range 2 {
		session := l.user().create(map[string]any{"title": fmt.Sprint("writer ", i)})
		writers.Go(func() {
			for n := 0; ; n++ {
				body := strings.NewReader(fmt.Sprintf(`{"client_msg_id":"w%d","text":"/parts one | two"}`, n))
				response, err := http.Post("http://"+l.addr+"/api/sessions/"+session+"/messages?wait=20s", "application/json", body)
				if err != nil {
					return
				}
				_ = response.Body.Close()
			}
		})
	}
	k := &talk{seen: map[string][]frame{}, stop: make(chan struct{})}
	for i := range 8 {
		u := l.user()
		s := u.create(map[string]any{"title": fmt.Sprint("talk ", i)})
		first := u.follow(s, 0)
		k.ended.Go(func() { k.run(u, s, first) })
	}
	// What clients have seen, and when it was known that they had.
	type known struct {
		at   time.Time
		seen map[string][]frame
	}
	var knew []known
	look := func() {
		seen := k.now() // all of it was acknowledged before the next line
		knew = append(knew, known{time.Now(), seen})
	}
	eventually(t, "three backups under load", func() bool {
		look()
		return len(scheduled(t, dir)) >= 3
	})
	close(k.stop)
	k.ended.Wait()
	l.kill()
	writers.Wait()

	names := scheduled(t, dir)
	newest := filepath.Join(dir, names[len(names)-1])
	info, err := store.ReadBackup(newest)
	if err != nil || info == nil {
		t.Fatal(info, err)
	}
	if code, out, errs := run("restore", newest, "--config", emptyConfig(t), "--data", place); code != exitOK {
		t.Fatalf("restore: %d %s%s", code, out, errs)
	}
	for _, d := range []string{newest, place, data} {
		if code, out, errs := run("verify", d, "--config", emptyConfig(t)); code != exitOK || !strings.Contains(out, "no problem found") {
			t.Errorf("verify %s: %d %s%s", d, code, out, errs)
		}
	}

	backedUp, restored, original := exportOf(t, newest), exportOf(t, place), exportOf(t, data)
	events, more := 0, 0
	if len(backedUp) != 10 || len(restored) != 10 {
		t.Errorf("%d sessions in the backup, %d restored, of 10", len(backedUp), len(restored))
	}
	for s, lines := range backedUp {
		if len(restored[s]) != len(lines) || len(original[s]) < len(lines) {
			t.Fatalf("session %s: %d events in the backup, %d restored, %d in the original", s, len(lines), len(restored[s]), len(original[s]))
		}
		for i, line := range lines {
			if line != restored[s][i] || line != original[s][i] {
				t.Fatalf("session %s, event %d:\n%s in the backup\n%s restored\n%s in the original", s, i+1, line, restored[s][i], original[s][i])
			}
		}
		events += len(lines)
		more += len(original[s]) - len(lines)
	}
	before := knew[0]
	for _, each := range knew { // the last look before the backup began; its time is cut to milliseconds
		if each.at.Before(info.Time) {
			before = each
		}
	}
	acknowledged := 0
	for s, frames := range before.seen {
		acknowledged += len(frames)
		if len(restored[s]) < len(frames) || strings.Join(restored[s][:len(frames)], "\n")+"\n" != shown(frames) {
			t.Errorf("session %s: acknowledged before the backup:\n%s\nrestored:\n%s", s, shown(frames), strings.Join(restored[s], "\n"))
		}
	}
	if !before.at.Before(info.Time) || acknowledged == 0 {
		t.Errorf("nothing was known to be acknowledged before the backup of %s", info.Time)
	}
	t.Logf("%d sessions, %d events, %d of them known to be acknowledged before the backup began, %d later ones lost; %d bytes in %d backups' newest",
		len(backedUp), events, acknowledged, more, info.Bytes, len(names))

	l = start(t, place, schedule...)
	for s := range restored {
		u := l.user()
		gapless(t, u.follow(s, 0), 1)
		u.send(s, "after the drill", "/say more")
		u.until(done)
	}
	eventually(t, "a backup of the restored store, and none of before removed", func() bool { return len(scheduled(t, dir)) == len(names)+1 })
	l.stop()
	for _, name := range names {
		if info, err := store.ReadBackup(filepath.Join(dir, name)); err != nil || info == nil {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}
