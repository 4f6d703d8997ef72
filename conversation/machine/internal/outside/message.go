package outside

import (
	"parley/conversation"
	"parley/conversation/machine/internal/state"
)

// Own is true for a source that is a message of this session, whose task a
// runtime works on.
func Own(st *state.State, source string) bool {
	n := conversation.Ordinal(source, 'm')
	return st.Agent.Outside() && n > 0 && n <= st.Messages && st.MessageID(n) == conversation.MessageID(source)
}

// Working is the task of a message that a runtime speaks of. The error says why
// nothing is to be said about it: it waits for its turn, or it has ended, and how.
// Rule 9.11g.
func Working(st *state.State, id conversation.MessageID) (*state.Task, *conversation.Error) {
	t := st.TaskOf(id)
	if t != nil && t.Status == conversation.TaskRunning && t.Cancelling == nil {
		return t, nil
	}
	if _, open := st.Message(id); open != nil {
		return nil, conversation.Errorf(conversation.SessionBusy, "another message of this session is being answered first")
	}
	refusal := conversation.Errorf(conversation.Conflict, "the message %s has ended and takes no more parts", id)
	if refusal.TaskStatus = st.EndedMessages.As(id); refusal.TaskStatus != 0 {
		refusal.Message += ": its task is " + refusal.TaskStatus.String()
	}
	return nil, refusal
}
