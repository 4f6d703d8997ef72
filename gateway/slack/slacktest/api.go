package slacktest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// serve answers a method of the Web API.
func (w *Workspace) serve(rw http.ResponseWriter, r *http.Request) {
	method := strings.TrimPrefix(r.URL.Path, "/api/")
	body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
	if err != nil {
		http.Error(rw, "bad body", http.StatusBadRequest)
		return
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if err := r.ParseForm(); err != nil {
		http.Error(rw, "bad form", http.StatusBadRequest)
		return
	}
	fault := w.fault(method)
	if w.failed(rw, fault, func() { w.call(method, r) }) {
		return
	}
	w.mu.Lock()
	rw.Header().Set("X-OAuth-Scopes", w.scopes)
	w.mu.Unlock()
	rw.Header().Set("Content-Type", "application/json; charset=utf-8")
	_, _ = rw.Write(encoded(w.call(method, r)))
}

// fault counts a request, and says what goes wrong with it.
func (w *Workspace) fault(method string) (f Mishap) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests[method]++
	w.touch()
	if all := w.faults[method]; len(all) > 0 {
		f, w.faults[method] = all[0], all[1:]
	}
	return f
}

// failed answers a request that goes wrong.
func (w *Workspace) failed(rw http.ResponseWriter, f Mishap, do func()) bool {
	if f.Wait != nil {
		select {
		case <-f.Wait:
		case <-w.ctx.Done():
		}
	}
	bad := f.Code != "" || f.Status != 0 || f.Cut || f.Garbage
	if bad && f.Done {
		do()
	}
	switch {
	case f.Cut:
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.RetryAfter > 0 {
			rw.Header().Set("Retry-After", strconv.Itoa(f.RetryAfter))
		}
		http.Error(rw, "<html>no JSON</html>", f.Status)
	case f.Garbage:
		_, _ = rw.Write([]byte(`{"ok": tr`))
	case f.Code != "":
		answer := object{"ok": false, "error": f.Code}
		if f.Needed != "" {
			answer["needed"], answer["provided"] = f.Needed, "chat:write"
		}
		_, _ = rw.Write(encoded(answer))
	}
	return bad
}

func no(code string) object { return object{"ok": false, "error": code} }

// call carries out a method.
func (w *Workspace) call(method string, r *http.Request) object {
	w.mu.Lock()
	defer w.mu.Unlock()
	defer w.touch()
	want, token := BotToken, r.PostFormValue("token")
	if method == "apps.connections.open" {
		want, token = AppToken, strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	}
	switch {
	case token == "":
		return no("not_authed")
	case token != want && (token == BotToken || token == AppToken):
		return no("not_allowed_token_type")
	case token != want:
		return no("invalid_auth")
	}
	channel := r.PostFormValue("channel")
	if channel != "" && channelType(channel) == "channel" && !strings.HasPrefix(channel, "C") {
		return no("channel_not_found")
	}
	switch method {
	case "auth.test":
		return object{"ok": true, "url": w.server.URL, "team": "Test", "user": "parley", "team_id": Team, "user_id": Bot, "bot_id": BotID}
	case "apps.connections.open":
		ticket := "ticket-" + strconv.Itoa(w.next())
		w.tickets[ticket] = true
		return object{"ok": true, "url": "ws" + strings.TrimPrefix(w.server.URL, "http") + "/link/?ticket=" + ticket + "&app_id=A001"}
	case "users.info":
		return user(r.PostFormValue("user"))
	case "chat.postMessage":
		return w.post(r, channel)
	case "chat.update":
		return w.update(r, channel)
	case "reactions.add", "reactions.remove":
		return w.react(method == "reactions.add", r.PostFormValue("name"), w.find(channel, r.PostFormValue("timestamp")))
	case "conversations.history", "conversations.replies":
		return w.history(r, channel)
	}
	return no("unknown_method")
}

func user(id string) object {
	names := map[string][2]string{Anna: {"anna", "Anna Berg"}, Ben: {"ben", "Ben"}, Bot: {"parley", "Parley"}}
	n, known := names[id]
	if !known {
		return no("user_not_found")
	}
	return object{"ok": true, "user": object{
		"id": id, "team_id": Team, "name": n[0], "real_name": n[1], "is_bot": id == Bot,
		"profile": object{"real_name": n[1], "display_name": n[1]},
	}}
}

// The limits of Slack that a bot can run into.
const (
	maxText    = 40_000 // more is cut
	maxUpdate  = 4_000
	maxButtons = 25
	maxLabel   = 75
	maxValue   = 2_000
)

func (w *Workspace) post(r *http.Request, channel string) object {
	if code := w.closed[channel]; code != "" {
		return no(code)
	}
	m := &Written{Channel: channel, User: Bot, Thread: r.PostFormValue("thread_ts"), Form: map[string]string{}}
	for k := range r.PostForm {
		if k != "token" {
			m.Form[k] = r.PostFormValue(k)
		}
	}
	if m.Thread != "" && w.find(channel, m.Thread) == nil {
		return no("thread_not_found")
	}
	if code := contents(r, m); code != "" {
		return no(code)
	}
	if text := []rune(m.Text); len(text) > maxText {
		m.Text = string(text[:maxText])
	}
	m.TS = w.ts()
	w.written = append(w.written, m)
	return object{"ok": true, "channel": channel, "ts": m.TS, "message": wire(m)}
}

