package scripted

import (
	"strings"

	"parley/conversation"
	"parley/conversation/author"
)

// summarise answers a request for a summary of the conversation: the first words
// of each user message, behind what an earlier summary holds. It understands
// nothing, and so it leaves nothing out.
func summarise(r *conversation.Request) (decision, bool) {
	if len(r.Tools) > 0 || len(r.Last) == 0 || !strings.HasPrefix(r.Last[len(r.Last)-1].Text, conversation.SummaryAsk) {
		return decision{}, false
	}
	var b strings.Builder
	b.WriteString(summaryHead)
	for i := range r.Entries {
		e := &r.Entries[i]
		if e.Role != conversation.RoleUser {
			continue
		}
		if e.Message == "" {
			if _, list, ok := strings.Cut(e.Text, summaryHead); ok {
				b.WriteString(strings.TrimSuffix(list, "]"))
			}
			continue
		}
		who, text := "", e.Text
		if r.Named {
			who, text = author.Cut(e.Text)
		}
		b.WriteString("\n- " + strings.TrimSpace(who+" "+firstWords(text)))
	}
	return decision{items: []conversation.Item{{Kind: conversation.ItemText, ID: "summary", Text: b.String()}}}, true
}

const summaryHead = "The user said:"

// summaryWords is the number of a message's words that are quoted.
const summaryWords = 6

func firstWords(text string) string {
	words := strings.Fields(text)
	if len(words) > summaryWords {
		return strings.Join(words[:summaryWords], " ") + " …"
	}
	return strings.Join(words, " ")
}
