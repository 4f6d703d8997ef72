package command

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/models/modelstest"
)

// what an unset option is.
func TestDefaults(t *testing.T) {
	want := Options{
		Command: "claude", ContextPairs: 10, Timeout: 120 * time.Second, Grace: 5 * time.Second, MaxConcurrent: 3,
		MaxResponseLength: 4000, MaxOutput: 16 << 20, Format: "text", PromptVia: "auto", Guard: "claude", PromptArg: "auto",
		TimeoutText: "Response timed out after {seconds} seconds.",
	}
	if got := DefaultOptions(); !reflect.DeepEqual(got, want) {
		t.Errorf("the defaults are %+v", got)
	}
	if m := open(t, DefaultOptions()); m.Label() != "command:claude" {
		t.Errorf("the label is %q", m.Label())
	}
}

// an option that is set to 0, or to nonsense, is an error with its name.
func TestOptions(t *testing.T) {
	for name, wrong := range map[string][]func(*Options){
		"command":             {func(o *Options) { o.Command = "" }, func(o *Options) { o.Command = "a\x00b" }},
		"args":                {func(o *Options) { o.Args = []string{"\x00"} }},
		"context_pairs":       {func(o *Options) { o.ContextPairs = 0 }, func(o *Options) { o.ContextPairs = -1 }},
		"timeout ":            {func(o *Options) { o.Timeout = 0 }, func(o *Options) { o.Timeout = -time.Second }},
		"grace":               {func(o *Options) { o.Grace = 0 }},
		"max_concurrent":      {func(o *Options) { o.MaxConcurrent = 0 }},
		"max_response_length": {func(o *Options) { o.MaxResponseLength = 0 }, func(o *Options) { o.MaxResponseLength = 14 }},
		"max_output":          {func(o *Options) { o.MaxOutput = 0 }},
		"format":              {func(o *Options) { o.Format = "" }, func(o *Options) { o.Format = "json" }},
		"prompt_via":          {func(o *Options) { o.PromptVia = "" }, func(o *Options) { o.PromptVia = "file" }},
		"guard":               {func(o *Options) { o.Guard = "" }, func(o *Options) { o.Guard = "gemini" }},
		"prompt_arg": {
			func(o *Options) { o.PromptArg = "system" }, func(o *Options) { o.PromptArg = "--a b" },
			func(o *Options) { o.Args, o.PromptArg = []string{"--system", "Be short."}, "--system" },
		},
		"ask_marker":   {func(o *Options) { o.AskMarker = " " }, func(o *Options) { o.AskMarker = "A\nB" }},
		"timeout_text": {func(o *Options) { o.TimeoutText = "" }},
	} {
		for _, change := range wrong {
			o := DefaultOptions()
			change(&o)
			if _, err := New(o); err == nil || !strings.Contains(err.Error(), name) || strings.Contains(err.Error(), "\n") {
				t.Errorf("%s: the error is %v", name, err)
			}
		}
	}
	_, err := New(Options{})
	for _, name := range []string{"command", "context_pairs", "timeout", "max_concurrent", "max_response_length"} {
		if err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("the error of no options at all does not name %s: %v", name, err)
		}
	}
	o := DefaultOptions()
	o.MaxResponseLength = 15
	open(t, o)
}

