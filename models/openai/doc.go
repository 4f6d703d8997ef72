// Package openai asks models over OpenAI's wire formats: the Responses API, and Chat
// Completions. Which server that is depends on the base URL: OpenAI itself, Ollama,
// vLLM, llama.cpp, OpenRouter, or any gateway that speaks Open Responses.
//
// New checks Options and makes a Model, which is a conversation.Model. cmd/parley
// makes one for each [[models]] block of provider "openai" that is used, and the
// engine calls Stream from as many goroutines as it likes.
//
// How a call goes:
//
//  1. The request is written as a struct with json tags (chat.go, responses.go), and
//     Options.Extra is merged into it. It holds the whole transcript: providers keep
//     nothing for us.
//  2. httpmodel sends it, watches the bytes of the answer and turns every failure
//     into a *conversation.ModelError. Nothing is repeated here: repeating a step is
//     the engine's work.
//  3. Frames of a stream, or a whole body, go into one assembly (assembly.go).
//     ParseBody reads bodies leniently, because few servers conform to the
//     references. A stream that ends without its terminal frame was cut and is an
//     error, never an answer.
//
// What the package does not read of an answer is kept in Item.Opaque and given back to
// the same model: encrypted reasoning of the Responses API within the same task, the
// unknown members of Chat Completions in all tasks (kept.go). No ids of items are
// given back: the provider keeps nothing under them.
//
// The package starts no goroutine. Tests compare every byte of its requests with
// testdata/requests, and OpenAI's SDK reads them there as a second opinion.
package openai
