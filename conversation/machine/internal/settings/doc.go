// Package settings works out what a command changes in what a session is set to: its title,
// who may do what in it, its policies. It changes nothing itself.
package settings
