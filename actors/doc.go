// Package actors runs sessions: each session's state machine (package
// conversation/machine) as an actor with a mailbox, child actors for calls, and a commit in flight. Callers use
// Engine; DefaultConfig and Deps say what it needs.
//
// New checks and starts nothing, Run serves until its context ends, and Drain comes before that (example_test.go).
// Any goroutine may call the methods. Callbacks run once, mostly on the goroutine of a session, and must not block. A
// command that was refused as retryable may be sent again as it is: every command is idempotent.
//
// # The life of a command
//
// Tell puts an envelope into the session's mailbox; a session that is not in memory is loaded first, and what arrives
// meanwhile is held. The session's actor takes one message after the other (session.Receive) and gives commands to
// the machine (session.decide). The events of a decision join the pending batch; the batch goes to the store as one
// commit, which tells its end, and the next one gathers meanwhile. When it is durable (session.complete), the waiting
// commands are answered, then the events are published, then the acquiring effects are done: a model is asked, a tool
// runs. Answers of models and tools are messages to the same mailbox, and commands like all others.
//
// # Rules that everything here keeps
//
//   - One way in. Everything that may change a session comes through its mailbox and session.accept; only decide
//     calls the machine.
//   - Durable before visible. Memory may run ahead of the disk, nothing outside does: answers that depend on the
//     state wait in the batch, even those that change nothing (answerWhenDurable).
//   - Acquiring effects wait for the commit: the machine hands out what is still to be done
//     (machine.Session.Durable); releasing effects are done at once.
//   - Receive never blocks and never calls out, but to hand a commit to the store. Loading, asking the store and
//     asking a model run in goroutines that send a message at their end; so does the store at the end of a commit.
//   - A session whose commit has failed forgets its memory and is loaded again from its log. A panic in Receive ends
//     one session. A child that fails is stopped and never restarted.
//   - What the engine calls may panic: publisher, log, callbacks, store, models, tools. Each such call is guarded
//     where it is made (guard.go, internal/guard), and ends neither a session nor the process. A session that leaves
//     gives back its place, its actor and its slot before it calls anything.
//   - An idle session keeps its machine and a few words in memory, and nothing else: fields that only a working
//     session needs are nil until then.
//
// # Who owns what
//
//	actor or goroutine           owner             ends
//	session actor                registry          idle; failed commit; erased; drained
//	tool call, delegation actor  session           its end is durable; the session unloads
//	uplink actor                 sub-session       the sub-session unloads
//	load, model call, tool,      workers, for a    the work is done; model and tool calls when
//	  duplicate check, commit      session           their context is cancelled, which a broken
//	  that went wrong, reading                       one may ignore: it is given up
//	  the log
//	commit                       store             it is done; the workers count it
//	passive view, check of a root  workers, for a caller  the work is done
//	scan for due sessions        Run               Run's context
//	telling sessions until taken Run               Run's context
//	retention sweep              Run               Run's context
//	a session's alarm            session           a timer, not a goroutine
//
// Run waits for all of them. Session mailboxes and the work of sessions share the goroutines of internal/workers.
//
// # Where things are
//
//	engine.go      Engine: New, Run, Tell, what callers are refused
//	envelope.go    a command with its callback, and its answer
//	guard.go       what is done about panics of others
//	session.go     the session's actor: mailbox, holding, deciding, unloading
//	load.go commit.go effects.go    from the store, to the store, what follows
//	dedup.go       the question to the store whether a command was there before
//	model_call.go transcript_cache.go compaction.go triage.go    models
//	timer.go cursors.go             what waits for time or for the next commit
//	owner.go                         whose a session is, and giving it up
//	drain.go due.go retention.go view.go    the engine beside the sessions
//
// The parts with a small interface are packages below internal: admission (slots), alarm, calls (tool calls and
// delegations), delivery (from session to session), due, guard, losses, mail, modelcall, observe (metrics), refusal,
// registry, retention, sessionlog (the store), shown, titling, unreadable, window, workers. Types of the actor library stay
// inside of this folder.
package actors
