package machine

import (
	"testing"

	"parley/conversation"
	"parley/conversation/dedup"
	"parley/conversation/wire"
)

// A text that is not UTF-8 is replaced before it is compared or remembered: a message
// that is sent again is the same one before and after a restart.
func TestTextsThatAreNoUTF8(t *testing.T) {
	key := conversation.SessionKey{Tenant: "t", Session: "s"}
	s := New(key, testRules())
	var log []conversation.Event
	tell := func(s *Session, c conversation.Command) conversation.Decided {
		d := s.Decide(conversation.Inputs{At: benchStart, Slot: true}, c)
		if d.Err != nil {
			t.Fatalf("%+v: %v", c, d.Err)
		}
		log = append(log, d.Events...)
		return d
	}
	say := conversation.Say{Author: "u", ClientMsgID: "a", Text: "caf\xe9"}
	tell(s, conversation.Create{Owner: "u", Title: "\xff"})
	first := tell(s, say).Receipt.Message
	tell(s, conversation.ModelAnswered{Step: 1, Attempt: 1, Answer: conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemCall, ID: "k1", Tool: conversation.ToolAsk, Args: `{"question":"Which?"}`}}}})
	answer := conversation.Answer{Author: "u", ClientMsgID: "b", Question: "q1", Text: "\xfe"}
	tell(s, answer)
	stored := func(e conversation.Event) conversation.Event { // as a store gives it back
		read, err := wire.DecodeRecord(wire.AppendRecord(nil, conversation.Record{Events: []conversation.Event{e}}))
		if err != nil {
			t.Fatal(err)
		}
		return read.Events[0]
	}
	loaded := New(key, testRules())
	for _, e := range log {
		if err := loaded.Apply(stored(e)); err != nil {
			t.Fatal(err)
		}
	}
	for name, session := range map[string]*Session{"live": s, "loaded": loaded} {
		for _, c := range []conversation.Command{say, answer} {
			if d := session.Decide(conversation.Inputs{At: benchStart, Slot: true}, c); d.Err != nil || !d.Receipt.Duplicate {
				t.Errorf("%s: %+v again: %v, %+v", name, c, d.Err, d.Receipt)
			}
		}
	}
	for _, e := range log {
		if b, ok := e.Body.(conversation.MessageAccepted); ok && b.Message == first {
			if d := dedup.Of(say, stored(e)); !d.SameText || b.Text != "caf\uFFFD" {
				t.Errorf("the store's %q is another text: %+v", b.Text, d)
			}
		}
	}
}
