package auth

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/conversation/member"
	"parley/gateway/service"
	"parley/metrics"
	"parley/persistence/clustertest"

	"github.com/prometheus/client_golang/prometheus"
)

// knows is an Authenticator of one token.
type knows struct{ token string }

func (knows) Mode() string { return ModeKeys }

func (k knows) Authenticate(_ context.Context, c service.Credential) (*service.Principal, error) {
	switch c.Token {
	case k.token:
		return &service.Principal{Tenant: "default", User: "ann", Scopes: []string{service.ScopeChat}, Credential: "key:1"}, nil
	case "":
		return nil, errNoCredential
	case "old":
		return nil, service.ErrTokenExpired
	}
	return nil, &conversation.Error{Code: conversation.Unauthenticated, Message: "no", Err: errors.New("of another issuer")}
}

func newDoor(l SignInLimits, to *bytes.Buffer) *Door {
	return NewDoor(knows{"right"}, l, nil, slog.New(slog.NewTextHandler(to, nil)), metrics.NewGateway(prometheus.NewRegistry()))
}

// Who guesses waits, longer each time; nobody else does.
func TestGuessing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		d := newDoor(SignInLimits{Failures: 3, Wait: 8 * time.Second}, &log)
		try := func(address, token string) (conversation.Code, time.Duration) {
			_, err := d.Authenticate(t.Context(), service.Credential{Token: token, Address: address})
			if err == nil {
				return "ok", 0
			}
			return code(err), conversation.AsError(err).RetryAfter
		}
		is := func(address, token string, want conversation.Code, wait time.Duration) {
			t.Helper()
			if got, after := try(address, token); got != want || after != wait {
				t.Errorf("%s with %s: %s after %v, want %s after %v", address, token, got, after, want, wait)
			}
		}
		for range 20 { // these are no guesses
			is("2001:db8::1", "", conversation.Unauthenticated, 0)
			is("2001:db8::1", "old", conversation.TokenExpired, 0)
		}
		is("2001:db8::9", "right", "ok", 0)
		for i := range 3 {
			is(fmt.Sprintf("2001:db8::%d", i+1), "wrong", conversation.Unauthenticated, 0)
		}
		is("2001:db8::7", "wrong", conversation.RateLimited, time.Second) // of the same /64
		is("2001:db8::7", "right", "ok", 0)                               // it was right a moment ago
		is("2001:db8:1::1", "wrong", conversation.Unauthenticated, 0)
		for wait := time.Second; wait <= 16*time.Second; wait *= 2 {
			time.Sleep(min(wait, 8*time.Second))
			is("2001:db8::7", "wrong", conversation.Unauthenticated, 0)
			is("2001:db8::7", "wrong", conversation.RateLimited, min(2*wait, 8*time.Second))
		}
		time.Sleep(guessesForget + time.Second)
		is("2001:db8::7", "wrong", conversation.Unauthenticated, 0)
		is("2001:db8::7", "wrong", conversation.Unauthenticated, 0)
		lines := strings.Count(log.String(), "sign-in failed")
		if lines != 3 { // of the first minute, of the other address, after ten minutes
			t.Errorf("%d lines:\n%s", lines, log.String())
		}
		if strings.Count(log.String(), "of another issuer") != 2 {
			t.Errorf("the log does not say why:\n%s", log.String())
		}
		_, err := d.Authenticate(t.Context(), service.Credential{Token: "bad", Address: "192.0.2.1"})
		if conversation.AsError(err).Err != nil {
			t.Error("the cause is handed on, and whoever refuses the request would log it")
		}
		if strings.Contains(log.String(), "wrong") {
			t.Error("the log holds a token")
		}
	})
}

