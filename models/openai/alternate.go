package openai

// Texts for places where a server that wants the roles to alternate wants a message, and
// there is none.
const (
	bridgeText   = "OK."                       // of the assistant, between a result and the user
	openingText  = "[the conversation so far]" // of the user, before the assistant
	continueText = "[go on]"                   // of the user, behind the assistant
	emptyText    = "[nothing was said]"        // of the user, if nobody has said anything
)

// alternating returns messages as strict servers and chat templates (Mistral's, Gemma's,
// Llama's) accept them: behind the system's message the user begins, user and
// assistant alternate, a result is followed by the assistant only, and the last one is
// a user's or a result. Texts of one side that follow each other are joined with a
// blank line; between a result and the user's words the assistant says "OK.".
func alternating(messages []*chatMessage) []*chatMessage {
	var list []*chatMessage
	say := func(role, text string) { list = append(list, &chatMessage{Role: role, Content: textContent(text)}) }
	last := ""
	for _, m := range messages {
		switch {
		case m.Role == roleUser && last == roleTool:
			say(roleAssistant, bridgeText)
		case m.Role == roleAssistant && last == "":
			say(roleUser, openingText)
		case m.Role == last && (m.Role == roleUser || m.Role == roleAssistant):
			list[len(list)-1] = joined(list[len(list)-1], m)
			continue
		}
		list = append(list, m)
		last = m.Role
	}
	switch last {
	case roleAssistant:
		say(roleUser, continueText)
	case "":
		say(roleUser, emptyText)
	}
	return list
}

// joined is one message of two of the same side. The first one has no calls: their
// results would stand between the two.
func joined(a, b *chatMessage) *chatMessage {
	one := &chatMessage{Role: a.Role, Content: a.Content, ToolCalls: b.ToolCalls}
	switch {
	case a.Content == nil:
		one.Content = b.Content
	case b.Content != nil:
		one.Content = a.Content.and(b.Content)
	}
	one.keep(a.kept)
	one.keep(b.kept)
	return one
}
