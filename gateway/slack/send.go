package slack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/slack-go/slack"

	"parley/gateway/chat"
)

const (
	// partEvent names the metadata by which Find knows our messages again.
	partEvent = "parley_part"
	// actionPrefix begins the ids of our buttons.
	actionPrefix = "parley_"
)

// Send implements chat.Platform. Outgoing.ReplyTo is not looked at: the thread is part of the
// address.
func (b *Bot) Send(ctx context.Context, to chat.Address, m chat.Outgoing) (chat.Posted, error) {
	at, err := placeOf(to)
	if err != nil {
		return chat.Posted{}, err
	}
	if err := wait(ctx, b.pace.reserve(at.Channel)); err != nil {
		return chat.Posted{}, &chat.Failure{Trouble: chat.Later, Text: "sending a message: " + err.Error()}
	}
	posted, err := b.post(ctx, at, m, m.Text, len(m.Choices) > 0)
	var said slack.SlackErrorResponse
	if errors.As(err, &said) && len(m.Choices) > 0 && strings.Contains(said.Err, "blocks") {
		// A question that Slack does not want with buttons is asked in words.
		text := m.Text
		for i, c := range m.Choices {
			text += fmt.Sprintf("\n%d. %s", i+1, escape.Replace(c.Label))
		}
		posted, err = b.post(ctx, at, m, text, false)
	}
	var slow *slack.RateLimitedError
	if errors.As(err, &slow) {
		b.pace.hold(at.Channel, slow.RetryAfter)
	}
	return posted, b.failure("sending a message", err)
}

