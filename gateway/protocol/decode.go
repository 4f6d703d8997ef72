package protocol

import (
	"errors"
	"strings"

	"parley/conversation"
	"parley/conversation/attached"
)

// The bounds of texts that clients send, in bytes; those of what they say are in Limits.
const (
	maxCommandID   = 64
	MaxID          = 128     // whatever a message, a task, a session … is called by
	MaxClientMsgID = MaxID   // what a client calls its message by
	MaxTitle       = 512     // a line for people: a title, a reason
	maxClientName  = 64      // what a client calls itself, and its version
	maxWord        = 64      // one of a few words
	maxWords       = 32      // words in a list
	MaxToken       = 8 << 10 // a credential
)

// Command is a client's frame: what it wants, and how it wants the answer named.
type Command struct {
	Kind    string
	ID      string
	Named   bool // id was given and is fit to be repeated
	Session string
	Data    []byte // a JSON object; nil = none was given
}

// ReadCommand reads the envelope. The fields that could be read are returned also
// with an error, so that the answer can name the command.
func ReadCommand(b []byte) (Command, *conversation.Error) {
	var c Command
	var first error // a wrong member does not keep the others from being read
	err := ReadObject(b, func(m Member) error {
		if err := c.take(m); err != nil && first == nil {
			first = err
		}
		return nil
	})
	if err == nil {
		err = first
	} else {
		c.ID, c.Named = "", false
	}
	if err != nil {
		return c, BadInput(err, "the frame")
	}
	if c.Kind == "" {
		return c, conversation.Errorf(conversation.BadRequest, "type is missing")
	}
	return c, nil
}

func (c *Command) take(m Member) error {
	switch string(m.Name) {
	case "type":
		return m.Bounded(&c.Kind, maxWord)
	case "id":
		if m.null() {
			return nil
		}
		if err := m.Bounded(&c.ID, maxCommandID); err != nil {
			return err
		}
		c.Named = true
	case "session":
		return m.Text(&c.Session)
	case "data":
		if m.null() {
			return nil
		}
		if m.Raw[0] != '{' {
			return m.wrong("an object")
		}
		c.Data = m.Raw
	}
	return nil
}

// BadInput names what is wrong with what a client sent.
func BadInput(err error, what string) *conversation.Error {
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

// ReadData reads the members of a command's data; none at all is an empty object.
func ReadData(data []byte, visit func(m Member) error) *conversation.Error {
	if data == nil {
		return nil
	}
	if err := ReadObject(data, visit); err != nil {
		return BadInput(err, "data")
	}
	return nil
}

// Missing is the error of a command without a field that it needs.
func Missing(field string) *conversation.Error {
	return conversation.Errorf(conversation.BadRequest, "%s is missing", field)
}

func blank(field string) *conversation.Error {
	return conversation.Errorf(conversation.BadRequest, "%s must not be blank", field)
}

// Hello is the data of hello. Proto is nil if it was not given; Name and Version are
// the client's.
type Hello struct {
	Proto   *uint64
	Token   string
	Name    string
	Version string
	Deltas  bool
	HTML    bool
}

// ReadHello reads the data of hello. The error names the field that is wrong.
func ReadHello(data []byte) (Hello, *conversation.Error) {
	var d Hello
	var caps []string
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "proto":
			return m.WholePointer(&d.Proto)
		case "token":
			return m.Bounded(&d.Token, MaxToken)
		case "client":
			return readClient(m, &d)
		case "caps":
			return m.texts(&caps)
		}
		return nil
	})
	if err == nil && d.Proto == nil {
		err = Missing("proto")
	}
	for _, c := range caps { // unknown ones are of a later version
		d.Deltas = d.Deltas || c == "deltas"
		d.HTML = d.HTML || c == "html"
	}
	return d, err
}

func readClient(m Member, d *Hello) error {
	if m.null() {
		return nil
	}
	if m.Raw[0] != '{' {
		return m.wrong("an object")
	}
	return ReadObject(m.Raw, func(m Member) error {
		switch string(m.Name) {
		case "name":
			return m.Bounded(&d.Name, maxClientName)
		case "version":
			return m.Bounded(&d.Version, maxClientName)
		}
		return nil
	})
}

// Create is the data of create. ClientID is the client's id of the session; "" = none.
type Create struct {
	ClientID string
	Create   conversation.Create
}

// ReadCreate reads what create and POST /api/sessions have in common.
func ReadCreate(data []byte) (Create, *conversation.Error) {
	var d Create
	var agent, access string
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "client_session_id":
			return m.ClientID(&d.ClientID)
		case "title":
			return m.Text(&d.Create.Title)
		case "agent":
			return m.ID(&agent)
		case "access":
			return m.Word(&access)
		case "policy":
			return m.Overrides(&d.Create.Policy)
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	d.Create.Title = Line(d.Create.Title)
	d.Create.Agent = conversation.AgentName(agent)
	d.Create.Access, err = ReadAccess(access)
	return d, err
}

// ReadAccess reads "private" or "tenant".
func ReadAccess(s string) (conversation.Access, *conversation.Error) {
	a, ok := conversation.ParseAccess(s)
	if !ok {
		return 0, conversation.Errorf(conversation.BadRequest, "access must be private or tenant")
	}
	return a, nil
}

