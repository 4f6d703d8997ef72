package config

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"parley/tools/mcp/secret"
)

// A value of the configuration that may be secret says where it is: env:NAME,
// file:PATH, or within other text ${env:NAME} and ${file:PATH}. The secret
// itself is read when it is needed and never kept in Config.

// Lookup reads an environment variable.
type Lookup = secret.Lookup

// LookupIn reads the variables of a list as os.Environ makes it.
func LookupIn(environ []string) Lookup {
	return func(name string) (string, bool) {
		for _, kv := range slices.Backward(environ) {
			if n, value, ok := strings.Cut(kv, "="); ok && n == name {
				return value, true
			}
		}
		return "", false
	}
}

// refers is true for a value with a reference.
func refers(value string) bool { return len(secret.References(secret.Spelled(value))) > 0 }

// filesBeside is a value whose files are taken relative to the configuration file.
func filesBeside(where problem, value string) string {
	return secret.Replace(secret.Spelled(value), func(r secret.Reference) string {
		if r.Kind == secret.File {
			r.Name = beside(where, r.Name)
		}
		return r.String()
	})
}

// references notes the variables that values refer to.
func (l *loader) references(values ...string) {
	for _, v := range values {
		for _, r := range secret.References(secret.Spelled(v)) {
			if r.Kind == secret.Env {
				l.named(r.Name)
			}
		}
	}
}

var errInline = errors.New("a secret does not stand in the file: write env:NAME or file:PATH, with other text around it \"Bearer ${env:NAME}\"")

// inline refuses a secret that stands in the file itself. Its error does not
// repeat it.
func inline(name, value string) error {
	if !secret.WellFormed(value) {
		return errors.New("a reference is written ${env:NAME} or ${file:PATH}")
	}
	if value != "" && secret.Certain(name) && !refers(value) || secret.Known(value) || secret.Bare(value) {
		return errInline
	}
	return nil
}

// inlineArgs refuses a secret among the arguments of a program.
func inlineArgs(args []string) error {
	if i := secret.BareArg(args); i >= 0 {
		return fmt.Errorf("argument %d is or holds a secret, and every process of the machine can read arguments: give it in env, or let the program read a file", i+1)
	}
	return nil
}

// ShownArgs are the arguments of a program with the secrets among them masked.
func ShownArgs(args []string) []string {
	shown := secret.MaskedArgs(args)
	const key = "store.postgres="
	for i, arg := range args { // a DSN may be words, of which one is the password
		if at := strings.Index(arg, key); at >= 0 && at+len(key) < len(arg) && !refers(arg[at+len(key):]) {
			shown[i] = arg[:at+len(key)] + secret.Mask
		}
	}
	return shown
}

// Fill is a value with what its references stand for. Unlike secret.Text it
// refuses blank ones: they are keys. Its errors name the references only.
func Fill(value string, look Lookup) (string, error) {
	var errs []error
	text := secret.Replace(secret.Spelled(value), func(r secret.Reference) string {
		who := "the variable "
		if r.Kind == secret.File {
			who = "the file "
		}
		text, err := r.Read(look)
		switch {
		case r.Kind == secret.File && (errors.Is(err, secret.ErrTooLarge) || err == nil && text == ""):
			err = errors.New("is empty or too large for a key")
		case err == nil && text == "":
			err = secret.ErrNotSet
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s%s %w", who, r.Name, err))
		}
		return text
	})
	return text, errors.Join(errs...)
}
