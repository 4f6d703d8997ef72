package main

import (
	"fmt"
	"net"
	"testing"
)

// A client that takes every file that the process may have open neither ends it nor
// locks the others out: those who are connected go on, and what is refused is counted.
func TestFloodOfConnections(t *testing.T) {
	l := spawnWithFiles(t, 200, t.TempDir())
	u := l.user()
	s := u.create(nil)
	for range 400 {
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			break // the server is gone, as the message below will say
		}
		t.Cleanup(func() { _ = conn.Close() })
	}
	u.follow(s, 0)
	for i := range 3 {
		u.send(s, fmt.Sprint("m", i), "/say still here")
		u.until(done)
	}
	l.stop()
}

// The same without room for anything: nothing can be accepted until others have gone,
// and then it is.
func TestNoFilesLeft(t *testing.T) {
	l := spawnWithFiles(t, 200, t.TempDir(), "--set", "limits.connections=100000")
	u := l.user()
	s := u.create(nil)
	var flood []net.Conn
	for range 400 { // the system takes those that the server cannot
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			break
		}
		flood = append(flood, conn)
	}
	t.Cleanup(func() {
		for _, conn := range flood {
			_ = conn.Close()
		}
	})
	u.follow(s, 0)
	u.send(s, "a", "/say here")
	u.until(done)
	for _, conn := range flood {
		_ = conn.Close()
	}
	if again := l.user(); again.hello["user"] != "local" {
		t.Errorf("after the flood: %v", again.hello)
	}
	l.stop()
}
