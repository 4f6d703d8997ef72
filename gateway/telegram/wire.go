package telegram

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strings"
	"sync/atomic"
	"time"

	"github.com/mymmrac/telego/telegoapi"

	"parley/gateway/chat"
)

// Bounds of one request.
const (
	callTimeout = 20 * time.Second
	pollTimeout = 50 * time.Second // of getUpdates, in addition: how long Telegram waits for something new
	maxAnswer   = 16 << 20         // bytes; a batch of 100 updates has a few hundred thousand
)

// caller carries requests to the Bot API. It tells what certainly was not done from what may
// have been, and lets no secret out.
//
// The library's own methods are not used for that: they read the whole of an answer, and when
// Telegram has something new in it, a message that was sent would look like one that was not.
type caller struct {
	client *http.Client
	base   string // with the token
	clean  func(string) string
}

// ask calls a method. out gets the result; nil = nobody wants it. An error that is a
// *chat.Failure or a *telegoapi.Error says that nothing was done; after any other that is unknown.
func (c *caller) ask(ctx context.Context, method string, params, out any) error {
	limit := callTimeout
	if method == "getUpdates" {
		limit += pollTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	body, err := json.Marshal(params)
	if err != nil {
		return c.unfit("the request cannot be written: " + err.Error())
	}
	var connected atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { connected.Store(true) }})
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.base+method, bytes.NewReader(body))
	if err != nil {
		return c.unfit("api_url cannot be asked: " + c.reason(err))
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.client.Do(request)
	if err != nil {
		if !connected.Load() { // nothing can have been sent
			return &chat.Failure{Trouble: chat.Later, Text: "Telegram was not reached: " + c.reason(err)}
		}
		return c.unknown("Telegram has not answered: "+c.reason(err), err)
	}
	defer func() { _ = response.Body.Close() }() // it was read, or is of no use
	if response.StatusCode >= http.StatusInternalServerError {
		return c.unknown(fmt.Sprintf("Telegram has answered %d", response.StatusCode), nil)
	}
	text, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer+1))
	switch {
	case err != nil:
		return c.unknown("Telegram's answer was cut: "+c.reason(err), err)
	case len(text) > maxAnswer:
		return c.unknown("Telegram's answer is too long", nil)
	}
	var answer telegoapi.Response
	err = json.Unmarshal(text, &answer)
	known := err == nil && (answer.Ok || answer.Error != nil && answer.ErrorCode != 0)
	switch {
	case !known && response.StatusCode >= http.StatusMultipleChoices:
		return &chat.Failure{Trouble: chat.Later, Text: fmt.Sprintf("the answer %d is not one of the Bot API; is api_url right?", response.StatusCode)}
	case !known:
		return c.unknown("Telegram's answer cannot be read", nil)
	case !answer.Ok:
		return answer.Error
	}
	if out != nil && json.Unmarshal(answer.Result, out) != nil {
		return c.unknown("Telegram's answer to "+method+" cannot be read", nil)
	}
	return nil
}

// reason is an error of net/http without the URL.
func (c *caller) reason(err error) string {
	var withURL *url.Error
	if errors.As(err, &withURL) {
		err = withURL.Err
	}
	return c.short(err.Error())
}

// short is a text that may be shown: without secrets and not long.
func (c *caller) short(text string) string {
	text = c.clean(text)
	if len(text) > 300 {
		text = strings.ToValidUTF8(text[:300], "") + "…"
	}
	return text
}

func (c *caller) unfit(text string) error {
	return &chat.Failure{Trouble: chat.Unfit, Text: c.short(text)}
}

// unknown is an error after which something may have been done. Of what has caused it, only
// the context's errors go along: others hold the URL.
func (c *caller) unknown(text string, cause error) error {
	for _, known := range []error{context.Canceled, context.DeadlineExceeded} {
		if errors.Is(cause, known) {
			return &unknownError{c.short(text), known}
		}
	}
	return &unknownError{c.short(text), nil}
}

// unknownError says that nobody knows what became of a request.
type unknownError struct {
	text  string
	cause error
}

func (e *unknownError) Error() string { return e.text }
func (e *unknownError) Unwrap() error { return e.cause }

// ask calls a method of the Bot API. An error that is a *chat.Failure says that nothing was done.
func (b *Bot) ask(ctx context.Context, method string, params, out any) error {
	return b.failed(b.wire.ask(ctx, method, params, out))
}

// failed makes of an error of the Bot API one for the channel.
func (b *Bot) failed(err error) error {
	var refused *telegoapi.Error
	if errors.As(err, &refused) {
		return b.refusal(refused)
	}
	return err
}

// closed are the beginnings of what Telegram says, with code 400, of chats to which nothing
// can be sent any more.
var closed = []string{
	"chat not found", "peer_id_invalid", "user not found", "group chat was upgraded", "group chat was deactivated",
	"message thread not found", "topic_closed", "topic_deleted", "not enough rights", "have no rights", "need administrator rights",
	"chat_write_forbidden", "chat_restricted", "chat_send_plain_forbidden", "user_is_blocked", "bot is not a member",
	"channel_private", "the group has been migrated",
}

// refusal says what an error of the Bot API means: nothing was done, and why.
func (b *Bot) refusal(e *telegoapi.Error) error {
	text := b.wire.short(e.Description)
	is := func(t chat.Trouble, sentence string) *chat.Failure { return &chat.Failure{Trouble: t, Text: sentence} }
	switch {
	case e.ErrorCode == http.StatusTooManyRequests:
		f := is(chat.Later, "Telegram asks for fewer messages: "+text)
		if e.Parameters != nil {
			f.After = time.Duration(e.Parameters.RetryAfter) * time.Second
		}
		return f
	case e.ErrorCode == http.StatusUnauthorized || e.ErrorCode == http.StatusNotFound:
		// An unknown token is an unknown path.
		return is(chat.Credentials, "Telegram does not accept the bot's token: "+text)
	case e.ErrorCode == http.StatusForbidden:
		return is(chat.Unreachable, "Telegram does not let the bot write there: "+text)
	case e.ErrorCode == http.StatusConflict && strings.Contains(text, "webhook"):
		return is(chat.Later, "a webhook was set for this bot, so it cannot poll: does another installation use its token? "+text)
	case e.ErrorCode == http.StatusConflict:
		return is(chat.Later, "another program polls with this bot's token, and only one may: "+text)
	case e.ErrorCode >= http.StatusInternalServerError:
		return b.wire.unknown("Telegram has answered: "+text, nil)
	case e.Parameters != nil && e.Parameters.MigrateToChatID != 0:
		return is(chat.Unreachable, fmt.Sprintf("the group has become a supergroup with the id %d", e.Parameters.MigrateToChatID))
	}
	_, said, _ := strings.Cut(strings.ToLower(text), ": ")
	for _, beginning := range closed {
		if strings.HasPrefix(said, beginning) {
			return is(chat.Unreachable, "Telegram does not know a way to this chat: "+text)
		}
	}
	return is(chat.Unfit, "Telegram does not take this: "+text)
}

// migrated is the new id of a group that has become a supergroup; 0 = err says no such thing.
func migrated(err error) int64 {
	var e *telegoapi.Error
	if errors.As(err, &e) && e.Parameters != nil {
		return e.Parameters.MigrateToChatID
	}
	return 0
}
