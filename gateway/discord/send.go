package discord

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/bwmarrin/discordgo"

	"parley/gateway/chat"
)

// outbound is a message as Discord takes it. The library's has no nonce.
type outbound struct {
	Content      string                            `json:"content"`
	Nonce        string                            `json:"nonce,omitempty"`
	EnforceNonce bool                              `json:"enforce_nonce,omitempty"`
	Flags        discordgo.MessageFlags            `json:"flags,omitempty"`
	Mentions     *discordgo.MessageAllowedMentions `json:"allowed_mentions"`
	Reference    *discordgo.MessageReference       `json:"message_reference,omitempty"`
	Components   []discordgo.MessageComponent      `json:"components,omitempty"`
}

// nobody lets no text ping anybody.
func nobody() *discordgo.MessageAllowedMentions {
	return &discordgo.MessageAllowedMentions{Parse: []discordgo.AllowedMentionType{}}
}

// Send implements chat.Platform.
func (b *Bot) Send(ctx context.Context, to chat.Address, m chat.Outgoing) (chat.Posted, error) {
	d, err := where(to)
	if err != nil {
		return chat.Posted{}, err
	}
	b.engage(d.Channel)
	o := outbound{
		Content: m.Text, Nonce: m.Nonce, EnforceNonce: m.Nonce != "", Flags: discordgo.MessageFlagsSuppressEmbeds,
		Mentions: nobody(), Components: rows(m.Choices),
	}
	o.Mentions.Users = pinged(m.Text)
	if isID(string(m.ReplyTo)) { // a command has a name that is no message's
		must := false
		o.Reference = &discordgo.MessageReference{MessageID: string(m.ReplyTo), ChannelID: d.Channel, FailIfNotExists: &must}
	}
	posted, err := b.post(ctx, d, o)
	var e *apiError
	if o.Reference != nil && errors.As(err, &e) && e.code == discordgo.ErrCodeCannotReplyWithoutPermissionToReadMessageHistory {
		o.Reference = nil
		posted, err = b.post(ctx, d, o)
	}
	return posted, err
}

func (b *Bot) post(ctx context.Context, d destination, o outbound) (chat.Posted, error) {
	var made struct {
		ID string `json:"id"`
	}
	if err := b.do(ctx, call{method: "POST", path: "channels/" + d.Channel + "/messages", in: o, out: &made}); err != nil {
		return chat.Posted{}, err
	}
	if !isID(made.ID) {
		return chat.Posted{}, errors.New("the answer of Discord does not say what the message is called")
	}
	b.mu.Lock()
	b.posted.add(made.ID)
	b.mu.Unlock()
	return chat.Posted{Name: chat.MessageName(made.ID)}, nil
}

// rows are buttons in rows.
func rows(choices []chat.Choice) []discordgo.MessageComponent {
	var all []discordgo.MessageComponent
	for some := range slices.Chunk(choices, rowButtons) {
		row := discordgo.ActionsRow{}
		for _, c := range some {
			row.Components = append(row.Components, discordgo.Button{
				Label: cmp.Or(strings.TrimSpace(c.Label), "–"), Style: discordgo.SecondaryButton, CustomID: c.Token,
			})
		}
		all = append(all, row)
	}
	return all
}

// Close implements chat.Platform.
func (b *Bot) Close(ctx context.Context, to chat.Address, id chat.MessageName, text, chosen string) error {
	d, err := where(to)
	if err != nil {
		return err
	}
	edit := struct {
		Content    string                            `json:"content,omitempty"`
		Mentions   *discordgo.MessageAllowedMentions `json:"allowed_mentions"`
		Components []discordgo.MessageComponent      `json:"components"`
	}{Mentions: nobody(), Components: []discordgo.MessageComponent{}}
	if line := under(text, chosen); line != "" {
		edit.Content = text + line
	}
	return b.do(ctx, call{
		method: "PATCH", path: "channels/" + d.Channel + "/messages/" + url.PathEscape(string(id)),
		route: "channels/" + d.Channel + "/messages/edit", in: edit, patience: patienceClose,
	})
}

// under is the line that says beneath a text what was chosen; "" = nothing was, or there is no
// place for it.
func under(text, chosen string) string {
	chosen = strings.Join(strings.Fields(chosen), " ")
	if chosen == "" {
		return ""
	}
	const before = "\n→ "
	room := maxText - measure(text) - measure(before)
	if measure(chosen) > room {
		for chosen != "" && measure(chosen)+1 > room {
			_, n := utf8.DecodeLastRuneInString(chosen)
			chosen = chosen[:len(chosen)-n]
		}
		if chosen == "" {
			return ""
		}
		chosen += "…"
	}
	return before + chosen
}

// Typing implements chat.Platform.
func (b *Bot) Typing(ctx context.Context, to chat.Address) error {
	d, err := where(to)
	if err != nil {
		return err
	}
	return b.do(ctx, call{method: "POST", path: "channels/" + d.Channel + "/typing"})
}

// reactions are the pictures of reactions.
var reactions = map[chat.Reaction]string{chat.Accepted: "👀", chat.Answered: "✅"}

