//go:build unix && !linux

package pgtest

import "syscall"

// dieWithParent does nothing here: a server of a test that was killed has to be ended by hand.
func dieWithParent(*syscall.SysProcAttr) {}
