package a2a

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"mime"
	"slices"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
)

// Requests are read as the JSON form of Protocol Buffers has it: names in camelCase or as the
// definition spells them, null for what is absent. Members that are not known are ignored.

// Bounds of what a request may list.
const (
	maxParts = 100
	maxModes = 100
	maxName  = 1024 // what a client calls a message or a context by
)

// all is a history of any length.
const all = -1

// sending is what SendMessage and SendStreamingMessage ask for.
type sending struct {
	tenant  string
	message message
	history int      // how many messages of the task's history are wanted
	now     bool     // the answer does not wait for the task
	push    *pushing // what its client wants to be told of the task, and where; nil = nothing
}

// message is what a client says.
type message struct {
	id, context, task string
	text              string
	files             []file
	mode              string // ours: what it does while a task runs
	question          string // ours: which question it answers
}

// file is a file that a message brings.
type file struct {
	name, kind string
	body       []byte
}

// asked is what a request wants of a task.
type asked struct {
	tenant, task string
	history      int
}

// listing is what ListTasks asks for.
type listing struct {
	tenant, context string
	status          []conversation.TaskStatus // nil = any; empty = one that no task here has
	size            int                       // 0 = not said
	token           string
	history         int
	since           time.Time
	artifacts       bool
}

// readMembers reads an object; what names it in errors. No object at all is an empty one.
func readMembers(b []byte, what string, visit func(m protocol.Member) error) error {
	if b == nil || string(b) == "null" {
		return nil
	}
	var refused error
	err := protocol.ReadObject(b, func(m protocol.Member) error {
		refused = visit(m)
		return refused
	})
	switch {
	case err == nil:
		return nil
	case refused != nil:
		return refused
	default:
		return protocol.BadInput(err, what)
	}
}

// readItems reads a list.
func readItems(m protocol.Member, what string, most int, each func(item []byte, what string) error) error {
	var items []json.RawMessage
	if err := json.Unmarshal(m.Raw, &items); err != nil {
		return refuse(invalidParams, "%s must be a list", what)
	}
	if len(items) > most {
		return refuse(invalidParams, "%s must have at most %d items", what, most)
	}
	for i, item := range items {
		if err := each(item, what+"["+strconv.Itoa(i)+"]"); err != nil {
			return err
		}
	}
	return nil
}

// count reads a number that is not negative.
func count(m protocol.Member, dst *int) error {
	var n *uint64
	if err := m.WholePointer(&n); err != nil || n == nil {
		return err
	}
	*dst = int(min(*n, 1<<31-1))
	return nil
}

// readSending reads the parameters of SendMessage and SendStreamingMessage; what names them in errors.
func readSending(b []byte, what string) (*sending, error) {
	r, said := &sending{history: all}, false
	err := readMembers(b, what, func(m protocol.Member) error {
		switch string(m.Name) {
		case "tenant":
			return m.ID(&r.tenant)
		case "message":
			said = true
			return r.message.read(m.Raw)
		case "configuration":
			return r.configure(m.Raw)
		}
		return nil
	})
	switch {
	case err != nil:
		return nil, err
	case !said:
		return nil, refuse(invalidParams, "message is missing")
	}
	return r, r.message.check()
}

func (r *sending) configure(b []byte) error {
	var modes []string
	err := readMembers(b, "configuration", func(m protocol.Member) error {
		switch string(m.Name) {
		case "historyLength", "history_length":
			return count(m, &r.history)
		case "returnImmediately", "return_immediately":
			return m.Bool(&r.now)
		case "taskPushNotificationConfig", "task_push_notification_config":
			if string(m.Raw) != "null" {
				r.push = &pushing{}
				return r.push.read(m.Raw, "configuration.taskPushNotificationConfig")
			}
		case "acceptedOutputModes", "accepted_output_modes":
			return readItems(m, "configuration.acceptedOutputModes", maxModes, func(item []byte, what string) error {
				mode := ""
				if json.Unmarshal(item, &mode) != nil {
					return refuse(invalidParams, "%s must be a string", what)
				}
				modes = append(modes, mode)
				return nil
			})
		}
		return nil
	})
	if err == nil && len(modes) > 0 && !slices.ContainsFunc(modes, takesText) {
		return refuse(typeNotSupported, "answers are text/plain, which configuration.acceptedOutputModes does not accept")
	}
	return err
}

// takesText is true for a media type, or a range of them, that a text is of.
func takesText(mode string) bool {
	kind, _, _ := strings.Cut(strings.ToLower(strings.TrimSpace(mode)), ";")
	switch kind {
	case "text", "text/plain", "text/markdown", "text/*", "*/*", "*":
		return true
	}
	return false
}

