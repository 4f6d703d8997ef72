package verify

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cockroachdb/pebble/v2"

	"parley/conversation"
	"parley/conversation/wire"
	"parley/persistence/pebble/internal/layout"
)

// check is one walk over a store.
type check struct {
	ctx    context.Context
	from   *pebble.DB
	o      How
	report Report
	keys   int64 // seen
}

// Store checks all rules. The error is the context's; everything else that goes
// wrong is a problem of the report.
func Store(ctx context.Context, p *pebble.DB, o How) (Report, error) {
	if o.Limit <= 0 {
		o.Limit = 20
	}
	c := &check{ctx: ctx, from: p, o: o}
	if err := p.CheckLevels(nil); err != nil {
		c.problem(RuleLevels, conversation.SessionKey{}, "the tables contradict each other or cannot be read: %s", oneLine(err))
	}
	open := &session{check: c}
	c.walk([]byte{layout.TableMeta}, c.meta)
	c.walk([]byte{layout.TableSession}, open.see)
	open.end()
	c.walk([]byte{layout.TableActivity}, c.activity)
	c.walk([]byte{layout.TableDue}, c.due)
	c.walk([]byte{layout.TableTasks}, c.taskTime)
	c.walk([]byte{layout.TableTombstone}, c.tombstone)
	c.walk([]byte{layout.TableUncleared}, c.uncleared)
	c.walk([]byte{layout.TableClaims}, c.claim)
	c.chats()
	c.blobs()
	c.walk([]byte{layout.TableGates}, c.gate)
	c.walk([]byte{layout.TableSieves}, c.sieve)
	c.strangers()
	return c.report, ctx.Err()
}

func oneLine(err error) string { return strings.Join(strings.Fields(err.Error()), " ") }

func (c *check) problem(rule Rule, key conversation.SessionKey, format string, args ...any) {
	if len(c.report.Problems) >= c.o.Limit {
		c.report.More++
		return
	}
	c.report.Problems = append(c.report.Problems, Problem{Rule: rule, Session: key, Sentence: fmt.Sprintf(format, args...)})
}

// walk calls see for each key with the prefix. What cannot be read is a problem;
// the walk of this table ends there.
func (c *check) walk(prefix []byte, see func(k, v []byte)) {
	c.between(prefix, layout.After(prefix), see)
}

func (c *check) between(lower, upper []byte, see func(k, v []byte)) {
	it, err := c.from.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: upper})
	if err != nil {
		c.problem(RuleRead, conversation.SessionKey{}, "table %#02x cannot be read: %s", lower[0], oneLine(err))
		return
	}
	for ok := it.First(); ok; ok = it.Next() {
		if c.keys++; c.keys%1024 == 0 && c.ctx.Err() != nil {
			break
		}
		v, err := it.ValueAndErr()
		if err != nil {
			c.problem(RuleRead, conversation.SessionKey{}, "a value of table %#02x cannot be read: %s", lower[0], oneLine(err))
			continue
		}
		see(it.Key(), v)
	}
	if err := errors.Join(it.Error(), it.Close()); err != nil {
		c.problem(RuleRead, conversation.SessionKey{}, "table %#02x cannot be read to its end, what lies behind was not checked: %s", lower[0], oneLine(err))
	}
}

// get reads the value of a key; ok is false if it is not there.
func (c *check) get(k []byte) (v []byte, ok bool) {
	got, closer, err := c.from.Get(k)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, false
	}
	if err != nil {
		c.problem(RuleRead, conversation.SessionKey{}, "a key of table %#02x cannot be read: %s", k[0], oneLine(err))
		return nil, false
	}
	v = append([]byte{}, got...)
	_ = closer.Close()
	return v, true
}

func (c *check) head(key conversation.SessionKey) (*layout.Head, bool) {
	v, ok := c.get(layout.KeyHead(nil, key))
	if !ok {
		return nil, false
	}
	h, err := layout.DecodeHead(v)
	return h, err == nil
}

func (c *check) meta(k, _ []byte) {
	if !slices.ContainsFunc([][]byte{layout.KeySchema, layout.KeyLog, layout.KeySecret}, func(known []byte) bool { return bytes.Equal(k, known) }) {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x belongs to nothing", k)
	}
}

