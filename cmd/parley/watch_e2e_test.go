package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	parley "parley/clients/go"
)

// mirror is a list of sessions as a client keeps it: read when the watch begins, and
// changed by what it is told.
type mirror struct {
	t     *testing.T
	from  *live
	mu    sync.Mutex
	rows  map[string]string // session → the row as JSON
	told  int
	gones int
}

// keep follows the list until ctx ends.
func (m *mirror) keep(ctx context.Context, c *parley.Client) {
	for row, err := range c.Watch(ctx) {
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			m.t.Errorf("the watch ended: %v", err)
			return
		case row == nil:
			rows := m.read()
			m.mu.Lock()
			m.rows = rows
			m.mu.Unlock()
		default:
			m.mu.Lock()
			if m.told++; row.Gone {
				m.gones++
				delete(m.rows, row.Session)
			} else {
				m.rows[row.Session] = asRow(row.Summary)
			}
			m.mu.Unlock()
		}
	}
}

func asRow(s parley.Summary) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// read is the list as it is.
func (m *mirror) read() map[string]string {
	status, body := m.from.do("GET", "/api/sessions?limit=200&archived=all", "")
	var page struct{ Items []parley.Summary }
	if err := json.Unmarshal(body, &page); err != nil {
		m.t.Errorf("%d %s: %v", status, body, err)
	}
	rows := map[string]string{}
	for _, s := range page.Items {
		rows[s.Session] = asRow(s)
	}
	return rows
}

// until waits until the mirror is as it should be.
func (m *mirror) until(ctx context.Context, what string, is func(rows map[string]string) (wrong string)) {
	m.t.Helper()
	for {
		m.mu.Lock()
		wrong := "the list was not read"
		if m.rows != nil {
			wrong = is(m.rows)
		}
		m.mu.Unlock()
		if wrong == "" {
			return
		}
		select {
		case <-ctx.Done():
			m.t.Fatalf("%s: %s", what, wrong)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// Two nodes and PostgreSQL. A list is watched at one node while sessions are talked to,
// renamed, pinned, archived and erased at the other one, which is then killed: in the end
// it is what GET /api/sessions says (N-01, N-03).
func TestWatchedListIsTheListAfterAKill(t *testing.T) {
	nodes := clustered(t, 2, "--set", "cluster.lease=2s")
	here, there := nodes[0], nodes[1]
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	m := &mirror{t: t, from: here}
	watching, enough := context.WithCancel(ctx)
	var watched sync.WaitGroup
	watched.Go(func() { m.keep(watching, goClient(t, here.addr, parley.Options{})) })
	defer watched.Wait()
	defer enough()

	var sessions []string
	for range 12 {
		sessions = append(sessions, there.session())
	}
	m.until(ctx, "new sessions", func(rows map[string]string) string {
		return map[bool]string{false: fmt.Sprintf("%d rows", len(rows))}[len(rows) == len(sessions)]
	})
	for _, gone := range sessions[10:] {
		if status, body := there.do("DELETE", "/api/sessions/"+gone, ""); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, body)
		}
	}
	sessions = sessions[:10]
	m.until(ctx, "erased sessions", func(rows map[string]string) string {
		return map[bool]string{false: fmt.Sprintf("%d rows", len(rows))}[len(rows) == len(sessions)]
	})

	const before, after = 60, 60 // changes
	var done atomic.Int64
	killed, over := make(chan struct{}), make(chan struct{})
	var work sync.WaitGroup
	for k, session := range sessions {
		work.Go(func() {
			for n := 0; ; n++ {
				method, path, body := "PATCH", "", fmt.Sprintf(`{"title":"title %d of %d"}`, n, k)
				switch n % 4 {
				case 1:
					method, path, body = "POST", "/messages", fmt.Sprintf(`{"client_msg_id":"m%d","text":"/say %d"}`, n, n)
				case 2:
					body = fmt.Sprintf(`{"pinned":%v}`, n/4%2 == 0)
				case 3:
					body = fmt.Sprintf(`{"archived":%v}`, n/4%2 == k%2)
				}
				for try := 0; ; try++ {
					select {
					case <-over:
						return
					default:
					}
					at := there
					if try%2 == 1 {
						at = here
					}
					if status, _ := once(ctx, at, method, "/api/sessions/"+session+path, body); status/100 == 2 {
						break
					}
					if ctx.Err() != nil {
						t.Errorf("change %d of session %d is not taken", n, k)
						return
					}
					<-time.After(20 * time.Millisecond)
				}
				if done.Add(1) == before {
					close(killed)
				}
				if done.Load() >= before+after {
					return
				}
			}
		})
	}
	<-killed
	there.kill()
	work.Wait()
	close(over)
	if status, body := here.do("DELETE", "/api/sessions/"+sessions[0], ""); status != http.StatusNoContent {
		t.Fatalf("%d %s", status, body)
	}
	m.until(ctx, "the end", func(rows map[string]string) string {
		is := m.read()
		for session, row := range is {
			if rows[session] != row {
				return fmt.Sprintf("%s is\n%s\nand the watcher has\n%s", session, row, rows[session])
			}
		}
		return map[bool]string{false: fmt.Sprintf("%d rows, and %d for the watcher", len(is), len(rows))}[len(is) == len(rows) && len(is) == len(sessions)-1]
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.gones < 3 {
		t.Errorf("only %d rows went away", m.gones)
	}
	t.Logf("%d changes, %d rows told, %d gone", done.Load(), m.told, m.gones)
}
