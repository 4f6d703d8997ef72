package move_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"iter"
	"os"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/conversation/chats"
	"parley/conversation/listing"
	"parley/conversation/wire"
	"parley/persistence/blobstest"
	"parley/persistence/move"
	"parley/persistence/pebble"
	"parley/persistence/postgres"
	"parley/persistence/postgres/pgtest"
)

func TestMain(m *testing.M) { os.Exit(pgtest.Main(m)) }

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func embedded(t *testing.T) move.Installation {
	t.Helper()
	db, err := pebble.OpenEphemeral(pebble.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return pebble.Installation(db)
}

func shared(t *testing.T) move.Installation {
	t.Helper()
	dsn := pgtest.Database(t)
	if _, err := postgres.Prepare(t.Context(), dsn, true, nil); err != nil {
		t.Fatal(err)
	}
	s, err := postgres.Open(t.Context(), postgres.StoreOptions{DSN: dsn})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return postgres.Installation(s)
}

// stores are the two kinds, each from and to each.
var stores = []struct {
	name string
	open func(*testing.T) move.Installation
}{{"embedded", embedded}, {"PostgreSQL", shared}}

func key(session string) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(session)}
}

// wrote makes n commits of three events each, the last of them with whatever change adds.
func wrote(t testing.TB, s conversation.Store, k conversation.SessionKey, n int, change func(*conversation.Commit)) {
	t.Helper()
	h, err := s.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		c := conversation.Commit{
			Epoch: h.Epoch, After: h.Last, ID: conversation.CommitID(fmt.Sprintf("commit-%d", i)),
			Summary: conversation.Summary{Title: "of " + string(k.Session), Agent: "coordinator", Owner: "alice", CreatedAt: noon, Activity: noon.Add(time.Duration(i) * time.Minute), Open: 1},
		}
		for range 3 {
			h.Last++
			c.Events = append(c.Events, conversation.Event{Seq: h.Last, At: noon.Add(time.Duration(h.Last) * time.Second), Body: conversation.MessageAccepted{
				Message: conversation.MessageID(fmt.Sprintf("m%d-s", h.Last)), Author: "alice", ClientMsgID: conversation.ClientMsgID(fmt.Sprint("c", h.Last)), Text: "grüezi\x00 <b>", Disposition: conversation.Joined, Via: conversation.ViaHTTP,
			}})
		}
		c.Keys = conversation.Keys(c.Events)
		if i == n-1 && change != nil {
			change(&c)
		}
		if err := s.Commit(t.Context(), k, c); err != nil {
			t.Fatal(err)
		}
	}
}

// filled is a store with something of everything.
func filled(t *testing.T, s move.Installation) move.Installation {
	t.Helper()
	wrote(t, s, key("plain"), 3, nil)
	wrote(t, s, key("busy"), 4, func(c *conversation.Commit) {
		c.WakeAt, c.Snapshot = noon.Add(time.Hour), []byte("a snapshot")
		c.Claim = &conversation.Claimable{Task: "t1-busy", Agent: "outside", Since: noon, Runtime: "r1", From: noon.Add(time.Minute)}
		for i := range 600 { // more than one commit brings
			c.Tasks = append(c.Tasks, conversation.TaskRow{Key: key("busy"), Task: conversation.TaskID(fmt.Sprintf("t%d-busy", i+1)), Status: conversation.TaskRunning, Agent: "outside", Owner: "alice", Trigger: "m1-s", CreatedAt: noon, UpdatedAt: noon, First: 1, Last: 2})
			c.Cursors = append(c.Cursors, conversation.Cursor{User: conversation.UserID(fmt.Sprintf("u%03d", i)), Seq: conversation.Seq(i%12 + 1), Marking: listing.Marking{Set: listing.Marks(i % 4)}})
		}
	})
	wrote(t, s, key("busy/t1"), 1, nil)
	h, err := s.Acquire(t.Context(), key("plain"), conversation.AcquireHow{}) // a commit without events
	if err == nil {
		err = s.Commit(t.Context(), key("plain"), conversation.Commit{Epoch: h.Epoch, After: h.Last, ID: "read on", Cursors: []conversation.Cursor{{User: "bob", Seq: 4}}})
	}
	attachedTo(t, s, key("plain"))
	attachedTo(t, s, key("busy"))
	for _, gone := range []string{"gone", "gone_2"} {
		wrote(t, s, key(gone), 1, nil)
		err = errors.Join(err, s.Delete(t.Context(), key(gone)))
	}
	wrote(t, s, key("gone_3"), 2, nil)
	chatted(t, s)
	if _, made := s.Acquire(t.Context(), key("never written to"), conversation.AcquireHow{Create: true}); errors.Join(err, made) != nil {
		t.Fatal(err, made)
	}
	return s
}

