package move

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"iter"
	"sync"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/listing"
	"parley/conversation/wire"
)

// buryMost and rowsMost are how many tombstones, and rows of a session, are written at once.
const (
	buryMost = 256
	rowsMost = 256
)

// rowsCommit is the id of a commit that brings rows alone. It is nobody's last one: the last
// commit of a session has the id that it had in the store of before.
const rowsCommit = conversation.CommitID("move-rows")

// Check reads a file from its beginning and compares all its sums.
func Check(ctx context.Context, from io.Reader) (Opening, Totals, error) {
	return check(ctx, from, func(conversation.SessionKey) {})
}

// check is Check; named is told the sessions.
func check(ctx context.Context, from io.Reader, named func(conversation.SessionKey)) (Opening, Totals, error) {
	r, err := newFileReader(from)
	if err != nil {
		return Opening{}, Totals{}, err
	}
	var got Totals
	var end endFrame
	open := false
	var feed checkedFeed
	var file checkedFile
	for {
		kind, body, err := r.next()
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return r.opening, got, err
		}
		inside := kind == kindSnapshot || kind == kindTask || kind == kindCursor || kind == kindRecord || kind == kindEnd || kind == kindFile || kind == kindPiece
		if inside != open || file.sum != nil && kind != kindPiece {
			return r.opening, got, fmt.Errorf("%w: a frame %q is out of place", ErrDamaged, kind)
		}
		switch kind {
		case kindErased:
			got.Erased++
		case kindSession:
			open, end = true, endFrame{}
			s, err := read[sessionFrame](body)
			if err != nil {
				return r.opening, got, err
			}
			named(conversation.SessionKey{Tenant: s.Tenant, Session: s.Session})
		case kindTask:
			end.Tasks++
		case kindCursor:
			end.Cursors++
		case kindFile, kindPiece:
			ended, err := file.see(kind, body)
			if err != nil {
				return r.opening, got, err
			}
			if ended {
				end.Files++
				got.Files++
			}
		case kindRecord:
			end.Records++
			got.Records++
		case kindSnapshot:
		case kindChatRow:
			got.Chats++
		case kindFeed, kindEntry:
			if err := feed.see(kind, body); err != nil {
				return r.opening, got, err
			}
			if kind == kindEntry {
				got.Entries++
			}
		case kindEnd:
			open, end.Sum = false, r.session
			got.Sessions++
			if said, err := read[endFrame](body); err != nil || said != end {
				return r.opening, got, fmt.Errorf("%w: a session has other content than its end says", ErrDamaged)
			}
		case kindFileEnd:
			said, err := read[fileEndFrame](body)
			if err != nil || said != (fileEndFrame{got, r.file}) || !r.ended() {
				return r.opening, got, fmt.Errorf("%w: it has other content than its end says", ErrDamaged)
			}
			return r.opening, got, nil
		default:
			return r.opening, got, fmt.Errorf("%w: a frame of kind %q", ErrNewer, kind)
		}
	}
}

// checkedFeed is the feed whose entries are being read.
type checkedFeed struct {
	end  FeedEnd
	open bool
	last chats.Number // that was seen
}

// see checks that entries are in order and within their feed.
func (f *checkedFeed) see(kind byte, body []byte) error {
	if kind == kindFeed {
		end, err := read[FeedEnd](body)
		*f = checkedFeed{end: end, open: true}
		return err
	}
	e, err := read[entryFrame](body)
	if err != nil {
		return err
	}
	if !f.open || e.Number <= f.last || e.Number > f.end.Last {
		return fmt.Errorf("%w: entry %d of a feed is out of place", ErrDamaged, e.Number)
	}
	f.last = e.Number
	return nil
}

// Sessions are written side by side, so that the store can join their commits; each of them
// in its order. What has been read of the file and is not written yet is bounded.
const (
	atOnce    = 64       // sessions
	aheadMost = 16 << 20 // bytes of frames; one frame may be more
)

