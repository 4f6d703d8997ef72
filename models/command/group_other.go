//go:build unix && !linux

package command

import "syscall"

// withServer is ownGroup: the guard alone ends the group with the server.
func withServer() *syscall.SysProcAttr { return ownGroup() }
