package slacktest

import (
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// Say is a message of somebody; thread is "" or the message that it stands below. It is
// named by what is returned.
func (w *Workspace) Say(channel, thread, user, text string, files ...map[string]any) (ts string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := &Written{Channel: channel, TS: w.ts(), Thread: thread, User: user, Text: text}
	w.written = append(w.written, m)
	e := w.messageEvent(m)
	if len(files) > 0 {
		e["subtype"], e["files"] = "file_share", files
	}
	w.event(e)
	if channelType(channel) != "im" && strings.Contains(text, "<@"+Bot+">") {
		mention := object{}
		for k, v := range e {
			mention[k] = v
		}
		mention["type"] = "app_mention"
		delete(mention, "channel_type")
		w.event(mention)
	}
	return m.TS
}

// messageEvent is the event of a message. The caller holds mu.
func (w *Workspace) messageEvent(m *Written) object {
	e := wire(m)
	e["channel"], e["channel_type"], e["event_ts"] = m.Channel, channelType(m.Channel), m.TS
	if root := w.find(m.Channel, m.Thread); root != nil {
		e["parent_user_id"] = root.User
	}
	return e
}

// event delivers an event. The caller holds mu.
func (w *Workspace) event(e any) {
	w.deliver(kindEvent, object{
		"token": "old", "team_id": Team, "api_app_id": "A001", "type": "event_callback",
		"event_id": "Ev" + strconv.Itoa(w.next()), "event_time": 1, "event": e,
	})
}

// Edit gives a message of somebody another text.
func (w *Workspace) Edit(channel, ts, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.find(channel, ts)
	was := w.messageEvent(m)
	m.Text = text
	w.event(w.hidden("message_changed", channel, object{"message": w.messageEvent(m), "previous_message": was}))
}

// Preview adds the preview of a link to a message.
func (w *Workspace) Preview(channel, ts string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.find(channel, ts)
	now := w.messageEvent(m)
	now["attachments"] = []object{{"title": "A page", "text": "about it"}}
	w.event(w.hidden("message_changed", channel, object{"message": now, "previous_message": w.messageEvent(m)}))
}

// Delete deletes a message of somebody.
func (w *Workspace) Delete(channel, ts string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.find(channel, ts)
	was := w.messageEvent(m)
	replies := slices.ContainsFunc(w.written, func(r *Written) bool { return r.Channel == channel && r.Thread == ts && !r.Deleted })
	m.Deleted = true
	if replies { // what stands below it needs something to stand below
		grave := object{"type": "message", "subtype": "tombstone", "user": "USLACKBOT", "text": "This message was deleted.", "ts": ts, "thread_ts": ts}
		w.event(w.hidden("message_changed", channel, object{"message": grave, "previous_message": was}))
		return
	}
	w.event(w.hidden("message_deleted", channel, object{"deleted_ts": ts, "previous_message": was}))
}

// hidden is an event about a message. The caller holds mu.
func (w *Workspace) hidden(subtype, channel string, more object) object {
	e := object{"type": "message", "subtype": subtype, "hidden": true, "channel": channel, "channel_type": channelType(channel), "ts": w.ts()}
	e["event_ts"] = e["ts"]
	for k, v := range more {
		e[k] = v
	}
	return e
}

// Command is a /parley of somebody.
func (w *Workspace) Command(channel, user, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := strconv.Itoa(w.next())
	name := "general"
	if channelType(channel) == "im" {
		name = "directmessage"
	}
	w.deliver(kindCommand, object{
		"token": "old", "team_id": Team, "team_domain": "test", "channel_id": channel, "channel_name": name,
		"user_id": user, "user_name": strings.ToLower(user), "command": "/parley", "text": text, "api_app_id": "A001",
		"is_enterprise_install": "false", "response_url": w.server.URL + "/commands/T001/" + n, "trigger_id": "trigger." + n,
	})
}

// Press is a press of a button of a message; it is false if the message has none with that label.
func (w *Workspace) Press(channel, ts, user, label string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := w.find(channel, ts)
	if m == nil {
		return false
	}
	for _, b := range m.Blocks {
		elements, _ := b["elements"].([]any)
		for _, e := range elements {
			button, _ := e.(object)
			text, _ := button["text"].(object)
			if b["type"] != "actions" || text["text"] != label {
				continue
			}
			message := w.messageEvent(m)
			container := object{"type": "message", "message_ts": ts, "channel_id": channel, "is_ephemeral": false}
			if m.Thread != "" {
				container["thread_ts"] = m.Thread
			}
			n := strconv.Itoa(w.next())
			w.deliver(kindAction, object{
				"type": "block_actions", "user": object{"id": user, "username": strings.ToLower(user), "team_id": Team}, "api_app_id": "A001",
				"container": container, "trigger_id": "trigger." + n, "team": object{"id": Team, "domain": "test"},
				"channel": object{"id": channel, "name": "general"}, "message": message, "response_url": w.server.URL + "/commands/T001/" + n,
				"actions": []object{{
					"type": "button", "action_id": button["action_id"], "block_id": b["block_id"], "text": text, "value": button["value"], "action_ts": w.ts(),
				}},
			})
			return true
		}
	}
	return false
}

// Leave takes the bot out of a channel.
func (w *Workspace) Leave(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed[channel] = "not_in_channel"
	w.event(object{"type": "member_left_channel", "user": Bot, "channel": channel, "channel_type": "C", "team": Team})
}

// Archive archives a channel.
func (w *Workspace) Archive(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed[channel] = "is_archived"
	w.event(object{"type": "channel_archive", "channel": channel, "user": Anna})
}

// Chatter is a message that nobody is told of.
func (w *Workspace) Chatter(channel string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.written = append(w.written, &Written{Channel: channel, TS: w.ts(), User: Anna, Text: "bla"})
}

// Silent is a client that reaches nobody.
func Silent() *http.Client {
	return &http.Client{Transport: silent{}}
}

type silent struct{}

func (silent) RoundTrip(*http.Request) (*http.Response, error) {
	return nil, errors.New("there is nobody")
}
