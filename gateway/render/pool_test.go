package render

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"parley/conversation"
	"parley/metrics"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var session = conversation.SessionKey{Tenant: "t", Session: "s1"}

func counts(p *Pool) string {
	var b strings.Builder
	for _, result := range []string{"done", "cached", "long", "busy", "failed"} {
		var m dto.Metric
		if err := p.metrics.Rendered.WithLabelValues(result).Write(&m); err != nil {
			return err.Error()
		}
		fmt.Fprintf(&b, "%s %.0f ", result, m.GetCounter().GetValue())
	}
	return strings.TrimSpace(b.String())
}

func TestPool(t *testing.T) {
	slow := func(text string) (string, error) {
		time.Sleep(100 * time.Millisecond)
		return "<p>" + text + "</p>", nil
	}
	for _, c := range []struct {
		name   string
		limits Bounds
		html   func(string) (string, error)
		texts  []string
		want   string // what comes of each
		counts string
	}{
		{"one", DefaultBounds(), slow, []string{"a"}, "<p>a</p>", "done 1 cached 0 long 0 busy 0 failed 0"},
		{"none", Bounds{Waiting: 1, Goroutines: 1}, slow, []string{"a"}, "-", "done 0 cached 0 long 1 busy 0 failed 0"},
		{"too long, and as long as may be", Bounds{TextBytes: 2, Waiting: 9, Goroutines: 1}, slow, []string{"abc", "ab"}, "- <p>ab</p>", "done 1 cached 0 long 1 busy 0 failed 0"},
		{"too many at once", Bounds{TextBytes: 9, Waiting: 2, Goroutines: 1}, slow, []string{"a", "b", "c", "d"}, "<p>a</p> <p>b</p> <p>c</p> -", "done 3 cached 0 long 0 busy 1 failed 0"},
		{"waited too long", Bounds{TextBytes: 9, Waiting: 9, Goroutines: 1}, slow, []string{"a", "b", "c", "d", "e"}, "<p>a</p> <p>b</p> <p>c</p> - -", "done 3 cached 0 long 0 busy 2 failed 0"},
		{"two at a time", Bounds{TextBytes: 9, Waiting: 9, Goroutines: 2}, slow, []string{"a", "b", "c", "d", "e"}, "<p>a</p> <p>b</p> <p>c</p> <p>d</p> <p>e</p>", "done 5 cached 0 long 0 busy 0 failed 0"},
		{"HTML that is much longer", DefaultBounds(), func(string) (string, error) { return strings.Repeat("x", 4096+5), nil }, []string{"a"}, "-", "done 0 cached 0 long 1 busy 0 failed 0"},
		{"an error", DefaultBounds(), func(string) (string, error) { return "x", errors.New("no") }, []string{"a"}, "-", "done 0 cached 0 long 0 busy 0 failed 1"},
		{"a panic", DefaultBounds(), func(string) (string, error) { panic("no") }, []string{"a", "b"}, "- -", "done 0 cached 0 long 0 busy 0 failed 2"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := NewPool(c.limits, metrics.NewGateway(prometheus.NewRegistry()))
				p.html = c.html
				var mu sync.Mutex
				got := make([]string, len(c.texts))
				for i, text := range c.texts {
					p.Render(session, "m", text, func(html string) {
						mu.Lock()
						defer mu.Unlock()
						if got[i] += html; html == "" {
							got[i] += "-"
						}
					})
					synctest.Wait() // the first is taken before the next comes
				}
				time.Sleep(time.Second)
				synctest.Wait()
				mu.Lock()
				defer mu.Unlock()
				if s := strings.Join(got, " "); s != c.want || counts(p) != c.counts {
					t.Errorf("%s, %s\nwant %s, %s", s, counts(p), c.want, c.counts)
				}
				if p.running != 0 || p.line != nil {
					t.Errorf("%d goroutines run, %d wait", p.running, len(p.line))
				}
			})
		})
	}
}

// What was rendered is kept, by session, message and text, up to so many bytes, and
// goes with the session.
func TestCache(t *testing.T) {
	below := conversation.SessionKey{Tenant: "t", Session: "s1/d1"}
	other := conversation.SessionKey{Tenant: "u", Session: "s1"}
	var p *Pool
	render := func(key conversation.SessionKey, message conversation.MessageID, text string) {
		done := make(chan string, 1)
		p.Render(key, message, text, func(html string) { done <- html })
		if html := <-done; html != text+text {
			t.Errorf("%v %s %s became %q", key, message, text, html)
		}
	}
	size := (&entry{key: entryKey{session: "s1", message: "m1"}, html: "aa"}).size()
	for _, c := range []struct {
		name   string
		bytes  int
		do     func()
		counts string
		left   int
	}{
		{"again", 9 * size, func() { render(session, "m1", "a"); render(session, "m1", "a") }, "done 1 cached 1", 1},
		{"another text, message, session, tenant", 9 * size, func() {
			render(session, "m1", "a")
			render(session, "m1", "b")
			render(session, "m2", "a")
			render(below, "m1", "a")
			render(other, "m1", "a")
		}, "done 5 cached 0", 5},
		{"the one that was not used for longest goes", 2 * size, func() {
			render(session, "m1", "a")
			render(session, "m1", "b")
			render(session, "m1", "a")
			render(session, "m1", "c")
			render(session, "m1", "a")
			render(session, "m1", "b")
		}, "done 4 cached 2", 2},
		{"nothing is kept", 0, func() { render(session, "m1", "a"); render(session, "m1", "a") }, "done 2 cached 0", 0},
		{"the session is erased", 9 * size, func() {
			render(session, "m1", "a")
			render(below, "m1", "a")
			render(other, "m1", "a")
			p.Forget(session)
			render(other, "m1", "a")
			render(session, "m1", "a")
		}, "done 4 cached 1", 2},
	} {
		t.Run(c.name, func(t *testing.T) {
			p = NewPool(Bounds{TextBytes: 9, Waiting: 9, CacheBytes: c.bytes, Goroutines: 1}, metrics.NewGateway(prometheus.NewRegistry()))
			p.html = func(text string) (string, error) { return text + text, nil }
			c.do()
			if got := counts(p); !strings.HasPrefix(got, c.counts) {
				t.Errorf("%s, want %s", got, c.counts)
			}
			entries, bytes := 0, 0
			for at := p.cache.used.Front(); at != nil; at = at.Next() {
				entries, bytes = entries+1, bytes+at.Value.(*entry).size()
			}
			in := 0
			for _, tree := range p.cache.trees {
				in += len(tree)
			}
			if entries != c.left || in != c.left || p.cache.bytes != bytes || bytes > c.bytes {
				t.Errorf("%d entries (%d in trees) of %d bytes (%d counted), want %d", entries, in, bytes, p.cache.bytes, c.left)
			}
		})
	}
}
