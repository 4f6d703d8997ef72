package checker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Journal is the command that serves the tool with a side effect, which can be
// counted: it appends a line to a file. The server under test starts it.
type Journal struct {
	File string `arg:"" help:"The file to which lines are appended."`
}

type journalArgs struct {
	Line string `json:"line" jsonschema:"the line"`
	Hold string `json:"hold,omitempty" jsonschema:"how long to keep the answer back when the line is written: 50ms"`
}

// Run serves until standard input ends, which it does with the server.
func (j *Journal) Run(ctx context.Context) error {
	server := mcp.NewServer(&mcp.Implementation{Name: "journal", Version: "1"}, nil)
	mcp.AddTool(server, &mcp.Tool{Name: "append", Description: "Appends a line to a file."},
		func(ctx context.Context, _ *mcp.CallToolRequest, in journalArgs) (*mcp.CallToolResult, any, error) {
			if err := appendLine(j.File, in.Line); err != nil {
				return nil, nil, err
			}
			if err := delay(ctx, in.Hold); err != nil {
				return nil, nil, err
			}
			return &mcp.CallToolResult{Content: []mcp.Content{&mcp.TextContent{Text: "written: " + in.Line}}}, nil, nil
		})
	return server.Run(ctx, &mcp.StdioTransport{})
}

// delay holds an answer back. After a crash in that time the call's effect is there
// and its outcome is unknown.
func delay(ctx context.Context, text string) error {
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

// appendLine writes a line and syncs. Two processes may do it at once: that of a
// killed server and that of the next.
func appendLine(path, line string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Sync(), f.Close())
}

// sideEffects are the lines of the file as the sessions' logs have them.
type sideEffects struct {
	calls    map[string]int  // line → calls that may have written it
	reported map[string]bool // line → a call says that it did
	allowed  map[string]bool // the line is in a message that was read, or in an answer
}

func newSideEffects() *sideEffects {
	return &sideEffects{calls: map[string]int{}, reported: map[string]bool{}, allowed: map[string]bool{}}
}

// add takes the calls and messages of a session's log.
func (effects *sideEffects) add(md *model) {
	for _, c := range md.calls {
		if !strings.HasSuffix(c.tool, "_append") {
			continue
		}
		line := linePattern.FindString(string(c.args))
		effects.calls[line]++
		if c.status == "ok" {
			effects.reported[line] = true
		}
	}
	for _, m := range md.messageOrder {
		if m.read != 0 || m.disposition == "answered" {
			for _, line := range linePattern.FindAllString(m.text, -1) {
				effects.allowed[line] = true
			}
		}
	}
}

// check compares the file with the logs: each line is there at most once, and only
// if the log has a call that was to write it; and each call that ended ok has its
// line.
func (effects *sideEffects) check(file string) error {
	there := map[string]bool{}
	for line := range strings.Lines(file) {
		line = strings.TrimSuffix(line, "\n")
		switch {
		case there[line]:
			return violationf("%s was written twice: the tool ran twice", line)
		case effects.calls[line] == 0:
			return violationf("%s was written, and no log has a call that did", line)
		case !effects.allowed[line]:
			return violationf("%s was written, and was in no message that was read: an edit or a withdrawal had no effect", line)
		}
		there[line] = true
	}
	for line := range effects.reported {
		if !there[line] {
			return violationf("a call says that it wrote %s, and it is not there", line)
		}
	}
	for line, calls := range effects.calls {
		if calls > 1 {
			return violationf("%d calls were made to write %s", calls, line)
		}
	}
	return nil
}

// journalConfig is the configuration of a server that has the tool twice: free,
// and with approval, which is the default. It does not call the tool idempotent.
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
