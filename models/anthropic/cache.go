package anthropic

import "parley/conversation"

// cacheMark on a block asks the provider to keep what it has read up to the block's end.
// For the next request that begins with the same bytes that costs a tenth.
type cacheMark struct {
	Type string `json:"type"`
	TTL  string `json:"ttl,omitempty"`
}

// mark puts the marks of a request, four at most, which is what the API takes: behind
// the tools, behind the prompt, behind what the last request showed, and behind all that
// the next one will show again. The API looks for what was kept at most 20 blocks before a
// mark: the third one finds it even when a step has added more than that.
//
// What is kept anew costs a quarter more, so there is no mark where nobody comes back: a
// summary or a report of triage is asked for beside the steps, and the messages of a
// wrap-up, or of a step whose answer must be calls, are kept apart from those of other
// steps, because its tool_choice or its tools are others.
func (q *request) mark(r *conversation.Request, c *cacheMark) {
	if r.Step == 0 {
		return
	}
	if n := len(q.Tools); n > 0 {
		q.Tools[n-1].Cache = c
	}
	if n := len(q.System); n > 0 {
		q.System[n-1].Cache = c
	}
	if r.WrapUp || r.MustCall {
		return
	}
	last := len(q.Messages) - 1
	answer := last // the model's last one
	for answer > 0 && q.Messages[answer].Role == roleUser {
		answer--
	}
	q.markAt(answer-1, 0, c)
	q.markAt(last, passing(r, q.Messages), c)
}

// passing is the number of blocks at the end of a request that the next one will not show.
func passing(r *conversation.Request, list []*turn) int {
	n := len(r.Last)
	if r.Note != "" {
		n++
	}
	if last := list[len(list)-1].Content; n == 0 && (last[0] == any(textOf(continueText)) || last[0] == any(textOf(emptyText))) {
		n++
	}
	return n
}

// markAt marks the last block of a turn, without so many at its end, or else of those
// before it. The API takes no mark on thinking, nor on a block inside of a result.
func (q *request) markAt(i, without int, c *cacheMark) {
	for ; i >= 0; i-- {
		blocks := q.Messages[i].Content
		for k := len(blocks) - 1 - without; k >= 0; k-- {
			switch b := blocks[k].(type) {
			case textBlock:
				b.Cache = c
				blocks[k] = b
			case imageBlock:
				b.Cache = c
				blocks[k] = b
			case callBlock:
				b.Cache = c
				blocks[k] = b
			case resultBlock:
				b.Cache = c
				blocks[k] = b
			default:
				continue
			}
			return
		}
		without = max(0, without-len(blocks))
	}
}
