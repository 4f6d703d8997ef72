package telegramtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"slices"
	"sync"
	"time"
	"unicode/utf16"
)

// What the bot is called. Its token is of no use to anybody.
const (
	Token    = "4200000001:AAtest-token_of_a_bot_that_is_not_0"
	BotID    = int64(4200000001)
	Username = "parley_test_bot"
)

// Telegram is one. Its methods may be called from any goroutine.
type Telegram struct {
	// Private is false when the bot's privacy mode is off; set it before the first request.
	Private bool
	// WebhookPause is the time before a webhook is called again that has not answered 2xx.
	WebhookPause time.Duration

	server *httptest.Server
	stop   context.CancelFunc
	ctx    context.Context
	wg     sync.WaitGroup

	mu       sync.Mutex
	changed  chan struct{} // closed and made anew at each change
	chats    map[int64]*room
	updates  []update // not confirmed yet
	history  []update // all there were
	nextID   int      // of updates
	nextMsg  int
	requests []Request
	faults   []*Fault
	polls    int // counts getUpdates: a newer one ends those before it
	webhook  hook
	queries  map[string]bool // presses; true = answered
}

type hook struct {
	url, secret string
	last        string // its last error
	generation  int
}

type update struct {
	id   int
	body json.RawMessage
}

type room struct {
	chat   map[string]any
	gone   bool // the bot was removed, or blocked
	moved  int64
	posted []*Shown
	said   map[int]map[string]any // messages of all, as the wire has them
	react  map[int]string         // the bot's reactions
}

func newRoom(chat map[string]any) *room {
	return &room{chat: chat, said: map[int]map[string]any{}, react: map[int]string{}}
}

// Shown is a message of the bot as people see it.
type Shown struct {
	ID      int
	Thread  int
	ReplyTo int
	Text    string
	Buttons []Button
	Edited  bool
}

// Button is a choice beneath a message.
type Button struct{ Label, Data string }

// Request is one call of the Bot API.
type Request struct {
	Method string
	Params map[string]any
	Body   string // as it came
}

// Who is somebody.
type Who struct {
	ID     int64
	Name   string
	Handle string
}

// Fault is what goes wrong with the next requests of a method.
type Fault struct {
	Method      string // "" = any
	Status      int    // the answer; 0 = there is none: the connection is cut
	Description string
	RetryAfter  int    // seconds, with 429
	Migrate     int64  // the new id of a group, with 400
	Done        bool   // the request is carried out before: only its answer is lost
	Raw         string // the answer's body, in place of one of the Bot API
	Times       int    // 0 = once
}

// Start starts one. Close it.
func Start() *Telegram {
	ctx, stop := context.WithCancel(context.Background())
	f := &Telegram{
		ctx: ctx, stop: stop, changed: make(chan struct{}), chats: map[int64]*room{}, nextID: 1000, nextMsg: 1,
		queries: map[string]bool{}, WebhookPause: 20 * time.Millisecond,
	}
	f.server = httptest.NewServer(f)
	return f
}

// URL is where its Bot API is.
func (f *Telegram) URL() string { return f.server.URL }

// Close ends it.
func (f *Telegram) Close() {
	f.stop()
	f.server.CloseClientConnections()
	f.server.Close()
	f.wg.Wait()
}

// tell wakes who waits for a change. The caller holds mu.
func (f *Telegram) tell() {
	close(f.changed)
	f.changed = make(chan struct{})
}

