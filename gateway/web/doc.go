// Package web holds the page: a chat client, embedded in the binary, with the
// connection of clients/js. Its files are plain ES modules in page; node runs
// their tests as they stand. What a browser is sent is made of them: after a
// change of a .js or .css file run
//
//	make page
//
// which takes a second and writes bundle and bundle.txt (the first time builds
// esbuild). Both are committed, so that a build of the program needs nothing; a
// test says when they are stale. After a merge they are made again, not put
// together by hand. index.html and icon.svg are sent as they are.
//
// The bundle is early.js, which makes the connection and asks for the conversation
// before anything else is there, app.js (and a shared file) with what a visit needs
// to be shown and answered, and a file for each module that is loaded by import(),
// which the Makefile names: grammar.js reads Markdown, colours.js colours code,
// later.js has the palette, dialogs, tasks, search and the like, and comes behind
// the first text or when it is used (lazy.js). A text stands as it was written until
// its Markdown can be read. grammar.js and colours.js have a library of others in
// them, whose file is kept as it was published (vendor.txt), with its licence.
//
// The page needs nothing that the content security policy default-src 'none' with
// script-src, style-src and connect-src 'self' and img-src 'self' data: would forbid.
package web
