package discord

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"github.com/bwmarrin/discordgo"

	"parley/gateway/chat"
)

// Bounds of requests.
const (
	requestTimeout = 20 * time.Second
	maxBody        = 8 << 20 // of an answer; 100 messages of 4000 characters with everything around them are far less
	maxConnections = 16
)

// How long a call may wait for a rate limit before it gives up. Messages do not wait at all:
// gateway/chat does it for them.
const (
	patienceKindness = 2 * time.Second  // a reaction, an answer to a command
	patienceClose    = 10 * time.Second // taking buttons off
	patienceInside   = 30 * time.Second // what only the bot waits for
)

// call is one request.
type call struct {
	method   string
	path     string // behind /api/v9/
	route    string // names it in limits and errors, without secrets; "" = the path
	in, out  any    // nil = no body, or one that does not matter
	patience time.Duration
}

func (c call) name() string {
	if c.route != "" {
		return c.method + " " + c.route
	}
	path, _, _ := strings.Cut(c.path, "?")
	return c.method + " " + path
}

// outcome is what became of a request, as the transport saw it.
type outcome struct {
	status  int  // 0 = there was no answer
	certain bool // without an answer: nothing was sent
	header  http.Header
}

type outcomeKey struct{}

// rewriter sends what is for discord.com to another place, if one is set, and sees what
// became of it.
type rewriter struct {
	next http.RoundTripper
	base *url.URL
}

// RoundTrip implements http.RoundTripper.
func (t *rewriter) RoundTrip(req *http.Request) (*http.Response, error) {
	o, _ := req.Context().Value(outcomeKey{}).(*outcome)
	if o == nil {
		o = &outcome{}
	}
	to := req.Clone(req.Context())
	to.URL.Scheme, to.URL.Host, to.Host = t.base.Scheme, t.base.Host, t.base.Host
	if prefix := strings.TrimRight(t.base.Path, "/"); prefix != "" {
		to.URL.Path, to.URL.RawPath = prefix+to.URL.Path, ""
	}
	resp, err := t.next.RoundTrip(to)
	if err != nil {
		o.certain = neverSent(err)
		return nil, err
	}
	o.status, o.header = resp.StatusCode, resp.Header
	resp.Body = http.MaxBytesReader(nil, resp.Body, maxBody)
	return resp, nil
}

// neverSent is true for errors of making a connection.
func neverSent(err error) bool {
	var op *net.OpError
	var dns *net.DNSError
	return errors.As(err, &dns) || errors.As(err, &op) && (op.Op == "dial" || op.Op == "proxyconnect" || op.Op == "socks connect")
}

// questions is how often something is asked that Discord cannot answer at the moment.
const questions = 3

// do makes a request. An error that is a *chat.Failure says that nothing was done; after any
// other one it is not known. What only asks is repeated then.
func (b *Bot) do(ctx context.Context, c call) error {
	began := time.Now()
	for n := 1; ; n++ {
		err := b.once(ctx, c)
		var f *chat.Failure
		var rest time.Duration
		switch known := errors.As(err, &f); {
		case err == nil || ctx.Err() != nil:
			return err
		case known && f.Trouble == chat.Later && f.After > 0 && time.Since(began)+f.After <= c.patience:
			rest = f.After
		case !known && c.method == http.MethodGet && n < questions:
			rest = b.pause
		default:
			return err
		}
		if wait(ctx, rest) != nil {
			return ctx.Err()
		}
	}
}

