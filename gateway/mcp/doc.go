// Package mcp is a way in for clients that speak a server of the Model Context Protocol (MCP). It
// shows them the sessions that all others see, over package exchange, and keeps nothing.
package mcp
