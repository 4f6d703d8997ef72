// Package plan checks what the calls of a model's answer ask for, before anything
// of it is decided: whether the tool is there and the agent may use it, what the
// arguments mean, which message or question is meant, how many delegations there
// may be. It reads the state of the task and changes nothing; package machine
// carries out what it gives.
package plan
