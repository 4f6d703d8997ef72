package discord

import (
	"context"
	"encoding/json"
	"net/url"
	"strings"
	"time"
	"unicode/utf16"

	"github.com/bwmarrin/discordgo"

	"parley/gateway/chat"
)

// Commands and presses have names of their own: the id of their interaction behind a word.
const (
	commandPrefix = "cmd:"
	pressPrefix   = "press:"
)

// Bounds of interactions.
const (
	acknowledgeWithin = 2500 * time.Millisecond // Discord waits for three seconds
	maxEphemeral      = 4                       // messages that one answer may have
)

// interaction takes a command or a press. It is acknowledged at once, which promises nothing:
// the one who gave the command sees that it is being worked on, and then what became of it.
func (b *Bot) interaction(r *run, data json.RawMessage) error {
	var i struct {
		ID      string                    `json:"id"`
		App     string                    `json:"application_id"`
		Type    discordgo.InteractionType `json:"type"`
		Token   string                    `json:"token"`
		Guild   string                    `json:"guild_id"`
		Channel string                    `json:"channel_id"`
		Member  *member                   `json:"member"`
		User    *person                   `json:"user"`
		Data    struct {
			Name     string `json:"name"`
			CustomID string `json:"custom_id"`
			Options  []struct {
				Value any `json:"value"`
			} `json:"options"`
		} `json:"data"`
	}
	if err := json.Unmarshal(data, &i); err != nil {
		return err
	}
	var from chat.Person
	switch {
	case i.Member != nil:
		from = chat.Person{ID: i.Member.User.ID, Name: i.Member.User.shown(i.Member), Handle: i.Member.User.Username}
	case i.User != nil:
		from = chat.Person{ID: i.User.ID, Name: i.User.shown(nil), Handle: i.User.Username}
	}
	if !isID(i.ID) || !isID(i.Channel) || !isID(from.ID) || i.Type != discordgo.InteractionApplicationCommand && i.Type != discordgo.InteractionMessageComponent {
		return nil
	}
	press := i.Type == discordgo.InteractionMessageComponent
	a := &ephemeral{b: b, app: i.App, token: i.Token, press: press}
	name, ack := commandPrefix+i.ID, discordgo.InteractionResponseDeferredChannelMessageWithSource
	if press {
		name, ack = pressPrefix+i.ID, discordgo.InteractionResponseDeferredMessageUpdate
	}
	b.mu.Lock()
	again := b.seen.has(name)
	b.mu.Unlock()
	if again {
		return nil
	}
	var words []string
	for _, o := range i.Data.Options {
		if s, is := o.Value.(string); is && s != "" {
			words = append(words, s)
		}
	}
	args := strings.Join(words, " ")
	acknowledged := make(chan struct{})
	r.wg.Go(func() {
		defer close(acknowledged)
		b.acknowledge(r, i.ID, i.Token, ack, press)
	})
	j := job{name: name, update: func(ctx context.Context) (chat.Update, bool, error) {
		select {
		case <-acknowledged:
		case <-ctx.Done():
			return chat.Update{}, false, ctx.Err()
		}
		u, err := b.update(ctx, chat.Pressed, i.Channel, i.Guild)
		u.From, u.Name, u.At, u.Addressed, u.Reply = from, chat.MessageName(name), madeAt(i.ID), true, a.reply
		if press {
			u.Token = i.Data.CustomID
			return u, true, err
		}
		u.Kind, u.Command, u.Text = chat.Said, true, strings.TrimSpace("/"+i.Data.Name+" "+args)
		return u, true, err
	}}
	if !press {
		j.taken = func(ctx context.Context) { a.settle(ctx, i.Data.Name, args, from) }
	}
	b.enqueue(i.Channel, j)
	return nil
}

// acknowledge tells Discord in time that an interaction has come.
func (b *Bot) acknowledge(r *run, id, token string, how discordgo.InteractionResponseType, press bool) {
	ctx, cancel := context.WithTimeout(r.ctx, acknowledgeWithin)
	defer cancel()
	select {
	case r.answers <- struct{}{}:
		defer func() { <-r.answers }()
	case <-ctx.Done():
		return
	}
	in := map[string]any{"type": how}
	if !press {
		in["data"] = map[string]any{"flags": discordgo.MessageFlagsEphemeral}
	}
	err := b.do(ctx, call{method: "POST", path: "interactions/" + id + "/" + url.PathEscape(token) + "/callback", route: "interactions/#/#/callback", in: in, patience: patienceKindness})
	if err != nil && r.ctx.Err() == nil {
		b.log.Debug("an interaction was not acknowledged", "error", err)
	}
}

// ephemeral answers who gave a command or pressed a button, and nobody else sees it.
type ephemeral struct {
	b          *Bot
	app, token string
	press      bool
	replied    bool // the deferred answer of a command was used; one goroutine at a time asks
}

// reply is Update.Reply.
func (a *ephemeral) reply(ctx context.Context, text string) error {
	if strings.TrimSpace(text) == "" {
		return nil
	}
	for n, piece := range short(text) {
		if n == maxEphemeral {
			return nil
		}
		var err error
		if !a.press && !a.replied {
			err = a.edit(ctx, piece)
			a.replied = true // also when it has failed: gateway/chat then says it to the chat
		} else {
			err = a.follow(ctx, piece, discordgo.MessageFlagsEphemeral|discordgo.MessageFlagsSuppressEmbeds)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// edit fills the answer that was deferred.
func (a *ephemeral) edit(ctx context.Context, text string) error {
	return a.b.do(ctx, call{
		method: "PATCH", path: a.path() + "/messages/@original", route: "webhooks/#/#/messages/@original",
		in: outbound{Content: text, Mentions: nobody()}, patience: patienceKindness,
	})
}

// follow sends another answer.
func (a *ephemeral) follow(ctx context.Context, text string, flags discordgo.MessageFlags) error {
	return a.b.do(ctx, call{
		method: "POST", path: a.path(), route: "webhooks/#/#",
		in: outbound{Content: text, Flags: flags, Mentions: nobody()}, patience: patienceKindness,
	})
}

func (a *ephemeral) path() string {
	return "webhooks/" + url.PathEscape(a.app) + "/" + url.PathEscape(a.token)
}

// public are the commands whose words others have to see, to make sense of what follows.
var public = map[string]string{"ask": "asks", "answer": "answers"}

// settle ends a command that was taken without an answer: a question, or the answer to one.
// What was asked is shown to everybody who will read what comes of it.
func (a *ephemeral) settle(ctx context.Context, name, args string, from chat.Person) {
	if a.replied {
		return
	}
	err := a.edit(ctx, "Taken.")
	if verb := public[name]; err == nil && verb != "" && args != "" {
		line := short(from.Name + " " + verb + ": " + args)[0]
		err = a.follow(ctx, line, discordgo.MessageFlagsSuppressEmbeds)
	}
	if err != nil && ctx.Err() == nil {
		a.b.log.Debug("a command was taken, but Discord could not be told", "error", err)
	}
}

// short cuts a text into what fits a message each, between lines where it can.
func short(text string) []string {
	var all []string
	for measure(text) > maxText {
		n, at := 0, 0
		for i, r := range text {
			if n += max(utf16.RuneLen(r), 1); n > maxText {
				at = i
				break
			}
		}
		if line := strings.LastIndexByte(text[:at], '\n'); line > at/3 {
			at = line
		}
		all = append(all, text[:at])
		text = strings.TrimLeft(text[at:], "\n")
	}
	return append(all, text)
}
