package scripted

import (
	"context"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"parley/conversation"
	"parley/conversation/tokens"
)

// Options are the options of a model. The tags describe a field to the
// configuration: option.FieldError lists them. Script has none: the
// configuration names a file.
type Options struct {
	// TokenDelay is the time between two streamed words: 20 ms for people, 0 in
	// tests (no timer is used at all then, and delegates work for less long).
	TokenDelay time.Duration `key:"token_delay" min:"0s" max:"10s"`
	// Script replaces the embedded script.toml; nil = the embedded one.
	Script []byte
}

// DefaultOptions returns the options of a configuration that says nothing.
func DefaultOptions() Options { return Options{TokenDelay: 20 * time.Millisecond} }

// Model is the scripted model. It holds no state of a conversation and may be
// used by any number of goroutines.
type Model struct {
	delay  time.Duration
	script *script
	prompt atomic.Pointer[counted] // the last system prompt: there are few, and they are long
}

// counted is a text and its number of words.
type counted struct {
	text  string
	words int
}

var _ conversation.Model = (*Model)(nil)

// New reads the script. An error names its line.
func New(o Options) (*Model, error) {
	if o.TokenDelay < 0 {
		return nil, fmt.Errorf("scripted: the token delay must not be negative, and is %s", o.TokenDelay)
	}
	data := o.Script
	if data == nil {
		data = embedded
	}
	s, err := readScript(data, o.TokenDelay == 0)
	if err != nil {
		return nil, err
	}
	return &Model{delay: o.TokenDelay, script: s}, nil
}

// Script returns a copy of the embedded script, as a start for another one.
func Script() []byte { return append([]byte(nil), embedded...) }

// Label names the model.
func (m *Model) Label() string { return "scripted" }

// Stream answers. Text is streamed word by word if the request wants that.
func (m *Model) Stream(ctx context.Context, r conversation.Request) iter.Seq2[conversation.Output, error] {
	return func(yield func(conversation.Output, error) bool) {
		d := m.script.answer(&r)
		if err := pause(ctx, d.delay); err != nil {
			yield(conversation.Output{}, err)
			return
		}
		usage := conversation.Usage{InputTokens: m.wordsOf(&r), Estimated: true}
		if d.fail == failCut {
			m.streamHalf(ctx, &r, d, yield)
			return
		}
		if d.fail != "" {
			yield(conversation.Output{}, failure(d.fail, usage))
			return
		}
		for i := range d.items {
			item := &d.items[i]
			usage.OutputTokens += count(item.Text) + count(item.Args)
			if item.Kind != conversation.ItemText || item.Text == "" || !r.Stream {
				continue
			}
			if !m.words(ctx, i, item.Text, yield) {
				return
			}
			item.Streamed = true
		}
		if err := ctx.Err(); err != nil {
			yield(conversation.Output{}, err)
			return
		}
		answer := &conversation.ModelAnswer{ResponseID: strings.Join(d.marks, " "), Items: d.items, Usage: usage}
		yield(conversation.Output{Done: answer}, nil)
	}
}

// words streams one item; false means that the stream is over.
func (m *Model) words(ctx context.Context, item int, text string, yield func(conversation.Output, error) bool) bool {
	for n := 0; text != ""; n++ {
		if n > 0 {
			if err := pause(ctx, m.delay); err != nil {
				yield(conversation.Output{}, err)
				return false
			}
		} else if err := ctx.Err(); err != nil {
			yield(conversation.Output{}, err)
			return false
		}
		end := wordEnd(text)
		if !yield(conversation.Output{Item: item, Delta: text[:end]}, nil) {
			return false
		}
		text = text[end:]
	}
	return true
}

// streamHalf streams the first half of the answer and ends without
// a terminal piece, as a broken connection does.
func (m *Model) streamHalf(ctx context.Context, r *conversation.Request, d decision, yield func(conversation.Output, error) bool) {
	text := "This answer is cut off in the"
	for _, item := range d.items {
		if item.Kind == conversation.ItemText && count(item.Text) > 1 {
			text = firstHalf(item.Text)
			break
		}
	}
	if r.Stream {
		m.words(ctx, 0, text, yield)
	}
}

// failure returns the error for a provider's failure of that kind.
func failure(kind string, usage conversation.Usage) error {
	e := &conversation.ModelError{Usage: &usage}
	switch kind {
	case failRateLimit:
		e.Failure = conversation.Failure{Code: conversation.RateLimited, Message: "the model refused the request because of too many requests (429)"}
	case failTimeout:
		e.Failure = conversation.Failure{Code: conversation.Timeout, Message: "the model did not answer in time"}
	default:
		e.Failure = conversation.Failure{Code: conversation.Unavailable, Message: "the model failed (500)"}
	}
	return e
}

// pause waits, or returns the context's error. Without a duration there is no timer.
func pause(ctx context.Context, d time.Duration) error {
	if d <= 0 || ctx.Err() != nil {
		return ctx.Err()
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// wordEnd returns where the first word of the text ends, the space behind it included.
func wordEnd(text string) int {
	inWord, inSpace := false, false
	for i, c := range text {
		space := unicode.IsSpace(c)
		if !space && inWord && inSpace {
			return i
		}
		inWord = inWord || !space
		inSpace = space
	}
	return len(text)
}

func firstHalf(text string) string {
	end := 0
	for range (count(text) + 1) / 2 {
		end += wordEnd(text[end:])
	}
	return text[:end]
}

// count returns the number of words: this model's tokens.
func count(text string) int {
	n := 0
	for range strings.FieldsSeq(text) {
		n++
	}
	return n
}

// wordsOf are the words of the prompt and of the entries; the engine has counted the latter.
func (m *Model) wordsOf(r *conversation.Request) int {
	prompt := m.prompt.Load()
	if prompt == nil || prompt.text != r.System {
		prompt = &counted{r.System, tokens.Words(r.System)}
		m.prompt.Store(prompt)
	}
	return prompt.words + r.EntryCounts().Words
}
