// Package a2a is a way in for clients that speak the Agent2Agent protocol (A2A) 1.0. It
// shows them the sessions that all others see, over package exchange, and keeps nothing.
package a2a
