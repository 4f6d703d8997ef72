package secret

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
)

// Lookup reads an environment variable, as os.LookupEnv does.
type Lookup = func(name string) (value string, ok bool)

// The kinds of references.
const (
	Env  = "env"
	File = "file"
)

// A Reference says where one secret is.
type Reference struct {
	Kind string // Env or File
	Name string // of the variable, or the path
}

// String is the reference as it is written within other text.
func (r Reference) String() string { return "${" + r.Kind + ":" + r.Name + "}" }

var (
	reference = regexp.MustCompile(`\$\{(env|file):([^{}]+)\}`)
	whole     = regexp.MustCompile(`^(env|file):([^{}]+)$`)
	sensitive = regexp.MustCompile(`(?i)auth|cookie|credential|dsn|key|pass|private|pwd|secret|session|signature|token`)
	certain   = regexp.MustCompile(`(?i)auth($|[^o]|o[^r]|orization)|cookie|token|secret|passw|pass$|pwd|credential|dsn|session|signature|private|api-?_?key|[-_]key$|^key$`)
)

// Sensitive is true for the name of a header, variable or parameter whose value
// may be a secret: it is left out of texts that others read. It is generous, for
// leaving out too much harms little: AUTHOR is sensitive, too.
func Sensitive(name string) bool { return sensitive.MatchString(name) }

// Certain is true for a name whose value is a secret without doubt: the
// configuration refuses one that is written out. Every certain name is sensitive.
func Certain(name string) bool { return certain.MatchString(name) }

// Spelled is a value with a short reference (env:NAME) written in full.
func Spelled(value string) string { return whole.ReplaceAllString(value, "$${$1:$2}") }

// References are the references in a value, in order; short ones are not seen.
func References(value string) []Reference {
	var list []Reference
	for _, parts := range reference.FindAllStringSubmatch(value, -1) {
		list = append(list, Reference{Kind: parts[1], Name: parts[2]})
	}
	return list
}

// Replace is a value with f of each reference in its place.
func Replace(value string, f func(Reference) string) string {
	return reference.ReplaceAllStringFunc(value, func(found string) string {
		parts := reference.FindStringSubmatch(found)
		return f(Reference{Kind: parts[1], Name: parts[2]})
	})
}

// WellFormed is false for a value with a reference of another kind, such as ${NAME}.
func WellFormed(value string) bool {
	return strings.Count(value, "${") == len(References(value))
}

// The errors of Read, beside those of files.
var (
	ErrNotSet   = errors.New("is not set")
	ErrTooLarge = fmt.Errorf("it has more than %d bytes", maxFile)
	ErrLines    = errors.New("holds more than one line")
)

// maxFile bounds a file with a secret, in bytes.
const maxFile = 64 << 10

// Read is the value of the reference without space around it; it may be "". The
// error is to be said after the reference's name: "is not set", "cannot be read: …",
// "holds more than one line".
func (r Reference) Read(lookup Lookup) (string, error) {
	var value string
	if r.Kind == File {
		data, err := readFile(r.Name)
		if err != nil {
			return "", fmt.Errorf("cannot be read: %w", err)
		}
		value = data
	} else {
		var ok bool
		if value, ok = lookup(r.Name); !ok {
			return "", ErrNotSet
		}
	}
	value = strings.TrimSpace(value)
	if strings.ContainsAny(value, "\x00\r\n") {
		return "", ErrLines
	}
	return value, nil
}

func readFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", bare(err)
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	switch {
	case err != nil:
		return "", bare(err)
	case len(data) > maxFile:
		return "", ErrTooLarge
	}
	return string(data), nil
}

// bare is a file's error without its path, which the reference names already.
func bare(err error) error {
	var at *os.PathError
	if errors.As(err, &at) {
		return at.Err
	}
	return err
}
