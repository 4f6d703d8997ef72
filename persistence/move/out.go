package move

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/wire"
)

// Begun is a file that can be gone on with, as *os.File.
type Begun interface {
	io.ReadWriteSeeker
	Truncate(size int64) error
}

// Out writes everything in an installation, which nobody writes to, as one file; to is empty,
// or what an interrupted Out has begun. progress is told now and then what has been written.
// What is there is compared with the installation and not written again: of sessions all but
// their records and attachments, which their last commit and hashes stand for. Behind the last
// whole frame it goes on. The file is the same as that of an Out that nobody interrupts, but
// for the time in its first line. ErrChanged says that the installation is another one, or
// was written to since, or that another version of the program has begun the file; then
// nothing was changed, and an empty file is to be begun.
func Out(ctx context.Context, from Installation, to Begun, program string, progress func(Totals)) (Totals, error) {
	have := &earlier{r: bufio.NewReaderSize(to, 1<<18), file: to}
	w := &fileWriter{to: bufio.NewWriterSize(to, 1<<18), sums: newSums(), have: have}
	opening := openingOf(from, program)
	line, err := have.r.ReadBytes('\n')
	if err != nil { // not even that
		if err := w.goOn(); err != nil {
			return Totals{}, err
		}
		if w, err = newFileWriter(to, opening); err != nil {
			return Totals{}, err
		}
		return out{w: w, from: from, progress: progress}.all(ctx)
	}
	var was Opening
	if json.Unmarshal(line, &was) != nil {
		return Totals{}, ErrChanged
	}
	was.Time = opening.Time
	if was != opening {
		return Totals{}, ErrChanged
	}
	have.at = int64(len(line))
	_, _ = w.sums.file.Write(line)
	return out{w: w, from: from, progress: progress}.all(ctx)
}

func openingOf(from Installation, program string) Opening {
	return Opening{opener, format, from.LogID(), program, time.Now().UTC().Truncate(time.Millisecond)}
}

func (o out) all(ctx context.Context) (Totals, error) {
	w, from, progress := o.w, o.from, o.progress
	for t, err := range from.Tombstones(ctx) {
		if err == nil {
			err = o.w.json(kindErased, erasedFrame{t.Key.Tenant, t.Key.Session, t.Epoch, t.Erased})
		}
		if err != nil {
			return o.done, fmt.Errorf("the erased sessions: %w", err)
		}
		o.done.Erased++
	}
	for s, err := range from.Everything(ctx) {
		if err != nil {
			return o.done, fmt.Errorf("the list of sessions: %w", err)
		}
		if err := o.session(ctx, s); err != nil {
			return o.done, fmt.Errorf("session %s: %w", s.Key, err)
		}
		o.done.Sessions++
		progress(o.done)
	}
	if err := o.chats(ctx); err != nil {
		return o.done, fmt.Errorf("the chats: %w", err)
	}
	if err := w.json(kindFileEnd, fileEndFrame{o.done, sumOf(w.sums.file)}); err != nil {
		return o.done, err
	}
	if w.have != nil { // it was whole already: what may lie behind it goes
		if err := w.goOn(); err != nil {
			return o.done, err
		}
	}
	return o.done, w.to.Flush()
}

type out struct {
	w        *fileWriter
	from     Installation
	done     Totals
	progress func(Totals)
}

func (o *out) session(ctx context.Context, s conversation.Summary) error {
	key := s.Key
	if !utf8.ValidString(string(key.Tenant)) || !utf8.ValidString(string(key.Session)) {
		return fmt.Errorf("its name is not text")
	}
	h, err := o.from.Head(ctx, key)
	if err != nil {
		return err
	}
	awaits, err := o.from.Awaits(ctx, key)
	if err != nil {
		return err
	}
	begin := sessionFrame{Tenant: key.Tenant, Session: key.Session, Last: h.Last, Commit: []byte(h.LastCommit), Summary: wire.AppendSummary(nil, s), Wake: awaits.WakeAt}
	if awaits.Claim != nil {
		begin.Claim = wire.AppendClaimable(nil, awaits.Claim)
	}
	if h.Snapshot != nil {
		begin.SnapshotAt = h.SnapshotAt
	}
	if err := o.w.json(kindSession, begin); err != nil {
		return err
	}
	if h.Snapshot != nil {
		if err := o.w.frame(kindSnapshot, h.Snapshot); err != nil {
			return err
		}
	}
	files, err := o.files(ctx, key) // before the records that name them
	if err != nil {
		return err
	}
	end, err := o.rows(ctx, key)
	if err != nil {
		return err
	}
	end.Files = files
	var body []byte
	last := conversation.Seq(0)
	err = o.w.taken(kindRecord, func(body []byte) error {
		rec, err := wire.DecodeRecord(body)
		if err != nil {
			return err
		}
		last = rec.Events[len(rec.Events)-1].Seq
		end.Records++
		o.done.Records++
		return ctx.Err()
	})
	if err != nil {
		return err
	}
	rest := func(func(conversation.Record, error) bool) {}
	if last < h.Last {
		rest = o.from.Records(ctx, key, conversation.Range{After: last})
	}
	for rec, err := range rest {
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return err
		}
		body = wire.AppendRecord(body[:0], rec)
		if err := o.w.frame(kindRecord, body); err != nil {
			return err
		}
		last = rec.Events[len(rec.Events)-1].Seq
		end.Records++
		if o.done.Records++; o.done.Records%1000 == 0 {
			o.progress(o.done)
		}
	}
	if last != h.Last {
		return fmt.Errorf("%w: its log ends with %d, not with %d", conversation.ErrDamaged, last, h.Last)
	}
	end.Sum = sumOf(o.w.sums.session)
	return o.w.json(kindEnd, end)
}

// readEntries is how many entries of a feed are read at once.
const readEntries = 64

// chats writes what channels remember, and the feeds.
func (o *out) chats(ctx context.Context) error {
	for r, err := range o.from.ChatRows(ctx) {
		if err == nil {
			err = o.w.json(kindChatRow, chatRowFrame{r.Tenant, r.Channel, r.Chat, r.Revision, r.Session, r.Value})
		}
		if err != nil {
			return err
		}
		o.done.Chats++
	}
	for f, err := range o.from.Feeds(ctx) {
		if err == nil {
			err = o.w.json(kindFeed, f)
		}
		if err != nil {
			return err
		}
		entries, err := o.from.Chats().Entries(ctx, f.Tenant, 0, readEntries)
		for err == nil && len(entries) > 0 {
			for _, e := range entries {
				if err := o.w.json(kindEntry, entryFrame{e.Number, e.At.UnixMilli(), e.Session, e.Value}); err != nil {
					return err
				}
				o.done.Entries++
			}
			o.progress(o.done)
			entries, err = o.from.Chats().Entries(ctx, f.Tenant, entries[len(entries)-1].Number, readEntries)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// rows writes the tasks and cursors of a session.
func (o *out) rows(ctx context.Context, key conversation.SessionKey) (end endFrame, err error) {
	var body []byte
	for row, err := range o.from.Tasks(ctx, conversation.TaskFilter{Tenant: key.Tenant, Session: key.Session}) {
		if err != nil {
			return end, err
		}
		body = wire.AppendTaskRow(body[:0], row)
		if err := o.w.frame(kindTask, body); err != nil {
			return end, err
		}
		end.Tasks++
	}
	for c, err := range o.from.ReadCursors(ctx, key) {
		if err == nil {
			err = o.w.json(kindCursor, cursorFrame{c.User, c.Seq, c.Set})
		}
		if err != nil {
			return end, err
		}
		end.Cursors++
	}
	return end, nil
}
