package find

import (
	"container/heap"
	"context"
	"errors"
	"iter"
	"math"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/search"
	"parley/metrics"
)

// Logs is what a search reads.
type Logs interface {
	Sessions(ctx context.Context, p conversation.Page) iter.Seq2[conversation.Summary, error]
	Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error]
	Summary(ctx context.Context, key conversation.SessionKey) (conversation.Summary, error)
}

// Finder searches. It owns no goroutine.
type Finder struct {
	logs    Logs
	index   search.Index // nil = there is none
	guide   search.Guide // the same, if it is one
	o       Options
	metrics *metrics.Search
	turns   *turns
}

// New makes a Finder. index may be nil.
func New(logs Logs, index search.Index, o Options, m *metrics.Search) *Finder {
	o = o.filled()
	guide, _ := index.(search.Guide)
	return &Finder{logs: logs, index: index, guide: guide, o: o, metrics: m, turns: newTurns(o.AtOnce, func(n int) { m.Waiting.Add(float64(n)) })}
}

// Ask is one request to search messages.
type Ask struct {
	Tenant conversation.TenantID
	User   conversation.UserID
	Query  search.Query
	Cursor string
	Limit  int
}

// Found is a message or part that was found.
type Found struct {
	Session conversation.Summary
	search.Said
	Snippet string
	Marks   []search.Span
}

// errOff answers where messages are not searched.
var errOff = conversation.Errorf(conversation.BadRequest, "messages are not searched here (search.messages is false); in=titles is")

// Read reads a query, for titles or messages.
func (f *Finder) Read(q string) (search.Query, error) { return search.Read(q, f.o.Words) }

// Messages finds the messages and parts that have all words of a query. next continues the
// search; "" = there are no more. There may be fewer than were asked for, or none, and next.
func (f *Finder) Messages(ctx context.Context, a Ask) (all []Found, next string, err error) {
	began := time.Now()
	defer func() {
		result := "ok"
		switch e := new(conversation.Error); {
		case err == nil && next != "" && len(all) < a.Limit:
			result = "part"
		case errors.Is(err, errBusy):
			result = "busy"
		case errors.As(err, &e):
			result = "refused"
		case err != nil:
			result = "failed"
		}
		f.metrics.Searches.WithLabelValues(result).Inc()
		f.metrics.Seconds.Observe(time.Since(began).Seconds())
	}()
	if !f.o.Messages {
		return nil, "", errOff
	}
	c, err := readCursor(a.Cursor)
	if err != nil {
		return nil, "", err
	}
	done, err := f.turns.take(ctx, who{a.Tenant, a.User})
	if err != nil {
		return nil, "", err
	}
	defer done()
	s := scan{finder: f, ask: a, from: c, left: f.o.Texts}
	if err := s.open(ctx); err != nil {
		return nil, "", err
	}
	all, next, err = s.run(ctx)
	f.metrics.Texts.Observe(float64(f.o.Texts - s.left))
	return all, next, err
}

// scan is one search in messages.
type scan struct {
	finder *Finder
	ask    Ask
	from   cursor
	left   int // how much may still be looked at
	walks  walks
	hits   []Found // not given yet, in order
	behind string  // the cursor of the next window; "" = there is none
	where  search.Where
	rest   *walk // stands for the sessions that where has not looked at yet; nil = there are none
	some   int   // of them are looked at next
}

// open takes the sessions of the window that the user may read, or begins to ask for those
// that have something.
func (s *scan) open(ctx context.Context) error {
	if guide := s.finder.guide; guide != nil {
		where, ok, err := guide.Where(ctx, s.ask.Tenant, s.ask.User, s.ask.Query, s.from.window, s.finder.o.Sessions)
		if err != nil {
			return err
		}
		if ok {
			s.where, s.behind, s.rest, s.some = where, where.Next, &walk{}, leastSessions
			s.wait()
			return nil
		}
	}
	looked, last := 0, ""
	for row, err := range s.finder.logs.Sessions(ctx, conversation.Page{Tenant: s.ask.Tenant, Cursor: s.from.window}) {
		if err != nil {
			return err
		}
		if looked++; looked > s.finder.o.Sessions {
			s.behind = last
			break
		}
		last = row.PageCursor()
		if row.Reads(s.ask.User) {
			s.walks = append(s.walks, begin(row, s.from.after, s.ask.Query))
		}
	}
	heap.Init(&s.walks)
	return nil
}

// wait puts what where has not looked at yet where its newest text may be.
func (s *scan) wait() {
	latest, ok := s.where.Left()
	if !ok {
		s.rest = nil
		return
	}
	if s.rest.bound = (spot{latest, "", first.seq}); compare(s.rest.bound, s.from.after) < 0 {
		s.rest.bound = s.from.after
	}
	heap.Push(&s.walks, s.rest)
}