func (b *Bot) once(ctx context.Context, c call) error {
	if rest := b.limits.rest(c.name()); rest > 0 {
		return &chat.Failure{Trouble: chat.Later, After: rest, Text: "Discord's rate limit is used up"}
	}
	var body []byte
	if c.in != nil {
		var err error
		if body, err = json.Marshal(c.in); err != nil {
			return &chat.Failure{Trouble: chat.Unfit, Text: c.name() + " cannot be encoded"}
		}
	}
	var o outcome
	within, cancel := context.WithTimeout(context.WithValue(ctx, outcomeKey{}, &o), requestTimeout)
	defer cancel()
	// A bucket of its own, so that the library waits for nothing.
	bucket := discordgo.NewRatelimiter().LockBucket("")
	answer, err := b.rest.RequestWithLockedBucket(c.method, discordgo.EndpointAPI+c.path, "application/json", body, bucket, 0, discordgo.WithContext(within))
	b.learnTime(o.header)
	b.limits.learn(c.name(), o.status, o.header)
	switch {
	case ctx.Err() != nil && o.status == 0:
		return ctx.Err()
	case o.status == 0 && o.certain:
		return &chat.Failure{Trouble: chat.Later, Text: c.name() + ": " + b.clean(err)}
	case o.status >= 200 && o.status < 300:
		if err == nil && c.out != nil {
			err = json.Unmarshal(answer, c.out)
		}
		if err != nil { // it was done, but the answer was cut off or is none
			return fmt.Errorf("%s: the answer cannot be read: %s", c.name(), b.clean(err))
		}
		return nil
	case o.status == 0:
		return fmt.Errorf("%s: %s", c.name(), b.clean(err))
	}
	return b.refused(c, o, answer)
}

// refusal is the body of an answer that is an error.
type refusal struct {
	Code       int     `json:"code"`
	Message    string  `json:"message"`
	RetryAfter float64 `json:"retry_after"`
	Global     bool    `json:"global"`
}

// apiError is a refusal with its code, for callers who know better.
type apiError struct {
	chat.Failure
	code int
}

func (e *apiError) Unwrap() error { return &e.Failure }

// refused makes an error of an answer.
func (b *Bot) refused(c call, o outcome, answer []byte) error {
	var r refusal
	_ = json.Unmarshal(answer, &r) // a proxy's answer is no JSON
	text := fmt.Sprintf("%s: Discord answers %d", c.name(), o.status)
	if r.Message != "" {
		text += ": " + cut(b.redact(r.Message), 200)
		if r.Code != 0 {
			text += fmt.Sprintf(" (%d)", r.Code)
		}
	}
	fail := func(t chat.Trouble) error { return &apiError{chat.Failure{Trouble: t, Text: text}, r.Code} }
	switch {
	case o.status == http.StatusTooManyRequests:
		after := max(seconds(r.RetryAfter), headerSeconds(o.header, "Retry-After"))
		b.limits.hold(c.name(), after, r.Global || o.header.Get("X-RateLimit-Global") != "")
		return &apiError{chat.Failure{Trouble: chat.Later, After: after, Text: text}, r.Code}
	case o.status >= 500, o.status == http.StatusRequestTimeout, o.status < 400:
		return errors.New(text) // it may have been done
	case o.status == http.StatusUnauthorized:
		return &apiError{chat.Failure{Trouble: chat.Credentials, Text: "Discord does not accept the bot's token: " + text}, r.Code}
	case r.Code == discordgo.ErrCodeUnknownMessage || r.Code == discordgo.ErrCodeUnknownEmoji:
		return fail(chat.Unfit)
	case o.status == http.StatusForbidden, o.status == http.StatusNotFound,
		r.Code == discordgo.ErrCodePerformedOperationOnArchivedThread, r.Code == discordgo.ErrCodeThreadIsLocked,
		r.Code == discordgo.ErrCodeCannotSendMessagesToThisUser:
		return fail(chat.Unreachable)
	}
	return fail(chat.Unfit)
}

// clean is an error's text without what it says of addresses and secrets.
func (b *Bot) clean(err error) string {
	if err == nil {
		return "there was no answer"
	}
	var u *url.Error // its text has the address, with the tokens of interactions
	if errors.As(err, &u) {
		err = u.Err
	}
	if errors.Is(err, context.DeadlineExceeded) {
		return "there was no answer in time"
	}
	if errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, io.EOF) {
		return "the connection was cut"
	}
	return cut(b.redact(err.Error()), 300)
}

// webhookToken is where the token of an interaction stands in an address.
var webhookToken = regexp.MustCompile(`((?:webhooks|interactions)/[^/\s"]+/)[^/\s"?#]+`)

// redact takes tokens out of a text.
func (b *Bot) redact(s string) string {
	return webhookToken.ReplaceAllString(strings.ReplaceAll(s, b.token, "[token]"), "${1}[token]")
}

// cut shortens a text to n bytes.
func cut(s string, n int) string {
	if len(s) > n {
		s = strings.ToValidUTF8(s[:n], "") + "…"
	}
	return strings.ToValidUTF8(s, "")
}
