package modelstest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"parley/conversation"
)

// Item is an item of an answer.
type Item = conversation.Item

type fields = map[string]any

// The stand-ins report these token counts.
const (
	usageIn     = 11
	usageOut    = 7
	usageCached = 2 // of usageIn
)

// Responses is OpenAI's Responses API, from its public reference.
func Responses() Wire {
	return Wire{
		Name: "responses", Base: "/v1", Path: "/responses", plain: true,
		Carries: func(items []Item) []Item { return items },
		full: Reply{Status: http.StatusBadRequest,
			Body: `{"error":{"message":"Your input exceeds the context window of this model.","type":"invalid_request_error","param":"input","code":"context_length_exceeded"}}`},
		broke: &Reply{Status: http.StatusTooManyRequests,
			Body: `{"error":{"message":"You exceeded your current quota.","type":"insufficient_quota","param":null,"code":"insufficient_quota"}}`},
		errorFrame: event("response.failed", fields{"type": "response.failed", "response": fields{
			"id": "resp_1", "status": "failed", "output": []any{}, "error": fields{"code": "rate_limit_exceeded", "message": "slow down"},
		}}),
		frames: responsesFrames,
		body:   func(s Scenario, r Reply) string { return marshal(responsesBody(s, r, "completed")) },
		read:   readResponses,
	}
}

// responsesOutput lays items out: a reasoning item first, then the first two
// texts that follow each other as blocks of one message (M-05), the others as
// messages of their own.
func responsesOutput(items []Item) (output []fields, places [][2]int) {
	output = append(output, fields{"type": "reasoning", "id": "rs_1", "summary": []any{fields{"type": "summary_text", "text": "thinking"}}})
	for i, item := range items {
		n := len(output)
		if item.Kind == conversation.ItemCall {
			output = append(output, fields{
				"type": "function_call", "id": fmt.Sprintf("fc_%d", n), "call_id": fmt.Sprintf("call_%d", n),
				"name": item.Tool, "arguments": item.Args, "status": "completed",
			})
			places = append(places, [2]int{n, 0})
			continue
		}
		block := fields{"type": "output_text", "text": item.Text, "annotations": []any{}}
		if i == 1 && items[0].Kind == conversation.ItemText {
			last := output[n-1]
			last["content"] = append(last["content"].([]any), block)
			places = append(places, [2]int{n - 1, 1})
			continue
		}
		output = append(output, fields{
			"type": "message", "id": fmt.Sprintf("msg_%d", n), "role": "assistant", "status": "completed", "content": []any{block},
		})
		places = append(places, [2]int{n, 0})
	}
	return output, places
}

func responsesBody(s Scenario, r Reply, status string) fields {
	output, _ := responsesOutput(s.Items)
	body := fields{
		"id": "resp_1", "object": "response", "created_at": 1700000000, "status": status, "model": "m", "error": nil,
		"incomplete_details": nil, "text": fields{"format": fields{"type": "text"}}, "output": output, "usage": nil,
	}
	if status == "in_progress" {
		body["output"] = []any{}
	} else if !r.NoUsage {
		body["usage"] = fields{"input_tokens": usageIn, "output_tokens": usageOut, "total_tokens": usageIn + usageOut,
			"input_tokens_details": fields{"cached_tokens": usageCached}}
	}
	return body
}

