package speech

import (
	"encoding/hex"
	"reflect"
	"testing"

	"parley/actors/cluster/internal/fields"
)

// Every version reads these bytes in the same way.
func TestErrand(t *testing.T) {
	for _, c := range []struct {
		golden string
		said   interface {
			Append([]byte) []byte
			Read([]byte) error
		}
		empty interface{ Read([]byte) error }
	}{
		{"080410ac021a04706f6c6c2204626f6479", &Errand{What: ErrandBack, ID: 300, Name: "poll", Body: []byte("body")}, &Errand{}},
		{"080110011a0170", &Errand{What: ErrandAsk, ID: 1, Name: "p"}, &Errand{}},
		{"080110011a04626f6479", &ErrandAnswer{Refused: true, Lost: true, Body: []byte("body")}, &ErrandAnswer{}},
	} {
		got := c.said.Append(nil)
		if hex.EncodeToString(got) != c.golden {
			t.Errorf("%+v is encoded %x", c.said, got)
		}
		if err := c.empty.Read(fields.AppendText(got, 99, "of a newer version")); err != nil || !reflect.DeepEqual(c.empty, c.said) {
			t.Errorf("read %+v, %v", c.empty, err)
		}
		if c.empty.Read([]byte{0x22, 0x7f}) == nil {
			t.Error("what is cut off was read")
		}
	}
}
