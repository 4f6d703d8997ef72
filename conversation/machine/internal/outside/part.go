package outside

import (
	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// Gap refuses a part beyond the next one of its source.
// Rule 9.11b.
func Gap(c conversation.AddPart, next conversation.PartIndex) *conversation.Error {
	refusal := conversation.Errorf(conversation.Conflict, "the next part of %s has the index %d, not %d", c.Source, next, c.Index)
	refusal.NextPart = &next
	return refusal
}

// PartBefore is the key of the part that a part follows whose source is kept apart: the
// session remembers nothing of such a source, so the store must be asked for the next
// free index. nil: the command is another one, or the first part of its source.
// Rule 9.12, M-16.
func PartBefore(st *state.State, c conversation.Command) *conversation.Key {
	part, ok := c.(conversation.AddPart)
	if !ok || part.Source == "" || part.Index == 0 || Own(st, part.Source) {
		return nil
	}
	return &conversation.Key{Source: state.KeptApart(part.Source), Part: part.Index - 1}
}

// Apart is a part that belongs to no message: the next one of its source, as the hint of
// the store says, or a plain message.
// Rule 9.12, M-16.
func Apart(st *state.State, c conversation.AddPart) (conversation.Part, *conversation.Error) {
	part := conversation.Part{Message: st.PartID(st.Parts + 1), Text: c.Text}
	switch {
	case c.Source != "" && c.Index > c.NextFree:
		return part, Gap(c, c.NextFree)
	case c.Source != "":
		part.Source, part.Index = state.KeptApart(c.Source), c.Index
	case c.ClientMsgID != "":
		part.ClientMsgID, part.Author = c.ClientMsgID, c.Author // the author is kept for the key's sake alone
	}
	return part, nil
}
