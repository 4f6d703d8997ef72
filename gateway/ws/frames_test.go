package ws

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"testing"
	"time"

	"parley/gateway/protocol"
)

// pieces is a socket that gives so many bytes at a time, and then ends.
type pieces struct {
	net.Conn
	rest []byte
	size int
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.rest) == 0 {
		return 0, io.EOF
	}
	n := copy(b, p.rest[:min(p.size, len(p.rest))])
	p.rest = p.rest[n:]
	return n, nil
}

func (*pieces) SetReadDeadline(time.Time) error { return nil }

// masked is a client's frame.
func masked(op byte, final bool, payload []byte) []byte {
	first := op
	if final {
		first |= 0x80
	}
	b := []byte{first}
	switch n := len(payload); {
	case n < 126:
		b = append(b, 0x80|byte(n))
	case n < 1<<16:
		b = binary.BigEndian.AppendUint16(append(b, 0x80|126), uint16(n))
	default:
		b = binary.BigEndian.AppendUint64(append(b, 0x80|127), uint64(n))
	}
	key := []byte{0x37, 0xfa, 0x21, 0x3d}
	b = append(b, key...)
	for i, c := range payload {
		b = append(b, c^key[i%4])
	}
	return b
}

// Frames are the same however they arrive, in part before the handshake was over, and
// whichever way they are read; behind them nothing is kept.
func TestFramesInPieces(t *testing.T) {
	var sent []byte
	var want [][]byte
	for i, n := range []int{0, 1, 7, 8, 9, 125, 126, 127, 4086, 4096, 65535, 65536, 200_000, 0, 3} {
		payload := bytes.Repeat([]byte{byte('a' + i), 0, 0xff}, n/3+1)[:n]
		sent = append(sent, masked(protocol.OpText, true, payload)...)
		want = append(want, payload)
	}
	for _, size := range []int{1, 2, 13, 4095, 4096, 5000, 1 << 20} {
		for _, early := range []int{0, 1, 100, 4096, 10_000} {
			f := newFrames(&pieces{rest: sent[early:], size: size}, nil, bytes.Clone(sent[:early]))
			for i, w := range want {
				h, err := f.next()
				if err != nil {
					t.Fatal(err)
				}
				if h.length != int64(len(w)) || h.op != protocol.OpText || !h.final {
					t.Fatalf("frame %d: %+v", i, h)
				}
				var got []byte
				if i%4 == 3 {
					if err := f.skip(); err != nil {
						t.Fatal(err)
					}
					continue
				}
				whole, ok := f.whole()
				if got = whole; !ok {
					if got, err = f.payload([]byte("x")); err != nil {
						t.Fatal(err)
					}
					got = got[1:]
				}
				if !bytes.Equal(got, w) {
					t.Fatalf("frame %d, %d bytes at a time, %d early: another payload", i, size, early)
				}
			}
			if _, err := f.next(); !errors.Is(err, io.EOF) {
				t.Errorf("at the end: %v", err)
			}
		}
	}
}

// A silent connection holds no buffer.
func TestSilenceHoldsNoBuffer(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	client, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	server, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	f := newFrames(server, rawSocket(server), nil)
	if f.raw == nil {
		t.Skip("this system cannot wait without a buffer")
	}
	if _, err := client.Write(masked(protocol.OpText, true, []byte("{}"))); err != nil {
		t.Fatal(err)
	}
	if _, err := f.next(); err != nil {
		t.Fatal(err)
	}
	if got, _ := f.whole(); string(got) != "{}" {
		t.Errorf("%q", got)
	}
	_ = server.SetReadDeadline(time.Now().Add(time.Millisecond))
	if _, err := f.next(); err == nil || f.buf != nil {
		t.Errorf("%v, and the buffer is %v", err, f.buf)
	}
}

// FuzzFrames: whatever a client sends, the reader ends, and holds no more than it was sent.
func FuzzFrames(f *testing.F) {
	f.Add(masked(protocol.OpText, true, []byte(`{"type":"ping"}`)), 3)
	f.Add(append(masked(protocol.OpText, false, []byte("a")), masked(0, true, make([]byte, 300))...), 100)
	f.Add(masked(protocol.OpClose, true, []byte("\x03\xe8bye")), 1)
	f.Add([]byte("\x81\xff\x80\x00\x00\x00\x00\x00\x00\x00abcd"), 7)
	f.Fuzz(func(t *testing.T, sent []byte, size int) {
		in := newFrames(&pieces{rest: bytes.Clone(sent), size: 1 + size&0xfff}, nil, nil)
		for total := 0; ; {
			h, err := in.next()
			if err != nil {
				return
			}
			if h.op >= protocol.OpClose && h.length > 125 {
				t.Fatalf("a control frame of %d bytes", h.length)
			}
			payload, err := in.payload(nil)
			if len(payload) > len(sent) || cap(payload) > 512+2*len(sent) {
				t.Fatalf("%d bytes of %d, in room for %d", len(payload), len(sent), cap(payload))
			}
			if err != nil {
				return
			}
			if h.op == protocol.OpClose {
				if code, err := closeCode(payload); err == nil && (code < 1000 || code > 4999) {
					t.Fatalf("a close with %d", code)
				}
			}
			if total += len(payload); total > len(sent) {
				t.Fatalf("%d bytes of %d", total, len(sent))
			}
		}
	})
}
