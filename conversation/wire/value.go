package wire

import (
	"encoding/json"
	"maps"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/protowire"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/attached"
)

// These values are part of several events.

// overrides writes a removed override as "", which is not JSON.
func (w *writer) overrides(field protowire.Number, o conversation.Overrides) {
	for _, key := range slices.Sorted(maps.Keys(o)) {
		at := w.begin(field)
		w.optionalText(1, key)
		w.optionalText(2, string(o[key]))
		w.end(at)
	}
}

// overrides reads one entry of the map.
func (r *reader) overrides(into *conversation.Overrides) {
	in, ok := r.message()
	if !ok {
		return
	}
	var key, value string
	for in.next() {
		switch in.number {
		case 1:
			text(&in, &key)
		case 2:
			text(&in, &value)
		}
	}
	if *into == nil {
		*into = conversation.Overrides{}
	}
	if value == "" {
		(*into)[key] = nil
	} else {
		(*into)[key] = json.RawMessage(value)
	}
}

func (w *writer) members(field protowire.Number, m map[conversation.UserID]access.Role) {
	for _, user := range slices.Sorted(maps.Keys(m)) {
		at := w.begin(field)
		w.optionalText(1, string(user))
		w.optionalUint(2, uint64(m[user]))
		w.end(at)
	}
}

// members reads one entry of the map.
func (r *reader) members(into *map[conversation.UserID]access.Role) {
	in, ok := r.message()
	if !ok {
		return
	}
	var user conversation.UserID
	var role uint32
	for in.next() {
		switch in.number {
		case 1:
			text(&in, &user)
		case 2:
			unsigned(&in, &role)
		}
	}
	if *into == nil {
		*into = map[conversation.UserID]access.Role{}
	}
	(*into)[user] = access.Role(min(role, math.MaxUint8))
	if role > uint32(access.Owner) || r.refused != nil { // of a user that comes twice the second role counts
		r.accept()
		for _, role := range *into {
			if role > access.Owner {
				r.refuse("%w: a member's role", conversation.ErrTooNew)
			}
		}
	}
}

func (w *writer) failure(field protowire.Number, f *conversation.Failure) {
	if f == nil {
		return
	}
	at := w.begin(field)
	w.text(1, string(f.Code))
	w.text(2, f.Message)
	w.end(at)
}

func (r *reader) failure(into **conversation.Failure) {
	in, ok := r.message()
	if !ok {
		return
	}
	if *into == nil {
		*into = new(conversation.Failure)
	}
	for in.next() {
		switch in.number {
		case 1:
			text(&in, &(*into).Code)
		case 2:
			text(&in, &(*into).Message)
		}
	}
}

func (w *writer) usage(field protowire.Number, u conversation.Usage) {
	at := w.begin(field)
	w.int(1, int64(u.InputTokens))
	w.int(2, int64(u.OutputTokens))
	w.bool(3, u.Estimated)
	w.int(4, int64(u.CachedTokens))
	w.end(at)
}

func (r *reader) usage(into *conversation.Usage) {
	in, _ := r.message()
	for in.next() {
		switch in.number {
		case 1:
			integer(&in, &into.InputTokens)
		case 2:
			integer(&in, &into.OutputTokens)
		case 3:
			boolean(&in, &into.Estimated)
		case 4:
			integer(&in, &into.CachedTokens)
		}
	}
}

func (w *writer) items(field protowire.Number, items []conversation.Item) {
	for i := range items {
		item := &items[i]
		at := w.begin(field)
		w.uint(1, uint64(item.Kind))
		w.text(2, item.ID)
		w.text(3, item.Text)
		w.text(4, item.Tool)
		w.text(5, item.Args)
		w.bool(6, item.Streamed)
		w.bytes(7, item.Opaque)
		w.text(8, item.OpaqueBy)
		w.bool(9, item.OpaqueStays)
		w.end(at)
	}
}

// items reads one of them.
func (r *reader) items(into *[]conversation.Item) {
	in, ok := r.message()
	if !ok {
		return
	}
	var item conversation.Item
	for in.next() {
		switch in.number {
		case 1:
			enum(&in, &item.Kind, conversation.ItemCall)
		case 2:
			text(&in, &item.ID)
		case 3:
			text(&in, &item.Text)
		case 4:
			text(&in, &item.Tool)
		case 5:
			text(&in, &item.Args)
		case 6:
			boolean(&in, &item.Streamed)
		case 7:
			opaque(&in, &item.Opaque)
		case 8:
			text(&in, &item.OpaqueBy)
		case 9:
			boolean(&in, &item.OpaqueStays)
		}
	}
	if err := in.end(); err != nil {
		r.refuse("%w", err)
	}
	*into = append(*into, item)
}

func (w *writer) results(field protowire.Number, results []conversation.CallResult) {
	for i := range results {
		at := w.begin(field)
		w.text(1, results[i].ID)
		w.text(2, results[i].Text)
		w.end(at)
	}
}

// results reads one of them.
func (r *reader) results(into *[]conversation.CallResult) {
	in, ok := r.message()
	if !ok {
		return
	}
	var result conversation.CallResult
	for in.next() {
		switch in.number {
		case 1:
			text(&in, &result.ID)
		case 2:
			text(&in, &result.Text)
		}
	}
	*into = append(*into, result)
}

// files are what is attached to a message.
func (w *writer) files(field protowire.Number, files []attached.File) {
	for _, f := range files {
		at := w.begin(field)
		w.text(1, string(f.Hash))
		w.text(2, f.Name)
		w.text(3, f.Type)
		w.uint(4, uint64(f.Size))
		w.end(at)
	}
}

// files reads one of them.
func (r *reader) files(into *[]attached.File) {
	in, ok := r.message()
	if !ok {
		return
	}
	var (
		f    attached.File
		size uint64
	)
	for in.next() {
		switch in.number {
		case 1:
			text(&in, &f.Hash)
		case 2:
			text(&in, &f.Name)
		case 3:
			text(&in, &f.Type)
		case 4:
			unsigned(&in, &size)
		}
	}
	f.Size = int64(size)
	*into = append(*into, f)
}
