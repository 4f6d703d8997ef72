package push

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/outbound"
	"parley/gateway/service"
)

// TaskSource makes notices of what happens to tasks.
type TaskSource interface {
	// Notices begins to tell what happens to a registration's task behind a notice that was
	// dealt with; 0 = none was. It fails with ErrNoAccess or ErrNoKey. The tale ends with ctx.
	Notices(ctx context.Context, r *Registration, after uint64) (Tale, error)
}

// Tale is what happens to one task. One goroutine uses it.
type Tale interface {
	// Next is the next notice. It fails with io.EOF when the task has ended and all was told,
	// with ErrNoAccess, or with something that passes.
	Next() (Notice, error)
	// Check fails with ErrNoAccess when the user may not see the task any more.
	Check() error
	Close()
}

// Notice is one thing that has happened.
type Notice struct {
	Number uint64    // greater than that of the one before
	At     time.Time // zero = it is told as of now
	Type   string    // of the body
	Body   []byte
}

// ErrNoAccess ends a registration: its session is gone, its user may not see it any more, or has
// lost the key by which it was made.
var ErrNoAccess = errors.New("the task cannot be seen any more")

// ErrNoKey is ErrNoAccess where the key by which a registration was made is not known. Just made, it
// may be known to other nodes only: the file of keys reaches them one by one.
var ErrNoKey = fmt.Errorf("%w: its key is not known", ErrNoAccess)

// keyTime is how long a key may take to be known where Run runs.
const keyTime = 5 * time.Minute

// The reasons why a registration has ended, as metrics have them.
const (
	whyEnded    = "task_ended"
	whyAccess   = "no_access"
	whyUnsealed = "unreadable"
	whyRules    = "not_allowed" // the operator has taken its host away
	whyDeleted  = "deleted"     // by its user: metrics do not count it, and nobody can ask for it
)

// Whys are the reasons why registrations end.
func Whys() []string {
	return []string{whyEnded, whyAccess, whyUnsealed, whyRules, outbound.ReasonGone, outbound.ReasonPrivate}
}

// keepEnded is how long a registration that has ended can be asked for.
const keepEnded = 24 * time.Hour

// scanPause is how often all rows are looked through: whoever registers wakes Run besides.
const scanPause = 10 * time.Second

// wakes is how many registrations may wait to be looked at; those beyond wait for the next look
// through all rows.
const wakes = 256

// wake has a row looked at where Run runs.
func (p *Pushes) wake(key chats.Key) {
	if p.Wake == nil {
		p.look(key)
		return
	}
	if text, err := json.Marshal(key); err == nil {
		p.Wake(text)
	}
}

// Answer takes, where Run runs, the text that Wake was called with.
func (p *Pushes) Answer(text []byte) {
	var key chats.Key
	if json.Unmarshal(text, &key) == nil && key.Channel == Channel {
		p.look(key)
	}
}

func (p *Pushes) look(key chats.Key) {
	select {
	case p.woken <- key:
	default:
	}
}

