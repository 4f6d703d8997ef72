package auth

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"time"

	"parley/conversation"
	"parley/conversation/member"
	"parley/gateway/service"
	"parley/metrics"
)

var (
	_ service.Authenticator = (*Door)(nil)
	_ service.Watcher       = (*Door)(nil)
	_ service.TicketMaker   = (*Door)(nil)
	_ service.ByHeaders     = (*Door)(nil)
)

// SignInLimits bound what those who sign in may try.
type SignInLimits struct {
	Failures int           `key:"limits.sign_in_failures" min:"0"`       // of an address in a row before it has to wait; 0 = no limit
	Wait     time.Duration `key:"limits.sign_in_wait" min:"1s" max:"1h"` // the longest wait
	Tickets  int           `key:"limits.tickets_per_user" min:"0"`       // that nobody has used yet; 0 = no limit
}

// DefaultSignInLimits are those of a configuration that says nothing.
func DefaultSignInLimits() SignInLimits {
	return SignInLimits{Failures: 10, Wait: time.Minute, Tickets: 20}
}

// Door is the Authenticator that the gateway asks: it stands before the one that knows
// the credentials.
type Door struct {
	inner   service.Authenticator
	tickets member.Tickets
	most    int // tickets of a user that nobody has used; 0 = no limit
	guesses *guesses
	log     *slog.Logger
	metrics *metrics.Gateway
}

// NewDoor puts a door before inner. tickets are those of all nodes; nil = this one is alone.
func NewDoor(inner service.Authenticator, l SignInLimits, tickets member.Tickets, log *slog.Logger, m *metrics.Gateway) *Door {
	if tickets == nil {
		tickets = newTickets()
	}
	return &Door{inner: inner, tickets: tickets, most: l.Tickets, guesses: newGuesses(l.Failures, l.Wait, time.Now), log: log, metrics: m}
}

// Mode implements service.Authenticator.
func (d *Door) Mode() string { return d.inner.Mode() }

// CredentialHeaders implements service.ByHeaders.
func (d *Door) CredentialHeaders() []string {
	if h, ok := d.inner.(service.ByHeaders); ok {
		return h.CredentialHeaders()
	}
	return nil
}

// Watch implements service.Watcher.
func (d *Door) Watch(p *service.Principal, ended func()) (stop func()) {
	if w, ok := d.inner.(service.Watcher); ok {
		return w.Watch(p, ended)
	}
	return func() {}
}

// Ticket implements service.TicketMaker.
func (d *Door) Ticket(ctx context.Context, p *service.Principal) (string, time.Time, error) {
	ticket, expires, ok, err := putTicket(ctx, d.tickets, p, d.most)
	if err != nil {
		return "", time.Time{}, err
	}
	if !ok {
		d.metrics.Refused.WithLabelValues("tickets_per_user").Inc()
		return "", time.Time{}, &conversation.Error{Code: conversation.RateLimited, Message: "there are too many tickets that nobody has used", RetryAfter: ticketLife}
	}
	return ticket, expires, nil
}

// Authenticate implements service.Authenticator.
func (d *Door) Authenticate(ctx context.Context, c service.Credential) (*service.Principal, error) {
	secret := c.Token
	if secret == "" {
		secret = c.Ticket
		// A ticket is nothing that can be guessed, and each is new: whoever shares an address
		// with a guesser would never get in with one.
		who, err := takeTicket(ctx, d.tickets, c.Ticket)
		if err != nil {
			return nil, err
		}
		if who != nil {
			return d.byTicket(who)
		}
	}
	group := service.AddressGroup(c.Address)
	mark := sha256.Sum256([]byte(secret))
	keys := []string{group, group + " " + shortID(secret)}
	// Nobody finds a signature by trying, and each token is a new one: whoever shares an address
	// with somebody who tries would be kept out.
	if secret != "" && d.inner.Mode() != ModeJWT {
		if wait := d.guesses.wait(keys, mark); wait > 0 {
			d.metrics.Refused.WithLabelValues("sign_in_failures").Inc()
			d.metrics.SignIns.WithLabelValues("held_back").Inc()
			return nil, &conversation.Error{Code: conversation.RateLimited, Message: "too many sign-ins have failed from this address", RetryAfter: wait}
		}
	}
	who, err := d.ask(ctx, c)
	if err == nil {
		d.guesses.succeeded(keys, mark, secret != "" && d.inner.Mode() != ModeNone)
		d.metrics.SignIns.WithLabelValues("ok").Inc()
		return who, nil
	}
	refusal := conversation.AsError(err)
	code := refusal.Code
	d.metrics.SignIns.WithLabelValues(string(code)).Inc()
	if failures, say := d.guesses.failed(keys, mark, secret != "" && code == conversation.Unauthenticated); say {
		attrs := []any{"address", c.Address, "code", string(code), "since_the_last_line", failures}
		if id := shortID(c.Token); id != "" {
			attrs = append(attrs, "key", id)
		}
		if refusal.Err != nil {
			attrs = append(attrs, "why", refusal.Err)
		}
		d.log.Warn("sign-in failed; of this address no more is said for a minute", attrs...)
	}
	if code == conversation.Unauthenticated { // why is said above, once a minute: whoever logs errors must not say it each time
		return nil, &conversation.Error{Code: code, Message: refusal.Message}
	}
	return nil, err
}

func (d *Door) ask(ctx context.Context, c service.Credential) (*service.Principal, error) {
	if c.Token == "" && c.Ticket != "" {
		return nil, &conversation.Error{Code: conversation.Unauthenticated, Message: "the ticket is not known here: it was used, or it is older than 30 s"}
	}
	return d.inner.Authenticate(ctx, c)
}

// byTicket lets in who came with a ticket, if the credential that it was made for has not ended.
func (d *Door) byTicket(who *service.Principal) (*service.Principal, error) {
	if !who.Expires.IsZero() && !time.Now().Before(who.Expires) {
		d.metrics.SignIns.WithLabelValues(string(conversation.TokenExpired)).Inc()
		return nil, service.ErrTokenExpired
	}
	d.metrics.SignIns.WithLabelValues("ok").Inc()
	return who, nil
}

// maxKnownID is longer than any id of NewKey. What is remembered of a guess is no longer.
const maxKnownID = 16

// shortID is the id that a secret begins with, if it may be one of NewKey's.
func shortID(secret string) string {
	if id := idOf(secret); len(id) <= maxKnownID {
		return id
	}
	return ""
}
