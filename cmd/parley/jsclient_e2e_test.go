package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// nodeCommand starts node with a WebSocket: node 20 has one only when it is asked for.
func nodeCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("NOT TESTED: clients/js against a server. There is no node in PATH")
	}
	version, err := exec.CommandContext(t.Context(), node, "-p", "parseInt(process.versions.node)").Output()
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := strconv.Atoi(strings.TrimSpace(string(version))); n < 22 {
		args = append([]string{"--experimental-websocket", "--no-warnings"}, args...)
	}
	return exec.CommandContext(t.Context(), node, args...)
}

// The server is killed, frozen and restarted while the client for Node sends: each
// message arrives once, in order, gets its answer, and each event is seen once and in
// order (N-01, N-03, D-11).
func TestJSClientSurvivesItsServer(t *testing.T) {
	data := t.TempDir()
	heartbeat := []string{"--set", "gateway.heartbeat=500ms", "--set", "inbox.mode=queue"}
	l := spawn(t, data, heartbeat...)
	again := append([]string{"--listen", l.addr}, heartbeat...)
	_, body := l.do("POST", "/api/sessions", "{}")
	var made struct{ Session string }
	if err := json.Unmarshal(body, &made); err != nil || made.Session == "" {
		t.Fatalf("no session: %s %v", body, err)
	}
	node := nodeCommand(t, filepath.Join(root, "clients", "js", "conform.mjs"))
	node.Env = append(os.Environ(), "PARLEY_URL=http://"+l.addr)
	in, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	node.Stderr = os.Stderr
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	tell := func(command map[string]any) {
		b, err := json.Marshal(command)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := in.Write(append(b, '\n')); err != nil {
			t.Fatal(err)
		}
	}
	const messages = 40
	send := func(i int) {
		tell(map[string]any{"send": fmt.Sprintf("/say answer %03d", i), "id": fmt.Sprint(i), "session": made.Session})
	}
	tell(map[string]any{"follow": made.Session})
	send(0)
	seq, sent, resolved, lost, frozen := 0, []string{}, 0, 0, false
	lines := bufio.NewScanner(out)
	for resolved < messages && lines.Scan() {
		var x struct {
			Seq    int
			Type   string
			Sent   string
			Failed string
			Lost   int
		}
		if err := json.Unmarshal(lines.Bytes(), &x); err != nil {
			t.Fatalf("%s: %v", lines.Bytes(), err)
		}
		switch {
		case x.Failed != "":
			t.Fatalf("it gave up: %s", lines.Bytes())
		case x.Seq > 0:
			if seq++; x.Seq != seq {
				t.Fatalf("event %d behind %d", x.Seq, seq-1)
			}
			if x.Type == "message_resolved" {
				resolved++
			}
		case x.Lost != 0:
			if lost++; frozen {
				frozen = false
				if err := l.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
		case x.Sent != "":
			sent = append(sent, x.Sent)
			switch len(sent) {
			case 8, 24: // killed
				l.kill()
				l = spawn(t, data, again...)
			case 16: // frozen until the client has noticed
				frozen = true
				if err := l.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
					t.Fatal(err)
				}
			case 32: // restarted in good order
				l.stop()
				l = spawn(t, data, again...)
			}
			if len(sent) < messages {
				send(len(sent))
			}
		}
	}
	tell(map[string]any{"stop": true})
	if err := node.Wait(); err != nil {
		t.Errorf("node: %v", err)
	}
	if len(sent) != messages || !slices.IsSortedFunc(sent, func(a, b string) int { return len(a) - len(b) }) || resolved != messages || lost < 4 {
		t.Errorf("%d sent, %d resolved, %d connections lost", len(sent), resolved, lost)
	}
	_, body = l.do("GET", "/api/sessions/"+made.Session+"/messages?limit=200", "")
	var conversation struct {
		Items []struct{ Text, How string }
	}
	if err := json.Unmarshal(body, &conversation); err != nil {
		t.Fatal(err)
	}
	said, answered := 0, make(map[string]int)
	for _, m := range conversation.Items {
		if strings.HasPrefix(m.Text, "/say ") {
			if want := fmt.Sprintf("/say answer %03d", said); m.Text != want || m.How != "answered" {
				t.Errorf("message %d is %q, %s", said, m.Text, m.How)
			}
			said++
		} else {
			answered[m.Text]++
		}
	}
	for i := range messages {
		if n := answered[fmt.Sprintf("answer %03d", i)]; n != 1 {
			t.Errorf("message %d has %d answers", i, n)
		}
	}
	t.Logf("%d messages, %d events, %d lost connections", said, seq, lost)
	l.stop()
}

