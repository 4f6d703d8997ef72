package peers

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
)

// socket is a WebSocket client that reads frames and does not look into them: it
// shares the machine with the servers that it measures, and is the same for all.
type socket struct {
	conn net.Conn
	r    *bufio.Reader
	long []byte // a frame that the reader's buffer does not hold
	out  []byte
}

const (
	textFrame = 0x1
	endFrame  = 0x8
	pingFrame = 0x9
	pongFrame = 0xA
	final     = 0x80
)

func dial(addr, path, protocol string) (*socket, error) {
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	s := &socket{conn: conn, r: bufio.NewReaderSize(conn, 16<<10)}
	hello := "GET " + path + " HTTP/1.1\r\nHost: " + addr + "\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n" +
		"Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
	if protocol != "" {
		hello += "Sec-WebSocket-Protocol: " + protocol + "\r\n"
	}
	if _, err = conn.Write([]byte(hello + "\r\n")); err == nil {
		var response *http.Response
		if response, err = http.ReadResponse(s.r, nil); err == nil && response.StatusCode != http.StatusSwitchingProtocols {
			err = fmt.Errorf("connect: %s", response.Status)
		}
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return s, nil
}

func (s *socket) close() { s.conn.Close() }

// frame appends a frame to b. Its mask is zero, which leaves the bytes as they are.
func frame(b []byte, kind byte, text string) []byte {
	b = append(b, final|kind)
	switch n := len(text); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	default: // none here is over 64 KiB
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	}
	return append(append(b, 0, 0, 0, 0), text...)
}

// write sends text frames in one write.
func (s *socket) write(texts ...string) error {
	s.out = s.out[:0]
	for _, text := range texts {
		s.out = frame(s.out, textFrame, text)
	}
	_, err := s.conn.Write(s.out)
	return err
}

// read waits for the next text frame, which is valid until the next read. It answers
// pings: those of WebSockets, and the empty object, which is centrifuge's.
func (s *socket) read() ([]byte, error) {
	for {
		kind, payload, err := s.next()
		switch {
		case err != nil:
			return nil, err
		case kind == endFrame:
			return nil, fmt.Errorf("the server closed the socket: %q", payload)
		case kind == pingFrame:
			_, err = s.conn.Write(frame(nil, pongFrame, string(payload)))
		case kind == textFrame && string(payload) == "{}":
			_, err = s.conn.Write(frame(nil, textFrame, "{}"))
		case kind == textFrame:
			return payload, nil
		}
		if err != nil {
			return nil, err
		}
	}
}

func (s *socket) next() (kind byte, payload []byte, err error) {
	head, err := s.r.Peek(2)
	if err != nil {
		return 0, nil, err
	}
	kind, size, skip := head[0], int(head[1]), 2
	if kind&final == 0 {
		return 0, nil, errors.New("a frame in several parts")
	}
	switch size {
	case 126:
		if head, err = s.r.Peek(4); err != nil {
			return 0, nil, err
		}
		size, skip = int(binary.BigEndian.Uint16(head[2:])), 4
	case 127:
		if head, err = s.r.Peek(10); err != nil {
			return 0, nil, err
		}
		size, skip = int(binary.BigEndian.Uint64(head[2:])), 10
	}
	if _, err = s.r.Discard(skip); err != nil {
		return 0, nil, err
	}
	if size <= s.r.Size() {
		if payload, err = s.r.Peek(size); err != nil {
			return 0, nil, err
		}
		_, err = s.r.Discard(size) // the bytes stay where they are until the next read
		return kind &^ final, payload, err
	}
	if cap(s.long) < size {
		s.long = make([]byte, size)
	}
	payload = s.long[:size]
	_, err = io.ReadFull(s.r, payload)
	return kind &^ final, payload, err
}

// has reads until a frame holds text, and returns that frame.
func (s *socket) has(text string) ([]byte, error) {
	if err := s.conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		return nil, err
	}
	defer s.conn.SetReadDeadline(time.Time{}) //nolint:errcheck // a socket without it fails at the next read
	for {
		got, err := s.read()
		if err != nil {
			return nil, err
		}
		if bytes.Contains(got, []byte(text)) {
			return got, nil
		}
		if bytes.Contains(got, []byte(`"error"`)) {
			return nil, fmt.Errorf("waiting for %s: %s", strings.TrimSpace(text), got)
		}
	}
}
