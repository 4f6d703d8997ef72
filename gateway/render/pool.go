package render

import (
	"crypto/sha256"
	"errors"
	"sync"
	"time"

	"parley/conversation"
	"parley/metrics"
)

// Bounds bound what rendering may take.
type Bounds struct {
	TextBytes  int `key:"limits.rendered_text_bytes" min:"0" unit:"bytes"` // longer parts are not rendered; 0 = none is
	Waiting    int `key:"limits.rendered_waiting" min:"1"`                 // parts that wait to be rendered; at least 1
	CacheBytes int `key:"limits.rendered_cache_bytes" min:"0" unit:"bytes"`
	Goroutines int `key:"limits.rendered_at_once" min:"1" max:"64"` // parts that are rendered at a time; at least 1
}

// DefaultBounds are those of a configuration that says nothing.
func DefaultBounds() Bounds {
	return Bounds{TextBytes: 16 << 10, Waiting: 256, CacheBytes: 8 << 20, Goroutines: 2}
}

// patience is how long a part waits for a goroutine; what comes behind it for the same
// client waits as long.
const patience = 250 * time.Millisecond

// Pool renders in a few goroutines.
type Pool struct {
	limits  Bounds
	metrics *metrics.Gateway
	cache   *cache
	now     func() time.Time
	html    func(text string) (string, error)

	mu      sync.Mutex
	line    []job
	running int
}

type job struct {
	tree conversation.SessionKey
	key  entryKey
	text string
	at   time.Time
	done func(html string)
}

// NewPool makes a pool. m counts what becomes of the parts.
func NewPool(l Bounds, m *metrics.Gateway) *Pool {
	return &Pool{limits: l, metrics: m, cache: newCache(l.CacheBytes), now: time.Now, html: HTML}
}

// Render calls done once with the HTML of a part: before it returns or, soon, on a
// goroutine of the pool. The HTML is "" if the text is too long, too many wait, or it
// cannot be rendered. Render does not wait, and done must not either.
func (p *Pool) Render(session conversation.SessionKey, message conversation.MessageID, text string, done func(html string)) {
	if len(text) > p.limits.TextBytes {
		p.end("long", "", done)
		return
	}
	j := job{tree: treeOf(session), key: entryKey{session.Session, message, sha256.Sum256([]byte(text))}, text: text, at: p.now(), done: done}
	if html, ok := p.cache.get(j.tree, j.key); ok {
		p.end("cached", html, done)
		return
	}
	p.mu.Lock()
	if len(p.line) >= p.limits.Waiting {
		p.mu.Unlock()
		p.end("busy", "", done)
		return
	}
	p.line = append(p.line, j)
	start := p.running < p.limits.Goroutines
	if start {
		p.running++
	}
	p.mu.Unlock()
	if start {
		go p.run()
	}
}

// Forget drops what is kept of a session and those below it.
func (p *Pool) Forget(session conversation.SessionKey) { p.cache.forget(treeOf(session)) }

func (p *Pool) end(result, html string, done func(string)) {
	p.metrics.Rendered.WithLabelValues(result).Inc()
	done(html)
}

// run renders until nothing waits.
func (p *Pool) run() {
	for {
		p.mu.Lock()
		if len(p.line) == 0 {
			p.line = nil
			p.running--
			p.mu.Unlock()
			return
		}
		j := p.line[0]
		p.line[0] = job{}
		p.line = p.line[1:]
		p.mu.Unlock()
		p.do(j)
	}
}

// do renders one part.
func (p *Pool) do(j job) {
	if p.now().Sub(j.at) > patience {
		p.end("busy", "", j.done)
		return
	}
	html, err := p.convert(j.text)
	switch {
	case errors.Is(err, errLong), len(html) > mostHTML(j.text):
		p.end("long", "", j.done)
	case err != nil:
		p.end("failed", "", j.done)
	default:
		p.cache.put(j.tree, j.key, html)
		p.end("done", html, j.done)
	}
}

// convert is HTML; a text on which the library panics is not rendered.
func (p *Pool) convert(text string) (html string, err error) {
	defer func() {
		if r := recover(); r != nil {
			p.metrics.Panics.Inc()
			html, err = "", errPanic
		}
	}()
	return p.html(text)
}

var errPanic = errors.New("the library panicked")
