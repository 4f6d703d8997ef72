// Package peers holds small programs around libraries of others, against which
// parley-bench measures a server. It is a module of its own, so that what they
// need is neither in the server's go.mod nor in its build; `make bench-peers`
// builds them below bin/peers. A change here is checked by that alone.
package peers
