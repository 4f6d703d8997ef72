// Package readers keeps what single users have of a session, under the session's keys: how far
// they have read, and what they have marked it with.
package readers
