// Package credential reads what a client must know of its own token.
package credential