// chatted leaves rows that were written over, moved and deleted, and feeds of two tenants
// of which something was erased and trimmed.
func chatted(t *testing.T, s move.Installation) {
	t.Helper()
	row := func(tenant conversation.TenantID, chat chats.Chat, over chats.Revision, session conversation.SessionID, value string) []chats.Row {
		r := chats.Row{Key: chats.Key{Tenant: tenant, Channel: "telegram", Chat: chat}, Revision: over, Session: session, Value: []byte(value)}
		if value == "-" {
			r.Value = nil
		}
		return []chats.Row{r}
	}
	entries := func(n int, session conversation.SessionID) (all []chats.Entry) {
		for i := range n {
			all = append(all, chats.Entry{At: noon.Add(time.Duration(i) * time.Second), Session: session, Value: fmt.Appendf(nil, "entry %d \x00\xff of %s", i, session)})
		}
		return all
	}
	wrote(t, s, key("chat gone"), 1, nil)
	var err error
	for _, c := range []struct {
		tenant  conversation.TenantID
		rows    []chats.Row
		entries []chats.Entry
	}{
		{"acme", row("acme", "", 0, "", "of the channel"), entries(3, "")},
		{"acme", row("acme", "a", 0, "plain", "1"), entries(70, "plain")},
		{"acme", row("acme", "a", 1, "plain", "2 \x00\xff"), entries(2, "chat gone")},
		{"acme", row("acme", "b", 0, "chat gone", "1"), entries(80, "busy")},
		{"acme", row("acme", "c", 0, "busy", "1"), nil},
		{"acme", row("acme", "c", 1, "busy", "-"), nil},
		{"acme", row("acme", "d", 0, "busy", ""), nil},
		{"other", row("other", "a", 0, "not there yet", "1"), entries(1, "not there yet")},
		{"trimmed", nil, entries(5, "")},
	} {
		err = errors.Join(err, s.Chats().Save(t.Context(), c.tenant, c.rows, c.entries))
	}
	for n := range 80 {
		err = errors.Join(err, s.Chats().Save(t.Context(), "acme", row("acme", chats.Chat(fmt.Sprintf("many%02d", n)), 0, "", "v"), nil))
	}
	if err := errors.Join(err, s.Delete(t.Context(), key("chat gone")), s.Chats().Trim(t.Context(), "acme", 2), s.Chats().Trim(t.Context(), "trimmed", 5)); err != nil {
		t.Fatal(err)
	}
}

func each[T any](t *testing.T, all iter.Seq2[T, error]) (items []T) {
	t.Helper()
	for item, err := range all {
		if err != nil {
			t.Fatal(err)
		}
		items = append(items, item)
	}
	return items
}

