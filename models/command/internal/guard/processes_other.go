//go:build unix && !linux

package guard

import (
	"os"
	"syscall"
)

// self is this program.
var self, _ = os.Executable()

// reaps: orphans go to process 1.
const reaps = false

func concealServer() {} // there is no /proc

func adoptOrphans() error { return nil }

func keepCapabilities() {}

// apart makes a guard the first process of a session of its own: what is typed at a
// terminal is not for it.
func apart() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setsid: true} }

// withGuard makes a process the leader of a group.
func withGuard() *syscall.SysProcAttr { return &syscall.SysProcAttr{Setpgid: true} }

// groupLives reports whether a process of the group is left.
func groupLives(group int) bool { return syscall.Kill(-group, 0) == nil }

// members returns the group as one: who has left it is not known.
func members(group int) []member {
	if !groupLives(group) {
		return nil
	}
	return []member{{pid: -group, group: group}}
}

// carriers: environments cannot be read here.
func carriers(string) []int { return nil }
