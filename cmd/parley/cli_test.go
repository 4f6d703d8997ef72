package main

import (
	"bytes"
	"errors"
	"strings"
	"testing"
)

// A command line that cannot be understood says what is missing and where to look; "help" is
// understood.
func TestCommandLine(t *testing.T) {
	for args, want := range map[string]string{
		"helo":             `unexpected argument helo; "parley --help" shows what there is`,
		"--no-such-flag":   `unknown flag --no-such-flag; "parley --help" shows what there is`,
		"backup":           `parley backup needs <dest>; "parley backup --help" shows how`,
		"move":             `parley move needs one of "out", "in"; "parley move --help" shows how`,
		"help":             "Usage: parley <command>",
		"help backup":      "Usage: parley backup <dest>",
		"help move in":     "Usage: parley move in",
		"help no-such-one": `unexpected argument no-such-one; "parley --help" shows what there is`,
	} {
		var out bytes.Buffer
		err := (&Main{Stdout: &out, Stderr: &out}).ParseFlags(strings.Fields(args))
		var usage *UsageError
		switch {
		case errors.Is(err, errHelp) && strings.HasPrefix(out.String(), want):
		case errors.As(err, &usage) && err.Error() == want:
		default:
			t.Errorf("%s: %v\n%s\nwant %s", args, err, out.String(), want)
		}
	}
}
