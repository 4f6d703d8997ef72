package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"net"
	"sync/atomic"
	"testing"

	parley "parley/clients/go"
)

// behindUpload passes connections on to a server, and does something once, when so many
// bytes have gone to it.
func behindUpload(t *testing.T, to string, most int64, then func()) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	var sent atomic.Int64
	go func() { // ends with the test
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", to)
			if err != nil {
				client.Close()
				continue
			}
			go func() {
				_, _ = io.Copy(client, server)
				client.Close()
			}()
			go func() {
				defer server.Close()
				buffer := make([]byte, 32<<10)
				for {
					n, err := client.Read(buffer)
					if now := sent.Add(int64(n)); now >= most && now-int64(n) < most {
						then()
					}
					if err != nil {
						return
					}
					if _, err := server.Write(buffer[:n]); err != nil {
						client.Close()
						return
					}
				}
			}()
		}
	}()
	return listener.Addr().String()
}

// largeText is a file that does not fit into the buffers of a connection.
func largeText() []byte { return bytes.Repeat([]byte("0123456789abcde\n"), 8<<16) }

// kill -9 in the middle of an upload: it is made again, the message names it, and its
// bytes come back as they were (N-01).
func TestGoClientUploadsThroughAKill(t *testing.T) {
	data := t.TempDir()
	l := spawn(t, data)
	killed := false
	addr := behindUpload(t, l.addr, 4<<20, func() {
		killed = true
		l.kill()
		l = spawn(t, data, "--listen", l.addr)
	})
	c := goClient(t, addr, parley.Options{})
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	session, err := c.Create(ctx, parley.NewSession{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := c.Upload(ctx, session, "numbers.txt", "text/plain", largeText())
	if err != nil || !killed {
		t.Fatalf("%v, killed: %v", err, killed)
	}
	if want := fmt.Sprintf("%x", sha256.Sum256(largeText())); file.Hash != want || file.Name != "numbers.txt" || file.Type != "text/plain" || file.Size != int64(len(largeText())) {
		t.Errorf("%+v, want %s", file, want)
	}
	following := c.Follow(session, parley.Start())
	if _, err := c.Send(ctx, parley.Message{Session: session, Attachments: []parley.Attachment{file}}); err != nil {
		t.Fatal(err)
	}
	for e, err := range following.All(ctx) {
		if err != nil {
			t.Fatal(err)
		}
		if b, is := e.Body.(*parley.MessageAccepted); is {
			if len(b.Attachments) != 1 || b.Attachments[0] != file {
				t.Errorf("%+v", b.Attachments)
			}
			break
		}
	}
	got, err := c.Blob(ctx, session, file.Hash)
	if err != nil || !bytes.Equal(got, largeText()) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for _, wrong := range []struct {
		kind string
		body []byte
		code parley.Code
	}{
		{"image/png", []byte("no picture"), parley.UnsupportedMediaType}, {"text/plain", nil, parley.BadRequest},
		{"text/plain", make([]byte, 11<<20), parley.TooLarge},
	} {
		if _, err := c.Upload(ctx, session, "x", wrong.kind, wrong.body); parley.CodeOf(err) != wrong.code {
			t.Errorf("%s of %d bytes: %v", wrong.kind, len(wrong.body), err)
		}
	}
	if _, err := c.Blob(ctx, session, fmt.Sprintf("%064d", 0)); parley.CodeOf(err) != parley.NotFound {
		t.Errorf("a file that is not there: %v", err)
	}
	l.stop()
}
