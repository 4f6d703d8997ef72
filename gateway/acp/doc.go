// Package acp is a way in for clients that speak the Agent Client Protocol (ACP), by which editors talk to agents. It
// shows them the sessions that all others see, over package exchange, and keeps nothing.
package acp
