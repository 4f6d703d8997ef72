package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"syscall"

	"parley/cmd/parley/internal/store"
)

// explain turns the failures that everybody meets once into a sentence that
// says what to do. Anything else stays as it is.
func (m *Main) explain(err error) error {
	if sentence := store.OpenSentence(err); sentence != "" {
		return errors.New(sentence)
	}
	if sentence := store.SharedSentence(err); sentence != "" {
		return errors.New(sentence)
	}
	var op *net.OpError
	switch {
	case errors.As(err, &op) && errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("the address %s is in use by another process; choose another one with --listen, or --listen 127.0.0.1:0 for any free port", op.Addr)
	case errors.As(err, &op) && errors.Is(err, syscall.EACCES):
		return fmt.Errorf("this user may not listen on %s; ports below 1024 need a privilege", op.Addr)
	case errors.As(err, &op) && errors.Is(err, syscall.EADDRNOTAVAIL):
		return fmt.Errorf("no interface of this machine has the address %s", op.Addr)
	}
	var path *fs.PathError
	if errors.As(err, &path) && errors.Is(err, fs.ErrPermission) {
		return fmt.Errorf("this user may not %s %s", path.Op, path.Path)
	}
	return err
}
