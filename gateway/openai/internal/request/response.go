package request

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

// NewResponse is the body of POST /v1/responses, as far as it counts here. What only tunes a
// model (temperature and the like) is taken and has no effect: the agent's own settings hold.
type NewResponse struct {
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

// Intent is what a request comes to: what is said, answered and set, and where.
type Intent struct {
	Where        Where
	Said         string
	Files        []attach.Upload
	Answers      []Given
	Model        string
	Instructions *string                 // nil = as the session has them
	Tools        []conversation.ToolSpec // nil = none
	Mode         conversation.Mode
	History      string // what a client without a session says was said before
}

// Where is the session that a request is about: the first of these that is named.
type Where struct {
	Conversation string // an id
	Previous     string // a response
	Name         string // metadata.session
	User         string
}

// Given is a result of the caller's own tool, or an approval.
type Given struct {
	ID       string // of the call, or of the request
	Approval bool
	Text     string // never blank
}

// Bounds of a request, besides limits.body_bytes.
const (
	maxItems    = 10_000
	maxMetadata = 16
)

// ReadNewResponse reads a body, and makes of it what is wanted.
func ReadNewResponse(body []byte) (r NewResponse, w Intent, err error) {
	if err := Decode(body, &r); err != nil {
		return r, w, err
	}
	switch {
	case len(r.Prompt) > 0 && string(r.Prompt) != "null":
		return r, w, Unsupported("prompt", "Prompt templates are not supported: agents have their prompts from the server's configuration, and instructions add to them.")
	case r.Text != nil && r.Text.Format != nil && r.Text.Format.Type != "" && r.Text.Format.Type != "text":
		return r, w, Unsupported("text.format", "Only text.format.type \"text\" is supported.")
	case len(r.Metadata) > maxMetadata:
		return r, w, Refuse("metadata", "invalid_value", "metadata may have at most 16 keys.")
	}
	if w.Where.Conversation, err = conversationOf(r.Conversation); err != nil {
		return r, w, err
	}
	w.Where.Previous, w.Where.Name, w.Where.User = r.Previous, r.Metadata["session"], r.User
	if w.Where.Conversation != "" && w.Where.Previous != "" {
		return r, w, Refuse("previous_response_id", "mutually_exclusive_parameters", "Only one of previous_response_id and conversation may be given.")
	}
	if w.Mode, err = modeOf(r.Metadata); err != nil {
		return r, w, err
	}
	if w.Tools, err = functions(r.Tools, r.ToolChoice); err != nil {
		return r, w, err
	}
	w.Model, w.Instructions = r.Model, r.Instructions
	return r, w, ReadInput(r.Input, &w)
}

// Decode reads a body that is one JSON value. Members that v does not know are passed over.
func Decode(body []byte, v any) error {
	if len(body) == 0 {
		return Refuse("", "invalid_json", "The body must be a JSON object.")
	}
	d := json.NewDecoder(bytes.NewReader(body))
	if err := d.Decode(v); err != nil {
		return Refuse("", "invalid_json", "The body could not be read as JSON of the expected shape: "+jsonTrouble(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return Refuse("", "invalid_json", "The body must be one JSON object.")
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
	var object struct {
		ID string `json:"id"`
	}
	if json.Unmarshal(raw, &object) != nil || object.ID == "" {
		return "", Refuse("conversation", "invalid_type", "conversation must be an id, or an object with an id.")
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
		return 0, Refuse("metadata.mode", "invalid_value", "metadata.mode must be steer, queue, collect, interrupt or reject.")
	}
	return mode, nil
}

// functions are the caller's own tools. The server's tools are the agent's business.
func functions(tools []tool, choice json.RawMessage) ([]conversation.ToolSpec, error) {
	var word string
	if len(choice) > 0 && string(choice) != "null" {
		if json.Unmarshal(choice, &word) != nil || word != "auto" && word != "none" {
			return nil, Unsupported("tool_choice", "tool_choice may be auto or none: which tools are called is the agent's decision.")
		}
	}
	var specs []conversation.ToolSpec
	for i := range tools {
		t := tools[i]
		if t.Type != "function" {
			return nil, Unsupported(fmt.Sprintf("tools[%d].type", i), "Only tools of the type \"function\" can come with a request; the server's own are configured with its agents.")
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

// ReadInput reads the input: a text, or items. Where it holds a whole conversation, what comes
// behind the assistant's last word is said; the rest is history.
func ReadInput(raw json.RawMessage, w *Intent) error {
	if len(raw) == 0 || string(raw) == "null" {
		return Refuse("input", "missing_required_parameter", "Missing required parameter: 'input'.")
	}
	if json.Unmarshal(raw, &w.Said) == nil {
		return nil
	}
	var items []inputItem
	if err := json.Unmarshal(raw, &items); err != nil {
		return Refuse("input", "invalid_type", "input must be a text, or a list of items: "+jsonTrouble(err))
	}
	if len(items) > maxItems {
		return Refuse("input", "too_many_items", "input has too many items.")
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
				said, w.Files = append(said, text), append(w.Files, files...)
			case "assistant":
				history = append(history, quoted("User", said)...)
				history = append(history, quoted("Assistant", []string{text})...)
				said, w.Files, w.Answers = nil, nil, nil
			case "system", "developer":
				if len(files) > 0 {
					return errNoFiles(param)
				}
				system = append(system, text)
			default:
				return Refuse(param+".role", "invalid_value", "role must be user, assistant, system or developer.")
			}
		case "function_call", "mcp_approval_request":
			history = append(history, quoted("User", said)...)
			said, w.Files, w.Answers = nil, nil, nil
		case "function_call_output":
			text, err := readText(param+".output", item.Output)
			if err != nil {
				return err
			}
			w.Answers = append(w.Answers, Given{ID: item.CallID, Text: notBlank(text)})
		case "mcp_approval_response":
			text := `{"approve":false}`
			if item.Approve {
				text = `{"approve":true}`
			}
			w.Answers = append(w.Answers, Given{ID: item.Request, Approval: true, Text: notBlank(text)})
		case "reasoning", "item_reference", "mcp_list_tools", "compaction":
			// of answers before: nothing is said with it
		default:
			return Unsupported(param+".type", fmt.Sprintf("Items of the type %q are not supported.", Excerpt(item.Type)))
		}
	}
	w.Said = strings.Join(said, "\n\n")
	w.History = strings.Join(history, "\n")
	w.addInstructions(system)
	if w.Said == "" && len(w.Files) == 0 && len(w.Answers) == 0 {
		return Refuse("input", "missing_required_parameter", "input has nothing that a user says: it must end with a message of the user, a function_call_output or an mcp_approval_response.")
	}
	return nil
}

// notBlank is the text of an answer: one is never blank.
func notBlank(text string) string {
	if conversation.IsBlank(text) {
		return `""`
	}
	return text
}

func (w *Intent) addInstructions(system []string) {
	if len(system) == 0 {
		return
	}
	if w.Instructions != nil && *w.Instructions != "" {
		system = append([]string{*w.Instructions}, system...)
	}
	text := strings.Join(system, "\n\n")
	w.Instructions = &text
}

// quoted are lines of a conversation before.
func quoted(who string, texts []string) (lines []string) {
	for _, text := range texts {
		lines = append(lines, who+": "+text)
	}
	return lines
}

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
		return "", nil, Refuse(param, "invalid_type", "content must be a text, or a list of pieces: "+jsonTrouble(err))
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
			return "", nil, Unsupported(param+".type", fmt.Sprintf("Content of the type %q is not supported.", Excerpt(p.Type)))
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
	return Unsupported(param, "Files can come with messages of the user only.")
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
		return attach.Upload{}, Unsupported(param, "Files must come as data URLs (data:TYPE;base64,…): the server fetches nothing, and has no files of its own.")
	}
	body, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return attach.Upload{}, Refuse(param, "invalid_value", "The data URL is not base64.")
	}
	if ending, _ := mime.ExtensionsByType(kind); len(ending) > 0 && !strings.Contains(name, ".") {
		name += ending[0]
	}
	return attach.Upload{Name: name, Type: kind, Body: body}, nil
}
