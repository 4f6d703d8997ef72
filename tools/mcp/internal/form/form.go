package form

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/conversation"
)

// Ask asks the user one question, as conversation.ToolCall.Ask does.
type Ask func(ctx context.Context, q conversation.ToolQuestion) (string, error)

// Action is what became of a form, in the words of the protocol.
type Action string

// The actions.
const (
	Accept  Action = "accept"
	Decline Action = "decline"
	Cancel  Action = "cancel"
)

// What the user may say in place of an answer. A text that is meant so stands in quotes.
const (
	wordDecline = "decline"
	wordSkip    = "skip"
)

// maxAttempts is how often a field is asked for; then the form is cancelled.
const maxAttempts = 3

// maxFields bounds a form: nobody answers more questions in a row.
const maxFields = 20

var errDeclined = errors.New("the user declines")

// Fill asks for all fields of a schema. who is said to ask, and text is what it says. The
// error is the context's, or says that the schema cannot be asked for. A question that is
// closed without an answer cancels the form, and so does one that is answered wrongly
// three times.
func Fill(ctx context.Context, ask Ask, who, text string, schema json.RawMessage) (Action, map[string]any, error) {
	fields, err := parse(schema)
	if err != nil {
		return "", nil, err
	}
	head := fmt.Sprintf("%s asks: %s", who, strings.TrimSpace(text))
	if len(fields) == 0 {
		answer, err := ask(ctx, conversation.ToolQuestion{Text: head, Choices: []string{"accept", wordDecline}})
		switch {
		case err != nil:
			return cancelled(ctx, err)
		case same(answer, "accept"):
			return Accept, map[string]any{}, nil
		case same(answer, wordDecline):
			return Decline, nil, nil
		}
		return Cancel, nil, nil
	}
	content := map[string]any{}
	for i, f := range fields {
		if i > 0 {
			head = fmt.Sprintf("%s asks, %d of %d:", who, i+1, len(fields))
		}
		value, given, err := f.ask(ctx, ask, head)
		switch {
		case errors.Is(err, errDeclined):
			return Decline, nil, nil
		case err != nil:
			return cancelled(ctx, err)
		case given:
			content[f.name] = value
		}
	}
	return Accept, content, nil
}

// Visit asks the user to open an address by himself.
func Visit(ctx context.Context, ask Ask, who, text, address string) (Action, error) {
	answer, err := ask(ctx, conversation.ToolQuestion{
		Text: fmt.Sprintf("%s asks you to open an address: %s\n%s\nOpen it only if you expect this, and say when you are done.",
			who, strings.TrimSpace(text), address),
		Choices: []string{"done", wordDecline},
	})
	switch {
	case err != nil:
		action, _, err := cancelled(ctx, err)
		return action, err
	case same(answer, "done"):
		return Accept, nil
	case same(answer, wordDecline):
		return Decline, nil
	}
	return Cancel, nil
}

// cancelled is what becomes of a form when a question was not answered.
func cancelled(ctx context.Context, err error) (Action, map[string]any, error) {
	if ctx.Err() != nil || !errors.Is(err, conversation.ErrNoAnswer) && !errors.Is(err, errTooOften) {
		return "", nil, err
	}
	return Cancel, nil, nil
}

var errTooOften = errors.New("there was no valid answer")

// ask asks for one field until the answer is valid.
func (f *field) ask(ctx context.Context, ask Ask, head string) (value any, given bool, err error) {
	q := f.question(head)
	for range maxAttempts {
		answer, err := ask(ctx, q)
		if err != nil {
			return nil, false, err
		}
		answer = strings.TrimSpace(answer)
		switch {
		case same(answer, f.word(wordDecline)):
			return nil, false, errDeclined
		case !f.required && same(answer, f.word(wordSkip)):
			return f.standard, f.standard != nil, nil
		}
		value, why := f.read(unquoted(answer))
		if why == "" {
			return value, true, nil
		}
		q = f.question("That does not fit: " + why + "\n" + head)
	}
	return nil, false, errTooOften
}

// question asks for the field.
func (f *field) question(head string) conversation.ToolQuestion {
	var b strings.Builder
	b.WriteString(head + "\n" + f.title)
	if f.description != "" {
		b.WriteString(": " + f.description)
	}
	if hint := f.hint(); hint != "" {
		b.WriteString(" (" + hint + ")")
	}
	if f.standard != nil {
		fmt.Fprintf(&b, " [if you skip it: %s]", f.shown(f.standard))
	}
	if f.choices() {
		choices := slices.Clone(f.titles)
		if !f.required {
			choices = append(choices, f.word(wordSkip))
		}
		return conversation.ToolQuestion{Text: b.String(), Choices: append(choices, f.word(wordDecline))}
	}
	if f.required {
		b.WriteString("\nSay \"decline\" to refuse.")
	} else {
		b.WriteString("\nSay \"skip\" to leave it out, \"decline\" to refuse.")
	}
	return conversation.ToolQuestion{Text: b.String()}
}

// word is a word in place of an answer, made different from the options.
func (f *field) word(word string) string {
	if slices.ContainsFunc(f.titles, func(t string) bool { return same(t, word) }) {
		return word + " this question"
	}
	return word
}

func same(a, b string) bool {
	return strings.EqualFold(strings.TrimRight(strings.TrimSpace(a), ".!"), b)
}

// unquoted takes the quotes off a text that stands in them as a whole: it is no word
// in place of an answer.
func unquoted(text string) string {
	if len(text) > 1 && text[0] == '"' && text[len(text)-1] == '"' {
		return text[1 : len(text)-1]
	}
	return text
}
