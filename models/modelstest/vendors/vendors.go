package vendors

import (
	"fmt"
	"net/http"
)

// All returns the vendors, in the order of their profiles in docs/MODELS.md. OpenAI and
// Azure are there with both of their APIs.
func All() []*Vendor {
	chat := func(c chatStyle) wire {
		if c.id == nil {
			c.id = callID
		}
		return c.wire()
	}
	return []*Vendor{
		{Name: "OpenAI", Base: "/v1", Models: []string{"gpt-5.6", "gpt-5.6-luna", "gpt-5.5"}, key: bearer, wire: responsesWire(),
			rules: []rule{responsesMembers, nothingIsKept}},
		{Name: "OpenAI, chat", Base: "/v1", Models: []string{"gpt-5.6", "gpt-5.5"}, key: bearer, wire: chat(chatStyle{}),
			rules: []rule{openAIChatMembers, openAIChatSchemas}},
		{Name: "Azure OpenAI", Base: "/openai/v1", Models: []string{"my-deployment"}, key: azureKey, wire: responsesWire(),
			rules: []rule{responsesMembers, nothingIsKept, azureReasoningIDs}, refusal: azureRefusal},
		{Name: "Anthropic", Models: []string{"claude-sonnet-5-5", "claude-opus-5-5", "claude-haiku-5-5"},
			key: claudeKey, headers: claudeVersion, wire: messagesWire(), rules: []rule{claudeMembers, claudeThinking, claudeChoice}, refusal: claudeRefusal},
		{Name: "Gemini", Base: "/v1beta/openai", Models: []string{"gemini-3-flash-preview"}, key: bearer,
			wire:  chat(chatStyle{signed: true, sameIndex: true, whole: true, usage: usageLast}),
			rules: []rule{geminiMembers, geminiSchemas, geminiSignatures}, refusal: geminiRefusal},
		{Name: "Mistral", Base: "/v1", Models: []string{"mistral-medium-latest", "mistral-large-latest"}, key: bearer, status: http.StatusUnprocessableEntity,
			wire:  chat(chatStyle{id: func(n int) string { return fmt.Sprintf("aB3dE%04d", n) }, whole: true, usage: usageLast}),
			rules: []rule{mistralMembers, mistralOrder}, refusal: mistralRefusal},
		{Name: "DeepSeek", Base: "", Models: []string{"deepseek-v4-pro", "deepseek-v4-flash"}, key: bearer,
			wire: chat(chatStyle{reasoning: "reasoning_content", usage: usageLast}),
			rules: []rule{reasoningComesBack("The `reasoning_content` in the thinking mode must be passed back to the API."),
				choiceOfThinkers("Thinking mode does not support this tool_choice")}},
		{Name: "Kimi", Base: "/v1", Models: []string{"kimi-k2.6", "kimi-k3"}, key: bearer,
			wire: chat(chatStyle{reasoning: "reasoning_content", id: func(n int) string { return fmt.Sprintf("lookup:%d", n) }, usage: usageAsked}),
			rules: []rule{reasoningComesBack("thinking is enabled but reasoning_content is missing in assistant tool call message"),
				choiceOfThinkers("tool_choice 'required' is incompatible with thinking enabled"), kimiSchemas, kimiTemperature}},
		{Name: "OpenRouter", Base: "/api/v1", Models: []string{"anthropic/claude-sonnet-5.5"}, key: bearer, shown: true,
			wire: chat(chatStyle{reasoning: "reasoning", details: true, comment: ": OPENROUTER PROCESSING\n\n", failure: fields{
				"id": "gen-1", "object": "chat.completion.chunk", "error": fields{"code": 502, "message": "Provider disconnected"},
				"choices": []any{fields{"index": 0, "delta": fields{"content": ""}, "finish_reason": "error"}},
			}}), refusal: func(status int, words string) string {
				return marshal(fields{"error": fields{"code": status, "message": words}})
			}},
		{Name: "Groq", Base: "/openai/v1", Models: []string{"openai/gpt-oss-120b"}, key: bearer,
			wire: chat(chatStyle{reasoning: "reasoning", whole: true, usage: usageGroq}), rules: []rule{groqMembers}},
		// Ollama ignores what it does not know, and gives each call the index 0.
		{Name: "Ollama", Base: "/v1", Models: []string{"qwen3"}, wire: chat(chatStyle{reasoning: "reasoning", sameIndex: true, whole: true})},
		{Name: "vLLM", Base: "/v1", Models: []string{"mistralai/Devstral-Small-2-24B-Instruct-2512"},
			wire: chat(chatStyle{reasoning: "reasoning"}), rules: []rule{templateAlternates},
			refusal: func(status int, words string) string {
				return marshal(fields{"error": fields{"message": words, "type": "BadRequestError", "param": nil, "code": status}})
			}},
		// An error of the template is the server's own.
		{Name: "llama.cpp", Base: "/v1", Models: []string{"gemma-3"}, status: http.StatusInternalServerError,
			wire: chat(chatStyle{reasoning: "reasoning_content", usage: usageLast}), rules: []rule{templateAlternates},
			refusal: func(status int, words string) string {
				return marshal(fields{"error": fields{"code": status, "message": "Error: Jinja Exception: " + words, "type": "server_error"}})
			}},
	}
}

// azureKey: the key goes in the header api-key; a bearer token is one of Entra ID.
func azureKey(h http.Header) string { return h.Get("Api-Key") }

func azureRefusal(status int, words string) string {
	return marshal(fields{"error": fields{"code": fmt.Sprint(status), "message": words}})
}

func claudeRefusal(status int, words string) string {
	kind := map[int]string{401: "authentication_error", 404: "not_found_error", 429: "rate_limit_error", 500: "api_error"}[status]
	if kind == "" {
		kind = "invalid_request_error"
	}
	return marshal(fields{"type": "error", "error": fields{"type": kind, "message": words}})
}

// geminiRefusal: the error stands in a list of one.
func geminiRefusal(status int, words string) string {
	return marshal([]any{fields{"error": fields{"code": status, "message": words, "status": "INVALID_ARGUMENT"}}})
}

func mistralRefusal(_ int, words string) string {
	return marshal(fields{"object": "error", "message": words, "type": "invalid_request_message_order", "param": nil, "code": "3230"})
}