func responsesFrames(s Scenario, r Reply) []frame {
	var list []frame
	n := 0
	add := func(name string, f fields, delta, end bool) {
		f["type"], f["sequence_number"] = name, n
		n++
		list = append(list, frame{text: event(name, f), delta: delta, end: end})
	}
	output, places := responsesOutput(s.Items)
	add("response.created", fields{"response": responsesBody(s, r, "in_progress")}, false, false)
	add("response.in_progress", fields{"response": responsesBody(s, r, "in_progress")}, false, false)
	add("response.output_item.added", fields{"output_index": 0, "item": fields{"type": "reasoning", "id": "rs_1", "summary": []any{}}}, false, false)
	add("response.reasoning_summary_text.delta", fields{"output_index": 0, "summary_index": 0, "item_id": "rs_1", "delta": "thinking"}, false, false)
	add("response.output_item.done", fields{"output_index": 0, "item": output[0]}, false, false)
	for i, item := range s.Items {
		at, block := places[i][0], places[i][1]
		whole := output[at]
		with := func(f fields) fields {
			f["output_index"], f["item_id"] = at, whole["id"]
			return f
		}
		if item.Kind == conversation.ItemCall {
			add("response.output_item.added", with(fields{"item": fields{
				"type": "function_call", "id": whole["id"], "call_id": whole["call_id"], "name": item.Tool, "arguments": "", "status": "in_progress",
			}}), false, false)
			for _, piece := range pieces(item.Args, r) {
				add("response.function_call_arguments.delta", with(fields{"delta": piece}), false, false)
			}
			add("response.function_call_arguments.done", with(fields{"arguments": item.Args}), false, false)
			add("response.output_item.done", with(fields{"item": whole}), false, false)
			continue
		}
		if block == 0 {
			add("response.output_item.added", with(fields{"item": fields{"type": "message", "id": whole["id"], "role": "assistant", "status": "in_progress", "content": []any{}}}), false, false)
		}
		add("response.content_part.added", with(fields{"content_index": block, "part": fields{"type": "output_text", "text": "", "annotations": []any{}}}), false, false)
		for _, piece := range pieces(item.Text, r) {
			add("response.output_text.delta", with(fields{"content_index": block, "delta": piece}), true, false)
		}
		add("response.output_text.done", with(fields{"content_index": block, "text": item.Text}), false, false)
		add("response.content_part.done", with(fields{"content_index": block, "part": fields{"type": "output_text", "text": item.Text, "annotations": []any{}}}), false, false)
		if next := i + 1; next == len(s.Items) || places[next][0] != at {
			add("response.output_item.done", with(fields{"item": whole}), false, false)
		}
	}
	add("response.completed", fields{"response": responsesBody(s, r, "completed")}, false, true)
	return list
}

func readResponses(body map[string]any) (a Asked, wrong []string) {
	a = Asked{Model: str(body["model"]), System: str(body["instructions"]), User: str(body["user"]), Choice: str(body["tool_choice"])}
	a.Stream, _ = body["stream"].(bool)
	if a.Model == "" {
		wrong = append(wrong, "no model")
	}
	if body["store"] != false {
		wrong = append(wrong, "the provider is to keep nothing: the log is ours")
	}
	for _, t := range array(body["tools"]) {
		a.Tools = append(a.Tools, str(object(t)["name"]))
		wrong = append(wrong, badTool(str(object(t)["name"]), object(object(t)["parameters"]))...)
	}
	var open []string // calls without a result
	for _, v := range array(body["input"]) {
		item := object(v)
		if id, given := item["id"]; given {
			wrong = append(wrong, fmt.Sprintf("item with id %v not found: items are not persisted when store is set to false", id))
		}
		switch str(item["type"]) {
		case "function_call":
			id := str(item["call_id"])
			if len(id) > 64 || id == "" {
				wrong = append(wrong, "the call id "+id)
			}
			open = append(open, id)
			a.Said = append(a.Said, "call "+id+" "+str(item["name"])+" "+str(item["arguments"]))
		case "function_call_output":
			id := str(item["call_id"])
			if i := slices.Index(open, id); i >= 0 {
				open = slices.Delete(open, i, i+1)
			} else {
				wrong = append(wrong, "no tool call found for function call output with call_id "+id)
			}
			a.Said = append(a.Said, "result "+id+" "+str(item["output"]))
		case "", "message":
			role := str(item["role"])
			if role == "user" && len(open) > 0 {
				wrong = append(wrong, fmt.Sprintf("no tool output found for function calls %v", open))
			}
			if words(item["content"]) == "" {
				wrong = append(wrong, "a message without content")
			}
			said, no := saidBy(role, item["content"], responsesPicture)
			a.Said, wrong = append(a.Said, said...), append(wrong, no...)
		default:
			wrong = append(wrong, "an item of type "+str(item["type"]))
		}
	}
	if len(open) > 0 {
		wrong = append(wrong, fmt.Sprintf("no tool output found for function calls %v", open))
	}
	return a, append(wrong, badChoice(&a)...)
}

