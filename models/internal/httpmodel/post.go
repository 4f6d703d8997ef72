package httpmodel

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
)

// maxErrorBody is how much of a refusal is read, in bytes: enough to find its code.
const maxErrorBody = 64 << 10

// Post sends body to path below the base URL and returns the answer, whose body
// the caller closes. It asks once: repeating a step is the engine's, where it is
// durable. A status that is not a success is an error of this package. accept is
// the Accept header; "" = the options' own, else application/json.
func (c *Call) Post(ctx context.Context, path, accept string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.client.base.JoinPath(path).String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header = c.client.header.Clone()
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	res, err := c.client.http.Do(req)
	if err != nil {
		return nil, err
	}
	if res.StatusCode < 200 || res.StatusCode > 299 {
		body, _ := io.ReadAll(io.LimitReader(res.Body, maxErrorBody))
		_ = res.Body.Close()
		return nil, &statusError{status: res.StatusCode, header: res.Header, body: body}
	}
	res.Body = &watchedBody{ReadCloser: res.Body, w: c.watch}
	return res, nil
}

// Encode writes a value as one line of JSON, and sets the members of extra in
// it: those that it has are replaced where they stand, others follow in the
// order of their names. The value must be a JSON object if there is any extra.
func Encode(value any, extra map[string]any) (json.RawMessage, error) {
	raw, err := encode(value)
	if err != nil || len(extra) == 0 {
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
