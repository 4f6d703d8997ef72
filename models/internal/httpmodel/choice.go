package httpmodel

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync/atomic"

	"parley/conversation"
)

// choiceMember is the member of a request's body that says which calls the answer may have.
const choiceMember = "tool_choice"

// choice is what is known about a provider's tool_choice.
type choice struct{ refused atomic.Bool }

// MustCall reports whether the request's body says by its tool_choice that the answer must
// be calls. Without one the model is only asked for calls by words. Some models refuse it,
// many while they think: the exchange is then run again without, once, and a refusal that
// names the member is remembered until the next start. Nor is it sent where the
// options leave it out, or set it themselves.
func (c *Call) MustCall(r *conversation.Request) bool {
	o := &c.client.o
	_, own := o.Extra[choiceMember]
	c.chosen = r.MustCall && !c.free && !own && !slices.Contains(o.Without, choiceMember) && !c.client.choice.refused.Load()
	return c.chosen
}

// choiceRefused reports whether the tool_choice may be why a request failed, and whether the
// provider says so. A refusal with nothing but a status may be one; so may that of an answer
// without a call, which some servers check themselves.
func (c *Client) choiceRefused(ctx context.Context, err error) (refused, named bool) {
	var status *statusError
	var provided ProviderError
	switch {
	case errors.As(err, &status):
		named = bytes.Contains(status.body, []byte(choiceMember))
	case errors.As(err, &provided):
		named = strings.Contains(provided.Sentence(), choiceMember)
	}
	var known *conversation.ModelError
	isBad := errors.As(c.failure(ctx, err), &known) && known.Failure.Code == conversation.BadRequest
	return named || isBad, named
}
