package main

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"parley/gateway/auth"

	"github.com/coder/websocket"
	"github.com/golang-jwt/jwt/v5"
)

// signedIn asks for the list of sessions with headers, which come in pairs.
func (l *live) signedIn(headers ...string) int {
	l.t.Helper()
	request, err := http.NewRequestWithContext(l.t.Context(), "GET", "http://"+l.addr+"/api/sessions", nil)
	if err != nil {
		l.t.Fatal(err)
	}
	for i := 0; i+1 < len(headers); i += 2 {
		request.Header.Add(headers[i], headers[i+1])
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		l.t.Fatal(err)
	}
	_ = response.Body.Close()
	return response.StatusCode
}

func bearer(token string) []string { return []string{"Authorization", "Bearer " + token} }

// socketOf says hello with a token and returns the socket and its answer's type.
func (l *live) socketOf(token string) (*websocket.Conn, string) {
	l.t.Helper()
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	ws, _, err := websocket.Dial(ctx, "ws://"+l.addr+"/ws", &websocket.DialOptions{Subprotocols: []string{"parley.v1"}})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() { _ = ws.CloseNow() })
	hello, _ := json.Marshal(map[string]any{"type": "hello", "id": "1", "data": map[string]any{"proto": 1, "token": token}})
	if err := ws.Write(ctx, websocket.MessageText, hello); err != nil {
		l.t.Fatal(err)
	}
	_, b, err := ws.Read(ctx)
	if err != nil {
		l.t.Fatal(err)
	}
	var f struct{ Type string }
	if err := json.Unmarshal(b, &f); err != nil {
		l.t.Fatal(err)
	}
	return ws, f.Type
}

// closedWith reads a socket to its end.
func closedWith(t *testing.T, ws *websocket.Conn) int {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for {
		if _, _, err := ws.Read(ctx); err != nil {
			var closed websocket.CloseError
			if !errors.As(err, &closed) {
				t.Fatalf("it broke: %v", err)
			}
			return int(closed.Code)
		}
	}
}

// A key is made, used, shown and taken back; only its hash is on the disk and nothing of
// it in the log. What it has open ends at once, without a signal.
func TestKeysEndToEnd(t *testing.T) {
	t.Parallel()
	data := filepath.Join(t.TempDir(), "data")
	made := func(args ...string) string {
		t.Helper()
		code, out, errs := run(append([]string{"key", "create", "--config", emptyConfig(t), "--data", data}, args...)...)
		if code != exitOK || !regexp.MustCompile(`^parley_[a-z2-7]{12}_[a-z2-7]{40}\n$`).MatchString(out) {
			t.Fatalf("%d %q %q", code, out, errs)
		}
		return strings.TrimSpace(out)
	}
	ann := made("--user", "ann", "--name", "Ann")
	l := start(t, data, "--set", "auth.mode=keys")
	if code := l.signedIn(); code != 401 {
		t.Errorf("without a key: %d", code)
	}
	if code := l.signedIn(bearer(ann)...); code != 200 {
		t.Errorf("with a key: %d", code)
	}
	ws, kind := l.socketOf(ann)
	if kind != "ok" {
		t.Errorf("hello: %s", kind)
	}
	bob := made("--user", "bob", "--scopes", "chat,admin", "--expires", "1h") // while the server runs
	for deadline := time.Now().Add(patience); l.signedIn(bearer(bob)...) != 200; {
		if time.Now().After(deadline) {
			t.Fatal("a new key is never noticed")
		}
	}
	id := strings.Split(ann, "_")[1]
	if code, out, _ := run("key", "list", "--config", emptyConfig(t), "--data", data); code != exitOK || !strings.Contains(out, id) || strings.Contains(out, ann) || !strings.Contains(out, "chat,admin") {
		t.Errorf("key list: %d %s", code, out)
	}
	if code, out, errs := run("key", "revoke", id, "--config", emptyConfig(t), "--data", data); code != exitOK || !strings.Contains(out, "ann") {
		t.Errorf("key revoke: %d %s %s", code, out, errs)
	}
	if code := closedWith(t, ws); code != 4501 {
		t.Errorf("the socket was closed with %d", code)
	}
	if code := l.signedIn(bearer(ann)...); code != 401 {
		t.Errorf("after it was taken back: %d", code)
	}
	if code, _, errs := run("key", "revoke", id, "--config", emptyConfig(t), "--data", data); code != exitFailed || !strings.Contains(errs, "no key") {
		t.Errorf("taken back twice: %d %s", code, errs)
	}
	l.stop()
	log, err := os.ReadFile(filepath.Join(data, "audit.log"))
	backup := filepath.Join(t.TempDir(), "backup")
	for _, args := range [][]string{{"backup", backup, "--data", data}, {"restore", backup, "--data", data, "--replace"}} {
		if code, _, errs := run(append(args, "--config", emptyConfig(t))...); code != exitOK {
			t.Errorf("%v: %d %s", args, code, errs)
		}
	}
	if code, out, errs := run("doctor", "--offline", "--config", emptyConfig(t), "--data", data, "--listen", "127.0.0.1:0", "--set", "auth.mode=keys"); code != exitOK || !strings.Contains(out, "keys: 1, of the configuration and ") {
		t.Errorf("after a restore: doctor %d %s%s", code, out, errs)
	}
	stored, failed := os.ReadFile(filepath.Join(data, auth.KeysFile))
	if failed != nil {
		t.Fatal(failed)
	}
	if err != nil || strings.Count(string(log), "key.create") != 2 || strings.Count(string(log), "key.revoke") != 1 {
		t.Errorf("audit.log: %s, %v", log, err)
	}
	for _, text := range []string{string(stored), string(log), l.err.String(), l.out.String()} {
		if strings.Contains(text, ann) || strings.Contains(text, strings.Split(bob, "_")[2]) {
			t.Errorf("a key is in\n%s", text)
		}
	}
	for _, args := range [][]string{{"--user", ""}, {"--user", "a", "--scopes", "root"}, {"--user", "a", "--expires", "-1h"}, {}} {
		if code, _, errs := run(append([]string{"key", "create", "--config", emptyConfig(t), "--data", data}, args...)...); code != exitUsage {
			t.Errorf("key create %v: %d %s", args, code, errs)
		}
	}
}

