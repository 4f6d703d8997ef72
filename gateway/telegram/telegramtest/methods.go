package telegramtest

import (
	"encoding/json"
	"io"
	"mime"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"
)

// refusal is an answer that says no.
type refusal struct {
	Status      int
	Description string
	Parameters  map[string]any
}

func bad(description string) *refusal {
	return &refusal{Status: 400, Description: "Bad Request: " + description}
}

// ServeHTTP is the Bot API: /bot<token>/<method>.
func (f *Telegram) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path, isBot := strings.CutPrefix(r.URL.Path, "/bot")
	token, method, _ := strings.Cut(path, "/")
	params, body, err := read(r)
	switch {
	case !isBot || err != nil:
		answer(w, nil, &refusal{Status: 404, Description: "Not Found"})
		return
	case token != Token:
		answer(w, nil, &refusal{Status: 401, Description: "Unauthorized"})
		return
	}
	f.mu.Lock()
	f.requests = append(f.requests, Request{method, params, body})
	fault := f.fault(method)
	f.tell()
	f.mu.Unlock()
	if fault == nil || fault.Done {
		result, refused := f.do(method, params, r)
		if fault == nil {
			answer(w, result, refused)
			return
		}
	}
	switch {
	case fault.Raw != "":
		w.WriteHeader(fault.Status)
		_, _ = io.WriteString(w, fault.Raw)
	case fault.Status == 0:
		panic(http.ErrAbortHandler) // the connection is cut
	default:
		refused := &refusal{Status: fault.Status, Description: fault.Description, Parameters: map[string]any{}}
		if fault.RetryAfter > 0 {
			refused.Parameters["retry_after"] = fault.RetryAfter
		}
		if fault.Migrate != 0 {
			refused.Parameters["migrate_to_chat_id"] = fault.Migrate
		}
		answer(w, nil, refused)
	}
}

// fault is what is to go wrong with a request. The caller holds mu.
func (f *Telegram) fault(method string) *Fault {
	for i, fault := range f.faults {
		if fault.Method != "" && fault.Method != method {
			continue
		}
		if fault.Times--; fault.Times == 0 {
			f.faults = slices.Delete(f.faults, i, i+1)
		}
		return fault
	}
	return nil
}

// read reads parameters in each of the ways that the Bot API knows.
func read(r *http.Request) (params map[string]any, body string, err error) {
	params = map[string]any{}
	kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	switch kind {
	case "application/json":
		raw, err := io.ReadAll(io.LimitReader(r.Body, 10<<20))
		if err != nil {
			return nil, "", err
		}
		body = string(raw)
		if body == "" || body == "null" {
			return params, body, nil
		}
		return params, body, json.Unmarshal(raw, &params)
	case "multipart/form-data":
		err = r.ParseMultipartForm(10 << 20)
	default:
		err = r.ParseForm()
	}
	for name := range r.Form {
		var v any // numbers, truth values and objects are JSON in a form
		text := r.Form.Get(name)
		if json.Unmarshal([]byte(text), &v) != nil {
			v = text
		}
		params[name] = v
	}
	return params, "", err
}

func answer(w http.ResponseWriter, result any, refused *refusal) {
	w.Header().Set("Content-Type", "application/json")
	if refused == nil {
		_ = json.NewEncoder(w).Encode(map[string]any{"ok": true, "result": result})
		return
	}
	said := map[string]any{"ok": false, "error_code": refused.Status, "description": refused.Description}
	if len(refused.Parameters) > 0 {
		said["parameters"] = refused.Parameters
	}
	w.WriteHeader(refused.Status)
	_ = json.NewEncoder(w).Encode(said)
}

func number(v any) int64 {
	switch v := v.(type) {
	case float64:
		return int64(v)
	case string:
		n, _ := strconv.ParseInt(v, 10, 64)
		return n
	}
	return 0
}

func text(v any) string {
	s, _ := v.(string)
	return s
}

