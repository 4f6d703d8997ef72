package machine_test

import (
	"fmt"
	"time"

	"parley/conversation"
	"parley/conversation/machine"
	"parley/conversation/policy"
)

var (
	key   = conversation.SessionKey{Tenant: "default", Session: "s"}
	rules = &policy.Rules{
		Policy: policy.DefaultPolicy(),
		Agents: map[conversation.AgentName]policy.Profile{
			conversation.Coordinator: {Name: conversation.Coordinator, EngineTools: true},
		},
	}
	now = conversation.Inputs{At: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC), Slot: true}
)

func answer(text string) conversation.ModelAnswer {
	return conversation.ModelAnswer{Items: []conversation.Item{{Kind: conversation.ItemText, Text: text}}}
}

// A message, and the answer to it: two decisions.
func ExampleSession_Decide() {
	s := machine.New(key, rules)
	s.Decide(now, conversation.Create{Owner: "ada"})

	d := s.Decide(now, conversation.Say{Author: "ada", ClientMsgID: "1", Text: "What is the capital of France?"})
	fmt.Println("accepted as", d.Receipt.Message, d.Receipt.Disposition, "- busy:", d.Busy, "- key:", d.Keys[0].Key)
	for _, e := range d.Events {
		fmt.Println(" ", e.Seq, e.Body.Kind())
	}

	d = s.Decide(now, conversation.ModelAnswered{Step: 1, Attempt: 1, Answer: answer("Paris.")})
	fmt.Println("answered - busy:", d.Busy)
	for _, e := range d.Events {
		fmt.Println(" ", e.Seq, e.Body.Kind())
	}
	// Output:
	// accepted as m1-s started - busy: true - key: message (ada, 1)
	//   2 message_accepted
	//   3 task_status
	//   4 step_started
	// answered - busy: false
	//   5 step_finished
	//   6 response
	//   7 message_resolved
	//   8 task_status
}

// An effect is handed out when its events are durable, and only if it is still to
// be done by then.
func ExampleSession_Durable() {
	s := machine.New(key, rules)
	s.Decide(now, conversation.Create{Owner: "ada"})
	d := s.Decide(now, conversation.Say{Author: "ada", Text: "Write a long report."})

	fmt.Println("before the commit:", s.Durable(1))
	for _, e := range s.Durable(d.Head) {
		fmt.Printf("after it: %T of step %d\n", e, e.(conversation.AskModel).Step)
	}
	fmt.Println("a second time:", s.Durable(d.Head))

	d = s.Decide(now, conversation.ModelFailed{Step: 1, Attempt: 1, Failure: conversation.Failure{Code: conversation.Unavailable}})
	c := s.Decide(now, conversation.Cancel{By: conversation.ByUser}) // while the commit of the retry is on its way
	fmt.Printf("at once: %T\n", c.Release[0])
	fmt.Println("after the commit of the retry:", s.Durable(d.Head))
	// Output:
	// before the commit: []
	// after it: conversation.AskModel of step 1
	// a second time: []
	// at once: conversation.StopModel
	// after the commit of the retry: []
}

// After a crash the log is replayed, and Recovered decides what becomes of what
// was open. Nothing that runs is asked for before that is durable.
func ExampleRestore() {
	var log []conversation.Event
	s := machine.New(key, rules)
	log = append(log, s.Decide(now, conversation.Create{Owner: "ada"}).Events...)
	snapshot, _ := s.Snapshot()
	log = append(log, s.Decide(now, conversation.Say{Author: "ada", Text: "Write a long report."}).Events...)

	// The process ends here. Another one begins with the snapshot and what follows it.
	s, err := machine.Restore(key, rules, snapshot)
	if err != nil {
		s = machine.New(key, rules) // a snapshot is a cache: the whole log does as well
	}
	for _, e := range log[s.Head():] {
		if err := s.Apply(e); err != nil {
			panic(err)
		}
	}
	d := s.Decide(now, conversation.Recovered{})
	for _, e := range d.Events {
		started := e.Body.(conversation.StepStarted)
		fmt.Println(e.Seq, e.Body.Kind(), "attempt", started.Attempt, "cause", started.Cause)
	}
	for _, e := range s.Durable(d.Head) {
		fmt.Printf("%T attempt %d\n", e, e.(conversation.AskModel).Attempt)
	}
	// Output:
	// 5 step_started attempt 2 cause interrupted
	// conversation.AskModel attempt 2
}