func (s *message) read(b []byte) error {
	return readMembers(b, "message", func(m protocol.Member) error {
		switch string(m.Name) {
		case "messageId", "message_id":
			return m.Bounded(&s.id, maxName)
		case "contextId", "context_id":
			return m.Bounded(&s.context, maxName)
		case "taskId", "task_id":
			return m.Bounded(&s.task, maxName)
		case "role":
			if r := string(m.Raw); r != `"ROLE_USER"` && r != `1` && r != "null" {
				return refuse(invalidParams, "message.role must be ROLE_USER: who asks is the user here")
			}
		case "parts":
			s.text, s.files = "", nil
			return readItems(m, "message.parts", maxParts, s.part)
		case "metadata":
			return readMembers(m.Raw, "message.metadata", s.metadata)
		}
		return nil
	})
}

// metadata reads what is for this server in the metadata of a message.
func (s *message) metadata(m protocol.Member) error {
	if string(m.Name) != noteOf {
		return nil
	}
	return readMembers(m.Raw, "message.metadata."+noteOf, func(m protocol.Member) error {
		switch string(m.Name) {
		case "mode":
			return m.Word(&s.mode)
		case "question":
			return m.ID(&s.question)
		}
		return nil
	})
}

// part reads a part: exactly one of a text, a value, the bytes of a file, and its address.
func (s *message) part(b []byte, what string) error {
	var text *string
	var value, raw, url []byte
	kind, name, has := "", "", 0
	err := readMembers(b, what, func(m protocol.Member) error {
		if string(m.Raw) == "null" && string(m.Name) != "data" {
			return nil
		}
		switch string(m.Name) {
		case "text":
			has++
			return m.TextPointer(&text)
		case "data":
			has++
			value = m.Raw
		case "raw":
			has++
			raw = m.Raw
		case "url":
			has++
			url = m.Raw
		case "mediaType", "media_type":
			return m.Bounded(&kind, maxName)
		case "filename":
			return m.Text(&name)
		}
		return nil
	})
	switch {
	case err != nil:
		return err
	case has != 1:
		return refuse(invalidParams, "%s must have one of text, data, raw and url", what)
	case url != nil:
		return refuse(typeNotSupported, "%s is an address, and nothing is fetched from there: send the bytes (raw)", what)
	case text != nil:
		if kind != "" && !isText(kind) {
			return refuse(typeNotSupported, "%s is a text of the type %s, which is not taken", what, conversation.Excerpt(kind, 64))
		}
		s.say(*text)
	case value != nil:
		if kind != "" && !isJSON(kind) {
			return refuse(typeNotSupported, "%s is a value of the type %s, which is not taken", what, conversation.Excerpt(kind, 64))
		}
		s.say(string(protocol.AppendCompact(nil, value)))
	default:
		f := file{name: name, kind: kind}
		if f.body, err = decode(raw); err != nil {
			return refuse(invalidParams, "%s.raw must be base64", what)
		}
		s.files = append(s.files, f)
	}
	return nil
}

// say adds a part of the text: each begins on a line of its own.
func (s *message) say(text string) {
	if s.text != "" {
		s.text += "\n"
	}
	s.text += text
}

// decode reads bytes: base64 of either alphabet, padded or not.
func decode(raw []byte) ([]byte, error) {
	text := ""
	if err := json.Unmarshal(raw, &text); err != nil {
		return nil, err
	}
	return base64.RawStdEncoding.DecodeString(strings.NewReplacer("-", "+", "_", "/", "=", "").Replace(text))
}

func isText(kind string) bool {
	kind, _, err := mime.ParseMediaType(kind)
	return err == nil && (strings.HasPrefix(kind, "text/") || isJSON(kind))
}

func isJSON(kind string) bool {
	kind, _, err := mime.ParseMediaType(kind)
	return err == nil && (kind == "application/json" || strings.HasSuffix(kind, "+json"))
}

func (s *message) check() error {
	switch {
	case s.id == "":
		return refuse(invalidParams, "message.messageId is missing")
	case s.text == "" && len(s.files) == 0:
		return refuse(invalidParams, "message.parts is missing, or says nothing")
	}
	return nil
}

// ours begins the client ids of what comes over this protocol, and hashed stands before the hash of
// one that is too long.
const (
	ours   = "a2a:"
	hashed = "sha256:"
)

// clientID is what the engine knows a message by that is called so here.
func clientID(id string) conversation.ClientMsgID {
	if len(ours)+len(id) > protocol.MaxClientMsgID {
		sum := sha256.Sum256([]byte(id))
		id = hashed + hex.EncodeToString(sum[:])
	}
	return conversation.ClientMsgID(ours + id)
}

