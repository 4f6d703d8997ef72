package gateway_test

import (
	"context"
	"encoding/json"
	"iter"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"parley/conversation"
	"parley/gateway"
)

// engine has another name than its method Sessions.
type engine = gateway.Sessions

// countingSessions counts the events that are read from logs.
type countingSessions struct {
	engine
	events atomic.Int64
}

func (s *countingSessions) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		for record, err := range s.engine.Records(ctx, key, r) {
			s.events.Add(int64(len(record.Events)))
			if !yield(record, err) {
				return
			}
		}
	}
}

// pages reads a list to its end and returns its items, and the sizes of its pages.
func (r *rig) pages(t *testing.T, path string) (items []json.RawMessage, sizes []int) {
	t.Helper()
	for cursor := ""; ; {
		a := r.call("GET", path+"&cursor="+url.QueryEscape(cursor), "").want(t, 200)
		var page struct {
			Items []json.RawMessage `json:"items"`
			Next  *string           `json:"next_cursor"`
		}
		if err := json.Unmarshal(a.body, &page); err != nil {
			t.Fatal(err)
		}
		items, sizes = append(items, page.Items...), append(sizes, len(a.body))
		if page.Next == nil {
			return items, sizes
		}
		if len(page.Items) == 0 {
			t.Fatalf("%s: an empty page with a cursor", path)
		}
		cursor = *page.Next
	}
}

// A page ends by its bytes as well as by its items, its cursor goes on where it ended,
// and an item that is larger than a page comes alone.
func TestPagesEndByBytes(t *testing.T) {
	const most, large = 20_000, 30_000
	r := start(t, func(c *gateway.Config, _ *gateway.Deps) { c.Limits.PageBytes = most })
	r.sessions.Open("s1", "local")
	for i := range 30 {
		size := 3_000
		if i == 10 {
			size = large
		}
		r.call("POST", "/api/tasks", `{"prompt":"`+strings.Repeat("x", size)+`","session":"s1"}`).want(t, 202)
	}
	head, _ := strconv.Atoi(r.call("GET", "/api/sessions/s1", "").want(t, 200).get(t, "head"))
	for path, want := range map[string]int{
		"/api/sessions/s1/events?limit=200": head, "/api/sessions/s1/messages?limit=200": 30, "/api/tasks?limit=200&session=s1": 30, "/api/tasks?limit=200": 30,
	} {
		items, sizes := r.pages(t, path)
		if len(items) != want || len(sizes) < 5 {
			t.Errorf("%s: %d items in %d pages, want %d in more than 4", path, len(items), len(sizes), want)
		}
		seen, over := make(map[string]bool), 0
		for _, item := range items {
			seen[string(item)] = true
		}
		for _, size := range sizes {
			if size > most+100 {
				over++
			}
		}
		if len(seen) != want || over > 1 {
			t.Errorf("%s: %d different items, %d pages too large: %v", path, len(seen), over, sizes)
		}
	}
}

// A page of tasks reads the log of each session once, however many of them are open.
func TestTaskListReadsEachLogOnce(t *testing.T) {
	counting := &countingSessions{}
	r := start(t, func(_ *gateway.Config, d *gateway.Deps) {
		counting.engine, d.Sessions = d.Sessions, counting
	})
	for _, session := range []string{"s1", "s2"} {
		key := r.sessions.Open(session, "local")
		for range 60 {
			r.call("POST", "/api/tasks", `{"prompt":"x","session":"`+session+`"}`).want(t, 202)
		}
		r.sessions.Say(key, 500)
	}
	r.sessions.Do(func() {})
	total := int64(0)
	for _, session := range []string{"s1", "s2"} {
		head, _ := strconv.Atoi(r.call("GET", "/api/sessions/"+session, "").want(t, 200).get(t, "head"))
		total += int64(head)
	}
	counting.events.Store(0)
	listed := r.call("GET", "/api/tasks?limit=200", "").want(t, 200)
	if n := strings.Count(string(listed.body), `"task_id"`); n != 120 {
		t.Errorf("%d tasks", n)
	}
	if read := counting.events.Load(); read > total {
		t.Errorf("read %d events of logs with %d", read, total)
	}
}
