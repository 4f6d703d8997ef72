// Package protocol is v1 of the protocol as bytes, in both directions, and the two
// documents that describe it (openapi.yaml, asyncapi.yaml).
//
// In: [ReadCommand] reads a frame's envelope, ReadHello, ReadSend and so on its
// data; each error is one that the client may see. Out: [AppendEvent] and its like
// append JSON to a slice, without reflection and without an allocation of their
// own, because every event of every session goes through them. An event's bytes
// depend on what is stored only, so those that are live, replayed, paged and
// streamed are equal. [AppendFrame] puts a payload into a WebSocket frame.
//
// Everything here is a pure function of its arguments, but for the pool of buffers
// ([GetBuffer]). The documents are written by hand; tests hold them against what the
// server sends.
package protocol
