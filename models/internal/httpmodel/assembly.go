package httpmodel

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"strings"

	"parley/conversation"
)

// Assembly is an answer that is put together, from frames or from a whole body.
// An adapter's own embeds it.
type Assembly struct {
	ID     string // the provider's, of the answer
	Origin string // Client.Origin
	Items  []conversation.Item

	request *conversation.Request
	names   *Names
	show    func(conversation.Output) error // nil = no deltas are wanted
}

// NewAssembly begins the answer to a request. show may be nil.
func NewAssembly(r *conversation.Request, n *Names, show func(conversation.Output) error) Assembly {
	return Assembly{request: r, names: n, show: show}
}

// Text takes more text of an item and shows it.
func (a *Assembly) Text(i int, delta string) error {
	if delta == "" {
		return nil
	}
	item := &a.Items[i]
	item.Text += delta
	if a.show == nil {
		return nil
	}
	item.Streamed = true
	return a.show(conversation.Output{Item: i, Delta: delta})
}

// KeepAlive says that the provider works on something that is not shown.
func (a *Assembly) KeepAlive() error {
	if a.show == nil {
		return nil
	}
	return a.show(conversation.Output{Item: max(0, len(a.Items)-1)})
}

// Pack makes an item's Opaque of what its provider wants back before it.
func Pack[T any](list []T) string {
	if len(list) == 0 {
		return ""
	}
	raw, err := json.Marshal(list)
	if err != nil {
		return "" // not what the provider sent, so it would not be taken back
	}
	return string(raw)
}

// Unpack is what the item's provider wants back before it.
func Unpack[T any](item *conversation.Item) []T {
	var list []T
	_ = json.Unmarshal([]byte(item.Opaque), &list) // "" is none
	return list
}

// StopStreaming shows nothing from now on.
func (a *Assembly) StopStreaming() { a.show = nil }

// Answer is the whole answer. Its calls have the engine's names, arguments, and
// ids: the provider's, or one that begins with prefix. Without usage it is estimated.
func (a *Assembly) Answer(prefix string, usage *conversation.Usage) *conversation.ModelAnswer {
	var used map[string]bool
	for i := range a.Items {
		item := &a.Items[i]
		if item.Opaque != "" {
			item.OpaqueBy = a.Origin
		}
		if item.Kind != conversation.ItemCall {
			continue
		}
		if used == nil {
			used = usedIDs(a.request)
		}
		item.Tool = a.names.FromProvider(item.Tool)
		if strings.TrimSpace(item.Args) == "" {
			item.Args = "{}"
		}
		// Results are paired by the id, in the whole conversation: some local
		// servers give none, or begin with call_0 in each answer.
		if item.ID == "" || used[item.ID] {
			item.ID = newCallID(prefix)
		}
		used[item.ID] = true
	}
	answer := &conversation.ModelAnswer{ResponseID: a.ID, Items: a.Items}
	if usage != nil {
		answer.Usage = *usage
	} else {
		answer.Usage = estimate(a.request, a.Items)
	}
	return answer
}

func usedIDs(r *conversation.Request) map[string]bool {
	used := map[string]bool{}
	for i := range r.Entries {
		for k := range r.Entries[i].Items {
			used[r.Entries[i].Items[k].ID] = true
		}
	}
	return used
}

func newCallID(prefix string) string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
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
