package gone

import (
	"net"
	"syscall"
	"time"
)

// Nothing tells the HTTP library that a client has gone while its request is being
// answered: it reads only between requests. So what may last (a stream, ?wait) looks
// at the connection by itself, and reads nothing of it, for another request may follow.

// socketOf is the socket below a connection; nil if there is none that can be asked.
func socketOf(conn net.Conn) syscall.RawConn {
	for conn != nil {
		if socket, ok := conn.(syscall.Conn); ok {
			raw, err := socket.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		}
		outer, ok := conn.(interface{ NetConn() net.Conn }) // TLS, and the listener's own
		if !ok {
			return nil
		}
		conn = outer.NetConn()
	}
	return nil
}

// Watch calls gone, on a goroutine of its own, when the client has closed its side
// of the connection. stop ends the watch and waits for its goroutine; until then nobody
// else may read from the connection.
func Watch(conn net.Conn, gone func()) (stop func()) {
	socket := socketOf(conn)
	if socket == nil || conn.SetReadDeadline(time.Time{}) != nil {
		return func() {}
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		left := false
		// Called at once and whenever something arrives, be it only the end.
		err := socket.Read(func(fd uintptr) bool {
			left = hasLeft(fd)
			return left
		})
		if err == nil && left {
			gone()
		}
	}()
	return func() {
		_ = conn.SetReadDeadline(time.Now())
		<-ended
		_ = conn.SetReadDeadline(time.Time{})
	}
}