// the doctor's question.
func TestCheck(t *testing.T) {
	dir := t.TempDir()
	tool := filepath.Join(dir, "tool")
	if err := os.WriteFile(tool, []byte("#!/bin/sh\necho here\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	check := func(command, in string) error {
		o := DefaultOptions()
		o.Command, o.Dir = command, in
		return open(t, o).Check()
	}
	t.Setenv("PATH", dir)
	for _, fine := range [][2]string{{"tool", ""}, {"tool", dir}, {tool, ""}, {"./tool", dir}} {
		if err := check(fine[0], fine[1]); err != nil {
			t.Errorf("%v: %v", fine, err)
		}
	}
	for _, bad := range [][2]string{{"tool2", ""}, {"./tool", ""}, {"tool", filepath.Join(dir, "none")}, {"tool", tool}, {dir, ""}} {
		if err := check(bad[0], bad[1]); err == nil {
			t.Errorf("%v is said to be fine", bad)
		}
	}
	if err := check("tool2", ""); !strings.Contains(err.Error(), "tool2") || !strings.Contains(err.Error(), "PATH") {
		t.Errorf("the error is %v", err)
	}
}

// one fresh process with the arguments before -p, its
// directory, the server's environment, nothing to read, and a group of its own.
func TestProcess(t *testing.T) {
	t.Setenv("PARLEY_TEST_SECRET", "from the server")
	dir := t.TempDir()
	o := agent("report", "--model", "small one")
	o.Dir = dir
	m := open(t, o)
	var got seen
	if err := json.Unmarshal([]byte(text(t, m, say("Hi, \"you\" $HOME\nand you"))), &got); err != nil {
		t.Fatal(err)
	}
	real, _ := filepath.EvalSymlinks(dir)
	want := seen{Args: []string{"--model", "small one", "-p", "Hi, \"you\" $HOME\nand you"}, Dir: real, Secret: "from the server", Leader: true}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("the agent saw %+v", got)
	}
	if s := m.Stats(); s.Started != 1 || s.Failed != 0 {
		t.Errorf("the counts are %+v", s)
	}
	cwd, _ := os.Getwd()
	if err := json.Unmarshal([]byte(text(t, open(t, agent("report")), say("x"))), &got); err != nil || got.Dir != cwd {
		t.Errorf("without dir it runs in %q (%v)", got.Dir, err)
	}
}

// a prompt too long for an argument, or that would be taken for an option,
// goes by standard input.
func TestPromptByStdin(t *testing.T) {
	for name, c := range map[string]struct {
		via    PromptVia
		prompt string
		stdin  bool
	}{
		"auto, short":     {PromptAuto, "short", false},
		"auto, 96 KiB":    {PromptAuto, strings.Repeat("é", autoArg/2), false},
		"auto, more":      {PromptAuto, strings.Repeat("é", autoArg/2) + "!", true},
		"auto, 300 KiB":   {PromptAuto, strings.Repeat("x", 300<<10), true},
		"auto, option":    {PromptAuto, "--help", true},
		"auto, zero byte": {PromptAuto, "a\x00b", true},
		"stdin":           {PromptStdin, "short", true},
		"arg, option":     {PromptArg, "--help", false},
		"arg, the most":   {PromptArg, strings.Repeat("x", 128<<10-1), false},
	} {
		t.Run(name, func(t *testing.T) {
			o := agent("report")
			o.PromptVia, o.MaxResponseLength = c.via, 1<<20
			var got seen
			if err := json.Unmarshal([]byte(text(t, open(t, o), say(c.prompt))), &got); err != nil {
				t.Fatal(err)
			}
			args, stdin := []string{"-p", c.prompt}, ""
			if c.via == PromptArg && c.prompt[0] == '-' {
				args[1] = currentHead + "\n" + c.prompt // else it would be one
			}
			if c.stdin {
				args, stdin = args[:1], c.prompt
			}
			if !reflect.DeepEqual(got.Args, args) || got.Stdin != stdin {
				t.Errorf("the agent got %d arguments, and %d bytes of input", len(got.Args), len(got.Stdin))
			}
		})
	}
	t.Run("arg, too long", func(t *testing.T) {
		o := agent("report")
		o.PromptVia = PromptArg
		m := open(t, o)
		f := failureOf(t, m, say(strings.Repeat("x", 128<<10)))
		if f.Failure.Code != conversation.TooLarge || !f.Permanent || m.Stats().Started != 0 {
			t.Errorf("the failure is %+v", f)
		}
	})
	t.Run("arg, zero byte", func(t *testing.T) {
		o := agent("report")
		o.PromptVia = PromptArg
		if got := text(t, open(t, o), say("a\x00b")); !strings.Contains(got, `"ab"`) {
			t.Errorf("the agent saw %s", got)
		}
	})
	// An agent that does not read what it is given is not waited for.
	t.Run("unread", func(t *testing.T) {
		o := shell("echo done")
		o.PromptVia = PromptStdin
		if got := text(t, open(t, o), say(strings.Repeat("x", 1<<20))); got != "done" {
			t.Errorf("the answer is %q", got)
		}
	})
}

