package main

import (
	"fmt"
	"log/slog"

	"parley/cmd/parley/internal/assemble"
	"parley/cmd/parley/internal/config"
	"parley/gateway/auth"
)

// checkSignIn reads the keys that clients sign in with, as a start would.
func (m *Main) checkSignIn(say func(what string, err error, fine string), note func(what, text string)) {
	c := &m.Config
	switch {
	case c.Auth.Mode == auth.ModeNone:
		say("sign-in", nil, "none: who reaches this machine's loopback address is the user local")
		return
	case c.Auth.KeyURL != "" && m.line.Doctor.Offline:
		say("sign-in", nil, c.Auth.Mode+" with the keys of "+host(c.Auth.KeyURL)+", not asked")
		return
	}
	_, keys, reload, err := assemble.SignIn(c, config.LookupIn(m.Environ), slog.New(slog.DiscardHandler))
	switch {
	case err != nil:
	case keys != nil:
		say("sign-in", nil, fmt.Sprintf("keys: %d, of the configuration and %s", keys.Count(), c.KeysFile()))
		if keys.Count() == 0 {
			note("sign-in", `nobody can sign in yet: "parley key create" makes keys`)
		}
		return
	case reload != nil:
		err = reload() // an address that does not answer stops no start, but nobody can sign in
	}
	say("sign-in", err, c.Auth.Mode)
}
