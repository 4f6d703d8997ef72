package telegram

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/mymmrac/telego"
	"github.com/mymmrac/telego/telegoapi"

	"parley/gateway/chat"
)

// maxToken is how many bytes a button may carry.
const maxToken = 64

// where reads an address.
func where(to chat.Address) (a address, err error) {
	if json.Unmarshal(to, &a) != nil || a.Chat == 0 {
		return a, &chat.Failure{Trouble: chat.Unreachable, Text: "the chat's address is none of Telegram"}
	}
	return a, nil
}

// number is a message's number from its name.
func number(name chat.MessageName) (int, bool) {
	n, err := strconv.Atoi(string(name))
	return n, err == nil && n > 0
}

// Send implements chat.Platform.
func (b *Bot) Send(ctx context.Context, to chat.Address, m chat.Outgoing) (chat.Posted, error) {
	a, err := where(to)
	if err != nil {
		return chat.Posted{}, err
	}
	p := &telego.SendMessageParams{
		MessageThreadID: a.Thread, Text: m.Text,
		LinkPreviewOptions: &telego.LinkPreviewOptions{IsDisabled: true},
	}
	if n, is := number(m.ReplyTo); is {
		p.ReplyParameters = &telego.ReplyParameters{MessageID: n, AllowSendingWithoutReply: true}
	}
	if len(m.Choices) > 0 {
		rows := make([][]telego.InlineKeyboardButton, len(m.Choices))
		for i, c := range m.Choices {
			data := tag(c.Token, a.Thread)
			if len(data) > maxToken {
				return chat.Posted{}, b.wire.unfit("the token of a button is longer than 64 bytes")
			}
			rows[i] = []telego.InlineKeyboardButton{{Text: c.Label, CallbackData: data}}
		}
		p.ReplyMarkup = &telego.InlineKeyboardMarkup{InlineKeyboard: rows}
	}
	posted, err := b.send(ctx, a, p)
	if id := migrated(err); id != 0 { // it was not sent; people wait for it in the group as it is now
		b.hasMoved(a.Chat, id)
		posted, err = b.send(ctx, a, p)
	}
	return posted, b.failed(err)
}

func (b *Bot) send(ctx context.Context, a address, p *telego.SendMessageParams) (chat.Posted, error) {
	id := b.now(a.Chat)
	if id != a.Chat {
		p.ReplyParameters, p.MessageThreadID = nil, 0 // the messages have other numbers there
	}
	p.ChatID = telego.ChatID{ID: id}
	if err := b.rates.turn(ctx, id); err != nil {
		return chat.Posted{}, err
	}
	var m struct {
		ID int `json:"message_id"`
	}
	if err := b.wire.ask(ctx, "sendMessage", p, &m); err != nil {
		return chat.Posted{}, err
	}
	return chat.Posted{Name: name(m.ID)}, nil
}

// maxMoved bounds how many groups are remembered that have become supergroups.
const maxMoved = 1000

// hasMoved remembers that a group has become a supergroup, which has another id. To people it
// is the same chat, and what they were promised is sent there. What they write there comes from
// the new id and begins a new session.
func (b *Bot) hasMoved(from, to int64) {
	b.movedMu.Lock()
	defer b.movedMu.Unlock()
	if b.moved[from] == to || len(b.moved) >= maxMoved {
		return
	}
	b.moved[from] = to
	b.o.Logger.Warn("a group has become a supergroup; if its id is in channels.telegram.allow_chats, add the new one", "id", from, "new_id", to)
}

// now is the id that a chat has today.
func (b *Bot) now(id int64) int64 {
	b.movedMu.Lock()
	defer b.movedMu.Unlock()
	if to := b.moved[id]; to != 0 {
		return to
	}
	return id
}