// Each recipe of docs/SIGNIN.md is a configuration with which those get in who should, and
// nobody else.
func TestSignInRecipes(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs", "SIGNIN.md"))
	if err != nil {
		t.Fatal(err)
	}
	const bob, worker = "a-key-that-bob-has-made-up-himself", "the-key-of-a-worker-far-away"
	secret := strings.Repeat("s", 32)
	claims := jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	if err != nil {
		t.Fatal(err)
	}
	tries := map[string]map[string]struct { // by a text of the recipe, by what is tried
		headers []string
		status  int
	}{
		`mode = "none"`: {"anybody": {nil, 200}},
		`[[auth.keys]]`: {"bob": {bearer(bob), 200}, "a worker, who has no list": {bearer(worker), 403}, "another": {bearer("x"), 401}},
		`jwks_url`:      {"nobody, for there is no such address": {bearer(token), 401}},
		`hs256_secret`:  {"ann": {bearer(token), 200}, "cut": {bearer(token[:len(token)-2]), 401}, "none": {nil, 401}},
		`proxy_header`: {
			"ann": {[]string{"X-Forwarded-User", "ann"}, 200}, "nobody": {nil, 401},
			"twice": {[]string{"X-Forwarded-User", "ann", "X-Forwarded-User", "bob"}, 401}, "a token": {bearer(token), 401},
		},
		``: {"nobody has a key yet": {bearer(bob), 401}}, // the rest
	}
	recipes := strings.Split(string(text), "```toml\n")[1:]
	if len(recipes) != len(tries) {
		t.Fatalf("%d recipes, %d tries", len(recipes), len(tries))
	}
	for _, recipe := range recipes {
		recipe, _, _ = strings.Cut(recipe, "```")
		which := ""
		for mark := range tries {
			if mark != "" && strings.Contains(recipe, mark) {
				which = mark
			}
		}
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(recipe), 0o600); err != nil {
			t.Fatal(err)
		}
		l := startWith(t, filepath.Join(t.TempDir(), "data"), func(m *Main) {
			m.Environ = append(m.Environ, "WORKER_KEY="+worker, "SIGN_IN_SECRET="+secret)
		}, "--config", path, "--set", "auth.leeway=0s")
		for name, try := range tries[which] {
			if status := l.signedIn(try.headers...); status != try.status {
				t.Errorf("%s: %s: status %d, want %d", which, name, status, try.status)
			}
		}
		if code, out, errs := run("config", "print", "--config", path); code != exitOK || strings.Contains(out, bob) || strings.Contains(out, secret) {
			t.Errorf("config print: %d %s %s", code, out, errs)
		}
		l.stop()
	}
}

