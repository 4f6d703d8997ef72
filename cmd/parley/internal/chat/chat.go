package chat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"syscall"
	"time"

	parley "parley/clients/go"
)

// The exit codes.
const (
	Answered = 0 // every message has its answer
	Failed   = 1 // one failed, or was not sent, or its answer could not be printed; the error stream says why
	Usage    = 2 // a wrong command line, an input that cannot be sent, or nothing to say
	Asked    = 3 // a question is open; it was printed
)

// Options say what to talk to, and how.
type Options struct {
	Server  string
	Session string   // "" or "new" = a new one
	Agent   string   // of a new session
	Mode    string   // of every message
	Text    string   // what to say; "" = what comes in
	Attach  []string // files that go with the first message
	Token   func(context.Context) (string, error)
	Version string
	Again   string // the flags that lead to the same server, as the same user

	JSON  bool // frames out and commands in, one a line
	Lines bool // each line that comes in is a message
	Plain bool // no terminal mode, also at a terminal

	In       io.Reader
	Out, Err io.Writer
	Terminal bool // both In and Out are terminals
}

// Run talks until there is nothing left to say, or ctx ends, and returns the exit code.
func Run(ctx context.Context, o Options) int {
	if o.JSON && len(o.Attach) > 0 {
		fmt.Fprintln(o.Err, `parley: with --json the command {"type":"upload","data":{"file":"…"}} uploads a file, and a send names what it answers`)
		return Usage
	}
	var files []file // read before anything is sent
	for _, path := range o.Attach {
		f, err := readFile(path)
		if err != nil {
			o.fail(err)
			return Usage
		}
		files = append(files, f)
	}
	connection := make(chan parley.Connection, 16)
	client, err := connect(ctx, o, connection)
	if err != nil {
		return o.fail(explain(o.Server, err))
	}
	defer client.Close()
	screen := o.Terminal && !o.Plain && !o.JSON && o.Text == ""
	session, in := o.Session, (<-chan said)(nil)
	if session == "new" {
		session = ""
	}
	if o.Agent != "" && session == "" {
		if err := knows(ctx, client, o.Agent); err != nil {
			return o.fail(explain(o.Server, err))
		}
	}
	if !screen {
		o.Out = &checked{to: o.Out}
		in = texts(ctx, o)
	}
	if session == "" && !screen && !o.JSON { // a session in which nothing is said is of no use
		var nothing error
		in, nothing = begun(ctx, in)
		switch {
		case nothing == nil, errors.Is(nothing, io.EOF) && len(files) > 0:
		case errors.Is(nothing, io.EOF):
			fmt.Fprintln(o.Err, emptyInput)
			return Usage
		case ctx.Err() != nil: // stopped before anything was said
			return Failed
		default:
			o.fail(nothing)
			return Usage
		}
	}
	if session == "" && (!screen || len(files) > 0) {
		if session, err = client.Create(ctx, parley.NewSession{Agent: o.Agent}); err != nil {
			return o.fail(explain(o.Server, err))
		}
	}
	attached, err := upload(ctx, client, session, files)
	if err != nil {
		return o.fail(explain(o.Server, err))
	}
	switch {
	case o.JSON:
		return runJSON(ctx, client, session, o, in)
	case screen:
		// Looked at before the terminal is changed and asked what it can: what it answers
		// to a program that has ended already stands in the shell.
		if session != "" && session == o.Session {
			if _, err := client.Session(ctx, session); err != nil {
				return o.fail(explain(o.Server, err))
			}
		}
		return runTerminal(ctx, client, session, o, connection, attached)
	default:
		return runPlain(ctx, client, session, o, in, attached)
	}
}

func connect(ctx context.Context, o Options, connection chan<- parley.Connection) (*parley.Client, error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	return parley.Dial(ctx, o.Server, parley.Options{
		Token: o.Token, Name: "parley chat", Version: o.Version,
		OnConnection: func(c parley.Connection) {
			select {
			case connection <- c:
			default: // only the terminal reads them; the state it shows is the last it was told
			}
		},
	})
}

// knows asks the server for an agent before anything is typed for it.
func knows(ctx context.Context, client *parley.Client, agent string) error {
	hello, err := client.Hello(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, a := range hello.Agents {
		if a.Name == agent {
			return nil
		}
		names = append(names, line(a.Name))
	}
	return fmt.Errorf("there is no agent %q; there are: %s", agent, strings.Join(names, ", "))
}

// checked keeps the first error of a writer: a full disk is no answer.
type checked struct {
	to  io.Writer
	err error
}

func (c *checked) Write(b []byte) (int, error) {
	if c.err == nil {
		_, c.err = c.to.Write(b)
	}
	return len(b), c.err
}

// written says whether everything that was printed went out.
func (o Options) written() error {
	if c, ok := o.Out.(*checked); ok && c.err != nil {
		return fmt.Errorf("the output: %w", c.err)
	}
	return nil
}

func (o Options) fail(err error) int {
	fmt.Fprintf(o.Err, "parley: %s\n", strings.TrimPrefix(Clean(err.Error()), "parley: "))
	return Failed
}

// explain says what to do about an error that everybody meets once.
func explain(server string, err error) error {
	var refused *parley.Error
	var address *url.Error
	switch {
	case errors.Is(err, syscall.ECONNREFUSED):
		return fmt.Errorf("no server answers at %s; \"parley serve\" starts one, and --server names another one", server)
	case errors.Is(err, context.DeadlineExceeded):
		return fmt.Errorf("the server at %s does not answer", server)
	case errors.As(err, &refused) && (refused.Code == parley.Unauthenticated || refused.Code == parley.TokenExpired):
		return fmt.Errorf("the server wants a key, or another one (%s); --token-env and --token-file say where it stands, and \"parley key create\" makes one", refused.Message)
	case errors.As(err, &refused) && refused.Code == parley.NotFound:
		return errors.New("there is no such session, or it is not yours to see")
	case errors.As(err, &refused):
		return errors.New(refused.Message)
	case errors.As(err, &address) && address.Err != nil:
		return fmt.Errorf("%s: %w", server, address.Err)
	}
	return err
}

// comeBack says how to go on with a session, at the same server and as the same user.
func (o Options) comeBack(session string) string {
	return line(strings.TrimSpace("parley chat "+o.Again) + " --session " + session)
}
