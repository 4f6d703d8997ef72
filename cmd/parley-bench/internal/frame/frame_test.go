package frame

import "testing"

func TestScan(t *testing.T) {
	for _, c := range []struct {
		in             string
		typ, re, data  string
		seq            uint64
		answer, broken bool
	}{
		{in: `{"type":"ok","re":"12","data":{"a":[1,{"b":"}\""}]}}`, typ: "ok", re: "12", data: `{"a":[1,{"b":"}\""}]}`, answer: true},
		{in: `{"type":"response","session":"s","seq":17,"ts":"x","data":{}}`, typ: "response", seq: 17, data: `{}`},
		{in: `{"type":"error","re":null,"error":{"code":"x"}}`, typ: "error", answer: true},
		{in: `{"type":"hb","ts":"x"}`, typ: "hb"},
		{in: `{"seq":5,"type":"x"}`, typ: "x", seq: 5},
		{in: `{"a":1}`, broken: true},
		{in: `{"type":"x"`, typ: "x"},
		{in: `{"type":"x`, broken: true},
		{in: `[]`, broken: true},
		{in: ``, broken: true},
	} {
		var f Frame
		err := f.Scan([]byte(c.in))
		if (err != nil) != c.broken {
			t.Errorf("%s: error %v", c.in, err)
			continue
		}
		if c.broken {
			continue
		}
		if string(f.Type) != c.typ || string(f.Re) != c.re || (f.Re != nil) != c.answer || f.Seq != c.seq || string(f.Data) != c.data {
			t.Errorf("%s: type %q re %q seq %d data %s", c.in, f.Type, f.Re, f.Seq, f.Data)
		}
	}
}

func FuzzScan(f *testing.F) {
	f.Add([]byte(`{"type":"ok","re":"12","data":{"a":[1,{"b":"}\""}]}}`))
	f.Fuzz(func(_ *testing.T, b []byte) {
		var fr Frame
		_ = fr.Scan(b) // must come back, without a panic
	})
}
