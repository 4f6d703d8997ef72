package clustertest

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"testing"
	"time"

	"parley/conversation"
)

// fixture is one node's handle on a store, with short words for what the tests do to it.
type fixture struct {
	*testing.T
	conversation.Store
	ctx context.Context
}

// Short names, so that a test reads as a story.
const (
	tenant = conversation.TenantID("acme")
	alice  = conversation.UserID("alice")
	bob    = conversation.UserID("bob")
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func key(id string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: tenant, Session: conversation.SessionID(id)}
}

func part(source string, index int, seq conversation.Seq) conversation.KeyAt {
	return conversation.KeyAt{Key: conversation.Key{Source: conversation.SourceID(source), Part: conversation.PartIndex(index)}, Seq: seq}
}

func client(author conversation.UserID, id string, seq conversation.Seq) conversation.KeyAt {
	return conversation.KeyAt{Key: conversation.Key{Author: author, Client: conversation.ClientMsgID(id)}, Seq: seq}
}

func summary(activity time.Time) conversation.Summary {
	return conversation.Summary{Title: "Title", Agent: "coordinator", Owner: alice, CreatedAt: noon, Activity: activity}
}

// said makes n events that follow last.
func said(last conversation.Seq, n int) []conversation.Event {
	events := make([]conversation.Event, n)
	for i := range events {
		seq := last + conversation.Seq(i) + 1
		events[i] = conversation.Event{Seq: seq, At: noon.Add(time.Duration(seq) * time.Millisecond), Body: conversation.MessageAccepted{
			Message: conversation.MessageID(fmt.Sprintf("m%d-s", seq)), Author: alice, Text: fmt.Sprintf("text %d", seq),
			Disposition: conversation.Joined, Via: conversation.ViaHTTP,
		}}
	}
	return events
}

// acquire takes a session for nobody, as a store without members does.
func (f *fixture) acquire(k conversation.SessionKey) conversation.Head {
	f.Helper()
	h, err := f.Acquire(f.ctx, k, conversation.AcquireHow{Create: true})
	if err != nil {
		f.Fatalf("acquire %s: %v", k, err)
	}
	return h
}

// commit writes n more events with whatever change adds.
func (f *fixture) commit(k conversation.SessionKey, h *conversation.Head, n int, change func(*conversation.Commit)) {
	f.Helper()
	if err := f.try(k, h, n, change); err != nil {
		f.Fatalf("commit to %s after %d: %v", k, h.Last, err)
	}
}

func (f *fixture) try(k conversation.SessionKey, h *conversation.Head, n int, change func(*conversation.Commit)) error {
	c := conversation.Commit{
		Epoch: h.Epoch, After: h.Last, ID: conversation.CommitID(fmt.Sprintf("commit-%d-%d", h.Epoch, h.Last)),
		Events: said(h.Last, n), Summary: summary(noon),
	}
	if change != nil {
		change(&c)
	}
	err := f.Commit(f.ctx, k, c)
	if err == nil {
		h.Last += conversation.Seq(n)
		h.LastCommit = c.ID
	}
	return err
}

func (f *fixture) head(k conversation.SessionKey) conversation.Head {
	f.Helper()
	h, err := f.Head(f.ctx, k)
	if err != nil {
		f.Fatalf("head of %s: %v", k, err)
	}
	return h
}

func (f *fixture) want(err, target error, what string) {
	f.Helper()
	if !errors.Is(err, target) {
		f.Errorf("%s: got error %v, want %v", what, err, target)
	}
}

func collect[T any](t testing.TB, seq iter.Seq2[T, error]) []T {
	t.Helper()
	var all []T
	for v, err := range seq {
		if err != nil {
			t.Fatalf("after %d items: %v", len(all), err)
		}
		all = append(all, v)
	}
	return all
}
