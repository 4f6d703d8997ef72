// Package acp is "parley acp": it stands between an editor, which starts it and speaks the Agent
// Client Protocol over its standard streams, a message a line, and a running server, which speaks
// it over a WebSocket. It knows the server from outside only.
//
// The server may go away and come back while the editor works. The bridge then connects again,
// says initialize again, has the server go on with each session behind the last update that the
// editor has (session/resume with _meta.parley.after), and sends again what has no answer yet. It
// names what it sends (_meta.parley.id), so that the server does everything once.
//
// A goroutine reads lines, one for each connection reads what the server says, and another one
// writes to it; all else is done by the one that has called [Run].
package acp