// more looks at some more sessions.
func (s *scan) more(ctx context.Context) error {
	heap.Pop(&s.walks)
	some, err := s.where.Some(ctx, s.some)
	if err != nil {
		return err
	}
	s.some *= 2
	for _, c := range some {
		row := conversation.Summary{Key: conversation.SessionKey{Tenant: s.ask.Tenant, Session: c.Session}, Activity: time.UnixMilli(c.Latest)}
		w := begin(row, s.from.after, s.ask.Query)
		w.unseen = true
		if c.Kept {
			w.begun, w.inIndex, w.through = true, true, math.MaxInt64
		}
		heap.Push(&s.walks, w)
	}
	s.wait()
	return nil
}

// admits reads the row of a session that was not listed; false = the user may not read it,
// or it is gone.
func (s *scan) admits(ctx context.Context, w *walk) (bool, error) {
	if !w.unseen {
		return true, nil
	}
	row, err := s.finder.logs.Summary(ctx, w.of.Key)
	if errors.Is(err, conversation.ErrNotFound) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	w.of, w.unseen = row, false
	return row.Reads(s.ask.User), nil
}

// run looks at the newest texts first, until there is enough or nothing more may be looked at.
func (s *scan) run(ctx context.Context) (all []Found, next string, err error) {
	last := s.from.after
	for len(all) < s.ask.Limit {
		if len(s.hits) > 0 && (len(s.walks) == 0 || compare(s.hits[0].spot(), s.walks[0].bound) <= 0) {
			hit := s.hits[0]
			s.hits = s.hits[1:]
			last = hit.spot()
			there, err := s.show(ctx, &hit)
			if err != nil {
				return nil, "", err
			}
			if there {
				all = append(all, hit)
			}
			continue
		}
		if len(s.walks) == 0 { // the window is done
			if s.behind == "" {
				return all, "", nil
			}
			return all, cursor{first, s.behind}.String(), nil
		}
		if w := s.walks[0]; s.left <= 0 && compare(w.bound, s.from.after) > 0 { // each request gets on
			last = w.bound
			break
		}
		if err := s.step(ctx); err != nil {
			return nil, "", err
		}
	}
	return all, cursor{last, s.from.window}.String(), nil
}

// step reads on in the session that may have the newest text.
func (s *scan) step(ctx context.Context) error {
	w := s.walks[0]
	if w == s.rest {
		return s.more(ctx)
	}
	var some []search.Said
	cost, done := 0, true
	admitted, err := true, error(nil)
	if !w.begun { // of what the index has, only who has a text is asked for his row
		admitted, err = s.admits(ctx, w)
	}
	if admitted && err == nil {
		some, cost, done, err = w.next(ctx, s.finder)
	}
	some = slices.DeleteFunc(some, func(said search.Said) bool { return !s.ask.Query.In(said.Folded) })
	if len(some) > 0 && err == nil {
		if admitted, err = s.admits(ctx, w); !admitted {
			some, done = nil, true
		}
	}
	if err != nil && !errors.Is(err, conversation.ErrNotFound) { // erased meanwhile
		if ctx.Err() != nil || !errors.Is(err, conversation.ErrDamaged) && !errors.Is(err, conversation.ErrTooNew) {
			return err
		}
		s.finder.metrics.LeftOut.Inc() // one session that cannot be read is not in the way of all
	}
	s.left -= cost
	for _, said := range some {
		hit := Found{Session: w.of, Said: said}
		i, _ := slices.BinarySearchFunc(s.hits, hit, func(a, b Found) int { return compare(a.spot(), b.spot()) })
		s.hits = slices.Insert(s.hits, i, hit)
	}
	if done || err != nil {
		heap.Pop(&s.walks)
	} else {
		heap.Fix(&s.walks, 0)
	}
	return nil
}

// Cursor continues a search behind what it has found.
func (f *Found) Cursor(a Ask) string {
	c, _ := readCursor(a.Cursor)
	return cursor{f.spot(), c.window}.String()
}

func (f *Found) spot() spot { return spot{f.At.UnixMilli(), f.Session.Key.Session, f.Seq} }

// show reads the text of what was found; false = it is not there any more.
func (s *scan) show(ctx context.Context, f *Found) (there bool, err error) {
	for r, err := range s.finder.logs.Records(ctx, f.Session.Key, conversation.Range{After: f.Text - 1, Before: f.Text + 1, Limit: 1}) {
		if err != nil {
			return false, err
		}
		for _, e := range r.Events {
			if c := search.Of(e); e.Seq == f.Text && c.Message == f.Message {
				f.Snippet, f.Marks = s.ask.Query.Snippet(c.Text)
				return true, nil
			}
		}
	}
	return false, nil
}

// walks is a heap: the first one may have the newest text.
type walks []*walk

func (w walks) Len() int           { return len(w) }
func (w walks) Less(i, j int) bool { return compare(w[i].bound, w[j].bound) < 0 }
func (w walks) Swap(i, j int)      { w[i], w[j] = w[j], w[i] }
func (w *walks) Push(x any)        { *w = append(*w, x.(*walk)) }
func (w *walks) Pop() any {
	old := *w
	last := old[len(old)-1]
	*w = old[:len(old)-1]
	return last
}