// React implements chat.Platform.
func (b *Bot) React(ctx context.Context, to chat.Address, id chat.MessageName, r chat.Reaction) error {
	d, err := where(to)
	if err != nil {
		return err
	}
	if !isID(string(id)) {
		return nil // a command, or a press
	}
	own := func(method, picture string) error {
		return b.do(ctx, call{
			method: method, path: "channels/" + d.Channel + "/messages/" + string(id) + "/reactions/" + url.PathEscape(picture) + "/@me",
			route: "channels/" + d.Channel + "/reactions", patience: patienceKindness,
		})
	}
	for _, other := range []chat.Reaction{chat.Accepted, chat.Answered} {
		if other == r || r == chat.Accepted { // the first one: there is nothing before it
			continue
		}
		var e *apiError
		if err := own("DELETE", reactions[other]); err != nil && (!errors.As(err, &e) || e.Trouble != chat.Unfit) {
			return err
		}
	}
	if picture := reactions[r]; picture != "" {
		return own("PUT", picture)
	}
	return nil
}

// Find implements chat.Platform. Discord does not promise to show nonces in a history, so a
// message of the bot without one is known by its text.
func (b *Bot) Find(ctx context.Context, to chat.Address, m chat.Outgoing, since time.Time) (p chat.Posted, found, known bool, err error) {
	d, err := where(to)
	if err != nil {
		return p, false, false, err
	}
	me := b.me.Load()
	if me == nil {
		if me, err = b.identify(ctx); err != nil {
			return p, false, false, err
		}
	}
	// since is by our clock, to a second what Discord's was; two for the roundings.
	since = since.Add(time.Duration(b.skew.Load())*time.Millisecond - 2*time.Second)
	list, whole, err := b.history(ctx, d.Channel, firstAt(since), 1000)
	var e *apiError
	if errors.As(err, &e) && e.Trouble == chat.Unreachable {
		return p, false, false, nil
	}
	if err != nil {
		return p, false, false, err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, one := range list {
		if one.Author.ID != me.ID {
			continue
		}
		name := one.nonce()
		if name == m.Nonce && name != "" ||
			name == "" && !b.posted.has(one.ID) && strings.TrimSpace(one.Content) == strings.TrimSpace(m.Text) {
			b.posted.add(one.ID)
			return chat.Posted{Name: chat.MessageName(one.ID)}, true, true, nil
		}
	}
	return p, false, whole, nil
}

// history reads the messages of a channel behind an id, oldest first and at most limit of
// them, the newest ones. whole = there are no more, and the bot is able to see them: without
// the right to read a history Discord shows an empty one.
func (b *Bot) history(ctx context.Context, channel string, after uint64, limit int) (list []message, whole bool, err error) {
	query := "?limit=100"
	for {
		var page []message
		if err := b.do(ctx, call{method: "GET", path: "channels/" + channel + "/messages" + query, out: &page, patience: patienceInside}); err != nil {
			return nil, false, err
		}
		oldest := uint64(0)
		for _, m := range page {
			n := number(m.ID)
			if n > after && len(list) < limit {
				list = append(list, m)
			}
			if oldest == 0 || n < oldest {
				oldest = n
			}
		}
		if whole = oldest <= after || len(page) < 100; whole || len(list) >= limit {
			if oldest == 0 && len(list) == 0 {
				whole = false
			}
			slices.SortFunc(list, func(a, b message) int { return cmp.Compare(number(a.ID), number(b.ID)) })
			return list, whole, nil
		}
		query = fmt.Sprintf("?limit=100&before=%d", oldest)
	}
}

// engage remembers that the bot speaks in a channel.
func (b *Bot) engage(channel string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.engaged[channel] = true
}

// message is what we read of a message.
type message struct {
	ID        string          `json:"id"`
	Channel   string          `json:"channel_id"`
	Guild     string          `json:"guild_id"`
	Author    person          `json:"author"`
	Member    *member         `json:"member"`
	Content   string          `json:"content"`
	Edited    string          `json:"edited_timestamp"`
	Type      int             `json:"type"`
	Flags     int             `json:"flags"`
	Webhook   string          `json:"webhook_id"`
	Nonce     json.RawMessage `json:"nonce"`
	Mentions  []mentioned     `json:"mentions"`
	Reference *struct {
		Type    int    `json:"type"`
		Message string `json:"message_id"`
	} `json:"message_reference"`
	Referenced *struct {
		Author person `json:"author"`
	} `json:"referenced_message"`
	Attachments []attachment `json:"attachments"`
	Stickers    []struct {
		Name string `json:"name"`
	} `json:"sticker_items"`
	Snapshots []struct {
		Message struct {
			Content     string       `json:"content"`
			Attachments []attachment `json:"attachments"`
		} `json:"message"`
	} `json:"message_snapshots"`
	Poll *discordgo.Poll `json:"poll"`
}

type person struct {
	ID       string `json:"id"`
	Username string `json:"username"`
	Global   string `json:"global_name"`
	Bot      bool   `json:"bot"`
	System   bool   `json:"system"`
}

type member struct {
	Nick string `json:"nick"`
	User person `json:"user"`
}

type mentioned struct {
	person
	Member *member `json:"member"`
}

type attachment struct {
	Filename    string `json:"filename"`
	ContentType string `json:"content_type"`
	Size        int64  `json:"size"`
}

// nonce is the message's nonce, a string or a number; "" = there is none.
func (m message) nonce() string {
	s := strings.Trim(string(m.Nonce), `"`)
	if s == "null" {
		return ""
	}
	return s
}

// shown is what others see as the name of a person.
func (p person) shown(m *member) string {
	nick := ""
	if m != nil {
		nick = m.Nick
	}
	return cmp.Or(nick, p.Global, p.Username)
}
