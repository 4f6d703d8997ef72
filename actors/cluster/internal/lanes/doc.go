// Package lanes keeps the order of what clients of one node say to a session that may live on
// any node, and move. It knows neither sessions nor links: a Job sends itself. It says when what
// was asked is answered, for those who must not be ahead of that (Behind).
package lanes
