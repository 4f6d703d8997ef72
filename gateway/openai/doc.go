// Package openai is a way in for clients that speak the OpenAI API: Responses, Conversations, Chat Completions and Models. It
// shows them the sessions that all others see, over package exchange, and keeps nothing.
package openai
