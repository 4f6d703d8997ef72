package policy

import (
	"cmp"
	"fmt"

	"parley/conversation"
	"parley/conversation/option"
)

// Window is what a model of an agent's route can hold, in tokens.
type Window struct {
	Model   string // its name in the configuration
	Own     bool   // the agent's own model; false: a fallback
	Context int    // of a request and its answer together
	Answer  int    // of the answer at most; 0 = a quarter of Context
}

// Request is what a request may have.
func (w Window) Request() int {
	if w.Answer > 0 {
		return w.Context - w.Answer
	}
	return w.Context - w.Context/4
}

// ContextOf are the limits for what an agent's own model is shown: those of the policy,
// and where the model holds less than the budget (small), as much less.
func (r *Rules) ContextOf(agent conversation.AgentName) (limits Context, small bool) {
	for _, w := range r.Agent(agent).Windows {
		if w.Own {
			return r.Policy.Context.within(w.Request())
		}
	}
	return r.Policy.Context, false
}

// within are the limits for a model whose requests have so many tokens at most. Without a
// budget the threshold is four fifths of them, as it is by default.
func (c Context) within(request int) (limits Context, small bool) {
	if c.Budget > 0 && c.Budget <= request {
		return c, false
	}
	whole := c.Budget
	if whole == 0 {
		if whole = c.Threshold * 5 / 4; whole <= request {
			whole = request
		}
	}
	share := func(n int) int { return n * request / max(whole, 1) }
	c.Budget = request
	if c.Threshold > 0 {
		c.Threshold, c.Keep, c.Summary = share(c.Threshold), share(c.Keep), max(share(c.Summary), 1)
	}
	return c, true
}

// CheckRoom refuses limits that leave no room for an agent whose prompt and tools take so
// many tokens.
func (r *Rules) CheckRoom(agent conversation.AgentName, fixed int) error {
	if wrong := r.CheckWindows(agent, fixed); len(wrong) > 0 {
		return wrong[0]
	}
	c := r.Policy.Context
	if c.Threshold > 0 && fixed+c.Keep+c.Summary >= c.Threshold {
		return fmt.Errorf("context.threshold = %d: must be more than what is always there: %d tokens of prompt and tools of the agent %q, context.keep (%d) and context.summary (%d)",
			c.Threshold, fixed, agent, c.Keep, c.Summary)
	}
	if c.Budget > 0 && fixed >= c.Budget {
		return fmt.Errorf("context.budget = %d: must be more than the %d tokens of prompt and tools of the agent %q", c.Budget, fixed, agent)
	}
	return nil
}

// CheckWindows says which models cannot hold the prompt and the tools of an agent, which
// take so many tokens, and a conversation beside them.
func (r *Rules) CheckWindows(agent conversation.AgentName, fixed int) []option.FieldError {
	var wrong []option.FieldError
	for _, w := range r.Agent(agent).Windows {
		if r.holds(w, fixed) {
			continue
		}
		least := w
		for !r.holds(least, fixed) {
			least.Context += 1024
		}
		wrong = append(wrong, option.FieldError{
			Key: "models." + w.Model + ".context", Value: w.Context,
			Sentence: fmt.Sprintf("the prompt and the tools of the agent %q alone take %d tokens, and %d are for the answer: a conversation needs a context of %d or more",
				agent, fixed, w.Context-w.Request(), least.Context),
		})
	}
	return wrong
}

// holds is true for a model that has room for a conversation beside what is always there,
// and for one that holds as much as any agent is shown: what is wrong then is not the model.
func (r *Rules) holds(w Window, fixed int) bool {
	if all := cmp.Or(r.Policy.Context.Budget, r.Policy.Context.Threshold*5/4); all > 0 && w.Request() >= all {
		return true
	}
	if w.Request() <= 0 {
		return false
	}
	c, _ := r.Policy.Context.within(w.Request())
	if c.Threshold > 0 {
		return fixed+c.Keep+c.Summary < c.Threshold
	}
	return fixed < w.Request()*3/4
}
