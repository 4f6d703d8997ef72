package command

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"parley/conversation"
)

// PromptArgAuto stands for --append-system-prompt with a program called claude, whose
// other arguments do not give it, and for nothing with other programs.
const PromptArgAuto = "auto"

const claudeArg = "--append-system-prompt"

// What an agent is told besides its own prompt.
const (
	// markerWord explains the ask marker.
	markerWord = "If you cannot go on without an answer of the user, end with a line that begins with %s, your question behind it, and stop: " +
		"the reply comes with the next prompt."
	// brokenWord explains the invisible characters of harmless.
	brokenWord = "In the prompt an invisible character (U+2060, word joiner) may stand behind an @. It is not part of the text: " +
		"leave it out when you repeat such text or write it to a file."
)

// promptArg returns the argument that gives an agent its instructions; "" = none.
func (o *Options) promptArg() string {
	if o.PromptArg != PromptArgAuto {
		return o.PromptArg
	}
	if filepath.Base(o.Command) == "claude" && !slices.ContainsFunc(o.Args, func(arg string) bool { return strings.HasPrefix(arg, claudeArg) }) {
		return claudeArg
	}
	return ""
}

// TakesPrompt reports whether an agent's own prompt is given to it.
func (o *Options) TakesPrompt() bool { return o.promptArg() != "" }

// CheckPrompt says why an agent's own prompt cannot be given to it.
func (o *Options) CheckPrompt(text string) error {
	if !o.TakesPrompt() {
		return nil
	}
	if strings.ContainsRune(text, 0) {
		return fmt.Errorf("it holds a zero byte, which no argument can")
	}
	// The words beside it are room that a request may need.
	if most := maxArg - len(o.instructions(&conversation.Request{Task: "t", System: "x"}, true)) + len("x"); len(text) > most {
		return fmt.Errorf("it has %d bytes, and the argument %s can hold %d", len(text), o.promptArg(), most)
	}
	return nil
}

// marker returns the marker of questions in the answer to a request; "" = none.
func (o *Options) marker(r *conversation.Request) string {
	if r.WrapUp || r.Task == "" {
		return "" // at the step limit, and without a task, a question would get no answer
	}
	return o.AskMarker
}

// instructions returns what the agent is told besides the prompt; "" = nothing. broken
// says that the prompt's mentions were broken up.
func (o *Options) instructions(r *conversation.Request, broken bool) string {
	var words []string
	if own := strings.TrimSpace(r.System); own != "" && len(r.Tools) == 0 {
		words = append(words, own) // with tools it is of an agent that has them, and speaks of them
	}
	if marker := o.marker(r); marker != "" {
		words = append(words, fmt.Sprintf(markerWord, marker))
	}
	if broken {
		words = append(words, brokenWord)
	}
	return strings.Join(words, "\n\n")
}
