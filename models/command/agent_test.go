package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"parley/conversation"
)

// The test binary plays the agent when its first argument says so: the second
// one names the part, what follows belongs to it, and the rest is what the model
// adds.
const asAgent = "as-agent"

func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == asAgent {
		play(os.Args[2], os.Args[3:])
		os.Exit(0)
	}
	os.Setenv("GORACE", "atexit_sleep_ms=0") // agents built with -race would linger for a second
	goleak.VerifyTestMain(m)
}

// seen is what the part "report" tells of its world.
type seen struct {
	Args   []string
	Stdin  string
	Dir    string
	Secret string
	Leader bool // of its own process group
}

func play(part string, args []string) {
	prompt := args[len(args)-1]
	switch part {
	case "report":
		stdin, _ := io.ReadAll(os.Stdin)
		dir, _ := os.Getwd()
		report, _ := json.Marshal(seen{
			Args: args, Stdin: string(stdin), Dir: dir, Secret: os.Getenv("PARLEY_TEST_SECRET"), Leader: syscall.Getpgrp() == os.Getpid(),
		})
		os.Stdout.WriteString(strings.ReplaceAll(string(report), wordJoiner, `\u2060`)) // else it would be left out of the answer
	case "say": // byte by byte at first
		text := read(args[0])
		for i := range min(len(text), 1000) {
			os.Stdout.WriteString(text[i : i+1])
		}
		os.Stdout.WriteString(text[min(len(text), 1000):])
	case "large":
		for range 4000 {
			fmt.Print(strings.Repeat("0123456789", 100))
		}
	case "fail":
		fmt.Print("half an answer")
		fmt.Fprintln(os.Stderr, "cannot do it: "+prompt)
		os.Exit(3)
	case "crash":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
		select {}
	case "quiet": // says something, then nothing until it is stopped
		fmt.Print(read(args[0]))
		<-time.After(time.Hour)
	case "pipe": // answers when it gets a byte of the named pipe
		fmt.Print("through")
		pipe, _ := os.Open(args[0])
		io.ReadFull(pipe, make([]byte, 1))
	case "late": // leaves a process that writes when this one has ended
		r, _, _ := os.Pipe() // the other end is closed by the end of this process
		late := exec.Command(os.Args[0], asAgent, "after", "x")
		late.Stdin, late.Stdout = r, os.Stdout
		if err := late.Start(); err != nil {
			panic(err)
		}
		fmt.Print("early, ")
	case "after":
		io.Copy(io.Discard, os.Stdin)
		fmt.Print("and late")
	case "asker":
		if strings.Contains(prompt, replyHead) {
			fmt.Print("Done as you said.")
		} else {
			fmt.Print("I looked at it.\n\nASK: Which one?\n1. OAuth\n2. JWT\n")
		}
	case "server": // runs an agent with a script until it is killed
		m, err := New(shell(args[0], args[1]))
		if err != nil {
			panic(err)
		}
		_, _ = ask(context.Background(), m, say("x"), nil)
	default:
		panic("no such part: " + part)
	}
}

// read is what a file holds: some texts are too long for an argument.
func read(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	return string(text)
}

// file is a file that holds a text.
func file(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// namedPipe makes a named pipe; letOne lets one agent through it.
func namedPipe(t *testing.T) (path string, letOne func()) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0) // both: so that no agent sees its end
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return path, func() { f.Write([]byte{1}) }
}

// agent are options with which the test binary plays a part.
func agent(args ...string) Options {
	o := DefaultOptions()
	o.Command, o.Args = os.Args[0], append([]string{asAgent}, args...)
	return o
}

// shell are options with which sh runs a script as the agent.
func shell(script string, args ...string) Options {
	o := DefaultOptions()
	o.Command, o.Args = "sh", append([]string{"-c", script, "agent"}, args...)
	return o
}

func open(t *testing.T, o Options) *Model {
	t.Helper()
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // whatever happened
		if s := m.Stats(); s.Running != 0 || s.Waiting != 0 || m.gate.Taken() != 0 {
			t.Errorf("at the end %+v and %d slots are taken", s, m.gate.Taken())
		}
	})
	return m
}

// say is a request with one message.
func say(text string) conversation.Request {
	return conversation.Request{
		Session: "s1", Task: "t1-s1", Step: 1, Attempt: 1, Stream: true,
		Entries: []conversation.Entry{{Role: conversation.RoleUser, Task: "t1-s1", Message: "m1-s1", Text: text}},
	}
}

// ask reads the whole stream; started is called at the first piece.
func ask(ctx context.Context, m *Model, r conversation.Request, started func()) (*conversation.ModelAnswer, error) {
	for out, err := range m.Stream(ctx, r) {
		if err != nil {
			return nil, err
		}
		if out.Done != nil {
			return out.Done, nil
		}
		if started != nil {
			started()
			started = nil
		}
	}
	return nil, errors.New("the stream ended without a word")
}

// text asks and wants one text.
func text(t *testing.T, m *Model, r conversation.Request) string {
	t.Helper()
	answer, err := ask(t.Context(), m, r, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(answer.Items) != 1 || answer.Items[0].Kind != conversation.ItemText {
		t.Fatalf("the answer is %+v, not one text", answer.Items)
	}
	return answer.Items[0].Text
}

// failureOf wants a failure that the adapter understood.
func failureOf(t *testing.T, m *Model, r conversation.Request) *conversation.ModelError {
	t.Helper()
	answer, err := ask(t.Context(), m, r, nil)
	var known *conversation.ModelError
	if !errors.As(err, &known) {
		t.Fatalf("the call ended with %+v, %v", answer, err)
	}
	return known
}

// ended is true when a process runs no more. A dead one that nobody has buried
// is not running.
func ended(pid int) bool {
	if errors.Is(syscall.Kill(pid, 0), syscall.ESRCH) {
		return true
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && strings.HasPrefix(string(stat[strings.LastIndexByte(string(stat), ')')+1:]), " Z")
}

// told is what an agent that plays "report" saw.
func told(t *testing.T, m *Model, r conversation.Request) (got seen) {
	t.Helper()
	if err := json.Unmarshal([]byte(text(t, m, r)), &got); err != nil {
		t.Fatal(err)
	}
	return got
}
