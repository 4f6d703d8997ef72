// Package js holds the client for browsers and Node as ES modules: a folder that
// is a package of npm as it stands, without dependencies and without a build
// step. The page loads its client.js, so that file is embedded in the binary.
package js

//go:generate go test . -run Golden -rewrite
