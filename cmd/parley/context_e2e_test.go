package main

import (
	"fmt"
	"strings"
	"testing"
)

// A long conversation is summarised by the scripted model as by any other: the
// event is in the log and on the screens without its text, nothing is renumbered,
// and the first message is still known, also after a restart.
func TestLongConversation(t *testing.T) {
	data := t.TempDir()
	limits := []string{"--set", "context.budget=12000", "--set", "context.threshold=8000", "--set", "context.keep=1000", "--set", "context.summary=200"}
	l := start(t, data, limits...)
	u := l.user()
	s := u.create(nil)
	frames := u.follow(s, 0)
	u.send(s, "first", "Remember the milk")
	frames = append(frames, u.until(done)...)
	for i := 0; len(of(frames, "context_compacted")) == 0; i++ {
		if i == 20 {
			t.Fatalf("no summary after %d messages", i)
		}
		u.send(s, fmt.Sprint(i), "/say "+strings.Repeat("word ", 1000))
		frames = append(frames, u.until(done)...)
	}
	gapless(t, durable(frames), 1)
	event := of(frames, "context_compacted")[0]
	if before, after := event.Data["tokens_before"].(float64), event.Data["tokens_after"].(float64); before <= 8000 || after >= before {
		t.Errorf("%s", event.raw)
	}
	if strings.Contains(string(event.raw), "milk") {
		t.Errorf("the summary is told to clients: %s", event.raw)
	}
	for range 2 {
		u.send(s, l.addr, "What did I say first?")
		if answer := shown(of(u.until(done), "response")); !strings.Contains(answer, "Remember the milk") {
			t.Errorf("after the summary: %s", answer)
		}
		l.stop()
		l = start(t, data, limits...)
		u = l.user()
		u.follow(s, 0)
	}
	l.stop()
}
