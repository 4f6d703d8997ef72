package acp

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// maxID bounds an id, in bytes; the server's bound is the same.
const maxID = 256

// fitID is true for an id that the server answers to: a string, a number or null.
func fitID(id json.RawMessage) bool {
	return len(id) <= maxID && (len(id) == 0 || id[0] == '"' || id[0] == '-' || id[0] >= '0' && id[0] <= '9' || id[0] == 'n')
}

// message is what the bridge reads of a message.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params struct {
		Session string          `json:"sessionId"`
		Request json.RawMessage `json:"requestId"`
		Update  struct {
			Meta meta `json:"_meta"`
		} `json:"update"`
		Meta meta `json:"_meta"`
	} `json:"params"`
	Result struct {
		Session string `json:"sessionId"`
		Meta    meta   `json:"_meta"`
	} `json:"result"`
	Error *struct {
		Message string `json:"message"`
	} `json:"error"`
}

type meta struct {
	Parley struct {
		ID           string   `json:"id"`
		Cursor       string   `json:"cursor"`
		Asks         []string `json:"asks"`
		MessageBytes int      `json:"messageBytes"`
	} `json:"parley"`
}

// read reads a message. What stands in it beside what the bridge needs may be anything.
func read(b []byte) (m message, ok bool) {
	if !utf8.Valid(b) || !json.Valid(b) || len(bytes.TrimSpace(b)) == 0 || bytes.TrimSpace(b)[0] != '{' {
		return m, false
	}
	_ = json.Unmarshal(b, &m) // a member of another type stays empty, and the server says what it thinks of it
	return m, true
}

// head reads the id of a message of which the end may be missing, and what it is: a "request", a
// "notification" or an "answer"; "" = that does not show. An id that is behind what is cut off is nil.
func head(b []byte) (id json.RawMessage, kind string) {
	d := json.NewDecoder(bytes.NewReader(b))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, ""
	}
	method := false
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return id, kind
		}
		switch name {
		case "id":
			kind = "request"
		case "method":
			method = true
		case "result", "error":
			return id, "answer"
		}
		var value json.RawMessage
		if d.Decode(&value) != nil {
			return id, kind
		}
		if name == "id" {
			id = value
		}
	}
	if t, err := d.Token(); err == nil && t == json.Delim('}') && method && id == nil {
		return nil, "notification"
	}
	return id, kind
}

// line is a message as one line.
func line(b []byte) []byte {
	if bytes.ContainsAny(b, "\r\n") {
		var flat bytes.Buffer
		if json.Compact(&flat, b) == nil {
			b = flat.Bytes()
		}
	}
	return append(b[:len(b):len(b)], '\n')
}

// with sets a member of _meta.parley in the params of a message. What cannot be changed stays as it is.
func with(b []byte, name, value string) []byte {
	text, err := json.Marshal(value)
	if err != nil {
		return b
	}
	return set(b, text, "params", "_meta", "parley", name)
}

func set(b []byte, value json.RawMessage, path ...string) []byte {
	if len(path) == 0 {
		return value
	}
	object := map[string]json.RawMessage{}
	if text := bytes.TrimSpace(b); len(text) > 0 && text[0] != 'n' && json.Unmarshal(text, &object) != nil {
		return b
	}
	object[path[0]] = set(object[path[0]], value, path[1:]...)
	var changed bytes.Buffer
	e := json.NewEncoder(&changed)
	e.SetEscapeHTML(false) // what is not set stays as it is: an id, say
	if e.Encode(object) != nil {
		return b
	}
	return bytes.TrimSuffix(changed.Bytes(), []byte{'\n'})
}

// failure is an answer that says what is wrong.
func failure(id json.RawMessage, code int, text string) []byte {
	if id == nil {
		id = json.RawMessage("null")
	}
	words, err := json.Marshal(text)
	if err != nil {
		words = []byte(`"it failed"`)
	}
	return fmt.Appendf(nil, `{"jsonrpc":"2.0","id":%s,"error":{"code":%d,"message":%s}}`, id, code, words)
}
