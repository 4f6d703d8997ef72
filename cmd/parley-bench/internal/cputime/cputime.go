package cputime

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Of is what the threads of a process have used (to the nanosecond: the
// sum in /proc/PID/stat counts hundredths of a second); 0 where there is no /proc.
func Of(pid int) time.Duration {
	threads, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/schedstat") // its only error is a bad pattern
	sum := time.Duration(0)
	for _, thread := range threads {
		b, err := os.ReadFile(thread)
		if err != nil {
			continue // it has gone; Go's threads rarely do
		}
		ran, _, _ := strings.Cut(string(b), " ")
		ns, _ := strconv.ParseInt(ran, 10, 64)
		sum += time.Duration(ns)
	}
	return sum
}

// Own is the processor time that this process, the load generator, has used.
func Own() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		return 0
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
