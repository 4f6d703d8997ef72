package telegram

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/mymmrac/telego"

	"parley/gateway/chat"
)

// parse reads an update. What the library refuses because Telegram has something new in it is
// read without the parts that nobody here looks at.
func parse(raw []byte) (u telego.Update, err error) {
	if err = json.Unmarshal(raw, &u); err == nil {
		return u, nil
	}
	var whole map[string]json.RawMessage
	if json.Unmarshal(raw, &whole) != nil {
		return u, err
	}
	for _, name := range []string{"message", "edited_message"} {
		var m map[string]json.RawMessage
		if json.Unmarshal(whole[name], &m) != nil {
			continue
		}
		for _, unused := range []string{"forward_origin", "external_reply", "pinned_message", "paid_media", "chat_background_set", "reply_markup"} {
			delete(m, unused)
		}
		if reply := map[string]json.RawMessage{}; json.Unmarshal(m["reply_to_message"], &reply) == nil {
			delete(reply, "forward_origin")
			delete(reply, "external_reply")
			m["reply_to_message"], _ = json.Marshal(reply) // it was read
		}
		whole[name], _ = json.Marshal(m)
	}
	lean, _ := json.Marshal(whole)
	var again telego.Update
	if json.Unmarshal(lean, &again) != nil {
		_ = json.Unmarshal(whole["update_id"], &again.UpdateID) // for the log
		return again, err
	}
	return again, nil
}

// update makes of Telegram's update one for the channel; is = there is something in it.
func (b *Bot) update(u telego.Update, me telego.User) (out chat.Update, is bool) {
	switch {
	case u.Message != nil:
		return b.message(u.Message, me, chat.Said)
	case u.EditedMessage != nil:
		return b.message(u.EditedMessage, me, chat.Edited)
	case u.CallbackQuery != nil:
		return pressed(u.CallbackQuery)
	case u.MyChatMember != nil:
		return membership(u.MyChatMember)
	}
	return out, false
}

// address is where to send, as chats' rows keep it.
type address struct {
	Chat   int64 `json:"chat"`
	Thread int   `json:"thread,omitempty"` // a topic of a forum; 0 = there is none
}

func (a address) chat() string {
	id := strconv.FormatInt(a.Chat, 10)
	if a.Thread != 0 {
		id += ":" + strconv.Itoa(a.Thread)
	}
	return id
}

func (a address) json() chat.Address {
	text, _ := json.Marshal(a) // two numbers
	return text
}

// place fills in where an update comes from.
func place(c telego.Chat, thread int) chat.Update {
	a := address{c.ID, thread}
	return chat.Update{
		Chat: a.chat(), Allowed: strconv.FormatInt(c.ID, 10), To: a.json(),
		Group: c.Type == telego.ChatTypeGroup || c.Type == telego.ChatTypeSupergroup, Title: c.Title,
	}
}

// topic is the topic of a forum that a message stands in. A thread of replies in an ordinary
// group has a number, too, but is no conversation of its own.
func topic(m *telego.Message) int {
	if m.IsTopicMessage {
		return m.MessageThreadID
	}
	return 0
}

// message makes an update of a message, or of one that was edited.
func (b *Bot) message(m *telego.Message, me telego.User, kind chat.UpdateKind) (chat.Update, bool) {
	u := place(m.Chat, topic(m))
	u.Kind, u.Name = kind, name(m.MessageID)
	u.At = time.UnixMilli(m.Date * 1000).UTC()
	if m.MigrateToChatID != 0 {
		b.hasMoved(m.Chat.ID, m.MigrateToChatID)
		return u, false
	}
	if m.Chat.Type == telego.ChatTypeChannel || m.IsAutomaticForward || !author(m, &u) {
		return u, false
	}
	text, entities := m.Text, m.Entities
	if text == "" {
		text, entities = m.Caption, m.CaptionEntities
	}
	var forUs bool
	if u.Text, u.Addressed, forUs = addressed(text, entities, me); !forUs {
		return u, false
	}
	u.Addressed = u.Addressed || !u.Group
	if r := m.ReplyToMessage; r != nil && r.ForumTopicCreated == nil { // each message of a topic "replies" to its beginning
		u.ReplyTo = name(r.MessageID)
		u.Addressed = u.Addressed || r.From != nil && r.From.ID == me.ID
	}
	u.Files = files(m)
	if words := words(m); words != "" {
		if kind == chat.Edited && m.Location != nil {
			return u, false // a position that moves
		}
		u.Text = strings.TrimPrefix(u.Text+"\n"+words, "\n")
	}
	return u, strings.TrimSpace(u.Text) != "" || len(u.Files) > 0
}

