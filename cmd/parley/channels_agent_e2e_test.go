package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"parley/gateway/telegram/telegramtest"
)

// A command-line agent on a chat platform, with nothing said of modes. A-15: a chat that waits
// for an answer is told so. A-16: while the agent runs as many processes as it may, another
// chat is told that it is busy, though admission.on_full is "wait", and nothing is queued.
// the chat's own task comes first.
func TestChannelsOfABusyAgent(t *testing.T) {
	dir := t.TempDir()
	gate, prompts := filepath.Join(dir, "gate"), filepath.Join(dir, "prompts")
	if err := syscall.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	config := write(t, fmt.Sprintf(`
[model]
default = "agent"
[models.agent]
provider = "command"
command = "sh"
args = [%q]
max_concurrent = 1
`, write(t, `for last; do :; done; echo "$last" >> `+prompts+`; cat `+gate+` > `+os.DevNull+`; echo "An answer"`)))
	f := telegramtest.Start()
	t.Cleanup(f.Close)
	args := append([]string{"--config", config}, admitted("telegram", "api_url="+f.URL())...)
	l := startWith(t, t.TempDir(), func(m *Main) {
		m.Environ = []string{"TELEGRAM_BOT_TOKEN=" + telegramtest.Token, "PATH=" + os.Getenv("PATH")}
	}, args...)
	const busy, other = 1, 2
	shows := func(chat int64, want ...string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), patience/4)
		defer cancel()
		if f.Until(ctx, func() bool { return slices.Equal(f.Texts(chat), want) }) != nil {
			t.Fatalf("chat %d shows %q, want %q", chat, f.Texts(chat), want)
		}
	}
	says := func(chat int64, text string, want ...string) {
		t.Helper()
		f.Say(telegramtest.Says{Chat: chat, From: telegramtest.Who{ID: chat, Name: "Ann"}, Text: text})
		if want != nil {
			shows(chat, want...)
		}
	}
	release := func() *os.File { // returns while the agent runs; it ends when the file is closed
		w, err := os.OpenFile(gate, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		return w
	}

	says(busy, "Hello")
	running := release()
	const wait, full, answer = "Please wait, I'm still thinking…", "AI is busy, please try again in a moment", "An answer"
	says(busy, "Are you there?", wait)
	says(other, "Hi", full)
	says(other, "/ask Hi?", full, full)
	if err := running.Close(); err != nil {
		t.Fatal(err)
	}
	l.measured("parley_admission_slots_in_use 0")
	says(other, "Hi again")
	if err := release().Close(); err != nil {
		t.Fatal(err)
	}
	shows(other, full, full, answer)
	says(other, "/ask", full, full, answer, "Usage: /ask QUESTION")
	if asked, err := os.ReadFile(prompts); err != nil || string(asked) != "Hello\nHi again\n" {
		t.Errorf("%v: the agent was asked %q", err, asked)
	}
	l.stop()
	if log := l.err.String(); strings.Contains(log, "level=ERROR") {
		t.Errorf("the log: %s", log)
	}
}
