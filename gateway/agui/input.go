package agui

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/gateway/protocol"
)

// Bounds of an input, besides that of its body. What goes on to sessions has bounds there.
const (
	maxRunID   = 256 // bytes
	maxEntries = 64  // answers in one input
	maxSaid    = 16  // messages in one input that have not been said yet
)

// input is a RunAgentInput, as far as it means something here. Members that are not known are
// left alone, as the protocol says: a newer client must not bounce off.
type input struct {
	ThreadID    string        `json:"threadId"`
	RunID       string        `json:"runId"`
	ParentRunID string        `json:"parentRunId"`
	Messages    []message     `json:"messages"`
	Tools       []tool        `json:"tools"`
	Context     []contextItem `json:"context"`
	Resume      []resumeEntry `json:"resume"`
	Forwarded   forwarded     `json:"forwardedProps"`

	brought bool // it has a list of messages
}

// message is one of the client's messages. It keeps its bytes, to be shown again in a snapshot.
type message struct {
	ID         string
	Role       string
	ToolCallID string
	Content    content
	Error      string
	Calls      bool // it is an assistant's that calls tools
	Raw        json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *message) UnmarshalJSON(b []byte) error {
	var in struct {
		ID         string            `json:"id"`
		Role       string            `json:"role"`
		ToolCallID string            `json:"toolCallId"`
		Content    json.RawMessage   `json:"content"`
		Error      string            `json:"error"`
		ToolCalls  []json.RawMessage `json:"toolCalls"`
	}
	if err := json.Unmarshal(b, &in); err != nil {
		return err
	}
	*m = message{ID: in.ID, Role: in.Role, ToolCallID: in.ToolCallID, Error: in.Error, Calls: len(in.ToolCalls) > 0, Raw: slices.Clone(b)}
	if in.Role == "activity" || in.Content == nil {
		return nil // its content is an object, for the client alone
	}
	return json.Unmarshal(in.Content, &m.Content)
}

// content is a text, or a list of parts.
type content struct {
	Text    string
	Files   []file
	Skipped int // parts that cannot be used
}

// file is a part that is no text: of an upload to the session, or with its bytes.
type file struct {
	protocol.NamedFile
	kind, data string // its media type, and its bytes in base64; "" = it was uploaded
	body       []byte // these, once they are read
}

// part is one of a list of parts.
type part struct {
	Type   string `json:"type"`
	Text   string `json:"text"`
	Source struct {
		Type     string `json:"type"`
		Value    string `json:"value"`
		Provider string `json:"provider"`
		MimeType string `json:"mimeType"`
	} `json:"source"`
	Metadata struct {
		Title    string `json:"title"`
		Filename string `json:"filename"`
	} `json:"metadata"`
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(b []byte) error {
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, &c.Text)
	}
	var parts []part
	if err := json.Unmarshal(b, &parts); err != nil {
		return err
	}
	var text strings.Builder
	for _, p := range parts {
		hash := attached.Hash(p.Source.Value)
		f := file{NamedFile: protocol.NamedFile{Name: p.Metadata.Filename}}
		if f.Name == "" {
			f.Name = p.Metadata.Title
		}
		switch {
		case p.Type == "text":
			text.WriteString(p.Text)
		case p.Source.Type == "file" && p.Source.Provider == "parley" && hash.Valid():
			f.Hash = hash
			c.Files = append(c.Files, f)
		case p.Source.Type == "data" && p.Source.Value != "":
			f.kind, f.data = p.Source.MimeType, p.Source.Value
			c.Files = append(c.Files, f)
		default: // it is somewhere else, or nowhere
			c.Skipped++
		}
	}
	c.Text = text.String()
	return nil
}

// tool is a function that the client runs.
type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
}

type contextItem struct {
	Description string `json:"description"`
	Value       string `json:"value"`
}

// resumeEntry answers an interrupt.
type resumeEntry struct {
	InterruptID string          `json:"interruptId"`
	Status      string          `json:"status"` // resolved or cancelled
	Payload     json.RawMessage `json:"payload"`
}

// forwarded is what a client says to us that the protocol has no word for. An application has
// values of its own there: only an object named parley is read.
type forwarded struct {
	Mode     conversation.Mode
	Snapshot bool // messages that the client lacks are shown
}

// UnmarshalJSON implements json.Unmarshaler.
func (f *forwarded) UnmarshalJSON(b []byte) error {
	f.Snapshot = true
	var all struct {
		Parley json.RawMessage `json:"parley"`
	}
	if len(b) == 0 || b[0] != '{' || json.Unmarshal(b, &all) != nil || len(all.Parley) == 0 || all.Parley[0] != '{' {
		return nil // it is the application's
	}
	var own struct {
		Mode     string `json:"mode"`
		Snapshot *bool  `json:"snapshot"`
	}
	if err := json.Unmarshal(all.Parley, &own); err != nil {
		return err
	}
	mode, known := conversation.ParseMode(own.Mode)
	if !known {
		return conversation.Errorf(conversation.BadRequest, "forwardedProps.parley.mode must be steer, queue, collect, interrupt or reject")
	}
	f.Mode = mode
	f.Snapshot = own.Snapshot == nil || *own.Snapshot
	return nil
}

// readInput reads a request's body.
func readInput(b []byte) (*input, error) {
	in := &input{Forwarded: forwarded{Snapshot: true}}
	if len(bytes.TrimSpace(b)) == 0 {
		return nil, conversation.Errorf(conversation.InvalidJSON, "the body must be a RunAgentInput")
	}
	if !protocol.ValidJSON(b) { // which bounds how deep it is
		return nil, conversation.Errorf(conversation.InvalidJSON, "the body is not valid JSON")
	}
	if err := json.Unmarshal(b, in); err != nil {
		return nil, malformed(err)
	}
	in.brought = in.Messages != nil
	if in.Forwarded.Mode == conversation.ModeDefault {
		in.Forwarded.Mode = conversation.ModeQueue
	}
	return in, in.check()
}

