// Package config reads the configuration of the server: the defaults, over them
// the file, the environment and the command line.
//
// Load returns a Config or an *Error that names everything that is wrong, each
// with the place that set it ("config.toml:12", "PARLEY_INBOX_MODE", "--set
// inbox.mode"), the value, and what it must be; misspelt keys get a proposal.
// Print writes a Config as TOML that reads back the same, secrets masked.
//
// A value may say where a secret is, ${env:NAME} or ${file:PATH}: Config keeps
// the reference and Fill reads what it stands for when it is needed.
//
// The package starts no goroutine and connects to nothing. Main calls Load once;
// internal/assemble makes of the Config what a run needs.
package config
