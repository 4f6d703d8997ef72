package gateway

import (
	"errors"
	"strings"

	"parley/conversation"
)

// maxCommandID and maxClientMsgID bound what clients name things by, in bytes.
const (
	maxCommandID   = 64
	maxClientMsgID = 128
)

// command is a client's frame: what it wants, and how it wants the answer named.
type command struct {
	kind    string
	id      string
	named   bool // id was given and is fit to be repeated
	session string
	data    []byte // a JSON object; nil = none was given
}

// readCommand reads the envelope. What could be read of it is returned also with
// an error, so that the answer can name the command.
func readCommand(b []byte) (command, *conversation.Error) {
	var c command
	var first error // a wrong member does not keep the others from being read
	err := scanObject(b, func(m member) error {
		if err := c.take(m); err != nil && first == nil {
			first = err
		}
		return nil
	})
	if err == nil {
		err = first
	} else {
		c.id, c.named = "", false
	}
	if err != nil {
		return c, badInput(err, "the frame")
	}
	if c.kind == "" {
		return c, conversation.Errorf(conversation.BadRequest, "type is missing")
	}
	return c, nil
}

func (c *command) take(m member) error {
	switch string(m.name) {
	case "type":
		return m.text(&c.kind)
	case "id":
		if m.null() {
			return nil
		}
		if err := m.text(&c.id); err != nil {
			return err
		}
		if len(c.id) > maxCommandID {
			c.id = ""
			return conversation.Errorf(conversation.BadRequest, "id must be at most %d bytes", maxCommandID)
		}
		c.named = true
	case "session":
		return m.text(&c.session)
	case "data":
		if m.null() {
			return nil
		}
		if m.raw[0] != '{' {
			return m.wrong("an object")
		}
		c.data = m.raw
	}
	return nil
}

// badInput names what is wrong with what a client sent.
func badInput(err error, what string) *conversation.Error {
	var e *conversation.Error
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, errNotObject):
		return conversation.Errorf(conversation.BadRequest, "%s must be a JSON object", what)
	default:
		return conversation.Errorf(conversation.InvalidJSON, "%s is not valid JSON", what)
	}
}

// readData reads the members of a command's data; none at all is an empty object.
func readData(data []byte, visit func(m member) error) *conversation.Error {
	if data == nil {
		return nil
	}
	if err := scanObject(data, visit); err != nil {
		return badInput(err, "data")
	}
	return nil
}

func missing(field string) *conversation.Error {
	return conversation.Errorf(conversation.BadRequest, "%s is missing", field)
}

func blank(field string) *conversation.Error {
	return conversation.Errorf(conversation.BadRequest, "%s must not be blank", field)
}

type helloData struct {
	proto  *uint64
	token  string
	name   string
	client string
	deltas bool
	html   bool
}

func readHello(data []byte) (helloData, *conversation.Error) {
	var d helloData
	var caps []string
	err := readData(data, func(m member) error {
		switch string(m.name) {
		case "proto":
			return m.wholePointer(&d.proto)
		case "token":
			return m.text(&d.token)
		case "client":
			return readClient(m, &d)
		case "caps":
			return m.texts(&caps)
		}
		return nil
	})
	if err == nil && d.proto == nil {
		err = missing("proto")
	}
	for _, c := range caps { // unknown ones are of a later version
		d.deltas = d.deltas || c == "deltas"
		d.html = d.html || c == "html"
	}
	return d, err
}

func readClient(m member, d *helloData) error {
	if m.null() {
		return nil
	}
	if m.raw[0] != '{' {
		return m.wrong("an object")
	}
	return scanObject(m.raw, func(m member) error {
		switch string(m.name) {
		case "name":
			return m.text(&d.name)
		case "version":
			return m.text(&d.client)
		}
		return nil
	})
}

type createData struct {
	clientID string
	create   conversation.Create
}