// shown is everything that has to be the same wherever it is.
func shown(t *testing.T, s move.Installation) string {
	t.Helper()
	var b strings.Builder
	ctx := t.Context()
	say := func(format string, args ...any) { fmt.Fprintf(&b, format+"\n", args...) }
	say("log %s", s.LogID())
	for _, g := range each(t, s.Tombstones(ctx)) {
		erased, err := s.Erased(ctx, g.Key)
		say("erased %s, epoch %d, %d, %v %v", g.Key, g.Epoch, g.Erased.UnixMilli(), erased, err)
	}
	for _, sum := range each(t, s.Everything(ctx)) {
		h, err := s.Head(ctx, sum.Key)
		say("session %x\nhead %d %q %q %d %v", wire.AppendSummary(nil, sum), h.Last, h.LastCommit, h.Snapshot, h.SnapshotAt, err)
		for _, r := range each(t, s.Records(ctx, sum.Key, conversation.Range{})) {
			at := []conversation.Key{}
			for _, k := range conversation.Keys(r.Events) {
				at = append(at, k.Key)
			}
			found, err := s.Find(ctx, sum.Key, at)
			say("record %x, keys at %v %v", wire.AppendRecord(nil, r), found, err)
		}
		for _, row := range each(t, s.Tasks(ctx, conversation.TaskFilter{Tenant: sum.Key.Tenant, Session: sum.Key.Session})) {
			say("task %x", wire.AppendTaskRow(nil, row))
		}
		for _, f := range each(t, s.Attached(ctx, sum.Key)) {
			body, err := blobs.Read(ctx, s.Blobs(), sum.Key, f.File)
			held, wrong := s.Blobs().Holders(ctx, sum.Key.Tenant, f.Hash, "", 10)
			say("file %+v, %d bytes, %v, %v %v", f, len(body), held, err, wrong)
		}
		say("cursors %v", each(t, s.ReadCursors(ctx, sum.Key)))
		a, err := s.Awaits(ctx, sum.Key)
		say("awaits %v %x %v", a.WakeAt, wire.AppendClaimable(nil, a.Claim), err)
	}
	for _, sum := range each(t, s.Sessions(ctx, conversation.Page{Tenant: "acme", For: "bob"})) {
		say("listed %s %d", sum.Key, sum.Seen)
	}
	say("due %v", each(t, s.Due(ctx, noon.Add(24*time.Hour), conversation.Member{})))
	for _, r := range each(t, s.ChatRows(ctx)) {
		say("chat %+v", r)
	}
	for _, f := range each(t, s.Feeds(ctx)) {
		ends, err := s.Chats().Feed(ctx, f.Tenant)
		say("feed %+v %+v %v", f, ends, err)
		entries, err := s.Chats().Entries(ctx, f.Tenant, 0, 1000)
		for _, e := range entries {
			say("entry %+v", e)
		}
		say("%v", err)
	}
	for _, c := range each(t, s.Claimable(ctx, "acme")) {
		say("claimable %s %s", c.Key, c.Task)
	}
	return b.String()
}

func quiet(move.Totals) {}

func written(t testing.TB, from move.Installation) []byte {
	t.Helper()
	file := begun(t, nil)
	if _, err := move.Out(t.Context(), from, file, "test", quiet); err != nil {
		t.Fatal(err)
	}
	return bytesOf(t, file)
}

func same(t *testing.T, what, got, want string) {
	t.Helper()
	g, w := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(g), len(w)) {
		if i >= len(g) || i >= len(w) || g[i] != w[i] {
			t.Fatalf("%s: %d lines instead of %d, the first other one is\n%.300s\ninstead of\n%.300s", what, len(g), len(w), strings.Join(g[min(i, len(g)):min(i+1, len(g))], ""), strings.Join(w[min(i, len(w)):min(i+1, len(w))], ""))
		}
	}
}

// Everything is the same at the other place, a second time changes nothing, and an erased
// name stays taken there.
func TestThereAndBack(t *testing.T) {
	for _, from := range stores {
		for _, to := range stores {
			t.Run(from.name+" to "+to.name, func(t *testing.T) {
				source, target := filled(t, from.open(t)), to.open(t)
				want, file := shown(t, source), written(t, source)
				for i, skipped := range []int{0, 4} {
					got, err := move.In(t.Context(), bytes.NewReader(file), target, quiet)
					if err != nil || got != (move.Totals{Sessions: 4, Erased: 3, Records: 12, Files: 4, Chats: 84, Entries: 152, Skipped: skipped}) {
						t.Fatalf("time %d: %+v, %v", i, got, err)
					}
					same(t, fmt.Sprint("time ", i), shown(t, target), want)
				}
				epoch := func() conversation.Epoch { h, _ := target.Head(t.Context(), key("plain")); return h.Epoch }
				before := epoch()
				if _, err := move.In(t.Context(), bytes.NewReader(file), target, quiet); err != nil || epoch() != before {
					t.Errorf("epoch %d became %d, %v", before, epoch(), err)
				}
				for name, want := range map[string]error{"gone": conversation.ErrNotFound, "gone_2": conversation.ErrNotFound, "gone_4": conversation.ErrNotFound, "gone_3": nil} {
					if _, err := target.Acquire(t.Context(), key(name), conversation.AcquireHow{Create: true}); !errors.Is(err, want) {
						t.Errorf("%s: %v, want %v", name, err, want)
					}
				}
				back := from.open(t)
				if _, err := move.In(t.Context(), bytes.NewReader(written(t, target)), back, quiet); err != nil {
					t.Fatal(err)
				}
				same(t, "back", shown(t, back), want)
			})
		}
	}
}

var errBroken = errors.New("the connection broke")

