package discordtest

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// Say posts a message of a person; change may make it another one than a plain text.
func (s *Discord) Say(channel, user, text string, change ...func(*Posting)) (id string) {
	s.do(func() {
		m := &Posting{ID: s.id(), Channel: channel, Author: user, Content: text}
		for _, f := range change {
			f(m)
		}
		if m.ReplyTo != "" {
			m.Type = 19
		}
		id = m.ID
		s.messages = append(s.messages, m)
		s.dispatch("MESSAGE_CREATE", s.wire(m, true))
	})
	return id
}

// SaidBefore puts a message of a person into the history alone, as old as that.
func (s *Discord) SaidBefore(channel, user, text string, age time.Duration) (id string) {
	s.do(func() {
		id = s.idAt(time.Now().Add(-age))
		s.messages = append(s.messages, &Posting{ID: id, Channel: channel, Author: user, Content: text})
	})
	return id
}

// Edit changes a message of a person.
func (s *Discord) Edit(id, text string) {
	s.do(func() {
		m := s.message(id)
		m.Content, m.Edited = text, time.Now()
		s.dispatch("MESSAGE_UPDATE", s.wire(m, true))
	})
}

// Unfold has Discord unfold a link in a message, which is an update but no edit.
func (s *Discord) Unfold(id string) {
	s.do(func() { s.dispatch("MESSAGE_UPDATE", s.wire(s.message(id), true)) })
}

// Delete deletes a message of a person.
func (s *Discord) Delete(id string) {
	s.do(func() {
		m := s.message(id)
		m.Gone = true
		s.dispatch("MESSAGE_DELETE", map[string]any{"id": id, "channel_id": m.Channel, "guild_id": s.channels[m.Channel].Guild})
	})
}

// Press presses the button of a message with that label.
func (s *Discord) Press(user, message, label string) (id string, err error) {
	s.do(func() {
		m := s.message(message)
		err = fmt.Errorf("message %s has no button %q", message, label)
		if m == nil {
			return
		}
		for _, b := range m.Buttons {
			if b.Label == label {
				id, err = s.interact(user, m.Channel, 3, map[string]any{"custom_id": b.CustomID, "component_type": 2}), nil
			}
		}
	})
	return id, err
}

// Command gives a slash command.
func (s *Discord) Command(user, channel, name, args string) (id string) {
	s.do(func() {
		data := map[string]any{"id": "77", "name": name, "type": 1}
		if args != "" {
			data["options"] = []any{map[string]any{"name": "text", "type": 3, "value": args}}
		}
		id = s.interact(user, channel, 2, data)
	})
	return id
}

func (s *Discord) interact(user, channel string, kind int, data any) string {
	i := &Interaction{ID: s.id()}
	i.Token = "interaction-token-" + i.ID
	s.acts[i.ID] = i
	c := s.channels[channel]
	e := map[string]any{
		"id": i.ID, "application_id": Application, "type": kind, "token": i.Token, "version": 1,
		"channel_id": channel, "data": data, "channel": s.wireChannel(c),
	}
	if c.Guild != "" {
		e["guild_id"], e["member"] = c.Guild, map[string]any{"user": s.wireUser(user), "nick": nil, "roles": []string{}}
	} else {
		e["user"] = s.wireUser(user)
	}
	s.dispatch("INTERACTION_CREATE", e)
	return i.ID
}

// Leave takes the bot off a server; with outage, the server is not reachable for a while.
func (s *Discord) Leave(guild string, outage bool) {
	s.do(func() {
		e := map[string]any{"id": guild}
		if outage {
			e["unavailable"] = true
		}
		s.dispatch("GUILD_DELETE", e)
	})
}

// DeleteChannel deletes a channel, or a thread.
func (s *Discord) DeleteChannel(id string) {
	s.do(func() {
		c := s.channels[id]
		delete(s.channels, id)
		kind := "CHANNEL_DELETE"
		if c.Type == TypeThread {
			kind = "THREAD_DELETE"
		}
		s.dispatch(kind, s.wireChannel(c))
	})
}

