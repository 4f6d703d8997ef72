// Package frame finds the top-level fields of a frame of the server, without a
// look into them: a load generator must not cost more than the server.
package frame
