package slack

import (
	"cmp"
	"context"
	"encoding/json"
	"hash/fnv"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"parley/gateway/chat"
)

// What comes is read with the fields that we need, and not by the library's types: those refuse
// a whole event for one field that Slack has changed.

// What Slack sends, as the types of Socket Mode's envelopes.
const (
	kindEvent   = "events_api"
	kindCommand = "slash_commands"
	kindAction  = "interactive"
)

// callback is what the Events API sends.
type callback struct {
	Type      string          `json:"type"`
	Challenge string          `json:"challenge"`
	Team      string          `json:"team_id"`
	Event     json.RawMessage `json:"event"`
}

// message is an event about messages or channels.
type message struct {
	Type        string   `json:"type"`
	Subtype     string   `json:"subtype"`
	Channel     string   `json:"channel"`
	ChannelType string   `json:"channel_type"`
	User        string   `json:"user"`
	BotID       string   `json:"bot_id"`
	Text        string   `json:"text"`
	TS          string   `json:"ts"`
	Thread      string   `json:"thread_ts"`
	Parent      string   `json:"parent_user_id"`
	Team        string   `json:"team"`
	UserTeam    string   `json:"user_team"`   // in channels shared with others
	SourceTeam  string   `json:"source_team"` // the same
	EventTS     string   `json:"event_ts"`
	Files       []file   `json:"files"`
	Attachments []quoted `json:"attachments"`
	DeletedTS   string   `json:"deleted_ts"`
	Message     *message `json:"message"`
	Previous    *message `json:"previous_message"`
}

type file struct {
	ID      string `json:"id"`
	Name    string `json:"name"`
	Type    string `json:"mimetype"`
	Size    int64  `json:"size"`
	Mode    string `json:"mode"`
	Subtype string `json:"subtype"`
}

// quoted is a message that was forwarded, or the preview of a link.
type quoted struct {
	Share    bool   `json:"is_share"`
	Text     string `json:"text"`
	Fallback string `json:"fallback"`
}

// slash is a slash command.
type slash struct {
	Team        string `json:"team_id"`
	Channel     string `json:"channel_id"`
	ChannelName string `json:"channel_name"`
	User        string `json:"user_id"`
	UserName    string `json:"user_name"`
	Command     string `json:"command"`
	Text        string `json:"text"`
	ResponseURL string `json:"response_url"`
	Trigger     string `json:"trigger_id"`
}

// action is a press of a button.
type action struct {
	Type        string  `json:"type"`
	Team        named   `json:"team"`
	User        actor   `json:"user"`
	Channel     named   `json:"channel"`
	Message     message `json:"message"`
	ResponseURL string  `json:"response_url"`
	Container   struct {
		Channel string `json:"channel_id"`
		Message string `json:"message_ts"`
		Thread  string `json:"thread_ts"`
	} `json:"container"`
	Actions []struct {
		ID    string `json:"action_id"`
		Value string `json:"value"`
		TS    string `json:"action_ts"`
	} `json:"actions"`
}

type named struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

type actor struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	Team     string `json:"team_id"`
}

// accept gives what has come to the desk; done is called once, with nil when it need not come
// again. Slack's order within a channel is kept up to the desk.
func (r *run) accept(ctx context.Context, kind string, payload []byte, done func(error)) {
	updates, err := r.read(ctx, kind, payload)
	switch {
	case err != nil:
		done(err)
		return
	case len(updates) == 0:
		done(nil)
		return
	}
	all := allDone(len(updates), done)
	turn := r.order[stripe(updates[0].Allowed, len(r.order))]
	select {
	case turn <- struct{}{}:
		defer func() { <-turn }()
	case <-ctx.Done():
		for range updates {
			all(ctx.Err())
		}
		return
	}
	for _, u := range updates {
		r.finish(ctx, &u)
		r.desk.Take(ctx, u, all)
	}
}

// allDone calls done when it was called n times, with the first error.
func allDone(n int, done func(error)) func(error) {
	var mu sync.Mutex
	var first error
	return func(err error) {
		mu.Lock()
		if first == nil {
			first = err
		}
		n--
		last := n == 0
		mu.Unlock()
		if last {
			done(first)
		}
	}
}

func stripe(channel string, n int) int {
	h := fnv.New32a()
	h.Write([]byte(channel))
	return int(h.Sum32() % uint32(n))
}

// read makes updates of what has come; texts are still Slack's, and people are ids. What is
// not understood is nothing: it would not be understood the next time either.
func (r *run) read(ctx context.Context, kind string, payload []byte) ([]chat.Update, error) {
	switch kind {
	case kindEvent:
		var c callback
		var m message
		if json.Unmarshal(payload, &c) != nil || json.Unmarshal(c.Event, &m) != nil {
			return nil, nil
		}
		return r.event(ctx, c, m)
	case kindCommand:
		var c slash
		if json.Unmarshal(payload, &c) != nil || c.Channel == "" || c.User == "" || c.Trigger == "" {
			return nil, nil
		}
		return []chat.Update{r.command(c)}, nil
	case kindAction:
		var a action
		if json.Unmarshal(payload, &a) != nil || a.Type != "block_actions" {
			return nil, nil
		}
		return r.pressed(a), nil
	}
	return nil, nil
}

