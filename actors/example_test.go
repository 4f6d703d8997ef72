package actors_test

import (
	"context"
	"fmt"
	"log"

	"github.com/prometheus/client_golang/prometheus"

	"parley/actors"
	"parley/conversation"
	"parley/conversation/policy"
	"parley/metrics"
	"parley/models/scripted"
	"parley/persistence/persistencetest"
)

// printer is a publisher that prints what agents say, and tells when a task ends.
// The gateway's hub has this place in a server.
type printer struct{ ended chan struct{} }

func (p printer) Publish(_ conversation.SessionKey, _ conversation.Epoch, events []conversation.Event) {
	for _, event := range events {
		switch b := event.Body.(type) {
		case conversation.PartialResponse:
			fmt.Println("agent:", b.Text)
		case conversation.Response:
			fmt.Println("agent:", b.Text)
		case conversation.TaskStatusChanged:
			if b.New.Ended() {
				p.ended <- struct{}{}
			}
		}
	}
}

func (printer) Show(conversation.SessionKey, conversation.Epoch, conversation.Seq, conversation.Ephemeral) {
}                                                                                          // drafts: text that still streams
func (printer) Stored(conversation.SessionKey, conversation.Epoch, conversation.Seq)       {}
func (printer) Gone(conversation.SessionKey, string)                                       {}
func (printer) Audience(conversation.SessionKey, conversation.Epoch, conversation.Summary) {}

// newEngine makes an engine over a store in memory, with one agent that the
// scripted model speaks for.
func newEngine(p conversation.Publisher) *actors.Engine {
	model, err := scripted.New(scripted.Options{})
	if err != nil {
		log.Fatal(err)
	}
	cfg := actors.DefaultConfig()
	cfg.Node = "n1"
	cfg.Rules = policy.Rules{
		Policy: policy.DefaultPolicy(),
		Agents: map[conversation.AgentName]policy.Profile{
			conversation.Coordinator: {Name: conversation.Coordinator, MayAsk: true, EngineTools: true},
		},
	}
	engine, err := actors.New(cfg, actors.Deps{
		Store:     persistencetest.NewMemory(),
		Publisher: p,
		Models:    map[string]conversation.Model{"": model},
		Metrics:   metrics.NewActors(prometheus.NewRegistry()),
	})
	if err != nil {
		log.Fatal(err)
	}
	return engine
}

// run runs an engine until stop is called.
func run(engine *actors.Engine) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	<-engine.Started()
	return func() {
		cancel()
		if err := <-done; err != nil {
			log.Fatal(err)
		}
	}
}

// open opens a session and waits until it is stored.
func open(engine *actors.Engine, key conversation.SessionKey) {
	opened := make(chan error)
	engine.Create(key, conversation.Create{Owner: "ada"}, func(_ conversation.SessionKey, _ bool, err error) { opened <- err })
	if err := <-opened; err != nil {
		log.Fatal(err)
	}
}

var key = conversation.SessionKey{Tenant: "acme", Session: "0123456789abcdef"}

// An engine runs until its context ends. Drain before that: then open work comes
// to its end, or is kept for the next start.
func Example() {
	p := printer{ended: make(chan struct{}, 1)}
	engine := newEngine(p)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- engine.Run(ctx) }()
	<-engine.Started()

	open(engine, key)
	engine.Tell(key, "ada", conversation.Say{Author: "ada", ClientMsgID: "1", Text: "hello there"},
		func(receipt conversation.Receipt, err error) { fmt.Println("stored as", receipt.Message, err) })
	<-p.ended

	if err := engine.Drain(context.Background()); err != nil {
		log.Fatal(err)
	}
	cancel()
	fmt.Println(<-done)
	// Output:
	// stored as m1-0123456789abcdef <nil>
	// agent: Hello! I am a scripted demo model: rules, not AI. Say "help" to see what I understand.
	// <nil>
}

// A message that is told again is stored once: every command may be repeated.
func ExampleEngine_Tell() {
	p := printer{ended: make(chan struct{}, 1)}
	engine := newEngine(p)
	defer run(engine)()
	open(engine, key)

	say := conversation.Say{Author: "ada", ClientMsgID: "1", Text: "hello there"}
	receipts := make(chan conversation.Receipt, 1)
	tell := func() conversation.Receipt {
		engine.Tell(key, "ada", say, func(r conversation.Receipt, err error) { receipts <- r })
		return <-receipts
	}
	first := tell()
	<-p.ended
	second := tell()
	fmt.Println(first.Message == second.Message, second.Duplicate)
	// Output:
	// agent: Hello! I am a scripted demo model: rules, not AI. Say "help" to see what I understand.
	// true true
}

// A view is what is open in a session. A user who may not see the session is told
// that there is none.
func ExampleEngine_View() {
	engine := newEngine(printer{ended: make(chan struct{}, 1)})
	defer run(engine)()
	open(engine, key)

	for _, user := range []conversation.UserID{"ada", "bob"} {
		answered := make(chan struct{})
		engine.View(key, user, func(v conversation.View, err error) {
			defer close(answered)
			if err != nil {
				fmt.Println(user+":", err)
				return
			}
			fmt.Printf("%s: agent %s, %d open tasks, head %d\n", user, v.Agent, len(v.Tasks), v.Head)
		})
		<-answered
	}
	// Output:
	// ada: agent coordinator, 0 open tasks, head 1
	// bob: not_found: there is no such session
}
