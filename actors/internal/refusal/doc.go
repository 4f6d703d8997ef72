// Package refusal has the engine's refusals; the machine has its own. Each call makes a new
// error, because callers add a cause to it.
package refusal
