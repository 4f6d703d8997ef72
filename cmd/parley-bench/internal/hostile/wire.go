package hostile

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// Kinds of WebSocket frames.
const (
	textFrame = 0x1
	pingFrame = 0x9
)

// dialFrom connects from an address of the loopback; "" is any. The receive buffer is
// small, so that what is not read soon fills the server's side.
func dialFrom(source, addr string) (*net.TCPConn, error) {
	d := net.Dialer{Timeout: patience}
	if source != "" {
		d.LocalAddr = &net.TCPAddr{IP: net.ParseIP(source)}
	}
	conn, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	tcp, ok := conn.(*net.TCPConn)
	if !ok {
		conn.Close()
		return nil, errors.New("not a TCP connection")
	}
	return tcp, tcp.SetReadBuffer(4096)
}

func newReader(r io.Reader) *bufio.Reader { return bufio.NewReaderSize(r, 512) }

// get is a request without more headers than it needs.
func get(path, addr string) string { return "GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\n\r\n" }

// post is a request with a JSON body.
func post(path, addr, body string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", path, addr, len(body), body)
}

// upgrade makes a WebSocket of a connection.
func upgrade(c net.Conn, addr string) error {
	_, err := io.WriteString(c, "GET /ws HTTP/1.1\r\nHost: "+addr+"\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"+
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: parley.v1\r\n\r\n")
	if err != nil {
		return err
	}
	answer, err := http.ReadResponse(bufio.NewReaderSize(oneByOne{c}, 16), nil)
	if err == nil && answer.StatusCode != http.StatusSwitchingProtocols {
		err = errors.New(answer.Status)
	}
	return err
}

// oneByOne keeps a buffered reader from taking more than it was asked for.
type oneByOne struct{ r io.Reader }

func (o oneByOne) Read(p []byte) (int, error) { return o.r.Read(p[:1]) }

// hello says hello and waits for the answer.
func hello(c net.Conn) error {
	return ask(c, `{"type":"hello","id":"1","data":{"proto":1,"caps":["deltas"]}}`, `"re":"1"`)
}

// ask sends a command and reads until its answer has come.
func ask(c net.Conn, command, answer string) error {
	if _, err := c.Write(frame(textFrame, command)); err != nil {
		return err
	}
	_, err := until(c, answer)
	return err
}

// until reads until some text has come, and returns the last of what came before and with it.
func until(c net.Conn, text string) ([]byte, error) {
	if err := c.SetReadDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	var got []byte
	chunk := make([]byte, 4096)
	for {
		n, err := c.Read(chunk)
		got = append(got, chunk[:n]...)
		if bytes.Contains(got, []byte(text)) {
			return got, nil
		}
		if err != nil {
			return nil, fmt.Errorf("%w, waiting for %s", err, text)
		}
		if len(got) > 1<<20 {
			got = got[len(got)-4096:]
		}
	}
}

// frame is a frame of a client. Its mask is zero, which leaves the bytes as they are.
func frame(kind byte, text string) []byte {
	b := []byte{0x80 | kind}
	switch n := len(text); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	return append(append(b, 0, 0, 0, 0), text...)
}
