package speech

import (
	"bytes"
	"testing"

	"parley/conversation"
)

// What is no message is refused or read, and ends nothing.
func FuzzRead(f *testing.F) {
	key := conversation.SessionKey{Tenant: "acme", Session: "s/d1"}
	f.Add((&Ask{What: Tell, Key: key, As: "ada", Told: true, Command: []byte("c"), Round: 300, Index: 1}).Append(nil))
	f.Add((&Answer{Moved: true, At: conversation.Member{Node: "a", Incarnation: 1}, Error: []byte("e"), Body: []byte("b"), Session: "s", Created: true, Owns: true}).Append(nil))
	f.Add((&Errand{What: ErrandTell, ID: 300, Name: "n", Body: []byte("b")}).Append(nil))
	f.Add((&ErrandAnswer{Refused: true, Lost: true, Body: []byte("b")}).Append(nil))
	type speech interface {
		Append(b []byte) []byte
		Read(b []byte) error
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, two := range [][2]speech{{&Ask{}, &Ask{}}, {&Answer{}, &Answer{}}, {&Errand{}, &Errand{}}, {&ErrandAnswer{}, &ErrandAnswer{}}} {
			one, again := two[0], two[1]
			if one.Read(b) != nil {
				continue
			}
			if err := again.Read(one.Append(nil)); err != nil || !bytes.Equal(again.Append(nil), one.Append(nil)) {
				t.Errorf("%x is read as %+v, and that as %+v, %v", b, one, again, err)
			}
		}
	})
}
