package webhook

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/feed"
)

// Channel is the channel of the rows that hold the cursors of webhooks.
const Channel chats.Channel = "webhook"

// sender sends one tenant's feed to one hook. One goroutine runs it.
type sender struct {
	d      *Deliverer
	hook   Hook
	keys   [][]byte
	client *http.Client
	idle   func() // closes connections that are open still
	log    *slog.Logger

	row    chats.Row // as it was stored last
	cursor cursor
	lost   chats.Number // skipped, and not in the log yet
}

// cursor is the value of a hook's row.
type cursor struct {
	After chats.Number `json:"after"`          // the last entry that was dealt with
	Gone  string       `json:"gone,omitempty"` // a hash of the address that has said that it is gone
}

func newSender(d *Deliverer, h Hook, keys [][]byte) *sender {
	s := &sender{d: d, hook: h, keys: keys, log: d.n.Logger.With("webhook", h.Name), idle: func() {}}
	if d.n.Transport != nil {
		s.client = client(d.n.Transport, h)
		return s
	}
	c, t := newClient(h)
	s.client, s.idle = c, t.CloseIdleConnections
	return s
}

// address is a hash of the hook's address, which may hold a token.
func (s *sender) address() string {
	sum := sha256.Sum256([]byte(s.hook.URL))
	return hex.EncodeToString(sum[:8])
}

// errGone says that the receiver wants nothing any more.
var errGone = errors.New("the receiver is gone")

