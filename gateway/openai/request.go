package openai

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"strings"

	"parley/conversation"
	"parley/gateway/attach"
)

// createRequest is the body of POST /v1/responses, as far as it counts here. What only tunes a
// model (temperature and the like) is taken and has no effect: the agent's own settings hold.
type createRequest struct {
	Input        json.RawMessage   `json:"input"`
	Instructions *string           `json:"instructions"`
	Model        string            `json:"model"`
	Stream       bool              `json:"stream"`
	Background   bool              `json:"background"`
	Conversation json.RawMessage   `json:"conversation"`
	Previous     string            `json:"previous_response_id"`
	Metadata     map[string]string `json:"metadata"`
	User         string            `json:"user"`
	Tools        []tool            `json:"tools"`
	ToolChoice   json.RawMessage   `json:"tool_choice"`
	Prompt       json.RawMessage   `json:"prompt"`
	Text         *struct {
		Format *struct {
			Type string `json:"type"`
		} `json:"format"`
	} `json:"text"`
}

// tool is a tool in a request; that of Chat Completions has a function inside.
type tool struct {
	Type        string          `json:"type"`
	Name        string          `json:"name"`
	Description string          `json:"description"`
	Parameters  json.RawMessage `json:"parameters"`
	Function    *tool           `json:"function"`
}

// wanted is what a request comes to: what is said, answered and set, and where.
type wanted struct {
	where        where
	said         string
	files        []attach.Upload
	answers      []answer
	model        string
	instructions *string                 // nil = as the session has them
	tools        []conversation.ToolSpec // nil = none
	mode         conversation.Mode
	history      string // what a client without a session says was said before
}

// where is the session that a request is about: the first of these that is named.
type where struct {
	conversation string // an id
	previous     string // a response
	name         string // metadata.session
	user         string
}

// answer is a result of the caller's own tool, or an approval.
type answer struct {
	id       string // of the call, or of the request
	prefix   string
	text     string
	repeated string // what makes the answer the same when it comes twice
}

// Bounds of a request, besides limits.body_bytes.
const (
	maxItems    = 10_000
	maxMetadata = 16
)

func readCreate(body []byte) (r createRequest, w wanted, err error) {
	if err := decode(body, &r); err != nil {
		return r, w, err
	}
	switch {
	case len(r.Prompt) > 0 && string(r.Prompt) != "null":
		return r, w, unsupported("prompt", "Prompt templates are not supported: agents have their prompts from the server's configuration, and instructions add to them.")
	case r.Text != nil && r.Text.Format != nil && r.Text.Format.Type != "" && r.Text.Format.Type != "text":
		return r, w, unsupported("text.format", "Only text.format.type \"text\" is supported.")
	case len(r.Metadata) > maxMetadata:
		return r, w, refuse("metadata", "invalid_value", "metadata may have at most 16 keys.")
	}
	if w.where.conversation, err = conversationOf(r.Conversation); err != nil {
		return r, w, err
	}
	w.where.previous, w.where.name, w.where.user = r.Previous, r.Metadata["session"], r.User
	if w.where.conversation != "" && w.where.previous != "" {
		return r, w, refuse("previous_response_id", "mutually_exclusive_parameters", "Only one of previous_response_id and conversation may be given.")
	}
	if w.mode, err = modeOf(r.Metadata); err != nil {
		return r, w, err
	}
	if w.tools, err = functions(r.Tools, r.ToolChoice); err != nil {
		return r, w, err
	}
	w.model, w.instructions = r.Model, r.Instructions
	return r, w, readInput(r.Input, &w)
}

