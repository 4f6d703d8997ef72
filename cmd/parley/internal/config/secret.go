package config

import (
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strings"
)

// A value of the configuration that may be secret says where it is: env:NAME,
// file:PATH, or within other text ${env:NAME} and ${file:PATH}. What it stands
// for is read when it is needed and never kept in Config.

// Lookup reads an environment variable.
type Lookup func(name string) (value string, ok bool)

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

var (
	wholeReference = regexp.MustCompile(`^(env|file):([^{}]+)$`)
	reference      = regexp.MustCompile(`\$\{(env|file):([^{}]+)\}`)
	secretName     = regexp.MustCompile(`(?i)(authorization|cookie|token|secret|passw|credential|api-?_?key|[-_]key$|^key$)`)
)

// spelled is a value with its reference written in the long way.
func spelled(value string) string { return wholeReference.ReplaceAllString(value, "$${$1:$2}") }

// filesBeside is a value whose files are taken relative to the configuration file.
func filesBeside(where problem, value string) string {
	return reference.ReplaceAllStringFunc(spelled(value), func(found string) string {
		parts := reference.FindStringSubmatch(found)
		if parts[1] == "file" {
			return "${file:" + beside(where, parts[2]) + "}"
		}
		return found
	})
}

// references notes the variables that values refer to.
func (l *loader) references(values ...string) {
	for _, v := range values {
		for _, parts := range reference.FindAllStringSubmatch(spelled(v), -1) {
			if parts[1] == "env" {
				l.named(parts[2])
			}
		}
	}
}

// inline refuses a secret that stands in the file itself. Its error does not
// repeat it.
func inline(name, value string) error {
	if strings.Count(value, "${") != len(reference.FindAllString(value, -1)) {
		return errors.New("a reference is written ${env:NAME} or ${file:PATH}")
	}
	if value != "" && secretName.MatchString(name) && !reference.MatchString(spelled(value)) {
		return errors.New("a secret does not stand in the file: write env:NAME or file:PATH, with other text around it \"Bearer ${env:NAME}\"")
	}
	return nil
}

// shownValue is a value as "config print" shows it: references as they are, for
// they are no secrets, anything else behind a name that says so masked.
func shownValue(name, value string) string {
	if secretName.MatchString(name) && !reference.MatchString(spelled(value)) {
		return "***"
	}
	return value
}

// Fill is a value with what its references stand for. Its errors name the
// references only.
func Fill(value string, look Lookup) (string, error) {
	var errs []error
	text := reference.ReplaceAllStringFunc(spelled(value), func(found string) string {
		parts := reference.FindStringSubmatch(found)
		var secret string
		var err error
		if parts[1] == "env" {
			secret, err = variable(parts[2], look)
		} else {
			secret, err = secretFile(parts[2])
		}
		if err != nil {
			errs = append(errs, err)
		}
		return secret
	})
	return text, errors.Join(errs...)
}

func variable(name string, look Lookup) (string, error) {
	value, _ := look(name)
	if value = strings.TrimSpace(value); value == "" {
		return "", fmt.Errorf("the variable %s is not set", name)
	}
	return value, nil
}

// maxSecretFile bounds a file with a key, in bytes.
const maxSecretFile = 64 << 10

func secretFile(path string) (string, error) {
	file, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("the file %s cannot be read: %w", path, errors.Unwrap(err))
	}
	defer func() { _ = file.Close() }()
	data, err := io.ReadAll(io.LimitReader(file, maxSecretFile+1))
	if err != nil {
		return "", fmt.Errorf("the file %s cannot be read: %w", path, errors.Unwrap(err))
	}
	text := strings.TrimSpace(string(data))
	if text == "" || len(data) > maxSecretFile {
		return "", fmt.Errorf("the file %s is empty or too large for a key", path)
	}
	return text, nil
}
