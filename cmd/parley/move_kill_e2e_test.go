package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"parley/cmd/parley/internal/store"
	"parley/conversation"
	"parley/persistence/postgres/pgtest"
)

// many makes a data directory with so many sessions of twenty commits each.
func many(t *testing.T, dir string, sessions int) {
	t.Helper()
	db, err := store.Open(dir, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}()
	text := strings.Repeat("words that take some room ", 20)
	for n := range sessions {
		k := conversation.SessionKey{Tenant: "default", Session: conversation.SessionID(fmt.Sprintf("many%06d", n))}
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if err != nil {
			t.Fatal(err)
		}
		for i := range 20 {
			at := time.Date(2026, 11, 24, 12, 0, i, 0, time.UTC)
			h.Last++
			c := conversation.Commit{
				Epoch: h.Epoch, After: h.Last - 1, ID: conversation.CommitID(fmt.Sprint("c", i)),
				Summary: conversation.Summary{Title: fmt.Sprint("session ", n), Agent: "coordinator", Owner: "anonymous", CreatedAt: at, Activity: at},
				Events: []conversation.Event{{Seq: h.Last, At: at, Body: conversation.MessageAccepted{
					Message: conversation.MessageID(fmt.Sprintf("m%d-%s", h.Last, k.Session)), Author: "anonymous", ClientMsgID: conversation.ClientMsgID(fmt.Sprint("c", i)), Text: text, Disposition: conversation.Joined, Via: conversation.ViaHTTP,
				}}},
			}
			c.Keys = conversation.Keys(c.Events)
			if err := db.Commit(t.Context(), k, c); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// killed runs this program as a child, and kills it with -9 after a random time of most at
// most; ended says that it was faster, with its code.
func killed(t *testing.T, random *rand.Rand, most time.Duration, environ []string, args ...string) (ended bool, code int, text string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(t.Context(), self, args...)
	child.Env = append(slices.DeleteFunc(os.Environ(), func(kv string) bool { return strings.HasPrefix(kv, "PARLEY_") }), append(environ, serveVariable+"=1")...)
	var out bytes.Buffer
	child.Stdout, child.Stderr = &out, &out
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	over := make(chan error, 1)
	go func() { over <- child.Wait() }()
	select {
	case err = <-over:
	case <-time.After(time.Duration(random.Int64N(int64(most)))):
		_ = child.Process.Kill()
		err = <-over
	}
	if state := child.ProcessState; state.Exited() {
		return true, state.ExitCode(), out.String()
	}
	return false, 0, fmt.Sprint(out.String(), err)
}

// again kills the same command at random moments until it has ended well, and says how often.
// A kill may fall between the name of a file that is moved out and the end of its process.
func again(t *testing.T, random *rand.Rand, environ []string, args ...string) (kills int) {
	t.Helper()
	most := 200 * time.Millisecond
	for ; ; kills++ {
		ended, code, text := killed(t, random, most, environ, args...)
		if ended && code == exitOK {
			return kills
		}
		if ended && kills > 0 && slices.Contains(args, "out") && strings.Contains(text, "exists already") {
			return kills
		}
		if ended && !strings.Contains(text, "in use") { // a database may still know the dead
			t.Fatalf("after %d kills: %d %s", kills, code, text)
		}
		most += most / 2 // so that it ends at all
	}
}

// Whenever moves and exports are killed, the same command again ends as one that nobody has
// killed: the same file, the same events, a store without a contradiction.
func TestKilledMovesGoOn(t *testing.T) {
	if testing.Short() {
		t.Skip("NOT RUN: it takes seconds")
	}
	random := seeded(t)
	root := t.TempDir()
	source := filepath.Join(root, "source")
	many(t, source, 500)
	config := emptyConfig(t)
	want, file := filepath.Join(root, "want"), filepath.Join(root, "file")
	from := at{data: source}
	if code, text := from.move(t, "out", want); code != exitOK {
		t.Fatal(code, text)
	}
	outs := again(t, random, nil, "move", "out", file, "--config", config, "--data", source)
	a, err := os.ReadFile(want)
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	// The first line has the time, and the last frame the sum of all.
	x0, y0 := afterFirst(a), afterFirst(b)
	if len(x0) != len(y0) || x0[:len(x0)-200] != y0[:len(y0)-200] {
		t.Errorf("the file of %d kills has %d bytes behind its first line, want %d", outs, len(y0), len(x0))
	}

	target := filepath.Join(root, "target")
	ins := again(t, random, nil, "move", "in", file, "--config", config, "--data", target)
	same := func(what, dir string) {
		t.Helper()
		if code, text := (at{data: dir}).run(t, "verify"); code != exitOK || !strings.Contains(text, "no problem found") {
			t.Errorf("%s: %d %s", what, code, text)
		}
		x, y := exportOf(t, source), exportOf(t, dir)
		if len(x) != 500 || len(x) != len(y) {
			t.Fatalf("%s: %d sessions, want %d", what, len(y), len(x))
		}
		for session := range x {
			if !slices.Equal(x[session], y[session]) || len(x[session]) != 20 {
				t.Fatalf("%s: session %s has other events", what, session)
			}
		}
	}
	same("in the directory", target)

	export := filepath.Join(root, "export")
	exports := 0
	for ; ; exports++ {
		args := []string{"export", export, "--config", config, "--data", source}
		if _, err := os.Stat(export); err == nil {
			args = append(args, "--resume")
		}
		ended, code, text := killed(t, random, time.Duration(exports+1)*100*time.Millisecond, nil, args...)
		if ended && code == exitOK {
			break
		}
		if ended {
			t.Fatalf("export after %d kills: %d %s", exports, code, text)
		}
	}
	plain := filepath.Join(root, "plain")
	if code, text := from.run(t, "export", plain); code != exitOK {
		t.Fatal(code, text)
	}
	x, err := os.ReadFile(plain)
	if err != nil {
		t.Fatal(err)
	}
	if y, err := os.ReadFile(export); err != nil || afterFirst(x) != afterFirst(y) {
		t.Errorf("the export of %d kills is another one: %v", exports, err)
	}

	environ := []string{"DATABASE_URL=" + pgtest.Open(t, pgtest.Settings{}).NewDatabase(t)}
	shared := []string{"--config", config, "--data", filepath.Join(root, "beside"), "--set", "store.postgres=env:DATABASE_URL"}
	up := again(t, random, environ, append([]string{"import", file}, shared...)...)
	back := filepath.Join(root, "back")
	down := again(t, random, environ, append([]string{"move", "out", back}, shared...)...)
	last := filepath.Join(root, "last")
	if code, text := (at{data: last}).move(t, "in", back); code != exitOK {
		t.Fatal(code, text)
	}
	same("by way of PostgreSQL", last)
	t.Logf("killed: %d times out of the directory, %d into one, %d exports, %d into PostgreSQL, %d out of it; %d bytes", outs, ins, exports, up, down, len(a))
	if outs+ins+exports+up+down == 0 {
		t.Error("nothing was ever killed")
	}
}
