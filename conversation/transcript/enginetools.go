package transcript

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"parley/conversation"
	"parley/conversation/policy"
)

// The engine's own tools as data: their descriptions for models. The rules that
// execute them are in call.go. Each place of a schema has one type, because some
// servers refuse lists of types and places without one; a number in the place of a
// text is taken all the same.

// ToolsFor lists what an agent may call at a depth: the engine's tools, then
// the allowed ones of the tools room, by name.
func ToolsFor(r *policy.Rules, p policy.Profile, depth int) []conversation.ToolSpec {
	if !p.EngineTools {
		return nil
	}
	tools := []conversation.ToolSpec{respondSpec}
	if depth == 0 {
		tools = append(tools, coverSpec)
	}
	if p.MayAsk {
		tools = append(tools, askSpec)
	}
	if p.Delegates && depth < r.Policy.MaxDepth {
		var names []conversation.AgentName
		for _, name := range slices.Sorted(maps.Keys(r.Agents)) {
			if r.Agents[name].Delegable {
				names = append(names, name)
			}
		}
		if len(names) > 0 {
			tools = append(tools, delegateSpec(names), parallelSpec(names), amendSpec)
			for _, name := range names {
				tools = append(tools, aliasSpec(name, r.Agents[name].Description))
			}
		}
	}
	for _, name := range r.ToolNames() {
		if rule, ok := r.Tool(name); ok && p.Allows(name) {
			tools = append(tools, rule.Spec)
		}
	}
	return tools
}

var respondSpec = conversation.ToolSpec{
	Name: conversation.ToolRespond,
	Description: "Say something to the user now, without ending the task. Use it once for each message that you can answer already, " +
		"and name the message in inReplyTo: its number in the list of open messages, or its first words.",
	Schema: json.RawMessage(`{"type":"object","properties":{"message":{"type":"string","minLength":1},"inReplyTo":{"type":"string"}},"required":["message"]}`),
}

var coverSpec = conversation.ToolSpec{
	Name: conversation.ToolCover,
	Description: "Say what became of an open message that gets no answer of its own: it changed the work under way (amendment), repeated " +
		"another (duplicate), needs nothing (dismissed), answers one of your open questions (answer; question is its first words), or was answered already by " +
		"what you said without naming it (answered). messageId is as inReplyTo.",
	Schema: json.RawMessage(`{"type":"object","properties":{"messageId":{"type":"string"},"as":{"type":"string","enum":["amendment","duplicate","dismissed","answer","answered"]},"question":{"type":"string"}},"required":["messageId","as"]}`),
}

// closingSpec is coverSpec as a nudge offers it that asks what became of these messages: no
// other one can be named, and no other text.
func closingSpec(open []openEntry, shown []said, outcomes ...string) conversation.ToolSpec {
	var messages, parts []string
	for _, o := range open {
		messages = append(messages, strconv.Itoa(o.number))
	}
	part := ""
	for _, s := range shown {
		parts = append(parts, strconv.Itoa(int(s.part)+1))
	}
	if len(parts) > 0 {
		part = fmt.Sprintf(`,"part":{"type":"string","enum":%s}`, enumOf(parts))
	}
	return conversation.ToolSpec{
		Name: conversation.ToolCover,
		Description: "Say what became of an open message: answered (part is the number of the text that answers it), amendment (it changed the work under way), " +
			"duplicate (it repeated another), dismissed (it needs nothing), or open (nothing answers it yet). messageId is its number.",
		Schema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"messageId":{"type":"string","enum":%s},"as":{"type":"string","enum":%s}%s},"required":["messageId","as"]}`,
			enumOf(messages), enumOf(outcomes), part)),
	}
}

func enumOf(values []string) string {
	enum, _ := json.Marshal(values)
	return string(enum)
}

// closingTools are what such a nudge offers of an agent's tools, and the others.
func closingTools(all []conversation.ToolSpec, open []openEntry, shown []said) (offered, others []conversation.ToolSpec) {
	offered = []conversation.ToolSpec{respondSpec, closingSpec(open, shown, "answered", "amendment", "duplicate", "dismissed", "open")}
	for _, spec := range all {
		if spec.Name != conversation.ToolRespond && spec.Name != conversation.ToolCover {
			others = append(others, spec)
		}
	}
	return offered, others
}

var askSpec = conversation.ToolSpec{
	Name: conversation.ToolAsk,
	Description: "Ask the user. With blocking=true (the default) the task waits for the answer; with blocking=false it goes on, and the answer " +
		"comes back as a message. Prefer blocking=false when there is other work to do. inReplyTo names the message that makes you ask.",
	Schema: json.RawMessage(`{"type":"object","properties":{"question":{"type":"string","minLength":1},"blocking":{"type":"boolean","default":true},"choices":{"type":"array","items":{"type":"string"}},"expiresIn":{"type":"string","description":"a duration such as 10m, 365 days at most"},"default":{"type":"string","description":"the answer if it expires"},"inReplyTo":{"type":"string"}},"required":["question"]}`),
}

var amendSpec = conversation.ToolSpec{
	Name:        conversation.ToolAmend,
	Description: "Tell a running delegation something new, for example that the user has changed the request. delegation is its id, such as d1.",
	Schema:      json.RawMessage(`{"type":"object","properties":{"delegation":{"type":"string"},"text":{"type":"string","minLength":1}},"required":["delegation","text"]}`),
}

const jobFields = `"objective":{"type":"string","minLength":1},"context":{"type":"string"},"deadline":{"type":"string","description":"a duration such as 10m, 365 days at most"}`

func agentEnum(names []conversation.AgentName) string {
	enum, _ := json.Marshal(names)
	return `"agent":{"type":"string","enum":` + string(enum) + `}`
}

func delegateSpec(names []conversation.AgentName) conversation.ToolSpec {
	return conversation.ToolSpec{
		Name:        conversation.ToolDelegate,
		Description: "Give an objective to another agent. It works by itself; its result comes back later, and you may go on meanwhile.",
		Schema:      json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s,%s},"required":["agent","objective"]}`, agentEnum(names), jobFields)),
	}
}

func parallelSpec(names []conversation.AgentName) conversation.ToolSpec {
	return conversation.ToolSpec{
		Name:        conversation.ToolDelegateParallel,
		Description: "Give several objectives to agents at once. All results come back; one that fails does not end the others.",
		Schema: json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{"jobs":{"type":"array","minItems":1,"items":{"type":"object","properties":{%s,%s},"required":["agent","objective"]}}},"required":["jobs"]}`,
			agentEnum(names), jobFields)),
	}
}

func aliasSpec(name conversation.AgentName, description string) conversation.ToolSpec {
	return conversation.ToolSpec{
		Name:        conversation.DelegateAlias(name),
		Description: "Delegate to " + string(name) + ": " + description,
		Schema:      json.RawMessage(fmt.Sprintf(`{"type":"object","properties":{%s},"required":["objective"]}`, jobFields)),
	}
}
