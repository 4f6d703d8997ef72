// Package chat joins chat platforms with sessions.
package chat
