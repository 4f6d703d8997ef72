package conversation

// Tokens estimates how many tokens a text is: a token for each four bytes, which
// is about what English and code take, and at least one for each word, because
// no vocabulary has a token for two. It is meant to be cheap and steady, not
// exact; a provider's own count comes with its answer.
func Tokens(text string) int { return max((len(text)+BytesPerToken-1)/BytesPerToken, wordsIn(text)) }

const (
	// BytesPerToken is the number of bytes of a text that count as one token.
	BytesPerToken = 4
	// EntryTokens are added by a provider's format to an entry, an item or a tool.
	EntryTokens = 4
)

func wordsIn(text string) int {
	n, inside := 0, false
	for i := range len(text) {
		space := text[i] == ' ' || text[i] >= '\t' && text[i] <= '\r'
		if !space && !inside {
			n++
		}
		inside = !space
	}
	return n
}

// Tokens estimates the entry.
func (e *Entry) Tokens() int {
	n := EntryTokens
	if e.Text != "" {
		n += Tokens(e.Text)
	}
	for i := range e.Items {
		item := &e.Items[i]
		n += Tokens(item.Text) + Tokens(item.Opaque)
		if item.Kind == ItemCall {
			n += EntryTokens + Tokens(item.Tool) + Tokens(item.Args)
		}
	}
	return n
}

// Tokens estimates everything that the request shows: the system prompt, the
// tools, the transcript and the generated entries.
func (r *Request) Tokens() int {
	n := Tokens(r.System) + ToolTokens(r.Tools) + ToolTokens(r.Forbidden)
	for i := range r.Entries {
		n += r.Entries[i].Tokens()
	}
	return n + EntriesTokens(r.Last) + Tokens(r.Note)
}

// EntriesTokens estimates several entries.
func EntriesTokens(entries []Entry) int {
	n := 0
	for i := range entries {
		n += entries[i].Tokens()
	}
	return n
}

// ToolTokens estimates the descriptions of tools.
func ToolTokens(tools []ToolSpec) int {
	n := 0
	for i := range tools {
		n += EntryTokens + Tokens(tools[i].Name) + Tokens(tools[i].Description) + Tokens(string(tools[i].Schema))
	}
	return n
}
