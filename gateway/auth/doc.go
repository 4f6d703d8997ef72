// Package auth knows who speaks: it turns what a client brings into a tenant, a user and
// scopes, in one of three ways, by auth.mode.
//
//   - keys: long random keys, of which only a SHA-256 is kept, in config.toml or in a file
//     that "parley key" writes. A key that is taken out of the file is taken back: what it
//     has open ends.
//   - jwt: signed tokens of somebody else's sign-in.
//   - proxy: a header that a trusted proxy sets.
//
// [Door] stands before each of them, and before service.NoAuth: it holds back those who
// guess, says so in the log once a minute and address, and makes and takes tickets.
//
// The package owns one goroutine, [Keys.Follow], which the program starts: it notices that
// the file of keys was changed. Everything else runs on the callers' goroutines.
package auth
