//go:build unix

package command

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

const (
	stopSignal = syscall.SIGTERM
	killSignal = syscall.SIGKILL
)

// ownGroup makes a process the leader of a new process group, whose id is the
// process's.
func ownGroup() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// signalGroup signals every process of a group. One that has gone already is
// no error. The id can belong to no other group while anything of the group is
// left, and kernels do not give an id out again at once.
func signalGroup(group int, s syscall.Signal) { _ = syscall.Kill(-group, s) }

// groupLives reports whether a process of the group runs. The leader's own end
// must have been waited for.
func groupLives(group int) bool {
	// Orphans are ours to bury where the server is the first process of a container.
	for {
		pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		if pid <= 0 && !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	err := syscall.Kill(-group, 0)
	if errors.Is(err, syscall.ESRCH) {
		return false
	}
	// Where process 1 does not reap, dead processes stay in the group without end.
	stats, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is a good one
	if len(stats) == 0 {
		return err == nil // a system without /proc
	}
	for _, name := range stats {
		stat, err := os.ReadFile(name)
		if err != nil {
			continue // it has gone meanwhile
		}
		// pid (name) state parent group …; the name may hold anything.
		fields := strings.Fields(string(stat[strings.LastIndexByte(string(stat), ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return true
		}
	}
	return false
}

// lacksResources reports whether a process could not be started for want of
// something that may be there again in a moment.
func lacksResources(err error) bool {
	for _, e := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EMFILE, syscall.ENFILE, syscall.ETXTBSY} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// tooLong reports whether the arguments were longer than the system takes.
func tooLong(err error) bool { return errors.Is(err, syscall.E2BIG) }
