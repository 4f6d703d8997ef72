package command

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"parley/conversation"
)

// items gathers the items of one answer from the blocks of text that an agent
// writes. A block is one text, unless lines of it begin with the ask marker.
type items struct {
	marker string // "" = none
	marked bool   // the prompt's guard puts marks behind an "@", which the program may repeat
	limit  int    // code points of an item
	step   conversation.StepNumber

	list   []conversation.Item
	asked  int
	open   *draft                // the block that streams
	deltas []conversation.Output // to be shown
}

// draft is a block that is not complete yet.
type draft struct {
	raw   strings.Builder // up to a little more than the limit
	count int             // its code points so far
	shown string
}

// delta adds text to the block that streams.
func (a *items) delta(text string) {
	d := a.draft()
	if d.count <= a.limit { // the rest is cut off
		d.raw.WriteString(text)
		a.replaceBlock(d.raw.String())
	}
}

// replaceBlock replaces the block that streams by its text so far.
func (a *items) replaceBlock(text string) {
	if d := a.draft(); d.count <= a.limit {
		d.count = utf8.RuneCountInString(text)
		a.show(a.settledText(text))
	}
}

func (a *items) draft() *draft {
	if a.open == nil {
		a.open = &draft{}
	}
	return a.open
}

// settledText returns the part of an unfinished block that cannot be cut off any more
// and cannot become a question.
func (a *items) settledText(raw string) string {
	raw = a.unmarked(raw)
	if a.marker != "" {
		if marked := a.markedLines(raw); len(marked) > 0 {
			raw = raw[:marked[0]]
		}
		last := strings.LastIndexByte(raw, '\n') + 1
		if strings.HasPrefix(a.marker, raw[last:]) {
			raw = raw[:last]
		}
	}
	text := clean(raw)
	if utf8.RuneCountInString(text) > a.limit-utf8.RuneCountInString(cutMark) {
		text = text[:prefixWithin(text, a.limit)]
	}
	return text
}

// unmarked is what a program writes without the marks that the guard has put into its prompt:
// they are no part of any text. Of a text that is not complete it is a beginning of the whole.
func (a *items) unmarked(text string) string {
	if !a.marked {
		return text
	}
	return withoutMarks(text)
}

// show queues the part of the next item's text that has not been shown.
func (a *items) show(text string) {
	d := a.draft()
	if len(text) <= len(d.shown) || !strings.HasPrefix(text, d.shown) {
		return
	}
	a.deltas = append(a.deltas, conversation.Output{Item: len(a.list), Delta: text[len(d.shown):]})
	d.shown = text
}

// block adds a complete block: the one that streams, if any. cut = its end is lost.
func (a *items) block(text string, cut bool) {
	text = clean(a.unmarked(text))
	starts := append(a.questions(text), len(text))
	if said := clean(text[:starts[0]]); said != "" || cut && len(starts) == 1 {
		said = truncate(said, a.limit, cut && len(starts) == 1)
		a.show(said)
		a.list = append(a.list, conversation.Item{Kind: conversation.ItemText, Text: said})
	}
	a.open = nil
	for i, start := range starts[:len(starts)-1] {
		a.asked++
		question := strings.TrimSpace(text[start+len(a.marker) : starts[i+1]])
		question = truncate(question, a.limit, cut && i == len(starts)-2)
		args, _ := json.Marshal(map[string]any{"question": question, "blocking": true}) // a string and a bool: it cannot fail
		a.list = append(a.list, conversation.Item{
			Kind: conversation.ItemCall, ID: fmt.Sprintf("ask%d.%d", a.step, a.asked), Tool: conversation.ToolAsk, Args: string(args),
		})
	}
}

// markedLines returns the places of the lines that begin with the marker.
func (a *items) markedLines(text string) []int {
	if a.marker == "" {
		return nil
	}
	var marked []int
	for at := 0; at <= len(text); {
		if strings.HasPrefix(text[at:], a.marker) {
			marked = append(marked, at)
		}
		next := strings.IndexByte(text[at:], '\n')
		if next < 0 {
			break
		}
		at += next + 1
	}
	return marked
}

// questions returns those marked lines that ask something. A question goes on to the
// next marked line, or to the end.
func (a *items) questions(text string) []int {
	marked := a.markedLines(text)
	var starts []int
	for i, at := range marked {
		end := len(text)
		if i+1 < len(marked) {
			end = marked[i+1]
		}
		if strings.TrimSpace(text[at+len(a.marker):end]) != "" {
			starts = append(starts, at)
		}
	}
	return starts
}

// takeDeltas returns the deltas to be shown, and forgets them.
func (a *items) takeDeltas() []conversation.Output {
	news := a.deltas
	a.deltas = nil
	return news
}
