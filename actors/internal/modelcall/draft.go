package modelcall

import (
	"slices"
	"unicode/utf8"

	"parley/conversation"
)

// maxItems bounds what a broken adapter can make us keep.
const maxItems = 1024

// drafts is the streamed text of one call, by item of its answer.
type drafts struct {
	ask   conversation.AskModel
	items []*draft
}

// draft is the text of one item.
type draft struct {
	text     []byte
	shown    int  // bytes
	runes    int  // shown code points
	released bool // it is no sentinel any more
}

// add appends text to an item; false when there is nothing to add.
func (d *drafts) add(item int, text string) bool {
	if text == "" || item < 0 || item > maxItems {
		return false
	}
	for len(d.items) <= item {
		d.items = append(d.items, &draft{})
	}
	d.items[item].text = append(d.items[item].text, text...)
	return true
}

// show hands the text that was not shown yet to emit: whole characters only, and
// none of an item that is held back.
func (d *drafts) show(heldBack func(text string) bool, emit func(conversation.Delta)) {
	for i, item := range d.items {
		if !item.released && heldBack(string(item.text)) {
			continue
		}
		item.released = true
		end := wholeRunes(item.text)
		if end == item.shown {
			continue
		}
		text := string(item.text[item.shown:end])
		emit(conversation.Delta{Task: d.ask.Task, Draft: d.id(i), At: item.runes, Text: text})
		item.shown = end
		item.runes += utf8.RuneCountInString(text)
	}
}

func (d *drafts) id(item int) conversation.DraftID {
	return conversation.Draft(d.ask.Step, d.ask.Attempt, item)
}

// shown names the drafts of which something was shown.
func (d *drafts) shown() []conversation.DraftDropped {
	var ids []conversation.DraftDropped
	for i, item := range d.items {
		if item.shown > 0 {
			ids = append(ids, conversation.DraftDropped{Task: d.ask.Task, Draft: d.id(i)})
		}
	}
	return ids
}

// views are the drafts as far as they were shown.
func (d *drafts) views() []conversation.DraftView {
	var views []conversation.DraftView
	for i, item := range d.items {
		if item.shown > 0 {
			views = append(views, conversation.DraftView{Task: d.ask.Task, Draft: d.id(i), Text: string(item.text[:item.shown])})
		}
	}
	return views
}

// wholeRunes is the length of text without an incomplete character at its end, in
// bytes.
func wholeRunes(text []byte) int {
	for i := len(text) - 1; i >= 0 && i >= len(text)-utf8.UTFMax; i-- {
		if utf8.RuneStart(text[i]) {
			if utf8.FullRune(text[i:]) {
				return len(text)
			}
			return i
		}
	}
	return len(text)
}

// WithoutPart leaves of drafts those that no part among events takes the place of.
func WithoutPart(drafts []conversation.DraftDropped, events []conversation.Event) []conversation.DraftDropped {
	if len(drafts) == 0 {
		return nil
	}
	return slices.DeleteFunc(drafts, func(d conversation.DraftDropped) bool {
		return slices.ContainsFunc(events, func(e conversation.Event) bool {
			switch b := e.Body.(type) {
			case conversation.PartialResponse:
				return b.Draft == d.Draft
			case conversation.Response:
				return b.Draft == d.Draft
			default:
				return false
			}
		})
	})
}
