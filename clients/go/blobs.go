package parley

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"

	"parley/clients/go/internal/pace"
)

// Upload stores a file in a session, for messages there to name: [Message.Attachments].
// kind is as in Content-Type. One that a lost connection breaks off is made again until
// ctx ends; the same bytes are one file.
func (c *Client) Upload(ctx context.Context, session, name, kind string, content []byte) (Attachment, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(c.ctx, func() { cancel(context.Cause(c.ctx)) })()
	query := url.Values{}
	if name != "" {
		query.Set("name", name)
	}
	for failures := 0; ; failures++ {
		l, err := c.linked(ctx, "upload")
		if err != nil {
			return Attachment{}, err
		}
		if most := l.hello.Limits.AttachmentBytes; most > 0 && len(content) > most {
			return Attachment{}, &Error{Code: TooLarge, Message: fmt.Sprintf("the file is longer than the %d bytes that the server takes", most)}
		}
		var made Attachment
		err = c.request(ctx, "POST", c.route("api/sessions", session, "blobs"), query, content, kind, &made)
		var refused *Error
		if err == nil || errors.As(err, &refused) {
			return made, err
		}
		if pace.Wait(ctx, pace.Jitter(c.options.LeastPause, c.options.MostPause, failures)) != nil {
			return Attachment{}, errors.Join(context.Cause(ctx), err)
		}
	}
}

// Blob reads a file of a session.
func (c *Client) Blob(ctx context.Context, session, hash string) ([]byte, error) {
	var content []byte
	if err := c.request(ctx, "GET", c.route("api/blobs", hash), url.Values{"session": {session}}, nil, "", &content); err != nil {
		return nil, err
	}
	if sum := sha256.Sum256(content); hex.EncodeToString(sum[:]) != hash {
		return nil, fmt.Errorf("parley: the %d bytes that came are not the file %.8s", len(content), hash)
	}
	return content, nil
}
