package push

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/outbound"
	"parley/gateway/service"
	"parley/metrics"
)

// Channel is the channel of the rows that hold registrations.
const Channel chats.Channel = "push"

// The rows that say which tenants have registrations: the store lists rows of one tenant.
const (
	tenants      chats.Channel         = "push.tenants"
	tenantsOwner conversation.TenantID = "default"
)

// Registration says who is told what, and where.
type Registration struct {
	User    service.Principal // whose it is; the task is followed as it
	Session conversation.SessionID
	Task    conversation.TaskID
	ID      string // of the user's registrations of that task
	Target  Target
	From    conversation.Seq         // what has happened up to there is part of the first notice
	Said    conversation.ClientMsgID // by the message that has brought it; "" = it came alone

	// What the way in shows it by:

	Context string // what the client calls the session
	Address string // of the server
}

// Target is where to send, and by which proof.
type Target struct {
	URL         string `json:"url"`
	Token       string `json:"token,omitempty"`       // sent along; a secret of Standard Webhooks (whsec_…) signs instead
	Scheme      string `json:"scheme,omitempty"`      // of the header Authorization: "Bearer"
	Credentials string `json:"credentials,omitempty"` // and what stands behind it
}

// row is a registration as it is stored.
type row struct {
	ID         string                   `json:"id"`
	Round      string                   `json:"round"` // another one whenever it begins anew
	User       conversation.UserID      `json:"user"`
	Name       string                   `json:"name,omitempty"`
	Scopes     []string                 `json:"scopes"`
	Credential string                   `json:"credential,omitempty"`
	Expires    time.Time                `json:"expires,omitzero"`
	Session    conversation.SessionID   `json:"session"`
	Task       conversation.TaskID      `json:"task"`
	Target     string                   `json:"target"` // sealed
	From       conversation.Seq         `json:"from"`
	Said       conversation.ClientMsgID `json:"said,omitempty"`
	Context    string                   `json:"context"`
	Address    string                   `json:"address"`
	Made       time.Time                `json:"made"`
	Put        time.Time                `json:"put,omitzero"`    // by that key; Made is when it began
	After      uint64                   `json:"after,omitempty"` // the last notice that was dealt with
	Ended      time.Time                `json:"ended,omitzero"`  // nothing more is sent since then
	Why        string                   `json:"why,omitempty"`
}

// Parts are what Pushes works with.
type Parts struct {
	Store   chats.Store
	Cursors *service.Cursors // which seal what is nobody's business
	Metrics *metrics.Pushes
	Logger  *slog.Logger     // nil = nothing is logged
	Now     func() time.Time // nil = time.Now

	// Wake has Answer called with a text where Run runs, soon; nil = it runs here or nowhere.
	Wake func(text []byte)

	// Transport takes the place of the network, for tests; nil = the network.
	Transport http.RoundTripper
}

// Pushes keeps registrations and serves them. Its methods may be called from any goroutine.
type Pushes struct {
	Parts
	rules  Rules
	source TaskSource
	poster *outbound.Poster
	puts   chan struct{} // one Put at a time: capacity 1
	woken  chan chats.Key
}

// New makes it. local says that nobody can reach the server but from this machine: with no hosts
// named it sends to this machine then. nil = the rules allow no address.
func New(r Rules, local bool, parts Parts) *Pushes {
	reach := outbound.Public
	switch {
	case len(r.Hosts) == 0 && !local:
		return nil
	case len(r.Hosts) == 0:
		r.Hosts, r.Private, reach = thisMachine, true, outbound.Loopback
	case r.Private:
		reach = outbound.Anywhere
	}
	if parts.Now == nil {
		parts.Now = time.Now
	}
	if parts.Logger == nil {
		parts.Logger = slog.New(slog.DiscardHandler)
	}
	return &Pushes{
		Parts: parts, rules: r, puts: make(chan struct{}, 1), woken: make(chan chats.Key, wakes),
		poster: outbound.NewPoster(outbound.Using{Reach: reach, Timeout: r.Timeout, PerHost: 8, Now: parts.Now, Transport: parts.Transport}),
	}
}

// Tells says who makes notices. It is to be called before anything else.
func (p *Pushes) Tells(s TaskSource) { p.source = s }

