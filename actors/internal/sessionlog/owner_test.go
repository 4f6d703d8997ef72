package sessionlog

import (
	"context"
	"errors"
	"iter"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/member"
	"parley/persistence/persistencetest"
)

// answerLost does the first Acquire, and loses its answer.
type answerLost struct {
	Store
	n *int
}

func (u answerLost) Acquire(ctx context.Context, k conversation.SessionKey, how conversation.AcquireHow) (conversation.Head, error) {
	h, err := u.Store.Acquire(ctx, k, how)
	if *u.n++; *u.n == 1 {
		return conversation.Head{}, errLine
	}
	return h, err
}

// An answer that was lost raised the epoch all the same: that is not another writer.
func TestOwnAcquireLost(t *testing.T) {
	withSession(t, func(t *testing.T, l *Log, store *persistencetest.Memory, commit *conversation.Commit) {
		store.FailCommit(func(n int, _ conversation.SessionKey, _ conversation.Commit) (error, bool) { return errLine, n == 1 })
		l.Store = answerLost{store, new(int)}
		if _, err := committed(t, l, commit); !errors.Is(err, ErrUnclear) || len(store.Commits()) != 1 {
			t.Errorf("nobody else took it, and it is stored: %v, %d commits", err, len(store.Commits()))
		}
	})
}

// unreadRecords has records that only a newer program can read.
type unreadRecords struct{ Store }

func (unreadRecords) Records(context.Context, conversation.SessionKey, conversation.Range) iter.Seq2[conversation.Record, error] {
	return func(yield func(conversation.Record, error) bool) {
		yield(conversation.Record{}, conversation.ErrTooNew)
	}
}

// A member that cannot read a session gives it up: another one may.
func TestFailedLoadGivesUp(t *testing.T) {
	withSession(t, func(t *testing.T, l *Log, store *persistencetest.Memory, commit *conversation.Commit) {
		if _, err := committed(t, l, commit); err != nil {
			t.Fatal(err)
		}
		old, _ := store.Join(t.Context(), member.Info{Member: conversation.Member{Node: "old"}, Sessions: true}, time.Minute)
		next, _ := store.Join(t.Context(), member.Info{Member: conversation.Member{Node: "next"}, Sessions: true}, time.Minute)
		l.Owner, l.Store = old, unreadRecords{store}
		if _, err := l.Load(t.Context(), key, false); !errors.Is(err, conversation.ErrTooNew) {
			t.Fatal(err)
		}
		if _, err := store.Acquire(t.Context(), key, conversation.AcquireHow{Owner: next}); err != nil {
			t.Errorf("the node that can read it may not have it: %v", err)
		}
	})
}