// output that is split inside of a character; A-35: all of it.
func TestOutput(t *testing.T) {
	for name, c := range map[string]struct {
		o    Options
		want string
	}{
		"A-32 split":        {agent("say", file(t, "naïve 👩‍👩‍👧‍👦 日本語")), "naïve 👩‍👩‍👧‍👦 日本語"},
		"A-32 invalid":      {shell(`printf 'a\377b\303'`), "a\uFFFDb\uFFFD"},
		"space around":      {shell(`printf '\n \n  indented\r\n more\n\n'`), "  indented\r\n more"},
		"A-35 late":         {agent("late"), "early, and late"},
		"A-04 stderr":       {shell("echo secret >&2; echo fine"), "fine"},
		"stdout closed":     {shell("echo fine; exec >&-; exit 0"), "fine"},
		"A-27 another tool": {shell(`echo "$2"`), "Tell me."},
	} {
		t.Run(name, func(t *testing.T) {
			if got := text(t, open(t, c.o), say("Tell me.")); got != c.want {
				t.Errorf("the answer is %q", got)
			}
		})
	}
}

// output larger than any pipe is read to its end and cut.
func TestLargeOutput(t *testing.T) {
	o := agent("large")
	o.MaxResponseLength = 4_000_000
	if got := text(t, open(t, o), say("x")); len(got) != 4_000_000 || strings.Contains(got, cutMark) {
		t.Errorf("%d bytes came", len(got))
	}
	o.MaxResponseLength = 3_999_999
	if got := text(t, open(t, o), say("x")); len(got) != 3_999_999 || !strings.HasSuffix(got, "9"+cutMark) && !strings.HasSuffix(got, cutMark) {
		t.Errorf("%d bytes came", len(got))
	}
	o.MaxResponseLength, o.MaxOutput = 5_000_000, 1000
	m := open(t, o)
	if got := text(t, m, say("x")); got != strings.Repeat("0123456789", 100)+cutMark || m.Stats().Cut != 1 {
		t.Errorf("beyond max_output came %q", got)
	}
	o = agent("say", file(t, "four"))
	o.MaxOutput = 4
	m = open(t, o)
	if got := text(t, m, say("x")); got != "four" || m.Stats().Cut != 0 {
		t.Errorf("at max_output came %q", got)
	}
	o = agent("say", file(t, "fouré"))
	o.MaxOutput = 5
	if got := text(t, open(t, o), say("x")); got != "four"+cutMark {
		t.Errorf("in the middle of a character came %q", got)
	}
}

// the engine's empty_answer decides what is said.
func TestEmpty(t *testing.T) {
	for name, script := range map[string]string{"nothing": "true", "blank": `printf ' \n\t\n'`} {
		answer, err := ask(t.Context(), open(t, shell(script)), say("x"), nil)
		if err != nil || len(answer.Items) != 0 {
			t.Errorf("%s: %+v, %v", name, answer, err)
		}
	}
}

// what a failed agent said is for the log; A-33: the prompt is not.
func TestFailure(t *testing.T) {
	var log bytes.Buffer
	o := agent("fail")
	o.Logger = slog.New(slog.NewJSONHandler(&log, nil))
	m := open(t, o)
	secret := "my password is hunter2"
	f := failureOf(t, m, say(secret))
	if f.Failure.Code != conversation.Internal || !f.Permanent || strings.Contains(fmt.Sprint(f.Failure, f.Err), "cannot do it") {
		t.Errorf("the failure is %+v", f)
	}
	if !strings.Contains(log.String(), "cannot do it: [prompt]") || !strings.Contains(log.String(), "exit status 3") || strings.Contains(log.String(), "hunter2") {
		t.Errorf("the log is %s", log.String())
	}
	for name, o := range map[string]Options{"A-01 crash": agent("crash"), "not there": {}, "stderr only": shell("echo no >&2; exit 1")} {
		if name == "not there" {
			o = DefaultOptions()
			o.Command = "parley-no-such-agent"
		}
		m := open(t, o)
		if f := failureOf(t, m, say("x")); f.Failure.Code != conversation.Internal || !f.Permanent || f.NothingRan != (name == "not there") {
			t.Errorf("%s: %+v", name, f)
		}
		if m.Stats().Failed != 1 {
			t.Errorf("%s: it was not counted", name)
		}
	}
}

// what could not be started at all: only a want of resources is worth
// another attempt.
func TestNotStarted(t *testing.T) {
	for cause, want := range map[error]conversation.ModelError{
		syscall.E2BIG:  {Failure: conversation.Failure{Code: conversation.TooLarge}, Permanent: true},
		syscall.EAGAIN: {Failure: conversation.Failure{Code: conversation.Unavailable}},
		syscall.EACCES: {Failure: conversation.Failure{Code: conversation.Internal}, Permanent: true},
	} {
		var got *conversation.ModelError
		if err := notStarted(&os.PathError{Op: "fork/exec", Path: "claude", Err: cause}); !errors.As(err, &got) ||
			got.Failure.Code != want.Failure.Code || got.Permanent != want.Permanent || !got.NothingRan {
			t.Errorf("%v became %+v", cause, got)
		}
	}
}

