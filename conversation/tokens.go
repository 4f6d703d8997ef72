package conversation

import (
	"parley/conversation/attached"
	"parley/conversation/tokens"
)

// Counts are what entries of a transcript come to. The engine counts each entry once, when
// it is made: nobody needs to read a whole conversation for each call of a model.
type Counts struct {
	Tokens int // as Tokens estimates them
	Words  int // of texts and arguments, by the spaces between them
}

// Counts counts the entry.
func (e *Entry) Counts() Counts {
	n := Counts{e.Tokens(), tokens.Words(e.Text)}
	for i := range e.Items {
		n.Words += tokens.Words(e.Items[i].Text) + tokens.Words(e.Items[i].Args)
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
	n := tokens.PerEntry + e.FileTokens
	if e.Text != "" {
		n += tokens.Of(e.Text)
	}
	for i := range e.Items {
		item := &e.Items[i]
		n += tokens.Of(item.Text) + tokens.Of(item.Opaque)
		if item.Kind == ItemCall {
			n += tokens.PerEntry + tokens.Of(item.Tool) + tokens.Of(item.Args)
		}
	}
	return n
}

// FileTokens estimates files as a model is given them that is shown so many bytes of the text
// of each. A picture counts the same for each model, also for one that cannot see it.
func FileTokens(files []attached.File, text int) int {
	n := 0
	for _, f := range files {
		n += 2*tokens.PerEntry + tokens.Of(f.Line(""))
		switch {
		case f.Image():
			n += tokens.PerPicture
		case f.Text():
			n += int(min(f.Size, int64(text))+tokens.BytesEach-1) / tokens.BytesEach
		}
	}
	return n
}

// Tokens estimates everything that the request shows: the system prompt, the
// tools, the transcript and the generated entries.
func (r *Request) Tokens() int {
	n := tokens.Of(r.System) + ToolTokens(r.Tools) + ToolTokens(r.Forbidden)
	return n + r.EntryCounts().Tokens + EntriesTokens(r.Last) + tokens.Of(r.Note)
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
		n += tokens.PerEntry + tokens.Of(tools[i].Name) + tokens.Of(tools[i].Description) + tokens.Of(string(tools[i].Schema))
	}
	return n
}
