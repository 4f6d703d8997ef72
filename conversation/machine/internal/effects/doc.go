// Package effects keeps what decisions want done until it may be done. Effects that
// start or tell something wait for the commit of the events that caused them; only
// then it shows whether they are still to be done. Effects that stop something do
// not wait.
package effects