// Who has a ticket gets in beside a guesser at the same address, and no ticket takes the
// place of a key that is remembered as right.
func TestTicketBesideAGuesser(t *testing.T) {
	d := newDoor(SignInLimits{Failures: 1, Wait: time.Minute}, &bytes.Buffer{})
	sign := func(c service.Credential) conversation.Code {
		c.Address = "192.0.2.1"
		if _, err := d.Authenticate(t.Context(), c); err != nil {
			return code(err)
		}
		return "ok"
	}
	if got := sign(service.Credential{Token: "right"}); got != "ok" {
		t.Fatal(got)
	}
	sign(service.Credential{Token: "wrong"})
	if got := sign(service.Credential{Token: "wrong"}); got != conversation.RateLimited {
		t.Fatalf("the guesser: %s", got)
	}
	for i := range knownKept + 1 {
		ticket, _, err := d.Ticket(t.Context(), &service.Principal{Tenant: "default", User: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		if got := sign(service.Credential{Ticket: ticket}); got != "ok" {
			t.Fatalf("ticket %d: %s", i, got)
		}
	}
	if got := sign(service.Credential{Ticket: "ticket_guessed"}); got != conversation.RateLimited {
		t.Errorf("a guessed ticket: %s", got)
	}
	if got := sign(service.Credential{Token: "right"}); got != "ok" {
		t.Errorf("the key that was right before: %s", got)
	}
}

// However long what is tried, what is remembered of it is bounded.
func TestGuessesAreShort(t *testing.T) {
	d := newDoor(SignInLimits{Failures: 10, Wait: time.Minute}, &bytes.Buffer{})
	for i := range 5 {
		_, _ = d.Authenticate(t.Context(), service.Credential{Token: fmt.Sprint(keyPrefix, i, strings.Repeat("x", 8000), "_y"), Address: "192.0.2.1"})
	}
	for key := range d.guesses.tries {
		if len(key) > 100 {
			t.Fatalf("%d bytes are remembered of a guess", len(key))
		}
	}
}

// However many addresses guess, what is remembered of them is bounded.
func TestGuessesAreBounded(t *testing.T) {
	d := newDoor(SignInLimits{Failures: 1, Wait: time.Minute}, &bytes.Buffer{})
	for i := range 3 * guessesKept {
		_, _ = d.Authenticate(t.Context(), service.Credential{Token: "wrong", Address: fmt.Sprintf("10.%d.%d.%d", i>>16, i>>8&255, i&255)})
	}
	if n := len(d.guesses.tries); n > guessesKept {
		t.Errorf("%d are kept", n)
	}
}

func TestTickets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := newDoor(SignInLimits{Tickets: 2}, &bytes.Buffer{})
		ann := &service.Principal{Tenant: "default", User: "ann", Scopes: []string{service.ScopeChat}, Credential: "key:1"}
		bob := &service.Principal{Tenant: "default", User: "bob", Expires: time.Now().Add(10 * time.Second)}
		take := func(ticket string) conversation.Code {
			_, err := d.Authenticate(t.Context(), service.Credential{Ticket: ticket})
			return code(err)
		}
		one, until, err := d.Ticket(t.Context(), ann)
		if err != nil || until != time.Now().Add(ticketLife) {
			t.Fatalf("%v, %v", until, err)
		}
		two, _, err := d.Ticket(t.Context(), ann)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := d.Ticket(t.Context(), ann); code(err) != conversation.RateLimited {
			t.Errorf("a third one: %v", err)
		}
		short, until, err := d.Ticket(t.Context(), bob)
		if err != nil || until != bob.Expires {
			t.Errorf("another user's: %v, %v", until, err)
		}
		who, err := d.Authenticate(t.Context(), service.Credential{Ticket: one})
		if err != nil || !reflect.DeepEqual(who, ann) {
			t.Errorf("%+v, %v", who, err)
		}
		if c := take(one); c != conversation.Unauthenticated {
			t.Errorf("the same again: %s", c)
		}
		if _, err := d.Authenticate(t.Context(), service.Credential{Token: two}); code(err) != conversation.Unauthenticated {
			t.Errorf("a ticket in the place of a token: %v", err)
		}
		if _, _, err := d.Ticket(t.Context(), ann); err != nil {
			t.Errorf("after one was used: %v", err)
		}
		time.Sleep(10 * time.Second)
		if c := take(short); c == "" {
			t.Error("a ticket outlives its credential")
		}
		time.Sleep(20 * time.Second)
		if c := take(two); c != conversation.Unauthenticated {
			t.Errorf("after 30 s: %s", c)
		}
		if _, _, err := d.Ticket(t.Context(), ann); err != nil {
			t.Errorf("after the others have ended: %v", err)
		}
		for hash, kept := range d.tickets.(*tickets).byHash {
			if strings.Contains(string(hash[:])+string(kept.Who), ticketPrefix) {
				t.Error("a ticket is kept as it is")
			}
		}
	})
}

