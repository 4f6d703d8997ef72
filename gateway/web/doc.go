// Package web holds the page: a chat client in plain ES modules, embedded in
// the binary, with the connection of clients/js. It has no build step. Two
// libraries of others read Markdown and colour code; their files are kept as
// they were published (vendor.txt). It needs nothing that the content security
// policy default-src 'none' with script-src, style-src and connect-src 'self' and
// img-src 'self' data: would forbid.
package web
