package machine

import (
	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/machine/internal/asking"
	"parley/conversation/machine/internal/outside"
	"parley/conversation/machine/internal/state"
)

// The shell must know two things of a command before Decide: whether to ask the
// store for its key, and whether it would need a slot.

// LookupKeys are the keys that the store must be asked for before a command is
// decided: the session does not know whether one of them was there before. At most
// one of them is stored. None: the command can be decided at once. The
// store's answer comes with the command as its Duplicate (dedup.Of,
// dedup.With).
func (s *Session) LookupKeys(c conversation.Command) []conversation.Key {
	return state.LookupKeys(&s.state, c)
}

// PartBefore is the key of the part that a command's part follows, for the hint of
// dedup.NextPart; nil = it needs none.
func (s *Session) PartBefore(c conversation.Command) *conversation.Key {
	return outside.PartBefore(&s.state, c)
}

// RefusedWhenFull is true for a message of a chat platform that would be refused while its
// chat is busy: there nobody waits for the other chats either, whatever
// admission.on_full says of the other channels.
func (s *Session) RefusedWhenFull(c conversation.Command) bool {
	say, _ := c.(conversation.Say)
	switch say.Via {
	case conversation.ViaSlack, conversation.ViaDiscord, conversation.ViaTelegram:
		return s.mode(say) == conversation.ModeReject
	default:
		return false
	}
}

// WouldStart is true for a message that needs a slot and nothing else to become a
// RUNNING task of its own: admission.on_full=reject refuses it while there is none.
// A repeated message, one that answers a question or joins a task, and one that
// would wait in its own session anyway (A-17: busy comes first) need none.
func (s *Session) WouldStart(say conversation.Say) bool {
	if say.Duplicate != nil || s.state.Key.Session.Depth() > 0 || s.state.Agent.Outside() || s.wouldQueue() {
		return false
	}
	if before, _ := s.state.Repeated(say.Author, say.ClientMsgID, attached.Fingerprint(say.Text, say.Files), nil); before != nil {
		return false
	}
	if say.Mode == conversation.ModeDefault && asking.Blocks(&s.state) {
		return false // it is taken as the answer
	}
	return s.mode(say) != conversation.ModeSteer || !state.Joinable(&s.state)
}
