// Package held knows, of the sessions that this process writes to, which keys their events
// own, so that a key that is new need not be looked for in the database.
package held
