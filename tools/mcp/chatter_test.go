package mcp

import (
	"bytes"
	"fmt"
	"os"
	"strings"
	"testing"
)

// chatter is what programs write to their standard output beside messages.
var chatter = []string{
	"Server is running on stdio", "", "   ", "[info] started", "[]", "[1]", `{"level":"info","msg":"started"}`, "{", "null", "17", `"text"`,
	`{"jsonrpc":"2.0","id":null,"result":{}}`, `{"jsonrpc":"2.0","id":1,"result":{}} trailing`, "\x00\xff\xfe binary", "\x1b[32mgreen\x1b[0m",
}

// chat makes a program write to its standard output what is no message.
func chat() {
	fmt.Println(strings.Join(chatter, "\n"))
	fmt.Println("the token is " + os.Getenv("API_TOKEN"))
	_, _ = os.Stdout.Write(append(bytes.Repeat([]byte("y"), 100<<10), '\n'))
}

func TestProgramThatChats(t *testing.T) {
	w := programs(t, program(t, "peer", "chat"))
	w.run("peer_echo", `{"text":"a"}`, "you said a")
	w.run("peer_chat", `{}`, "written")
	w.run("peer_echo", `{"text":"b"}`, "you said b")
	if st := w.Status()[0]; st.Connects != 1 || st.State != StateConnected {
		t.Errorf("the status is %+v", st)
	}
	w.run("peer_exit", `{}`, "!the server peer gave no answer")
	st := w.until("waiting", func(st Status) bool { return st.State == StateWaiting })
	if !strings.HasPrefix(st.Err, "it ended: exit status 4: yyy") {
		t.Errorf("the reason is %q", st.Err)
	}
	w.Close()
	log := w.log.String()
	for _, want := range []string{"level=WARN", "that is no message", `text="Server is running on stdio"`, "the token is [secret]", "bytes_cut="} {
		if !strings.Contains(log, want) {
			t.Errorf("the log has no %q: %.2000s", want, log)
		}
	}
	if strings.Contains(log, "sesame") {
		t.Error("a secret is in the log")
	}
}

// A message that is too long ends the connection, and the status says so, not how the
// program ended when it was told to.
func TestProgramThatSaysTooMuch(t *testing.T) {
	w := programs(t, program(t, "peer", "serve"))
	w.run("peer_huge", `{}`, "!the server peer gave no answer")
	if st := w.until("waiting", func(st Status) bool { return st.State == StateWaiting }); st.Err != errTooLong.Error() {
		t.Errorf("the reason is %q", st.Err)
	}
}
