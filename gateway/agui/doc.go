// Package agui is a way in for clients that speak the Agent-User Interaction protocol (AG-UI). It
// shows them the sessions that all others see, over package exchange, and keeps nothing.
package agui
