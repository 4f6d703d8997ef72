package openai

import (
	"strings"

	"parley/gateway/door"
	"parley/gateway/exchange"
	"parley/gateway/openai/internal/request"

	"github.com/gofiber/fiber/v2"
)

// The objects of Chat Completions.
type (
	completion struct {
		ID       string            `json:"id"`
		Object   string            `json:"object"` // "chat.completion" or "chat.completion.chunk"
		Created  int64             `json:"created"`
		Model    string            `json:"model"`
		Choices  []choice          `json:"choices"`
		Usage    *completionUsage  `json:"usage,omitempty"`
		Metadata map[string]string `json:"metadata,omitempty"`
	}
	choice struct {
		Index    int       `json:"index"`
		Message  *chatSaid `json:"message,omitempty"`
		Delta    *chatSaid `json:"delta,omitempty"`
		Finish   *string   `json:"finish_reason"`
		Logprobs *int      `json:"logprobs"`
	}
	chatSaid struct {
		Role    string     `json:"role,omitempty"`
		Content *string    `json:"content,omitempty"`
		Refusal *string    `json:"refusal,omitempty"`
		Calls   []chatCall `json:"tool_calls,omitempty"`
	}
	chatCall struct {
		Index    *int         `json:"index,omitempty"`
		ID       string       `json:"id"`
		Type     string       `json:"type"` // "function"
		Function chatFunction `json:"function"`
	}
	chatFunction struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	}
	completionUsage struct {
		Prompt     int            `json:"prompt_tokens"`
		Completion int            `json:"completion_tokens"`
		Total      int            `json:"total_tokens"`
		Details    map[string]int `json:"prompt_tokens_details"`
	}
)

// createCompletion is POST /v1/chat/completions.
func (a *api) createCompletion(c *fiber.Ctx) error {
	body, err := door.Body(c)
	if err != nil {
		return err
	}
	r, w, err := request.ReadCompletion(body)
	if err != nil {
		return err
	}
	b, free, err := a.accept(c, &w, "completion", r.Stream)
	if err != nil {
		return err
	}
	who := door.Principal(c)
	b.whole = true
	if r.Stream {
		w := &chunkWriter{s: b.stretch(), usage: r.StreamOptions != nil && r.StreamOptions.IncludeUsage}
		return keeps(a.tell(c, who, free, b.from(), func(n *exchange.Note) ([]byte, bool) {
			w.text = w.text[:0]
			w.note(n)
			return w.text, w.s.rests()
		}))
	}
	s, err := a.wait(c, who, b)
	if err != nil {
		return keeps(err)
	}
	return keeps(completed(c, s))
}

// completed answers with a response as a completion.
func completed(c *fiber.Ctx, s *stretch) error {
	if !s.rests() {
		return &request.Refusal{Status: fiber.StatusGatewayTimeout, Code: "timeout",
			Message: "The answer takes longer than the server lets a request wait (gateway.wait_max). The message is accepted and worked on: response " + s.ref.id() + ". A stream has no such limit."}
	}
	if own := s.failure(); own != nil {
		return own
	}
	said := chatSaid{Role: "assistant"}
	var texts []string
	for _, o := range s.output {
		switch item := o.item.(type) {
		case message:
			if item.Status != statusIncomplete || s.short() != "" {
				texts = append(texts, item.Content[0].(outputText).Text)
			}
		case functionCall:
			said.Calls = append(said.Calls, chatCall{ID: item.CallID, Type: "function", Function: chatFunction{item.Name, item.Arguments}})
		case approvalRequest:
			texts = append(texts, approvalText(item))
		}
	}
	if len(texts) > 0 || len(said.Calls) == 0 {
		said.Content = pointer(strings.Join(texts, paragraph))
	}
	return c.JSON(completion{
		ID: completionPrefix + s.ref.name(), Object: "chat.completion", Created: s.at, Model: s.model, Usage: s.tokens(), Metadata: s.metadata(),
		Choices: []choice{{Message: &said, Finish: pointer(s.finish())}},
	})
}

// paragraph is what stands between two texts of one answer.
const paragraph = "\n\n"

