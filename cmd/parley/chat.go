package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"unicode"

	"github.com/charmbracelet/x/term"

	"parley/cmd/parley/internal/chat"
)

type chatCmd struct {
	Text []string `arg:"" optional:"" help:"What to say; without it, what comes in is said (one message), and at a terminal you type."`

	Server    string   `placeholder:"URL" default:"http://127.0.0.1:8080" help:"Address of the server (default http://127.0.0.1:8080)."`
	Session   string   `placeholder:"ID" default:"new" help:"The session to go on with; \"new\" opens one (default new)."`
	Attach    []string `placeholder:"FILE" type:"path" sep:"none" help:"A file that goes with the first message; may be repeated."`
	Agent     string   `placeholder:"NAME" help:"Agent of a new session (default: the server's)."`
	Mode      string   `placeholder:"MODE" enum:"steer,queue,collect,interrupt,reject," default:"" help:"What a message does while a task runs: steer, queue, collect, interrupt, reject (default: the session's)."`
	TokenEnv  string   `placeholder:"NAME" xor:"token" help:"Environment variable that holds the key or token."`
	TokenFile string   `placeholder:"FILE" xor:"token" help:"File that holds it; it is read again for each connection."`
	JSON      bool     `name:"json" help:"Print frames, one JSON object a line, and take commands the same way."`
	Lines     bool     `help:"Each line that comes in is a message."`
	Plain     bool     `help:"No terminal mode, also at a terminal: lines in, answers out."`
}

// Help is shown by "parley chat --help".
func (chatCmd) Help() string {
	return `Exit codes: 0 every message is answered, 1 one failed or the server is not there, 2 wrong usage or nothing to say, ` +
		`3 a question is open (it is printed; the next message in that session answers it). docs/CHAT.md has examples.`
}

// again are the flags that lead to the same server, as the same user, for a shell.
func (c chatCmd) again() string {
	var flags []string
	for _, f := range []struct{ name, value, usual string }{
		{"--server", c.Server, "http://127.0.0.1:8080"}, {"--token-env", c.TokenEnv, ""}, {"--token-file", c.TokenFile, ""},
	} {
		if f.value == f.usual {
			continue
		}
		if strings.ContainsFunc(f.value, func(r rune) bool {
			return !strings.ContainsRune("-_./:@%+=", r) && !unicode.IsLetter(r) && !unicode.IsDigit(r)
		}) {
			f.value = "'" + strings.ReplaceAll(f.value, "'", `'\''`) + "'"
		}
		flags = append(flags, f.name+" "+f.value)
	}
	return strings.Join(flags, " ")
}

// exitCode is the end of a command that has said itself what there is to say.
type exitCode int

func (e exitCode) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

func (m *Main) chat(ctx context.Context) error {
	line := m.line.Chat
	o := chat.Options{
		Server: line.Server, Session: line.Session, Agent: line.Agent, Mode: line.Mode, Text: strings.Join(line.Text, " "),
		Attach:  line.Attach,
		Version: version(), Again: line.again(), JSON: line.JSON, Lines: line.Lines, Plain: line.Plain,
		In: m.Stdin, Out: m.Stdout, Err: m.Stderr, Terminal: atTerminal(m.Stdin) && atTerminal(m.Stdout),
	}
	env := environment(m.Environ)
	o.Plain = o.Plain || env["TERM"] == "dumb" // it shows what moves a cursor as text
	switch {
	case line.TokenEnv != "":
		token, found := env[line.TokenEnv]
		if !found {
			return &UsageError{"the environment has no " + line.TokenEnv}
		}
		o.Token = func(context.Context) (string, error) { return strings.TrimSpace(token), nil }
	case line.TokenFile != "":
		if _, err := os.ReadFile(line.TokenFile); err != nil {
			return &UsageError{err.Error()}
		}
		o.Token = func(context.Context) (string, error) {
			b, err := os.ReadFile(line.TokenFile)
			return strings.TrimSpace(string(b)), err
		}
	}
	if code := chat.Run(ctx, o); code != exitOK {
		return exitCode(code)
	}
	return nil
}

// environment are the variables by their names.
func environment(list []string) map[string]string {
	all := map[string]string{}
	for _, kv := range list {
		if name, value, ok := strings.Cut(kv, "="); ok {
			all[name] = value
		}
	}
	return all
}

// atTerminal says whether a stream is a terminal.
func atTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(f.Fd())
}
