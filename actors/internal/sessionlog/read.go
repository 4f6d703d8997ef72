package sessionlog

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"parley/conversation"
	"parley/conversation/dedup"
	"parley/conversation/machine"
	"parley/conversation/policy"
	"parley/conversation/transcript"
	"parley/metrics"
)

// Store is the part of a store that reads and writes the logs of sessions.
type Store interface {
	conversation.Writer
	conversation.Reader
	LogID() conversation.LogID
	Erased(ctx context.Context, key conversation.SessionKey) (bool, error)
}

// Log is the stored sessions. All fields are required.
type Log struct {
	Store   Store
	Rules   *policy.Rules
	Metrics *metrics.Actors
	Log     *slog.Logger
	Owner   conversation.Member // of what is loaded; zero = the store has one user

	Go             func(what string, do func(), failed func(error)) // runs do in a goroutine; failed gets a panic in it
	Full           func()                                           // called when the store has refused a commit because it is full; must not block
	Pace           func(context.Context) error                      // waits until the store may be asked what became of a commit
	ResolveTimeout time.Duration                                    // how long the outcome of a commit is looked for
}

// Loaded is a session as it was read.
type Loaded struct {
	Head       conversation.Head // without the snapshot if that was of no use
	Machine    *machine.Session
	Transcript *transcript.Transcript // nil when only the end of the log was read, or when the log is too long to be kept
}

// Load makes the caller the only writer of a session and rebuilds it. The error
// is the store's, conversation.ErrNotFound for a session that does not exist; with
// create, it is made then. The epoch may be lazy: nothing is told of it, and nothing
// is promised in it before its first commit.
func (l *Log) Load(ctx context.Context, key conversation.SessionKey, create bool) (Loaded, error) {
	head, err := l.Store.Acquire(ctx, key, conversation.AcquireHow{Create: create, Lazy: true, Owner: l.Owner})
	if err != nil {
		return Loaded{}, err
	}
	loaded, err := l.rebuild(ctx, key, head)
	if err != nil && l.Owner != (conversation.Member{}) { // another member may be able to read it
		l.Store.Release(context.WithoutCancel(ctx), key, head.Epoch, nil)
	}
	return loaded, err
}

// View folds a session that is not in memory; nothing of it changes. The error is
// the store's.
func (l *Log) View(ctx context.Context, key conversation.SessionKey) (conversation.View, error) {
	head, err := l.Store.Head(ctx, key)
	if err != nil {
		return conversation.View{}, err
	}
	loaded, err := l.rebuild(ctx, key, head)
	if err != nil {
		return conversation.View{}, err
	}
	if !loaded.Machine.Exists() {
		return conversation.View{}, conversation.ErrNotFound
	}
	v := loaded.Machine.View()
	v.Log = l.Store.LogID()
	return v, nil
}

// rebuild applies the events behind a snapshot, or all.
func (l *Log) rebuild(ctx context.Context, key conversation.SessionKey, head conversation.Head) (Loaded, error) {
	session := machine.New(key, l.Rules)
	if head.Snapshot != nil {
		restored, err := machine.Restore(key, l.Rules, head.Snapshot)
		switch {
		case err != nil:
			l.Log.Warn("a snapshot cannot be used; reading the whole log", "session", key.Session, "tenant", key.Tenant, "error", err)
		case restored.Head() <= head.Last:
			session = restored
		}
		if session.Head() == 0 {
			head.Snapshot, head.SnapshotAt = nil, 0
		}
	}
	var shown *transcript.Transcript
	if session.Head() == 0 && head.Last <= conversation.TranscriptWindow {
		shown = transcript.Of(key, l.Rules)
	}
	if session.Head() == head.Last { // nothing is behind the snapshot, or the session is new
		return Loaded{Head: head, Machine: session, Transcript: shown}, nil
	}
	for record, err := range l.Store.Records(ctx, key, conversation.Range{After: session.Head()}) {
		if err != nil {
			return Loaded{Head: head}, err
		}
		for _, event := range record.Events {
			if event.Seq <= session.Head() {
				continue
			}
			if err := session.Apply(event); err != nil {
				return Loaded{Head: head}, err
			}
			if shown != nil {
				shown.Add(event)
			}
		}
	}
	return Loaded{Head: head, Machine: session, Transcript: shown}, nil
}

// Transcript reads what models are shown of these ranges of the log.
func (l *Log) Transcript(ctx context.Context, key conversation.SessionKey, of conversation.TranscriptRanges) (*transcript.Transcript, error) {
	shown := transcript.Of(key, l.Rules)
	feed := func(r conversation.Range, take func(conversation.Event)) error {
		for record, err := range l.Store.Records(ctx, key, r) {
			if err != nil {
				return err
			}
			for _, event := range record.Events {
				if event.Seq > r.After && (r.Before == 0 || event.Seq < r.Before) { // a record may hold more
					take(event)
				}
			}
		}
		return nil
	}
	shown.Hear(of.Voices)
	shown.Clear(of.Cleared)
	if of.Origin != nil {
		if err := feed(*of.Origin, shown.Pin); err != nil {
			return nil, err
		}
	}
	for _, r := range of.Own {
		if err := feed(r, func(e conversation.Event) { shown.AddOwn(e, of.Tasks) }); err != nil {
			return nil, err
		}
	}
	if err := feed(conversation.Range{After: of.After}, shown.Add); err != nil {
		return nil, err
	}
	return shown, nil
}

// LookUp gives a command what the store knows of it: keys are those that it brings, at
// most one of which is stored, and before is that of the part that it follows, if any.
func (l *Log) LookUp(ctx context.Context, key conversation.SessionKey, c conversation.Command, keys []conversation.Key, before *conversation.Key) (conversation.Command, error) {
	find := func(keys []conversation.Key) ([]conversation.Seq, error) { return l.Store.Find(ctx, key, keys) }
	seqs, err := find(keys)
	if err != nil {
		return nil, err
	}
	if first := slices.Max(seqs); first != 0 {
		event, err := l.Event(ctx, key, first)
		if err != nil {
			return nil, err
		}
		return dedup.With(c, dedup.Of(c, event)), nil
	}
	if before == nil {
		return c, nil
	}
	next, err := dedup.NextPart(*before, find)
	if err != nil {
		return nil, err
	}
	return dedup.Follow(c, next), nil
}

// Event reads one stored event; conversation.ErrNotFound if there is none with
// this seq, as there is none with seq 0.
func (l *Log) Event(ctx context.Context, key conversation.SessionKey, seq conversation.Seq) (conversation.Event, error) {
	if seq == 0 {
		return conversation.Event{}, conversation.ErrNotFound
	}
	for record, err := range l.Store.Records(ctx, key, conversation.Range{After: seq - 1, Before: seq + 1, Limit: 1}) {
		if err != nil {
			return conversation.Event{}, err
		}
		for _, event := range record.Events {
			if event.Seq == seq {
				return event, nil
			}
		}
	}
	return conversation.Event{}, conversation.ErrNotFound
}