func (r *run) event(ctx context.Context, c callback, m message) ([]chat.Update, error) {
	var u chat.Update
	switch m.Type {
	case "app_mention":
		if !r.byPerson(m) {
			return nil, nil
		}
		u = r.said(c, m)
	case "message":
		switch m.Subtype {
		case "", "file_share", "thread_broadcast", "me_message":
			if !r.byPerson(m) {
				return nil, nil
			}
			u = r.said(c, m)
		case "message_changed":
			return r.changed(c, m), nil
		case "message_deleted":
			was := message{TS: m.DeletedTS}
			if m.Previous != nil {
				was = *m.Previous
			}
			return r.deleted(c, m, was), nil
		default:
			return nil, nil // somebody has joined, a bot has spoken, a topic has changed
		}
	case "member_left_channel":
		if m.User != r.self.User {
			return nil, nil
		}
		return r.left(ctx, m.Channel)
	case "channel_left", "group_left", "channel_archive", "group_archive", "channel_deleted", "group_deleted":
		return r.left(ctx, m.Channel)
	default:
		return nil, nil
	}
	return []chat.Update{u}, nil
}

// byPerson is true for a message that somebody has written who is no bot.
func (r *run) byPerson(m message) bool {
	return m.BotID == "" && m.User != "" && m.User != r.self.User && m.User != "USLACKBOT" && m.TS != "" && m.Channel != ""
}

// base is what the updates about a message have in common.
func (r *run) base(c callback, m message) chat.Update {
	direct := isDirect(m.Channel, m.ChannelType)
	name, to := r.chatOf(m.Channel, direct, m.TS, m.Thread, m.Parent)
	team := cmp.Or(m.UserTeam, m.SourceTeam)
	if team == "" && strings.HasPrefix(m.Team, "T") { // E… is an organisation of workspaces
		team = m.Team
	}
	u := chat.Update{
		Chat: name, To: to.address(), Allowed: m.Channel, Workspace: cmp.Or(team, c.Team), Group: !direct,
		From: chat.Person{ID: m.User}, Name: chat.MessageName(m.TS), Text: m.Text, At: when(cmp.Or(m.EventTS, m.TS)),
	}
	if m.Thread != m.TS {
		u.ReplyTo = chat.MessageName(m.Thread)
	}
	return u
}

// isDirect is true for a conversation of two.
func isDirect(channel, kind string) bool {
	if kind == "" {
		return strings.HasPrefix(channel, "D")
	}
	return kind == "im"
}

// chatOf names the chat of a message, and where answers go.
func (r *run) chatOf(channel string, direct bool, ts, thread, parent string) (string, place) {
	reply := thread != "" && thread != ts
	switch {
	case direct && reply:
		return channel, place{channel, thread}
	case direct:
		return channel, place{Channel: channel}
	case reply && parent == r.self.User: // below an answer to /parley
		return channel, place{channel, thread}
	case reply:
		return channel + ":" + thread, place{channel, thread}
	}
	return channel + ":" + ts, place{channel, ts}
}

// said is a message. message and app_mention, which Slack may both send for it, give the same.
func (r *run) said(c callback, m message) chat.Update {
	u := r.base(c, m)
	u.Kind, u.Files = chat.Said, files(m)
	for _, q := range m.Attachments {
		if text := cmp.Or(q.Text, q.Fallback); q.Share && text != "" {
			u.Text = strings.TrimLeft(u.Text+"\n"+text, "\n")
		}
	}
	_, known := r.threads.get(u.Chat)
	u.Addressed = !u.Group || known || m.Parent == r.self.User || slices.Contains(mentions(m.Text), r.self.User)
	if u.Addressed && u.Group {
		r.threads.put(u.Chat, struct{}{})
	}
	return u
}

// changed is an edit. Slack says "changed" as well when it adds the preview of a link, and when
// a message is deleted that has replies.
func (r *run) changed(c callback, m message) []chat.Update {
	if m.Message == nil {
		return nil
	}
	now := *m.Message
	if now.Subtype == "tombstone" {
		was := now
		if m.Previous != nil {
			was = *m.Previous
		}
		return r.deleted(c, m, was)
	}
	now.Channel, now.ChannelType, now.EventTS = m.Channel, m.ChannelType, m.EventTS
	if !r.byPerson(now) {
		return nil
	}
	if was := m.Previous; was != nil && was.Text == now.Text && slices.Equal(files(*was), files(now)) {
		return nil
	}
	u := r.base(c, now)
	u.Kind, u.Files = chat.Edited, files(now)
	return []chat.Update{u}
}