// required is the tool_choice that wants calls alone, as OpenAI's wires have it.
const required = "required"

// badChoice returns the reasons for which a provider would refuse a tool_choice.
func badChoice(a *Asked) (wrong []string) {
	if a.Choice != "" && len(a.Tools) == 0 {
		wrong = append(wrong, "tool_choice is only allowed when tools are specified")
	}
	return wrong
}

// badTool returns the reasons for which a provider would refuse a tool.
func badTool(name string, schema map[string]any) (wrong []string) {
	if name == "" || len(name) > 64 || strings.ContainsFunc(name, func(c rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-", c)
	}) {
		wrong = append(wrong, "the tool name "+name)
	}
	if str(schema["type"]) != "object" || schema["properties"] == nil {
		wrong = append(wrong, fmt.Sprintf("the schema of %s is no object with properties: %v", name, schema))
	}
	return wrong
}

// Chat is OpenAI's Chat Completions, from its public reference.
func Chat() Wire {
	return Wire{
		Name: "chat", Base: "/v1", Path: "/chat/completions", plain: true,
		Carries: chatCarries,
		// As vLLM says it.
		full: Reply{Status: http.StatusBadRequest,
			Body: `{"error":{"message":"This model's maximum context length is 4096 tokens. However, you requested 5000.","type":"BadRequestError","param":null,"code":400}}`},
		broke: &Reply{Status: http.StatusPaymentRequired, Body: `{"error":{"message":"Insufficient credits","code":402}}`},
		// As OpenRouter does it.
		errorFrame: event("", fields{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "error": fields{"code": 429, "message": "slow down"},
			"choices": []any{fields{"index": 0, "delta": fields{"content": ""}, "finish_reason": "error"}},
		}),
		frames: chatFrames,
		body:   chatBody,
		read:   readChat,
		wants: func(body map[string]any) (wrong []string) {
			if body["stream"] == true && object(body["stream_options"])["include_usage"] != true {
				wrong = append(wrong, "no usage is asked for")
			}
			return wrong
		},
	}
}

// chatCarries: one text, before all calls.
func chatCarries(items []Item) []Item {
	var texts []string
	var list []Item
	for _, item := range items {
		if item.Kind == conversation.ItemText {
			texts = append(texts, item.Text)
		} else {
			list = append(list, item)
		}
	}
	if len(texts) > 0 {
		list = append([]Item{text(strings.Join(texts, "\n\n"))}, list...)
	}
	return list
}

func chatUsage() fields {
	return fields{"prompt_tokens": usageIn, "completion_tokens": usageOut, "total_tokens": usageIn + usageOut,
		"prompt_tokens_details": fields{"cached_tokens": usageCached}}
}

func chatReason(items []Item) string {
	if slices.ContainsFunc(items, func(i Item) bool { return i.Kind == conversation.ItemCall }) {
		return "tool_calls"
	}
	return "stop"
}

func chatCall(n int, item Item) fields {
	return fields{"id": fmt.Sprintf("call_%d", n), "type": "function", "function": fields{"name": item.Tool, "arguments": item.Args}}
}

