package settings

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/access"
	"parley/conversation/machine/internal/state"
	"parley/conversation/policy"
)

// Changes are those of the things said that differ from what the session is set to; none is
// false. configured are the policies that hold for it without its own, with the agent that is
// said. An error refuses all of it.
// Rules 9.2a, 9.2b, 9.17.
func Changes(st *state.State, rules *policy.Rules, configured policy.Policy, c conversation.Update) (up conversation.SessionUpdated, some bool, err *conversation.Error) {
	policies, lifted, err := configured.Changes(st.Policy, st.Lifted, c.Policy, c.Admin)
	if err != nil {
		return up, false, err
	}
	members, err := Members(st.Owner, st.Members, c.Members, rules.MaxMembers)
	if err != nil {
		return up, false, err
	}
	if policies != nil || c.Agent != "" {
		if err := rules.CheckOwn(cmp.Or(c.Agent, st.Agent), st.Policy.With(policies)); err != nil {
			return up, false, err
		}
	}
	up = conversation.SessionUpdated{Policy: policies, Lifted: lifted, Members: members}
	if c.Agent != "" && c.Agent != st.Agent {
		if err := takesOver(rules, st.Agent, c.Agent); err != nil {
			return conversation.SessionUpdated{}, false, err
		}
		up.Agent = c.Agent
	}
	if c.Title != nil && *c.Title != st.Title && (st.Title == "" || !c.Unnamed) {
		up.Title = c.Title
	}
	if c.Access != nil && *c.Access != st.Access {
		up.Access = c.Access
	}
	return up, up.Title != nil || up.Agent != "" || up.Access != nil || up.Policy != nil || up.Members != nil, nil
}

// maxUser bounds a member's user id, in bytes.
const maxUser = 128

// Members are those of the roles said that differ from what the users are; nil = none. The
// owner is no member, and nobody takes what he is from him. most is the number of members
// that there may be, 0 = any: who has more, because there may have been more, may take
// away and change, but not add.
// Rule 9.17.
func Members(owner conversation.UserID, are, said map[conversation.UserID]access.Role, most int) (changed map[conversation.UserID]access.Role, err *conversation.Error) {
	added := 0
	for _, user := range slices.Sorted(maps.Keys(said)) { // of two that are wrong the first one is named
		role := said[user]
		switch {
		case user == "" || len(user) > maxUser || strings.IndexByte(string(user), 0) >= 0 || !utf8.ValidString(string(user)):
			return nil, conversation.Errorf(conversation.BadRequest, "a member's user id must have 1 to %d bytes of UTF-8 and no NUL", maxUser)
		case role > access.Owner:
			return nil, conversation.Errorf(conversation.BadRequest, "a member's role must be reader, approver, writer or owner")
		case user == owner && role != access.Owner:
			return nil, conversation.Errorf(conversation.Conflict, "the owner of a session cannot be removed, nor be given a lower role")
		case user == owner || role == are[user]:
			continue
		case role == access.None:
			added--
		case are[user] == access.None:
			added++
		}
		if changed == nil {
			changed = map[conversation.UserID]access.Role{}
		}
		changed[user] = role
	}
	if most > 0 && added > 0 && len(are)+added > most {
		return nil, conversation.Errorf(conversation.Conflict, "a session may have at most %d members besides its owner (limits.members_per_session)", most)
	}
	return changed, nil
}

// Agent is that of a new session, and whether there is one of that name.
func Agent(rules *policy.Rules, agent conversation.AgentName) (conversation.AgentName, *conversation.Error) {
	agent = cmp.Or(agent, conversation.Coordinator)
	if _, ok := rules.Agents[agent.Kind()]; !ok || !agent.Named() {
		return agent, conversation.Errorf(conversation.BadRequest, "there is no agent %q", agent)
	}
	return agent, nil
}

// takesOver says whether one agent may answer from now on where another one has. What a
// runtime outside answers has no steps, and the other way round.
// Rule 9.2b.
func takesOver(rules *policy.Rules, from, to conversation.AgentName) *conversation.Error {
	switch _, err := Agent(rules, to); {
	case err != nil:
		return err
	case from.Outside():
		return conversation.Errorf(conversation.Conflict, "a session that a runtime outside answers keeps its agent")
	case to.Outside():
		return conversation.Errorf(conversation.Conflict, "a session cannot be given to a runtime outside: make one with that agent")
	default:
		return nil
	}
}