// breaking is a store that takes some commits only.
type breaking struct {
	move.Installation
	left  atomic.Int64
	chats atomic.Int64 // that it takes of rows and feeds
	files atomic.Int64 // that it takes
}

func (b *breaking) Blobs() blobs.Store { return breakingFiles{b.Installation.Blobs(), b} }

type breakingFiles struct {
	blobs.Store
	of *breaking
}

func (b breakingFiles) Put(ctx context.Context, key conversation.SessionKey, f attached.File, at time.Time, body []byte) (attached.File, bool, error) {
	if b.of.files.Add(-1) < 0 {
		return f, false, errBroken
	}
	return b.Store.Put(ctx, key, f, at, body)
}

func (b *breaking) Commit(ctx context.Context, k conversation.SessionKey, c conversation.Commit) error {
	if b.left.Add(-1) < 0 {
		return errBroken
	}
	return b.Installation.Commit(ctx, k, c)
}

func (b *breaking) PutRows(ctx context.Context, rows []chats.Row) error {
	if b.chats.Add(-1) < 0 {
		return errBroken
	}
	return b.Installation.PutRows(ctx, rows)
}

func (b *breaking) PutFeed(ctx context.Context, end move.FeedEnd, entries []chats.Entry) error {
	if b.chats.Add(-1) < 0 {
		return errBroken
	}
	return b.Installation.PutFeed(ctx, end, entries)
}

// Wherever reading a file is interrupted, the next time goes on, and what is in a list is
// whole.
func TestGoesOn(t *testing.T) {
	for _, to := range stores {
		t.Run(to.name, func(t *testing.T) {
			source, target := filled(t, embedded(t)), to.open(t)
			for i := range 150 { // more than are written at the same time
				wrote(t, source, key(fmt.Sprintf("many%03d", i)), 2, nil)
			}
			file := written(t, source)
			breaks := 0
			for ; ; breaks++ {
				b := &breaking{Installation: target}
				b.left.Store(60)
				b.files.Store(int64(breaks))     // the first times it does not come far
				b.chats.Store(int64(breaks) - 8) // the first times it does not come so far
				_, err := move.In(t.Context(), bytes.NewReader(file), b, quiet)
				if err == nil {
					break
				}
				if !errors.Is(err, errBroken) || breaks > 20 {
					t.Fatal(breaks, err)
				}
				for _, sum := range each(t, target.Everything(t.Context())) {
					is, err := target.Head(t.Context(), sum.Key)
					if was, wrong := source.Head(t.Context(), sum.Key); errors.Join(err, wrong) != nil || is.Last != was.Last || is.LastCommit != was.LastCommit {
						t.Fatalf("%s is in a list with %d of %d events: %v", sum.Key, is.Last, was.Last, errors.Join(err, wrong))
					}
				}
			}
			if breaks < 5 {
				t.Errorf("interrupted %d times only", breaks)
			}
			same(t, "at last", shown(t, target), shown(t, source))
		})
	}
}

// reframed changes the frames of a file, and gives each the checksum that it has then.
func reframed(file []byte, change func(frames [][]byte) [][]byte) []byte {
	line := bytes.IndexByte(file, '\n') + 1
	var frames [][]byte
	for rest := file[line:]; len(rest) > 0; {
		n := 9 + int(binary.BigEndian.Uint32(rest[1:]))
		frames = append(frames, bytes.Clone(rest[:n]))
		rest = rest[n:]
	}
	out := bytes.Clone(file[:line])
	for _, f := range change(frames) {
		f = f[:len(f)-4]
		out = append(out, binary.BigEndian.AppendUint32(f, crc32.Checksum(f, crc32.MakeTable(crc32.Castagnoli)))...)
	}
	return out
}