func chatBody(s Scenario, r Reply) string {
	message := fields{"role": "assistant", "content": nil, "refusal": nil}
	var calls []any
	for _, item := range chatCarries(s.Items) {
		if item.Kind == conversation.ItemText {
			message["content"] = item.Text
		} else {
			calls = append(calls, chatCall(len(calls), item))
		}
	}
	if calls != nil {
		message["tool_calls"] = calls
	}
	body := fields{
		"id": "chatcmpl-1", "object": "chat.completion", "created": 1700000000, "model": "m",
		"choices": []any{fields{"index": 0, "message": message, "logprobs": nil, "finish_reason": chatReason(s.Items)}},
	}
	if !r.NoUsage {
		body["usage"] = chatUsage()
	}
	return marshal(body)
}

func chatFrames(s Scenario, r Reply) []frame {
	var list []frame
	chunk := func(delta fields, reason any) fields {
		f := fields{
			"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "m",
			"choices": []any{fields{"index": 0, "delta": delta, "logprobs": nil, "finish_reason": reason}},
		}
		if !r.Strict {
			f["error"] = nil // as some gateways do, and OpenAI's SDK takes it for a failure
		}
		return f
	}
	add := func(data any, delta, end bool) {
		list = append(list, frame{text: event("", data), delta: delta, end: end})
	}
	list = append(list, frame{text: ": PROCESSING\n\n"})
	add(chunk(fields{"role": "assistant", "content": ""}, nil), false, false)
	calls := 0
	for _, item := range chatCarries(s.Items) {
		if item.Kind == conversation.ItemText {
			for _, piece := range pieces(item.Text, r) {
				add(chunk(fields{"content": piece}, nil), true, false)
			}
			continue
		}
		head := chatCall(calls, item)
		head["index"], head["function"] = calls, fields{"name": item.Tool, "arguments": ""}
		add(chunk(fields{"tool_calls": []any{head}}, nil), false, false)
		for _, piece := range pieces(item.Args, r) {
			add(chunk(fields{"tool_calls": []any{fields{"index": calls, "function": fields{"arguments": piece}}}}, nil), false, false)
		}
		calls++
	}
	add(chunk(fields{}, chatReason(s.Items)), false, true)
	if !r.NoUsage {
		last := chunk(fields{}, nil)
		last["choices"], last["usage"] = []any{}, chatUsage()
		add(last, false, true)
	}
	return append(list, frame{text: "data: [DONE]\n\n", end: true})
}

func readChat(body map[string]any) (a Asked, wrong []string) {
	a = Asked{Model: str(body["model"]), User: str(body["user"]), Choice: str(body["tool_choice"])}
	a.Stream, _ = body["stream"].(bool)
	if a.Model == "" {
		wrong = append(wrong, "no model")
	}
	for _, t := range array(body["tools"]) {
		f := object(object(t)["function"])
		a.Tools = append(a.Tools, str(f["name"]))
		wrong = append(wrong, badTool(str(f["name"]), object(f["parameters"]))...)
	}
	var open []string
	for i, v := range array(body["messages"]) {
		m := object(v)
		role := str(m["role"])
		if role != "tool" && len(open) > 0 {
			wrong = append(wrong, fmt.Sprintf("an assistant message with tool_calls must be followed by tool messages: %v", open))
			open = nil
		}
		switch role {
		case "system":
			if i != 0 {
				wrong = append(wrong, "a system message that is not the first")
			}
			a.System = words(m["content"])
		case "user":
			said, no := saidBy(role, m["content"], chatPicture)
			a.Said, wrong = append(a.Said, said...), append(wrong, no...)
		case "assistant":
			if said := words(m["content"]); said != "" {
				a.Said = append(a.Said, "assistant: "+said)
			} else if m["tool_calls"] == nil {
				wrong = append(wrong, "an assistant message with nothing in it")
			}
			for _, c := range array(m["tool_calls"]) {
				f, id := object(object(c)["function"]), str(object(c)["id"])
				if id == "" || len(id) > 40 {
					wrong = append(wrong, "the call id "+id)
				}
				open = append(open, id)
				a.Said = append(a.Said, "call "+id+" "+str(f["name"])+" "+str(f["arguments"]))
			}
		case "tool":
			id := str(m["tool_call_id"])
			if k := slices.Index(open, id); k >= 0 {
				open = slices.Delete(open, k, k+1)
			} else {
				wrong = append(wrong, "a tool message without a preceding tool call: "+id)
			}
			a.Said = append(a.Said, "result "+id+" "+words(m["content"]))
		default:
			wrong = append(wrong, "the role "+role)
		}
	}
	if len(open) > 0 {
		wrong = append(wrong, fmt.Sprintf("calls without tool messages: %v", open))
	}
	return a, append(wrong, badChoice(&a)...)
}