// Until waits until is is true; it is asked after each change. The error is the context's.
func (f *Telegram) Until(ctx context.Context, is func() bool) error {
	for {
		f.mu.Lock()
		changed := f.changed
		f.mu.Unlock()
		if is() {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Fail makes requests fail.
func (f *Telegram) Fail(fault Fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	fault.Times = max(fault.Times, 1)
	f.faults = append(f.faults, &fault)
}

// Group makes a group that the bot is in. Groups have negative ids.
func (f *Telegram) Group(id int64, title string, forum bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	chat := map[string]any{"id": id, "type": "supergroup", "title": title}
	if forum {
		chat["is_forum"] = true
	}
	f.chats[id] = newRoom(chat)
}

// Says is what somebody says.
type Says struct {
	Chat    int64 // of a person: the private chat with the bot
	Thread  int   // a topic of a forum
	From    Who
	Text    string
	ReplyTo int            // a message's id
	With    map[string]any // further fields of the message, such as a photo
}

// Say has somebody say something, and returns the message's id.
func (f *Telegram) Say(s Says) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.chats[s.Chat]
	if r == nil {
		r = newRoom(map[string]any{"id": s.Chat, "type": "private", "first_name": s.From.Name, "username": s.From.Handle})
		f.chats[s.Chat] = r
	}
	id := f.nextMsg
	f.nextMsg++
	m := map[string]any{"message_id": id, "date": time.Now().Unix(), "chat": r.chat, "from": s.From.wire()}
	if s.Text != "" {
		m["text"] = s.Text
		if e := entities(s.Text); len(e) > 0 {
			m["entities"] = e
		}
	}
	if s.Thread != 0 {
		m["message_thread_id"], m["is_topic_message"] = s.Thread, true
	}
	if to := r.said[s.ReplyTo]; to != nil {
		m["reply_to_message"] = to
	}
	maps.Copy(m, s.With)
	r.said[id] = m
	f.post("message", m)
	return id
}

func (w Who) wire() map[string]any {
	u := map[string]any{"id": w.ID, "is_bot": false, "first_name": w.Name, "language_code": "en"}
	if w.Handle != "" {
		u["username"] = w.Handle
	}
	return u
}

func bot() map[string]any {
	return map[string]any{"id": BotID, "is_bot": true, "first_name": "Parley", "username": Username}
}

// entity finds what Telegram itself marks in a text: mentions and commands.
var entity = regexp.MustCompile(`(?:^|[^\w@/])(@\w{3,32}|/\w{1,64}(?:@\w{3,32})?)`)

func entities(text string) (all []map[string]any) {
	for _, at := range entity.FindAllStringSubmatchIndex(text, -1) {
		kind := "mention"
		if text[at[2]] == '/' {
			kind = "bot_command"
		}
		all = append(all, map[string]any{"type": kind, "offset": units(text[:at[2]]), "length": units(text[at[2]:at[3]])})
	}
	return all
}

func units(s string) int { return len(utf16.Encode([]rune(s))) }

// Edit changes the text of a message that somebody has said.
func (f *Telegram) Edit(chat int64, id int, text string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m := maps.Clone(f.chats[chat].said[id])
	m["text"], m["edit_date"] = text, time.Now().Unix()
	delete(m, "entities")
	if e := entities(text); len(e) > 0 {
		m["entities"] = e
	}
	f.chats[chat].said[id] = m
	f.post("edited_message", m)
}

// Press presses a button beneath a message of the bot and returns the press's id. It panics if
// there is no such button.
func (f *Telegram) Press(chat int64, message int, label string, by Who) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.chats[chat]
	for _, s := range r.posted {
		for _, b := range s.Buttons {
			if s.ID != message || b.Label != label {
				continue
			}
			id := fmt.Sprintf("%d%04d", BotID, len(f.queries)+1)
			f.queries[id] = false
			f.post("callback_query", map[string]any{
				"id": id, "from": by.wire(), "message": r.said[message], "chat_instance": "-1", "data": b.Data,
			})
			return id
		}
	}
	panic(fmt.Sprintf("telegramtest: message %d of chat %d has no button %q", message, chat, label))
}

// Answered is true when the waiting sign of a press has ended.
func (f *Telegram) Answered(press string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.queries[press]
}

// Remove takes the bot out of a chat: by kicking it, or by blocking it.
func (f *Telegram) Remove(chat int64, by Who) {
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.chats[chat]
	r.gone = true
	f.post("my_chat_member", map[string]any{
		"chat": r.chat, "from": by.wire(), "date": time.Now().Unix(),
		"old_chat_member": map[string]any{"user": bot(), "status": "member"},
		"new_chat_member": map[string]any{"user": bot(), "status": "kicked", "until_date": 0},
	})
}

// Migrate makes a supergroup of a group: it gets another id.
func (f *Telegram) Migrate(from, to int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.chats[from]
	old.moved = to
	chat := maps.Clone(old.chat)
	chat["id"] = to
	f.chats[to] = newRoom(chat)
}

// Post posts an update of a kind, as the wire has it.
func (f *Telegram) Post(kind string, content any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.post(kind, content)
}

func (f *Telegram) post(kind string, content any) {
	body, err := json.Marshal(map[string]any{"update_id": f.nextID, kind: content})
	if err != nil {
		panic(err) // of the test
	}
	u := update{f.nextID, body}
	f.nextID++
	f.updates = append(f.updates, u)
	f.history = append(f.history, u)
	f.tell()
}

// Redeliver delivers the last n updates again, also those that were confirmed.
func (f *Telegram) Redeliver(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	again := slices.Clone(f.history[max(len(f.history)-n, 0):])
	f.updates = slices.DeleteFunc(f.updates, func(u update) bool { return u.id >= again[0].id })
	f.updates = append(f.updates, again...)
	f.tell()
}

// Waiting is how many updates are not confirmed yet.
func (f *Telegram) Waiting() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.updates)
}

