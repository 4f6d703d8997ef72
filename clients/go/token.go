package parley

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"time"
)

// expiry is when a signed token (JWT) expires; false for other tokens.
func expiry(token string) (time.Time, bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return time.Time{}, false
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return time.Time{}, false
	}
	var claims struct {
		Exp float64 `json:"exp"`
	}
	if json.Unmarshal(b, &claims) != nil || claims.Exp <= 0 {
		return time.Time{}, false
	}
	return time.Unix(int64(claims.Exp), 0), true
}

// renew replaces the token of a link before it expires. A token that is not replaced
// in time ends the connection with 4007, and the next one asks for another token.
func (c *Client) renew(l *link) {
	token := l.token
	until, expires := expiry(token)
	for expires {
		left := time.Until(until)
		if pause(l.ctx, max(left-min(time.Minute, left/5), time.Second)) != nil {
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
			until, expires = expiry(token)
		}
	}
}
