package main

import (
	"fmt"
	"strings"
	"testing"

	"parley/conversation"
	"parley/models/modelstest"
)

// A session is called by its first words, then by what the model of titles says, for all who
// follow it and after a start; a title that somebody gives takes its place.
func TestSessionsAreNamedByAModel(t *testing.T) {
	u := modelstest.NewUpstream(t, modelstest.Chat(), modelstest.Reply{Scenario: modelstest.Scenario{Items: []conversation.Item{{Kind: conversation.ItemText, Text: "**A greeting**"}}}})
	data := t.TempDir()
	args := []string{"--config", write(t, fmt.Sprintf("[titles]\nmodel = \"names\"\n[models.names]\nprovider = \"openai\"\napi = \"chat\"\nmodel = \"m\"\nbase_url = %q\n", u.URL))}
	l := start(t, data, args...)
	ann := l.user()
	s := ann.create(nil)
	ann.follow(s, 0)
	ann.send(s, "a", "/say hello to you")
	frames := ann.until(func(f frame) bool { return f.Type == "session_updated" })
	if got := frames[len(frames)-1].text("title"); got != "A greeting" {
		t.Errorf("the title is %q", got)
	}
	asked := u.Asked()
	if len(asked) != 1 || !strings.Contains(asked[0].Said[0], "[the first message]\n/say hello to you\n[the answer]\nhello to you") || !strings.HasPrefix(asked[0].System, "You name conversations") {
		t.Errorf("asked is %+v", asked)
	}
	l.measured(`parley_titles_total{outcome="ok"} 1`)
	l.stop()
	l = start(t, data, args...)
	called := func(want string) {
		t.Helper()
		if _, body := l.do("GET", "/api/sessions/"+s, ""); !strings.Contains(string(body), fmt.Sprintf(`"title":%q`, want)) {
			t.Errorf("the session is not called %q: %s", want, body)
		}
	}
	called("A greeting")
	if status, body := l.do("PATCH", "/api/sessions/"+s, `{"title":"Mine"}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if status, body := l.do("POST", "/api/sessions/"+s+"/messages?wait=20s", `{"text":"/say again"}`); status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	called("Mine")
	if n := len(u.Asked()); n != 1 {
		t.Errorf("asked %d times", n)
	}
	l.stop()
}
