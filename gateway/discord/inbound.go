package discord

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/bwmarrin/discordgo"

	"parley/gateway/chat"
)

// Types and flags of messages. All other types are Discord's own words: joins, pins, boosts.
const (
	typeDefault  = 0
	typeReply    = 19
	flagVoice    = 1 << 13
	typeForward  = 1 // of a reference
	maxChannels  = 10_000
	namedInOne   = 5 // channel names that are looked up for one message
	voiceMessage = "voice message"
)

// said takes a message that has come.
func (b *Bot) said(m message) {
	if j, is := b.saidJob(m); is {
		b.enqueue(m.Channel, j)
	}
}

// saidJob is the job of a message of a person.
func (b *Bot) saidJob(m message) (job, bool) {
	if !b.human(m) || m.Type != typeDefault && m.Type != typeReply {
		return job{}, false
	}
	return job{name: m.ID, id: number(m.ID), update: func(ctx context.Context) (chat.Update, bool, error) {
		return b.message(ctx, chat.Said, m)
	}}, true
}

// human is true for messages of people, as far as Discord says.
func (b *Bot) human(m message) bool {
	me := b.me.Load()
	return isID(m.ID) && isID(m.Channel) && isID(m.Author.ID) && me != nil && m.Author.ID != me.ID &&
		!m.Author.Bot && !m.Author.System && m.Webhook == ""
}

// editName is the name of one edit of a message, for seen.
func editName(m message) string { return "edit:" + m.ID + ":" + m.Edited }

// edited takes an edit. Discord also says that a message was updated when it has unfolded a
// link in it: then it was edited never, or at the same time as before.
func (b *Bot) edited(m message) {
	if m.Edited == "" || !b.human(m) {
		return
	}
	b.enqueue(m.Channel, job{name: editName(m), update: func(ctx context.Context) (chat.Update, bool, error) {
		return b.message(ctx, chat.Edited, m)
	}})
}

// deleted takes a deletion. Discord does not say whose the message was.
func (b *Bot) deleted(channel, id string) {
	if !isID(channel) || !isID(id) {
		return
	}
	b.enqueue(channel, job{name: "delete:" + id, update: func(ctx context.Context) (chat.Update, bool, error) {
		u, err := b.update(ctx, chat.Deleted, channel, "")
		u.Name = chat.MessageName(id)
		return u, true, err
	}})
}

// message makes the update of a message.
func (b *Bot) message(ctx context.Context, kind chat.UpdateKind, m message) (chat.Update, bool, error) {
	me := b.me.Load()
	u, err := b.update(ctx, kind, m.Channel, m.Guild)
	if err != nil {
		return u, false, err
	}
	u.From = chat.Person{ID: m.Author.ID, Name: m.Author.shown(m.Member), Handle: m.Author.Username}
	u.Name, u.At = chat.MessageName(m.ID), madeAt(m.ID)
	users := map[string]string{}
	for _, p := range m.Mentions {
		users[p.ID] = p.shown(p.Member)
		u.Addressed = u.Addressed || p.ID == me.ID
	}
	lookups := 0
	text, mentioned := plain(m.Content, me, users, func(id string) string {
		if lookups++; lookups > namedInOne {
			return ""
		}
		c, _ := b.channel(ctx, id) // what cannot be looked up stays as it is
		return c.Name
	})
	u.Text = text
	u.Addressed = u.Addressed || mentioned || !u.Group || b.speaksIn(m.Channel)
	if m.Reference != nil && m.Reference.Type != typeForward {
		u.ReplyTo = chat.MessageName(m.Reference.Message)
		u.Addressed = u.Addressed || m.Referenced != nil && m.Referenced.Author.ID == me.ID
	}
	attachments := m.Attachments
	for _, s := range m.Snapshots { // forwarded messages
		u.Text = join(u.Text, "[forwarded]", s.Message.Content)
		attachments = append(attachments, s.Message.Attachments...)
	}
	if m.Poll != nil {
		u.Text = join(u.Text, "[poll] "+m.Poll.Question.Text)
		for i, a := range m.Poll.Answers {
			if a.Media != nil {
				u.Text += fmt.Sprintf("\n%d. %s", i+1, a.Media.Text)
			}
		}
	}
	for _, a := range attachments {
		f := chat.File{Name: a.Filename, Type: a.ContentType, Bytes: a.Size}
		if m.Flags&flagVoice != 0 {
			f.Type = strings.TrimSuffix(voiceMessage+", "+a.ContentType, ", ")
		}
		u.Files = append(u.Files, f)
	}
	for _, s := range m.Stickers {
		u.Files = append(u.Files, chat.File{Name: s.Name, Type: "sticker"})
	}
	return u, true, nil
}

// join puts texts under each other, without the empty ones.
func join(texts ...string) string {
	var all []string
	for _, t := range texts {
		if strings.TrimSpace(t) != "" {
			all = append(all, t)
		}
	}
	return strings.Join(all, "\n")
}

// update is what updates of a channel have in common.
func (b *Bot) update(ctx context.Context, kind chat.UpdateKind, in, guild string) (chat.Update, error) {
	c, err := b.channel(ctx, in)
	if err != nil {
		return chat.Update{}, err
	}
	if c.Guild == "" {
		c.Guild = guild
	}
	d := destination{Channel: in, Guild: c.Guild}
	u := chat.Update{
		Kind: kind, Chat: in, Workspace: c.Guild, Title: c.Name,
		Group: c.Guild != "" || c.Type == discordgo.ChannelTypeGroupDM,
	}
	if c.thread() {
		d.Parent, u.Allowed = c.Parent, c.Parent
	} else if c.Guild != "" && c.Name != "" {
		u.Title = "#" + c.Name
	}
	u.To = d.address()
	return u, nil
}

// speaksIn is true for threads that have spoken with the bot: there, everything is meant for it.
func (b *Bot) speaksIn(id string) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.channels[id].thread() && b.engaged[id]
}

// channel is what we read of a channel.
type channel struct {
	ID     string                `json:"id"`
	Type   discordgo.ChannelType `json:"type"`
	Guild  string                `json:"guild_id"`
	Parent string                `json:"parent_id"` // of a thread: its channel; else the category
	Name   string                `json:"name"`
}

func (c channel) thread() bool {
	return c.Type == discordgo.ChannelTypeGuildPublicThread || c.Type == discordgo.ChannelTypeGuildPrivateThread || c.Type == discordgo.ChannelTypeGuildNewsThread
}

// channel asks Discord about a channel, once. One that it does not show has an id only.
func (b *Bot) channel(ctx context.Context, id string) (channel, error) {
	b.mu.Lock()
	c, known := b.channels[id]
	b.mu.Unlock()
	if known {
		return c, nil
	}
	err := b.do(ctx, call{method: "GET", path: "channels/" + id, route: "channels/#", out: &c, patience: patienceInside})
	var f *chat.Failure
	if err != nil && (!errors.As(err, &f) || f.Trouble != chat.Unreachable && f.Trouble != chat.Unfit) {
		return channel{}, err
	}
	if err != nil {
		c = channel{}
	}
	c.ID = id
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.channels) >= maxChannels {
		clear(b.channels)
	}
	b.channels[id] = c
	return c, nil
}

// forget has a channel asked about again.
func (b *Bot) forget(id string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	delete(b.channels, id)
}
