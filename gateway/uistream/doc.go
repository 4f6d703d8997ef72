// Package uistream is a way in for clients that speak the UI message stream of the AI SDK, as useChat speaks it. It
// shows them the sessions that all others see, over package exchange, and keeps nothing.
package uistream
