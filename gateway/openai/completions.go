package openai

import (
	"encoding/json"
	"fmt"
	"strings"

	"parley/gateway/door"
	"parley/gateway/exchange"

	"github.com/gofiber/fiber/v2"
)

// completionRequest is the body of POST /v1/chat/completions, as far as it counts here.
type completionRequest struct {
	Messages      []chatMessage     `json:"messages"`
	Model         string            `json:"model"`
	Stream        bool              `json:"stream"`
	StreamOptions *streamOptions    `json:"stream_options"`
	N             *int              `json:"n"`
	Logprobs      bool              `json:"logprobs"`
	Metadata      map[string]string `json:"metadata"`
	User          string            `json:"user"`
	Tools         []tool            `json:"tools"`
	ToolChoice    json.RawMessage   `json:"tool_choice"`
	Functions     json.RawMessage   `json:"functions"`
	Format        *struct {
		Type string `json:"type"`
	} `json:"response_format"`
	Modalities []string        `json:"modalities"`
	Audio      json.RawMessage `json:"audio"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

// chatMessage is a message of Chat Completions.
type chatMessage struct {
	Role      string          `json:"role"`
	Content   json.RawMessage `json:"content"`
	ToolCalls []any           `json:"tool_calls"`
	CallID    string          `json:"tool_call_id"`
}

// readCompletion reads a request. Chat Completions have no conversation on the server: the client
// sends all of it each time. What is behind the assistant's last word is said; where the request
// names no session, what is before goes with the new one.
func readCompletion(body []byte) (r completionRequest, w wanted, err error) {
	if err := decode(body, &r); err != nil {
		return r, w, err
	}
	switch {
	case r.N != nil && *r.N != 1:
		return r, w, unsupported("n", "n must be 1: each message has one answer.")
	case r.Logprobs:
		return r, w, unsupported("logprobs", "logprobs are not supported.")
	case len(r.Functions) > 0 && string(r.Functions) != "null":
		return r, w, unsupported("functions", "functions are not supported; tools are.")
	case r.Format != nil && r.Format.Type != "" && r.Format.Type != "text":
		return r, w, unsupported("response_format", "Only response_format.type \"text\" is supported.")
	case len(r.Audio) > 0 && string(r.Audio) != "null":
		return r, w, unsupported("audio", "audio is not supported.")
	case len(r.Metadata) > maxMetadata:
		return r, w, refuse("metadata", "invalid_value", "metadata may have at most 16 keys.")
	case len(r.Messages) == 0:
		return r, w, refuse("messages", "missing_required_parameter", "messages must have at least one message.")
	case len(r.Messages) > maxItems:
		return r, w, refuse("messages", "too_many_items", "There are too many messages.")
	}
	w.where.name, w.where.user, w.model = r.Metadata["session"], r.User, r.Model
	if w.mode, err = modeOf(r.Metadata); err != nil {
		return r, w, err
	}
	if w.tools, err = functions(r.Tools, r.ToolChoice); err != nil {
		return r, w, err
	}
	var said, history, system []string
	for i, m := range r.Messages {
		param := fmt.Sprintf("messages[%d]", i)
		text, files, err := readContent(param, m.Content)
		if err != nil {
			return r, w, err
		}
		switch m.Role {
		case "system", "developer", "tool":
			if len(files) > 0 {
				return r, w, errNoFiles(param)
			}
		}
		switch m.Role {
		case "user":
			said, w.files = append(said, text), append(w.files, files...)
		case "assistant":
			history = append(history, quoted("User", said)...)
			if text != "" {
				history = append(history, quoted("Assistant", []string{text})...)
			}
			said, w.files, w.answers = nil, nil, nil
		case "system", "developer":
			system = append(system, text)
		case "tool":
			w.answers = append(w.answers, answer{id: m.CallID, prefix: callPrefix, text: text, repeated: m.CallID})
		default:
			return r, w, refuse(param+".role", "invalid_value", "role must be system, developer, user, assistant or tool.")
		}
	}
	w.said, w.history = strings.Join(said, "\n\n"), strings.Join(history, "\n")
	if w.addInstructions(system); w.said == "" && len(w.files) == 0 && len(w.answers) == 0 {
		return r, w, refuse("messages", "invalid_value", "messages must end with a message of the user, or of a tool.")
	}
	return r, w, nil
}

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
	r, w, err := readCompletion(body)
	if err != nil {
		return err
	}
	b, free, err := a.accept(c, &w, "completion", r.Stream)
	if err != nil {
		return err
	}
	who := door.Principal(c)
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
		return &refusal{status: fiber.StatusGatewayTimeout, code: "timeout",
			message: "The answer takes longer than the server lets a request wait (gateway.wait_max). The message is accepted and worked on: response " + s.ref.id() + ". A stream has no such limit."}
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
func (s *stretch) failure() *refusal {
	switch {
	case s.status == statusFailed:
		message := "The task has failed."
		if f := s.run.Failure; f != nil {
			message = f.Message
		}
		return &refusal{status: fiber.StatusInternalServerError, code: "task_failed", message: message}
	case s.status == statusCancelled && len(s.output) == 0:
		return &refusal{status: fiber.StatusConflict, code: "cancelled", message: "The task was cancelled before it had an answer."}
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
		w.data(encode(map[string]any{"error": failure{Message: own.message, Type: kindOf(own.status), Code: optional(own.code)}}))
		return
	}
	w.delta(chatSaid{}, w.s.finish())
	if w.usage {
		w.chunk(completion{Choices: []choice{}, Usage: w.s.tokens(), Metadata: w.s.metadata()})
	}
	w.data([]byte("[DONE]"))
}
