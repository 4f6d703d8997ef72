package vendors

import (
	"encoding/json"
	"fmt"

	"parley/conversation"
	"parley/models/modelstest"
)

func messagesWire() wire {
	return wire{path: "/v1/messages", list: "/v1/models", check: checkMessages, answer: messagesAnswer, failure: event("error", fields{
		"type": "error", "error": fields{"type": "overloaded_error", "message": "something went wrong"},
	})}
}

// checkMessages is the wire's own check, without the thinking that only rules know.
func checkMessages(body fields) (modelstest.Asked, []string) {
	plain := fields{}
	for name, value := range body {
		plain[name] = value
	}
	var list []any
	for _, v := range array(body["messages"]) {
		m := object(v)
		var content []any
		for _, block := range array(m["content"]) {
			if str(object(block)["type"]) != "thinking" {
				content = append(content, block)
			}
		}
		list = append(list, fields{"role": m["role"], "content": content})
	}
	plain["messages"] = list
	return modelstest.Messages().Read(plain)
}

// messagesAnswer writes an answer that begins with thinking whose text is left out, as the
// newer models do without being asked to.
func messagesAnswer(s *Server, body fields, t Move, streaming bool) []string {
	n := s.number()
	signature := fmt.Sprintf("signature-%d", n)
	s.given[signature] = prefixOf(body, len(array(body["messages"])))
	content := []any{fields{"type": "thinking", "thinking": "", "signature": signature}}
	reason := "end_turn"
	for _, item := range t.Items {
		if item.Kind == conversation.ItemCall {
			reason = "tool_use"
			content = append(content, fields{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", s.number()), "name": item.Tool, "input": json.RawMessage(item.Args)})
			continue
		}
		content = append(content, fields{"type": "text", "text": item.Text})
	}
	switch t.Stop {
	case conversation.StopLength:
		reason = "max_tokens"
	case conversation.StopFiltered:
		reason = "refusal"
	}
	counts := fields{"input_tokens": 8, "cache_creation_input_tokens": 1, "cache_read_input_tokens": 2, "output_tokens": 7}
	if !streaming {
		return []string{marshal(fields{"id": "msg_1", "type": "message", "role": "assistant", "model": body["model"],
			"content": content, "stop_reason": reason, "stop_sequence": nil, "usage": counts})}
	}
	var list []string
	add := func(name string, f fields) {
		f["type"] = name
		list = append(list, event(name, f))
	}
	add("message_start", fields{"message": fields{"id": "msg_1", "type": "message", "role": "assistant", "content": []any{}, "usage": counts}})
	for i, b := range content {
		block := object(b)
		start, deltas := fields{"type": block["type"]}, []fields{}
		switch block["type"] {
		case "thinking":
			start["thinking"], start["signature"] = "", ""
			deltas = append(deltas, fields{"type": "signature_delta", "signature": signature})
		case "text":
			start["text"] = ""
			for _, piece := range halves(str(block["text"])) {
				deltas = append(deltas, fields{"type": "text_delta", "text": piece})
			}
		default:
			start["id"], start["name"], start["input"] = block["id"], block["name"], fields{}
			for _, piece := range halves(string(block["input"].(json.RawMessage))) {
				deltas = append(deltas, fields{"type": "input_json_delta", "partial_json": piece})
			}
		}
		add("content_block_start", fields{"index": i, "content_block": start})
		for _, d := range deltas {
			add("content_block_delta", fields{"index": i, "delta": d})
		}
		add("content_block_stop", fields{"index": i})
	}
	add("message_delta", fields{"delta": fields{"stop_reason": reason, "stop_sequence": nil}, "usage": counts})
	add("message_stop", fields{})
	return list
}

// prefixOf is everything before the message at n, without the marks for the cache, which
// say nothing to the model.
func prefixOf(body fields, n int) string {
	return marshal(unmarked([]any{body["system"], body["tools"], array(body["messages"])[:n]}))
}

func unmarked(v any) any {
	switch v := v.(type) {
	case []any:
		list := make([]any, len(v))
		for i := range v {
			list[i] = unmarked(v[i])
		}
		return list
	case map[string]any:
		m := fields{}
		for name, value := range v {
			if name != "cache_control" {
				m[name] = unmarked(value)
			}
		}
		return m
	}
	return v
}
