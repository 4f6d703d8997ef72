// Package receipts finds out how good a model is at saying what it answers. It holds
// conversations with a server, whatever model that has: several messages at chosen
// moments, tools, amendments, questions (conversations.toml), and what people write every
// day (conversation/machine/machinetest/everyday), for which the session's instructions
// say the facts. Each message has a ground truth, words that a right answer must contain,
// so the judge needs no model: a receipt is true if the part that it names holds the words
// of its message. For the everyday ones these are found: what an answer has, and the
// answers to the conversation's other messages have not.
//
// "make receipts" is another thing: it plays ten thousand conversations of made-up words
// against the rules of a session alone, to find out what the engine believes of models
// of nine kinds. Here everything is real: the program, the wire, and the model.
//
// It reads as: talk.go (a conversation as data), everyday.go (those of the corpus),
// truth.go (what tells their answers), history.go (what the server's events say), play.go
// (who says what, when), judge.go, report.go; command.go starts all of it, and standin.go
// is a chat model made of rules, for those without a key.
package receipts
