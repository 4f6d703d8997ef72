package command

import "syscall"

// withServer is ownGroup for a process that the kernel ends when the thread that has
// started it ends. This is at once; the guard, which ends the whole group, is told
// of the group a moment after its start.
func withServer() *syscall.SysProcAttr {
	a := ownGroup()
	a.Pdeathsig = killSignal
	return a
}
