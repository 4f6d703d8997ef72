// Package openai is a way in for clients of the OpenAI API: Responses (HTTP, server-sent events
// and WebSocket), Conversations, Chat Completions and Models, as the official SDKs speak them
// (github.com/openai/openai-openapi, https://openresponses.org). docs/CLIENTS.md says what of
// parley is mapped, and how.
//
// A conversation is a session, and a response is a stretch of a task: from what began it, a
// message, the answers that it waited for or a step that reads a steer, to where the task rests
// ([exchange.Run]) or reads the next steer. The ids say which ("conv_" and the session, "resp_" and
// the task, and the seq where the stretch is not the first one), so nothing is kept here: what a
// client asks for is made of the log.
//
// A [stretch] is the fold of notes that makes a response, and writes its events. A [telling] tells
// it over a socket, with those that steering makes of it.
package openai
