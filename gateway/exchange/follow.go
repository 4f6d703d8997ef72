package exchange

import (
	"context"
	"iter"
	"unicode/utf8"

	"parley/conversation"
	"parley/gateway/door"
	"parley/gateway/fanout"
	"parley/gateway/service"
)

// Exchange is what ways in for other protocols work with. It may be used from any goroutine.
type Exchange struct{ *door.HTTP }

// New makes it.
func New(d *door.HTTP) *Exchange { return &Exchange{d} }

// From says what to follow, and from where.
type From struct {
	Key conversation.SessionKey
	// Since is the event behind which the notes begin. A client that resumes needs those of its
	// task from the beginning, so that it is known what it was shown.
	Since   conversation.Seq
	FromNow bool   // behind the last stored event; Since is ignored
	After   Number // notes up to there are not told again; 0 = all are
	// Whole tells them all the same, with Seen = MaxNumbers: to a way in that needs to know of
	// them what it has made of them.
	Whole bool
	// Stored tells nothing that streams. Numbers say then nothing of how far a text was that
	// streamed meanwhile, and are the same for every follower.
	Stored bool
}

// Follower tells what a session has to tell.
type Follower struct {
	View   conversation.View // when it began
	sub    *fanout.Subscription
	fold   *Fold
	after  Number
	whole  bool
	next   []Note
	i      int
	buffer []Note // of several events
}

// Follow begins to follow a session. It fails with the engine's error where who may not see
// the session, and with a conflict when Since is beyond the end of its log: then the log is
// another one than the client knew.
func (x *Exchange) Follow(ctx context.Context, who *service.Principal, a From) (*Follower, error) {
	as, err := x.ReadsAs(ctx, who, a.Key)
	if err != nil {
		return nil, err
	}
	sub, view, err := x.Hub.Subscribe(ctx, x.Sessions, x.Limits, fanout.Options{
		Key: a.Key, As: as, Since: a.Since, FromNow: a.FromNow, Values: true, Drafts: !a.Stored,
	})
	if err != nil {
		if ctx.Err() != nil {
			err = door.ErrNoAnswer
		}
		return nil, err
	}
	since := a.Since
	if a.FromNow {
		since = view.Head
	}
	if a.After.Seq() > view.Head {
		sub.Close()
		return nil, conversation.Errorf(conversation.Conflict, "the number to go on from is beyond the end of the session's log")
	}
	return &Follower{View: view, sub: sub, fold: NewFold(since, a.After, who.Redact()), after: a.After, whole: a.Whole}, nil
}

// Next is the next note. It fails with the context's error, and then may be called again;
// with service.ErrNoSession when the session was erased, or may not be read any more; with
// fanout.ErrEnded; and with that of reading the log.
func (f *Follower) Next(ctx context.Context) (*Note, error) {
	for {
		for f.i < len(f.next) {
			n := &f.next[f.i]
			f.i++
			if f.clip(n) {
				return n, nil
			}
		}
		d, err := f.sub.Next(ctx)
		if err != nil {
			return nil, err
		}
		f.i = 0
		switch {
		case d.Gone:
			return nil, service.ErrNoSession
		case d.Synced:
			f.next = []Note{{Kind: Synced, At: f.fold.last}}
		case d.Ephemeral != nil:
			f.next = f.fold.Stream(d.Ephemeral)
		case d.Draft != nil:
			f.next = f.fold.Draft(*d.Draft)
		default:
			clear(f.buffer)
			f.buffer = f.buffer[:0]
			for i := range d.Events {
				f.buffer = append(f.buffer, f.fold.Event(&d.Events[i])...)
			}
			f.next = f.buffer
		}
	}
}

// More is true while notes of the same commit are at hand: with Whole, Next does not wait then.
func (f *Follower) More() bool { return f.i < len(f.next) }

// clip takes away what the client has been told already; false = all of it.
func (f *Follower) clip(n *Note) bool {
	if !n.Own || n.At.Seq() > f.after.Seq() {
		return true
	}
	switch slots := f.after.slot() - n.At.slot() + 1; {
	case n.Kind == TextGrew && (n.At <= f.after || f.after.slot() == slotWhole && n.At.slot() == slotGrew), n.At.Seq() < f.after.Seq(), n.Kind != TextGrew && slots >= MaxNumbers:
		n.Seen = MaxNumbers
	case n.Kind == TextGrew:
		begins := n.At - Number(utf8.RuneCountInString(n.Delta))
		if f.after.slot() == n.At.slot() && begins < f.after {
			n.Delta = behind(n.Delta, int(f.after-begins))
		}
	case slots > 0:
		n.Seen = slots
	}
	return f.whole || n.Seen < MaxNumbers
}

// Fold is what the follower knows of the session besides.
func (f *Follower) Fold() *Fold { return f.fold }

// Close ends the follower. It may be called again.
func (f *Follower) Close() { f.sub.Close() }

// Notes are those of what is stored behind an event and before another one; before 0 = to
// the end. Who may see the session is for the caller to ask (Visible).
func (x *Exchange) Notes(ctx context.Context, who *service.Principal, key conversation.SessionKey, since, before conversation.Seq) iter.Seq2[*Note, error] {
	return func(yield func(*Note, error) bool) {
		fold := NewFold(since, 0, who.Redact())
		for e, err := range x.Events(ctx, key, since, before) {
			if err != nil {
				yield(nil, err)
				return
			}
			notes := fold.Event(e)
			for i := range notes {
				if !yield(&notes[i], nil) {
					return
				}
			}
		}
	}
}