// Shown is what the bot has posted in a chat, as it stands there now.
func (f *Telegram) Shown(chat int64) (all []Shown) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if r := f.chats[chat]; r != nil {
		for _, s := range r.posted {
			all = append(all, *s)
		}
	}
	return all
}

// Texts are the texts of Shown.
func (f *Telegram) Texts(chat int64) (all []string) {
	for _, s := range f.Shown(chat) {
		all = append(all, s.Text)
	}
	return all
}

// Reaction is the bot's reaction to a message; "" = none.
func (f *Telegram) Reaction(chat int64, id int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.chats[chat].react[id]
}

// Requests are the calls of a method so far; "" = of all.
func (f *Telegram) Requests(method string) (all []Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, r := range f.requests {
		if method == "" || r.Method == method {
			all = append(all, r)
		}
	}
	return all
}

// WebhookSet is the webhook's URL; "" = none is set.
func (f *Telegram) WebhookSet() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.webhook.url
}

// SetWebhook sets a webhook as another installation would.
func (f *Telegram) SetWebhook(url, lastError string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.setWebhook(url, "")
	f.webhook.last = lastError
}

// setWebhook replaces the webhook, and begins to call it.
func (f *Telegram) setWebhook(url, secret string) {
	f.webhook = hook{url: url, secret: secret, generation: f.webhook.generation + 1}
	f.tell()
	if url == "" {
		return
	}
	mine := f.webhook
	f.wg.Go(func() { f.call(mine) })
}

// call posts what waits to a webhook, one after the other, until there is another one.
func (f *Telegram) call(h hook) {
	for {
		f.mu.Lock()
		changed, current := f.changed, f.webhook.generation == h.generation
		next := update{}
		if len(f.updates) > 0 {
			next = f.updates[0]
		}
		f.mu.Unlock()
		switch {
		case !current || f.ctx.Err() != nil:
			return
		case next.id == 0:
			select {
			case <-changed:
			case <-f.ctx.Done():
			}
			continue
		}
		said := f.deliver(h, next)
		f.mu.Lock()
		if f.webhook.generation == h.generation {
			f.webhook.last = said
		}
		if said == "" {
			f.updates = slices.DeleteFunc(f.updates, func(u update) bool { return u.id == next.id })
		}
		f.tell()
		f.mu.Unlock()
		if said != "" {
			select {
			case <-time.After(f.WebhookPause):
			case <-f.ctx.Done():
			}
		}
	}
}

// deliver posts one update; the result is what was wrong, "" = nothing was.
func (f *Telegram) deliver(h hook, u update) string {
	request, err := http.NewRequestWithContext(f.ctx, http.MethodPost, h.url, bytes.NewReader(u.body))
	if err != nil {
		return err.Error()
	}
	request.Header.Set("Content-Type", "application/json")
	if h.secret != "" {
		request.Header.Set("X-Telegram-Bot-Api-Secret-Token", h.secret)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "Connection refused"
	}
	_ = response.Body.Close()
	if response.StatusCode/100 != 2 {
		return "Wrong response from the webhook: " + response.Status
	}
	return ""
}
