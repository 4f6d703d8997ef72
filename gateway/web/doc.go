// Package web holds the page: a chat client in plain ES modules, embedded in
// the binary, with the connection of clients/js. It has no build step and no
// code of others, and it needs nothing that the content security policy
// default-src 'none' with script-src, style-src and connect-src 'self' and
// img-src 'self' data: would forbid.
package web