type in struct {
	r        *fileReader
	to       Installation
	progress func(Totals)
	graves   []Tombstone // that wait to be written
	chats    waitingChats

	mu      sync.Mutex
	room    sync.Cond // for more sessions, or more frames
	done    Totals
	ahead   int                    // bytes of frames that wait for their session
	failed  error                  // the first one; nothing more is begun after it
	begun   map[*arriving]struct{} // sessions that are being written
	working sync.WaitGroup
}

// errStopped ends a session because something else has failed.
var errStopped = errors.New("stopped")

type frame struct {
	kind byte
	body []byte
	file []byte // of a kindFile: all pieces
}

func (f frame) size() int { return len(f.body) + len(f.file) }

// In reads a file into an installation that nobody else writes to: an empty one, which takes
// the identity of the file's logs, or one that has read some or all of it before. It checks
// the whole file first. progress is told now and then what has been read, by one goroutine
// at a time.
func In(ctx context.Context, from io.ReadSeeker, to Installation, progress func(Totals)) (Totals, error) {
	names := named{seed: maphash.MakeSeed(), all: map[uint64]struct{}{}}
	opening, _, err := check(ctx, from, names.add)
	if err != nil {
		return Totals{}, err
	}
	if _, err := from.Seek(0, io.SeekStart); err != nil {
		return Totals{}, err
	}
	if err := to.Adopt(ctx, opening.Log); err != nil {
		return Totals{}, err
	}
	for s, err := range to.Everything(ctx) { // of an earlier time
		if err != nil {
			return Totals{}, err
		}
		if !names.has(s.Key) {
			return Totals{}, fmt.Errorf("session %s: %w", s.Key, ErrMore)
		}
	}
	r, err := newFileReader(from)
	if err != nil {
		return Totals{}, err
	}
	i := &in{r: r, to: to, progress: progress, begun: map[*arriving]struct{}{}}
	i.room.L = &i.mu
	i.fail(i.all(ctx))
	i.working.Wait()
	return i.done, i.failed
}

// named are the sessions of a file, by a hash: there may be millions of them.
type named struct {
	seed maphash.Seed
	all  map[uint64]struct{}
}

func (n named) of(key conversation.SessionKey) uint64 {
	return maphash.String(n.seed, string(key.Tenant)+"\x00"+string(key.Session))
}

func (n named) add(key conversation.SessionKey) { n.all[n.of(key)] = struct{}{} }

func (n named) has(key conversation.SessionKey) bool {
	_, ok := n.all[n.of(key)]
	return ok
}

func (i *in) all(ctx context.Context) error {
	for {
		kind, body, err := i.r.next()
		if err != nil {
			return err
		}
		if kind != kindErased || len(i.graves) == buryMost {
			if err := i.bury(ctx); err != nil {
				return err
			}
		}
		if i.chats.full(kind) {
			if err := i.putChats(ctx, kind); err != nil {
				return err
			}
		}
		switch kind {
		case kindErased:
			t, err := read[erasedFrame](body)
			if err != nil {
				return err
			}
			i.graves = append(i.graves, Tombstone{conversation.SessionKey{Tenant: t.Tenant, Session: t.Session}, t.Epoch, t.Erased})
		case kindSession:
			s, err := read[sessionFrame](body)
			if err != nil {
				return err
			}
			if !i.session(ctx, s) {
				return nil // somebody has said why
			}
		case kindChatRow, kindFeed, kindEntry:
			if err := i.chats.add(kind, body); err != nil {
				return err
			}
		case kindFileEnd:
			return nil
		default:
			return fmt.Errorf("%w: a frame %q is out of place", ErrDamaged, kind)
		}
	}
}

