package slacktest

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// What an envelope may hold.
const (
	kindEvent   = "events_api"
	kindCommand = "slash_commands"
	kindAction  = "interactive"
)

// What failed is repeated by the Events API; by Slack three times in six minutes. Commands and
// presses are not.
const (
	retries = 500
	pause   = 20 * time.Millisecond
)

// deliver sends something to the bot until it is acknowledged. The caller holds mu.
func (w *Workspace) deliver(kind string, payload any) {
	e := &envelope{id: "envelope-" + strconv.Itoa(w.next()), kind: kind, payload: payload}
	w.pending = append(w.pending, e)
	w.touch()
	w.send()
}

// send sends what was never sent. The caller holds mu.
func (w *Workspace) send() {
	if w.target != "" {
		if !w.posting {
			w.posting = true
			w.wg.Go(w.post1by1)
		}
		return
	}
	for c := range w.conns {
		for _, e := range w.waiting() {
			if e.attempts == 0 {
				w.write(c, e)
			}
		}
		return // one connection has all
	}
}

// Again delivers once more what is not acknowledged, or everything there ever was.
func (w *Workspace) Again(everything bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.pending {
		if everything {
			e.acked = false
		}
		e.attempts = 0
	}
	w.send()
}

// write writes an envelope to a connection. The caller holds mu.
func (w *Workspace) write(c *websocket.Conn, e *envelope) {
	ctx, cancel := context.WithTimeout(w.ctx, 5*time.Second)
	defer cancel()
	o := object{"type": e.kind, "envelope_id": e.id, "payload": e.payload, "accepts_response_payload": e.kind != kindEvent}
	if e.kind == kindEvent {
		o["retry_attempt"], o["retry_reason"] = e.attempts, ""
	}
	e.attempts++
	_ = c.Write(ctx, websocket.MessageText, encoded(o)) // it comes again on the next connection
}

// link is a Socket Mode connection.
func (w *Workspace) link(rw http.ResponseWriter, r *http.Request) {
	if w.failed(rw, w.fault("link"), func() {}) {
		return
	}
	w.mu.Lock()
	ticket := r.URL.Query().Get("ticket")
	valid := w.tickets[ticket]
	delete(w.tickets, ticket)
	w.mu.Unlock()
	if !valid {
		http.Error(rw, "bad ticket", http.StatusForbidden)
		return
	}
	c, err := websocket.Accept(rw, r, &websocket.AcceptOptions{InsecureSkipVerify: true}) // the library names Slack as its origin
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	w.mu.Lock()
	w.opened++
	if w.deaf {
		w.touch()
		w.mu.Unlock()
		return
	}
	hello := object{"type": "hello", "num_connections": len(w.conns) + 1, "connection_info": object{"app_id": "A001"},
		"debug_info": object{"host": "applink-1", "build_number": 1, "approximate_connection_time": 18060}}
	_ = c.Write(w.ctx, websocket.MessageText, encoded(hello))
	w.conns[c] = true
	for _, e := range w.waiting() {
		w.write(c, e)
	}
	w.touch()
	w.mu.Unlock()
	for {
		_, ack, err := c.Read(w.ctx)
		w.mu.Lock()
		if err != nil {
			delete(w.conns, c)
			w.touch()
			w.mu.Unlock()
			return
		}
		var of struct {
			ID string `json:"envelope_id"`
		}
		if json.Unmarshal(ack, &of) == nil {
			w.ack(of.ID)
		}
		w.mu.Unlock()
	}
}

// ack is the end of an envelope. The caller holds mu.
func (w *Workspace) ack(id string) {
	for _, e := range w.pending {
		if e.id == id {
			e.acked = true
		}
	}
	w.touch()
}

// Refresh asks the bot to open a new connection, as Slack does every few hours.
func (w *Workspace) Refresh() { w.Raw(object{"type": "disconnect", "reason": "refresh_requested"}) }

// Raw sends anything on the open connections.
func (w *Workspace) Raw(v any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.Write(w.ctx, websocket.MessageText, encoded(v)) // a lost one is opened again
	}
}

// RawEvent delivers any event.
func (w *Workspace) RawEvent(event any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.event(event)
}

// Drop cuts all Socket Mode connections.
func (w *Workspace) Drop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for c := range w.conns {
		_ = c.CloseNow()
	}
}

// post1by1 sends what waits to the bot's URL, in order.
func (w *Workspace) post1by1() {
	for {
		w.mu.Lock()
		var next *envelope
		for _, e := range w.waiting() {
			if e.attempts <= retries && (e.attempts == 0 || e.kind == kindEvent) {
				next = e
				break
			}
		}
		if next == nil || w.ctx.Err() != nil {
			w.posting = false
			w.mu.Unlock()
			return
		}
		next.attempts++
		attempt, target := next.attempts, w.target
		w.mu.Unlock()
		status := w.request(target, next.kind, next.payload, attempt)
		w.mu.Lock()
		w.statuses = append(w.statuses, status)
		if status == http.StatusOK {
			w.ack(next.id)
		}
		w.touch()
		w.mu.Unlock()
		if status == http.StatusOK {
			continue
		}
		select {
		case <-time.After(pause):
		case <-w.ctx.Done():
		}
	}
}

// request sends one signed request, and says how it was answered; 0 = not at all.
func (w *Workspace) request(target, kind string, payload any, attempt int) int {
	contentType, body := Body(kind, payload)
	req, err := http.NewRequestWithContext(w.ctx, http.MethodPost, target, bytes.NewReader(body))
	if err != nil {
		return 0
	}
	req.Header.Set("Content-Type", contentType)
	for name, value := range Sign(SigningSecret, time.Now(), body) {
		req.Header.Set(name, value)
	}
	if attempt > 1 {
		req.Header.Set("X-Slack-Retry-Num", strconv.Itoa(attempt-1))
		req.Header.Set("X-Slack-Retry-Reason", "http_error")
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return 0
	}
	defer func() { _ = resp.Body.Close() }()
	return resp.StatusCode
}

// Body is the body of a request: JSON for events, a form for all else.
func Body(kind string, payload any) (contentType string, body []byte) {
	const form = "application/x-www-form-urlencoded"
	switch kind {
	case kindCommand:
		values := url.Values{}
		for k, v := range payload.(object) {
			values.Set(k, fmt.Sprint(v))
		}
		return form, []byte(values.Encode())
	case kindAction:
		return form, []byte(url.Values{"payload": {string(encoded(payload))}}.Encode())
	}
	return "application/json", encoded(payload)
}

// Sign gives the headers by which a request is known to be Slack's.
func Sign(secret string, at time.Time, body []byte) map[string]string {
	stamp := strconv.FormatInt(at.UnixMilli()/1000, 10)
	mac := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(mac, "v0:%s:%s", stamp, body)
	return map[string]string{
		"X-Slack-Request-Timestamp": stamp,
		"X-Slack-Signature":         "v0=" + hex.EncodeToString(mac.Sum(nil)),
	}
}
