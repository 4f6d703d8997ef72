package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"parley/tools/toolstest"
)

// play is the program that the tests below start: this test binary.
func play(role string) int {
	if role == "crash" {
		fmt.Fprintln(os.Stderr, "no license for "+os.Getenv("API_TOKEN"))
		return 3
	}
	p := newPeer()
	add(p, "exit", "Ends the program.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
		os.Exit(4)
		return nil, nil
	})
	add(p, "env", "Shows its environment.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
		env := os.Environ()
		slices.Sort(env)
		return said(strings.Join(env, "\n")), nil
	})
	add(p, "noise", "Writes to its standard error.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
		fmt.Fprintf(os.Stderr, "one %s\n\n%s\ntwo \xff\n", os.Getenv("API_TOKEN"), strings.Repeat("x", 5000))
		for i := range 1000 {
			fmt.Fprintln(os.Stderr, "line", i)
		}
		return said("written"), nil
	})
	add(p, "fork", "Starts a child that stays.", func(_ context.Context, _ *sdk.CallToolRequest, in textArgs) (*sdk.CallToolResult, error) {
		child := exec.Command("sh", "-c", `trap "" TERM; exec >"$1"; echo up; while :; do read line; done <"$2"`, "sh", in.Text, in.Text+".never")
		return said("forked"), child.Start()
	})
	add(p, "huge", "Says more than a message may hold.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
		return said(strings.Repeat("x", DefaultLimits().Message)), nil
	})
	if role == "chat" {
		add(p, "chat", "Writes to its standard output.", func(context.Context, *sdk.CallToolRequest, noArgs) (*sdk.CallToolResult, error) {
			chat()
			return said("written"), nil
		})
		chat()
	}
	if role == "stubborn" {
		signals := make(chan os.Signal, 1)
		signal.Notify(signals, syscall.SIGTERM)
		_ = p.Run(context.Background(), &sdk.StdioTransport{})
		fmt.Println() // still there
		for range signals {
		}
	}
	if err := p.Run(context.Background(), &sdk.StdioTransport{}); err != nil {
		return 1
	}
	return 0
}

// program is this test binary in a role.
func program(t *testing.T, name, role string) Server {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	s := DefaultServer(name)
	s.Command, s.Env = self, map[string]Secret{"MCP_TEST_ROLE": NewSecret(role), "API_TOKEN": NewSecret("${env:TEST_API_TOKEN}")}
	s.Env["GOCOVERDIR"] = NewSecret(t.TempDir()) // "go test -cover" makes it complain otherwise
	return s
}

// programs opens servers that are programs.
func programs(t *testing.T, servers ...Server) *world {
	t.Helper()
	limits := DefaultLimits()
	limits.BackoffMin, limits.BackoffMax = time.Millisecond, 10*time.Millisecond
	limits.StopGrace = 200 * time.Millisecond
	return inMemory(t, Options{Servers: servers, Limits: limits, Lookup: func(name string) (string, bool) {
		if name == "TEST_API_TOKEN" {
			return "sesame-4711", true
		}
		return os.LookupEnv(name)
	}}).open()
}

func TestProgram(t *testing.T) {
	w := programs(t, program(t, "peer", "serve"))
	toolstest.Run(t, w.tool("peer_echo"), toolstest.Cases{Good: []string{`{"text":"hello"}`}, Bad: []string{`{}`}})
	if st := w.Status()[0]; st.Kind != "stdio" || st.State != StateConnected || strings.Contains(st.Target, "/") {
		t.Errorf("the status is %+v", st)
	}

	t.Run("the environment is what was said", func(t *testing.T) {
		t.Setenv("OPENAI_API_KEY", "not yours") // and this process's
		w := programs(t, program(t, "peer", "serve"))
		got, err := w.tool("peer_env").Run(t.Context(), call(`{}`))
		if err != nil || !strings.Contains(got, "MCP_TEST_ROLE=serve") || !strings.Contains(got, "PATH=") || strings.Contains(got, "OPENAI") || strings.Contains(got, "TEST_API_TOKEN") {
			t.Errorf("the environment is %s, %v", got, err)
		}
		if !strings.Contains(got, "API_TOKEN=[secret]") || strings.Contains(got, "sesame") {
			t.Errorf("a secret comes back in a result: %s", got)
		}
	})
	t.Run("standard error is logged, bounded and without secrets", func(t *testing.T) {
		w.run("peer_noise", `{}`, "written")
		w.Close()
		log := w.log.String()
		for _, want := range []string{`one [secret]`, "bytes_cut=3976", "two �", "level=DEBUG"} {
			if !strings.Contains(log, want) {
				t.Errorf("the log has no %q: %.500s", want, log)
			}
		}
		if n := strings.Count(log, "standard error of"); n < 100 || n > 400 || strings.Contains(log, "sesame") {
			t.Errorf("the log has %d lines of it", n)
		}
	})
}

