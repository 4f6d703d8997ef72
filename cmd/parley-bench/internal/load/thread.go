package load

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path"
	"regexp"
	"time"
)

// thread measures how a session with a long history opens, so many times: its last
// 50 events on a socket that is there, and all that the page asks for before it
// first shows them: its files, a socket, the list of sessions, the last 200 events.
func thread(ctx context.Context, s *Server, events, times int) (tail, paint result, err error) {
	sessions, err := grow(s, 1, func(head int) bool { return head >= events })
	if err != nil {
		return tail, paint, err
	}
	id := sessions[0].id
	c, err := Dial(s.Addr)
	if err != nil {
		return tail, paint, err
	}
	defer c.Close()
	if tail, err = repeat(times, func() error {
		n, _, err := c.followAt(id, `{"tail":50}`)
		if err == nil && n != 50 {
			err = fmt.Errorf("the last 50 events are %d", n)
		}
		return err
	}, func() error {
		_, err := c.Ask("unfollow", id, `{}`)
		return err
	}); err != nil {
		return tail, paint, err
	}
	paint, err = repeat(times, func() error { return firstPaint(ctx, s.Addr, id) }, nil)
	return tail, paint, err
}

// repeat does a thing so often, and times it alone; after it comes what is not timed.
func repeat(times int, do, after func() error) (r result, err error) {
	for range times {
		began := time.Now()
		if err := do(); err != nil {
			return r, err
		}
		took := time.Since(began)
		r.count, r.took, r.times = r.count+1, r.took+took, append(r.times, took)
		if after != nil {
			if err := after(); err != nil {
				return r, err
			}
		}
	}
	return r, nil
}

// pageFile is a file that the page's document or one of its scripts names.
var pageFile = regexp.MustCompile(`(?:src|href)="(/assets/[a-z0-9./-]+)"|(?:from |import\()'(\./[a-z./-]+)'`)

// firstPaint asks for what the page needs before it shows a session.
func firstPaint(ctx context.Context, addr, session string) error {
	client := &http.Client{Transport: &http.Transport{}} // as one that was never there
	defer client.CloseIdleConnections()
	get := func(place string) (string, error) {
		r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+addr+place, nil)
		if err != nil {
			return "", err
		}
		resp, err := client.Do(r)
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err == nil && resp.StatusCode != http.StatusOK {
			err = fmt.Errorf("%s: %s", place, resp.Status)
		}
		return string(body), err
	}
	named, seen := []string{"/"}, map[string]bool{"/": true}
	for ; len(named) > 0; named = named[1:] {
		text, err := get(named[0])
		if err != nil {
			return err
		}
		for _, m := range pageFile.FindAllStringSubmatch(text, -1) {
			file := m[1]
			if m[2] != "" {
				file = path.Join(path.Dir(named[0]), m[2])
			}
			if !seen[file] {
				seen[file] = true
				named = append(named, file)
			}
		}
	}
	if len(seen) < 5 {
		return fmt.Errorf("the page has only %d files", len(seen))
	}
	c, err := Dial(addr)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := get("/api/sessions"); err != nil {
		return err
	}
	_, _, err = c.followAt(session, `{"tail":200}`)
	return err
}
