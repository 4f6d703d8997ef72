// Package intake is the first look at what comes in. Classify is the pre-filter
// for messages (D-25); Takes, MayAnswer and Verdict say what answers a question, or an
// approval; Sanitize makes commands fit to be decided, and Normalize
// makes events what the store keeps of them. The machine and its plan package use it, and
// nobody else does. The package is pure and owns no goroutine.
package intake
