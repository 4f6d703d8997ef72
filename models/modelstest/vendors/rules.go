package vendors

import (
	"fmt"
	"maps"
	"net/http"
	"regexp"
	"slices"
)

// unknown returns the members that are not among the known ones, in order.
func unknown(members fields, known ...string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(members)) {
		if !slices.Contains(known, name) {
			list = append(list, name)
		}
	}
	return list
}

// openAIChatMembers: OpenAI refuses a member of a request that its reference does not have.
func openAIChatMembers(_ *Server, body fields) (wrong []string) {
	for _, name := range unknown(body, "audio", "frequency_penalty", "function_call", "functions", "logit_bias", "logprobs",
		"max_completion_tokens", "messages", "metadata", "modalities", "model", "n", "parallel_tool_calls", "prediction", "presence_penalty",
		"prompt_cache_key", "prompt_cache_retention", "reasoning_effort", "response_format", "safety_identifier", "seed", "service_tier",
		"stop", "store", "stream", "stream_options", "temperature", "tool_choice", "tools", "top_logprobs", "top_p", "user", "verbosity",
		"web_search_options") {
		if name == "max_tokens" {
			// Reasoning models know the newer name only.
			wrong = append(wrong, "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.")
			continue
		}
		wrong = append(wrong, "Unknown parameter: '"+name+"'.")
	}
	for i, m := range array(body["messages"]) {
		for _, name := range unknown(object(m), "role", "content", "name", "tool_calls", "tool_call_id", "refusal", "audio", "annotations", "function_call") {
			wrong = append(wrong, fmt.Sprintf("Unknown parameter: 'messages[%d].%s'.", i, name))
		}
	}
	return append(wrong, reasonersTemperature(nil, body)...)
}

// reasonersTemperature: reasoning models of OpenAI take no temperature but 1.
func reasonersTemperature(_ *Server, body fields) (wrong []string) {
	if t, given := body["temperature"]; given && t != 1.0 {
		wrong = append(wrong, "Unsupported parameter: 'temperature' is not supported with this model.")
	}
	return wrong
}

// responsesMembers: as openAIChatMembers, for the Responses API.
func responsesMembers(_ *Server, body fields) (wrong []string) {
	for _, name := range unknown(body, "background", "conversation", "include", "input", "instructions", "max_output_tokens", "max_tool_calls",
		"metadata", "model", "parallel_tool_calls", "previous_response_id", "prompt", "prompt_cache_key", "prompt_cache_retention", "reasoning",
		"safety_identifier", "service_tier", "store", "stream", "stream_options", "temperature", "text", "tool_choice", "tools", "top_logprobs",
		"top_p", "truncation", "user") {
		wrong = append(wrong, "Unknown parameter: '"+name+"'.")
	}
	return append(wrong, reasonersTemperature(nil, body)...)
}

// nothingIsKept: with store=false the provider keeps no item. Reasoning comes back
// encrypted or not at all, and a message that is called by its id needs the reasoning that
// stood before it.
func nothingIsKept(s *Server, body fields) (wrong []string) {
	reasoned := false
	for _, v := range array(body["input"]) {
		item := object(v)
		id := str(item["id"])
		switch str(item["type"]) {
		case "reasoning":
			reasoned = true
			if sealed := str(item["encrypted_content"]); sealed == "" || id != "" && s.given[id] != sealed {
				wrong = append(wrong, "Item with id '"+id+"' not found. Items are not persisted when `store` is set to false.")
			}
			continue
		case "message", "function_call":
			if id != "" && !reasoned {
				wrong = append(wrong, "Item '"+id+"' of type '"+str(item["type"])+"' was provided without its required 'reasoning' item.")
			}
		}
		reasoned = false
	}
	return wrong
}

// azureReasoningIDs: Azure refuses the id of reasoning that it did not keep.
func azureReasoningIDs(_ *Server, body fields) (wrong []string) {
	for _, v := range array(body["input"]) {
		if item := object(v); str(item["type"]) == "reasoning" && str(item["id"]) != "" {
			wrong = append(wrong, "Unknown parameter: 'input.id' of a reasoning item.")
		}
	}
	return wrong
}

// claudeVersion: the header anthropic-version is required, and one of the two that there are.
func claudeVersion(h http.Header) string {
	switch v := h.Get("Anthropic-Version"); v {
	case "2023-06-01", "2026-10-21":
		return ""
	default:
		return "anthropic-version: \"" + v + "\" is not a valid version"
	}
}

// claudeKey: the key goes as a bearer token or in x-api-key.
func claudeKey(h http.Header) string {
	if key := h.Get("X-Api-Key"); key != "" {
		return key
	}
	return bearer(h)
}