// ErrTooMany refuses one registration more of a user.
var ErrTooMany = &conversation.Error{Code: conversation.RateLimited, Message: "there are too many tasks that you are told of at an address: wait until some have ended, or delete their configurations", RetryAfter: time.Minute}

// Check says what is wrong with a registration before there is a task for it, and whether its
// user may have one more: a message that is said again brings none. It writes nothing.
func (p *Pushes) Check(ctx context.Context, r *Registration) error {
	if err := p.wrong(r); err != nil || p.rules.PerUser == 0 {
		return err
	}
	live := 0
	for k, err := range p.all(ctx, r.User.Tenant, placeOf(r.User.User)) {
		switch {
		case err != nil:
			return err
		case r.Said != "" && k.Said == r.Said:
			return nil
		case k.row.Ended.IsZero():
			live++
		}
	}
	if service.OverLimit(live, p.rules.PerUser) {
		return ErrTooMany
	}
	return nil
}

// wrong says what is wrong with what a client has said.
func (p *Pushes) wrong(r *Registration) error {
	t := &r.Target
	if err := p.rules.allows(t.URL); err != nil {
		return err
	}
	switch {
	case len(r.ID) > maxID || !visible(r.ID):
		return conversation.Errorf(conversation.BadRequest, "id must be at most %d bytes, without spaces", maxID)
	case len(t.Token) > maxSecret || !sendable(t.Token):
		return conversation.Errorf(conversation.BadRequest, "token must be at most %d bytes of text that a header can have", maxSecret)
	case len(t.Scheme) > maxScheme || !visible(t.Scheme):
		return conversation.Errorf(conversation.BadRequest, `authentication.scheme must be the name of a scheme, such as "Bearer"`)
	case len(t.Credentials) > maxSecret || !sendable(t.Credentials):
		return conversation.Errorf(conversation.BadRequest, "authentication.credentials must be at most %d bytes of text that a header can have", maxSecret)
	case t.Scheme == "" && t.Credentials != "":
		return conversation.Errorf(conversation.BadRequest, "authentication.scheme is missing")
	}
	if strings.HasPrefix(t.Token, outbound.SecretPrefix) {
		if _, err := outbound.ParseSecret(t.Token); err != nil {
			return conversation.Errorf(conversation.BadRequest, "token is no secret of Standard Webhooks: %s", err.Error())
		}
	}
	return nil
}

// visible is true for ASCII that can be seen.
func visible(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c <= ' ' || c > '~' })
}

// sendable is true for ASCII that a header may have in it.
func sendable(s string) bool {
	return strings.TrimSpace(s) == s && !strings.ContainsFunc(s, func(c rune) bool { return c < ' ' || c > '~' })
}

// NameOf is the id of a registration whose client gives it none: the same one for the same address.
func NameOf(url string) string {
	sum := sha256.Sum256([]byte(url))
	return "url-" + hex.EncodeToString(sum[:8])
}

// key names a registration's row. Two users may give one id in a task that both see.
func keyOf(who *service.Principal, task conversation.TaskID, id string) chats.Key {
	return chats.Key{Tenant: who.Tenant, Channel: Channel, Chat: chats.Chat(place(who.User, task) + id)}
}

// place is what the chats of a user's registrations of a task begin with.
func place(user conversation.UserID, task conversation.TaskID) string {
	return placeOf(user) + string(task) + "/"
}

// placeOf is what the chats of all of a user's registrations begin with.
func placeOf(user conversation.UserID) string {
	sum := sha256.Sum256([]byte(user))
	return hex.EncodeToString(sum[:8]) + "/"
}

// seal is who can read what is sealed in a row.
func (p *Pushes) seal(k chats.Key) service.ListCursors {
	return p.Cursors.For(&service.Principal{Tenant: k.Tenant, User: conversation.UserID(k.Chat)}, string(Channel))
}

// Put stores a registration, in the place of the user's one of that id. The same one again
// changes nothing, and a message that is said again does not bring back what has ended.
func (p *Pushes) Put(ctx context.Context, r *Registration) error {
	if err := p.wrong(r); err != nil {
		return err
	}
	select {
	case p.puts <- struct{}{}:
		defer func() { <-p.puts }()
	case <-ctx.Done():
		return ctx.Err()
	}
	key := keyOf(&r.User, r.Task, r.ID)
	if err := p.knowTenant(ctx, key.Tenant); err != nil {
		return err
	}
	for {
		saved, err := p.put(ctx, key, r)
		if err == nil && saved {
			p.wake(key)
		}
		switch {
		case errors.Is(err, chats.ErrErased):
			return conversation.ErrNotFound
		case !errors.Is(err, chats.ErrStale):
			return err
		}
	}
}