// readAsked reads the parameters of GetTask, CancelTask and SubscribeToTask.
func readAsked(b []byte) (*asked, error) {
	r := &asked{history: all}
	err := readMembers(b, "params", func(m protocol.Member) error {
		switch string(m.Name) {
		case "tenant":
			return m.ID(&r.tenant)
		case "id":
			return m.Bounded(&r.task, maxName)
		case "historyLength", "history_length":
			return count(m, &r.history)
		}
		return nil
	})
	if err == nil && r.task == "" {
		err = refuse(invalidParams, "id is missing")
	}
	return r, err
}

// readTenant reads parameters of which only the tenant counts.
func readTenant(b []byte) (tenant string, err error) {
	err = readMembers(b, "params", func(m protocol.Member) error {
		if string(m.Name) == "tenant" {
			return m.ID(&tenant)
		}
		return nil
	})
	return tenant, err
}

// readListing reads the parameters of ListTasks.
func readListing(b []byte) (*listing, error) {
	r := &listing{}
	err := readMembers(b, "params", func(m protocol.Member) error {
		word := ""
		switch string(m.Name) {
		case "tenant":
			return m.ID(&r.tenant)
		case "contextId", "context_id":
			return m.Bounded(&r.context, maxName)
		case "status":
			if m.Raw[0] == '0' {
				return nil
			}
			if err := m.Word(&word); err != nil {
				return err
			}
			return r.only(word)
		case "pageSize", "page_size":
			size := 0
			if err := count(m, &size); err != nil || string(m.Raw) == "null" {
				return err
			}
			return r.page(size)
		case "pageToken", "page_token":
			return m.Bounded(&r.token, maxName)
		case "historyLength", "history_length":
			return count(m, &r.history)
		case "statusTimestampAfter", "status_timestamp_after":
			if err := m.Word(&word); err != nil {
				return err
			}
			return r.after(word)
		case "includeArtifacts", "include_artifacts":
			return m.Bool(&r.artifacts)
		}
		return nil
	})
	return r, err
}

// query reads a parameter of ListTasks in an address.
func (r *listing) query(name, value string) (err error) {
	switch name {
	case "contextId":
		if len(value) > maxName {
			return refuse(invalidParams, "contextId must be at most %d bytes", maxName)
		}
		r.context = value
	case "status":
		return r.only(value)
	case "pageSize":
		size := 0
		if err := queryCount(value, name, &size); err != nil {
			return err
		}
		return r.page(size)
	case "pageToken":
		r.token = value
	case "historyLength":
		return queryCount(value, name, &r.history)
	case "statusTimestampAfter":
		return r.after(value)
	case "includeArtifacts":
		if r.artifacts, err = strconv.ParseBool(value); err != nil {
			return refuse(invalidParams, "includeArtifacts must be true or false")
		}
	}
	return nil
}

// queryCount reads a number that is not negative; "" = it is not there.
func queryCount(value, name string, dst *int) error {
	if value == "" {
		return nil
	}
	n, err := strconv.ParseUint(value, 10, 31)
	if err != nil {
		return refuse(invalidParams, "%s must be a whole number of at least 0", name)
	}
	*dst = int(n)
	return nil
}

// The sizes of a page.
const (
	pageSize    = 50 // of who does not say
	maxPageSize = 100
)

func (r *listing) page(size int) error {
	if size < 1 || size > maxPageSize {
		return refuse(invalidParams, "pageSize must be from 1 to %d", maxPageSize)
	}
	r.size = size
	return nil
}

func (r *listing) after(when string) error {
	if when == "" {
		return nil
	}
	at, err := time.Parse(time.RFC3339Nano, when)
	if err != nil {
		return refuse(invalidParams, "statusTimestampAfter must be a time such as 2026-01-31T12:00:00Z")
	}
	r.since = at
	return nil
}

func (r *listing) only(state string) error {
	switch state {
	case "", "TASK_STATE_UNSPECIFIED":
	case "TASK_STATE_REJECTED", "TASK_STATE_AUTH_REQUIRED":
		r.status = []conversation.TaskStatus{}
	default:
		i := slices.Index(states[:], state)
		if i < 1 {
			return refuse(invalidParams, "status must be one of %s", strings.Join(states[1:], ", "))
		}
		r.status = []conversation.TaskStatus{conversation.TaskStatus(i)}
	}
	return nil
}

// states are the words for the statuses of tasks, by their numbers.
var states = [...]string{
	"TASK_STATE_UNSPECIFIED", "TASK_STATE_SUBMITTED", "TASK_STATE_WORKING", "TASK_STATE_INPUT_REQUIRED",
	"TASK_STATE_COMPLETED", "TASK_STATE_FAILED", "TASK_STATE_CANCELED",
}

// stateOf is the word for a status. A task that has none yet waits for its turn.
func stateOf(s conversation.TaskStatus) string {
	if s == 0 || int(s) >= len(states) {
		s = conversation.TaskQueued
	}
	return states[s]
}
