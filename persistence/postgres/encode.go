package postgres

import (
	"context"
	"encoding/binary"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
	"parley/conversation/wire"
)

// none is stored as null.
const none = math.MinInt64

// commit is a commit on its way to the database. It keeps nothing of the caller's: a
// caller whose context ends does not wait for it.
type commit struct {
	ctx    context.Context
	key    conversation.SessionKey
	begun  time.Time
	events int
	done   func(error)

	epoch       conversation.Epoch
	after, last conversation.Seq
	id          []byte
	record      []byte // nil = no events
	summary     []byte // nil = stays as it is
	activity    int64  // none: stays
	wake        int64
	claim       []byte
	since       int64
	snapshot    []byte
	keys        []conversation.KeyAt
	stored      [][]byte // of keys
	tasks       []taskRow
	cursors     []conversation.Cursor
	named       []attached.Hash
	size        int

	gap    bool // its events do not follow each other
	twice  int  // the first of keys that is there twice; len(keys) = none
	repeat bool // it was sent before, and may be written
	answer verdict
}

type taskRow struct {
	task    string
	created int64
	ordinal int64
	status  conversation.TaskStatus
	body    []byte
}

// verdict is what the database said of a commit.
type verdict struct {
	found      bool
	epoch      conversation.Epoch
	last       conversation.Seq
	lastCommit string
	dup        int // which of its keys was there already, from 0; -1 = none
	dupSeq     conversation.Seq
	gone       bool // a file that it names is not there
}

func (s *Store) encode(ctx context.Context, key conversation.SessionKey, c *conversation.Commit, done func(error)) *commit {
	out := &commit{
		ctx: ctx, key: key, begun: time.Now(), events: len(c.Events), done: done,
		named: blobs.Named(c.Events), epoch: c.Epoch, after: c.After, last: c.After + conversation.Seq(len(c.Events)), id: []byte(c.ID),
		activity: none, wake: none, since: none, keys: slices.Clone(c.Keys),
	}
	for i, e := range c.Events {
		out.gap = out.gap || e.Seq != c.After+conversation.Seq(i)+1
	}
	if len(c.Events) > 0 {
		out.record = wire.AppendRecord(nil, conversation.Record{ID: c.ID, Events: c.Events})
	}
	if !c.Summary.CreatedAt.IsZero() {
		sum := c.Summary
		sum.Key, sum.Last, sum.Seen, sum.Marks = key, out.last, 0, 0
		out.summary, out.activity = wire.AppendSummary(nil, sum), sum.Activity.UnixMilli()
	}
	if !c.WakeAt.IsZero() {
		out.wake = s.theirs(c.WakeAt).UnixMilli()
	}
	if c.Claim != nil {
		out.claim, out.since = wire.AppendHead(nil, wire.HeadRow{Claim: c.Claim}), c.Claim.Since.UnixMilli()
	}
	if c.Snapshot != nil {
		out.snapshot = append([]byte{}, c.Snapshot...)
	}
	out.encodeKeys()
	for _, row := range c.Tasks {
		row.Key = key
		out.tasks = slices.DeleteFunc(out.tasks, func(t taskRow) bool { return t.task == string(row.Task) })
		out.tasks = append(out.tasks, taskRow{string(row.Task), row.CreatedAt.UnixMilli(), ordinal(row.Task), row.Status, wire.AppendTaskRow(nil, row)})
	}
	for _, cur := range c.Cursors {
		if i := slices.IndexFunc(out.cursors, func(o conversation.Cursor) bool { return o.User == cur.User }); i >= 0 {
			out.cursors[i] = out.cursors[i].Then(cur)
			continue
		}
		out.cursors = append(out.cursors, cur)
	}
	out.size = len(out.record) + len(out.summary) + len(out.snapshot) + 256
	return out
}

func (c *commit) encodeKeys() {
	c.twice = len(c.keys)
	for i, k := range c.keys {
		stored := storedKey(k.Key)
		if c.twice == len(c.keys) && slices.ContainsFunc(c.stored, func(o []byte) bool { return string(o) == string(stored) }) {
			c.twice = i
		}
		c.stored = append(c.stored, stored)
	}
}

// storedKey is a key in bytes: no two keys have the same.
func storedKey(k conversation.Key) []byte {
	if k.Source != "" {
		return append(binary.BigEndian.AppendUint32([]byte{'p'}, uint32(k.Part)), k.Source...)
	}
	return append(append(binary.AppendUvarint([]byte{'m'}, uint64(len(k.Author))), k.Author...), k.Client...)
}

// ordinal is the number of "t12-<session>"; 0 if there is none.
func ordinal(task conversation.TaskID) int64 {
	digits, _, _ := strings.Cut(string(task), "-")
	n, err := strconv.ParseUint(strings.TrimPrefix(digits, "t"), 10, 32)
	if err != nil || !strings.HasPrefix(digits, "t") {
		return 0
	}
	return int64(n)
}

// storable is false for a name that PostgreSQL has no text for. Nothing has such a name.
func storable(key conversation.SessionKey) bool {
	for _, name := range []string{string(key.Tenant), string(key.Session)} {
		if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
			return false
		}
	}
	return true
}
