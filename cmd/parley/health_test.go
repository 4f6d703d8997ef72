package main

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestHealth(t *testing.T) {
	l := start(t, t.TempDir(), "--set", "admin.listen=127.0.0.1:0")
	url := "http://" + l.addr
	for _, c := range []struct {
		args       []string
		code       int
		out, fails string
	}{
		{[]string{"health", "--url", url}, 0, "ready\n", ""},
		{[]string{"health", "--live", "--url", url}, 0, "alive\n", ""},
		{[]string{"health", "--config", emptyConfig(t), "--listen", l.addr}, 0, "ready\n", ""},
		{[]string{"health", "--config", emptyConfig(t), "--listen", "127.0.0.1:0"}, exitUsage, "", "name the server with --url"},
		{[]string{"health", "--url", l.addr}, exitUsage, "", "is not the address of a server"},
	} {
		if code, out, errs := run(c.args...); code != c.code || out != c.out || !strings.Contains(errs, c.fails) || strings.Count(errs, "\n") > 1 {
			t.Errorf("%v: %d %q %q, want %d %q %q", c.args, code, out, errs, c.code, c.out, c.fails)
		}
	}
	l.stop()
	if code, out, errs := run("health", "--url", url); code != exitFailed || out != "" || !strings.Contains(errs, "does not answer") || strings.Count(errs, "\n") != 1 {
		t.Errorf("of a server that has ended: %d %q %q", code, out, errs)
	}
}

// What systemd hears of a real process: that it serves when it does, that it lives, and that it stops.
func TestServiceManagerIsTold(t *testing.T) {
	dir, err := os.MkdirTemp("", "notify") //nolint:usetesting // a path of a socket may not be as long as those of t.TempDir
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	path := filepath.Join(dir, "s")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: path, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	heard := make(chan string, 10_000)
	go func() { // ends with conn; the socket holds few lines, and the server waits for room in it
		defer close(heard)
		b := make([]byte, 4096)
		for {
			_ = conn.SetReadDeadline(time.Now().Add(patience))
			n, err := conn.Read(b)
			if err != nil {
				return
			}
			heard <- string(b[:n])
		}
	}()
	told := func() string {
		text, ok := <-heard
		if !ok {
			t.Fatal("nothing more is told")
		}
		return text
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	environment := `NOTIFY_SOCKET="$0" WATCHDOG_USEC=300000 WATCHDOG_PID=$$ exec "$@"`
	data := t.TempDir()
	l := launch(t, exec.Command("/bin/sh", append([]string{"-c", environment, path, self}, childArgs(t, data)...)...))
	if got, want := told(), "STATUS=opening "+data; got != want {
		t.Errorf("told %q, want %q", got, want)
	}
	ready := told()
	if code, out, errs := run("health", "--url", "http://"+l.addr); code != exitOK || out != "ready\n" {
		t.Errorf("the service manager hears that the server serves when it is %d %q %q", code, out, errs)
	}
	if want := "READY=1\nSTATUS=serves at " + l.addr; !strings.HasPrefix(ready, want) {
		t.Errorf("told %q, want %q", ready, want)
	}
	for range 2 { // at the start, and once more
		if got := told(); got != "WATCHDOG=1" {
			t.Errorf("told %q", got)
		}
	}
	l.stop()
	var after []string
	for len(after) == 0 || after[len(after)-1] != "STATUS=closes the store" {
		if got := told(); got != "WATCHDOG=1" {
			after = append(after, got)
		}
	}
	if len(after) != 2 || after[0] != "STOPPING=1\nSTATUS=drains\nEXTEND_TIMEOUT_USEC=40000000" {
		t.Errorf("at its end it told %q", after)
	}
}
