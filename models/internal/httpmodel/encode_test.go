package httpmodel

import (
	"math"
	"strings"
	"testing"
)

// Extra members replace others where they stand, or follow in order.
func TestEncode(t *testing.T) {
	type object struct {
		Model string    `json:"model"`
		User  string    `json:"user"`
		Limit []float64 `json:"limit,omitempty"`
	}
	value := object{Model: "<m> & n", User: "s1"}
	for _, c := range []struct {
		extra map[string]any
		want  string
	}{
		{nil, `{"model":"<m> & n","user":"s1"}`},
		{map[string]any{}, `{"model":"<m> & n","user":"s1"}`},
		{map[string]any{"z": 1, "a.b": "<>", "c": nil}, `{"model":"<m> & n","user":"s1","a.b":"<>","c":null,"z":1}`},
		{map[string]any{"model": map[string]any{"b": 1, "a": 2}, "z": true}, `{"model":{"a":2,"b":1},"user":"s1","z":true}`},
		{map[string]any{"user": nil}, `{"model":"<m> & n","user":null}`},
	} {
		if got, err := Encode(value, c.extra); err != nil || string(got) != c.want {
			t.Errorf("%v: %s, %v, not %s", c.extra, got, err, c.want)
		}
	}
	if _, err := Encode(value, map[string]any{"top_p": math.NaN()}); err == nil || !strings.Contains(err.Error(), "top_p") {
		t.Errorf("a value that is not JSON: %v", err)
	}
	if _, err := Encode(object{Limit: []float64{math.Inf(1)}}, nil); err == nil {
		t.Error("infinity is encoded")
	}
}
