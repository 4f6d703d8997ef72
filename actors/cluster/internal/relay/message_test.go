package relay

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"testing"

	"parley/actors/cluster/internal/fields"
	"parley/conversation"
)

var sample = message{
	kind: kindViewed, key: conversation.SessionKey{Tenant: "acme", Session: "s/d1"}, epoch: 3, seq: 4, body: []byte("body"),
	user: "ada", on: true, text: "erased", id: 300, refused: []byte("no"), passed: true,
	entries: []entry{
		{key: conversation.SessionKey{Tenant: "acme", Session: "s"}, epoch: 1, head: 2, state: stateElsewhere, at: conversation.Member{Node: "n1", Incarnation: 7}},
		{key: conversation.SessionKey{Tenant: "acme", Session: "t"}},
	},
}

// Every version reads these bytes in the same way.
const golden = "080b120461636d651a04732f6431200328043204626f64793a0361646140014a0665726173656450ac025a026e6f60016a150a0461636d651201731801200228033202" +
	"6e3138076a090a0461636d65120174"

func TestMessage(t *testing.T) {
	got := sample.append(nil)
	if hex.EncodeToString(got) != golden {
		t.Errorf("encoded %x", got)
	}
	newer := fields.AppendText(got, 99, "of a newer version")
	for _, b := range [][]byte{got, newer} {
		var m message
		if err := m.read(b); err != nil || !reflect.DeepEqual(m, sample) {
			t.Errorf("read %+v, %v", m, err)
		}
	}
}

// What is no message is refused or read, and ends nothing.
func FuzzMessage(f *testing.F) {
	f.Add(sample.append(nil))
	f.Add([]byte{0x6a, 0x01, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		var m, again message
		if m.read(b) != nil {
			return
		}
		if err := again.read(m.append(nil)); err != nil || !bytes.Equal(again.append(nil), m.append(nil)) {
			t.Errorf("%x is read as %+v, and that as %+v, %v", b, m, again, err)
		}
	})
}
