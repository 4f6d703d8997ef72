package history

import (
	"bufio"
	"debug/buildinfo"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// CommitOf is what the program was built from.
func CommitOf(program string) string {
	info, err := buildinfo.ReadFile(program)
	if err != nil {
		return "unknown"
	}
	revision, modified := "unknown", ""
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			revision = s.Value[:min(len(s.Value), 12)]
		case s.Key == "vcs.modified" && s.Value == "true":
			modified = ", modified"
		}
	}
	return revision + modified
}

// Machine says in words what measured: its cores, its processor, and how long
// a write of 4 KiB takes until it is on the disk.
func Machine() (string, error) {
	dir, err := os.MkdirTemp("", "parley-bench-sync-")
	if err != nil {
		return "", err
	}
	defer os.RemoveAll(dir)
	f, err := os.Create(dir + "/f")
	if err != nil {
		return "", err
	}
	defer f.Close()
	took := make([]time.Duration, 50)
	for i := range took {
		began := time.Now()
		if _, err := f.Write(make([]byte, 4096)); err != nil {
			return "", err
		}
		if err := f.Sync(); err != nil {
			return "", err
		}
		took[i] = time.Since(began)
	}
	slices.Sort(took)
	return fmt.Sprintf("%d cores, %s, %s/%s; 4 KiB are on the disk after %s", runtime.NumCPU(), processor(), runtime.GOOS, runtime.GOARCH, took[len(took)/2].Round(time.Microsecond)), nil
}

func processor() string {
	f, err := os.Open("/proc/cpuinfo")
	if err != nil {
		return "a processor of unknown name"
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "a processor of unknown name"
}