// readCreate reads what create and POST /api/sessions have in common.
func readCreate(data []byte) (createData, *conversation.Error) {
	var d createData
	var agent, access string
	err := readData(data, func(m member) error {
		switch string(m.name) {
		case "client_session_id":
			return m.text(&d.clientID)
		case "title":
			return m.text(&d.create.Title)
		case "agent":
			return m.text(&agent)
		case "access":
			return m.text(&access)
		case "policy":
			return m.overrides(&d.create.Policy)
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	if len(d.clientID) > maxClientMsgID {
		return d, conversation.Errorf(conversation.BadRequest, "client_session_id must be at most %d bytes", maxClientMsgID)
	}
	if len(d.create.Title) > maxTitle {
		return d, conversation.Errorf(conversation.BadRequest, "title must be at most %d bytes", maxTitle)
	}
	d.create.Agent = conversation.AgentName(agent)
	d.create.Access, err = readAccess(access)
	return d, err
}

// maxTitle bounds a session's title, in bytes.
const maxTitle = 512

func readAccess(s string) (conversation.Access, *conversation.Error) {
	a, ok := conversation.ParseAccess(s)
	if !ok {
		return 0, conversation.Errorf(conversation.BadRequest, "access must be private or tenant")
	}
	return a, nil
}

type followData struct {
	since *uint64
	tail  *uint64
	log   string
}

func readFollow(data []byte) (followData, *conversation.Error) {
	var d followData
	err := readData(data, func(m member) error {
		switch string(m.name) {
		case "since":
			return m.wholePointer(&d.since)
		case "tail":
			return m.wholePointer(&d.tail)
		case "log":
			return m.text(&d.log)
		}
		return nil
	})
	return d, err
}

type sendData struct {
	clientID  string
	text      *string
	inReplyTo string
	mode      conversation.Mode
}

// readSend reads what send and POST messages have in common; the client's id may
// still be missing.
func readSend(data []byte, l Limits) (sendData, *conversation.Error) {
	var d sendData
	var mode string
	err := readData(data, func(m member) error {
		switch string(m.name) {
		case "client_msg_id":
			return m.text(&d.clientID)
		case "text":
			return m.textPointer(&d.text)
		case "in_reply_to":
			return m.text(&d.inReplyTo)
		case "mode":
			return m.text(&mode)
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	if err := checkText("text", d.text, l); err != nil {
		return d, err
	}
	if err := checkClientID(d.clientID); err != nil {
		return d, err
	}
	d.mode, err = readMode(mode)
	return d, err
}

func readMode(s string) (conversation.Mode, *conversation.Error) {
	mode, ok := conversation.ParseMode(s)
	if !ok {
		return 0, conversation.Errorf(conversation.BadRequest, "mode must be steer, queue, collect, interrupt or reject")
	}
	return mode, nil
}

// checkText holds for everything that a user says.
func checkText(field string, text *string, l Limits) *conversation.Error {
	switch {
	case text == nil:
		return missing(field)
	case strings.TrimSpace(*text) == "":
		return blank(field)
	case l.TextBytes > 0 && len(*text) > l.TextBytes:
		return conversation.Errorf(conversation.TooLarge, "%s must be at most %d bytes", field, l.TextBytes)
	}
	return nil
}

func checkClientID(id string) *conversation.Error {
	if len(id) > maxClientMsgID {
		return conversation.Errorf(conversation.BadRequest, "client_msg_id must be at most %d bytes", maxClientMsgID)
	}
	return nil
}

type answerData struct {
	clientID string
	question string
	text     *string
}

func readAnswer(data []byte, l Limits) (answerData, *conversation.Error) {
	var d answerData
	err := readData(data, func(m member) error {
		switch string(m.name) {
		case "client_msg_id":
			return m.text(&d.clientID)
		case "question":
			return m.text(&d.question)
		case "text":
			return m.textPointer(&d.text)
		}
		return nil
	})
	if err == nil {
		err = checkText("text", d.text, l)
	}
	if err == nil {
		err = checkClientID(d.clientID)
	}
	return d, err
}

type messageData struct {
	message string
	text    *string
	before  string
}

// readMessage reads the data of edit, withdraw and move.
func readMessage(data []byte) (messageData, *conversation.Error) {
	var d messageData
	err := readData(data, func(m member) error {
		switch string(m.name) {
		case "message":
			return m.text(&d.message)
		case "text":
			return m.textPointer(&d.text)
		case "before":
			return m.text(&d.before)
		}
		return nil
	})
	if err == nil && d.message == "" {
		err = missing("message")
	}
	return d, err
}

// readCancel reads the data of cancel and the body of the cancel routes.
func readCancel(data []byte) (conversation.Cancel, *conversation.Error) {
	c := conversation.Cancel{By: conversation.ByUser}
	var task, waiting string
	err := readData(data, func(m member) error {
		switch string(m.name) {
		case "task":
			return m.text(&task)
		case "reason":
			return m.text(&c.Reason)
		case "waiting":
			return m.text(&waiting)
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	if waiting != "" && waiting != "drop" {
		return c, conversation.Errorf(conversation.BadRequest, `waiting must be "drop" or absent`)
	}
	if len(c.Reason) > maxTitle {
		return c, conversation.Errorf(conversation.BadRequest, "reason must be at most %d bytes", maxTitle)
	}
	c.Task, c.Drop = conversation.TaskID(task), waiting == "drop"
	return c, nil
}
