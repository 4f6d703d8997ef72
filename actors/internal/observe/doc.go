// Package observe counts and logs what has become durable in a session, and what
// the models of a session have cost. An Observer belongs to the actor of its
// session. The package owns no goroutine.
package observe