// The reason of a start that failed names what is missing: here the directory, not the
// program.
func TestMissingDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "gone")
	o := DefaultOptions()
	o.Command, o.Dir = "sh", dir
	m, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	for _, err := range m.Stream(t.Context(), conversation.Request{}) {
		var failed *conversation.ModelError
		if !errors.As(err, &failed) || !failed.NothingRan || !strings.Contains(fmt.Sprint(failed.Err), dir) {
			t.Errorf("the failure is %v, because of %v", err, failed)
		}
	}
}

// nothing of the prompt is in the log, whatever the agent repeats of it.
func TestLogHidesPrompt(t *testing.T) {
	p := prompt{turns: []turn{{"the code is 4711-0815", "I will remember"}}, message: "and the other one\nis 1234-5678"}
	got := redactPrompt("bad option: and the other one\nusage: is 1234-5678 or 'the code is 4711-0815'\ndone", p.String())
	if got != "bad option: [prompt]\nusage: [prompt] or '[prompt]'\ndone" {
		t.Errorf("the log says %q", got)
	}
	var t1, t2 tail
	line := strings.Repeat("x", 99) + "\n"
	for range 1000 {
		t1.Write([]byte(line))
	}
	if text, cut := t1.text(); !cut || len(text) > maxTail || len(strings.TrimLeft(text, "x\n")) != 0 || len(strings.SplitN(text, "\n", 2)[0]) != 99 {
		t.Errorf("of a long stderr is kept %d bytes (cut %v)", len(text), cut)
	}
	t2.Write(bytes.Repeat([]byte("y"), maxTail+1))
	if text, cut := t2.text(); !cut || text != "" {
		t.Errorf("half a line is logged: %d bytes", len(text))
	}
}

// an agent and its children that ignore SIGTERM are killed
// after the grace, and keep the slot until then.
func TestTimeout(t *testing.T) {
	pids := filepath.Join(t.TempDir(), "pids")
	o := shell(`trap "" TERM; sleep 1000 & echo $$ $! >"$1"; sleep 1000`, pids)
	o.Timeout, o.Grace, o.MaxConcurrent = 3500*time.Millisecond, 300*time.Millisecond, 1
	m := open(t, o)
	began := time.Now()
	f := failureOf(t, m, say("x"))
	took := time.Since(began)
	if f.Failure.Message != "Response timed out after 3.5 seconds." || f.Failure.Code != conversation.Timeout || !f.Permanent {
		t.Errorf("the failure is %+v", f)
	}
	if took < o.Timeout+o.Grace {
		t.Errorf("the group was gone after %s", took)
	}
	var leader, child int
	raw, _ := os.ReadFile(pids)
	if _, err := fmt.Sscan(string(raw), &leader, &child); err != nil {
		t.Fatal(err)
	}
	if !ended(leader) || !ended(child) {
		t.Errorf("of %d and %d one still runs", leader, child)
	}
	if s := m.Stats(); s.Timeouts != 1 || s.Kills != 1 || s.Failed != 1 || s.Running != 0 {
		t.Errorf("the counts are %+v", s)
	}
}

// SIGTERM comes first, to the whole group, and there is time to obey it.
// the text is ours to choose.
func TestTerminates(t *testing.T) {
	note := filepath.Join(t.TempDir(), "note")
	o := shell(`(trap 'echo child >>"$1"; exit' TERM; while :; do sleep 0.01; done) & trap 'wait; echo leader >>"$1"; exit' TERM; while :; do sleep 0.01; done`, note)
	o.Timeout, o.Grace, o.TimeoutText = 3*time.Second, time.Minute, "Too slow ({seconds} s)"
	m := open(t, o)
	if f := failureOf(t, m, say("x")); f.Failure.Message != "Too slow (3 s)" {
		t.Errorf("the failure is %+v", f)
	}
	if said, _ := os.ReadFile(note); string(said) != "child\nleader\n" || m.Stats().Kills != 0 {
		t.Errorf("what ended by itself is %q, and %+v", said, m.Stats())
	}
}