func TestProgramDies(t *testing.T) {
	w := programs(t, program(t, "peer", "serve"))
	w.run("peer_exit", `{}`, "!the server peer gave no answer")
	st := w.until("waiting", func(st Status) bool { return st.State == StateWaiting })
	if st.Err != "it ended: exit status 4" {
		t.Errorf("the reason is %q", st.Err)
	}
	w.until("back", func(st Status) bool { return st.State == StateConnected && st.Connects == 2 })
	w.run("peer_echo", `{"text":"again"}`, "you said again")
}

func TestBrokenPrograms(t *testing.T) {
	missing := DefaultServer("missing")
	missing.Command = "no-such-program-anywhere"
	keyless := program(t, "keyless", "serve")
	keyless.Env["KEY"] = NewSecret("${env:NO_SUCH_VARIABLE}")
	dumb := DefaultServer("dumb") // it runs, and is no server
	dumb.Command, dumb.Args = "cat", []string{"-"}
	dumb.ConnectTimeout = 300 * time.Millisecond
	w := programs(t, missing, program(t, "crash", "crash"), keyless, dumb, program(t, "good", "serve"))
	w.run("good_echo", `{"text":"a"}`, "you said a")
	for i, want := range []string{"executable file not found", "exit status 3: no license for [secret]", "env: KEY: ${env:NO_SUCH_VARIABLE} is not set"} {
		st := w.until("failed", func(st Status) bool {
			return st.Name == []string{"missing", "crash", "keyless"}[i] && st.State == StateWaiting
		})
		if !strings.Contains(st.Err, want) || strings.Contains(st.Err, "sesame") {
			t.Errorf("the reason is %q, not %q", st.Err, want)
		}
	}
	if st := w.Status()[3]; st.Connects != 0 || st.Err == "" {
		t.Errorf("cat is taken for a server: %+v", st)
	}
	w.Close()
	if log := w.log.String(); strings.Contains(log, "sesame") {
		t.Errorf("a secret is in the log: %s", log)
	}
}

// Close ends the whole process group, children that ignore SIGTERM too.
func TestCloseKillsTheGroup(t *testing.T) {
	for _, role := range []string{"serve", "stubborn"} {
		t.Run(role, func(t *testing.T) {
			fifo := filepath.Join(t.TempDir(), "fifo")
			for _, name := range []string{fifo, fifo + ".never"} {
				if err := syscall.Mkfifo(name, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			limits := DefaultLimits()
			limits.StopGrace = 50 * time.Millisecond
			w := inMemory(t, Options{Servers: []Server{program(t, "peer", role)}, Limits: limits, Lookup: func(name string) (string, bool) { return orElse(os.Getenv(name), "x"), true }}).open()
			w.run("peer_fork", `{"text":"`+fifo+`"}`, "forked")
			reader, err := os.Open(fifo)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = reader.Close() }()
			up := make([]byte, 3)
			if _, err := io.ReadFull(reader, up); err != nil || string(up) != "up\n" {
				t.Fatal(string(up), err)
			}
			w.Close()
			// The end of the last writer is the end of the file.
			if rest, err := io.ReadAll(reader); err != nil || len(rest) != 0 {
				t.Error(rest, err)
			}
		})
	}
}

// A call ends in time although the server does not even read.
func TestProgramThatDoesNotRead(t *testing.T) {
	w := programs(t, program(t, "peer", "serve"))
	pid := w.servers[0].conn.transport.(*process).cmd.Process.Pid
	if err := syscall.Kill(-pid, syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := w.tool("peer_echo").Run(ctx, call(`{"text":"`+strings.Repeat("x", 1<<20)+`"}`))
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the error is %v", err)
	}
	w.Close()
}
