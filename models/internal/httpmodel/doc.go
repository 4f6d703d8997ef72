// Package httpmodel is the part that all models behind HTTP share. Adapters
// (models/openai, models/anthropic) add the wire format.
//
// A Client asks one model. An adapter embeds it and calls Client.Ask from its Stream
// with a function, the Exchange, which
//
//  1. makes the body: Turns folds the transcript into what each side said, Names and
//     CallID translate names and ids to what providers accept, PlainSchema the schemas
//     of tools, Encode writes JSON;
//  2. sends it with Call.Post;
//  3. reads the answer with ReadAnswer and ReadEvents into its own assembly, which
//     embeds Assembly and joins texts that come in pieces (Pieces);
//  4. returns Assembly.Answer, or any error.
//
// Ask turns that error into the context's or into a *conversation.ModelError: a code,
// a sentence that may be shown to people, whether asking again can help, and when.
// What the provider said goes only to the log, without addresses and secrets. An
// adapter tells what an error object of its provider means by ProviderError.
//
// Rules that hold for every call:
//   - a key goes to the configured address only: no redirect is followed, and no proxy
//     is taken from the environment;
//   - a call ends when not a byte came for Options.IdleTimeout, when the answer is
//     longer than Options.MaxBytes, and when its context ends;
//   - nothing is repeated: the engine repeats steps. But a request with a tool_choice that
//     is refused is sent once more without it, at once (Call.MustCall).
//
// A Client may be used by any number of goroutines. It starts none, but for the timer
// of the idle timeout, which ends with the call.
package httpmodel
