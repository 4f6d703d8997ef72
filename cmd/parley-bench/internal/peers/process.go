package peers

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"parley/cmd/parley-bench/internal/cputime"
)

// process is a program that runs beside the server that is measured.
type process struct {
	cmd *exec.Cmd
	out string // the file with what it said, for error messages
}

// start runs a program whose output goes to a file in dir.
func start(dir, path string, env []string, args ...string) (*process, error) {
	p := &process{cmd: exec.Command(path, args...), out: filepath.Join(dir, filepath.Base(path)+".out")}
	file, err := os.Create(p.out)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	p.cmd.Dir, p.cmd.Env, p.cmd.Stdout, p.cmd.Stderr = dir, append(os.Environ(), env...), file, file
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	return p, nil
}

// startListening runs a program whose first line of output is its address, http://host:port.
func startListening(path string) (*process, string, error) {
	p := &process{cmd: exec.Command(path)}
	p.cmd.Stderr = os.Stderr
	stdout, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := p.cmd.Start(); err != nil {
		return nil, "", fmt.Errorf("start %s: %w", path, err)
	}
	reader := bufio.NewReader(stdout)
	line, err := reader.ReadString('\n')
	addr, found := strings.CutPrefix(strings.TrimSpace(line), "http://")
	if err != nil || !found {
		p.kill()
		return nil, "", fmt.Errorf("%s said no address but %q", path, line)
	}
	go io.Copy(io.Discard, reader) //nolint:errcheck // ends with the process
	return p, addr, nil
}

func (p *process) kill() {
	_ = p.cmd.Process.Kill()
	_ = p.cmd.Wait()
}

// said is the end of what it wrote.
func (p *process) said() string {
	b, _ := os.ReadFile(p.out)
	return strings.TrimSpace(string(b[max(0, len(b)-1000):]))
}

// cpu is the processor time that it has used so far.
func (p *process) cpu() time.Duration { return cputime.Of(p.cmd.Process.Pid) }
