package main

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
)

// N-06: what followers have seen of an answer stays when it is stopped: for those who
// were there, for those who come later, and after kill -9 at the moment at which the
// stop was acknowledged.
func TestStoppedInMidAnswer(t *testing.T) {
	for name, killed := range map[string]bool{"and shown again": false, "and killed at the receipt": true} {
		t.Run(name, func(t *testing.T) {
			data := t.TempDir()
			l := spawn(t, data, "--set", "scripted.token_delay=5ms")
			u := l.user("deltas")
			s := u.create(nil)
			seen := u.follow(s, 0)
			message := u.send(s, "1", "/stream 400 word")["message"]
			for range 3 {
				seen = append(seen, u.until(is("delta"))...)
			}
			u.ask("cancel", s, map[string]any{"reason": "enough"})
			if killed {
				l.kill()
				l = spawn(t, data)
				u = l.user("deltas")
				seen = append(durable(seen), u.follow(s, len(durable(seen)))...)
			}
			if !slices.ContainsFunc(seen, done) {
				seen = append(seen, u.until(done)...)
			}
			parts := of(seen, "partial_response")
			if len(parts) != 1 || parts[0].Data["cut"] != true || parts[0].Data["guessed"] != true || parts[0].text("draft") != "1.1.0" {
				t.Fatalf("the stop has kept %s", shown(parts))
			}
			var streamed strings.Builder
			for _, f := range of(seen, "delta") {
				streamed.WriteString(f.text("text"))
			}
			text := parts[0].text("text")
			if !killed && text != streamed.String() {
				t.Errorf("it has kept %q, and %q was seen", text, streamed.String())
			}
			if strings.Count(text, "word") < 3 || strings.Count(text, "word") == 400 {
				t.Errorf("it has kept %q", text)
			}
			wantResolved(t, durable(seen), map[any]string{message: "cancelled"})
			if last := durable(seen)[len(durable(seen))-1]; last.text("new_status") != "CANCELLED" || len(of(seen, "response")) != 0 {
				t.Errorf("it ended with %s", last.raw)
			}
			if !killed {
				l.kill()
				l = spawn(t, data)
			}
			again := l.user().follow(s, 0)
			if shown(again) != shown(durable(seen)) {
				t.Errorf("after a restart\n%s\nbefore\n%s", shown(again), shown(durable(seen)))
			}
			_, body := l.do("GET", "/api/sessions/"+s+"/messages", "")
			var page struct {
				Items []struct {
					Type, Text string
					Cut        bool
				}
			}
			if err := json.Unmarshal(body, &page); err != nil || len(page.Items) != 2 || page.Items[1].Text != text || !page.Items[1].Cut {
				t.Errorf("the conversation is %s (%v)", body, err)
			}
			l.stop()
		})
	}
}
