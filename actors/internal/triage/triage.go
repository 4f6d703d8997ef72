package triage

import (
	"fmt"
	"slices"
	"strings"
	"unicode"

	"parley/actors/internal/observe"
	"parley/conversation"
	"parley/metrics"
)

// Request asks the agent of an effect, whose prompt is given.
func Request(key conversation.SessionKey, f conversation.Triage, prompt string) conversation.Request {
	return conversation.Request{
		Session: key.Session, Agent: f.Agent, System: prompt, Entries: []conversation.Entry{{Role: conversation.RoleUser, Text: Ask(f.Waiting)}},
	}
}

// Ask is what the agent is told: which messages wait, and how it is to answer.
func Ask(waiting []conversation.InboxView) string {
	var list strings.Builder
	list.WriteString("These messages wait. Answer in the first line with their numbers in the order in which they should be worked on, and nothing else there. " +
		"If some depend on others, overlap or contradict each other, say so below, by their numbers, in a sentence or two; else say nothing more.\n")
	for i, m := range waiting {
		fmt.Fprintf(&list, "%d. %s\n", i+1, m.Excerpt)
	}
	return list.String()
}

// Read reads an answer: the order, as indexes of the messages that it was asked
// about, and the report, with the numbers that stand for messages in it explained.
func Read(answer conversation.ModelAnswer, waiting []conversation.InboxView) (order []int, report string) {
	var lines []string
	for _, item := range answer.Items {
		if item.Kind == conversation.ItemText {
			lines = append(lines, strings.Split(strings.ToValidUTF8(item.Text, "\uFFFD"), "\n")...)
		}
	}
	for len(lines) > 0 && len(order) == 0 {
		order, lines = ordinals(lines[0], len(waiting)), lines[1:]
	}
	said := strings.TrimSpace(strings.Join(lines, "\n"))
	if said == "" {
		return order, ""
	}
	var numbers strings.Builder
	for i, m := range waiting {
		if slices.Contains(ordinals(said, len(waiting)), i) {
			fmt.Fprintf(&numbers, "%d is %q, ", i+1, conversation.Excerpt(m.Excerpt, excerpt))
		}
	}
	if numbers.Len() == 0 {
		return order, said
	}
	return order, strings.TrimSuffix(numbers.String(), ", ") + ". " + said
}

// AllWait is true while each message that was asked about is among those that wait: of
// one that was read or taken back a report comes too late.
func AllWait(asked, waiting []conversation.InboxView) bool {
	return !slices.ContainsFunc(asked, func(a conversation.InboxView) bool {
		return !slices.ContainsFunc(waiting, func(w conversation.InboxView) bool { return w.Message == a.Message })
	})
}

// excerpt bounds how a report quotes a message, in code points.
const excerpt = 30

// ordinals reads the numbers 1…n of a text, each once, as indexes.
func ordinals(text string, n int) []int {
	var order []int
	for _, word := range strings.FieldsFunc(text, func(r rune) bool { return !unicode.IsDigit(r) }) {
		var i int
		if _, err := fmt.Sscan(word, &i); err == nil && i >= 1 && i <= n && !slices.Contains(order, i-1) {
			order = append(order, i-1)
		}
	}
	return order
}

// Spent counts what a question has cost, and tells how it has ended: ok or failed.
func Spent(model *metrics.Model, tenant conversation.TenantID, answer *conversation.ModelAnswer, err error) (outcome string) {
	if answer == nil {
		observe.Failed(model, string(tenant), err)
		return "failed"
	}
	observe.Tokens(model, string(tenant), answer.Usage)
	return "ok"
}
