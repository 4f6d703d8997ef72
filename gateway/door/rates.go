package door

import (
	"math"
	"strconv"
	"time"

	"parley/conversation"
	"parley/gateway/protocol"
	"parley/gateway/service"

	"github.com/gofiber/fiber/v2"
)

// rates bound requests of one address, which are counted before anything is known of
// them, and of one user, who counts instead of the address once known. What is left is in the headers RateLimit-Policy and RateLimit of
// every answer (draft-ietf-httpapi-ratelimit-headers-10).
type rates struct {
	*service.Services
	address, user             *service.Rates
	addressPolicy, userPolicy string // as RateLimit-Policy has them
}

func newRates(s *service.Services) *rates {
	l := s.Limits
	r := &rates{
		Services: s, address: service.NewRates(l.RequestsPerSecondPerAddress, l.RequestsBurstPerAddress),
		user: service.NewRates(l.RequestsPerSecond, l.RequestsBurst),
	}
	r.addressPolicy = policyOf("address", l.RequestsPerSecondPerAddress, l.RequestsBurstPerAddress)
	r.userPolicy = policyOf("user", l.RequestsPerSecond, l.RequestsBurst)
	return r
}

// policyOf is a bound as a quota: burst requests in the time in which they grow back.
func policyOf(name string, rate float64, burst int) string {
	if rate == 0 {
		return ""
	}
	return `"` + name + `";q=` + strconv.Itoa(burst) + ";w=" + strconv.Itoa(max(1, int(math.Ceil(float64(burst)/rate))))
}

// unbounded are the routes that are not counted: probes come from one machine and tell
// nothing, and a socket has limits of its own.
var unbounded = map[string]bool{"/livez": true, "/readyz": true, "/ws": true}

// LimitAddress refuses requests of an address that sends too many.
func (d *HTTP) LimitAddress() fiber.Handler {
	r := d.rates
	return func(c *fiber.Ctx) error {
		if !r.address.Bounded() || unbounded[c.Path()] {
			return c.Next()
		}
		allowed := r.address.Take(service.AddressGroup(AddressOf(r.Services, c)), r.Now())
		showRate(c, "address", r.addressPolicy, allowed)
		if allowed.Wait > 0 {
			return r.refuse("requests_per_second_per_address", allowed.Wait)
		}
		return c.Next()
	}
}

// take counts a request of a user, and no longer as one of its address: who shares that must
// not pay for it. With auth.mode "none" everybody is the same user, and the address alone counts.
func (r *rates) take(c *fiber.Ctx, who *service.Principal) error {
	if !r.user.Bounded() || r.Auth.Mode() == "none" {
		return nil
	}
	now := r.Now()
	r.address.GiveBack(service.AddressGroup(AddressOf(r.Services, c)), now)
	allowed := r.user.Take(who.ID(), now)
	showRate(c, "user", r.userPolicy, allowed)
	if allowed.Wait > 0 {
		return r.refuse("requests_per_second", allowed.Wait)
	}
	return nil
}

func (r *rates) refuse(limit string, wait time.Duration) error {
	r.Metrics.Refused.WithLabelValues(limit).Inc()
	return &conversation.Error{Code: conversation.RateLimited, Message: "too many requests: limits." + limit, RetryAfter: wait}
}

// showRate adds what is left of a bound to the headers, behind that of another one.
func showRate(c *fiber.Ctx, name, policy string, a service.Allowed) {
	c.Append(protocol.HeaderRateLimitPolicy, policy)
	left := `"` + name + `";r=` + strconv.Itoa(a.Left) + ";t=" + strconv.Itoa(int(math.Ceil(a.Whole.Seconds())))
	c.Append(protocol.HeaderRateLimit, left)
}
