// Package secret is the one reader of references to secrets: texts of the
// configuration that say where a secret is, not what it is.
//
// ${env:NAME} is a variable of this process's environment, ${file:PATH} what a
// file holds, without space around it; where a value is nothing else, env:NAME and
// file:PATH will do (Spelled). A value is read when it is needed and never
// kept here. Errors name references, never values.
//
// Package tools/mcp fills the variables and headers of servers with it, cmd/parley
// the keys, headers and proxies of models. Which names hold secrets stands here,
// too: Certain for what may not be written out, Sensitive for what is not shown.
// It owns no goroutine; all of it may be used from any.
package secret