// activity checks an entry of the list of sessions.
func (c *check) activity(k, _ []byte) {
	key, ms, ok := layout.CutActivity(k)
	if !ok {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the list of sessions cannot be read", k)
		return
	}
	if h, ok := c.head(key); !ok || !h.Listed || h.Activity != ms {
		c.problem(RuleActivity, key, "the list of sessions has it at a place that its head does not name")
	}
}

// due checks an entry of the list of what is due.
func (c *check) due(k, _ []byte) {
	c.report.Counts.Due++
	key, ms, ok := layout.CutDue(k)
	if !ok {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the list of what is due cannot be read", k)
		return
	}
	if h, ok := c.head(key); !ok || h.Row.WakeAt.IsZero() || h.Row.WakeAt.UnixMilli() != ms {
		c.problem(RuleDue, key, "the list of what is due has it at a time that its head does not name")
	}
}

// taskTime checks an entry of the list of all tasks.
func (c *check) taskTime(k, v []byte) {
	tenant, _, fits := layout.CutString(k[1:])
	task, created, ok := layout.CutTaskTime(k)
	if !ok || !fits || len(v) == 0 {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the list of all tasks cannot be read", k)
		return
	}
	key := conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(v[1:])}
	stored, ok := c.get(layout.KeyTask(nil, key, task))
	row, err := wire.DecodeTaskRow(stored)
	if !ok || err != nil || row.CreatedAt.UnixMilli() != created || byte(row.Status) != v[0] {
		c.problem(RuleTasks, key, "the list of all tasks has task %s, the session has no such row", task)
	}
}

// tombstone checks that nothing is left of an erased session.
func (c *check) tombstone(k, v []byte) {
	c.report.Counts.Tombstones++
	key, rest, ok := layout.CutSession(k[1:])
	epoch, _, readable := layout.CutTombstone(v)
	if !ok || len(rest) > 0 || !readable || epoch == 0 {
		c.problem(RuleUnknown, conversation.SessionKey{}, "tombstone %x cannot be read", k)
		return
	}
	for _, prefix := range [][]byte{layout.SessionPrefix(nil, key), layout.SubsPrefix(nil, key), layout.ChatsPrefix(nil, key), layout.KeyGate(nil, key), layout.SievesPrefix(nil, key)} {
		left := 0
		c.between(prefix, layout.After(prefix), func(_, _ []byte) { left++ })
		if left > 0 {
			c.problem(RuleTombstones, key, "it was erased, but %d keys of it or of its sub-sessions are left", left)
		}
	}
}

// uncleared checks an entry of the erased sessions whose text may still be on the disk.
func (c *check) uncleared(k, _ []byte) {
	key, rest, ok := layout.CutSession(k[1:])
	if !ok || len(rest) > 0 {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the erased sessions cannot be read", k)
		return
	}
	if _, ok := c.get(layout.KeyTombstone(nil, key)); !ok {
		c.problem(RuleTombstones, key, "its text is to be taken off the disk, but it was not erased")
	}
}

// claim checks an entry of the list of what outside runtimes may claim.
func (c *check) claim(k, _ []byte) {
	key, ms, ok := layout.CutClaim(k)
	if !ok {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x of the list of what may be claimed cannot be read", k)
		return
	}
	if h, ok := c.head(key); !ok || h.Row.Claim == nil || h.Row.Claim.Since.UnixMilli() != ms {
		c.problem(RuleClaims, key, "the list of what may be claimed has it at a time that its head does not name")
	}
}

// strangers looks for keys outside of all tables.
func (c *check) strangers() {
	stranger := func(k, _ []byte) {
		c.problem(RuleUnknown, conversation.SessionKey{}, "key %x belongs to no table", k)
	}
	c.between([]byte{layout.TableMeta + 1}, []byte{layout.TableSession}, stranger)
	c.between([]byte{layout.TableFeedEnd + 1}, []byte{layout.TableBlobs}, stranger)
	c.between([]byte{layout.TableSieves + 1}, nil, stranger)
}