// Messages is Anthropic's Messages API, from its public reference.
func Messages() Wire {
	return Wire{
		Name: "messages", Base: "", Path: "/v1/messages",
		Carries: func(items []Item) []Item { return items },
		full: Reply{Status: http.StatusBadRequest,
			Body: `{"type":"error","error":{"type":"invalid_request_error","message":"prompt is too long: 210000 tokens > 200000 maximum"}}`},
		broke:      &Reply{Status: http.StatusPaymentRequired, Body: `{"type":"error","error":{"type":"billing_error","message":"no credit"}}`},
		errorFrame: event("error", fields{"type": "error", "error": fields{"type": "rate_limit_error", "message": "slow down"}}),
		frames:     messagesFrames,
		body:       messagesBody,
		read:       readMessages,
	}
}

func messagesReason(items []Item) string {
	if slices.ContainsFunc(items, func(i Item) bool { return i.Kind == conversation.ItemCall }) {
		return "tool_use"
	}
	return "end_turn"
}

func messagesUsage(r Reply) fields {
	if r.NoUsage {
		return fields{"input_tokens": 0, "output_tokens": 0}
	}
	// Tokens that were read from the provider's cache are input as well.
	return fields{"input_tokens": usageIn - usageCached - 1, "cache_creation_input_tokens": 1, "cache_read_input_tokens": usageCached, "output_tokens": usageOut}
}