// malformed says what is wrong with a body, without the words of the library.
func malformed(err error) error {
	var own *conversation.Error
	var wrong *json.UnmarshalTypeError
	switch {
	case errors.As(err, &own):
		return own
	case errors.As(err, &wrong) && wrong.Field != "":
		return conversation.Errorf(conversation.BadRequest, "%s must not be a JSON %s", wrong.Field, wrong.Value)
	}
	return conversation.Errorf(conversation.BadRequest, "the body is no RunAgentInput")
}

func (in *input) check() error {
	switch {
	case in.ThreadID == "":
		return conversation.Errorf(conversation.BadRequest, "threadId is missing")
	case in.RunID == "":
		return conversation.Errorf(conversation.BadRequest, "runId is missing")
	case len(in.RunID) > maxRunID || len(in.ParentRunID) > maxRunID:
		return conversation.Errorf(conversation.BadRequest, "runId and parentRunId must be at most %d bytes", maxRunID)
	case !in.brought:
		return conversation.Errorf(conversation.BadRequest, "messages is missing")
	case len(in.Resume) > maxEntries:
		return conversation.Errorf(conversation.BadRequest, "resume must have at most %d entries", maxEntries)
	}
	for i, m := range in.Messages {
		if m.ID == "" || m.Role == "" {
			return conversation.Errorf(conversation.BadRequest, "messages[%d] needs an id and a role", i)
		}
	}
	named := map[string]bool{}
	for i, e := range in.Resume {
		switch {
		case e.InterruptID == "" || named[e.InterruptID]:
			return conversation.Errorf(conversation.BadRequest, "resume[%d] must name an interrupt that no other entry names", i)
		case e.Status != resolved && e.Status != abandoned:
			return conversation.Errorf(conversation.BadRequest, "resume[%d].status must be %s or %s", i, resolved, abandoned)
		case e.Status == resolved && (len(e.Payload) == 0 || string(e.Payload) == "null"):
			return conversation.Errorf(conversation.BadRequest, "resume[%d] is resolved and has no payload", i)
		}
		named[e.InterruptID] = true
	}
	return nil
}

// The statuses of an answer to an interrupt.
const (
	resolved  = "resolved"
	abandoned = "cancelled"
)

func (in *input) identity() identity {
	return identity{thread: in.ThreadID, run: in.RunID, parent: in.ParentRunID}
}

// said are the messages of the user behind the last one of somebody else: those are new.
func (in *input) said() []message {
	i := len(in.Messages)
	for i > 0 && in.Messages[i-1].Role == "user" {
		i--
	}
	return in.Messages[i:]
}

// lastSaid is the user's last message, wherever it stands; nil = there is none.
func (in *input) lastSaid() *message {
	for i, m := range slices.Backward(in.Messages) {
		if m.Role == "user" {
			return &in.Messages[i]
		}
	}
	return nil
}

// instructions are what the client tells the model besides: its system prompt, and what the
// application wants it to know.
func (in *input) instructions() string {
	var parts []string
	for _, m := range in.Messages {
		if (m.Role == "system" || m.Role == "developer") && strings.TrimSpace(m.Content.Text) != "" {
			parts = append(parts, m.Content.Text)
		}
	}
	for _, c := range in.Context {
		parts = append(parts, strings.TrimSpace(c.Description+":\n"+c.Value))
	}
	return strings.Join(parts, "\n\n")
}

// answer is the text that answers a question, of the payload of an entry.
func (e *resumeEntry) answer(approval bool) (string, error) {
	var text string
	if json.Unmarshal(e.Payload, &text) == nil {
		return text, nil
	}
	if !approval {
		return string(protocol.AppendCompact(nil, e.Payload)), nil
	}
	var yes bool
	if json.Unmarshal(e.Payload, &yes) == nil {
		return approvalText(yes, nil), nil
	}
	var decided struct {
		Approved   *bool           `json:"approved"`
		Approve    *bool           `json:"approve"`
		EditedArgs json.RawMessage `json:"editedArgs"`
		Args       json.RawMessage `json:"args"`
	}
	if err := json.Unmarshal(e.Payload, &decided); err != nil || decided.Approved == nil && decided.Approve == nil {
		return "", conversation.Errorf(conversation.BadRequest, "the payload of %s must be {\"approved\": true or false}, with editedArgs if the call is to be made with others", e.InterruptID)
	}
	if decided.Approved == nil {
		decided.Approved = decided.Approve
	}
	if decided.EditedArgs == nil {
		decided.EditedArgs = decided.Args
	}
	return approvalText(*decided.Approved, decided.EditedArgs), nil
}

// approvalText is an approval's answer as sessions take it.
func approvalText(yes bool, args json.RawMessage) string {
	o := protocol.NewObject(nil)
	o.Bool("approve", yes)
	if yes && len(args) > 0 && string(args) != "null" {
		o.Raw("args", string(args))
	}
	return string(o.Close())
}

// result is what the client's tool has returned, as the model reads it. A session takes no blank
// answer: nothing is an empty string of JSON.
func (m *message) result() string {
	text := m.Content.Text
	if m.Error != "" {
		text = strings.TrimSpace("error: " + m.Error + "\n" + text)
	}
	if strings.TrimSpace(text) == "" {
		return `""`
	}
	return text
}