// contents reads what a message is to say, and refuses what Slack refuses.
func contents(r *http.Request, m *Written) string {
	m.Text = r.PostFormValue("text")
	m.Blocks = nil
	if b := r.PostFormValue("blocks"); b != "" && json.Unmarshal([]byte(b), &m.Blocks) != nil {
		return "invalid_blocks_format"
	}
	if md := r.PostFormValue("metadata"); md != "" && json.Unmarshal([]byte(md), &m.Metadata) != nil {
		return "invalid_metadata_format"
	}
	if m.Text == "" && len(m.Blocks) == 0 {
		return "no_text"
	}
	for _, b := range m.Blocks {
		if !good(b) {
			return "invalid_blocks"
		}
	}
	return ""
}

func good(block object) bool {
	elements, _ := block["elements"].([]any)
	if block["type"] != "actions" {
		return block["type"] == "rich_text" && len(elements) > 0
	}
	ids := map[any]bool{}
	for _, e := range elements {
		b, _ := e.(object)
		label, _ := b["text"].(object)
		text, _ := label["text"].(string)
		value, _ := b["value"].(string)
		if b["type"] != "button" || label["type"] != "plain_text" || text == "" || utf8.RuneCountInString(text) > maxLabel ||
			len(value) > maxValue || b["action_id"] == "" || ids[b["action_id"]] {
			return false
		}
		ids[b["action_id"]] = true
	}
	return len(elements) > 0 && len(elements) <= maxButtons
}

func (w *Workspace) update(r *http.Request, channel string) object {
	m := w.find(channel, r.PostFormValue("ts"))
	switch {
	case m == nil:
		return no("message_not_found")
	case m.User != Bot:
		return no("cant_update_message")
	case utf8.RuneCountInString(r.PostFormValue("text")) > maxUpdate:
		return no("msg_too_long")
	}
	next := *m
	if code := contents(r, &next); code != "" {
		return no(code)
	}
	m.Text, m.Blocks, m.Edited = next.Text, next.Blocks, m.Edited+1
	return object{"ok": true, "channel": channel, "ts": m.TS, "text": m.Text}
}

func (w *Workspace) react(add bool, name string, m *Written) object {
	switch {
	case m == nil:
		return no("message_not_found")
	case add && slices.Contains(m.Reactions, name):
		return no("already_reacted")
	case add:
		m.Reactions = append(m.Reactions, name)
	case !slices.Contains(m.Reactions, name):
		return no("no_reaction")
	default:
		m.Reactions = slices.DeleteFunc(m.Reactions, func(r string) bool { return r == name })
	}
	return object{"ok": true}
}

// history is the newest first in a channel, and the oldest first in a thread.
func (w *Workspace) history(r *http.Request, channel string) object {
	thread, oldest := r.PostFormValue("ts"), r.PostFormValue("oldest")
	limit, _ := strconv.Atoi(r.PostFormValue("limit"))
	from, _ := strconv.Atoi(r.PostFormValue("cursor"))
	var all []object
	for _, m := range w.written {
		in := m.Thread == "" && thread == "" || thread != "" && (m.Thread == thread || m.TS == thread)
		if m.Channel != channel || m.Deleted || !in || m.TS < oldest && m.TS != thread {
			continue
		}
		one := wire(m)
		if r.PostFormValue("include_all_metadata") != "1" {
			delete(one, "metadata")
		}
		all = append(all, one)
	}
	if thread == "" {
		slices.Reverse(all)
	}
	limit = max(limit, 1)
	page := all[min(from, len(all)):min(from+limit, len(all))]
	next := ""
	if from+limit < len(all) {
		next = strconv.Itoa(from + limit)
	}
	return object{"ok": true, "messages": page, "has_more": next != "", "response_metadata": object{"next_cursor": next}}
}

// wire is a message as Slack shows it.
func wire(m *Written) object {
	o := object{"type": "message", "user": m.User, "text": m.Text, "ts": m.TS, "team": Team}
	if m.User == Bot {
		o["bot_id"] = BotID
	}
	if m.Thread != "" {
		o["thread_ts"] = m.Thread
	}
	if m.Blocks != nil {
		o["blocks"] = m.Blocks
	}
	if m.Metadata != nil {
		o["metadata"] = m.Metadata
	}
	return o
}

// whisper takes an answer to a command or a press.
func (w *Workspace) whisper(rw http.ResponseWriter, r *http.Request) {
	fault := w.fault("commands")
	if w.failed(rw, fault, func() {}) {
		return
	}
	var body object
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(&body); err != nil {
		http.Error(rw, "invalid_payload", http.StatusBadRequest)
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.whispers = append(w.whispers, Whisper{Path: r.URL.Path, Body: body})
	w.touch()
	_, _ = rw.Write([]byte("ok"))
}