// a child of the agent that holds the output open without using it, and
// that does not obey, neither keeps the answer back for long nor survives it.
func TestLeftovers(t *testing.T) {
	pid := filepath.Join(t.TempDir(), "pid")
	o := shell(`trap "" TERM; sleep 1000 & echo $! >"$1"; echo the answer`, pid)
	o.Grace = 200 * time.Millisecond
	m := open(t, o)
	if got := text(t, m, say("x")); got != "the answer" {
		t.Errorf("the answer is %q", got)
	}
	var child int
	raw, _ := os.ReadFile(pid)
	if fmt.Sscan(string(raw), &child); child == 0 || !ended(child) {
		t.Errorf("process %d still runs", child)
	}
	// A child that holds nothing is not waited for, and is gone as well.
	o = shell(`sleep 1000 >/dev/null 2>&1 & echo $! >"$1"; echo the answer`, pid)
	if got := text(t, open(t, o), say("x")); got != "the answer" {
		t.Errorf("the answer is %q", got)
	}
	raw, _ = os.ReadFile(pid)
	if fmt.Sscan(string(raw), &child); !ended(child) {
		t.Errorf("process %d still runs", child)
	}
	// While it writes, it is waited for.
	o = shell(`(for i in 1 2 3; do sleep 0.6; printf $i; done) & printf 0`)
	o.Grace = 5 * time.Second
	if got := text(t, open(t, o), say("x")); got != "0123" {
		t.Errorf("the answer is %q", got)
	}
	// The timeout counts for the agent, not for what it leaves behind.
	o = shell(`sleep 1000 & echo the answer`)
	o.Timeout, o.Grace = 3*time.Second, time.Minute
	if got := text(t, open(t, o), say("x")); got != "the answer" {
		t.Errorf("the answer is %q", got)
	}
}

// N-06 and A-18: a cancelled call ends its processes; a caller that stops
// reading, too.
func TestCancel(t *testing.T) {
	o := agent("quiet", file(t, "thinking"))
	m := open(t, o)
	ctx, cancel := context.WithCancel(t.Context())
	if answer, err := ask(ctx, m, say("x"), cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("the call ended with %+v, %v", answer, err)
	}
	for out, err := range m.Stream(t.Context(), say("x")) {
		if err != nil || out.Done != nil {
			t.Fatalf("%+v, %v", out, err)
		}
		break
	}
	if s := m.Stats(); s.Running != 0 || s.Started != 2 || s.Failed != 0 {
		t.Errorf("the counts are %+v", s)
	}
	deadline, stop := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer stop()
	if answer, err := ask(deadline, m, say("x"), nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the call ended with %+v, %v", answer, err)
	}
}

// The engine gives up a model that says nothing for too long; a process that
// thinks, and a call that waits for a slot, say that they live.
func TestSignsOfLife(t *testing.T) {
	path, letOne := namedPipe(t)
	o := agent("pipe", path)
	o.MaxConcurrent = 1
	m := open(t, o)
	m.pulse = 5 * time.Millisecond
	signs, started := make(chan string), make(chan struct{})
	var calls sync.WaitGroup
	for _, name := range []string{"first", "second"} {
		calls.Go(func() {
			for out, err := range m.Stream(t.Context(), say("x")) {
				if err != nil {
					t.Error(err)
				}
				if out.Done == nil && err == nil {
					select {
					case signs <- name:
					case <-started:
					}
				}
			}
		})
	}
	seen := map[string]int{}
	for seen["first"] < 3 || seen["second"] < 3 {
		seen[<-signs]++
	}
	if s := m.Stats(); s.Running != 1 || s.Waiting != 1 {
		t.Errorf("the counts are %+v", s)
	}
	close(started)
	letOne()
	letOne()
	calls.Wait()
	if s := m.Stats(); s.Started != 2 {
		t.Errorf("the counts are %+v", s)
	}
	// Without streaming there are none.
	r := say("x")
	r.Stream = false
	quiet := open(t, agent("say", file(t, "x")))
	for out := range quiet.Stream(t.Context(), r) {
		if out.Done == nil {
			t.Errorf("%+v came though nothing was wanted", out)
		}
	}
}