// session reads the frames of a session, which is written meanwhile. It is false after a failure.
func (i *in) session(ctx context.Context, s sessionFrame) bool {
	a := &arriving{in: i, frame: s, key: conversation.SessionKey{Tenant: s.Tenant, Session: s.Session}}
	a.more.L = &i.mu
	i.mu.Lock()
	for len(i.begun) == atOnce && i.failed == nil {
		i.room.Wait()
	}
	if i.failed != nil {
		i.mu.Unlock()
		return false
	}
	i.begun[a] = struct{}{}
	i.mu.Unlock()
	i.working.Go(func() {
		err := a.arrive(ctx)
		if err != nil && !errors.Is(err, errStopped) {
			i.fail(fmt.Errorf("session %s: %w", a.key, err))
		}
		i.tally(func(done *Totals) {
			delete(i.begun, a)
			i.room.Signal() // only the reader of the file waits for it
			if err == nil {
				done.Sessions++
				i.progress(*done)
			}
		})
	})
	for {
		kind, body, err := i.r.next()
		if err == nil {
			err = ctx.Err()
		}
		f := frame{kind: kind, body: body}
		if err == nil && kind == kindFile {
			f, err = i.whole(ctx, body)
		}
		if err != nil {
			i.fail(err)
			return false
		}
		if !a.give(f) {
			return false
		}
		if kind == kindEnd {
			return true
		}
	}
}

// fail lets everybody stop before the next commit, unless err is nil.
func (i *in) fail(err error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if err != nil && i.failed == nil {
		i.failed = err
		i.room.Signal()
		for a := range i.begun {
			a.more.Broadcast()
		}
	}
}

// tally changes the totals.
func (i *in) tally(change func(done *Totals)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(&i.done)
}

func (i *in) bury(ctx context.Context) error {
	if len(i.graves) == 0 {
		return nil
	}
	if err := i.to.Bury(ctx, i.graves); err != nil {
		return fmt.Errorf("the erased sessions: %w", err)
	}
	i.done.Erased += len(i.graves)
	i.graves = i.graves[:0]
	return nil
}

// arriving is a session on its way into the store.
type arriving struct {
	*in
	frame    sessionFrame
	key      conversation.SessionKey
	whole    bool              // it was there already
	had      conversation.Seq  // the last event that was there before
	head     conversation.Head // as it is now
	was      func() (conversation.Record, error, bool)
	snapshot []byte
	tasks    []conversation.TaskRow
	cursors  []conversation.Cursor

	more   sync.Cond // frames; of in.mu
	frames []frame
}

// give adds a frame when there is room for it; false after a failure.
func (a *arriving) give(f frame) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.ahead > 0 && a.ahead+f.size() > aheadMost && a.failed == nil {
		a.room.Wait()
	}
	if a.failed != nil {
		return false
	}
	a.ahead += f.size()
	a.frames = append(a.frames, f)
	a.more.Signal()
	return true
}

// next takes the next frame; errStopped after a failure.
func (a *arriving) next() (frame, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for len(a.frames) == 0 && a.failed == nil {
		a.more.Wait()
	}
	if a.failed != nil {
		return frame{}, errStopped
	}
	f := a.frames[0]
	a.frames[0] = frame{}
	a.frames = a.frames[1:]
	if f.kind != kindFile { // that is in memory until it is written
		a.ahead -= f.size()
		a.room.Signal()
	}
	return f, nil
}

func (a *arriving) arrive(ctx context.Context) error {
	if err := a.begin(ctx); err != nil {
		return err
	}
	if a.had > 0 {
		next, stop := iter.Pull2(a.to.Records(ctx, a.key, conversation.Range{}))
		defer stop()
		a.was = next
	}
	for {
		f, err := a.next()
		if err != nil {
			return err
		}
		body := f.body
		switch f.kind {
		case kindSnapshot:
			a.snapshot = body
		case kindTask:
			row, err := wire.DecodeTaskRow(body)
			if err != nil {
				return err
			}
			a.tasks = append(a.tasks, row)
		case kindCursor:
			c, err := read[cursorFrame](body)
			if err != nil {
				return err
			}
			a.cursors = append(a.cursors, conversation.Cursor{User: c.User, Seq: c.Seq, Marking: listing.Marking{Set: c.Marks}})
		case kindFile:
			err := a.file(ctx, f)
			a.mu.Lock()
			a.ahead -= f.size()
			a.room.Signal()
			a.mu.Unlock()
			if err != nil {
				return err
			}
		case kindRecord:
			if err := a.record(ctx, body); err != nil {
				return err
			}
		case kindEnd:
			return a.end(ctx)
		}
		if len(a.tasks)+len(a.cursors) == rowsMost {
			if err := a.rows(ctx); err != nil {
				return err
			}
		}
	}
}

