// Package channels has everything run that runs once in a cluster: the channels to chat platforms,
// what sends webhooks and trims feeds, and what tells clients of their tasks. Each is a singleton of
// the cluster; a process that is alone runs them all.
package channels
