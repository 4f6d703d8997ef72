package parley

import (
	"encoding/json"
	"time"

	"parley/clients/go/internal/credential"
	"parley/clients/go/internal/pace"
)

// renew replaces the token of a link before it expires. A token that is not replaced
// in time ends the connection with 4007, and the next one asks for another token.
func (c *Client) renew(l *link) {
	token := l.token
	until, expires := credential.Expiry(token)
	for expires {
		left := time.Until(until)
		if pace.Wait(l.ctx, max(left-min(time.Minute, left/5), time.Second)) != nil {
			return
		}
		fresh, err := c.options.token(l.ctx)
		if err != nil || fresh == token {
			if time.Until(until) <= 0 {
				return
			}
			continue
		}
		var answer struct {
			ExpiresAt *time.Time `json:"expires_at"`
		}
		raw, _, err := l.ask(l.ctx, "refresh", "", map[string]string{"token": fresh}, c.options.Answer)
		if err != nil {
			return // the connection has ended, or will at the expiry
		}
		token = fresh
		if json.Unmarshal(raw, &answer) == nil && answer.ExpiresAt != nil {
			until = *answer.ExpiresAt
		} else {
			until, expires = credential.Expiry(token)
		}
	}
}
