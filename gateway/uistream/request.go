package uistream

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"net/url"
	"slices"
	"strings"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/gateway/attach"
	"parley/gateway/protocol"
)

// request is what a client's transport sends (HttpChatTransport of the package ai), and what this
// server knows besides. Other members are ignored: they are for servers of an application.
type request struct {
	ID        string            `json:"id"`
	Messages  []json.RawMessage `json:"messages"`
	Trigger   string            `json:"trigger"`
	MessageID string            `json:"messageId"`

	Message json.RawMessage `json:"message"` // in the place of messages: the one that counts
	Mode    string          `json:"mode"`
	Agent   string          `json:"agent"`
	Answer  *struct {
		Question string  `json:"question"`
		Text     *string `json:"text"`
	} `json:"answer"`
	Tools json.RawMessage `json:"tools"`

	mode conversation.Mode
	last uiMessage // the message that the request is about
}

// The triggers.
const (
	submit     = "submit-message"
	regenerate = "regenerate-message"
)

// uiMessage is a message of the client's list.
type uiMessage struct {
	ID    string   `json:"id"`
	Role  string   `json:"role"`
	Parts []uiPart `json:"parts"`
}

// uiPart is a part of it; what counts depends on its type.
type uiPart struct {
	Type             string          `json:"type"`
	ID               string          `json:"id"` // of data
	Text             string          `json:"text"`
	State            string          `json:"state"`
	ToolCallID       string          `json:"toolCallId"`
	Output           json.RawMessage `json:"output"`
	ErrorText        string          `json:"errorText"`
	ProviderExecuted bool            `json:"providerExecuted"`
	Approval         *struct {
		ID       string `json:"id"`
		Approved *bool  `json:"approved"`
	} `json:"approval"`
	URL       string `json:"url"`
	MediaType string `json:"mediaType"`
	Filename  string `json:"filename"`
}

// tool is true for the part of a tool's call.
func (p *uiPart) tool() bool {
	return p.ToolCallID != "" && (p.Type == "dynamic-tool" || strings.HasPrefix(p.Type, "tool-"))
}

// readRequest reads the body of a request.
func readRequest(b []byte) (*request, *conversation.Error) {
	r := &request{}
	if err := unmarshal(b, r, "the body"); err != nil {
		return nil, err
	}
	switch {
	case r.ID == "":
		return nil, protocol.Missing("id")
	case len(r.ID) > protocol.MaxID:
		return nil, conversation.Errorf(conversation.BadRequest, "id must be at most %d bytes", protocol.MaxID)
	case r.Trigger != "" && r.Trigger != submit && r.Trigger != regenerate:
		return nil, conversation.Errorf(conversation.BadRequest, "trigger must be %s or %s", submit, regenerate)
	case r.Answer != nil && r.Answer.Question == "":
		return nil, protocol.Missing("answer.question")
	case r.Answer != nil && r.Trigger == regenerate:
		return nil, conversation.Errorf(conversation.BadRequest, "an answer is not said again: answer does not go with %s", regenerate)
	case len(r.Agent) > protocol.MaxID:
		return nil, conversation.Errorf(conversation.BadRequest, "agent must be at most %d bytes", protocol.MaxID)
	}
	var known bool
	if r.mode, known = conversation.ParseMode(r.Mode); !known {
		return nil, conversation.Errorf(conversation.BadRequest, "mode must be steer, queue, collect, interrupt or reject")
	}
	if string(r.Tools) == "null" {
		r.Tools = nil
	}
	raw, err := r.counts()
	if err != nil {
		return nil, err
	}
	if err := unmarshal(raw, &r.last, "the message"); err != nil {
		return nil, err
	}
	switch r.last.Role {
	case "user", "assistant":
	default:
		return nil, conversation.Errorf(conversation.BadRequest, "the last message must be of the user or the assistant: what a system says is for the server")
	}
	if r.Trigger == regenerate && r.last.Role != "user" {
		return nil, conversation.Errorf(conversation.BadRequest, "only a message of the user can be said again")
	}
	return r, nil
}