// run sends until ctx ends, the receiver is gone, or the store is closed.
func (s *sender) run(ctx context.Context) error {
	defer s.idle()
	m := s.d.n.Metrics
	m.Sent.WithLabelValues(s.hook.Name)    // there from the beginning
	m.Skipped.WithLabelValues(s.hook.Name) // and this one: an alert waits for its first
	defer m.Age.WithLabelValues(s.hook.Name).Set(0)
	defer m.Behind.WithLabelValues(s.hook.Name).Set(0)
	watch, err := s.begin(ctx)
	if watch != nil {
		defer watch.Close()
	}
	for err == nil {
		var entries []chats.Entry
		if entries, err = watch.Next(ctx); err == nil {
			err = s.page(ctx, watch, entries)
		}
	}
	gone := 0.0
	if errors.Is(err, errGone) {
		gone, err = 1, nil
		s.log.Warn("the receiver has answered that it is gone (410): nothing is sent there any more, until the webhook gets another url or name")
	}
	m.Ended.WithLabelValues(s.hook.Name).Set(gone)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// begin reads the cursor and opens a watch behind it.
func (s *sender) begin(ctx context.Context) (watch *feed.Watch, err error) {
	err = s.again(ctx, "reading the cursor", func() error { return s.load(ctx) })
	if err != nil {
		return nil, err
	}
	if s.cursor.Gone == s.address() {
		return nil, errGone
	}
	s.cursor.Gone = ""
	after := &s.cursor.After
	if s.row.Revision == 0 {
		after = nil // it is new: from now on
	}
	var from feed.Position
	err = s.again(ctx, "opening the feed", func() (err error) { watch, from, err = s.d.n.Feeds.Open(ctx, s.hook.tenant(), after); return err })
	if err != nil {
		return nil, err
	}
	if from.Reason == "trimmed" {
		s.skipped(from.First - 1 - *after)
	}
	s.cursor.After = from.First - 1
	return watch, s.save(ctx)
}

// page sends entries, in order.
func (s *sender) page(ctx context.Context, watch *feed.Watch, entries []chats.Entry) error {
	defer s.tellLost()
	last := entries[len(entries)-1].Number
	waiting := s.d.n.Metrics.Behind.WithLabelValues(s.hook.Name)
	moved := false // the cursor, since it was saved
	for _, e := range entries {
		waiting.Set(float64(watch.Behind() + last - e.Number + 1))
		if e.Number <= s.cursor.After { // another one has sent it
			continue
		}
		if e.Number > s.cursor.After+1 {
			s.missed(ctx, e.Number)
		}
		if s.hook.wants(feed.Topic(e.Value)) {
			if err := s.deliver(ctx, e); err != nil {
				return err
			}
		}
		s.cursor.After, moved = max(s.cursor.After, e.Number), true
		if s.hook.wants(feed.Topic(e.Value)) {
			if err := s.save(ctx); err != nil {
				return err
			}
			moved = false
		}
	}
	waiting.Set(float64(watch.Behind()))
	s.d.n.Metrics.Age.WithLabelValues(s.hook.Name).Set(0)
	if moved {
		return s.save(ctx)
	}
	return nil
}

// missed counts those entries before n that have been trimmed unsent. Where a feed begins
// with erased ones, nobody can tell them from those.
func (s *sender) missed(ctx context.Context, n chats.Number) {
	of, err := s.d.n.Store.Feed(ctx, s.hook.tenant())
	if first := min(of.First, n); err == nil && first > s.cursor.After+1 {
		s.skipped(first - s.cursor.After - 1)
	}
}

func (s *sender) skipped(n chats.Number) {
	s.d.n.Metrics.Skipped.WithLabelValues(s.hook.Name).Add(float64(n))
	s.lost += n
}

// tellLost has a line in the log for all that was skipped since the last one.
func (s *sender) tellLost() {
	if s.lost > 0 {
		s.log.Warn("entries are too old and were never sent", "entries", uint64(s.lost))
		s.lost = 0
	}
}

// deliver sends one entry until it is taken, is too old or was erased.
func (s *sender) deliver(ctx context.Context, e chats.Entry) error {
	m, name, number := s.d.n.Metrics, s.hook.Name, e.Number
	next := pauses(s.hook.MaxPause)
	for try := 0; ; try++ {
		if s.tooOld(e) {
			s.skipped(1)
			return nil
		}
		if there, err := s.there(ctx, e.Number); err != nil || !there {
			return err
		}
		m.Age.WithLabelValues(name).Set(s.d.n.Now().Sub(e.At).Seconds())
		if try > 0 {
			m.Retries.WithLabelValues(name).Inc()
		}
		failed := s.post(ctx, e)
		switch {
		case failed == nil:
			m.Sent.WithLabelValues(name).Inc()
			m.Delivery.WithLabelValues(name).Observe(s.d.n.Now().Sub(e.At).Seconds())
			if try > 0 {
				s.log.Info("the receiver takes entries again", "number", uint64(number), "tries", try+1)
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		}
		m.Failed.WithLabelValues(name, failed.reason).Inc()
		if failed.reason == reasonGone {
			s.cursor.Gone = s.address()
			return errors.Join(errGone, s.save(ctx))
		}
		pause := max(next(), failed.after)
		level := slog.LevelDebug
		if try == 0 {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "an entry was not taken; trying again", "number", uint64(number), "reason", failed.reason, "error", failed.text, "pause", pause)
		if err := rest(ctx, pause); err != nil {
			return err
		}
	}
}

// tooOld is true for an entry that is not tried any more.
func (s *sender) tooOld(e chats.Entry) bool {
	age := s.d.n.Now().Sub(e.At)
	return s.hook.GiveUp > 0 && age > s.hook.GiveUp || s.d.keep.Age > 0 && age > s.d.keep.Age
}

// there is true for an entry that was not erased meanwhile, nor trimmed by number.
func (s *sender) there(ctx context.Context, number chats.Number) (there bool, err error) {
	err = s.again(ctx, "reading an entry", func() error {
		page, err := s.d.n.Store.Entries(ctx, s.hook.tenant(), number-1, 1)
		there = len(page) == 1 && page[0].Number == number
		return err
	})
	return there, err
}

// The reasons why an entry was not taken, as metrics have them.
const (
	reasonGone       = "gone"
	reasonRedirect   = "redirect"
	reasonRate       = "rate_limited"
	reasonClient     = "client_error"
	reasonServer     = "server_error"
	reasonPrivate    = "private_address"
	reasonTimeout    = "timeout"
	reasonConnection = "connection"
)

// failure is why an entry was not taken.
type failure struct {
	reason string
	text   string        // for the log, without the address
	after  time.Duration // when the receiver wants to be asked again; 0 = it has not said
}

// maxAnswer is how much of an answer is read, so that its connection may be used again.
const maxAnswer = 16 << 10

// post sends an entry once.
func (s *sender) post(ctx context.Context, e chats.Entry) *failure {
	body := feed.AppendEntry(nil, e)
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.hook.URL, bytes.NewReader(body))
	if err != nil {
		return &failure{reason: reasonConnection, text: "the url is none"}
	}
	// A tenant's name may hold anything; the number behind the last colon keeps ids apart.
	id := url.PathEscape(s.hook.Tenant) + ":" + strconv.FormatUint(uint64(e.Number), 10)
	timestamp, signatures := sign(s.keys, id, s.d.n.Now(), body)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("User-Agent", "parley")
	req.Header[headerID] = []string{id}
	req.Header[headerTimestamp] = []string{timestamp}
	req.Header[headerSignature] = []string{signatures}
	resp, err := s.client.Do(req)
	if err != nil {
		return failed(err)
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, maxAnswer) // what it says is known already
	return s.judge(resp)
}

// judge makes of an answer why the entry was not taken; nil = it was.
func (s *sender) judge(resp *http.Response) *failure {
	f := &failure{text: "status " + strconv.Itoa(resp.StatusCode), after: retryAfter(resp.Header.Get("Retry-After"), s.d.n.Now())}
	switch code := resp.StatusCode; {
	case code >= 200 && code < 300:
		return nil
	case code == http.StatusGone:
		f.reason = reasonGone
	case code == http.StatusTooManyRequests:
		f.reason = reasonRate
	case code >= 500:
		f.reason = reasonServer
	case code >= 400:
		f.reason = reasonClient
	default:
		f.reason = reasonRedirect
	}
	return f
}

// failed is why there was no answer. The error of package net/http has the address in it, the
// one inside has not.
func failed(err error) *failure {
	var outer *url.Error
	timeout := errors.As(err, &outer) && outer.Timeout()
	if outer != nil {
		err = outer.Err
	}
	f := &failure{reason: reasonConnection, text: conversation.Excerpt(err.Error(), 300)}
	switch {
	case errors.Is(err, errPrivate):
		f.reason, f.text = reasonPrivate, errPrivate.Error()
	case timeout:
		f.reason = reasonTimeout
	}
	return f
}

// maxRetryAfter bounds what a receiver may ask for.
const maxRetryAfter = 24 * time.Hour

// retryAfter reads a Retry-After: seconds, or a date. 0 = it says nothing that could be one.
func retryAfter(value string, now time.Time) time.Duration {
	if value = strings.TrimSpace(value); value == "" {
		return 0
	}
	if n, err := strconv.ParseUint(value, 10, 32); err == nil {
		return min(time.Duration(n)*time.Second, maxRetryAfter)
	}
	if at, err := http.ParseTime(value); err == nil {
		return min(max(at.Sub(now), 0), maxRetryAfter)
	}
	return 0
}

// firstPause is the pause behind the first try, about.
const firstPause = time.Second

// pauses are the times to wait between tries: each about twice the one before, up to most, and
// never two hooks at the same moment for long.
func pauses(most time.Duration) func() time.Duration {
	next := min(firstPause, most)
	return func() time.Duration {
		p := next
		next = min(2*next, most)
		return p/2 + rand.N(p/2+1)
	}
}

// load reads the cursor's row.
func (s *sender) load(ctx context.Context) error {
	row, err := s.d.n.Store.Load(ctx, chats.Key{Tenant: s.hook.tenant(), Channel: Channel, Chat: chats.Chat(s.hook.Name)})
	if err != nil {
		return err
	}
	s.row = row
	if row.Revision == 0 {
		return nil
	}
	var stored cursor
	if err := json.Unmarshal(row.Value, &stored); err != nil {
		return fmt.Errorf("the cursor cannot be read: %w", err)
	}
	if stored.After >= s.cursor.After { // else we have sent more than it says
		s.cursor.After, s.cursor.Gone = stored.After, stored.Gone
	}
	return nil
}

// saveTime is how long a save may take that has begun when the run ends: what was sent is to be
// remembered.
const saveTime = 5 * time.Second

// save stores the cursor.
func (s *sender) save(ctx context.Context) error {
	return s.again(ctx, "saving the cursor", func() error {
		quick, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
		defer cancel()
		gone := s.cursor.Gone
		value, err := json.Marshal(s.cursor)
		if err != nil {
			return err
		}
		row := s.row
		row.Value = value
		if err := s.d.n.Store.Save(quick, row.Tenant, []chats.Row{row}, nil); err != nil {
			// It was written, or another one writes it, or neither: look.
			if lost := s.load(quick); lost != nil {
				return errors.Join(err, lost)
			}
			s.cursor.Gone = gone
			return err
		}
		row.Revision++
		s.row = row
		return nil
	})
}

// again does f until it is done, ctx ends or the store is closed.
func (s *sender) again(ctx context.Context, doing string, f func() error) error {
	next := pauses(s.hook.MaxPause)
	for {
		err := f()
		switch {
		case err == nil, errors.Is(err, conversation.ErrClosed), errors.Is(err, feed.ErrEnded):
			return err
		case ctx.Err() != nil:
			return ctx.Err()
		case !errors.Is(err, chats.ErrStale):
			s.log.Debug("the store did not do it; trying again", "doing", doing, "error", err)
		}
		if err := rest(ctx, next()); err != nil {
			return err
		}
	}
}