// Follow is the data of follow; Since and Tail are nil, Log is "", if not given.
type Follow struct {
	Since *uint64
	Tail  *uint64
	Log   string
}

// ReadFollow reads the data of follow.
func ReadFollow(data []byte) (Follow, *conversation.Error) {
	var d Follow
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "since":
			return m.WholePointer(&d.Since)
		case "tail":
			return m.WholePointer(&d.Tail)
		case "log":
			return m.ID(&d.Log)
		}
		return nil
	})
	return d, err
}

// Send is the data of send. Text is nil if it was not given; a zero Mode leaves the
// mode to the session.
type Send struct {
	ClientID  string
	Text      *string
	InReplyTo string
	Mode      conversation.Mode
	Files     []NamedFile
}

// NamedFile names a file that was uploaded to the session.
type NamedFile struct {
	Hash attached.Hash
	Name string // "" = as it was uploaded
}

// ReadSend reads what send and POST messages have in common; the client's id may
// still be missing.
func ReadSend(data []byte, l Limits) (Send, *conversation.Error) {
	var d Send
	var mode string
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "client_msg_id":
			return m.ClientID(&d.ClientID)
		case "text":
			return m.TextPointer(&d.Text)
		case "in_reply_to":
			return m.ID(&d.InReplyTo)
		case "mode":
			return m.Word(&mode)
		case "attachments":
			return m.attachments(&d.Files, l.AttachmentsPerMessage)
		}
		return nil
	})
	if err != nil {
		return d, err
	}
	if len(d.Files) > 0 && (d.Text == nil || strings.TrimSpace(*d.Text) == "") {
		d.Text = new(string) // the files are what is said
	} else if err := CheckText("text", d.Text, l); err != nil {
		return d, err
	}
	if err := CheckClientID(d.ClientID); err != nil {
		return d, err
	}
	d.Mode, err = readMode(mode)
	return d, err
}

func readMode(s string) (conversation.Mode, *conversation.Error) {
	mode, ok := conversation.ParseMode(s)
	if !ok {
		return 0, conversation.Errorf(conversation.BadRequest, "mode must be steer, queue, collect, interrupt or reject")
	}
	return mode, nil
}

// CheckText holds for everything that a user says.
func CheckText(field string, text *string, l Limits) *conversation.Error {
	switch {
	case text == nil:
		return Missing(field)
	case strings.TrimSpace(*text) == "":
		return blank(field)
	case l.TextBytes > 0 && len(*text) > l.TextBytes:
		return conversation.Errorf(conversation.TooLarge, "%s must be at most %d bytes", field, l.TextBytes)
	}
	return nil
}

// CheckClientID refuses a client_msg_id that is too long; "" is fine here.
func CheckClientID(id string) *conversation.Error {
	if len(id) > MaxClientMsgID {
		return conversation.Errorf(conversation.BadRequest, "client_msg_id must be at most %d bytes", MaxClientMsgID)
	}
	return nil
}

// Answer is the data of answer; Text is nil if it was not given.
type Answer struct {
	ClientID string
	Question string
	Text     *string
}

// ReadAnswer reads the data of answer and checks its text against the limits.
func ReadAnswer(data []byte, l Limits) (Answer, *conversation.Error) {
	var d Answer
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "client_msg_id":
			return m.ClientID(&d.ClientID)
		case "question":
			return m.ID(&d.Question)
		case "text":
			return m.TextPointer(&d.Text)
		}
		return nil
	})
	if err == nil {
		err = CheckText("text", d.Text, l)
	}
	if err == nil {
		err = CheckClientID(d.ClientID)
	}
	return d, err
}

// Message is the data of edit, withdraw and move: the message that they are about,
// its new text (nil if not given), and the message that it moves before ("" = to the
// front).
type Message struct {
	Message string
	Text    *string
	Before  string
}

// ReadMessage reads the data of edit, withdraw and move, which kind names. A member that
// the command does not have is ignored, whatever it is.
func ReadMessage(kind string, data []byte) (Message, *conversation.Error) {
	var d Message
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "message":
			return m.ID(&d.Message)
		case "text":
			if kind == "edit" {
				return m.TextPointer(&d.Text)
			}
		case "before":
			if kind == "move" {
				return m.ID(&d.Before)
			}
		}
		return nil
	})
	if err == nil && d.Message == "" {
		err = Missing("message")
	}
	return d, err
}

// ReadCancel reads the data of cancel and the body of the cancel routes.
func ReadCancel(data []byte) (conversation.Cancel, *conversation.Error) {
	c := conversation.Cancel{By: conversation.ByUser}
	var task, waiting string
	err := ReadData(data, func(m Member) error {
		switch string(m.Name) {
		case "task":
			return m.ID(&task)
		case "reason":
			return m.Text(&c.Reason)
		case "waiting":
			return m.Word(&waiting)
		}
		return nil
	})
	if err != nil {
		return c, err
	}
	if waiting != "" && waiting != "drop" {
		return c, conversation.Errorf(conversation.BadRequest, `waiting must be "drop" or absent`)
	}
	c.Task, c.Drop = conversation.TaskID(task), waiting == "drop"
	return c, nil
}
