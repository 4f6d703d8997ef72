package acp

import (
	"strings"
	"testing"
)

// An answer finds its request, whatever the editor's id looks like.
func TestIDs(t *testing.T) {
	s := serve(t)
	editor, there, _, stop := begun(t, s)
	defer stop()
	for _, own := range []string{`"<1>"`, `"a&b"`, "\"\u2028\"", `"\u003c"`, `-1`, `1.50`, `"\/"`, `null`} {
		editor.says(`{"jsonrpc":"2.0", "id" : ` + own + `,"method":"session/prompt","params":{"sessionId":"S","prompt":[]}}`)
		sent := there.hears(`"session/prompt"`)
		there.says(`{"jsonrpc":"2.0","id":` + id(sent) + `,"result":{"stopReason":"end_turn"}}`)
		editor.hears(`"id":` + own + `,`)
	}
}

// What no server can answer under its id is refused here: it would be sent again for ever.
func TestWrongIDs(t *testing.T) {
	s := serve(t)
	editor, _, c, stop := begun(t, s)
	defer stop()
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":{},"method":"x"}`, `{"jsonrpc":"2.0","id":[1],"method":"x"}`, `{"jsonrpc":"2.0","id":true,"method":"x"}`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 300) + `","method":"x"}`, "{\"jsonrpc\":\"2.0\",\"id\":5,\"method\":\"\xff\"}",
	} {
		editor.says(line)
		editor.hears(`"id":null`, `"error"`)
	}
	_ = c.CloseNow()
	there, _ := s.next()
	there.hears("initialize")
	there.hears("session/resume")
	editor.says(`{"jsonrpc":"2.0","id":6,"method":"session/list","params":{}}`)
	there.hears("session/list")
}