// Close implements chat.Platform.
func (b *Bot) Close(ctx context.Context, to chat.Address, id chat.MessageName, text, chosen string) error {
	a, err := where(to)
	if err != nil {
		return err
	}
	n, is := number(id)
	if !is {
		return b.wire.unfit("there is no message of that name")
	}
	if err := b.rates.turn(ctx, a.Chat); err != nil {
		return err
	}
	if whole := text + "\n\n→ " + chosen; chosen != "" && text != "" && measure(whole) <= textLimit {
		err = b.wire.ask(ctx, "editMessageText", telego.EditMessageTextParams{
			ChatID: telego.ChatID{ID: a.Chat}, MessageID: n, Text: whole, LinkPreviewOptions: &telego.LinkPreviewOptions{IsDisabled: true},
		}, nil)
	} else {
		err = b.wire.ask(ctx, "editMessageReplyMarkup", telego.EditMessageReplyMarkupParams{ChatID: telego.ChatID{ID: a.Chat}, MessageID: n}, nil)
	}
	var refused *telegoapi.Error
	if errors.As(err, &refused) && strings.Contains(refused.Description, "message is not modified") {
		return nil // it was done before
	}
	return b.failed(err)
}

// Typing implements chat.Platform.
func (b *Bot) Typing(ctx context.Context, to chat.Address) error {
	a, err := where(to)
	if err != nil || !b.rates.spare() {
		return err
	}
	return b.ask(ctx, "sendChatAction", telego.SendChatActionParams{
		ChatID: telego.ChatID{ID: b.now(a.Chat)}, MessageThreadID: a.Thread, Action: telego.ChatActionTyping,
	}, nil)
}

// reactions are those that Telegram has for what we mean. Bots may use only some emojis, and ✅
// is none of them; 👍 is the one that people themselves use for "done".
var reactions = map[chat.Reaction]string{chat.Accepted: "👀", chat.Answered: "👍"}

// React implements chat.Platform. When there is much to send, no turn is left for reactions.
func (b *Bot) React(ctx context.Context, to chat.Address, id chat.MessageName, r chat.Reaction) error {
	a, err := where(to)
	if err != nil {
		return err
	}
	n, is := number(id)
	if !is || !b.rates.spare() { // a button that was pressed, for example, is no message
		return nil
	}
	p := &telego.SetMessageReactionParams{ChatID: telego.ChatID{ID: a.Chat}, MessageID: n}
	if emoji := reactions[r]; emoji != "" {
		p.Reaction = []telego.ReactionType{&telego.ReactionTypeEmoji{Type: telego.ReactionEmoji, Emoji: emoji}}
	}
	return b.ask(ctx, "setMessageReaction", p, nil)
}

// Find implements chat.Platform: Telegram shows bots no history.
func (b *Bot) Find(context.Context, chat.Address, chat.Outgoing, time.Time) (p chat.Posted, found, known bool, err error) {
	return chat.Posted{}, false, false, nil
}

// maxAlert is how long the answer to a button may be, in UTF-16 units.
const maxAlert = 200

// press is a button that was pressed, until it is answered.
type press struct {
	b  *Bot
	id string

	mu       sync.Mutex
	answered bool
}

var errAnswered = errors.New("the button was answered already")

// reply shows a text to who has pressed the button, and to nobody else.
func (p *press) reply(ctx context.Context, text string) error {
	if measure(text) > maxAlert {
		return p.b.wire.unfit("the text is longer than the answer to a button may be")
	}
	return p.answer(ctx, &telego.AnswerCallbackQueryParams{CallbackQueryID: p.id, Text: text, ShowAlert: true})
}

// finish ends the waiting sign.
func (p *press) finish(ctx context.Context) {
	err := p.answer(ctx, &telego.AnswerCallbackQueryParams{CallbackQueryID: p.id})
	if err != nil && !errors.Is(err, errAnswered) && ctx.Err() == nil {
		p.b.o.Logger.Debug("a button was not answered", "error", err)
	}
}

func (p *press) answer(ctx context.Context, a *telego.AnswerCallbackQueryParams) error {
	p.mu.Lock()
	before := p.answered
	p.answered = true
	p.mu.Unlock()
	if before {
		return errAnswered
	}
	return p.b.ask(ctx, "answerCallbackQuery", a, nil)
}