// A program that does not know a kind of frame says that the file is a newer one's, as older
// programs do of chats; and entries are those of a feed, in order, up to its end.
func TestFramesOfChats(t *testing.T) {
	file := written(t, filled(t, embedded(t)))
	first := func(frames [][]byte, kind byte) int {
		return slices.IndexFunc(frames, func(f []byte) bool { return f[0] == kind })
	}
	for what, c := range map[string]struct {
		change func(frames [][]byte) [][]byte
		want   error
		says   string
	}{
		"nothing": {func(f [][]byte) [][]byte { return f }, nil, ""},
		"a kind that is not known": {func(f [][]byte) [][]byte {
			f[first(f, 'w')][0] = 'y'
			return f
		}, move.ErrNewer, "y"},
		"two entries in the wrong order": {func(f [][]byte) [][]byte {
			n := first(f, 'n')
			f[n], f[n+1] = f[n+1], f[n]
			return f
		}, move.ErrDamaged, "out of place"},
		"an entry without its feed": {func(f [][]byte) [][]byte { return slices.Delete(f, first(f, 'f'), first(f, 'f')+1) }, move.ErrDamaged, "out of place"},
		"an entry behind the end": {func(f [][]byte) [][]byte {
			feed := append([]byte{'f', 0, 0, 0, 0}, `{"tenant":"acme","last":9}....`...)
			binary.BigEndian.PutUint32(feed[1:], uint32(len(feed)-9))
			f[first(f, 'f')] = feed
			return f
		}, move.ErrDamaged, "out of place"},
		"a piece less": {func(f [][]byte) [][]byte { return slices.Delete(f, first(f, 'd'), first(f, 'd')+1) }, move.ErrDamaged, "has"},
		"no piece": {func(f [][]byte) [][]byte {
			return slices.DeleteFunc(f, func(f []byte) bool { return f[0] == 'd' })
		}, move.ErrDamaged, "out of place"},
		"a piece without its file": {func(f [][]byte) [][]byte { return slices.Delete(f, first(f, 'b'), first(f, 'b')+1) }, move.ErrDamaged, "out of place"},
		"a piece with other bytes": {func(f [][]byte) [][]byte {
			f[first(f, 'd')][100]++
			return f
		}, move.ErrDamaged, "not what its hash says"},
		"a file less": {func(f [][]byte) [][]byte {
			n, end := first(f, 'b'), first(f, 'k')
			return slices.Delete(f, n, end)
		}, move.ErrDamaged, "other content"},
		"a row less": {func(f [][]byte) [][]byte { return slices.Delete(f, first(f, 'w'), first(f, 'w')+1) }, move.ErrDamaged, "other content"},
	} {
		_, _, err := move.Check(t.Context(), bytes.NewReader(reframed(file, c.change)))
		if !errors.Is(err, c.want) || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %v: %s", what, err, c.want, c.says)
		}
	}
}

// What does not fit is refused, and what is there stays.
func TestRefuses(t *testing.T) {
	for _, to := range stores {
		t.Run(to.name, func(t *testing.T) {
			source := filled(t, embedded(t))
			file := written(t, source)
			into := func(what string, target move.Installation, file []byte, want error) {
				t.Helper()
				before := shown(t, target)
				if _, err := move.In(t.Context(), bytes.NewReader(file), target, quiet); !errors.Is(err, want) {
					t.Errorf("%s: %v, want %v", what, err, want)
				}
				same(t, what, shown(t, target), before)
			}
			empty := to.open(t)
			for _, n := range []int{len(file) - 1, len(file) / 2, len(file) / 3} {
				into(fmt.Sprint("the first ", n, " bytes"), empty, file[:n], move.ErrCut)
				flipped := bytes.Clone(file)
				flipped[n] ^= 4
				if _, err := move.In(t.Context(), bytes.NewReader(flipped), empty, quiet); err == nil {
					t.Errorf("a flipped bit in byte %d was not noticed", n)
				}
			}
			into("more behind the end", empty, append(bytes.Clone(file), 'x'), move.ErrDamaged)
			into("a newer file", empty, bytes.Replace(file, []byte(`"version":1`), []byte(`"version":2`), 1), move.ErrNewer)
			other := to.open(t)
			wrote(t, other, key("own"), 1, nil)
			into("a store in use", other, file, move.ErrOccupied)
			if _, err := move.In(t.Context(), bytes.NewReader(file), empty, quiet); err != nil {
				t.Fatal(err)
			}
			wrote(t, empty, key("plain"), 0, nil)
			into("acquired since", empty, file, nil)
			h, err := empty.Acquire(t.Context(), key("plain"), conversation.AcquireHow{})
			if err == nil {
				err = empty.Commit(t.Context(), key("plain"), conversation.Commit{Epoch: h.Epoch, After: h.Last, ID: "since", Cursors: []conversation.Cursor{{User: "bob", Seq: 5}}})
			}
			if err != nil {
				t.Fatal(err)
			}
			into("written to since", empty, file, move.ErrDiffers)
			for what, change := range map[string]func(chats.Store) error{
				"a row since": func(s chats.Store) error {
					return s.Save(t.Context(), "acme", []chats.Row{{Key: chats.Key{Tenant: "acme", Channel: "telegram", Chat: "a"}, Revision: 2, Session: "plain", Value: []byte("3")}}, nil)
				},
				"an entry since": func(s chats.Store) error { return s.Save(t.Context(), "trimmed", nil, []chats.Entry{{}}) },
			} {
				other := to.open(t)
				if _, err := move.In(t.Context(), bytes.NewReader(file), other, quiet); err != nil {
					t.Fatal(err)
				}
				if err := change(other.Chats()); err != nil {
					t.Fatal(err)
				}
				into(what, other, file, move.ErrOther)
			}
			chatty := to.open(t)
			if err := chatty.Chats().Save(t.Context(), "acme", nil, []chats.Entry{{}}); err != nil {
				t.Fatal(err)
			}
			into("a store with a feed", chatty, file, move.ErrOccupied)
		})
	}
}