// N-07: a call says when it waits for its slot, and starts nothing if its step was put off
// meanwhile.
func TestPutOffWhileItWaits(t *testing.T) {
	for _, goOn := range []bool{true, false} {
		m := open(t, agent("say", file(t, "x")))
		var said []bool
		r := say("x")
		r.Waits = func(waits bool) bool { said = append(said, waits); return goOn }
		heard := modelstest.Ask(t.Context(), m, r)
		if (heard.Err == nil) != goOn || !slices.Equal(said, []bool{true, false}) {
			t.Errorf("%v after %v", heard.Err, said)
		}
		if s := m.Stats(); s.Started != map[bool]int64{true: 1}[goOn] || s.Running != 0 || s.Waiting != 0 {
			t.Errorf("the counts are %+v", s)
		}
	}
}

// at most max_concurrent processes; the next call begins when one
// has gone, and a call that is given up while it waits takes no slot.
func TestConcurrency(t *testing.T) {
	const most = 2
	path, letOne := namedPipe(t)
	o := agent("pipe", path)
	o.MaxConcurrent = most
	m := open(t, o)
	var calls sync.WaitGroup
	one := func(ctx context.Context, want error) {
		calls.Go(func() {
			if _, err := ask(ctx, m, say("x"), nil); !errors.Is(err, want) {
				t.Errorf("a call ended with %v, want %v", err, want)
			}
		})
	}
	// A call runs from the moment that it has its slot; its process starts after.
	until := func(running, waiting, started int64) {
		for look := time.NewTicker(time.Millisecond); ; <-look.C {
			if s := m.Stats(); s.Running == running && s.Waiting == waiting && s.Started == started {
				look.Stop()
				return
			}
		}
	}
	for range 5 {
		one(t.Context(), nil)
	}
	until(most, 3, most)
	ctx, cancel := context.WithCancel(t.Context())
	one(ctx, context.Canceled)
	until(most, 4, most)
	cancel()
	until(most, 3, most)
	for range 5 {
		letOne()
	}
	calls.Wait()
	if s := m.Stats(); s.Started != 5 || s.Running != 0 {
		t.Errorf("the counts are %+v", s)
	}
	// A caller that stops reading while it waits takes none either.
	m.pulse = time.Millisecond
	one(t.Context(), nil)
	one(t.Context(), nil)
	until(most, 0, 5+most)
	for range m.Stream(t.Context(), say("x")) {
		break
	}
	if s := m.Stats(); s.Running != most || s.Waiting != 0 || s.Started != 7 {
		t.Errorf("the counts are %+v", s)
	}
	letOne()
	letOne()
	calls.Wait()
}

// the crash of one process is nothing to another.
func TestCrashAlone(t *testing.T) {
	path, letOne := namedPipe(t)
	well := open(t, agent("pipe", path))
	crashing := open(t, agent("crash"))
	var calls sync.WaitGroup
	calls.Go(func() {
		if answer, err := ask(t.Context(), well, say("x"), nil); err != nil || answer.Items[0].Text != "through" {
			t.Errorf("%+v, %v", answer, err)
		}
	})
	failureOf(t, crashing, say("x"))
	letOne()
	calls.Wait()
}

// a cut text fits with its mark and ends between two graphemes.
func TestCut(t *testing.T) {
	family := "👩‍👩‍👧‍👦" // 7 code points
	for name, c := range map[string]struct {
		text  string
		limit int
		want  string
	}{
		"fits":            {strings.Repeat("x", 20), 20, strings.Repeat("x", 20)},
		"one too long":    {strings.Repeat("x", 21), 20, "xxxxxx" + cutMark},
		"code points":     {strings.Repeat("é", 20), 20, strings.Repeat("é", 20)},
		"family fits":     {"x" + family + "yyyyyyyyyyyyyyyyyyyyyy", 22, "x" + family + cutMark},
		"family does not": {"x" + family + "yyyyyyyyyyyyyyyyyyyyyy", 21, "x" + cutMark},
		"flags":           {"🇩🇪🇫🇷🇮🇹🇪🇸🇵🇱🇳🇱🇧🇪🇦🇹", 15, cutMark},
		"combining":       {"abe\u0301" + strings.Repeat("\u0323", 30), 17, "ab" + cutMark},
		"at the mark":     {"abe\u0301" + strings.Repeat("z", 30), 18, "abe\u0301" + cutMark},
		"lines":           {"a\r\n" + strings.Repeat("z", 30), 16, "a" + cutMark},
	} {
		t.Run(name, func(t *testing.T) {
			got := truncate(c.text, c.limit, false)
			if got != c.want || utf8.RuneCountInString(got) > c.limit {
				t.Errorf("%d code points: %q", utf8.RuneCountInString(got), got)
			}
		})
	}
	o := agent("say", file(t, strings.Repeat(family, 10)))
	o.MaxResponseLength = 30
	if got := text(t, open(t, o), say("x")); got != family+family+cutMark {
		t.Errorf("the answer is %q", got)
	}
}

