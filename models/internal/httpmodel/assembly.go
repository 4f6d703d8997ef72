package httpmodel

import (
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"parley/conversation"
)

// Assembly puts one answer together, from frames or from a whole body. An adapter's
// own type embeds it. It belongs to one call and one goroutine.
type Assembly struct {
	ID     string // the provider's, of the answer
	Origin string // Client.Origin
	Items  []conversation.Item

	request *conversation.Request
	names   *Names
	show    func(conversation.Output) error // nil = no deltas are wanted
	pieces  []Pieces                        // of the item in the same place
}

// NewAssembly begins the answer to a request. show is Call.Show, or nil if no deltas
// are wanted.
func NewAssembly(r *conversation.Request, n *Names, show func(conversation.Output) error) Assembly {
	return Assembly{request: r, names: n, show: show}
}

// Text adds delta to the text of item i and shows it. An error is show's.
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

// TextPiece adds a piece, which is a JSON string, to the text of item i and shows it.
func (a *Assembly) TextPiece(i int, raw json.RawMessage) error {
	return a.Text(i, a.piece(i).Next(raw))
}

// ArgsPiece adds a piece, which is a JSON string, to the arguments of item i.
func (a *Assembly) ArgsPiece(i int, raw json.RawMessage) { a.Items[i].Args += a.piece(i).Next(raw) }

// MayBeName reports whether a tool of the request has a name, in the provider's
// spelling, that begins so.
func (a *Assembly) MayBeName(beginning string) bool {
	return slices.ContainsFunc(a.request.Tools, func(t conversation.ToolSpec) bool {
		return strings.HasPrefix(a.names.ToProvider(t.Name), beginning)
	})
}

// EndPieces says that no more pieces of item i come.
func (a *Assembly) EndPieces(i int) error {
	if i >= len(a.pieces) {
		return nil
	}
	rest := a.pieces[i].Rest()
	if a.Items[i].Kind == conversation.ItemCall {
		a.Items[i].Args += rest
		return nil
	}
	return a.Text(i, rest)
}

func (a *Assembly) piece(i int) *Pieces {
	for len(a.pieces) <= i {
		a.pieces = append(a.pieces, Pieces{})
	}
	return &a.pieces[i]
}

// KeepAlive gives a sign of life: the provider works on something that is not shown.
func (a *Assembly) KeepAlive() error {
	if a.show == nil {
		return nil
	}
	return a.show(conversation.Output{Item: max(0, len(a.Items)-1)})
}

// Pack encodes, as an item's Opaque, the things that its provider wants back before
// the item. No things make "".
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

// Unpack decodes an item's Opaque.
func Unpack[T any](item *conversation.Item) []T {
	var list []T
	_ = json.Unmarshal([]byte(item.Opaque), &list) // "" is none
	return list
}

// StopStreaming ends all showing, for an answer that came as a whole body.
func (a *Assembly) StopStreaming() { a.show = nil }

// Answer returns the whole answer. Its calls get the engine's tool names, arguments
// that are never blank, and an id: the provider's, or a new one that begins with
// prefix. usage may be nil: then it is estimated. An error is show's.
func (a *Assembly) Answer(prefix string, usage *conversation.Usage) (*conversation.ModelAnswer, error) {
	var used map[string]bool
	for i := range a.Items {
		if err := a.EndPieces(i); err != nil {
			return nil, err
		}
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
	return answer, nil
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

// estimate guesses the usage for a provider that does not count: four bytes a token.
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
