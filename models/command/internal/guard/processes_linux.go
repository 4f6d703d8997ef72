package guard

import (
	"bytes"
	"os"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// self is this program, also when its file was replaced since.
var self = "/proc/self/exe"

// reaps: what the guard starts, and what that starts, never leaves it.
const reaps = true

// concealServer keeps the server's environment and memory from what it starts: without it
// any process of the same user may read both below /proc. It says so again each time:
// a change of user undoes it.
func concealServer() { _ = unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0) } // no kernel refuses it

// adoptOrphans makes the orphans among the processes below this one its children.
func adoptOrphans() error { return unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) }

// keepCapabilities lets nothing that this thread starts inherit the capabilities that
// the server was given: CAP_KILL is for the guard alone.
func keepCapabilities() {
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0) // a kernel that knows none has none
}

// apart makes a guard the first process of a session of its own: what is typed at a
// terminal is not for it. When the server ends, the kernel lets it go on if it was
// stopped.
func apart() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGCONT}
}

// withGuard makes a process the leader of a group, and lets the kernel end it with the
// thread that has started it.
func withGuard() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// groupLives: a process without children has nothing below it.
func groupLives(int) bool { return false }

// members returns the processes below this one, those of the group among them.
func members(int) []member {
	children := map[int][]member{}
	for _, pid := range processes() {
		stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
		if err != nil {
			continue // it has gone meanwhile
		}
		// pid (name) state parent group …; the name may hold anything.
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		if len(fields) < 3 || fields[0] == "Z" || fields[0] == "X" {
			continue
		}
		parent, _ := strconv.Atoi(fields[1])
		group, _ := strconv.Atoi(fields[2])
		children[parent] = append(children[parent], member{pid, group})
	}
	list := children[os.Getpid()]
	for i := 0; i < len(list); i++ {
		list = append(list, children[list[i].pid]...)
	}
	return list
}

// carriers returns the processes that have a variable in their environment. It sees
// only those of this user.
func carriers(variable string) (list []int) {
	for _, pid := range processes() {
		env, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/environ")
		if err == nil && bytes.Contains(env, []byte(variable)) {
			list = append(list, pid)
		}
	}
	return list
}

// processes returns the numbers of all processes.
func processes() (list []int) {
	dir, err := os.Open("/proc")
	if err != nil {
		return nil
	}
	defer dir.Close() //nolint:errcheck // it was only read
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		if pid, err := strconv.Atoi(name); err == nil {
			list = append(list, pid)
		}
	}
	return list
}
