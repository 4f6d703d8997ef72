package slack

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/slack-go/slack"

	"parley/gateway/chat"
)

// Limits of what goes over the wire. A reaction is a kindness that messages wait for, so it is
// given up soon.
const (
	requestTimeout  = 15 * time.Second
	reactionTimeout = 2 * time.Second
	maxAnswer       = 8 << 20 // bytes of an answer of Slack's
	maxConnections  = 16
)

// newClient is a copy of a client that reads no endless answer, waits for none for ever, and
// carries the token to no other place.
func newClient(given *http.Client) *http.Client {
	c := &http.Client{}
	if given != nil {
		*c = *given
	}
	if c.Transport == nil {
		t := http.DefaultTransport.(*http.Transport).Clone()
		t.MaxConnsPerHost = maxConnections
		c.Transport = t
	}
	c.Transport = bounded{c.Transport}
	if c.Timeout == 0 {
		c.Timeout = requestTimeout
	}
	c.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return c
}

// bounded is a transport whose answers end.
type bounded struct{ http.RoundTripper }

func (t bounded) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	resp.Body = struct {
		io.Reader
		io.Closer
	}{io.LimitReader(resp.Body, maxAnswer), resp.Body}
	return resp, nil
}

// CloseIdleConnections is what http.Client looks for.
func (t bounded) CloseIdleConnections() {
	if c, ok := t.RoundTripper.(interface{ CloseIdleConnections() }); ok {
		c.CloseIdleConnections()
	}
}

// codes are the errors of Slack after which it is known what is to be done. Two are missing on
// purpose: after internal_error and fatal_error something may have been done all the same.
var codes = map[string]chat.Trouble{
	"ratelimited": chat.Later, "rate_limited": chat.Later, "message_limit_exceeded": chat.Later,
	"service_unavailable": chat.Later, "request_timeout": chat.Later, "accesslimited": chat.Later,
	"team_added_to_org": chat.Later, "external_channel_migrating": chat.Later,

	"channel_not_found": chat.Unreachable, "is_archived": chat.Unreachable, "not_in_channel": chat.Unreachable,
	"thread_not_found": chat.Unreachable, "cannot_reply_to_message": chat.Unreachable,
	"restricted_action": chat.Unreachable, "restricted_action_read_only_channel": chat.Unreachable,
	"restricted_action_thread_only_channel": chat.Unreachable, "restricted_action_non_threadable_channel": chat.Unreachable,
	"restricted_action_thread_locked": chat.Unreachable, "is_inactive": chat.Unreachable, "user_not_found": chat.Unreachable,
	"users_not_found": chat.Unreachable, "user_disabled": chat.Unreachable, "cannot_dm_bot": chat.Unreachable,
	"messages_tab_disabled": chat.Unreachable, "method_not_supported_for_channel_type": chat.Unreachable,

	"invalid_auth": chat.Credentials, "not_authed": chat.Credentials, "token_revoked": chat.Credentials,
	"token_expired": chat.Credentials, "account_inactive": chat.Credentials, "missing_scope": chat.Credentials,
	"no_permission": chat.Credentials, "not_allowed_token_type": chat.Credentials, "access_denied": chat.Credentials,
	"org_login_required": chat.Credentials, "ekm_access_denied": chat.Credentials, "two_factor_setup_required": chat.Credentials,
	"team_access_not_granted": chat.Credentials, "enterprise_is_restricted": chat.Credentials,
}

// failure is an error of a request as the channel understands it: a *chat.Failure if it is
// certain that nothing was done. No error of the library goes out as it is: they name URLs
// that are secrets themselves.
func (b *Bot) failure(doing string, err error) error {
	var slow *slack.RateLimitedError
	var said slack.SlackErrorResponse
	var status slack.StatusCodeError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &slow):
		return &chat.Failure{Trouble: chat.Later, After: slow.RetryAfter, Text: doing + ": Slack wants us to be slower"}
	case errors.As(err, &said):
		code := b.clean(said.Err)
		if code == "internal_error" || code == "fatal_error" {
			return fmt.Errorf("%s: Slack had an error: %s", doing, code)
		}
		trouble, known := codes[code]
		if !known {
			trouble = chat.Unfit // tried again, it would stop the chat for ever
		}
		text := doing + ": Slack refused it: " + code
		if said.Needed != "" {
			text += " (it needs the scope " + b.clean(said.Needed) + ")"
		}
		return &chat.Failure{Trouble: trouble, Text: text}
	case errors.As(err, &status) && status.Code < http.StatusInternalServerError:
		return &chat.Failure{Trouble: chat.Later, Text: fmt.Sprintf("%s: Slack answered with status %d", doing, status.Code)}
	case notConnected(err):
		return &chat.Failure{Trouble: chat.Later, Text: doing + ": there is no connection to Slack: " + b.reason(err)}
	}
	return errors.New(doing + ": " + b.reason(err))
}

// notConnected is true if an error came before anything was sent.
func notConnected(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	var untrusted *tls.CertificateVerificationError
	return errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect") || errors.As(err, &dns) || errors.As(err, &untrusted) || errors.Is(err, http.ErrSchemeMismatch)
}

// reason is an error's text without the URL: those of Slack carry tickets.
func (b *Bot) reason(err error) string {
	var of *url.Error
	if errors.As(err, &of) {
		err = of.Err
	}
	return b.clean(err.Error())
}

var queries = regexp.MustCompile(`\?[^\s"']+`)

// clean takes secrets out of a text.
func (b *Bot) clean(text string) string {
	text = queries.ReplaceAllString(text, "?…")
	for _, secret := range []string{b.o.BotToken, b.o.AppToken, b.o.SigningSecret} {
		if secret != "" {
			text = strings.ReplaceAll(text, secret, "…")
		}
	}
	return text
}

// Slack lets a bot say about one message a second in a channel, and a few at once.
const (
	paceEvery = time.Second
	paceBurst = 3
	paceKept  = 10_000 // channels
)

// pace says when the next message may go to a channel.
type pace struct {
	now  func() time.Time
	mu   sync.Mutex
	next map[string]time.Time // when the channel has been quiet, so to speak
}

// reserve takes a place in a channel and says how long to wait for it.
func (p *pace) reserve(channel string) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	if len(p.next) >= paceKept {
		for c, at := range p.next {
			if at.Before(now) {
				delete(p.next, c)
			}
		}
	}
	at := p.next[channel]
	if at.Before(now) {
		at = now
	}
	p.next[channel] = at.Add(paceEvery)
	return max(at.Sub(now)-(paceBurst-1)*paceEvery, 0)
}

// hold keeps a channel quiet: Slack has said so.
func (p *pace) hold(channel string, rest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at := p.now().Add(rest + (paceBurst-1)*paceEvery); at.After(p.next[channel]) {
		p.next[channel] = at
	}
}

// wait waits, or until ctx ends.
func wait(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return ctx.Err()
	case <-ctx.Done():
		return ctx.Err()
	}
}
