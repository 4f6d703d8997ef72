package vendors

import (
	"fmt"
	"strings"

	"parley/conversation"
	"parley/models/modelstest"
)

// chatStyle is how a vendor of Chat Completions answers.
type chatStyle struct {
	reasoning string             // the member with the model's reasoning; "" = it shows none
	id        func(n int) string // the id of a call
	sameIndex bool               // every call has the index 0
	whole     bool               // a call comes in one chunk
	signed    bool               // the first call has a signature
	details   bool               // the reasoning comes as a list of signed pieces besides
	usage     string             // where a stream's usage stands: one of the places below
	comment   string             // in front of a stream, and in its middle
	failure   fields             // the chunk of an error in the middle of a stream
}

// The places of a stream's usage.
const (
	usageAsked = ""      // a chunk of its own, if stream_options asks for it
	usageLast  = "last"  // in the chunk with the finish_reason, always
	usageGroq  = "xgroq" // as usageLast, in the member x_groq
)

func (c chatStyle) wire() wire {
	failure := c.failure
	if failure == nil {
		failure = fields{"error": fields{"message": "something went wrong", "type": "server_error", "code": 500}}
	}
	return wire{path: "/chat/completions", check: checkChat, answer: c.answer, failure: event("", failure)}
}

// checkChat is the wire's own check. That the schema of a tool names properties, be it
// none, is a demand of OpenAI's own: see openAIChatSchemas.
func checkChat(body fields) (modelstest.Asked, []string) {
	plain := fields{}
	for name, value := range body {
		plain[name] = value
	}
	var tools []any
	for _, t := range array(body["tools"]) {
		f := object(object(t)["function"])
		schema := fields{"properties": fields{}}
		for word, value := range object(f["parameters"]) {
			schema[word] = value
		}
		tools = append(tools, fields{"type": "function", "function": fields{"name": f["name"], "parameters": schema}})
	}
	plain["tools"] = tools
	return modelstest.Chat().Read(plain)
}

func callID(n int) string { return fmt.Sprintf("call_%08d", n) }

var usage = fields{"prompt_tokens": 11, "completion_tokens": 7, "total_tokens": 18}

// chatCalls are the calls of a move with their ids; the vendor remembers what goes with them.
func (c chatStyle) calls(s *Server, t Move, reasoning string) []fields {
	var list []fields
	for _, item := range t.Items {
		if item.Kind != conversation.ItemCall {
			continue
		}
		n := s.number()
		id := c.id(n)
		call := fields{"id": id, "type": "function", "function": fields{"name": item.Tool, "arguments": item.Args}}
		s.given[id] = reasoning
		if c.signed && len(list) == 0 {
			s.given[id] = fmt.Sprintf("signature-%d", n)
			call["extra_content"] = fields{"google": fields{"thought_signature": s.given[id]}}
		}
		list = append(list, call)
	}
	return list
}

func chatText(t Move) string {
	var texts []string
	for _, item := range t.Items {
		if item.Kind == conversation.ItemText {
			texts = append(texts, item.Text)
		}
	}
	return strings.Join(texts, "\n\n")
}

func finish(t Move, calls []fields) string {
	switch {
	case t.Stop == conversation.StopLength:
		return "length"
	case t.Stop == conversation.StopFiltered:
		return "content_filter"
	case len(calls) > 0:
		return "tool_calls"
	}
	return "stop"
}

func (c chatStyle) answer(s *Server, body fields, t Move, streaming bool) []string {
	thought, text := "", chatText(t)
	if c.reasoning != "" {
		thought = thoughts(s.number())
	}
	calls := c.calls(s, t, thought)
	details := []any{fields{"type": "reasoning.text", "text": thought, "signature": "s1", "format": "unknown", "index": 0}}
	reason := finish(t, calls)
	if !streaming {
		message := fields{"role": "assistant", "content": text}
		if text == "" {
			message["content"] = nil
		}
		if c.reasoning != "" {
			message[c.reasoning] = thought
		}
		if c.details {
			message["reasoning_details"] = details
		}
		if len(calls) > 0 {
			message["tool_calls"] = calls
		}
		return []string{marshal(fields{"id": "chatcmpl-1", "object": "chat.completion", "model": body["model"], "usage": usage,
			"choices": []any{fields{"index": 0, "message": message, "finish_reason": reason}}})}
	}
	chunk := func(delta fields, reason any) fields {
		return fields{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body["model"],
			"choices": []any{fields{"index": 0, "delta": delta, "finish_reason": reason}}}
	}
	var list []string
	add := func(f fields) { list = append(list, c.comment+event("", f)) }
	add(chunk(fields{"role": "assistant", "content": ""}, nil))
	if c.reasoning != "" {
		for i, piece := range halves(thought) {
			delta := fields{c.reasoning: piece, "content": nil}
			if c.details {
				detail := fields{"type": "reasoning.text", "text": piece, "format": "unknown", "index": 0}
				if i == 1 {
					detail["signature"] = "s1"
				}
				delta["reasoning_details"] = []any{detail}
			}
			add(chunk(delta, nil))
		}
	}
	if text != "" {
		for _, piece := range halves(text) {
			add(chunk(fields{"content": piece}, nil))
		}
	}
	for i, call := range calls {
		c.streamCall(i, call, func(piece fields) { add(chunk(fields{"tool_calls": []any{piece}}, nil)) })
	}
	last := chunk(fields{}, reason)
	switch c.usage {
	case usageLast:
		last["usage"] = usage
	case usageGroq:
		last["x_groq"] = fields{"id": "req_1", "usage": usage}
	}
	add(last)
	if c.usage == usageAsked && object(body["stream_options"])["include_usage"] == true {
		list = append(list, event("", fields{"id": "chatcmpl-1", "object": "chat.completion.chunk", "model": body["model"], "choices": []any{}, "usage": usage}))
	}
	return append(list, "data: [DONE]\n\n")
}

// streamCall sends a call: whole, or its head and then its arguments in two pieces.
func (c chatStyle) streamCall(i int, call fields, send func(piece fields)) {
	index := i
	if c.sameIndex {
		index = 0
	}
	f := object(call["function"])
	head := fields{"index": index}
	for name, value := range call {
		head[name] = value
	}
	if c.whole {
		send(head)
		return
	}
	head["function"] = fields{"name": f["name"], "arguments": ""}
	send(head)
	for _, piece := range halves(str(f["arguments"])) {
		send(fields{"index": index, "function": fields{"arguments": piece}})
	}
}