// begin finds out what of the session is there, and makes it if it is not.
func (a *arriving) begin(ctx context.Context) error {
	h, err := a.to.Head(ctx, a.key)
	switch {
	case err == nil:
		a.had = h.Last
	case !errors.Is(err, conversation.ErrNotFound):
		return err
	}
	_, err = a.to.Summary(ctx, a.key)
	switch {
	case err == nil:
		a.whole = true
		if h.Last != a.frame.Last || string(h.LastCommit) != string(a.frame.Commit) {
			return ErrDiffers
		}
		return nil
	case !errors.Is(err, conversation.ErrNotFound):
		return err
	case a.had > a.frame.Last:
		return ErrDiffers
	}
	a.head, err = a.to.Acquire(ctx, a.key, conversation.AcquireHow{Create: true})
	if errors.Is(err, conversation.ErrNotFound) {
		return fmt.Errorf("%w: it is erased there", ErrDiffers)
	}
	return err
}

// record writes a record, or compares it with the one that is there.
func (a *arriving) record(ctx context.Context, body []byte) error {
	rec, err := wire.DecodeRecord(body)
	if err != nil {
		return err
	}
	a.tally(func(done *Totals) {
		if done.Records++; done.Records%1000 == 0 {
			a.progress(*done)
		}
	})
	last := rec.Events[len(rec.Events)-1].Seq
	if last <= a.had {
		is, err, ok := a.was()
		if err != nil {
			return err
		}
		if !ok || !bytes.Equal(wire.AppendRecord(nil, is), wire.AppendRecord(nil, rec)) {
			return ErrDiffers
		}
		return nil
	}
	if a.whole || rec.Events[0].Seq <= a.had {
		return ErrDiffers
	}
	c := conversation.Commit{ID: rec.ID, Events: rec.Events, Keys: conversation.Keys(rec.Events)}
	if last == a.frame.SnapshotAt {
		c.Snapshot = a.snapshot
	}
	return a.commit(ctx, c)
}

// rows writes the tasks and cursors that have come so far.
func (a *arriving) rows(ctx context.Context) error {
	c := conversation.Commit{ID: rowsCommit, Tasks: a.tasks, Cursors: a.cursors}
	a.tasks, a.cursors = nil, nil
	if a.whole {
		return nil // they came with the commits that are there
	}
	return a.commit(ctx, c)
}

// end makes a session whole.
func (a *arriving) end(ctx context.Context) error {
	if a.whole {
		a.tally(func(done *Totals) { done.Skipped++ })
		return nil
	}
	summary, err := wire.DecodeSummary(a.frame.Summary)
	if err != nil {
		return err
	}
	c := conversation.Commit{ID: conversation.CommitID(a.frame.Commit), Summary: summary, WakeAt: a.frame.Wake, Tasks: a.tasks, Cursors: a.cursors}
	if a.frame.Claim != nil {
		if c.Claim, err = wire.DecodeClaimable(a.frame.Claim); err != nil {
			return err
		}
	}
	if a.head.Last != a.frame.Last {
		return fmt.Errorf("%w: its log ends with %d, not with %d", ErrDamaged, a.head.Last, a.frame.Last)
	}
	return a.commit(ctx, c)
}

func (a *arriving) commit(ctx context.Context, c conversation.Commit) error {
	c.Epoch, c.After, c.Inner = a.head.Epoch, a.head.Last, true
	if err := a.to.Commit(ctx, a.key, c); err != nil {
		return err
	}
	a.head.Last += conversation.Seq(len(c.Events))
	return nil
}
