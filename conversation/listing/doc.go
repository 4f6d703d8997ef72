// Package listing has what the rows of lists of sessions say of work: what runs, what is
// asked, and where the last parts are. It goes with a session's Summary into the store, so
// that a row is shown without reading a log. And it has what users mark sessions with, each for
// himself.
package listing
