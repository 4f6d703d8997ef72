package openai

import (
	"encoding/json"

	"parley/conversation"
	"parley/models/internal/httpmodel"
)

// assembly puts one answer together, from frames or from a whole body.
type assembly struct {
	httpmodel.Assembly
	at       map[position]int // where an item of the provider's stands in Items
	usage    *conversation.Usage
	reason   string
	refused  bool // its words are those of a refusal
	finished bool // the terminal frame came

	// Of Chat Completions: what is kept unread, and the last call that began.
	message  members
	calls    map[int]*keptCall // by the place in Items
	keepLeft int
	lastCall int // -1 = none
}

type keptCall struct{ call, function members }

func newAssembly(n *httpmodel.Names, r *conversation.Request, show func(conversation.Output) error) *assembly {
	return &assembly{
		Assembly: httpmodel.NewAssembly(r, n, show), at: map[position]int{},
		calls: map[int]*keptCall{}, keepLeft: maxKept, lastCall: -1,
	}
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

// text adds a piece to the text of an item and shows it.
func (a *assembly) text(at position, id string, piece json.RawMessage) error {
	i, item := a.item(at, conversation.ItemText)
	if item.ID == "" {
		item.ID = id
	}
	return a.TextPiece(i, piece)
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
	a.reason, a.refused = b.reason, a.refused || b.refused
	for i, newItem := range b.Items {
		if b.positions[i].output == positionOfFallback && len(a.Items) > 0 {
			continue // a copy of the streamed text, for convenience
		}
		at, item := a.item(b.positions[i], newItem.Kind)
		if err := a.EndPieces(at); err != nil {
			return err
		}
		newItem.Streamed = item.Streamed
		*item = newItem
	}
	return nil
}

// answer returns the whole answer.
func (a *assembly) answer() (*conversation.ModelAnswer, error) {
	stop, err := stopOf(a.reason, len(a.Items) > 0)
	if err != nil {
		return nil, err
	}
	if stop == 0 && a.refused {
		stop = conversation.StopRefused
	}
	for i, c := range a.calls {
		kept{Call: c.call.raw(), Function: c.function.raw()}.put(&a.Items[i])
	}
	if message := a.message.raw(); message != nil {
		keepMessage(a.Items, message)
	}
	answer, err := a.Answer("call_", a.usage)
	if err != nil {
		return nil, err
	}
	answer.Stop = stop
	return answer, nil
}
