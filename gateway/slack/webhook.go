package slack

import (
	"context"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"time"

	"github.com/slack-go/slack"
)

const (
	// maxWebhook bounds a request, in bytes.
	maxWebhook = 1 << 20
	// answerWithin is how long a request may wait for what follows from it. Slack takes one
	// for lost after three seconds.
	answerWithin = 2500 * time.Millisecond
)

// Webhook takes a request of the Events API, a slash command or a press of a button, from any
// server: header gives the value of a header, body is not kept. The answer is 200 once all that
// follows is durable, 401 if Slack has not signed the request, and 503 if it is to come again.
func (b *Bot) Webhook(ctx context.Context, header func(string) string, body []byte) (status int, contentType string, answer []byte) {
	switch {
	case b.o.Receive != Events:
		return http.StatusNotFound, "", nil
	case len(body) > maxWebhook:
		return http.StatusRequestEntityTooLarge, "", nil
	case !b.signed(header, body):
		return http.StatusUnauthorized, "", nil
	}
	kind, payload := kindEvent, body
	if t, _, _ := mime.ParseMediaType(header("Content-Type")); t == "application/x-www-form-urlencoded" {
		if kind, payload = formOf(body); kind == "" {
			return http.StatusOK, "", nil
		}
	} else {
		var c callback
		if json.Unmarshal(body, &c) != nil {
			return http.StatusBadRequest, "", nil
		}
		switch c.Type {
		case "url_verification":
			return http.StatusOK, "text/plain", []byte(c.Challenge)
		case "app_rate_limited":
			b.o.Logger.Warn("Slack does not deliver all events of this minute: there are too many")
			return http.StatusOK, "", nil
		}
	}
	r := b.running()
	if r == nil {
		return http.StatusServiceUnavailable, "", nil
	}
	ctx, cancel := context.WithTimeout(ctx, answerWithin)
	defer cancel()
	done := make(chan error, 1)
	r.accept(ctx, kind, payload, func(err error) { done <- err })
	select {
	case err := <-done:
		if err == nil {
			return http.StatusOK, "", nil
		}
	case <-ctx.Done():
	}
	return http.StatusServiceUnavailable, "", nil
}

// signed is true if Slack has signed a request with our secret, in the last five minutes.
func (b *Bot) signed(header func(string) string, body []byte) bool {
	h := http.Header{}
	for _, name := range []string{"X-Slack-Signature", "X-Slack-Request-Timestamp"} {
		h.Set(name, header(name))
	}
	v, err := slack.NewSecretsVerifier(h, b.o.SigningSecret) // it looks at the age as well
	if err != nil {
		return false
	}
	_, _ = v.Write(body) // into a hash
	return v.Ensure() == nil
}

// formOf reads a form: a press of a button, or a slash command in the form that Socket Mode
// gives it. kind is "" if it is neither, as Slack's check of the certificate.
func formOf(body []byte) (kind string, payload []byte) {
	form, err := url.ParseQuery(string(body))
	if err != nil {
		return "", nil
	}
	if p := form.Get("payload"); p != "" {
		return kindAction, []byte(p)
	}
	if form.Get("command") == "" {
		return "", nil
	}
	payload, _ = json.Marshal(slash{ // strings: it cannot fail
		Team: form.Get("team_id"), Channel: form.Get("channel_id"), ChannelName: form.Get("channel_name"),
		User: form.Get("user_id"), UserName: form.Get("user_name"), Command: form.Get("command"), Text: form.Get("text"),
		ResponseURL: form.Get("response_url"), Trigger: form.Get("trigger_id"),
	})
	return kindCommand, payload
}
