package vendors

import (
	"fmt"
	"slices"

	"parley/conversation"
	"parley/models/modelstest"
)

func responsesWire() wire {
	return wire{path: "/responses", check: checkResponses, answer: responsesAnswer, failure: event("error", fields{
		"type": "error", "code": "server_error", "message": "something went wrong", "param": nil,
	})}
}

// checkResponses is the wire's own check, without the items that only rules know.
func checkResponses(body fields) (modelstest.Asked, []string) {
	plain := fields{}
	for name, value := range body {
		plain[name] = value
	}
	var input []any
	for _, item := range array(body["input"]) {
		if str(object(item)["type"]) != "reasoning" {
			input = append(input, item)
		}
	}
	plain["input"] = input
	return modelstest.Responses().Read(plain)
}

// responsesAnswer writes an answer that begins with reasoning, as those of reasoning models
// do; it is encrypted if the request asked for that.
func responsesAnswer(s *Server, body fields, t Move, streaming bool) []string {
	n := s.number()
	thought := fields{"type": "reasoning", "id": fmt.Sprintf("rs_%d", n), "summary": []any{}}
	if include := array(body["include"]); slices.Contains(include, any("reasoning.encrypted_content")) {
		thought["encrypted_content"] = fmt.Sprintf("sealed-%d", n)
		s.given[str(thought["id"])] = str(thought["encrypted_content"])
	}
	output := []any{thought}
	for _, item := range t.Items {
		n := s.number()
		if item.Kind == conversation.ItemCall {
			output = append(output, fields{"type": "function_call", "id": fmt.Sprintf("fc_%d", n), "call_id": callID(n),
				"name": item.Tool, "arguments": item.Args, "status": "completed"})
			continue
		}
		output = append(output, fields{"type": "message", "id": fmt.Sprintf("msg_%d", n), "role": "assistant", "status": "completed",
			"content": []any{fields{"type": "output_text", "text": item.Text, "annotations": []any{}}}})
	}
	status, name, details := "completed", "response.completed", any(nil)
	if t.Stop != 0 {
		status, name, details = "incomplete", "response.incomplete", fields{"reason": map[conversation.StopReason]string{
			conversation.StopLength: "max_output_tokens", conversation.StopFiltered: "content_filter"}[t.Stop]}
	}
	whole := fields{"id": "resp_1", "object": "response", "status": status, "error": nil, "incomplete_details": details, "model": body["model"],
		"output": output, "usage": fields{"input_tokens": 11, "output_tokens": 7, "total_tokens": 18}}
	if !streaming {
		return []string{marshal(whole)}
	}
	var list []string
	add := func(name string, f fields) {
		f["type"], f["sequence_number"] = name, len(list)
		list = append(list, event(name, f))
	}
	add("response.created", fields{"response": fields{"id": "resp_1", "status": "in_progress", "output": []any{}}})
	for i, o := range output {
		item := object(o)
		switch item["type"] {
		case "message":
			text := str(object(array(item["content"])[0])["text"])
			add("response.output_item.added", fields{"output_index": i, "item": fields{"type": "message", "id": item["id"], "role": "assistant", "content": []any{}}})
			for _, piece := range halves(text) {
				add("response.output_text.delta", fields{"output_index": i, "content_index": 0, "item_id": item["id"], "delta": piece})
			}
		case "function_call":
			add("response.output_item.added", fields{"output_index": i, "item": fields{"type": "function_call", "id": item["id"],
				"call_id": item["call_id"], "name": item["name"], "arguments": ""}})
			for _, piece := range halves(str(item["arguments"])) {
				add("response.function_call_arguments.delta", fields{"output_index": i, "item_id": item["id"], "delta": piece})
			}
		}
		add("response.output_item.done", fields{"output_index": i, "item": item})
	}
	add(name, fields{"response": whole})
	return list
}
