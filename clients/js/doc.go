// Package js holds the client for browsers and Node as ES modules: a folder that
// is a package of npm as it stands, without dependencies and without a build
// step. The page has its client.js in it.
package js

//go:generate go test . -run Golden -rewrite