// What would put a secret into the configuration, or let in everybody, is refused with
// what to do instead, and without saying the secret.
func TestSignInThatCannotBe(t *testing.T) {
	for _, row := range []struct {
		file, says string
		args       []string
	}{
		{"", "loopback", []string{"--listen", "0.0.0.0:0"}},
		{"", "auth.mode", []string{"--set", "gateway.public_hosts=chat.example"}},
		{"", "at least 32 bytes", []string{"--set", "auth.hs256_secret=hunter2hunter2"}},
		{"[[auth.keys]]\nkey = \"hunter2\"\nuser = \"a\"\n", "at least 8 characters", []string{"--set", "auth.mode=keys"}},
		{"[[auth.keys]]\nhash = \"hunter2\"\nuser = \"a\"\n", "64 hexadecimal digits", []string{"--set", "auth.mode=keys"}},
		{"[[auth.keys]]\nhash = \"sha256:00\"\nuser = \"a\"\npassword = \"hunter2\"\n", "password", []string{"--set", "auth.mode=keys"}},
		{"[[auth.keys]]\nkey = \"env:K\"\nuser = \"a\"\n", `auth.mode = "keys"`, nil},
		{"", "tls.acme_hosts", []string{"--set", "tls.acme_hosts=chat.example", "--set", "tls.acme_accept_terms=true"}},
		{"", "tls.acme_accept_terms", []string{"--set", "tls.acme_hosts=chat.example", "--set", "auth.mode=keys"}},
		{"", "memory.mode", []string{"--set", "tls.acme_hosts=chat.example", "--set", "tls.acme_accept_terms=true", "--set", "auth.mode=keys", "--set", "memory.mode=ephemeral"}},
		{"", "trusted_proxies", []string{"--set", "auth.mode=proxy", "--set", "auth.proxy_header=X-User"}},
		{"", "exactly one of", []string{"--set", "auth.mode=jwt"}},
	} {
		path := filepath.Join(t.TempDir(), "config.toml")
		if err := os.WriteFile(path, []byte(row.file), 0o600); err != nil {
			t.Fatal(err)
		}
		code, _, errs := run(append([]string{"config", "check", "--config", path}, row.args...)...)
		if code != exitUsage || !strings.Contains(errs, row.says) || strings.Contains(errs, "hunter2") {
			t.Errorf("%q %v: %d %s", row.file, row.args, code, errs)
		}
	}
}

// A key and a secret may stand in the configuration itself; what is shown of it has neither.
func TestSecretsInTheConfiguration(t *testing.T) {
	const key, shared = "k-ann-hunter2", "hunter2-hunter2-hunter2-hunter2-hunter2"
	path := write(t, "[auth]\nmode = \"keys\"\n[[auth.keys]]\nkey = \""+key+"\"\nuser = \"ann\"\n")
	l := start(t, t.TempDir(), "--config", path)
	if code := l.signedIn(bearer(key)...); code != 200 {
		t.Errorf("with the key: %d", code)
	}
	if code := l.signedIn(bearer(key + "x")...); code != 401 {
		t.Errorf("with another: %d", code)
	}
	l.stop()
	code, shown, errs := run("config", "print", "--config", path)
	if code != exitOK || strings.Contains(shown+errs, "hunter2") || !strings.Contains(shown, auth.Hash(key)) {
		t.Errorf("%d %s %s", code, shown, errs)
	}
	path = write(t, "[auth]\nmode = \"jwt\"\ntenant = \"acme\"\nhs256_secret = \""+shared+"\"\n")
	l = start(t, t.TempDir(), "--config", path)
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, jwt.MapClaims{"sub": "ann", "exp": time.Now().Add(time.Hour).Unix()}).SignedString([]byte(shared))
	if err != nil {
		t.Fatal(err)
	}
	if code := l.signedIn(bearer(token)...); code != 200 {
		t.Errorf("with a token: %d", code)
	}
	if err := l.err.String(); strings.Contains(err, "hunter2") || !strings.Contains(err, "inline_secret") {
		t.Errorf("the log: %s", err)
	}
	l.stop()
	if code, shown, errs = run("config", "print", "--config", path); code != exitOK || strings.Contains(shown+errs, "hunter2") || !strings.Contains(shown, `"***"`) {
		t.Errorf("%d %s %s", code, shown, errs)
	}
}

// SIGHUP reads the keys of the configuration file again, and nothing else of it.
func TestHangupReadsKeysAgain(t *testing.T) {
	const mine = "a-key-that-bob-has-made-up-himself"
	path := filepath.Join(t.TempDir(), "config.toml")
	put := func(text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte("[auth]\nmode = \"keys\"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	put("[[auth.keys]]\nhash = \"" + auth.Hash(mine) + "\"\nuser = \"bob\"\n")
	data := filepath.Join(t.TempDir(), "data")
	l := start(t, data, "--config", path)
	ws, kind := l.socketOf(mine)
	if kind != "ok" {
		t.Fatalf("hello: %s", kind)
	}
	put("")
	if err := syscall.Kill(os.Getpid(), syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if code := closedWith(t, ws); code != 4501 {
		t.Errorf("closed with %d", code)
	}
	if code := l.signedIn(bearer(mine)...); code != 401 {
		t.Errorf("after its end: %d", code)
	}
	l.stop()
	log, err := os.ReadFile(filepath.Join(data, "audit.log"))
	if err != nil || !strings.Contains(string(log), "keys.reload") {
		t.Errorf("audit.log: %s, %v", log, err)
	}
}
