package httpmodel

import (
	"bytes"
	"context"
	"io"
	"net/http"
)

// maxErrorBody bounds the part of a refusal that is read, in bytes: enough to find its code.
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
	if c.TraceParent != "" {
		req.Header.Set("Traceparent", c.TraceParent)
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
