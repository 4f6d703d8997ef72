package uistream_test

import (
	"encoding/json"
	"strings"
	"testing"

	"parley/conversation"
	"parley/conversation/machine/machinetest"
	"parley/gateway"
)

// head is how many events a session has, and offers what tools its caller runs.
func (r *rig) head(key conversation.SessionKey) (n int, offers string) {
	r.sessions.Play(func(w *machinetest.World) {
		s := w.Session(key)
		n, offers = len(s.Events()), string(s.Machine.View().Policy["tools.caller"])
	})
	return n, offers
}

// What is refused leaves nothing behind: neither the tools that came with it, nor files, nor an empty chat. What can be
// known before costs the log nothing; the rest is taken back.
func TestRefusedLeavesNothing(t *testing.T) {
	r := begin(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.AttachmentsPerMessage = 1 })
	first := says("c1", "u1", "Hello", "")
	r.call("POST", "/api/ui/chat", first).want(200).until("start-step")
	key := r.key("c1")
	r.model(key, call(conversation.ToolAsk, `{"question":"When?"}`))
	answer := func(q, text string) string {
		return `"answer":{"question":"` + q + `","text":"` + text + `"},`
	}
	goesOn := func(parts, more string) string {
		return `{` + more + `"id":"c1","messages":[{"id":"a-` + string(task(key, 1)) + `","role":"assistant","parts":[` + parts + `]}]}`
	}
	file := func(chat, url string) string {
		return `{` + weather + `"id":"` + chat + `","messages":[{"id":"f1","role":"user","parts":[{"type":"file","mediaType":"image/png","url":"` + url + `"}]}]}`
	}
	const picture = "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
	const noPicture = "data:image/png;base64,aGVsbG8gdGhlcmUsIHRoaXMgaXMgdGV4dA=="
	refused := func(what, body string, status, events int) {
		t.Helper()
		t.Run(what, func(t *testing.T) {
			before, _ := r.head(key)
			if a := r.call("POST", "/api/ui/chat", body); a.StatusCode != status {
				t.Errorf("%d, want %d: %s", a.StatusCode, status, a.all())
			}
			if now, offers := r.head(key); now != before+events || offers != "" {
				t.Errorf("%d events came of it, want %d; the tools are %s", now-before, events, offers)
			}
		})
	}
	refused("a file of another type", file("c1", noPicture), 415, 0)
	refused("a file that was not uploaded", file("c1", "/api/blobs/"+strings.Repeat("0", 64)), 404, 0)
	refused("an id that was used", says("c1", "u1", "Hello you", weather), 409, 0)
	refused("a repetition", says("c1", "u1", "Hello", weather), 200, 0)
	refused("an answer to nothing", says("c1", "u2", "", weather+answer("q9", "x")), 404, 0)
	refused("a blank answer", says("c1", "u2", "x", weather+answer("q1-"+string(key.Session), " ")), 400, 0)
	refused("an answer to nothing, by a button", goesOn("", weather+answer("q9", "x")), 404, 0)
	refused("a blank answer, by a button", goesOn("", weather+answer("q1", " ")), 400, 0)
	refused("no answer", goesOn("", weather), 400, 0)

	r.call("PATCH", "/api/sessions/"+string(key.Session), `{"policy":{"inbox.max_queued":1}}`).want(200)
	r.call("POST", "/api/ui/chat", says("c1", "u3", "Another", `"mode":"queue",`)).want(200).until("start")
	r.call("POST", "/api/ui/chat", says("c1", "u4", "And another", `"mode":"queue",`)).want(200).until("start")
	refused("a full inbox", says("c1", "u5", "More", weather+`"mode":"queue",`), 429, 2)
	refused("a busy chat", says("c1", "u5", "More", weather+`"mode":"reject",`), 409, 2)

	r.call("POST", "/api/ui/chat/c1/stop", `{"messageId":"a-`+string(task(key, 1))+`"}`).want(202)
	r.call("PATCH", "/api/sessions/"+string(key.Session), `{"closed":true}`).want(200)
	refused("a closed chat", says("c1", "u6", "More", weather), 410, 0)
	refused("a file for a closed chat", file("c1", picture), 410, 0)
	refused("a repetition in a closed chat", says("c1", "u1", "Hello", weather), 200, 0)

	r.call("POST", "/api/ui/chat", file("new", noPicture)).want(415)
	r.call("GET", "/api/ui/chat/new", "").want(404)
}

// A mode that the configuration does not allow opens no chat.
func TestModeThatIsNotAllowedOpensNoChat(t *testing.T) {
	r := begin(t, func(c *gateway.Config, _ *gateway.Deps) { c.Offer.Modes = []string{"queue"} })
	r.call("POST", "/api/ui/chat", says("new", "u1", "Hello", `"mode":"interrupt",`)).want(400)
	r.call("GET", "/api/ui/chat/new", "").want(404)
}

// The tools of a request that is taken are offered from its own message on; those that came with a message which is
// said again are not.
func TestToolsComeWithTheirMessage(t *testing.T) {
	r := begin(t)
	r.call("POST", "/api/ui/chat", says("c1", "u1", "Hello", "")).want(200).until("start-step")
	key := r.key("c1")
	r.model(key, text("Hello"))
	other := strings.Replace(weather, "get_weather", "other", 1)
	for _, x := range []struct{ id, tools, offers string }{{"u2", weather, "get_weather"}, {"u3", other, "other"}, {"u2", weather, "other"}} {
		r.call("POST", "/api/ui/chat", says("c1", x.id, "Go", x.tools)).want(200).until("start")
		var offered []struct{ Name string }
		_, offers := r.head(key)
		if err := json.Unmarshal([]byte(offers), &offered); err != nil || len(offered) != 1 || offered[0].Name != x.offers {
			t.Errorf("behind %s with %s the tools are %s", x.id, x.tools, offers)
		}
	}
}