// put is false for a registration that is there already.
func (p *Pushes) put(ctx context.Context, key chats.Key, r *Registration) (saved bool, err error) {
	old, err := p.Store.Load(ctx, key)
	if err != nil {
		return false, err
	}
	now := row{
		ID: r.ID, User: r.User.User, Name: r.User.Name, Scopes: r.User.Scopes, Credential: r.User.Credential, Expires: r.User.Expires,
		Session: r.Session, Task: r.Task, From: r.From, Said: r.Said, Context: r.Context, Address: r.Address, Made: p.Now(), Put: p.Now(),
	}
	was, live := row{}, false
	if old.Revision > 0 && json.Unmarshal(old.Value, &was) == nil {
		target, ok := p.target(key, &was)
		same := ok && target == r.Target
		switch live = was.Ended.IsZero(); {
		case !live && was.overFor(r.Said, same):
			return false, nil
		case live && same && was.Credential == now.Credential && slices.Equal(was.Scopes, now.Scopes):
			return false, nil
		case live && same:
			now.From, now.After, now.Made = was.From, was.After, was.Made // it goes on, by another key
		}
	}
	mine, n, err := p.mine(ctx, &r.User, key.Chat)
	if err != nil {
		return false, err
	}
	if !live && service.OverLimit(n, p.rules.PerUser) {
		return false, ErrTooMany
	}
	target, err := json.Marshal(r.Target)
	if err != nil {
		return false, err
	}
	now.Round, now.Target = rand.Text(), p.seal(key).Hide(string(target))
	value, err := json.Marshal(now)
	if err != nil {
		return false, err
	}
	rows := []chats.Row{{Key: key, Revision: old.Revision, Session: r.Session.Root(), Value: value}}
	if err := p.Store.Save(ctx, key.Tenant, rows, nil); err != nil {
		return false, err
	}
	return true, p.forget(ctx, mine)
}

// overFor is true for a registration that has come to its end and that the same message brings
// again: all was told, or nobody wants it any more. same = it is for the same address.
func (r *row) overFor(said conversation.ClientMsgID, same bool) bool {
	if said == "" || said != r.Said {
		return false
	}
	return r.Why == whyDeleted || same && (r.Why == whyEnded || r.Why == outbound.ReasonGone)
}

// knowTenant stores that a tenant has registrations.
func (p *Pushes) knowTenant(ctx context.Context, tenant conversation.TenantID) error {
	key := chats.Key{Tenant: tenantsOwner, Channel: tenants, Chat: chats.Chat(tenant)}
	known, err := p.Store.Load(ctx, key)
	if err != nil || known.Revision > 0 {
		return err
	}
	known.Key, known.Value = key, []byte("{}")
	if err := p.Store.Save(ctx, tenantsOwner, []chats.Row{known}, nil); err != nil && !errors.Is(err, chats.ErrStale) {
		return err
	}
	return nil
}

// kept is a row with what is in it.
type kept struct {
	chats.Row
	row
}

// mine are the user's registrations that have ended, but for one, and how many have not. Nobody
// asks where a user may have any number.
func (p *Pushes) mine(ctx context.Context, who *service.Principal, but chats.Chat) (ended []kept, live int, err error) {
	if p.rules.PerUser == 0 {
		return nil, 0, nil
	}
	for k, err := range p.all(ctx, who.Tenant, placeOf(who.User)) {
		switch {
		case err != nil:
			return nil, 0, err
		case k.Chat == but:
		case k.row.Ended.IsZero():
			live++
		default:
			ended = append(ended, k)
		}
	}
	return ended, live, nil
}

// forget deletes those that have ended first, where they are more than a user may have.
func (p *Pushes) forget(ctx context.Context, ended []kept) error {
	if len(ended) <= p.rules.PerUser {
		return nil
	}
	slices.SortFunc(ended, func(a, b kept) int { return a.row.Ended.Compare(b.row.Ended) })
	for _, k := range ended[:len(ended)-p.rules.PerUser] {
		if err := p.drop(ctx, k.Row); err != nil {
			return err
		}
	}
	return nil
}

