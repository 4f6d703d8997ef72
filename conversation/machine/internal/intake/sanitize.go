package intake

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/dedup"
)

// Normalize rounds a body to what the store keeps (milliseconds; nil for empty), so
// that a replayed session equals the live one.
func Normalize(body conversation.EventBody) conversation.EventBody {
	switch b := body.(type) {
	case conversation.SessionCreated:
		if len(b.Policy) == 0 {
			b.Policy = nil
		}
		return b
	case conversation.StepStarted:
		b.NotBefore = stampOrZero(b.NotBefore)
		return b
	case conversation.StepFinished:
		b.Took = b.Took.Truncate(time.Millisecond)
		if len(b.Items) == 0 {
			b.Items = nil
		}
		return b
	case conversation.TaskCancelling:
		b.Until = stampOrZero(b.Until)
		return b
	case conversation.Asked:
		b.ExpiresAt = stampOrZero(b.ExpiresAt)
		if len(b.Choices) == 0 {
			b.Choices = nil
		}
		return b
	case conversation.RuntimeStatus:
		b.Until, b.NotBefore = stampOrZero(b.Until), stampOrZero(b.NotBefore)
		return b
	case conversation.CoverageNudge:
		if len(b.Questions) == 0 {
			b.Questions = nil
		}
		return b
	case conversation.ToolFinished:
		b.Took = b.Took.Truncate(time.Millisecond)
		return b
	case conversation.DelegationFinished:
		b.Took = b.Took.Truncate(time.Millisecond)
		return b
	default:
		return body
	}
}

func stampOrZero(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return conversation.Stamp(t)
}

// Sanitize makes the texts of models and tools valid UTF-8, because the store and
// the screens can show nothing else. It gives each call of an answer an id of its
// own, because the result is paired with the call by that id.
func Sanitize(c conversation.Command) conversation.Command {
	valid := func(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
	switch c := c.(type) {
	case conversation.ModelAnswered:
		items := make([]conversation.Item, len(c.Answer.Items))
		for i, item := range c.Answer.Items {
			item.Text, item.Args, item.Tool, item.ID = valid(item.Text), valid(item.Args), valid(item.Tool), valid(item.ID)
			same := func(other conversation.Item) bool { return other.Kind == conversation.ItemCall && other.ID == item.ID }
			for n := i; item.Kind == conversation.ItemCall && (item.ID == "" || slices.ContainsFunc(items[:i], same)); n++ {
				item.ID = fmt.Sprintf("call-%d-%d", c.Step, n)
			}
			items[i] = item
		}
		c.Answer.Items = items
		return c
	case conversation.ToolDone:
		c.Result = valid(c.Result)
		return c
	case conversation.ToolAsks:
		c.Text = valid(c.Text)
		var choices []string
		for _, choice := range c.Choices {
			if !conversation.IsBlank(choice) {
				choices = append(choices, valid(choice))
			}
		}
		c.Choices = choices
		return c
	case conversation.DelegationDone:
		c.Summary = valid(c.Summary)
		return c
	case conversation.ModelFailed:
		c.Failure.Message = valid(c.Failure.Message)
		return c
	default:
		return dedup.AsStored(c)
	}
}