// counts is the message that the request is about: that which messageId names, if the client
// goes on with an earlier one, else the last.
func (r *request) counts() (json.RawMessage, *conversation.Error) {
	switch {
	case len(r.Message) > 0 && string(r.Message) != "null":
		return r.Message, nil
	case len(r.Messages) == 0:
		return nil, protocol.Missing("messages")
	}
	if r.Trigger != regenerate && r.MessageID != "" {
		for _, raw := range slices.Backward(r.Messages) {
			var head struct{ ID string }
			if err := unmarshal(raw, &head, "a message"); err != nil {
				return nil, err
			}
			if head.ID == r.MessageID {
				return raw, nil
			}
		}
	}
	return r.Messages[len(r.Messages)-1], nil
}

func unmarshal(b []byte, into any, what string) *conversation.Error {
	err := json.Unmarshal(b, into)
	var mistyped *json.UnmarshalTypeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &mistyped) && mistyped.Field != "":
		return conversation.Errorf(conversation.BadRequest, "%s: %s cannot be a %s", what, mistyped.Field, mistyped.Value)
	case errors.As(err, &mistyped):
		return conversation.Errorf(conversation.BadRequest, "%s must be an object", what)
	default:
		return conversation.Errorf(conversation.InvalidJSON, "%s is not valid JSON", what)
	}
}

// hashed begins ids of ours that stand for longer ones.
const hashed = "sha256:"

// clientID is an id of the client's as that of its message.
func clientID(prefix, id string) conversation.ClientMsgID {
	if len(prefix)+len(id) > protocol.MaxClientMsgID {
		sum := sha256.Sum256([]byte(id))
		id = hashed + hex.EncodeToString(sum[:])
	}
	return conversation.ClientMsgID(prefix + id)
}

// text is what the message says.
func (m *uiMessage) text() string {
	var texts []string
	for i := range m.Parts {
		if m.Parts[i].Type == "text" {
			texts = append(texts, m.Parts[i].Text)
		}
	}
	return strings.Join(texts, "\n")
}

// file is a file of a message: one that was uploaded, or its bytes.
type file struct {
	named protocol.NamedFile
	kind  string
	body  []byte // nil: it was uploaded
}

func (f file) uploaded() bool { return f.body == nil }

func (f file) upload() attach.Upload {
	return attach.Upload{Name: f.named.Name, Type: f.kind, Body: f.body}
}

// files are those of the message.
func (m *uiMessage) files() (files []file, err *conversation.Error) {
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Type != "file" {
			continue
		}
		f := file{named: protocol.NamedFile{Name: p.Filename}, kind: p.MediaType}
		if inside, is := strings.CutPrefix(p.URL, "data:"); is {
			if f.body, err = dataOf(inside, &f.kind); err != nil {
				return nil, err
			}
			files = append(files, f)
			continue
		}
		u, bad := url.Parse(p.URL)
		if bad == nil {
			_, hash, found := strings.Cut(u.Path, blobs)
			if f.named.Hash = attached.Hash(hash); found && f.named.Hash.Valid() {
				files = append(files, f)
				continue
			}
		}
		return nil, conversation.Errorf(conversation.BadRequest, "the url of a file must be a data: URL or that of an upload, %sHASH: nothing is fetched from elsewhere", blobs)
	}
	return files, nil
}

// dataOf reads the rest of a data: URL (RFC 2397).
func dataOf(rest string, kind *string) ([]byte, *conversation.Error) {
	head, body, found := strings.Cut(rest, ",")
	if declared, _, _ := strings.Cut(head, ";"); declared != "" {
		*kind = declared
	}
	if !found || !strings.HasSuffix(head, ";base64") {
		return nil, conversation.Errorf(conversation.BadRequest, "the data: URL of a file must be base64")
	}
	b, err := base64.StdEncoding.DecodeString(body)
	if err != nil || len(b) == 0 {
		return nil, conversation.Errorf(conversation.BadRequest, "the data: URL of a file must be base64, and not empty")
	}
	return b, nil
}