// mentions are in the content of a message.
var mentions = regexp.MustCompile(`<@!?(\d+)>`)

func (s *Discord) wireUser(id string) map[string]any {
	u := s.users[id]
	return map[string]any{"id": id, "username": u.Handle, "global_name": u.Name, "bot": u.Bot, "discriminator": "0", "avatar": nil}
}

func (s *Discord) wireChannel(c Place) map[string]any {
	w := map[string]any{"id": c.ID, "type": c.Type, "name": c.Name}
	if c.Guild != "" {
		w["guild_id"] = c.Guild
	}
	if c.Parent != "" {
		w["parent_id"] = c.Parent
	}
	return w
}

// wire is a message in the wire format. Only events name the guild and the member.
func (s *Discord) wire(m *Posting, event bool) map[string]any {
	w := map[string]any{
		"id": m.ID, "channel_id": m.Channel, "author": s.wireUser(m.Author), "content": m.Content,
		"timestamp": time.Now().UTC().Format(time.RFC3339), "edited_timestamp": nil, "tts": false, "type": m.Type, "flags": m.Flags,
		"mention_roles": []string{}, "embeds": []any{}, "pinned": false, "mention_everyone": false,
	}
	if !m.Edited.IsZero() {
		w["edited_timestamp"] = m.Edited.UTC().Format("2006-01-02T15:04:05.000000+00:00")
	}
	if guild := s.channels[m.Channel].Guild; event && guild != "" {
		w["guild_id"] = guild
		w["member"] = map[string]any{"nick": nil, "roles": []string{}}
	}
	if m.Webhook {
		w["webhook_id"] = "99"
	}
	named := []any{}
	for _, id := range mentions.FindAllStringSubmatch(m.Content, -1) {
		if _, is := s.users[id[1]]; is {
			named = append(named, s.wireUser(id[1]))
		}
	}
	w["mentions"] = named
	if m.ReplyTo != "" {
		w["message_reference"] = map[string]any{"type": 0, "message_id": m.ReplyTo, "channel_id": m.Channel}
		w["referenced_message"] = nil
		if other := s.message(m.ReplyTo); other != nil && !other.Gone {
			w["referenced_message"] = map[string]any{"id": other.ID, "author": s.wireUser(other.Author), "content": other.Content}
		}
	}
	files := []any{}
	for i, f := range m.Files {
		files = append(files, map[string]any{"id": fmt.Sprint(i), "filename": f.Name, "content_type": f.Type, "size": f.Bytes, "url": "https://cdn.invalid/" + f.Name})
	}
	w["attachments"] = files
	if m.Sticker != "" {
		w["sticker_items"] = []any{map[string]any{"id": "1", "name": m.Sticker, "format_type": 1}}
	}
	rows := []any{}
	for i, b := range m.Buttons {
		if i%5 == 0 {
			rows = append(rows, map[string]any{"type": 1, "components": []any{}})
		}
		row := rows[len(rows)-1].(map[string]any)
		row["components"] = append(row["components"].([]any), map[string]any{"type": 2, "style": 2, "label": b.Label, "custom_id": b.CustomID})
	}
	w["components"] = rows
	if m.Nonce != "" && (event || s.shown) {
		w["nonce"] = m.Nonce
	}
	return w
}

// Mention is a mention of somebody in a text.
func Mention(id string) string { return "<@" + id + ">" }

// Reply makes a message a reply.
func Reply(to string) func(*Posting) { return func(m *Posting) { m.ReplyTo = to } }

// Attach attaches a file.
func Attach(name, kind string, bytes int64) func(*Posting) {
	return func(m *Posting) { m.Files = append(m.Files, Attachment{name, kind, bytes}) }
}

// trimmed is a content as Discord stores it.
func trimmed(s string) string { return strings.TrimSpace(s) }
