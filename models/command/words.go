package command

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"
)

// logRun counts and logs a run. What the agent has written on its standard error, and a
// failed one on its standard output, goes only to the log, without the prompt and the
// secrets of the block.
func (c *call) logRun(p *process, reader reader, prompt delivery, took time.Duration) {
	m := c.m
	if p.why == endedTimeout {
		m.timeouts.Add(1)
	}
	if p.killed {
		m.kills.Add(1)
	}
	m.strays.Add(int64(p.Strays))
	level, what, failed := slog.LevelDebug, "the command-line agent has answered", false
	stderr, cut := p.stderr.text()
	switch {
	case p.why == endedByCaller:
		what = "the command-line agent was stopped"
	case p.why == endedTimeout:
		level, what, failed = slog.LevelWarn, "the command-line agent timed out", true
	case !p.Exit.Succeeded():
		level, what, failed = slog.LevelWarn, "the command-line agent failed", true
	case reader.failed() != "":
		level, what, failed = slog.LevelWarn, "the command-line agent says that it has failed", true
	case p.why == endedOutputOpen:
		level, what = slog.LevelWarn, "the command-line agent has answered and left processes behind that held its output"
	case p.stderr.total > 0 || p.Strays > 0:
		level = slog.LevelInfo
	}
	if p.Lost {
		level = max(level, slog.LevelWarn)
	}
	attrs := []any{
		"session", c.r.Session, "task", c.r.Task, "step", c.r.Step, "label", m.o.Label, "took", took.Round(time.Millisecond),
		"exit", p.Exit.String(), "killed", p.killed, "strays", p.Strays, "guard_killed", p.Lost,
		"stderr", c.redact(stderr, prompt), "stderr_bytes", p.stderr.total, "stderr_cut", cut,
	}
	if failed {
		words, cut := lastWords(p, reader)
		attrs = append(attrs, "stdout", c.redact(words, prompt), "stdout_bytes", p.stdout.total, "stdout_cut", cut)
	}
	m.log.Log(context.Background(), level, what, attrs...)
}

// lastWords returns what an agent that failed has said last, which is often why. In
// stream-json that is its result, else its lines that tell of itself: the others hold
// what it has read, and what it was about to answer. cut = there was more.
func lastWords(p *process, reader reader) (words string, cut bool) {
	words, cut = p.stdout.text()
	lines, ok := reader.(*streamJSON)
	switch {
	case !ok:
		return words, cut
	case lines.result != nil && strings.TrimSpace(lines.result.Result) != "":
		var result tail
		_, _ = result.Write([]byte(lines.result.Result)) // it does not fail
		return result.text()
	}
	var told []string
	for line := range strings.Lines(words) {
		var l jsonLine
		_ = json.Unmarshal([]byte(line), &l)                                                 // what is no object has no type
		if l.Type == "" || l.Type == "result" || l.Type == "system" && l.Subtype != "init" { // the first lists all that it has
			told = append(told, strings.TrimRight(line, "\r\n"))
		} else {
			cut = true
		}
	}
	return strings.Join(told, "\n"), cut
}

// redact removes the prompt and the secrets that are known from a text.
func (c *call) redact(text string, prompt delivery) string {
	for _, value := range slices.Concat(slices.Collect(maps.Values(c.m.o.Env)), c.m.o.Secrets) {
		if len(value) >= 8 { // less is no secret
			text = strings.ReplaceAll(text, value, "[secret]")
		}
	}
	return redactPrompt(text, prompt.text, prompt.instructions)
}

// redactPrompt removes prompts from a text: as a whole, and each of their lines of at
// least 8 bytes.
func redactPrompt(text string, prompts ...string) string {
	const gone = "[prompt]"
	for _, prompt := range prompts {
		if len(prompt) >= 4 { // less would blacken half of the text and is no secret
			text = strings.ReplaceAll(text, prompt, gone)
		}
		for line := range strings.Lines(prompt) {
			line = strings.TrimSpace(line)
			for _, label := range []string{"User: ", "Assistant: "} {
				line = strings.TrimPrefix(line, label)
			}
			if len(line) >= 8 {
				text = strings.ReplaceAll(text, line, gone)
			}
		}
	}
	return text
}