// claudeMembers: the API refuses members that its reference does not have, the sampling
// parameters since its version 2026-10-21, and more than four marks for the cache. The 5.5
// models decide themselves how long they think.
func claudeMembers(_ *Server, body fields) (wrong []string) {
	for _, name := range unknown(body, "cache_control", "container", "context_management", "inference_geo", "max_tokens", "mcp_servers", "messages",
		"metadata", "model", "output_config", "service_tier", "speed", "stop_sequences", "stream", "system", "thinking", "tool_choice", "tools") {
		wrong = append(wrong, name+": Extra inputs are not permitted")
	}
	switch kind := str(object(body["thinking"])["type"]); kind {
	case "enabled", "disabled":
		wrong = append(wrong, `"thinking.type.`+kind+`" is not supported for this model. Use "thinking.type.adaptive" and "output_config.effort" to control thinking behavior.`)
	}
	if n := marks(body); n > 4 {
		wrong = append(wrong, fmt.Sprintf("A maximum of 4 blocks with cache_control may be provided. Found %d.", n))
	}
	return wrong
}

// claudeChoice: no call is forced while the model thinks.
func claudeChoice(_ *Server, body fields) (wrong []string) {
	kind := str(object(body["thinking"])["type"])
	if choice := str(object(body["tool_choice"])["type"]); kind != "" && kind != "disabled" && (choice == "any" || choice == "tool") {
		wrong = append(wrong, "Thinking may not be enabled when tool_choice forces tool use.")
	}
	return wrong
}

// choiceOfThinkers: nor do models take that which think unless they are told not to.
func choiceOfThinkers(words string) rule {
	return func(_ *Server, body fields) (wrong []string) {
		choice := body["tool_choice"]
		if str(object(body["thinking"])["type"]) != "disabled" && choice != nil && choice != "auto" && choice != "none" {
			wrong = append(wrong, words)
		}
		return wrong
	}
}

func marks(v any) (n int) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			n += marks(one)
		}
	case map[string]any:
		for name, one := range v {
			if name == "cache_control" {
				n++
			} else {
				n += marks(one)
			}
		}
	}
	return n
}

// claudeThinking: thinking that comes back is bound to everything that stood before it:
// prompt, tools and messages. If that has changed since, the request is refused, unless it
// says that such thinking is to be dropped.
func claudeThinking(s *Server, body fields) (wrong []string) {
	if str(object(object(body["thinking"])["block_binding"])["prefix_mismatch_behavior"]) == "drop_block" {
		return nil
	}
	for i, v := range array(body["messages"]) {
		for k, block := range array(object(v)["content"]) {
			b := object(block)
			if str(b["type"]) != "thinking" {
				continue
			}
			if prefix, known := s.given[str(b["signature"])]; !known || prefix != prefixOf(body, i) {
				wrong = append(wrong, fmt.Sprintf("messages.%d.content.%d: Invalid `signature` in `thinking` block. The block is bound to a different conversation.", i, k))
			}
		}
	}
	return wrong
}

// geminiMembers: members that Gemini's own service has no field for are refused; these are
// the ones that clients met.
func geminiMembers(_ *Server, body fields) (wrong []string) {
	for _, name := range []string{"store", "frequency_penalty", "reasoning", "top_k"} {
		if _, has := body[name]; has {
			wrong = append(wrong, fmt.Sprintf("Invalid JSON payload received. Unknown name %q: Cannot find field.", name))
		}
	}
	return wrong
}

// geminiSignatures: the first call of each answer since the user's last message comes back
// with the signature that it had.
func geminiSignatures(s *Server, body fields) (wrong []string) {
	list := array(body["messages"])
	turn := 0
	for i, m := range list {
		if str(object(m)["role"]) == "user" {
			turn = i
		}
	}
	for i := turn; i < len(list); i++ {
		calls := array(object(list[i])["tool_calls"])
		if len(calls) == 0 {
			continue
		}
		first := object(calls[0])
		got := str(object(object(first["extra_content"])["google"])["thought_signature"])
		if want, own := s.given[str(first["id"])]; got == "" || own && got != want {
			wrong = append(wrong, fmt.Sprintf("Function call is missing a thought_signature in functionCall parts. Function call `%s`, position %d.",
				str(object(first["function"])["name"]), i))
		}
	}
	return wrong
}