// Of all who come with one ticket at once, one gets in.
func TestTicketIsTakenOnce(t *testing.T) {
	d := newDoor(SignInLimits{}, &bytes.Buffer{})
	for range 50 {
		ticket, _, err := d.Ticket(t.Context(), &service.Principal{Tenant: "default", User: "ann"})
		if err != nil {
			t.Fatal(err)
		}
		var in atomic.Int32
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				if _, err := d.Authenticate(t.Context(), service.Credential{Ticket: ticket}); err == nil {
					in.Add(1)
				}
			})
		}
		all.Wait()
		if in.Load() != 1 {
			t.Fatalf("%d got in", in.Load())
		}
	}
}

func TestProxy(t *testing.T) {
	c := DefaultSignIn()
	c.Mode, c.UserHeader, c.TenantHeader, c.ScopesHeader, c.NameHeader = ModeProxy, "X-User", "X-Tenant", "X-Scopes", "X-Name"
	p := NewProxy(c)
	for _, row := range []struct {
		name    string
		headers map[string]string
		want    string // user, tenant, scopes; or the code
	}{
		{"all", map[string]string{"X-User": "ann", "X-Tenant": "acme", "X-Scopes": "chat, admin email", "X-Name": "Ann"}, "ann acme [chat admin] Ann"},
		{"no scopes", map[string]string{"X-User": "ann", "X-Tenant": "acme", "X-Scopes": ""}, "ann acme [] "},
		{"not from a trusted proxy", nil, "unauthenticated"},
		{"nobody", map[string]string{"X-Tenant": "acme"}, "unauthenticated"},
		{"no tenant", map[string]string{"X-User": "ann"}, "unauthenticated"},
		{"twice", map[string]string{"X-User": "evil\x00ann", "X-Tenant": "acme"}, "unauthenticated"},
	} {
		who, err := p.Authenticate(t.Context(), service.Credential{Headers: row.headers})
		got := string(code(err))
		if err == nil {
			got = fmt.Sprintf("%s %s %v %s", who.User, who.Tenant, who.Scopes, who.Name)
		}
		if got != row.want {
			t.Errorf("%s: %s, want %s", row.name, got, row.want)
		}
	}
}

func TestTicketsInMemory(t *testing.T) {
	clustertest.RunTickets(t, func(*testing.T) func() member.Tickets {
		all := newTickets()
		return func() member.Tickets { return all }
	})
}

// away are tickets that cannot be reached.
type away struct{}

var errAway = conversation.Errorf(conversation.Unavailable, "the database is away")

func (away) PutTicket(context.Context, member.Ticket, int) (bool, error) { return false, errAway }
func (away) TakeTicket(context.Context, [sha256.Size]byte) ([]byte, error) {
	return nil, errAway
}

// A ticket that cannot be looked up is not said to be wrong, nor does it count as a guess.
func TestTicketsOutOfReach(t *testing.T) {
	d := NewDoor(knows{"right"}, SignInLimits{Failures: 1, Wait: time.Hour}, away{}, slog.New(slog.DiscardHandler), metrics.NewGateway(prometheus.NewRegistry()))
	if _, _, err := d.Ticket(t.Context(), &service.Principal{Tenant: "default", User: "ann"}); code(err) != conversation.Unavailable {
		t.Errorf("to make one: %v", err)
	}
	for range 3 {
		if _, err := d.Authenticate(t.Context(), service.Credential{Ticket: ticketPrefix + strings.Repeat("a", 26)}); code(err) != conversation.Unavailable {
			t.Errorf("to use one: %v", err)
		}
	}
	if _, err := d.Authenticate(t.Context(), service.Credential{Ticket: "ticket_short"}); code(err) != conversation.Unauthenticated {
		t.Errorf("what can be none: %v", err)
	}
}
