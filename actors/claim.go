package actors

import (
	"context"

	"parley/actors/internal/refusal"
	"parley/conversation"
)

// Claim hands messages that wait for an outside runtime to it, each under a lease: what
// this runtime was handed before and gave no sign of, then the oldest of the tenant. If
// nothing waits, it waits r.Wait for the first one. Nobody else is handed them while
// their leases hold. A claim whose answer is lost costs nothing: the next one of the
// same runtime is handed the same.
//
// An error says that nothing of a hand-out is known to the caller; it is retryable.
func (e *Engine) Claim(ctx context.Context, r conversation.ClaimRequest) ([]conversation.HandedOut, error) {
	out, err := e.claims.Claim(ctx, r)
	if len(out) == 0 && e.phase.Load() != phaseRunning {
		return nil, e.refusal()
	}
	if err != nil && ctx.Err() == nil {
		return nil, refusal.Unread(err)
	}
	return out, err
}

// Offer takes what can be claimed in a session of another node; nil = nothing any more.
func (e *Engine) Offer(key conversation.SessionKey, c *conversation.Claimable) { e.claims.Set(key, c) }
