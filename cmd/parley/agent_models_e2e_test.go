package main

import (
	"bytes"
	"fmt"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

// A session has its agent answer with another of its models from the next step on, also after
// a start; once the configuration does not offer it any more, with the agent's own.
func TestModelsOfAgents(t *testing.T) {
	saying := func(text string) *modelstest.Upstream {
		return modelstest.NewUpstream(t, modelstest.Chat(), modelstest.Reply{Scenario: modelstest.Scenario{Items: []conversation.Item{{Kind: conversation.ItemText, Text: text}}}})
	}
	block := func(name string, u *modelstest.Upstream) string {
		return fmt.Sprintf("[models.%s]\nprovider = \"openai\"\napi = \"chat\"\nmodel = %q\nbase_url = %q\n", name, name, u.URL)
	}
	blocks := "[model]\ndefault = \"own\"\n" + block("own", saying("Own here.")) + block("other", saying("Other here."))
	offered, not := write(t, blocks+"[[agents]]\nname = \"coordinator\"\nmodels = [\"other\"]\n"), write(t, blocks)
	data := t.TempDir()
	l := start(t, data, "--config", offered)
	s := l.session()
	n := 0
	answers := func(want string) {
		t.Helper()
		n++
		status, got := l.do("POST", "/api/sessions/"+s+"/messages?wait=20s", fmt.Sprintf(`{"client_msg_id":"m%d","text":"who is there?"}`, n))
		if status != 200 || !bytes.Contains(got, []byte(want)) {
			t.Errorf("message %d: %d %s, want %q", n, status, got, want)
		}
	}
	answers("Own here.")
	for agent, want := range map[string]int{"coordinator@absent": 400, "coordinator@": 400, "developer@other": 400} {
		if status, got := l.do("PATCH", "/api/sessions/"+s, fmt.Sprintf(`{"agent":%q}`, agent)); status != want {
			t.Errorf("%s: %d %s, want %d", agent, status, got, want)
		}
	}
	if status, got := l.do("PATCH", "/api/sessions/"+s, `{"agent":"coordinator@other"}`); status != 200 {
		t.Fatalf("%d %s", status, got)
	}
	answers("Other here.")
	l.stop()
	l = start(t, data, "--config", offered)
	answers("Other here.")
	l.stop()
	l = start(t, data, "--config", not)
	answers("Own here.")
	l.stop()
}