// A session that had begun with other records is not gone on with.
func TestOtherBeginning(t *testing.T) {
	file := written(t, filled(t, embedded(t)))
	for _, to := range stores {
		t.Run(to.name, func(t *testing.T) {
			target := to.open(t)
			wrote(t, target, key("busy"), 1, func(c *conversation.Commit) {
				c.Summary = conversation.Summary{} // not whole
				c.ID = "another"
			})
			same := sameLog{target}
			if _, err := move.In(t.Context(), bytes.NewReader(file), same, quiet); !errors.Is(err, move.ErrDiffers) {
				t.Errorf("%v", err)
			}
		})
	}
}

// sameLog is a store that already has the file's identity.
type sameLog struct{ move.Installation }

func (sameLog) Adopt(context.Context, conversation.LogID) error { return nil }

// attachedTo gives a session files: one that a message names, and one that waits for that.
func attachedTo(t *testing.T, s move.Installation, k conversation.SessionKey) {
	t.Helper()
	named, lent := bytes.Repeat([]byte("named \x00\xff"), 3*blobs.ChunkBytes/7), []byte("of "+k.Session)
	_, _, err := s.Blobs().Put(t.Context(), k, blobstest.File(named), noon, named)
	var h conversation.Head
	if err == nil {
		h, err = s.Acquire(t.Context(), k, conversation.AcquireHow{})
	}
	if err == nil {
		err = s.Commit(t.Context(), k, conversation.Commit{Epoch: h.Epoch, After: h.Last, ID: "with a file", Events: []conversation.Event{{Seq: h.Last + 1, At: noon, Body: conversation.MessageAccepted{
			Message: "m-file", Author: "alice", Text: "look", Disposition: conversation.Joined, Via: conversation.ViaHTTP, Files: []attached.File{blobstest.File(named)},
		}}}})
	}
	if err == nil {
		_, _, err = s.Blobs().Put(t.Context(), k, blobstest.File(lent), noon.Add(time.Minute), lent)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A session that is there without a file that its messages name is not what the file has.
func TestAFileIsMissing(t *testing.T) {
	file := written(t, filled(t, embedded(t)))
	target := embedded(t)
	if _, err := move.In(t.Context(), bytes.NewReader(file), target, quiet); err != nil {
		t.Fatal(err)
	}
	if _, err := move.In(t.Context(), bytes.NewReader(file), without{target}, quiet); !errors.Is(err, move.ErrDiffers) {
		t.Errorf("%v", err)
	}
}

// without is a store that has lost its files.
type without struct{ move.Installation }

func (without) Blobs() blobs.Store { return lost{} }

type lost struct{ blobs.Store }

func (lost) Stat(context.Context, conversation.SessionKey, attached.Hash) (blobs.Stored, error) {
	return blobs.Stored{}, blobs.ErrNone
}

// What is not what its hash says does not leave its store.
func TestADamagedFileStays(t *testing.T) {
	if _, err := move.Out(t.Context(), garbled{filled(t, embedded(t))}, begun(t, nil), "test", quiet); !errors.Is(err, conversation.ErrDamaged) {
		t.Errorf("%v", err)
	}
}

type garbled struct{ move.Installation }

func (g garbled) Blobs() blobs.Store { return garbling{g.Installation.Blobs()} }

type garbling struct{ blobs.Store }

func (g garbling) Chunk(ctx context.Context, key conversation.SessionKey, hash attached.Hash, n int) ([]byte, error) {
	c, err := g.Store.Chunk(ctx, key, hash, n)
	if len(c) > 0 {
		c[0]++
	}
	return c, err
}
