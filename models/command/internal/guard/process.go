package guard

import (
	"encoding/json"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"
)

// processName is the first argument, in place of a program's name, of a process that is a
// guard.
const processName = "guard-of-a-command-line-agent"

// A process that was started as a guard is nothing else, in whatever program this
// package is: the server, a test. So it must be known before any main begins.
func init() {
	if len(os.Args) == 1 && os.Args[0] == processName {
		runtime.LockOSThread() // the command ends with the thread that has started it
		serve()
		syscall.Exit(0) // nothing else of this program is to run, also nothing at its end
	}
}

// The command's files among the guard's own.
const firstFile = 3

// serve is the whole life of a guard.
func serve() {
	// The guard ends when its run is over, whatever it is told. Signals that are
	// ignored would be so for the command as well; those that are caught are not.
	signal.Notify(make(chan os.Signal, 1))
	in, out := json.NewDecoder(os.Stdin), json.NewEncoder(os.Stdout)
	say := func(is reportKind, n int) { _ = out.Encode(report{is, n}) } // nobody hears it when the server has ended
	var what start
	if in.Decode(&what) != nil {
		return // the server has ended, and nothing was started
	}
	pid, err := launch(what)
	if err != nil {
		number, _ := err.(syscall.Errno) //nolint:errorlint // the system's own, as the kernel gives it
		say(reportFailed, int(number))
		return
	}
	say(reportStarted, pid)
	orders, ended, gone := make(chan string), make(chan syscall.WaitStatus, 1), make(chan struct{})
	go readOrders(in, orders)
	go bury(pid, ended, gone)
	r := run{group: pid, strays: map[int]bool{}, say: say}
	var again <-chan time.Time // while everything is to be killed
	for {
		select {
		case status := <-ended:
			say(reportEnded, int(status))
		case <-gone:
			select {
			case status := <-ended:
				say(reportEnded, int(status))
			default:
			}
			say(reportGone, len(r.strays))
			return
		case order, more := <-orders:
			if more && order == orderStop {
				r.signal(syscall.SIGTERM)
				continue
			}
			if !more {
				orders = nil
			}
			r.signal(syscall.SIGKILL)
			again = time.After(poll)
		case <-again: // one may have started another while we looked
			r.signal(syscall.SIGKILL)
			again = time.After(poll)
		}
	}
}

// launch starts the command in a process group of its own. It returns the system's
// error.
func launch(what start) (pid int, err error) {
	if err := adoptOrphans(); err != nil {
		return 0, err
	}
	keepCapabilities()
	var argv, env []string
	for _, arg := range what.Args {
		argv = append(argv, string(arg))
	}
	for _, kv := range what.Env {
		env = append(env, string(kv))
	}
	files := []uintptr{firstFile, firstFile + 1, firstFile + 2}
	for _, f := range files {
		syscall.CloseOnExec(int(f))
		defer syscall.Close(int(f)) //nolint:errcheck // the command has its own; nothing was written to these
	}
	return syscall.ForkExec(string(what.Path), argv, &syscall.ProcAttr{
		Dir: string(what.Dir), Env: env, Files: files, Sys: withGuard(),
	})
}

// readOrders hands on what the server says, and closes orders when it has ended.
func readOrders(in *json.Decoder, orders chan<- string) {
	defer close(orders)
	for {
		var order string
		if in.Decode(&order) != nil {
			return
		}
		orders <- order
	}
}

// bury waits for the end of everything that was started.
func bury(command int, ended chan<- syscall.WaitStatus, gone chan<- struct{}) {
	for {
		var status syscall.WaitStatus
		pid, err := syscall.Wait4(-1, &status, 0, nil)
		switch {
		case pid == command:
			ended <- status
		case err == syscall.ECHILD: //nolint:errorlint // the system's own, as the kernel gives it
			for groupLives(command) {
				<-time.After(poll)
			}
			close(gone)
			return
		}
	}
}

// run is what the guard knows of the processes that it ends.
type run struct {
	group  int
	strays map[int]bool // that had left the group, and were killed
	denied bool         // said
	say    func(is reportKind, n int)
}

// signal signals everything that runs.
func (r *run) signal(s syscall.Signal) {
	for _, p := range members(r.group) {
		err := syscall.Kill(p.pid, s)
		switch {
		case err == nil && s == syscall.SIGKILL && p.group != r.group:
			r.strays[p.pid] = true
		case err == syscall.EPERM && !r.denied: //nolint:errorlint // the system's own, as the kernel gives it
			r.denied = true
			r.say(reportDenied, p.pid)
		}
	}
}

// member is a process of the run. A negative number is that of a whole group.
type member struct{ pid, group int }