// drop deletes a row; that it has changed meanwhile is no error.
func (p *Pushes) drop(ctx context.Context, r chats.Row) error {
	r.Value = nil
	if err := p.Store.Save(ctx, r.Tenant, []chats.Row{r}, nil); err != nil && !errors.Is(err, chats.ErrStale) {
		return err
	}
	return nil
}

// all are the rows of a tenant that can be read and whose chats begin with a text: what others have
// is not even decoded.
func (p *Pushes) all(ctx context.Context, tenant conversation.TenantID, begin string) func(yield func(kept, error) bool) {
	return func(yield func(kept, error) bool) {
		for r, err := range p.Store.Rows(ctx, tenant, Channel) {
			k := kept{Row: r}
			if err == nil && !strings.HasPrefix(string(r.Chat), begin) {
				continue
			}
			if err == nil && json.Unmarshal(r.Value, &k.row) != nil {
				continue // a later version has written it
			}
			if !yield(k, err) || err != nil {
				return
			}
		}
	}
}

// target is what is sealed in a row; false = it cannot be read any more.
func (p *Pushes) target(key chats.Key, r *row) (t Target, ok bool) {
	text, err := p.seal(key).Show(r.Target)
	return t, err == nil && json.Unmarshal([]byte(text), &t) == nil
}

// registration is a row as one knows it from outside; false = it cannot be read any more.
func (p *Pushes) registration(key chats.Key, r *row) (*Registration, bool) {
	target, ok := p.target(key, r)
	return &Registration{
		User:    service.Principal{Tenant: key.Tenant, User: r.User, Name: r.Name, Scopes: r.Scopes, Credential: r.Credential, Expires: r.Expires},
		Session: r.Session, Task: r.Task, ID: r.ID, Target: target, From: r.From, Said: r.Said, Context: r.Context, Address: r.Address,
	}, ok
}

// Get is a user's registration of a task; nil = there is none of that id. Those that have ended
// are there for a day.
func (p *Pushes) Get(ctx context.Context, who *service.Principal, task conversation.TaskID, id string) (*Registration, error) {
	key := keyOf(who, task, id)
	stored, err := p.Store.Load(ctx, key)
	if err != nil || stored.Revision == 0 {
		return nil, err
	}
	var r row
	if json.Unmarshal(stored.Value, &r) != nil {
		return nil, nil
	}
	if found, ok := p.registration(key, &r); ok {
		return found, nil
	}
	return nil, nil
}

// List are a user's registrations of a task, in the order of their ids.
func (p *Pushes) List(ctx context.Context, who *service.Principal, task conversation.TaskID) (all []*Registration, err error) {
	for k, err := range p.all(ctx, who.Tenant, place(who.User, task)) {
		if err != nil {
			return nil, err
		}
		if r, ok := p.registration(k.Key, &k.row); ok {
			all = append(all, r)
		}
	}
	return all, nil
}

// Delete ends a user's registration of a task: when it has returned, at most the notice is sent
// that is being sent. That there is none is no error.
//
// What is left is a row that has ended, without the address: the revisions of a row that is made
// again go on then. Began they at 1 again, a sender of the old one could take the new one for its
// own, and write over it.
func (p *Pushes) Delete(ctx context.Context, who *service.Principal, task conversation.TaskID, id string) error {
	key := keyOf(who, task, id)
	for {
		stored, err := p.Store.Load(ctx, key)
		if err != nil || stored.Revision == 0 {
			return err
		}
		var r row
		if json.Unmarshal(stored.Value, &r) == nil && r.Why == whyDeleted {
			return nil
		}
		left := row{ID: id, User: who.User, Session: r.Session, Task: task, Said: r.Said, Ended: p.Now(), Why: whyDeleted}
		if stored.Value, err = json.Marshal(left); err != nil {
			return err
		}
		switch err = p.Store.Save(ctx, key.Tenant, []chats.Row{stored}, nil); {
		case errors.Is(err, chats.ErrErased):
			return nil
		case !errors.Is(err, chats.ErrStale):
			p.wake(key)
			return err
		}
	}
}