func object(v any) map[string]any {
	if s, is := v.(string); is { // in a form, or as some libraries write it
		var o map[string]any
		_ = json.Unmarshal([]byte(s), &o)
		return o
	}
	o, _ := v.(map[string]any)
	return o
}

// do carries a request out.
func (f *Telegram) do(method string, p map[string]any, r *http.Request) (any, *refusal) {
	if method == "getUpdates" {
		return f.getUpdates(p, r)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	defer f.tell()
	result, refused := f.doLocked(method, p)
	if refused != nil {
		return nil, refused
	}
	body, err := json.Marshal(result) // now: messages change
	if err != nil {
		return nil, &refusal{Status: 500, Description: "Internal Server Error: " + err.Error()}
	}
	return json.RawMessage(body), nil
}

func (f *Telegram) doLocked(method string, p map[string]any) (any, *refusal) {
	switch method {
	case "getMe":
		me := bot()
		me["can_join_groups"], me["can_read_all_group_messages"] = true, !f.Private
		return me, nil
	case "setWebhook":
		f.setWebhook(text(p["url"]), text(p["secret_token"]))
		return true, nil
	case "deleteWebhook":
		f.setWebhook("", "")
		return true, nil
	case "getWebhookInfo":
		info := map[string]any{"url": f.webhook.url, "has_custom_certificate": false, "pending_update_count": len(f.updates)}
		if f.webhook.last != "" {
			info["last_error_date"], info["last_error_message"] = time.Now().Unix(), f.webhook.last
		}
		return info, nil
	case "answerCallbackQuery":
		id := text(p["callback_query_id"])
		if done, known := f.queries[id]; done || !known {
			return nil, bad("query is too old and response timeout expired or query ID is invalid")
		}
		f.queries[id] = true
		return true, nil
	}
	room, refused := f.room(number(p["chat_id"]))
	if refused != nil {
		return nil, refused
	}
	switch method {
	case "sendMessage":
		return f.sendMessage(room, p)
	case "editMessageText", "editMessageReplyMarkup":
		return f.edit(method, room, p)
	case "sendChatAction":
		return true, nil
	case "setMessageReaction":
		return react(room, p)
	}
	return nil, &refusal{Status: 404, Description: "Not Found: method not found"}
}

// room is the chat with an id, if the bot may write there.
func (f *Telegram) room(id int64) (*room, *refusal) {
	r := f.chats[id]
	switch {
	case r == nil:
		return nil, bad("chat not found")
	case r.gone && id > 0:
		return nil, &refusal{Status: 403, Description: "Forbidden: bot was blocked by the user"}
	case r.gone:
		return nil, &refusal{Status: 403, Description: "Forbidden: bot was kicked from the supergroup chat"}
	case r.moved != 0:
		no := bad("group chat was upgraded to a supergroup chat")
		no.Parameters = map[string]any{"migrate_to_chat_id": r.moved}
		return nil, no
	}
	return r, nil
}

// fits checks a text and its buttons.
func fits(said string, markup map[string]any) ([]Button, *refusal) {
	switch {
	case strings.TrimSpace(said) == "":
		return nil, bad("message text is empty")
	case units(said) > 4096:
		return nil, bad("message is too long")
	}
	return buttons(markup)
}

func buttons(markup map[string]any) (all []Button, no *refusal) {
	rows, _ := markup["inline_keyboard"].([]any)
	for _, row := range rows {
		cells, _ := row.([]any)
		for _, cell := range cells {
			b := Button{text(object(cell)["text"]), text(object(cell)["callback_data"])}
			if b.Data == "" || len(b.Data) > 64 {
				return nil, bad("BUTTON_DATA_INVALID")
			}
			all = append(all, b)
		}
	}
	return all, nil
}

func (f *Telegram) sendMessage(r *room, p map[string]any) (any, *refusal) {
	said := strings.TrimSpace(text(p["text"]))
	all, no := fits(said, object(p["reply_markup"]))
	if no != nil {
		return nil, no
	}
	s := &Shown{ID: f.nextMsg, Thread: int(number(p["message_thread_id"])), Text: said, Buttons: all}
	m := map[string]any{"message_id": s.ID, "date": time.Now().Unix(), "chat": r.chat, "from": bot(), "text": said}
	if reply := object(p["reply_parameters"]); reply != nil {
		id := int(number(reply["message_id"]))
		to := r.said[id]
		if to == nil && reply["allow_sending_without_reply"] != true {
			return nil, bad("message to be replied not found")
		}
		if to != nil {
			s.ReplyTo, m["reply_to_message"] = id, to
		}
	}
	if s.Thread != 0 {
		if r.chat["is_forum"] != true {
			return nil, bad("message thread not found")
		}
		m["message_thread_id"], m["is_topic_message"] = s.Thread, true
	}
	if len(all) > 0 {
		m["reply_markup"] = p["reply_markup"]
	}
	f.nextMsg++
	r.said[s.ID] = m
	r.posted = append(r.posted, s)
	return m, nil
}

func (f *Telegram) edit(method string, r *room, p map[string]any) (any, *refusal) {
	at := slices.IndexFunc(r.posted, func(s *Shown) bool { return s.ID == int(number(p["message_id"])) })
	if at < 0 {
		return nil, bad("message to edit not found")
	}
	s := r.posted[at]
	said := s.Text
	if method == "editMessageText" {
		said = strings.TrimSpace(text(p["text"]))
	}
	all, no := fits(said, object(p["reply_markup"]))
	switch {
	case no != nil:
		return nil, no
	case said == s.Text && slices.Equal(all, s.Buttons):
		return nil, bad("message is not modified: specified new message content and reply markup are exactly the same " +
			"as a current content and reply markup of the message")
	}
	s.Text, s.Buttons, s.Edited = said, all, true
	r.said[s.ID]["text"] = said
	return r.said[s.ID], nil
}

// allowed are the emojis that bots may react with (some of them).
var allowed = []string{"👍", "👎", "👀", "👌", "🔥", "🎉", "🤔", "✍", "💯"}

func react(r *room, p map[string]any) (any, *refusal) {
	id := int(number(p["message_id"]))
	if r.said[id] == nil {
		return nil, bad("message to react not found")
	}
	emoji := ""
	if list, _ := p["reaction"].([]any); len(list) > 0 {
		emoji = text(object(list[0])["emoji"])
		if !slices.Contains(allowed, emoji) {
			return nil, bad("REACTION_INVALID")
		}
	}
	r.react[id] = emoji
	return true, nil
}

// getUpdates confirms what is before the offset and waits for what comes after it.
func (f *Telegram) getUpdates(p map[string]any, r *http.Request) (any, *refusal) {
	f.mu.Lock()
	f.polls++
	mine := f.polls
	offset, limit := int(number(p["offset"])), int(number(p["limit"]))
	if limit <= 0 || limit > 100 {
		limit = 100
	}
	f.updates = slices.DeleteFunc(f.updates, func(u update) bool { return u.id < offset })
	f.tell()
	f.mu.Unlock()
	deadline := time.NewTimer(time.Duration(number(p["timeout"])) * time.Second)
	defer deadline.Stop()
	for late := false; ; {
		f.mu.Lock()
		changed := f.changed
		var found []json.RawMessage
		for _, u := range f.updates {
			if u.id >= offset && len(found) < limit {
				found = append(found, u.body)
			}
		}
		set, newer := f.webhook.url != "", f.polls > mine
		f.mu.Unlock()
		switch {
		case set:
			return nil, &refusal{Status: 409, Description: "Conflict: can't use getUpdates method while webhook is active; use deleteWebhook to delete the webhook first"}
		case newer:
			return nil, &refusal{Status: 409, Description: "Conflict: terminated by other getUpdates request; make sure that only one bot instance is running"}
		case len(found) > 0:
			return found, nil
		case late:
			return []any{}, nil
		}
		select {
		case <-changed:
		case <-deadline.C:
			late = true
		case <-r.Context().Done():
			return []any{}, nil
		case <-f.ctx.Done():
			return []any{}, nil
		}
	}
}
