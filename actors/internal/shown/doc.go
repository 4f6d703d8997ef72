// Package shown says what a session has published, to the calls that stream beside it.
package shown
