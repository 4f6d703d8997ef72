package pgtest

import "syscall"

// dieWithParent has the server stop at once when the process that starts it ends, however.
func dieWithParent(attr *syscall.SysProcAttr) { attr.Pdeathsig = syscall.SIGQUIT }
