package gateway_test

import (
	"encoding/binary"
	"runtime"
	"strings"
	"testing"
	"time"

	"parley/gateway"
	"parley/gateway/gatewaytest"
)

// Pings whose pongs nobody reads take no more room than any other answer, before
// hello as well.
func TestUnreadPingsTakeNoRoom(t *testing.T) {
	for _, hello := range []bool{false, true} {
		r := start(t, limits(func(l *gateway.Limits) { l.ControlFramesPerSecond = 0 }), times(func(x *gateway.Times) { x.Hello, x.Write, x.ReadDeadline = time.Hour, time.Hour, time.Hour }))
		s := dialRaw(t, r.addr)
		_ = s.conn.SetWriteDeadline(time.Now().Add(patience))
		if hello {
			s.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
		}
		before := liveHeap()
		ping := "\x89\xfd\x00\x00\x00\x00" + strings.Repeat("x", 125)
		for range 300 {
			if _, err := s.conn.Write([]byte(strings.Repeat(ping, 1000))); err != nil {
				t.Fatal(err)
			}
		}
		if grown := liveHeap() - before; grown > 32<<20 {
			t.Errorf("hello said: %v: 300,000 unread pings hold %d MB", hello, grown>>20)
		}
	}
}

// As many pings and pongs as a connection may send at once are taken; one more ends it,
// before hello as well. PROTOCOL.md, rule 6.5.
func TestControlFrameLimit(t *testing.T) {
	for _, c := range []struct {
		name  string
		hello bool
		op    byte
		sent  int
		code  int
	}{
		{"pings before hello", false, 9, 5, 1000},
		{"a ping too many before hello", false, 9, 6, 4008},
		{"pongs", true, 10, 5, 1000},
		{"a pong too many", true, 10, 6, 4008},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := start(t, limits(func(l *gateway.Limits) { l.ControlFramesPerSecond, l.ControlFramesBurst = 0.001, 5 }))
			s := dialRaw(t, r.addr)
			if c.hello {
				s.send(1, gatewaytest.Command("hello", "1", "", obj{"proto": 1}))
			}
			for range c.sent {
				s.send(c.op, "x")
			}
			s.send(8, "\x03\xe8")
			op, payload := s.read()
			for ; op != 8; op, payload = s.read() {
			}
			if code := int(binary.BigEndian.Uint16(payload)); code != c.code {
				t.Errorf("closed with %d", code)
			}
			refused := r.metric("parley_gateway_refused_total", "limit", "control_frames_per_second")
			if want := float64(c.sent - 5); refused != want {
				t.Errorf("%v refusals were counted, want %v", refused, want)
			}
		})
	}
}

// liveHeap is what is left after a collection.
func liveHeap() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
