package conform

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"sync"
	"time"
)

// line is what a client says.
type line struct {
	Seq     int64  `json:"seq"`
	Type    string `json:"type"`
	Session string `json:"session"`
	Sent    string `json:"sent"`
	Message string `json:"message"`
	Failed  string `json:"failed"`
	Code    string `json:"code"`
	Reset   string `json:"reset"`
	Reason  string `json:"reason"`
	Stopped int    `json:"stopped"`
}

// subject is the client under test, as a process.
type subject struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	said   chan struct{} // something was
	mu     sync.Mutex
	lines  []line
	errors bytes.Buffer
	exited chan struct{}
}

func begin(ctx context.Context, command []string, url string) (*subject, error) {
	s := &subject{cmd: exec.CommandContext(ctx, command[0], command[1:]...), said: make(chan struct{}, 1), exited: make(chan struct{})}
	s.cmd.Env = append(os.Environ(), "PARLEY_URL="+url)
	s.cmd.Stderr = &s.errors
	s.cmd.WaitDelay = time.Second
	in, err := s.cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.in = in
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go s.listen(out)
	return s, nil
}

func (s *subject) listen(out io.Reader) {
	defer close(s.exited)
	text := bufio.NewScanner(out)
	text.Buffer(nil, 1<<20)
	for text.Scan() {
		var l line
		if json.Unmarshal(text.Bytes(), &l) != nil {
			continue
		}
		s.mu.Lock()
		s.lines = append(s.lines, l)
		s.mu.Unlock()
		select {
		case s.said <- struct{}{}:
		default:
		}
	}
	_ = s.cmd.Wait() // how it ended is no matter: what it said is
}

// tell gives the client a command; one that has ended hears nothing.
func (s *subject) tell(command map[string]any) {
	b, err := json.Marshal(command)
	if err != nil {
		panic(err) // of strings
	}
	_, _ = s.in.Write(append(b, '\n'))
}

func (s *subject) heard() []line {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]line(nil), s.lines...)
}

// stop ends the client; true = it ended by itself.
func (s *subject) stop() bool {
	s.tell(map[string]any{"stop": true})
	_ = s.in.Close()
	late := time.NewTimer(10 * time.Second)
	defer late.Stop()
	select {
	case <-s.exited:
		return true
	case <-late.C:
		_ = s.cmd.Process.Kill()
		<-s.exited
		return false
	}
}
