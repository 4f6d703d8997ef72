// Package listener is the address that strangers reach: a TCP listener that outlives
// a shortage of file descriptors, lets in only so many connections, altogether and
// from one address, and knows all that are open, so that the end of the server can
// close them whatever their clients do.
//
// The HTTP library ends when Accept fails, and forgets a connection once it is a
// socket; both are this room's business. It knows nothing of HTTP. TLS is put on
// inside, so that the connections that are kept and closed are those of the system:
// closing one never waits for its client.
//
// Certificates come from files, or from an authority that speaks ACME. The goroutines that
// are started here ask it, and read on what clients send that are answered already (Linger).
package listener