// mistralMembers: Mistral refuses each member that its reference does not have: user,
// max_completion_tokens, stream_options.include_usage (it counts anyway), and others' members of messages.
func mistralMembers(_ *Server, body fields) (wrong []string) {
	refuse := func(place string) {
		wrong = append(wrong, "extra_forbidden: "+place+": Extra inputs are not permitted")
	}
	for _, name := range unknown(body, "frequency_penalty", "guardrails", "max_tokens", "messages", "metadata", "model", "n", "parallel_tool_calls", "prediction",
		"presence_penalty", "prompt_cache_key", "prompt_mode", "random_seed", "reasoning_effort", "response_format", "safe_prompt", "stop", "stream", "temperature",
		"tool_choice", "tools", "top_p") {
		refuse("body." + name)
	}
	known := map[string][]string{
		"system": {"role", "content"}, "user": {"role", "content"}, "assistant": {"role", "content", "tool_calls", "prefix"},
		"tool": {"role", "content", "tool_call_id", "name"},
	}
	for i, v := range array(body["messages"]) {
		m := object(v)
		for _, name := range unknown(m, known[str(m["role"])]...) {
			refuse(fmt.Sprintf("body.messages.%d.%s.%s", i, str(m["role"]), name))
		}
		for _, c := range array(m["tool_calls"]) {
			for _, name := range unknown(object(c), "id", "type", "function", "index") {
				refuse(fmt.Sprintf("body.messages.%d.assistant.tool_calls.%s", i, name))
			}
		}
	}
	return wrong
}

var mistralID = regexp.MustCompile(`^[A-Za-z0-9]{9}$`)

// mistralOrder: no user's message right behind a tool's, the assistant's is not the last,
// and ids of calls are nine letters and digits.
func mistralOrder(_ *Server, body fields) (wrong []string) {
	last := ""
	for _, v := range array(body["messages"]) {
		m := object(v)
		role := str(m["role"])
		if role == "user" && last == "tool" {
			wrong = append(wrong, "Unexpected role 'user' after role 'tool'")
		}
		for _, c := range array(m["tool_calls"]) {
			if id := str(object(c)["id"]); !mistralID.MatchString(id) {
				wrong = append(wrong, "Tool call id was "+id+" but must be a-z, A-Z, 0-9, with a length of 9.")
			}
		}
		last = role
	}
	if last == "assistant" {
		wrong = append(wrong, "Expected last role User or Tool (or Assistant with prefix True) for serving but got assistant")
	}
	return wrong
}

// reasoningComesBack: while thinking is on, an assistant's message with calls has the
// reasoning_content that it came with, also in later turns of the user's.
func reasoningComesBack(words string) rule {
	return func(s *Server, body fields) (wrong []string) {
		if str(object(body["thinking"])["type"]) == "disabled" {
			return nil
		}
		for i, v := range array(body["messages"]) {
			m := object(v)
			calls := array(m["tool_calls"])
			if len(calls) == 0 {
				continue
			}
			got := str(m["reasoning_content"])
			if want, own := s.given[str(object(calls[0])["id"])]; got == "" || own && got != want {
				wrong = append(wrong, fmt.Sprintf("%s (index %d)", words, i))
			}
		}
		return wrong
	}
}

// kimiTemperature: the temperature of the thinking models is fixed.
func kimiTemperature(_ *Server, body fields) (wrong []string) {
	if t, given := body["temperature"]; given && t != 1.0 {
		wrong = append(wrong, "invalid temperature: only 1 is allowed for this model")
	}
	return wrong
}

// groqMembers: Groq has no field for some members of OpenAI's, and for those of others in
// messages, reasoning_content among them.
func groqMembers(_ *Server, body fields) (wrong []string) {
	for _, name := range []string{"logprobs", "logit_bias", "top_logprobs"} {
		if _, has := body[name]; has {
			wrong = append(wrong, "property '"+name+"' is unsupported")
		}
	}
	for i, v := range array(body["messages"]) {
		m := object(v)
		for _, name := range unknown(m, "role", "content", "tool_calls", "tool_call_id", "reasoning") {
			wrong = append(wrong, fmt.Sprintf("'messages.%d' : for 'role:%s' the following must be satisfied[('messages.%d' : property '%s' is unsupported)]", i, str(m["role"]), i, name))
		}
	}
	return wrong
}

// templateAlternates: the chat templates of several families of models (Mistral's, Gemma's)
// raise an error unless user and assistant alternate; calls and results do not count.
func templateAlternates(_ *Server, body fields) (wrong []string) {
	n := 0
	for _, v := range array(body["messages"]) {
		m := object(v)
		role := str(m["role"])
		if role == "system" || role == "tool" || len(array(m["tool_calls"])) > 0 {
			continue
		}
		if (role == "user") != (n%2 == 0) {
			return []string{"After the optional system message, conversation roles must alternate user and assistant roles except for tool calls and results."}
		}
		n++
	}
	return nil
}
