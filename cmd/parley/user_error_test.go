package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"

	"parley/persistence/pebble"
)

func TestExplain(t *testing.T) {
	addr := &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 80}
	listen := func(errno syscall.Errno) error {
		return fmt.Errorf("listen on x: %w", &net.OpError{Op: "listen", Addr: addr, Err: os.NewSyscallError("bind", errno)})
	}
	for _, c := range []struct {
		name string
		err  error
		says string
	}{
		{"port in use", listen(syscall.EADDRINUSE), "127.0.0.1:80 is in use by another process"},
		{"port below 1024", listen(syscall.EACCES), "may not listen on 127.0.0.1:80"},
		{"no such interface", listen(syscall.EADDRNOTAVAIL), "no interface of this machine"},
		{"the store's own sentence", fmt.Errorf("x: %w", &pebble.OpenError{Sentence: "d was written by a newer parley", Err: errors.New("cause")}), "d was written by a newer parley"},
		{"permission", &fs.PathError{Op: "open", Path: "rules.toml", Err: syscall.EACCES}, "this user may not open rules.toml"},
		{"anything else", errors.New("strange"), "strange"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := new(Main).explain(c.err).Error(); !strings.Contains(got, c.says) || strings.Contains(got, "\n") {
				t.Errorf("it says %q, want %q", got, c.says)
			}
		})
	}
}