// name is a message's name within its chat.
func name(id int) chat.MessageName { return chat.MessageName(strconv.Itoa(id)) }

// author fills in who has written. Other bots are not listened to: two that answer each other
// never end. Whoever writes in a chat's or channel's name, such as an administrator who stays
// anonymous, has the id of that chat: it is allowed, or not, like a person's.
func author(m *telego.Message, u *chat.Update) bool {
	if c := m.SenderChat; c != nil {
		name := cmp.Or(c.Title, strings.TrimSpace(c.FirstName+" "+c.LastName))
		if m.AuthorSignature != "" {
			name += " (" + m.AuthorSignature + ")"
		}
		u.From = chat.Person{ID: strconv.FormatInt(c.ID, 10), Name: name, Handle: c.Username}
		return true
	}
	if m.From == nil || m.From.IsBot {
		return false
	}
	u.From = person(*m.From)
	return true
}

func person(u telego.User) chat.Person {
	return chat.Person{
		ID: strconv.FormatInt(u.ID, 10), Name: strings.TrimSpace(u.FirstName + " " + u.LastName), Handle: u.Username,
	}
}

// addressed looks for the bot's name in a text. A mention at the beginning is taken off.
// forUs is false for a command that names another bot.
func addressed(text string, entities []telego.MessageEntity, me telego.User) (rest string, is, forUs bool) {
	units := utf16.Encode([]rune(text))
	for _, e := range entities {
		if e.Offset < 0 || e.Length < 0 || e.Offset+e.Length > len(units) {
			continue
		}
		said := string(utf16.Decode(units[e.Offset : e.Offset+e.Length]))
		ours := false
		switch e.Type {
		case telego.EntityTypeMention:
			ours = strings.EqualFold(said, "@"+me.Username)
		case telego.EntityTypeTextMention:
			ours = e.User != nil && e.User.ID == me.ID
		case telego.EntityTypeBotCommand:
			_, bot, named := strings.Cut(said, "@")
			if named && e.Offset == 0 && !strings.EqualFold(bot, me.Username) {
				return text, false, false
			}
			is = is || named && strings.EqualFold(bot, me.Username)
		}
		if !ours {
			continue
		}
		is = true
		if rest == "" && strings.TrimSpace(string(utf16.Decode(units[:e.Offset]))) == "" {
			rest = strings.TrimLeft(string(utf16.Decode(units[e.Offset+e.Length:])), " \t\n,:;")
			if rest == "" {
				return "", true, true
			}
		}
	}
	return cmp.Or(rest, text), is, true
}

// files are what is attached to a message.
func files(m *telego.Message) (all []chat.File) {
	add := func(name, kind string, bytes int64) {
		all = append(all, chat.File{Name: name, Type: kind, Bytes: bytes})
	}
	if n := len(m.Photo); n > 0 { // in all sizes, the largest is the last
		add("", "image/jpeg", int64(m.Photo[n-1].FileSize))
	}
	switch {
	case m.Animation != nil: // it is sent as a document as well
		add(m.Animation.FileName, cmp.Or(m.Animation.MimeType, "animation"), m.Animation.FileSize)
	case m.Document != nil:
		add(m.Document.FileName, m.Document.MimeType, m.Document.FileSize)
	}
	if v := m.Voice; v != nil {
		add("", fmt.Sprintf("voice message of %d s", v.Duration), v.FileSize)
	}
	if a := m.Audio; a != nil {
		add(cmp.Or(a.FileName, a.Title), cmp.Or(a.MimeType, "audio"), a.FileSize)
	}
	if v := m.Video; v != nil {
		add(v.FileName, cmp.Or(v.MimeType, "video"), v.FileSize)
	}
	if v := m.VideoNote; v != nil {
		add("", fmt.Sprintf("video message of %d s", v.Duration), int64(v.FileSize))
	}
	if m.PaidMedia != nil {
		add("", "paid media", 0)
	}
	if m.Story != nil {
		add("", "story", 0)
	}
	return all
}