func (b *Bot) post(ctx context.Context, at place, m chat.Outgoing, text string, buttons bool) (chat.Posted, error) {
	o := []slack.MsgOption{
		slack.MsgOptionText(text, false), slack.MsgOptionParse(false), slack.MsgOptionDisableMarkdown(),
		slack.MsgOptionDisableLinkUnfurl(), slack.MsgOptionDisableMediaUnfurl(),
	}
	if at.Thread != "" {
		o = append(o, slack.MsgOptionTS(at.Thread))
	}
	if m.Nonce != "" {
		o = append(o, slack.MsgOptionMetadata(slack.SlackMetadata{EventType: partEvent, EventPayload: map[string]any{"nonce": m.Nonce}}))
	}
	if buttons {
		o = append(o, slack.MsgOptionBlocks(richText(text), choices(m.Choices)))
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, ts, err := b.api.PostMessageContext(ctx, at.Channel, o...)
	if err == nil && ts == "" {
		err = errors.New("the answer names no message")
	}
	return chat.Posted{Name: chat.MessageName(ts)}, err
}

// choices is a row of buttons.
func choices(all []chat.Choice) *slack.ActionBlock {
	var buttons []slack.BlockElement
	for i, c := range all {
		label := slack.NewTextBlockObject(slack.PlainTextType, c.Label, false, false)
		buttons = append(buttons, slack.NewButtonBlockElement(actionPrefix+strconv.Itoa(i), c.Token, label))
	}
	return slack.NewActionBlock("parley_choices", buttons...)
}

// Close implements chat.Platform.
func (b *Bot) Close(ctx context.Context, to chat.Address, id chat.MessageName, text, chosen string) error {
	at, err := placeOf(to)
	if err != nil {
		return err
	}
	blocks := []slack.Block{richText(text)}
	if chosen != "" {
		text += "\n→ " + chosen
		blocks = append(blocks, richText("→ "+chosen))
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	_, _, _, err = b.api.UpdateMessageContext(ctx, at.Channel, string(id),
		slack.MsgOptionText(text, false), slack.MsgOptionParse(false), slack.MsgOptionBlocks(blocks...))
	return b.failure("closing a question", err)
}

// Slack's names of the reactions.
const (
	eyes  = "eyes"
	check = "white_check_mark"
)

// React implements chat.Platform.
func (b *Bot) React(ctx context.Context, to chat.Address, id chat.MessageName, what chat.Reaction) error {
	at, err := placeOf(to)
	if err != nil || !isMessage(id) {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, reactionTimeout)
	defer cancel()
	item := slack.NewRefToMessage(at.Channel, string(id))
	add := func(name string) error { return tolerate(b.api.AddReactionContext(ctx, name, item), "already_reacted") }
	remove := func(name string) error {
		return tolerate(b.api.RemoveReactionContext(ctx, name, item), "no_reaction")
	}
	switch what {
	case chat.Accepted:
		err = add(eyes)
	case chat.Answered:
		err = errors.Join(remove(eyes), add(check))
	case chat.NoReaction:
		err = errors.Join(remove(eyes), remove(check))
	}
	return b.failure("reacting to a message", err)
}

// tolerate is err, unless it says what was wanted already.
func tolerate(err error, code string) error {
	var said slack.SlackErrorResponse
	if errors.As(err, &said) && said.Err == code {
		return nil
	}
	return err
}

// How far Find looks: Slack's clock and ours may differ, and a nonce is not mistaken.
const (
	findBefore     = 10 * time.Minute
	findTextBefore = time.Minute
	findPage       = 200
	findPages      = 5
)

// Find implements chat.Platform.
func (b *Bot) Find(ctx context.Context, to chat.Address, m chat.Outgoing, since time.Time) (p chat.Posted, found, known bool, err error) {
	at, err := placeOf(to)
	if err != nil {
		return p, false, false, err
	}
	r := b.running()
	var bot string
	if r != nil {
		bot = r.self.User
	}
	ctx, cancel := context.WithTimeout(ctx, 2*requestTimeout)
	defer cancel()
	oldest, cursor := oldestOf(since.Add(-findBefore)), ""
	for range findPages {
		var page []slack.Message
		if page, cursor, err = b.history(ctx, at, oldest, cursor); err != nil {
			var f *chat.Failure
			err = b.failure("reading the history", err)
			if errors.As(err, &f) && (f.Trouble == chat.Credentials || f.Trouble == chat.Unreachable) {
				return p, false, false, nil // we may not read it
			}
			return p, false, false, err
		}
		at := slices.IndexFunc(page, func(one slack.Message) bool { return b.ours(one, m, bot, since) })
		if at >= 0 {
			return chat.Posted{Name: chat.MessageName(page[at].Timestamp)}, true, true, nil
		}
		if cursor == "" {
			return p, false, true, nil
		}
	}
	return p, false, false, nil // there is more than we look at
}

// history reads a page of a channel's messages, or of a thread's.
func (b *Bot) history(ctx context.Context, at place, oldest, cursor string) ([]slack.Message, string, error) {
	if at.Thread != "" {
		page, _, next, err := b.api.GetConversationRepliesContext(ctx, &slack.GetConversationRepliesParameters{
			ChannelID: at.Channel, Timestamp: at.Thread, Cursor: cursor, Oldest: oldest, Limit: findPage, Inclusive: true, IncludeAllMetadata: true,
		})
		return page, next, err
	}
	answer, err := b.api.GetConversationHistoryContext(ctx, &slack.GetConversationHistoryParameters{
		ChannelID: at.Channel, Cursor: cursor, Oldest: oldest, Limit: findPage, Inclusive: true, IncludeAllMetadata: true,
	})
	if err != nil {
		return nil, "", err
	}
	return answer.Messages, answer.ResponseMetaData.NextCursor, nil
}

// ours is true for the message that m became.
func (b *Bot) ours(one slack.Message, m chat.Outgoing, bot string, since time.Time) bool {
	if one.BotID == "" && one.User != bot {
		return false
	}
	if one.Metadata.EventType == partEvent {
		nonce, _ := one.Metadata.EventPayload["nonce"].(string)
		return nonce != "" && nonce == m.Nonce
	}
	plain := func(s string) string { return decode(s, "", func(string) string { return "" }) }
	return one.User == bot && !when(one.Timestamp).Before(since.Add(-findTextBefore)) && plain(one.Text) == plain(m.Text)
}

// oldestOf is a time as the name of a message.
func oldestOf(t time.Time) string {
	micros := max(t.UnixMicro(), 0)
	return fmt.Sprintf("%d.%06d", micros/1e6, micros%1e6)
}

// replyTimeout is short, because a command waits for it.
const replyTimeout = 2 * time.Second

// reply answers a command or a press where only its sender sees it; nil = at this URL we do not.
func (b *Bot) reply(to string) func(context.Context, string) error {
	u, err := url.Parse(to)
	if err != nil || u.Host == "" {
		return nil
	}
	host := strings.ToLower(u.Hostname())
	own := u.Scheme == b.base.Scheme && u.Host == b.base.Host
	if !own && (u.Scheme != "https" || !strings.HasSuffix(host, ".slack.com") && !strings.HasSuffix(host, ".slack-gov.com")) {
		return nil
	}
	return func(ctx context.Context, text string) error {
		ctx, cancel := context.WithTimeout(ctx, replyTimeout)
		defer cancel()
		body, err := json.Marshal(map[string]any{
			"text": escape.Replace(text), "response_type": "ephemeral", "replace_original": false, "mrkdwn": false,
		})
		if err != nil {
			return err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, to, bytes.NewReader(body))
		if err != nil {
			return errors.New("answering a command: the URL cannot be used")
		}
		req.Header.Set("Content-Type", "application/json; charset=utf-8")
		resp, err := b.http.Do(req)
		if err != nil {
			return errors.New("answering a command: " + b.reason(err))
		}
		defer func() { _ = resp.Body.Close() }()
		if resp.StatusCode != http.StatusOK {
			return fmt.Errorf("answering a command: Slack answered with status %d", resp.StatusCode)
		}
		return nil
	}
}
