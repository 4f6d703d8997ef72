package acp_test

import (
	"strings"
	"testing"
)

// BenchmarkWay is how long a piece of text is on its way from the engine to a client, over a real
// connection on loopback: the median (p50-µs), to be compared with those of BenchmarkWays in gateway.
func BenchmarkWay(b *testing.B) {
	r := begin(b)
	key := r.sessions.Open("S", "local")
	c := r.editor("", `{}`)
	c.prompt("p", "S", "go", "")
	c.until(`"status":"RUNNING"`)
	r.Way(b, key, func(word string) {
		for !strings.Contains(c.read(), word) {
		}
	})
}
