package httpmodel

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// Encode writes a value as one line of JSON, and sets the members of extra in
// it: those that it has are replaced where they stand, others follow in the
// order of their names. The members that are named in without are left out. The
// value must be a JSON object if there is any of these.
func Encode(value any, extra map[string]any, without ...string) (json.RawMessage, error) {
	raw, err := encode(value)
	if err != nil || len(extra)+len(without) == 0 {
		return raw, err
	}
	members := json.NewDecoder(bytes.NewReader(raw))
	if _, err := members.Token(); err != nil {
		return nil, err
	}
	out := []byte{'{'}
	add := func(name string, value any) error {
		key, err := encode(name)
		if err != nil {
			return err
		}
		raw, err := encode(value)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(append(append(out, key...), ':'), raw...)
		return nil
	}
	left := maps.Clone(extra)
	for members.More() {
		key, err := members.Token()
		if err != nil {
			return nil, err
		}
		name, _ := key.(string)
		var own json.RawMessage
		if err := members.Decode(&own); err != nil {
			return nil, err
		}
		if slices.Contains(without, name) {
			continue
		}
		value, replaced := left[name]
		if !replaced {
			value = own
		}
		delete(left, name)
		if err := add(name, value); err != nil {
			return nil, err
		}
	}
	for _, name := range slices.Sorted(maps.Keys(left)) {
		if err := add(name, left[name]); err != nil {
			return nil, err
		}
	}
	return append(out, '}'), nil
}

// encode is json.Marshal without escapes for HTML, which would cost bytes and
// make logged requests hard to read.
func encode(value any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}
