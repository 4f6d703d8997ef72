package openai

// The objects of the API, as far as they are said here. Fields that clients expect and that
// parley has no word for are null or have the API's own default.

// response is the object "response".
type response struct {
	ID                string            `json:"id"`
	Object            string            `json:"object"` // "response"
	CreatedAt         int64             `json:"created_at"`
	CompletedAt       *int64            `json:"completed_at"`
	Status            string            `json:"status"`
	Background        bool              `json:"background"`
	Error             *responseError    `json:"error"`
	IncompleteDetails *incomplete       `json:"incomplete_details"`
	Instructions      *string           `json:"instructions"`
	MaxOutputTokens   *int              `json:"max_output_tokens"`
	MaxToolCalls      *int              `json:"max_tool_calls"`
	Model             string            `json:"model"`
	Output            []any             `json:"output"`
	ParallelToolCalls bool              `json:"parallel_tool_calls"`
	Previous          *string           `json:"previous_response_id"`
	Conversation      *conversationRef  `json:"conversation"`
	PromptCacheKey    *string           `json:"prompt_cache_key"`
	SafetyIdentifier  *string           `json:"safety_identifier"`
	Reasoning         map[string]any    `json:"reasoning"`
	ServiceTier       string            `json:"service_tier"`
	Store             bool              `json:"store"`
	Temperature       float64           `json:"temperature"`
	Text              map[string]any    `json:"text"`
	ToolChoice        string            `json:"tool_choice"`
	Tools             []any             `json:"tools"`
	TopLogprobs       int               `json:"top_logprobs"`
	TopP              float64           `json:"top_p"`
	PresencePenalty   float64           `json:"presence_penalty"`
	FrequencyPenalty  float64           `json:"frequency_penalty"`
	Truncation        string            `json:"truncation"`
	Usage             *usage            `json:"usage"`
	User              *string           `json:"user"`
	Metadata          map[string]string `json:"metadata"`
}

type responseError struct {
	Code    string `json:"code"`
	Message string `json:"message"`
}

type incomplete struct {
	Reason string `json:"reason"`
}

type conversationRef struct {
	ID string `json:"id"`
}

type usage struct {
	Input        int            `json:"input_tokens"`
	InputDetails map[string]int `json:"input_tokens_details"`
	Output       int            `json:"output_tokens"`
	OutputDetail map[string]int `json:"output_tokens_details"`
	Total        int            `json:"total_tokens"`
}

// message is an item of the type "message".
type message struct {
	Type    string `json:"type"`
	ID      string `json:"id"`
	Status  string `json:"status"`
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// outputText is what an assistant's message holds.
type outputText struct {
	Type        string `json:"type"` // "output_text"
	Annotations []any  `json:"annotations"`
	Logprobs    []any  `json:"logprobs"`
	Text        string `json:"text"`
}

// inputText is what a user's message holds.
type inputText struct {
	Type string `json:"type"` // "input_text"
	Text string `json:"text"`
}

// functionCall is a call of a tool of the caller's own.
type functionCall struct {
	Type      string `json:"type"` // "function_call"
	ID        string `json:"id"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Status    string `json:"status"`
}

// functionOutput is its result.
type functionOutput struct {
	Type   string `json:"type"` // "function_call_output"
	ID     string `json:"id"`
	CallID string `json:"call_id"`
	Output string `json:"output"`
	Status string `json:"status"`
}

// approvalRequest asks whether one of our own tools may be called.
type approvalRequest struct {
	Type      string `json:"type"` // "mcp_approval_request"
	ID        string `json:"id"`
	Arguments string `json:"arguments"`
	Name      string `json:"name"`
	Server    string `json:"server_label"`
}

// approvalResponse is what was answered.
type approvalResponse struct {
	Type    string `json:"type"` // "mcp_approval_response"
	ID      string `json:"id"`
	Request string `json:"approval_request_id"`
	Approve bool   `json:"approve"`
}

// conversationObject is the object "conversation".
type conversationObject struct {
	ID        string            `json:"id"`
	Object    string            `json:"object"` // "conversation"
	CreatedAt int64             `json:"created_at"`
	Metadata  map[string]string `json:"metadata"`
}

// model is the object "model".
type model struct {
	ID      string `json:"id"`
	Object  string `json:"object"` // "model"
	Created int64  `json:"created"`
	OwnedBy string `json:"owned_by"`
}

// page is a list.
type page struct {
	Object  string  `json:"object"` // "list"
	Data    []any   `json:"data"`
	FirstID *string `json:"first_id"`
	LastID  *string `json:"last_id"`
	HasMore bool    `json:"has_more"`
}

// deleted is the answer to a deletion.
type deleted struct {
	ID      string `json:"id"`
	Object  string `json:"object"`
	Deleted bool   `json:"deleted"`
}

func texts(text string) []any {
	return []any{outputText{Type: "output_text", Annotations: []any{}, Logprobs: []any{}, Text: text}}
}

func assistant(id, status, text string) message {
	return message{Type: "message", ID: id, Status: status, Role: "assistant", Content: texts(text)}
}

func pointer[T any](v T) *T { return &v }