func messagesBody(s Scenario, r Reply) string {
	content := []any{}
	for i, item := range s.Items {
		if item.Kind == conversation.ItemText {
			content = append(content, fields{"type": "text", "text": item.Text})
		} else {
			content = append(content, fields{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", i), "name": item.Tool, "input": json.RawMessage(item.Args)})
		}
	}
	return marshal(fields{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": content,
		"stop_reason": messagesReason(s.Items), "stop_sequence": nil, "usage": messagesUsage(r),
	})
}

func messagesFrames(s Scenario, r Reply) []frame {
	var list []frame
	add := func(name string, f fields, delta, end bool) {
		f["type"] = name
		list = append(list, frame{text: event(name, f), delta: delta, end: end})
	}
	first := messagesUsage(r)
	first["output_tokens"] = 0
	add("message_start", fields{"message": fields{
		"id": "msg_1", "type": "message", "role": "assistant", "model": "m", "content": []any{}, "stop_reason": nil, "stop_sequence": nil, "usage": first,
	}}, false, false)
	for i, item := range s.Items {
		block := fields{"type": "text", "text": ""}
		if item.Kind == conversation.ItemCall {
			block = fields{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", i), "name": item.Tool, "input": fields{}}
		}
		add("content_block_start", fields{"index": i, "content_block": block}, false, false)
		if i == 0 {
			add("ping", fields{}, false, false)
		}
		for _, piece := range pieces(item.Text, r) {
			add("content_block_delta", fields{"index": i, "delta": fields{"type": "text_delta", "text": piece}}, true, false)
		}
		for _, piece := range pieces(item.Args, r) {
			add("content_block_delta", fields{"index": i, "delta": fields{"type": "input_json_delta", "partial_json": piece}}, false, false)
		}
		add("content_block_stop", fields{"index": i}, false, false)
	}
	add("message_delta", fields{"delta": fields{"stop_reason": messagesReason(s.Items), "stop_sequence": nil}, "usage": messagesUsage(r)}, false, false)
	add("message_stop", fields{}, false, true)
	return list
}

func readMessages(body map[string]any) (a Asked, wrong []string) {
	a = Asked{Model: str(body["model"]), System: words(body["system"]), User: str(object(body["metadata"])["user_id"])}
	a.Stream, _ = body["stream"].(bool)
	if a.Choice = str(object(body["tool_choice"])["type"]); a.Choice == "any" {
		a.Choice = required
	}
	if most, _ := body["max_tokens"].(float64); a.Model == "" || most < 1 {
		wrong = append(wrong, "no model or no max_tokens")
	}
	for _, t := range array(body["tools"]) {
		a.Tools = append(a.Tools, str(object(t)["name"]))
		wrong = append(wrong, badTool(str(object(t)["name"]), object(object(t)["input_schema"]))...)
	}
	last, open := "assistant", []string(nil)
	for _, v := range array(body["messages"]) {
		m := object(v)
		role := str(m["role"])
		if role == last {
			wrong = append(wrong, "two messages in a row of "+role+", or the first not of the user")
		}
		last = role
		others := false
		for _, v := range array(m["content"]) {
			block := object(v)
			wrong = append(wrong, badMarks(block)...)
			switch str(block["type"]) {
			case "text":
				others = true
				if strings.TrimSpace(str(block["text"])) == "" {
					wrong = append(wrong, "text content blocks must contain non-whitespace text")
				}
				a.Said = append(a.Said, role+": "+str(block["text"]))
			case "image":
				others = true
				said, no := saidBy(role, []any{block}, messagesPicture)
				a.Said, wrong = append(a.Said, said...), append(wrong, no...)
			case "tool_use":
				args, _ := json.Marshal(block["input"])
				if object(block["input"]) == nil || role != "assistant" {
					wrong = append(wrong, "a tool_use without an object as input, or of the user")
				}
				id := str(block["id"])
				if id == "" || strings.ContainsAny(id, ".: /") {
					wrong = append(wrong, "the tool_use id "+id)
				}
				open = append(open, id)
				a.Said = append(a.Said, "call "+id+" "+str(block["name"])+" "+string(args))
			case "tool_result":
				id := str(block["tool_use_id"])
				if others {
					wrong = append(wrong, "tool_result blocks must come first")
				}
				if k := slices.Index(open, id); k >= 0 {
					open = slices.Delete(open, k, k+1)
				} else {
					wrong = append(wrong, "unexpected tool_use_id found in tool_result blocks: "+id)
				}
				a.Said = append(a.Said, "result "+id+" "+words(block["content"]))
			default:
				wrong = append(wrong, "a block of type "+str(block["type"]))
			}
		}
		if role == "user" && len(open) > 0 {
			wrong = append(wrong, fmt.Sprintf("tool_use ids were found without tool_result blocks immediately after: %v", open))
			open = nil
		}
	}
	if last != "user" {
		wrong = append(wrong, "the conversation must end with a user message")
	}
	if slices.ContainsFunc(a.Said, func(s string) bool { return strings.HasPrefix(s, "call ") }) && len(a.Tools) == 0 {
		wrong = append(wrong, "requests which include tool_use blocks must define tools")
	}
	if marks := strings.Count(marshal(body), `"cache_control":`); marks > 4 {
		wrong = append(wrong, fmt.Sprintf("a maximum of 4 blocks with cache_control may be provided, found %d", marks))
	}
	return a, append(wrong, badChoice(&a)...)
}

// badMarks says what is wrong with the marks for the cache on a block of a message.
func badMarks(block fields) (wrong []string) {
	for _, v := range array(block["content"]) {
		if _, marked := object(v)["cache_control"]; marked {
			wrong = append(wrong, "cache_control is not supported inside of a block")
		}
	}
	return wrong
}

func marshal(v any) string {
	raw, err := json.Marshal(v)
	if err != nil {
		panic(err) // maps of strings and numbers
	}
	return string(raw)
}