// Run serves registrations until ctx ends, and ends with all that it has started. It may be called
// again. The error is that the store was closed.
func (p *Pushes) Run(ctx context.Context) error {
	defer p.poster.CloseIdle()
	for _, why := range Whys() {
		p.Metrics.Ended.WithLabelValues(why) // there from the beginning
	}
	ctx, end := context.WithCancel(ctx)
	r := &run{Pushes: p, ctx: ctx, senders: map[chats.Key]*sender{}, done: make(chan *sender)}
	defer r.group.Wait()
	defer end()
	tick := time.NewTicker(scanPause)
	defer tick.Stop()
	err := r.scan()
	for !errors.Is(err, conversation.ErrClosed) {
		if err != nil && ctx.Err() == nil {
			p.Logger.Warn("registrations could not be read; trying again", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			err = r.scan()
		case key := <-p.woken:
			err = r.one(key)
		case s := <-r.done:
			delete(r.senders, s.key)
			err = nil
			if s.again {
				err = r.one(s.key)
			}
		}
	}
	return err
}

// run is what one call of Run knows.
type run struct {
	*Pushes
	ctx     context.Context
	senders map[chats.Key]*sender
	done    chan *sender // those that have ended
	group   sync.WaitGroup
}

// scan looks through all rows. What is served as it is, and what has ended not long ago, is not kept
// meanwhile: of each row only one thing is to be known, and there may be many.
func (r *run) scan() error {
	due, seen := []kept{}, map[chats.Key]bool{}
	for tenant, err := range r.Store.Rows(r.ctx, tenantsOwner, tenants) {
		if err != nil {
			return err
		}
		for k, err := range r.all(r.ctx, conversation.TenantID(tenant.Chat), "") {
			if err != nil {
				return err
			}
			if seen[k.Key] = true; r.due(k) {
				due = append(due, k)
			}
		}
	}
	for _, k := range due {
		if err := r.serve(k); err != nil {
			return err
		}
	}
	for key, s := range r.senders {
		if !seen[key] {
			s.end()
		}
	}
	return nil
}

// due is true for a row of which serve has something to do.
func (r *run) due(k kept) bool {
	switch s := r.senders[k.Key]; {
	case s != nil:
		return s.row.Round != k.Round || !k.row.Ended.IsZero() // it began anew, or was deleted
	case !k.row.Ended.IsZero():
		return r.Now().Sub(k.row.Ended) > keepEnded
	default:
		return true
	}
}

// one looks at one row.
func (r *run) one(key chats.Key) error {
	k := kept{}
	var err error
	if k.Row, err = r.Store.Load(r.ctx, key); err != nil {
		return err
	}
	if k.Revision == 0 || json.Unmarshal(k.Value, &k.row) != nil {
		if s := r.senders[key]; s != nil {
			s.end()
		}
		return nil
	}
	return r.serve(k)
}

// serve has a registration served as it is now, or forgets one that has ended long ago.
func (r *run) serve(k kept) error {
	s := r.senders[k.Key]
	switch {
	case !r.due(k):
	case s != nil:
		s.again = true
		s.end()
	case !k.row.Ended.IsZero():
		return r.drop(r.ctx, k.Row)
	default:
		s := &sender{Pushes: r.Pushes, key: k.Key, stored: k.Row, row: k.row, log: r.Logger.With("task", string(k.Task), "push", k.ID)}
		s.ctx, s.end = context.WithCancel(r.ctx)
		r.senders[k.Key] = s
		r.group.Go(func() {
			s.run()
			select {
			case r.done <- s:
			case <-r.ctx.Done():
			}
		})
	}
	return nil
}

// sender serves one registration. One goroutine runs it.
type sender struct {
	*Pushes
	ctx context.Context
	end context.CancelFunc
	key chats.Key
	log *slog.Logger

	again bool // of run: it is to be looked at when this one has ended

	stored chats.Row
	row    row
	reg    *Registration
	keys   [][]byte // sign, where the token is a secret
	tale   Tale
}

// errOther ends a sender whose row is another one now.
var errOther = errors.New("the registration has changed")

// run sends until the registration has ended or is another one.
func (s *sender) run() {
	defer s.end()
	defer func() {
		if r := recover(); r != nil { // the others go on; this one is begun again with the next look
			s.log.Error("telling a client of its task crashed", "panic", r, "stack", service.Stack())
		}
	}()
	s.Metrics.Open.Inc()
	defer s.Metrics.Open.Dec()
	why, ok := whyUnsealed, false
	if s.reg, ok = s.registration(s.key, &s.row); ok {
		if key, err := outbound.ParseSecret(s.reg.Target.Token); err == nil {
			s.keys, s.reg.Target.Token = [][]byte{key}, ""
		}
		defer func() {
			if s.tale != nil {
				s.tale.Close()
			}
		}()
		if why = whyRules; s.rules.allows(s.reg.Target.URL) == nil {
			why = s.tell()
		}
	}
	if why == "" {
		return
	}
	s.row.Ended, s.row.Why = s.Now(), why
	if err := s.save(); err != nil {
		return
	}
	s.Metrics.Ended.WithLabelValues(why).Inc()
	level := slog.LevelWarn
	if why == whyEnded {
		level = slog.LevelDebug
	}
	s.log.Log(s.ctx, level, "nothing more is sent of the task", "reason", why)
}

// tell sends what happens. The text says why the registration has ended; "" = it has not.
func (s *sender) tell() string {
	next := outbound.Pauses(s.rules.MaxPause)
	for {
		before := s.row.After
		err := s.follow()
		if s.row.After > before { // it went well for a while
			next = outbound.Pauses(s.rules.MaxPause)
		}
		switch {
		case errors.Is(err, io.EOF):
			return whyEnded
		case errors.Is(err, ErrNoKey) && s.Now().Sub(s.row.Put) < keyTime:
		case errors.Is(err, ErrNoAccess):
			return whyAccess
		case s.ctx.Err() != nil, errors.Is(err, errOther), errors.Is(err, conversation.ErrClosed):
			return ""
		}
		var f *outbound.NotTaken
		if errors.As(err, &f) {
			return f.Reason
		}
		s.log.Debug("the task could not be followed; trying again", "error", err)
		if outbound.Rest(s.ctx, next()) != nil {
			return ""
		}
	}
}

// follow sends what happens to the task, until something is in the way.
func (s *sender) follow() error {
	if s.tale != nil {
		s.tale.Close()
	}
	var err error
	if s.tale, err = s.source.Notices(s.ctx, s.reg, s.row.After); err != nil {
		s.tale = nil
		return err
	}
	for {
		n, err := s.tale.Next()
		if err != nil {
			return err
		}
		if err := s.deliver(n); err != nil {
			return err
		}
		s.row.After = n.Number
		if err := s.save(); err != nil {
			return err
		}
	}
}

// deliver sends a notice until it is taken or is too old. A *outbound.NotTaken ends the
// registration.
func (s *sender) deliver(n Notice) error {
	next, since := outbound.Pauses(s.rules.MaxPause), n.At
	if since.Before(s.row.Made) {
		since = s.row.Made
	}
	for try := 0; ; try++ {
		if s.Now().Sub(since) > s.rules.GiveUp {
			s.Metrics.Skipped.Inc()
			s.log.Warn("a notice is too old and was never taken", "number", n.Number)
			return nil
		}
		if err := s.check(); err != nil {
			return err
		}
		if try > 0 {
			s.Metrics.Retries.Inc()
		}
		failed := s.poster.Post(s.ctx, s.reg.Target.URL, s.header(n), n.Body)
		switch {
		case failed == nil:
			s.Metrics.Sent.Inc()
			s.Metrics.Delivery.Observe(s.Now().Sub(since).Seconds())
			return nil
		case s.ctx.Err() != nil:
			return s.ctx.Err()
		}
		s.Metrics.Failed.WithLabelValues(failed.Reason).Inc()
		if failed.Reason == outbound.ReasonGone || failed.Reason == outbound.ReasonPrivate {
			return failed
		}
		pause := max(next(), failed.After)
		level := slog.LevelDebug
		if try == 0 {
			level = slog.LevelInfo // it is a client's address: nothing that the operator can mend
		}
		s.log.Log(s.ctx, level, "a notice was not taken; trying again", "number", n.Number, "reason", failed.Reason, "error", failed.Text, "pause", pause)
		if err := outbound.Rest(s.ctx, pause); err != nil {
			return err
		}
	}
}

// check is asked before each try: whether the registration is still there, and may be served.
func (s *sender) check() error {
	now, err := s.Store.Load(s.ctx, s.key)
	switch {
	case err != nil:
		return err
	case now.Revision != s.stored.Revision:
		return errOther
	}
	return s.tale.Check()
}

// header is that of a notice.
func (s *sender) header(n Notice) http.Header {
	t := &s.reg.Target
	// Users may give one id, or one address without an id, and be told at one receiver.
	id := string(s.reg.Task) + ":" + s.reg.ID + ":" + placeOf(s.reg.User.User)[:8] + ":" + strconv.FormatUint(n.Number, 10)
	h := http.Header{"Content-Type": {n.Type}, outbound.HeaderID: {id}}
	timestamp, signatures := outbound.Sign(s.keys, id, s.Now(), n.Body)
	h[outbound.HeaderTimestamp] = []string{timestamp}
	if signatures != "" {
		h[outbound.HeaderSignature] = []string{signatures}
	}
	if t.Token != "" {
		h.Set(TokenHeader, t.Token)
	}
	if t.Credentials != "" {
		h.Set("Authorization", t.Scheme+" "+t.Credentials)
	}
	return h
}

// TokenHeader is the header with the token that a client has registered.
const TokenHeader = "X-A2A-Notification-Token"

// saveTime is how long a save may take that has begun when the run ends: what was sent is to be
// remembered.
const saveTime = 5 * time.Second

// save stores the row. It fails when that is another one now, or the store is closed.
func (s *sender) save() error {
	value, err := json.Marshal(s.row)
	if err != nil {
		return err
	}
	next := outbound.Pauses(s.rules.MaxPause)
	for {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(s.ctx), saveTime)
		r := s.stored
		r.Value = value
		err := s.Store.Save(ctx, r.Tenant, []chats.Row{r}, nil)
		if err != nil && !errors.Is(err, conversation.ErrClosed) && !errors.Is(err, chats.ErrErased) {
			// It was written, or it is another one, or neither: look.
			now, lost := s.Store.Load(ctx, s.key)
			switch {
			case lost != nil:
				err = errors.Join(err, lost)
			case now.Revision == r.Revision+1 && string(now.Value) == string(value):
				err = nil
			case now.Revision != r.Revision:
				err = errOther
			}
		}
		cancel()
		switch {
		case err == nil:
			s.stored.Revision++
			return nil
		case errors.Is(err, chats.ErrErased):
			return ErrNoAccess
		case errors.Is(err, errOther), errors.Is(err, conversation.ErrClosed):
			return err
		}
		s.log.Debug("the store did not do it; trying again", "error", err)
		if err := outbound.Rest(s.ctx, next()); err != nil {
			return err
		}
	}
}