// words say what was sent that is neither text nor a file.
func words(m *telego.Message) string {
	line := func(kind string, about ...string) string {
		said := []string{}
		for _, a := range about {
			if a != "" {
				said = append(said, a)
			}
		}
		return "[" + kind + ": " + plain.Replace(strings.Join(said, ", ")) + "]"
	}
	at := func(l telego.Location) string { return fmt.Sprintf("%.6f, %.6f", l.Latitude, l.Longitude) }
	switch {
	case m.Sticker != nil:
		return line("sticker", cmp.Or(m.Sticker.Emoji, "without an emoji"))
	case m.Venue != nil:
		return line("location", m.Venue.Title, m.Venue.Address, at(m.Venue.Location))
	case m.Location != nil:
		return line("location", at(*m.Location))
	case m.Contact != nil:
		return line("contact", strings.TrimSpace(m.Contact.FirstName+" "+m.Contact.LastName), m.Contact.PhoneNumber)
	case m.Poll != nil:
		about := []string{m.Poll.Question}
		for _, o := range m.Poll.Options {
			about = append(about, o.Text)
		}
		return line("poll", about...)
	case m.Dice != nil:
		return line("dice", m.Dice.Emoji, strconv.Itoa(m.Dice.Value))
	case m.Checklist != nil:
		about := []string{m.Checklist.Title}
		for _, t := range m.Checklist.Tasks {
			about = append(about, t.Text)
		}
		return line("checklist", about...)
	}
	return ""
}

// plain keeps what others wrote from ending our bracket.
var plain = strings.NewReplacer("\n", " ", "\r", " ", "[", "(", "]", ")")

// pressed makes an update of a button.
func pressed(q *telego.CallbackQuery) (u chat.Update, is bool) {
	if q.Message == nil || q.Data == "" {
		return u, false
	}
	thread, token := untag(q.Data)
	if m := q.Message.Message(); m != nil {
		thread = topic(m)
	}
	u = place(q.Message.GetChat(), thread)
	u.Kind, u.Name, u.Token, u.From = chat.Pressed, chat.MessageName("cb:"+q.ID), token, person(q.From)
	u.ReplyTo, u.Addressed = name(q.Message.GetMessageID()), true
	return u, true
}

// queryID is the id of a press from its name.
func queryID(n chat.MessageName) string { return strings.TrimPrefix(string(n), "cb:") }

// tag puts the topic before a button's token: of a message that is a few days old Telegram
// says only the chat.
func tag(token string, thread int) string {
	if thread == 0 {
		return token
	}
	return strconv.Itoa(thread) + "#" + token
}

func untag(data string) (thread int, token string) {
	before, after, found := strings.Cut(data, "#")
	if n, err := strconv.Atoi(before); found && err == nil {
		return n, after
	}
	return 0, data
}

// membership makes an update of what has become of the bot in a chat.
func membership(c *telego.ChatMemberUpdated) (u chat.Update, is bool) {
	switch c.NewChatMember.MemberStatus() {
	case telego.MemberStatusLeft, telego.MemberStatusBanned:
		u = place(c.Chat, 0)
		u.Kind, u.From = chat.Left, person(c.From)
		u.At = time.UnixMilli(c.Date * 1000).UTC()
		return u, c.Chat.Type != telego.ChatTypeChannel
	}
	return u, false
}
