package parley

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"parley/clients/go/internal/pace"
	"parley/clients/go/internal/refusal"
)

// Summary is a session in the list of one's sessions. LastSeq and LastAt are Head and
// ActivityAt by the names that a row of [Client.Watch] has.
type Summary struct {
	Session       string    `json:"session"`
	Title         string    `json:"title"`
	Agent         string    `json:"agent"`
	Owner         string    `json:"owner"`
	Access        string    `json:"access"`
	Closed        bool      `json:"closed"`
	CreatedAt     time.Time `json:"created_at"`
	ActivityAt    time.Time `json:"activity_at"`
	Head          uint64    `json:"head"`
	Seen          uint64    `json:"seen"`
	OpenTasks     int       `json:"open_tasks"`
	AwaitingTasks int       `json:"awaiting_tasks"`
	Status        string    `json:"status"`   // RUNNING, AWAITING_RESPONSE, QUEUED or ""
	Awaiting      int       `json:"awaiting"` // open questions
	LastSeq       uint64    `json:"last_seq"`
	LastAt        time.Time `json:"last_at"`
	Unread        int       `json:"unread"`
	Pinned        bool      `json:"pinned,omitempty"`
	Archived      bool      `json:"archived,omitempty"`
}

// Found is where a search has found its words.
type Found struct {
	Session string `json:"session"`
	Title   string `json:"title"`
	Message string `json:"message,omitempty"`
	Seq     uint64 `json:"seq,omitempty"`
	Snippet string `json:"snippet,omitempty"`
}

// Sessions are one's sessions, newest activity first, read page by page.
func (c *Client) Sessions(ctx context.Context) iter.Seq2[Summary, error] {
	return pages[Summary](ctx, c, "api/sessions", url.Values{})
}

// Search finds sessions by their titles, or, with inMessages, by what was said.
func (c *Client) Search(ctx context.Context, words string, inMessages bool) iter.Seq2[Found, error] {
	in := "titles"
	if inMessages {
		in = "messages"
	}
	return pages[Found](ctx, c, "api/sessions", url.Values{"q": {words}, "in": {in}})
}

// Events are the events of a session behind since, up to what is stored now.
func (c *Client) Events(ctx context.Context, session string, since uint64) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		for {
			query := url.Values{"since": {strconv.FormatUint(since, 10)}}
			var page struct {
				Items []json.RawMessage `json:"items"`
			}
			if err := c.request(ctx, "GET", c.route("api/sessions", session, "events"), query, nil, "", &page); err != nil {
				yield(Event{}, err)
				return
			}
			before := since
			for _, raw := range page.Items {
				e, err := Decode(raw)
				if !yield(e, err) || err != nil {
					return
				}
				since = max(since, e.Seq)
			}
			if since == before {
				return
			}
		}
	}
}

// Session reads what is open in a session.
func (c *Client) Session(ctx context.Context, session string) (Followed, error) {
	var f Followed
	err := c.request(ctx, "GET", c.route("api/sessions", session), nil, nil, "", &f)
	return f, err
}

// Rename gives a session another title.
func (c *Client) Rename(ctx context.Context, session, title string) error {
	return c.json(ctx, "PATCH", c.route("api/sessions", session), map[string]string{"title": title}, nil)
}

// Erase erases a session with its delegations.
func (c *Client) Erase(ctx context.Context, session string) error {
	return c.request(ctx, "DELETE", c.route("api/sessions", session), nil, nil, "", nil)
}

// Call reads a tool call or delegation with its whole arguments and result.
func (c *Client) Call(ctx context.Context, session, call string) (json.RawMessage, error) {
	var raw json.RawMessage
	err := c.request(ctx, "GET", c.route("api/sessions", session, "calls", call), nil, nil, "", &raw)
	return raw, err
}

// Ticket makes a ticket for one WebSocket of a page; it is good for 30 s.
func (c *Client) Ticket(ctx context.Context) (string, error) {
	var made struct {
		Ticket string `json:"ticket"`
	}
	err := c.json(ctx, "POST", c.route("api/tickets"), struct{}{}, &made)
	return made.Ticket, err
}

// pages reads a list.
func pages[T any](ctx context.Context, c *Client, path string, query url.Values) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		for {
			var page struct {
				Items []T    `json:"items"`
				Next  string `json:"next_cursor"`
			}
			var none T
			if err := c.request(ctx, "GET", c.route(path), query, nil, "", &page); err != nil {
				yield(none, err)
				return
			}
			for _, item := range page.Items {
				if !yield(item, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			query.Set("cursor", page.Next)
		}
	}
}

// route is the address of a route; each part may hold a slash, which is escaped but
// in the first.
func (c *Client) route(path string, parts ...string) *url.URL {
	u := c.base.JoinPath(path)
	for _, p := range parts {
		u = u.JoinPath(url.PathEscape(p))
	}
	return u
}

func (c *Client) json(ctx context.Context, method string, to *url.URL, body, out any) error {
	b, err := json.Marshal(body)
	if err != nil {
		return err
	}
	return c.request(ctx, method, to, nil, b, "application/json", out)
}

// httpTries is how often a request is made that the server may take later.
const httpTries = 4

// request makes an HTTP request; what may pass is tried again.
func (c *Client) request(ctx context.Context, method string, to *url.URL, query url.Values, body []byte, kind string, out any) error {
	for try := 0; ; try++ {
		err := c.requestOnce(ctx, method, to, query, body, kind, out)
		var refused *Error
		if !errors.As(err, &refused) || !refused.Retryable || try == httpTries-1 || refused.Code == SessionBusy || refused.Code == StorageFull {
			return err
		}
		if pace.Wait(ctx, max(refused.RetryAfter, pace.Jitter(c.options.LeastPause, c.options.MostPause, try))) != nil {
			return err
		}
	}
}

func (c *Client) requestOnce(ctx context.Context, method string, to *url.URL, query url.Values, body []byte, kind string, out any) error {
	u := *to
	u.RawQuery = query.Encode()
	request, err := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if err != nil {
		return fmt.Errorf("parley: %w", err)
	}
	if kind != "" {
		request.Header.Set("Content-Type", kind)
	}
	token, err := c.options.token(ctx)
	if err != nil {
		return fmt.Errorf("parley: no token: %w", err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return fmt.Errorf("parley: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	got, err := io.ReadAll(io.LimitReader(response.Body, maxFrame))
	switch {
	case err != nil:
		return fmt.Errorf("parley: %w", err)
	case response.StatusCode >= 300:
		return refusedBy(refusal.Of(response, got))
	case out == nil || len(got) == 0:
		return nil
	}
	if content, is := out.(*[]byte); is { // a file
		*content = got
		return nil
	}
	if err := json.Unmarshal(got, out); err != nil {
		return fmt.Errorf("parley: the answer of %s %s: %w", method, to.Path, err)
	}
	return nil
}