func decode(body []byte, v any) error {
	if len(body) == 0 {
		return refuse("", "invalid_json", "The body must be a JSON object.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(v); err != nil {
		return refuse("", "invalid_json", "The body could not be read as JSON of the expected shape: "+jsonTrouble(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return refuse("", "invalid_json", "The body must be one JSON object.")
	}
	return nil
}

// jsonTrouble is what is wrong with a body, without any of it.
func jsonTrouble(err error) string {
	switch e := err.(type) { //nolint:errorlint // the decoder's own errors are not wrapped
	case *json.UnmarshalTypeError:
		return fmt.Sprintf("%q has the wrong type.", e.Field)
	case *json.SyntaxError:
		return fmt.Sprintf("there is an error at byte %d.", e.Offset)
	default:
		return "it ends too early, or is none."
	}
}

// conversationOf reads a conversation: its id, or an object with that.
func conversationOf(raw json.RawMessage) (string, error) {
	if len(raw) == 0 || string(raw) == "null" {
		return "", nil
	}
	var id string
	if json.Unmarshal(raw, &id) == nil {
		return id, nil
	}
	var object conversationRef
	if json.Unmarshal(raw, &object) != nil || object.ID == "" {
		return "", refuse("conversation", "invalid_type", "conversation must be an id, or an object with an id.")
	}
	return object.ID, nil
}

// modeOf is our own extension: metadata.mode says what the message does when a task runs.
// Without it each request is a task of its own.
func modeOf(metadata map[string]string) (conversation.Mode, error) {
	word, said := metadata["mode"]
	if !said {
		return conversation.ModeQueue, nil
	}
	mode, ok := conversation.ParseMode(word)
	if !ok {
		return 0, refuse("metadata.mode", "invalid_value", "metadata.mode must be steer, queue, collect, interrupt or reject.")
	}
	return mode, nil
}

// functions are the caller's own tools. The server's tools are the agent's business.
func functions(tools []tool, choice json.RawMessage) ([]conversation.ToolSpec, error) {
	var word string
	if len(choice) > 0 && string(choice) != "null" {
		if json.Unmarshal(choice, &word) != nil || word != "auto" && word != "none" {
			return nil, unsupported("tool_choice", "tool_choice may be auto or none: which tools are called is the agent's decision.")
		}
	}
	var specs []conversation.ToolSpec
	for i := range tools {
		t := tools[i]
		if t.Type != "function" {
			return nil, unsupported(fmt.Sprintf("tools[%d].type", i), "Only tools of the type \"function\" can come with a request; the server's own are configured with its agents.")
		}
		if t.Function != nil {
			t = *t.Function
		}
		specs = append(specs, conversation.ToolSpec{Name: t.Name, Description: t.Description, Schema: t.Parameters})
	}
	if word == "none" {
		return nil, nil
	}
	return specs, nil
}

// inputItem is an item of the input, of any type.
type inputItem struct {
	Type    string          `json:"type"`
	Role    string          `json:"role"`
	Content json.RawMessage `json:"content"`
	CallID  string          `json:"call_id"`
	Name    string          `json:"name"`
	Args    string          `json:"arguments"`
	Output  json.RawMessage `json:"output"`
	Request string          `json:"approval_request_id"`
	Approve bool            `json:"approve"`
}

// readInput reads the input: a text, or items. Where it holds a whole conversation, what comes
// behind the assistant's last word is said; the rest is history.
func readInput(raw json.RawMessage, w *wanted) error {
	if len(raw) == 0 || string(raw) == "null" {
		return refuse("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	}
	if json.Unmarshal(raw, &w.said) == nil {
		return nil
	}
	var items []inputItem
	if err := json.Unmarshal(raw, &items); err != nil {
		return refuse("input", "invalid_type", "input must be a text, or a list of items: "+jsonTrouble(err))
	}
	if len(items) > maxItems {
		return refuse("input", "too_many_items", "input has too many items.")
	}
	var said, history, system []string
	for i, item := range items {
		param := fmt.Sprintf("input[%d]", i)
		switch item.Type {
		case "", "message":
			text, files, err := readContent(param, item.Content)
			if err != nil {
				return err
			}
			switch item.Role {
			case "user":
				said, w.files = append(said, text), append(w.files, files...)
			case "assistant":
				history = append(history, quoted("User", said)...)
				history = append(history, quoted("Assistant", []string{text})...)
				said, w.files, w.answers = nil, nil, nil
			case "system", "developer":
				if len(files) > 0 {
					return errNoFiles(param)
				}
				system = append(system, text)
			default:
				return refuse(param+".role", "invalid_value", "role must be user, assistant, system or developer.")
			}
		case "function_call", "mcp_approval_request":
			history = append(history, quoted("User", said)...)
			said, w.files, w.answers = nil, nil, nil
		case "function_call_output":
			text, err := readText(param+".output", item.Output)
			if err != nil {
				return err
			}
			w.answers = append(w.answers, answer{id: item.CallID, prefix: callPrefix, text: text, repeated: item.CallID})
		case "mcp_approval_response":
			text := `{"approve":false}`
			if item.Approve {
				text = `{"approve":true}`
			}
			w.answers = append(w.answers, answer{id: item.Request, prefix: approvalPrefix, text: text, repeated: item.Request})
		case "reasoning", "item_reference", "mcp_list_tools", "compaction":
			// of answers before: nothing is said with it
		default:
			return unsupported(param+".type", fmt.Sprintf("Items of the type %q are not supported.", excerpt(item.Type)))
		}
	}
	w.said = strings.Join(said, "\n\n")
	w.history = strings.Join(history, "\n")
	w.addInstructions(system)
	if w.said == "" && len(w.files) == 0 && len(w.answers) == 0 {
		return refuse("input", "missing_required_parameter", "input has nothing that a user says: it must end with a message of the user, a function_call_output or an mcp_approval_response.")
	}
	return nil
}

func (w *wanted) addInstructions(system []string) {
	if len(system) == 0 {
		return
	}
	if w.instructions != nil && *w.instructions != "" {
		system = append([]string{*w.instructions}, system...)
	}
	w.instructions = pointer(strings.Join(system, "\n\n"))
}

// quoted are lines of a conversation before.
func quoted(who string, texts []string) (lines []string) {
	for _, text := range texts {
		lines = append(lines, who+": "+text)
	}
	return lines
}

func excerpt(s string) string { return conversation.Excerpt(s, 40) }

// content is a piece of a message.
type content struct {
	Type     string          `json:"type"`
	Text     string          `json:"text"`
	Refusal  string          `json:"refusal"`
	ImageURL json.RawMessage `json:"image_url"`
	FileData string          `json:"file_data"`
	FileID   string          `json:"file_id"`
	FileName string          `json:"filename"`
	File     *content        `json:"file"`
}

// readContent reads what a message holds: a text, or pieces. Files must come along as data URLs:
// nothing is fetched from an address that a client names.
func readContent(param string, raw json.RawMessage) (text string, files []attach.Upload, err error) {
	if len(raw) == 0 || string(raw) == "null" || json.Unmarshal(raw, &text) == nil {
		return text, nil, nil
	}
	var pieces []content
	if err := json.Unmarshal(raw, &pieces); err != nil {
		return "", nil, refuse(param, "invalid_type", "content must be a text, or a list of pieces: "+jsonTrouble(err))
	}
	var texts []string
	for i, p := range pieces {
		param := fmt.Sprintf("%s.content[%d]", param, i)
		switch p.Type {
		case "input_text", "output_text", "text":
			texts = append(texts, p.Text)
		case "refusal":
			texts = append(texts, p.Refusal)
		case "input_image", "image_url":
			file, err := dataURL(param, imageURL(p.ImageURL), "picture")
			if err != nil {
				return "", nil, err
			}
			files = append(files, file)
		case "input_file", "file":
			if p.File != nil {
				p = *p.File
			}
			file, err := dataURL(param, p.FileData, p.FileName)
			if err != nil {
				return "", nil, err
			}
			files = append(files, file)
		default:
			return "", nil, unsupported(param+".type", fmt.Sprintf("Content of the type %q is not supported.", excerpt(p.Type)))
		}
	}
	return strings.Join(texts, "\n\n"), files, nil
}

// readText is readContent for what holds no files.
func readText(param string, raw json.RawMessage) (string, error) {
	text, files, err := readContent(param, raw)
	if err == nil && len(files) > 0 {
		err = errNoFiles(param)
	}
	return text, err
}

func errNoFiles(param string) error {
	return unsupported(param, "Files can come with messages of the user only.")
}

// imageURL is the address of a picture: in Chat Completions it is within an object.
func imageURL(raw json.RawMessage) string {
	var url string
	if json.Unmarshal(raw, &url) == nil {
		return url
	}
	var object struct {
		URL string `json:"url"`
	}
	_ = json.Unmarshal(raw, &object)
	return object.URL
}

func dataURL(param, url, name string) (attach.Upload, error) {
	head, data, ok := strings.Cut(url, ",")
	kind, encoded := strings.CutSuffix(strings.TrimPrefix(head, "data:"), ";base64")
	if !ok || !encoded || !strings.HasPrefix(head, "data:") {
		return attach.Upload{}, unsupported(param, "Files must come as data URLs (data:TYPE;base64,…): the server fetches nothing, and has no files of its own.")
	}
	body, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return attach.Upload{}, refuse(param, "invalid_value", "The data URL is not base64.")
	}
	if ending, _ := mime.ExtensionsByType(kind); len(ending) > 0 && !strings.Contains(name, ".") {
		name += ending[0]
	}
	return attach.Upload{Name: name, Type: kind, Body: body}, nil
}
