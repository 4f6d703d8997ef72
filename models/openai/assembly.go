package openai

import (
	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// assembly puts one answer together, from frames or from a whole body.
type assembly struct {
	httpmodel.Assembly
	at       map[position]int // where an item of the provider's stands in Items
	usage    *conversation.Usage
	reason   string
	finished bool // the terminal frame came
}

func newAssembly(n *httpmodel.Names, r *conversation.Request, show func(conversation.Output) error) *assembly {
	return &assembly{Assembly: httpmodel.NewAssembly(r, n, show), at: map[position]int{}}
}

// item returns the item of a position; a new one is appended.
func (a *assembly) item(at position, kind conversation.ItemKind) (int, *conversation.Item) {
	i, known := a.at[at]
	if !known {
		i = len(a.Items)
		a.at[at] = i
		a.Items = append(a.Items, conversation.Item{Kind: kind})
	}
	return i, &a.Items[i]
}

// text adds to the text of an item and shows it.
func (a *assembly) text(at position, id, delta string) error {
	i, item := a.item(at, conversation.ItemText)
	if item.ID == "" {
		item.ID = id
	}
	return a.Text(i, delta)
}

// readBody reads a whole body. Its items replace those that were streamed.
func (a *assembly) readBody(raw []byte) error {
	if truncatedJSON(raw) {
		return httpmodel.ErrCut
	}
	return a.merge(ParseBody(raw))
}

func (a *assembly) merge(b Body) error {
	if b.err != nil {
		return b.err
	}
	a.finished = true
	if b.ID != "" {
		a.ID = b.ID
	}
	if b.Usage != nil {
		a.usage = b.Usage
	}
	a.reason = b.reason
	for i, newItem := range b.Items {
		if b.positions[i].output == positionOfFallback && len(a.Items) > 0 {
			continue // a copy of the streamed text, for convenience
		}
		_, item := a.item(b.positions[i], newItem.Kind)
		newItem.Streamed = item.Streamed
		*item = newItem
	}
	return nil
}

// answer returns the whole answer.
func (a *assembly) answer() (*conversation.ModelAnswer, error) {
	if a.reason == "error" || len(a.Items) == 0 && a.reason == "content_filter" {
		return nil, errOfFinish(a.reason)
	}
	answer := a.Answer("call_", a.usage)
	switch a.reason {
	case "length", "max_output_tokens":
		answer.Stop = conversation.StopLength
	case "content_filter":
		answer.Stop = conversation.StopFiltered
	}
	return answer, nil
}
