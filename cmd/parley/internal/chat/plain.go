package chat

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	parley "parley/clients/go"
)

// said is what comes in: a text, or the end of it.
type said struct {
	text string
	err  error // io.EOF at the end
}

const (
	longestLine  = 1 << 20 // with --lines and --json
	longestInput = 8 << 20 // as one message
)

const emptyInput = `parley: nothing to say: the input is empty; "parley chat --help" shows how to use it`

var errNoText = errors.New("what came in is no text in UTF-8, so it was not sent; --attach sends a file")

// texts reads what is to be said: all of it as one message, or line by line.
func texts(ctx context.Context, o Options) <-chan said {
	in := make(chan said)
	go func() { // ends with what comes in, or with the process: a read cannot be stopped
		give := func(s said) bool {
			select {
			case in <- s:
				return true
			case <-ctx.Done():
				return false
			}
		}
		switch {
		case o.Text != "":
			give(said{text: o.Text})
		case o.Lines || o.JSON || o.Terminal:
			lines := bufio.NewScanner(o.In)
			lines.Buffer(nil, longestLine)
			for lines.Scan() {
				if strings.TrimSpace(lines.Text()) == "" {
					continue
				}
				if !o.JSON && !utf8.Valid(lines.Bytes()) { // of a command its answer says so
					give(said{err: errNoText})
					return
				}
				if !give(said{text: lines.Text()}) {
					return
				}
			}
			if err := lines.Err(); err != nil {
				if errors.Is(err, bufio.ErrTooLong) {
					err = fmt.Errorf("a line of what came in is longer than %d MiB", longestLine>>20)
				}
				give(said{err: err})
				return
			}
		default:
			all, err := io.ReadAll(io.LimitReader(o.In, longestInput+1))
			switch {
			case err != nil:
			case len(all) > longestInput:
				err = fmt.Errorf("what came in is longer than %d MiB; --attach sends a file", longestInput>>20)
			case !utf8.Valid(all):
				err = errNoText
			}
			if err != nil {
				give(said{err: err})
				return
			}
			if text := strings.TrimRight(string(all), "\r\n"); strings.TrimSpace(text) != "" && !give(said{text: text}) {
				return
			}
		}
		give(said{err: io.EOF})
	}()
	return in
}

// begun waits for the first thing that comes in; all comes from the channel that it
// returns. The error is why nothing came.
func begun(ctx context.Context, in <-chan said) (<-chan said, error) {
	var first said
	select {
	case first = <-in:
	case <-ctx.Done():
		first.err = context.Cause(ctx)
	}
	out := make(chan said)
	go func() { // ends with what comes in, or with ctx
		for s := first; ; s = <-in {
			select {
			case out <- s:
			case <-ctx.Done():
				return
			}
			if s.err != nil {
				return
			}
		}
	}()
	return out, first.err
}

// only is what comes in: one thing, and the end.
func only(s said) <-chan said {
	in := make(chan said, 2)
	in <- s
	in <- said{err: io.EOF}
	return in
}

// events reads a follow into a channel, which is closed at its end; err is why then.
func events(ctx context.Context, f *parley.Following) (all <-chan parley.Event, err *error) {
	out, end := make(chan parley.Event), new(error)
	go func() { // ends with the follow or ctx
		defer close(out)
		for e, err := range f.All(ctx) {
			if err != nil {
				*end = err
				return
			}
			select {
			case out <- e:
			case <-ctx.Done():
				*end = context.Cause(ctx)
				return
			}
		}
	}()
	return out, end
}

// begin follows a session from now on: the log of a new one, nothing old of another.
func begin(client *parley.Client, session string) *parley.Following {
	none := 0
	return client.Follow(session, parley.From{Tail: &none})
}

// runPlain prints what is answered to what comes in, and ends with the last answer. The
// files go with the first message.
func runPlain(ctx context.Context, client *parley.Client, session string, o Options, in <-chan said, files []parley.Attachment) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	shown, ended := events(ctx, begin(client, session))
	t := newTurns()
	ready, more, spoke := false, true, false
	printed := make(map[string]bool)
	for more || !t.done() {
		if err := o.written(); err != nil {
			return o.fail(err)
		}
		if !more && len(t.questions) > 0 && ready {
			break // nothing will answer it here
		}
		next := in
		if !ready || !more {
			next = nil
		}
		select {
		case e, ok := <-shown:
			if !ok {
				if ctx.Err() != nil {
					fmt.Fprintf(o.Err, "parley: stopped here; the work goes on at the server: %s\n", o.comeBack(session))
					return Failed
				}
				if *ended == nil {
					*ended = fmt.Errorf("the session was erased")
				}
				return o.fail(explain(o.Server, *ended))
			}
			if _, ok := e.Body.(*parley.Followed); ok {
				ready = true
			}
			t.apply(e)
			if q, is := e.Body.(*parley.Question); is && t.results.asked(q) {
				fmt.Fprintln(o.Err, "parley: "+t.results.note(q))
				continue
			}
			printPlain(o, e, printed)
		case s := <-next:
			if s.err != nil {
				if !errors.Is(s.err, io.EOF) {
					o.fail(s.err)
					return Usage
				}
				if len(files) > 0 && !spoke { // they are the message
					in = only(said{})
					continue
				}
				if !spoke {
					fmt.Fprintln(o.Err, emptyInput)
					return Usage
				}
				more = false
				continue
			}
			spoke = true
			message := parley.Message{Session: session, Text: s.text, Mode: o.Mode, Attachments: files}
			if len(t.questions) > 0 && len(files) == 0 { // a message with files is no answer
				message.Question, message.Mode = t.questions[0].ID, ""
			}
			files = nil
			receipt, err := client.Send(ctx, message)
			if err != nil {
				return o.fail(explain(o.Server, err))
			}
			if message.Question != "" {
				t.closed(message.Question)
			}
			t.sent(receipt)
		}
	}
	if err := o.written(); err != nil {
		return o.fail(err)
	}
	code := t.code()
	switch code {
	case Failed:
		fmt.Fprintf(o.Err, "parley: %s\n", line(t.why))
	case Asked:
		fmt.Fprintf(o.Err, "parley: a question is open; answer it with %s\n", o.comeBack(session))
	}
	return code
}

// printPlain prints what people read. A part that becomes the last one of its task comes
// again; printed are those that are there already.
func printPlain(o Options, e parley.Event, printed map[string]bool) {
	switch b := e.Body.(type) {
	case *parley.PartialResponse:
		fmt.Fprintln(o.Out, Clean(b.Text))
		printed[b.Message] = true
	case *parley.Response:
		if b.Kind != "error" && !printed[b.Message] {
			fmt.Fprintln(o.Out, Clean(b.Text))
		}
	case *parley.Question:
		fmt.Fprintln(o.Out, questionText(b))
	case *parley.Interrupted:
		fmt.Fprintln(o.Err, "parley: the connection is lost; connecting again")
	}
}

// questionText is a question with all that belongs to its answer.
func questionText(q *parley.Question) string {
	var b strings.Builder
	b.WriteString("? " + Clean(q.Text))
	if a := q.Approval; a != nil {
		fmt.Fprintf(&b, "\n  %s %s", line(a.Tool), indented(a.Args))
	}
	for i, choice := range q.Choices {
		fmt.Fprintf(&b, "\n  %d. %s", i+1, line(choice))
	}
	return b.String()
}
