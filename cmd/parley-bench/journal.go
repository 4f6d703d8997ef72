package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// journalCmd is the tool whose effect can be counted: it appends a line to a
// file. The server under test starts it.
type journalCmd struct {
	File string `arg:"" help:"The file to which lines are appended."`
}

type journalArgs struct {
	Line string `json:"line" jsonschema:"the line"`
	Hold string `json:"hold,omitempty" jsonschema:"how long to keep the answer back when the line is written: 50ms"`
}

// Run serves until standard input ends: with the server, however that ends.
func (j *journalCmd) Run(ctx context.Context) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "journal", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "append", Description: "Appends a line to a file."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in journalArgs) (*mcp.CallToolResult, any, error) {
			if err := appendLine(j.File, in.Line); err != nil {
				return nil, nil, err
			}
			if err := hold(ctx, in.Hold); err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "written: " + in.Line}}}, nil, nil
		})
	return server.Run(ctx, &mcp.StdioTransport{})
}

// hold keeps an answer back: a crash in that time meets a call whose effect is
// there and whose outcome nobody knows.
func hold(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return err
	}
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// appendLine has the line on the disk when it returns. Two processes may do it
// at once: one of a server that was killed, one of the next.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// A deposition is what the logs of the sessions say about the lines of the file.
type deposition struct {
	started map[string]int  // line → calls that may have written it
	written map[string]bool // line → a call says that it did
	allowed map[string]bool // in a text that was read as it stood, or in an answer
}

func newDeposition() *deposition {
	return &deposition{started: map[string]int{}, written: map[string]bool{}, allowed: map[string]bool{}}
}

// hear adds a session's ledger.
func (d *deposition) hear(l *ledger) {
	for _, c := range l.calls {
		if !strings.HasSuffix(c.tool, "_append") {
			continue
		}
		line := lineMark.FindString(string(c.args))
		d.started[line]++
		if c.status == "ok" {
			d.written[line] = true
		}
	}
	for _, m := range l.order {
		if m.read != 0 || m.disposition == "answered" {
			for _, line := range lineMark.FindAllString(m.text, -1) {
				d.allowed[line] = true
			}
		}
	}
}

// judge holds the file against the logs: each line is there at most once, and
// only if a call that was journaled before wrote it; and each call that says
// that it wrote has its line.
func (d *deposition) judge(file string) error {
	there := map[string]bool{}
	for line := range strings.Lines(file) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case there[line]:
			return promise("%s was written twice: the tool ran twice", line)
		case d.started[line] == 0:
			return promise("%s was written, and no log has a call that did", line)
		case !d.allowed[line]:
			return promise("%s was written, and was in no message that was read: an edit or a withdrawal had no effect", line)
		}
		there[line] = true
	}
	for line := range d.written {
		if !there[line] {
			return promise("a call says that it wrote %s, and it is not there", line)
		}
	}
	for line, calls := range d.started {
		if calls > 1 {
			return promise("%d calls were made to write %s", calls, line)
		}
	}
	return nil
}

// journalConfig is the configuration of a server that has the tool twice: free,
// and for approval, which is what it takes unless it is told otherwise. Nothing
// says that the tool is idempotent.
func journalConfig(program, file string) string {
	return fmt.Sprintf(`[[mcp]]
name = "journal"
command = %[1]q
args = ["journal", %[2]q]
approval = "never"

[[mcp]]
name = "approved"
command = %[1]q
args = ["journal", %[2]q]
`, program, file)
}
