package slack

import (
	"cmp"
	"context"
	"errors"
	"time"

	"github.com/slack-go/slack"

	"parley/gateway/chat"
)

// Names are asked for when they are needed, and kept for a while. A message waits no longer
// than nameTimeout for the names in it.
const (
	keptPersons = 5_000
	nameFor     = time.Hour
	noNameFor   = 10 * time.Minute
	slowNameFor = time.Minute
	nameTimeout = time.Second
)

// person is what is known of somebody.
type person struct {
	chat.Person
	until time.Time
}

// person says who somebody is; if that cannot be found out, only the id.
func (b *Bot) person(ctx context.Context, id string) chat.Person {
	if !userID.MatchString(id) {
		return chat.Person{ID: id}
	}
	if p, ok := b.who.get(id); ok && b.o.Now().Before(p.until) {
		return p.Person
	}
	p := person{Person: chat.Person{ID: id}}
	u, err := b.api.GetUserInfoContext(ctx, id)
	var slow *slack.RateLimitedError
	var said slack.SlackErrorResponse
	rest := nameFor
	switch {
	case err == nil:
		p.Name, p.Handle = cmp.Or(u.Profile.DisplayName, u.Profile.RealName, u.RealName, u.Name), u.Name
	case errors.As(err, &slow):
		rest = max(slow.RetryAfter, slowNameFor)
	case errors.As(err, &said):
		rest = noNameFor
		if said.Err == "missing_scope" {
			b.o.Logger.Debug("names of people are not known: the bot lacks the scope users:read")
		}
	default:
		rest = slowNameFor
	}
	p.until = b.o.Now().Add(rest)
	b.who.put(id, p)
	return p.Person
}