// approvalText is an approval in words, which a yes or a no answers.
func approvalText(r approvalRequest) string {
	return "May I call " + r.Name + " with " + r.Arguments + "? (yes or no)"
}

// failure is the error of a response that has failed.
func (s *stretch) failure() *request.Refusal {
	switch {
	case s.status == statusFailed:
		message := "The task has failed."
		if f := s.run.Failure; f != nil {
			message = f.Message
		}
		return &request.Refusal{Status: fiber.StatusInternalServerError, Code: "task_failed", Message: message}
	case s.status == statusCancelled && len(s.output) == 0:
		return &request.Refusal{Status: fiber.StatusConflict, Code: "cancelled", Message: "The task was cancelled before it had an answer."}
	}
	return nil
}

func (s *stretch) finish() string {
	for _, q := range s.run.Waits() {
		if s.run.CallOf(q) != nil {
			return "tool_calls"
		}
	}
	switch {
	case s.short() == "content_filter":
		return "content_filter"
	case s.status == statusIncomplete:
		return "length"
	}
	return "stop"
}

func (s *stretch) tokens() *completionUsage {
	u := s.run.Usage
	return &completionUsage{Prompt: u.InputTokens, Completion: u.OutputTokens, Total: u.InputTokens + u.OutputTokens, Details: map[string]int{"cached_tokens": u.CachedTokens}}
}

// chunkWriter writes the chunks of a completion. A text that is dropped cannot be taken back: the
// next one begins a paragraph.
type chunkWriter struct {
	s     *stretch
	usage bool
	text  []byte // not sent yet
	role  bool   // the first chunk was written
	calls int
	said  bool // some text was
}

func (w *chunkWriter) note(n *exchange.Note) {
	w.s.add(n)
	if !w.s.begun {
		return
	}
	if !w.role {
		w.role = true
		w.delta(chatSaid{Role: "assistant", Content: pointer("")}, "")
	}
	if n.Task == w.s.ref.task {
		w.content(n)
	}
	if w.s.rests() {
		w.end()
	}
}

func (w *chunkWriter) content(n *exchange.Note) {
	switch n.Kind {
	case exchange.TextBegan:
		if w.said {
			w.say(paragraph)
		}
	case exchange.TextGrew:
		w.said = true
		w.say(n.Delta)
	case exchange.Asked:
		for _, o := range w.s.output[len(w.s.output)-1:] {
			switch item := o.item.(type) {
			case functionCall:
				w.delta(chatSaid{Calls: []chatCall{{Index: pointer(w.calls), ID: item.CallID, Type: "function", Function: chatFunction{item.Name, item.Arguments}}}}, "")
				w.calls++
			case message:
				w.block(item.Content[0].(outputText).Text)
			case approvalRequest:
				w.block(approvalText(item))
			}
		}
	}
}

// block is a text that does not stream.
func (w *chunkWriter) block(text string) {
	if w.said {
		text = paragraph + text
	}
	w.said = true
	w.say(text)
}

func (w *chunkWriter) say(text string) { w.delta(chatSaid{Content: &text}, "") }

func (w *chunkWriter) delta(said chatSaid, finish string) {
	w.chunk(completion{Choices: []choice{{Delta: &said, Finish: optional(finish)}}})
}

func (w *chunkWriter) chunk(c completion) {
	c.ID, c.Object, c.Created, c.Model = completionPrefix+w.s.ref.name(), "chat.completion.chunk", w.s.at, w.s.model
	w.data(encode(c))
}

func (w *chunkWriter) data(b []byte) {
	w.text = append(w.text, "data: "...)
	w.text = append(w.text, b...)
	w.text = append(w.text, "\n\n"...)
}

func (w *chunkWriter) end() {
	if own := w.s.failure(); own != nil {
		w.data(encode(map[string]any{"error": failure{Message: own.Message, Type: kindOf(own.Status), Code: optional(own.Code)}}))
		return
	}
	w.delta(chatSaid{}, w.s.finish())
	if w.usage {
		w.chunk(completion{Choices: []choice{}, Usage: w.s.tokens(), Metadata: w.s.metadata()})
	}
	w.data([]byte("[DONE]"))
}
