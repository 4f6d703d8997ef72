package command

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"parley/conversation/option"
)

// Format is the form of the agent's answer.
type Format string

// The formats.
const (
	// FormatText: what the agent writes to its standard output is the answer, and
	// is streamed as it comes.
	FormatText Format = "text"
	// FormatStreamJSON: the agent is given "--output-format stream-json --verbose"
	// (without the second the claude command refuses the first) and writes one
	// JSON object a line. With "--include-partial-messages" among the arguments
	// its text is streamed as it comes.
	FormatStreamJSON Format = "stream-json"
)

// PromptVia is the way of the prompt to the agent.
type PromptVia string

// The ways.
const (
	// PromptAuto: as an argument, but by standard input where an argument would not
	// do: it is longer than 96 KiB, begins with "-", or holds a zero byte.
	PromptAuto PromptVia = "auto"
	// PromptArg: always as an argument. Turns are left out, the oldest first, until
	// it fits.
	PromptArg PromptVia = "arg"
	// PromptStdin: always by standard input, with a bare -p.
	PromptStdin PromptVia = "stdin"
)

// Options are the options of a model. The zero value is not usable:
// DefaultOptions. A number that is 0 is refused, never taken for its default.
//
// The tags describe a field to the configuration: option.FieldError lists
// them. MaxConcurrent has none: the key is one of all models.
type Options struct {
	// Command is the program: a name to be found in PATH, or a path.
	Command string `key:"command"`
	// Args are its arguments; they stand before -p.
	Args []string `key:"args"`
	// Dir is the directory that it runs in; "" = the server's own.
	Dir string `key:"dir"`
	// ContextPairs is the number of earlier turns (a message and its answer) the prompt
	// tells, the newest ones.
	ContextPairs int `key:"context_pairs" min:"1"`
	// Timeout is the longest time that one process may run.
	Timeout time.Duration `key:"timeout" min:"1ms"`
	// Grace is the time between asking the process group to stop (SIGTERM) and
	// killing it, and how long output may stay quiet after the process itself has
	// ended while others of its group still hold its output open.
	Grace time.Duration `key:"grace" min:"1ms"`
	// MaxConcurrent is the number of processes that run at once; more calls wait.
	MaxConcurrent int
	// MaxResponseLength bounds a text or question of an answer, in code points, the
	// mark of a cut text included.
	MaxResponseLength int `key:"max_response_length" min:"1"`
	// MaxOutput bounds how much of one process's output is kept, in bytes. The rest
	// is read and dropped, and the answer is marked as cut.
	MaxOutput int `key:"max_output" unit:"bytes" min:"1"`
	// Format is how the agent writes.
	Format Format `key:"format" choices:"text,stream-json"`
	// PromptVia is how it is asked.
	PromptVia PromptVia `key:"prompt_via" choices:"auto,arg,stdin"`
	// Guard makes a prompt text only, whatever the program would do with it.
	Guard PromptGuard `key:"guard" choices:"claude,none"`
	// PromptArg is the argument that gives the agent its own prompt, and explains the
	// marker to it: the text is the argument behind it. PromptArgAuto, or "" = none.
	PromptArg string `key:"prompt_arg"`
	// AskMarker makes a line that begins with it, and what follows it, a blocking
	// question to the user, for example "ASK:"; "" = never.
	AskMarker string `key:"ask_marker"`
	// TimeoutText is the sentence for the user after a timeout; {seconds} stands for
	// Timeout.
	TimeoutText string `key:"timeout_text"`
	// Label names the model in events, hello and metrics; "" = "command:" and the
	// program's name.
	Label string `key:"label"`
	// Env are variables of the agent's environment, beside those that it inherits. Their
	// values may be secrets. It has no tag: the configuration holds what they are made of.
	Env map[string]string
	// Withhold names the variables that it does not inherit: the secrets of others.
	Withhold []string
	// Secrets are texts that do not go to the log, beside the values of Env, wherever the
	// agent may have them from.
	Secrets []string
	// Logger gets the agent's standard error, and a failed one's standard output; nil =
	// no log.
	Logger *slog.Logger
}

// DefaultOptions returns the options of a configuration that says nothing.
func DefaultOptions() Options {
	return Options{
		Command:           "claude",
		ContextPairs:      10,
		Timeout:           120 * time.Second,
		Grace:             5 * time.Second,
		MaxConcurrent:     3,
		MaxResponseLength: 4000,
		MaxOutput:         16 << 20,
		Format:            FormatText,
		PromptVia:         PromptAuto,
		Guard:             GuardClaude, // for every program: others understand the same signs
		PromptArg:         PromptArgAuto,
		TimeoutText:       "Response timed out after {seconds} seconds.",
	}
}

// Validate returns everything that is wrong. Its sentences have the names of the
// configuration.
func (o Options) Validate() []option.FieldError {
	var wrong []option.FieldError
	refuse := func(format string, args ...any) {
		wrong = append(wrong, option.FieldError{Sentence: fmt.Sprintf(format, args...)})
	}
	if strings.TrimSpace(o.Command) == "" {
		refuse("command must name a program")
	}
	for _, text := range append([]string{o.Command, o.Dir}, o.Args...) {
		if strings.ContainsRune(text, 0) {
			refuse("command, args and dir must not hold a zero byte")
			break
		}
	}
	if o.ContextPairs < 1 {
		refuse("context_pairs must be at least 1, and is %d", o.ContextPairs)
	}
	if o.Timeout <= 0 {
		refuse("timeout must be more than 0, and is %s", o.Timeout)
	}
	if o.Grace <= 0 {
		refuse("grace must be more than 0, and is %s", o.Grace)
	}
	if o.MaxConcurrent < 1 {
		refuse("max_concurrent must be at least 1, and is %d", o.MaxConcurrent)
	}
	if least := utf8.RuneCountInString(cutMark) + 1; o.MaxResponseLength < least {
		refuse("max_response_length must be at least %d (%q must fit), and is %d", least, cutMark, o.MaxResponseLength)
	}
	if o.MaxOutput < 1 {
		refuse("max_output must be at least 1, and is %d", o.MaxOutput)
	}
	if o.Format != FormatText && o.Format != FormatStreamJSON {
		refuse("format must be %q or %q, not %q", FormatText, FormatStreamJSON, o.Format)
	}
	if o.PromptVia != PromptAuto && o.PromptVia != PromptArg && o.PromptVia != PromptStdin {
		refuse("prompt_via must be %q, %q or %q, not %q", PromptAuto, PromptArg, PromptStdin, o.PromptVia)
	}
	if o.Guard != GuardClaude && o.Guard != GuardNone {
		refuse("guard must be %q or %q, not %q", GuardClaude, GuardNone, o.Guard)
	}
	if arg := o.PromptArg; arg != "" && arg != PromptArgAuto && (!strings.HasPrefix(arg, "-") || strings.ContainsAny(arg, " \t\r\n\x00")) {
		refuse("prompt_arg must be one argument that begins with \"-\", or %q, or \"\" (none), and is %q", PromptArgAuto, arg)
	}
	if slices.Contains(o.Args, o.PromptArg) && o.PromptArg != "" {
		refuse("prompt_arg is %q, which args give already", o.PromptArg)
	}
	if o.AskMarker != "" && (strings.TrimSpace(o.AskMarker) != o.AskMarker || strings.ContainsAny(o.AskMarker, "\r\n")) {
		refuse("ask_marker must be one line without space around it, and is %q", o.AskMarker)
	}
	if strings.TrimSpace(o.TimeoutText) == "" {
		refuse("timeout_text must not be blank")
	}
	return wrong
}
