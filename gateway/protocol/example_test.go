package protocol_test

import (
	"fmt"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
)

// A command as a client sends it. A refusal names the member that is wrong.
func ExampleReadCommand() {
	frame := []byte(`{"type":"send","id":"7","session":"s1","data":{"client_msg_id":"a","text":"Hello"}}`)
	c, bad := protocol.ReadCommand(frame)
	if bad != nil {
		fmt.Println(bad)
		return
	}
	send, bad := protocol.ReadSend(c.Data, protocol.DefaultLimits())
	if bad != nil {
		fmt.Println(bad)
		return
	}
	fmt.Println(c.Kind, c.ID, c.Session, *send.Text)

	_, bad = protocol.ReadSend([]byte(`{"text":5}`), protocol.DefaultLimits())
	fmt.Println(bad.Code, bad.Message)
	// Output:
	// send 7 s1 Hello
	// bad_request text must be a string
}

// An event as every client sees it, and the frame that carries it.
func ExampleAppendEventFrame() {
	e := &conversation.Event{
		Seq: 3, At: time.Date(2026, 11, 21, 9, 30, 0, 0, time.UTC), Task: "t1-s1",
		Body: conversation.PartialResponse{Part: conversation.Part{Message: "p1-s1", Text: "Hello!"}},
	}
	frame := protocol.AppendEventFrame(nil, "s1", e, false)
	op, payload, rest := protocol.NextFrame(frame)
	fmt.Println(op == protocol.OpText, len(rest))
	fmt.Println(string(payload))
	// Output:
	// true 0
	// {"type":"partial_response","session":"s1","seq":3,"ts":"2026-11-21T09:30:00.000Z","task":"t1-s1","data":{"message":"p1-s1","text":"Hello!"}}
}
