package transcript_test

import (
	"fmt"

	"parley/conversation"
	"parley/conversation/policy"
	"parley/conversation/transcript"
)

// What a model is shown for the second of two messages.
func ExampleTranscript_Request() {
	key := conversation.SessionKey{Tenant: "default", Session: "s"}
	rules := &policy.Rules{Policy: policy.DefaultPolicy(), Agents: map[conversation.AgentName]policy.Profile{
		conversation.Coordinator: {Name: conversation.Coordinator, Prompt: "You help.", EngineTools: true},
	}}
	const first, second conversation.TaskID = "t1-s", "t2-s"
	shown := transcript.Of(key, rules)
	for i, e := range []conversation.Event{
		{Body: conversation.SessionCreated{Agent: conversation.Coordinator, Owner: "ada"}},
		{Task: first, Body: conversation.MessageAccepted{Message: "m1-s", Author: "ada", Text: "What is the capital of France?"}},
		{Task: first, Body: conversation.StepStarted{Step: 1, Attempt: 1, Read: []conversation.MessageID{"m1-s"}}},
		{Task: first, Body: conversation.StepFinished{Step: 1, Attempt: 1, Outcome: conversation.StepOK, Items: []conversation.Item{
			{Kind: conversation.ItemText, Text: "Paris."},
		}}},
		{Task: first, Body: conversation.MessageResolved{Message: "m1-s", How: conversation.ResolvedAnswered}},
		{Task: first, Body: conversation.TaskStatusChanged{Old: conversation.TaskRunning, New: conversation.TaskComplete}},
		{Task: second, Body: conversation.MessageAccepted{Message: "m2-s", Author: "ada", Text: "And of Italy?"}},
		{Task: second, Body: conversation.StepStarted{Step: 2, Attempt: 1, Read: []conversation.MessageID{"m2-s"}}},
	} {
		e.Seq = conversation.Seq(i + 1)
		shown.Add(e)
	}

	r := shown.Request(key, rules, conversation.AskModel{Task: second, Step: 2, Attempt: 1, Agent: conversation.Coordinator, Upto: 8})
	fmt.Println("system:", r.System)
	for _, e := range r.All() {
		if e.Role == conversation.RoleAssistant {
			fmt.Println("assistant:", e.Items[0].Text)
		} else {
			fmt.Println("user:", e.Text)
		}
	}
	for _, tool := range r.Tools {
		fmt.Println("tool:", tool.Name)
	}
	// Output:
	// system: You help.
	// user: What is the capital of France?
	// assistant: Paris.
	// user: And of Italy?
	// tool: respondToUser
	// tool: coverMessage
}