// The program of clients/js/README.md, as it stands there, in a folder where the package
// is installed from the sources; its exports are those that the README names.
func TestJSPackage(t *testing.T) {
	npm, err := exec.LookPath("npm")
	if err != nil {
		t.Skip("NOT TESTED: the installation of clients/js. There is no npm in PATH")
	}
	readme, err := os.ReadFile(filepath.Join(root, "clients", "js", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```js\n")
	program, _, found := strings.Cut(program, "```\n")
	if !found || strings.Count(program, "\n") > 20 {
		t.Fatalf("the README has no program of at most 20 lines:\n%s", program)
	}
	sources, err := filepath.Abs(filepath.Join(root, "clients", "js"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), npm, "install", "--offline", "--no-audit", "--no-fund", sources)
	install.Dir = dir
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	l := start(t, t.TempDir())
	defer l.stop()
	run := func(program string) string {
		node := nodeCommand(t, "--input-type=module")
		node.Dir, node.Env, node.Stdin = dir, append(os.Environ(), "PARLEY_URL=http://"+l.addr), strings.NewReader(program)
		out, err := node.CombinedOutput()
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return string(out)
	}
	out := run(program)
	for _, want := range []string{"open", "message_accepted", "answered I got 1 file: notes.md", "# Notes"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q:\n%s", want, out)
		}
	}
	out = run(`import * as all from '@parley/client';
import { Client } from '@parley/client/client.js';
const hidden = await import('@parley/client/conform.mjs').then(() => 'found', (err) => err.code);
console.log(Object.keys(all).sort().join(), all.Client === Client, hidden);`)
	if want := "Client,CommandError,Parley,RequestError,Session,backoff,browserStorage,connect,memory true ERR_PACKAGE_PATH_NOT_EXPORTED"; strings.TrimSpace(out) != want {
		t.Errorf("%s, want %s", out, want)
	}
	// What npm would hand on is all that it needs.
	pack := exec.CommandContext(t.Context(), npm, "pack", "--dry-run", "--json", sources)
	pack.Dir = dir
	list, err := pack.Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"index.js", "client.js", "index.d.ts", "client.d.ts", "parley.d.ts", "README.md", "package.json"} {
		if !strings.Contains(string(list), `"path": "`+file+`"`) {
			t.Errorf("the package has no %s: %s", file, list)
		}
	}
}

// kill -9 in the middle of an upload from Node: it is made again, the message names it,
// and its bytes come back as they were (N-01).
func TestJSClientUploadsThroughAKill(t *testing.T) {
	data := t.TempDir()
	l := spawn(t, data)
	killed := false
	addr := behindUpload(t, l.addr, 4<<20, func() {
		killed = true
		l.kill()
		l = spawn(t, data, "--listen", l.addr)
	})
	node := nodeCommand(t, "--input-type=module")
	node.Dir, node.Env = root, append(os.Environ(), "PARLEY_URL=http://"+addr)
	node.Stdin = strings.NewReader(`import { connect } from './clients/js/index.js';
const parley = connect(process.env.PARLEY_URL);
const session = await parley.create();
const text = '0123456789abcde\n'.repeat(8 << 16);
const file = await session.upload(new Blob([text], { type: 'text/plain' }), { name: 'numbers.txt' });
const { how } = await session.ask('', { attachments: [file] });
console.log(how, file.name, file.size, await (await session.blob(file.hash)).text() === text);
parley.close();`)
	out, err := node.CombinedOutput()
	if want := "answered numbers.txt 8388608 true"; err != nil || strings.TrimSpace(string(out)) != want || !killed {
		t.Errorf("%v, killed: %v, %s, want %s", err, killed, out, want)
	}
	l.stop()
}

// The client of the README, as it stands there: it talks to a server, shows the answers, and ends.
func TestReadmeClient(t *testing.T) {
	readme, err := os.ReadFile(filepath.Join(root, "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, program, _ := strings.Cut(string(readme), "```js\n")
	program, _, found := strings.Cut(program, "```\n")
	if !found || strings.Count(program, "\n") > 20 {
		t.Fatalf("the README has no client of at most 20 lines:\n%s", program)
	}
	l := start(t, t.TempDir())
	defer l.stop()
	node := nodeCommand(t, "--input-type=module")
	node.Dir, node.Env, node.Stdin = root, append(os.Environ(), "PARLEY_URL=http://"+l.addr), strings.NewReader(program)
	out, err := node.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{"open", "message_accepted Fix the login bug", "answered ", "391", "The login bug is fixed"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q:\n%s", want, out)
		}
	}
}
