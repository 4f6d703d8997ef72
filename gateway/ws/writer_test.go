package ws

import (
	"net"
	"testing"
	"time"

	"parley/gateway/fanout"
	"parley/gateway/protocol"
	"parley/gateway/service"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
)

// tellingSocket takes nothing at once, and tells what it is given to wait with.
type tellingSocket struct {
	net.Conn
	given chan []byte
}

func (s *tellingSocket) Write(b []byte) (int, error)    { s.given <- b; return len(b), nil }
func (*tellingSocket) SetWriteDeadline(time.Time) error { return nil }
func (*tellingSocket) SetReadDeadline(time.Time) error  { return nil }

// A frame that a thousand clients share stays one when all of them do not read.
func TestWaitingFrameIsNotCopied(t *testing.T) {
	m := metrics.NewGateway(prometheus.NewRegistry())
	s, socket := newSenders(), &tellingSocket{given: make(chan []byte)}
	c := &conn{net: socket, writer: make(chan struct{})}
	c.handler = &handler{
		Services: &service.Services{Metrics: m, Now: time.Now},
		out:      fanout.NewHub(m).NewNotifyingQueue(nil, protocol.DefaultLimits(), func() { s.add(c) }),
	}
	frame := protocol.CloseFrame(protocol.CloseRestart, "bye")
	c.out.Finish(frame)
	if given := <-socket.given; &given[0] != &frame[0] {
		t.Error("the frame was copied before it was written")
	}
	<-c.writer
}
