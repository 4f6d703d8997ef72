package openai

import (
	"crypto/rand"
	"encoding/hex"
	"strings"

	"parley/conversation"
)

// assembly puts one answer together, from frames or from a whole body.
type assembly struct {
	show     func(conversation.Output) error // nil = no deltas are wanted
	names    *names
	request  *conversation.Request
	id       string
	items    []conversation.Item
	at       map[place]int // where an item of the provider's stands in items
	usage    *conversation.Usage
	reason   string
	finished bool // the terminal frame came
}

func newAssembly(n *names, r *conversation.Request, show func(conversation.Output) error) *assembly {
	return &assembly{show: show, names: n, request: r, at: map[place]int{}}
}

// item finds an item, or makes it behind those that came before it.
func (a *assembly) item(at place, kind conversation.ItemKind) (int, *conversation.Item) {
	i, known := a.at[at]
	if !known {
		i = len(a.items)
		a.at[at] = i
		a.items = append(a.items, conversation.Item{Kind: kind})
	}
	return i, &a.items[i]
}

// text takes more text of an item and shows it.
func (a *assembly) text(at place, id, delta string) error {
	i, item := a.item(at, conversation.ItemText)
	if item.ID == "" {
		item.ID = id
	}
	if delta == "" {
		return nil
	}
	item.Text += delta
	if a.show == nil {
		return nil
	}
	item.Streamed = true
	return a.show(conversation.Output{Item: i, Delta: delta})
}

// alive says that the provider works on something that is not shown.
func (a *assembly) alive() error {
	if a.show == nil {
		return nil
	}
	return a.show(conversation.Output{Item: max(0, len(a.items)-1)})
}

// whole takes a body. What it says of an item wins over what was streamed of it.
func (a *assembly) whole(raw []byte) error {
	if cutJSON(raw) {
		return errCut
	}
	return a.take(ParseBody(raw))
}

func (a *assembly) take(b Body) error {
	if b.err != nil {
		return b.err
	}
	a.finished = true
	if b.ID != "" {
		a.id = b.ID
	}
	if b.Usage != nil {
		a.usage = b.Usage
	}
	a.reason = b.reason
	for i, told := range b.Items {
		if b.places[i].output == placeMore && len(a.items) > 0 {
			continue // a convenience copy of what was streamed
		}
		_, item := a.item(b.places[i], told.Kind)
		told.Streamed = item.Streamed
		*item = told
	}
	return nil
}

// answer is the whole answer.
func (a *assembly) answer() (*conversation.ModelAnswer, error) {
	if a.reason == "error" || len(a.items) == 0 && a.reason == "content_filter" {
		return nil, errReason(a.reason)
	}
	used := map[string]bool{}
	if a.hasCalls() {
		for i := range a.request.Entries {
			for k := range a.request.Entries[i].Items {
				used[a.request.Entries[i].Items[k].ID] = true
			}
		}
	}
	for i := range a.items {
		item := &a.items[i]
		if item.Kind != conversation.ItemCall {
			continue
		}
		item.Tool = a.names.ours(item.Tool)
		if strings.TrimSpace(item.Args) == "" {
			item.Args = "{}"
		}
		// Results are paired by the id, in the whole conversation: some local
		// servers give none, or begin with call_0 in each answer.
		if item.ID == "" || used[item.ID] {
			item.ID = newCallID()
		}
		used[item.ID] = true
	}
	answer := &conversation.ModelAnswer{ResponseID: a.id, Items: a.items}
	if a.usage != nil {
		answer.Usage = *a.usage
	} else {
		answer.Usage = estimate(a.request, a.items)
	}
	return answer, nil
}

func (a *assembly) hasCalls() bool {
	for i := range a.items {
		if a.items[i].Kind == conversation.ItemCall {
			return true
		}
	}
	return false
}

func newCallID() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return "call_" + hex.EncodeToString(b[:])
}

// estimate counts for a provider that does not: four bytes are about a token.
func estimate(r *conversation.Request, items []conversation.Item) conversation.Usage {
	size := func(items []conversation.Item) int {
		n := 0
		for i := range items {
			n += len(items[i].Text) + len(items[i].Args)
		}
		return n
	}
	in := len(r.System)
	for i := range r.Entries {
		in += len(r.Entries[i].Text) + size(r.Entries[i].Items)
	}
	return conversation.Usage{InputTokens: (in + 3) / 4, OutputTokens: (size(items) + 3) / 4, Estimated: true}
}