// The suite, for the text format and for stream-json.
func TestSuite(t *testing.T) {
	for _, format := range []Format{FormatText, FormatStreamJSON} {
		t.Run(string(format), func(t *testing.T) {
			modelstest.Run(t, func(t *testing.T, s modelstest.Scenario) (conversation.Model, conversation.Request) {
				for _, item := range s.Items {
					if item.Kind == conversation.ItemCall {
						t.Skip("a command-line agent calls its tools itself; ours it does not know")
					}
				}
				if format == FormatText {
					if len(s.Items) > 1 {
						t.Skip("a plain text is one item")
					}
					if s.Cut {
						t.Skip("a plain text does not tell a cut one from a whole one; the exit status does (TestFailure)")
					}
				}
				o := agent("say", file(t, output(format, s)))
				if s.Hold {
					o.Args[1] = "quiet" // without end
				}
				o.Format, o.MaxResponseLength = format, 100_000
				return open(t, o), s.Request()
			})
		})
	}
}

// output is what an agent writes for a scenario.
func output(format Format, s modelstest.Scenario) string {
	if format == FormatText {
		return s.Items[0].Text
	}
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	quoted := func(text string) string {
		raw, _ := json.Marshal(text)
		return string(raw)
	}
	line(`{"type":"system","subtype":"init","session_id":"x","tools":[]}`)
	for _, item := range s.Items {
		line(`{"type":"stream_event","event":{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}},"parent_tool_use_id":null}`)
		for _, word := range strings.SplitAfter(item.Text, " ") {
			line(`{"type":"stream_event","event":{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%s}}}`, quoted(word))
			if s.Hold || s.Cut {
				return b.String()
			}
		}
		line(`{"type":"assistant","message":{"role":"assistant","content":[{"type":"text","text":%s}]}}`, quoted(item.Text))
		line(`{"type":"stream_event","event":{"type":"content_block_stop","index":0}}`)
	}
	line(`{"type":"result","subtype":"success","is_error":false,"result":%s,"usage":{"input_tokens":3,"cache_read_input_tokens":4,"output_tokens":5}}`,
		quoted(s.Items[len(s.Items)-1].Text))
	return b.String()
}

// N-07: the agent and everything that it has started end with the server, also when
// that is killed and can do nothing about it.
func TestEndsWithServer(t *testing.T) {
	for name, script := range map[string]string{
		"an agent that listens to nothing": `trap '' TERM HUP; echo $$ > "$1/agent"; while :; do sleep 1; done`,
		"and what it has started":          `trap '' TERM HUP; (echo $$; exec sleep 600) > "$1/agent" & echo $! > "$1/child"; while :; do sleep 1; done`,
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			server := exec.Command(os.Args[0], asAgent, "server", script, dir, "x")
			if err := server.Start(); err != nil {
				t.Fatal(err)
			}
			var pids []int
			for _, file := range []string{"agent", "child"} {
				if file == "child" && !strings.Contains(script, "child") {
					continue
				}
				pids = append(pids, pidIn(t, filepath.Join(dir, file)))
			}
			if err := server.Process.Kill(); err != nil {
				t.Fatal(err)
			}
			_ = server.Wait() // killed, as it should be
			look := time.NewTicker(10 * time.Millisecond)
			defer look.Stop()
			for _, pid := range pids {
				for limit := time.Now().Add(10 * time.Second); !ended(pid); <-look.C {
					if time.Now().After(limit) {
						t.Fatalf("the process %d runs without its server", pid)
					}
				}
			}
		})
	}
}

// pidIn waits for the number that a process writes into a file.
func pidIn(t *testing.T, path string) int {
	t.Helper()
	look := time.NewTicker(10 * time.Millisecond)
	defer look.Stop()
	for limit := time.Now().Add(10 * time.Second); ; <-look.C {
		text, _ := os.ReadFile(path)
		if n, err := strconv.Atoi(strings.TrimSpace(string(text))); err == nil && strings.HasSuffix(string(text), "\n") {
			return n
		}
		if time.Now().After(limit) {
			t.Fatalf("nothing has written %s", path)
		}
	}
}
