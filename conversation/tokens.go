package conversation

import "strings"

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

// Counts are what entries of a transcript come to. The engine counts each entry once, when
// it is made: nobody needs to read a whole conversation for each call of a model.
type Counts struct {
	Tokens int // as Tokens estimates them
	Words  int // of texts and arguments, by the spaces between them
}

// Words counts the words of a text by the spaces between them: ten times faster than
// looking for words.
func Words(text string) int {
	if text == "" {
		return 0
	}
	return 1 + strings.Count(text, " ")
}

// Counts counts the entry.
func (e *Entry) Counts() Counts {
	n := Counts{e.Tokens(), Words(e.Text)}
	for i := range e.Items {
		n.Words += Words(e.Items[i].Text) + Words(e.Items[i].Args)
	}
	return n
}

// EntryCounts are those of Entries: Counted, or else they are counted now.
func (r *Request) EntryCounts() Counts {
	n := r.Counted
	for i := 0; i < len(r.Entries) && r.Counted == (Counts{}); i++ {
		one := r.Entries[i].Counts()
		n.Tokens, n.Words = n.Tokens+one.Tokens, n.Words+one.Words
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
	return n + r.EntryCounts().Tokens + EntriesTokens(r.Last) + Tokens(r.Note)
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
