package state

import (
	"parley/conversation"
	"parley/conversation/access"
)

// Editable finds a message that nothing has read. One that was read or resolved
// is a conflict, one that never was is not found.
// Rule 9.8.
func Editable(st *State, id conversation.MessageID) (*Task, *Message, *conversation.Error) {
	t, m := st.Message(id)
	if m == nil {
		if n := conversation.Ordinal(string(id), 'm'); n > 0 && n <= st.Messages && st.MessageID(n) == id {
			return nil, nil, conversation.Errorf(conversation.Conflict, "the message does not wait any more")
		}
		return nil, nil, conversation.Errorf(conversation.NotFound, "there is no such message in this session")
	}
	if m.Read != 0 {
		return nil, nil, conversation.Errorf(conversation.Conflict, "the message was read already")
	}
	return t, m, nil
}

// Mine lets only its author, or an owner of the session, change a message.
func Mine(st *State, m *Message, by conversation.UserID) *conversation.Error {
	if m.Author != by && !st.Role(by).May(access.Own) {
		return conversation.Errorf(conversation.Forbidden, "only its author may change a message")
	}
	return nil
}
