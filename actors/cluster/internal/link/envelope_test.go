package link

import (
	"bytes"
	"testing"

	"parley/conversation"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// What is no envelope is refused or read, and ends nothing; and whoever looks at one on its way
// reads the same sender as the door does.
func FuzzEnvelope(f *testing.F) {
	sample := envelope{
		kind: kindRequest, id: 300, from: conversation.Member{Node: "a", Incarnation: 1}, to: conversation.Member{Node: "b", Incarnation: 2},
		topic: 3, wait: 1000, body: []byte("body"), more: true, fail: "no", offset: 7,
	}
	f.Add(sample.append(nil))
	f.Add([]byte{0x4a, 0x01})
	f.Fuzz(func(t *testing.T, b []byte) {
		var e, again envelope
		err := e.read(b)
		data, broken := proto.Marshal(wrapperspb.Bytes(b))
		if broken != nil {
			t.Fatal(broken)
		}
		if from, ok := senderOf(data); ok != (err == nil) || ok && from != e.from {
			t.Errorf("%x is of %v (%v) on its way, and of %v at the door, %v", b, from, ok, e.from, err)
		}
		if err != nil {
			return
		}
		if err := again.read(e.append(nil)); err != nil || !bytes.Equal(again.append(nil), e.append(nil)) {
			t.Errorf("%x is read as %+v, and that as %+v, %v", b, e, again, err)
		}
	})
}
