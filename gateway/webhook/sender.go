package webhook

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/gateway/feed"
	"parley/gateway/outbound"
)

// Channel is the channel of the rows that hold the cursors of webhooks.
const Channel chats.Channel = "webhook"

// sender sends one tenant's feed to one hook. One goroutine runs it.
type sender struct {
	d      *Deliverer
	hook   Hook
	keys   [][]byte
	poster *outbound.Poster
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
	reach := outbound.Public
	if h.AllowPrivate {
		reach = outbound.Anywhere
	}
	return &sender{
		d: d, hook: h, keys: keys, log: d.n.Logger.With("webhook", h.Name),
		poster: outbound.NewPoster(outbound.Using{Reach: reach, Timeout: h.Timeout, PerHost: 2, Now: d.n.Now, Transport: d.n.Transport}),
	}
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
	defer s.poster.CloseIdle()
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
	next := outbound.Pauses(s.hook.MaxPause)
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
		m.Failed.WithLabelValues(name, failed.Reason).Inc()
		if failed.Reason == outbound.ReasonGone {
			s.cursor.Gone = s.address()
			return errors.Join(errGone, s.save(ctx))
		}
		pause := max(next(), failed.After)
		level := slog.LevelDebug
		if try == 0 {
			level = slog.LevelWarn
		}
		s.log.Log(ctx, level, "an entry was not taken; trying again", "number", uint64(number), "reason", failed.Reason, "error", failed.Text, "pause", pause)
		if err := outbound.Rest(ctx, pause); err != nil {
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

// post sends an entry once.
func (s *sender) post(ctx context.Context, e chats.Entry) *outbound.NotTaken {
	body := feed.AppendEntry(nil, e)
	// A tenant's name may hold anything; the number behind the last colon keeps ids apart.
	id := url.PathEscape(s.hook.Tenant) + ":" + strconv.FormatUint(uint64(e.Number), 10)
	timestamp, signatures := outbound.Sign(s.keys, id, s.d.n.Now(), body)
	failed := s.poster.Post(ctx, s.hook.URL, http.Header{
		"Content-Type": {"application/json"}, outbound.HeaderID: {id}, outbound.HeaderTimestamp: {timestamp}, outbound.HeaderSignature: {signatures},
	}, body)
	if failed != nil && failed.Reason == outbound.ReasonPrivate {
		failed.Text = errPrivate.Error()
	}
	return failed
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
	next := outbound.Pauses(s.hook.MaxPause)
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
		if err := outbound.Rest(ctx, next()); err != nil {
			return err
		}
	}
}