func (r *run) deleted(c callback, m, was message) []chat.Update {
	was.Channel, was.ChannelType, was.EventTS, was.Text = m.Channel, m.ChannelType, m.EventTS, ""
	if was.TS == "" || was.BotID != "" || was.User == r.self.User {
		return nil
	}
	u := r.base(c, was)
	u.Kind = chat.Deleted
	return []chat.Update{u}
}

// left is for all the chats of a channel.
func (r *run) left(ctx context.Context, channel string) ([]chat.Update, error) {
	var all []chat.Update
	if channel == "" {
		return nil, nil
	}
	for k, err := range r.desk.Known(ctx) {
		if err != nil {
			return nil, err
		}
		if in, _, _ := strings.Cut(k.Chat, ":"); in == channel {
			all = append(all, chat.Update{Kind: chat.Left, Chat: k.Chat, Allowed: channel, Workspace: r.self.Team, To: k.To, At: r.b.o.Now()})
		}
	}
	return all, nil
}

// command is a /parley. Slack does not say in which thread: there are no commands in threads.
func (r *run) command(c slash) chat.Update {
	direct := isDirect(c.Channel, "")
	text := strings.TrimLeft(strings.TrimSpace(c.Text), "/")
	u := chat.Update{
		Kind: chat.Said, Chat: c.Channel, To: place{Channel: c.Channel}.address(), Allowed: c.Channel,
		Workspace: cmp.Or(c.Team, r.self.Team), Group: !direct, From: chat.Person{ID: c.User, Handle: c.UserName},
		Name: chat.MessageName("cmd:" + c.Trigger), Text: "/" + cmp.Or(text, "help"),
		Addressed: true, Command: true, At: r.b.o.Now(), Reply: r.b.reply(c.ResponseURL),
	}
	if !direct && c.ChannelName != "" && c.ChannelName != "privategroup" {
		u.Title = "#" + c.ChannelName
	}
	return u
}

// pressed is a press of one of our buttons.
func (r *run) pressed(a action) []chat.Update {
	channel, ts := cmp.Or(a.Container.Channel, a.Channel.ID), cmp.Or(a.Container.Message, a.Message.TS)
	thread := cmp.Or(a.Container.Thread, a.Message.Thread)
	if channel == "" || ts == "" || a.User.ID == "" {
		return nil
	}
	direct := isDirect(channel, "")
	name, to := r.chatOf(channel, direct, ts, thread, a.Message.Parent)
	if !direct && (thread == "" || thread == ts) { // a message of ours that is in no thread
		name, to = channel, place{Channel: channel}
	}
	var all []chat.Update
	for _, one := range a.Actions {
		if !strings.HasPrefix(one.ID, actionPrefix) {
			continue
		}
		all = append(all, chat.Update{
			Kind: chat.Pressed, Chat: name, To: to.address(), Allowed: channel, Workspace: cmp.Or(a.User.Team, a.Team.ID, r.self.Team),
			Group: !direct, From: chat.Person{ID: a.User.ID, Handle: a.User.Username}, Token: one.Value,
			Name: chat.MessageName("press:" + one.TS), Addressed: true, At: when(one.TS), Reply: r.b.reply(a.ResponseURL),
		})
	}
	return all
}

// finish puts names into an update, and makes its text plain.
func (r *run) finish(ctx context.Context, u *chat.Update) {
	ctx, cancel := context.WithTimeout(ctx, nameTimeout)
	defer cancel()
	name := func(id string) string {
		p := r.b.person(ctx, id)
		return cmp.Or(p.Name, p.Handle)
	}
	if u.Kind != chat.Left && u.Kind != chat.Deleted {
		p := r.b.person(ctx, u.From.ID)
		u.From.Name, u.From.Handle = cmp.Or(p.Name, u.From.Handle), cmp.Or(p.Handle, u.From.Handle)
	}
	u.Text = decode(u.Text, r.self.User, name)
}

func files(m message) []chat.File {
	var all []chat.File
	for _, f := range m.Files {
		if f.Mode == "tombstone" { // it was deleted
			continue
		}
		kind := f.Type
		if f.Subtype == "slack_audio" {
			kind = "voice message"
		}
		all = append(all, chat.File{Name: f.Name, Type: kind, Bytes: f.Size})
	}
	return all
}

// when is the time that a message's name says: "1515449522.000016".
func when(ts string) time.Time {
	seconds, fraction, _ := strings.Cut(ts, ".")
	s, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return time.Time{}
	}
	micros, _ := strconv.ParseInt((fraction + "000000")[:6], 10, 64) // nonsense is zero
	return time.UnixMicro(s*1e6 + micros).UTC()
}

// isMessage is true for the name of a message; commands and presses have names, too.
func isMessage(id chat.MessageName) bool { return !strings.Contains(string(id), ":") && id != "" }
