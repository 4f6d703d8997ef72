package gone

import "golang.org/x/sys/unix"

// tcpEstablished is the state of a TCP connection that nobody has closed.
const tcpEstablished = 1

// hasLeft is true when the other side has closed the connection, also while bytes of it
// wait to be read. false is also the answer for what is no TCP connection.
func hasLeft(fd uintptr) bool {
	info, err := unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP, unix.TCP_INFO)
	return err == nil && info.State != tcpEstablished
}
