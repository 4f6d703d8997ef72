package pebble

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
)

// The crash tests write sessions whose every commit follows from the seq before
// it, so that the whole content can be checked from the last seq alone:
//
//	(1) acknowledged: there, with the same seq
//	(2) records are gapless, whole, and the last one is the head's
//	(3) each part key is stored once, and trying it again names its seq
//	(4) rows and indexes agree with the log
//
// PARLEY_CRASH=60s makes them run that long each; PARLEY_SEED repeats a seed.

const crashSessions = 8

// crashEnv makes the test binary the process to be killed: its value is a crashLife.
const crashEnv = "PARLEY_CRASH_CHILD"

// A crashLife is what the process to be killed does.
type crashLife struct {
	Dir      string
	Sessions []int // one writer each
	Table    int64 // Options.MemTableBytes
	Erase    int   // erases sessions, too: the first one is crashGone of this; 0 = none
}

func TestMain(m *testing.M) {
	if life := os.Getenv(crashEnv); life != "" {
		os.Exit(crashChild(life))
	}
	if os.Getenv(tryEnv) != "" {
		os.Exit(tryChild())
	}
	os.Exit(m.Run())
}

func crashSeed(t *testing.T) *rand.Rand {
	seed := time.Now().UnixNano()
	if s, err := strconv.ParseInt(os.Getenv("PARLEY_SEED"), 10, 64); err == nil {
		seed = s
	}
	t.Logf("rerun with PARLEY_SEED=%d go test ./persistence/pebble -run '^%s$'", seed, t.Name())
	return rand.New(rand.NewPCG(uint64(seed), 0))
}

func crashTime(normal time.Duration) time.Duration {
	if d, err := time.ParseDuration(os.Getenv("PARLEY_CRASH")); err == nil {
		return d
	}
	return normal
}

// crashBig is the first session whose events are long, and do not get shorter by compression.
const crashBig = 100

func crashKey(s int) conversation.SessionKey {
	id := fmt.Sprintf("s%d", s)
	switch {
	case s >= crashBig:
		id = fmt.Sprintf("b%d", s)
	case s%4 == 3:
		id = fmt.Sprintf("s%d/d1", s-1)
	}
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(id)}
}

// crashGone is the key of a session that a crashLife has erased.
func crashGone(n int) conversation.SessionKey {
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("gone%d", n))}
}

// crashText is the text of an event: it follows from where it stands.
func crashText(k conversation.SessionKey, seq conversation.Seq) string {
	if k.Session[0] != 'b' {
		return strings.Repeat(fmt.Sprintf("%s#%d ", k.Session, seq), 20)
	}
	h := fnv.New64a()
	_, _ = io.WriteString(h, string(k.Session))
	rng := rand.New(rand.NewPCG(h.Sum64(), uint64(seq)))
	text := make([]byte, 3000)
	for i := range text {
		text[i] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ."[rng.Uint64()>>58]
	}
	return string(text)
}

// following is the last seq of the commit after a seq.
func following(after conversation.Seq) conversation.Seq { return after + 1 + after%3 }

func crashTask(k conversation.SessionKey, last conversation.Seq) conversation.TaskID {
	return conversation.TaskID(fmt.Sprintf("t%d-%s", last, k.Session))
}

func crashTime0(last conversation.Seq) time.Time {
	return time.UnixMilli(1_700_000_000_000 + int64(last)*400).UTC()
}

// crashReads is true if the commit after a seq moves a cursor: that has to be read
// first. All others are told.
func crashReads(after conversation.Seq) bool { return after%2 == 1 }

// crashSeen is the cursor of a session by its last seq.
func crashSeen(last conversation.Seq) (seen conversation.Seq) {
	for after := conversation.Seq(0); after < last; after = following(after) {
		if crashReads(after) {
			seen = following(after)
		}
	}
	return seen
}

// crashCommit is the one commit that can follow a head.
func crashCommit(k conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq) conversation.Commit {
	last := following(after)
	c := conversation.Commit{Epoch: epoch, After: after, ID: conversation.CommitID(fmt.Sprintf("%s#%d", k.Session, last))}
	for seq := after + 1; seq <= last; seq++ {
		c.Events = append(c.Events, conversation.Event{Seq: seq, At: crashTime0(seq), Body: conversation.PartialResponse{Part: conversation.Part{
			Message: conversation.MessageID(fmt.Sprintf("p%d-%s", seq, k.Session)), Source: "n", Index: conversation.PartIndex(seq),
			Text: crashText(k, seq),
		}}})
		c.Keys = append(c.Keys, conversation.KeyAt{Key: conversation.Key{Source: "n", Part: conversation.PartIndex(seq)}, Seq: seq})
	}
	c.Tasks = []conversation.TaskRow{{Task: crashTask(k, last), Status: conversation.TaskRunning, CreatedAt: crashTime0(last), Last: last}}
	if crashReads(after) {
		c.Cursors = []conversation.Cursor{{User: "alice", Seq: last}}
	}
	if after%5 == 0 {
		c.Snapshot = []byte(fmt.Sprintf("%s#%d", k.Session, last))
	}
	c.Summary = conversation.Summary{Title: "T", Owner: "alice", CreatedAt: crashTime0(0), Activity: crashTime0(last), Open: int(last)}
	c.WakeAt = crashTime0(last)
	return c
}

// crashWrite writes one session until it fails, and tells each acknowledged seq.
func crashWrite(db *DB, k conversation.SessionKey, acked func(last conversation.Seq)) error {
	ctx := context.Background()
	h, err := db.Acquire(ctx, k, conversation.AcquireHow{Create: true})
	if err != nil {
		return err
	}
	told := make(chan error, 1)
	for {
		c := crashCommit(k, h.Epoch, h.Last)
		if !crashReads(h.Last) {
			db.CommitAsync(ctx, k, &c, func(err error) { told <- err })
			err = <-told
		} else {
			err = db.Commit(ctx, k, c)
		}
		if err != nil {
			return err
		}
		h.Last = following(h.Last)
		acked(h.Last)
	}
}

// crashErase writes sessions and erases them again until that fails, and tells
// each that is gone.
func crashErase(db *DB, first int, gone func(n int)) error {
	ctx := context.Background()
	for n := first; ; n++ {
		k := crashGone(n)
		h, err := db.Acquire(ctx, k, conversation.AcquireHow{Create: true})
		if err != nil {
			return err
		}
		if err := db.Commit(ctx, k, crashCommit(k, h.Epoch, h.Last)); err != nil {
			return err
		}
		if err := db.Delete(ctx, k); err != nil {
			return err
		}
		gone(n)
	}
}

// verify checks a store that was opened after a crash. atMost = true: nothing can
// be there but what was acknowledged and one commit more in each session.
func verify(db *DB, acked []conversation.Seq, atMost bool) error {
	if err := whole(db, true); err != nil {
		return err
	}
	ctx := context.Background()
	due := map[conversation.SessionKey]bool{}
	keys, err := listOf(db.Due(ctx, crashTime0(1<<40), conversation.Member{}))
	if err != nil {
		return err
	}
	for _, k := range keys {
		due[k] = true
	}
	rows, err := listOf(db.Tasks(ctx, conversation.TaskFilter{Tenant: "acme"}))
	if err != nil {
		return err
	}
	listed := map[conversation.SessionID]int{}
	for _, r := range rows {
		listed[r.Key.Session]++
	}
	for s := range acked {
		k := crashKey(s)
		h, err := db.Head(ctx, k)
		if errors.Is(err, conversation.ErrNotFound) && acked[s] == 0 {
			continue
		}
		if err != nil {
			return fmt.Errorf("session %s: %w", k, err)
		}
		if h.Last < acked[s] {
			return fmt.Errorf("session %s: acknowledged up to %d, stored up to %d", k, acked[s], h.Last)
		}
		if atMost && h.Last != acked[s] && h.Last != following(acked[s]) {
			return fmt.Errorf("session %s: acknowledged up to %d, stored up to %d", k, acked[s], h.Last)
		}
		if err := verifySession(db, k, h, due[k], listed[k.Session]); err != nil {
			return fmt.Errorf("session %s, last %d: %w", k, h.Last, err)
		}
	}
	return nil
}

func verifySession(db *DB, k conversation.SessionKey, h conversation.Head, due bool, listed int) error {
	ctx := context.Background()
	var at, snapshot conversation.Seq
	commits := 0
	for rec, err := range db.Records(ctx, k, conversation.Range{}) {
		if err != nil {
			return err
		}
		want := crashCommit(k, 0, at)
		if rec.ID != want.ID || len(rec.Events) != len(want.Events) {
			return fmt.Errorf("after %d: record %s with %d events instead of %s with %d", at, rec.ID, len(rec.Events), want.ID, len(want.Events))
		}
		for i, e := range rec.Events {
			if e.Seq != want.Events[i].Seq || e.Body != want.Events[i].Body {
				return fmt.Errorf("event %d: %+v", want.Events[i].Seq, e)
			}
		}
		found, err := db.Find(ctx, k, keysOf(want.Keys))
		if err != nil {
			return err
		}
		for i, seq := range found {
			if seq != want.Keys[i].Seq {
				return fmt.Errorf("%s: at %d instead of %d", want.Keys[i].Key, seq, want.Keys[i].Seq)
			}
		}
		if want.Snapshot != nil {
			snapshot = following(at)
		}
		at = following(at)
		commits++
	}
	if at != h.Last {
		return fmt.Errorf("records end at %d", at)
	}
	if at == 0 {
		return nil // acquired only
	}
	if want := fmt.Sprintf("%s#%d", k.Session, h.Last); string(h.LastCommit) != want {
		return fmt.Errorf("last commit %s", h.LastCommit)
	}
	if want := fmt.Sprintf("%s#%d", k.Session, snapshot); h.SnapshotAt != snapshot || string(h.Snapshot) != want {
		return fmt.Errorf("snapshot %q at %d, want %q", h.Snapshot, h.SnapshotAt, want)
	}
	sum, err := db.Summary(ctx, k)
	if err != nil || sum.Open != int(h.Last) || sum.Last != h.Last {
		return fmt.Errorf("summary %+v, %w", sum, err)
	}
	if !due {
		return errors.New("it is not due")
	}
	if want := commits; k.Session.Depth() == 0 && listed != want || k.Session.Depth() > 0 && listed != 0 {
		return fmt.Errorf("%d tasks listed, %d commits", listed, want)
	}
	beyond, err := db.Find(ctx, k, []conversation.Key{{Source: "n", Part: conversation.PartIndex(h.Last + 1)}})
	if err != nil || beyond[0] != 0 {
		return fmt.Errorf("a key beyond the head: %v, %w", beyond, err)
	}
	// A retry after the crash names the stored part and changes nothing.
	next, err := db.Acquire(ctx, k, conversation.AcquireHow{IfEpoch: h.Epoch})
	if err != nil {
		return err
	}
	again := crashCommit(k, next.Epoch, next.Last)
	again.Keys[0].Key.Part = conversation.PartIndex(h.Last)
	var dup *conversation.DuplicateError
	if err := db.Commit(ctx, k, again); !errors.As(err, &dup) || dup.Seq != h.Last {
		return fmt.Errorf("a part again: %w", err)
	}
	return nil
}

func keysOf(at []conversation.KeyAt) []conversation.Key {
	keys := make([]conversation.Key, len(at))
	for i := range at {
		keys[i] = at[i].Key
	}
	return keys
}

// acks is what was acknowledged so far.
type acks struct {
	mu   sync.Mutex
	last [crashSessions]conversation.Seq
	n    int
	want int           // reached: notice
	at   chan struct{} // closed when n reaches want
	hold chan struct{} // not nil: from then on nobody writes before it is closed
}

func (a *acks) add(s int, last conversation.Seq) {
	a.mu.Lock()
	a.last[s] = last
	if a.n++; a.n == a.want {
		close(a.at)
	}
	wait := a.hold != nil && a.n >= a.want
	a.mu.Unlock()
	if wait {
		<-a.hold
	}
}

func (a *acks) now() []conversation.Seq {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]conversation.Seq(nil), a.last[:]...)
}

// powerCut writes until cuts acknowledgements were given, cuts the power, and
// returns the disk that is left, with what had been acknowledged before.
func powerCut(fs *vfs.MemFS, memTable int64, writes *pebble.WriteOptions, rng *rand.Rand, cut, keep int) (*vfs.MemFS, []conversation.Seq, error) {
	db, err := openOn(fs, "store", Options{MemTableBytes: memTable, CacheBytes: 1 << 20})
	if err != nil {
		return nil, nil, err
	}
	db.writes = writes
	a := &acks{want: cut, at: make(chan struct{})}
	if !writes.Sync {
		a.hold = make(chan struct{})
	}
	var wg sync.WaitGroup
	for s := range crashSessions {
		wg.Go(func() {
			_ = crashWrite(db, crashKey(s), func(last conversation.Seq) { a.add(s, last) })
		})
	}
	<-a.at
	acked := a.now()
	left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
	if a.hold != nil {
		close(a.hold)
	}
	_ = db.Close() // the writers end; nothing of this reaches the clone
	wg.Wait()
	return left, acked, nil
}

// N-02: power is cut at random moments, with some, none or all of the unsynced
// data reaching the disk, and again on the disk that is left.
func TestPowerLoss(t *testing.T) {
	rng := crashSeed(t)
	deadline := time.Now().Add(crashTime(3 * time.Second))
	cuts, total := 0, conversation.Seq(0)
	for time.Now().Before(deadline) {
		fs := vfs.NewCrashableMem()
		for generation := range 4 {
			keep := []int{0, 10, 50, 90, 100}[rng.IntN(5)]
			// Small tables, so that flushes and compactions are cut as well.
			left, acked, err := powerCut(fs, 64<<10, pebble.Sync, rng, 1+rng.IntN(400), keep)
			if err != nil {
				t.Fatalf("generation %d: %v", generation, err)
			}
			db, err := openOn(left, "store", testOptions(t))
			if err != nil {
				t.Fatalf("generation %d, %d %% kept: open: %v", generation, keep, err)
			}
			if err := verify(db, acked, false); err != nil {
				t.Fatalf("generation %d, %d %% kept: %v", generation, keep, err)
			}
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			cuts++
			for _, last := range acked {
				total += last
			}
			fs = left
		}
	}
	t.Logf("%d power cuts, %d acknowledged events checked", cuts, total)
}

// The control of TestPowerLoss: acknowledging what is not synced must be caught.
// The first memory table is full after about 250 KiB, and then its log is synced
// for good: so the writers stop far below that, or a busy machine would sometimes
// cut the power only when everything is on the disk.
func TestPowerLossControl(t *testing.T) {
	rng := crashSeed(t)
	left, acked, err := powerCut(vfs.NewCrashableMem(), 64<<20, pebble.NoSync, rng, 80, 0)
	if err != nil {
		t.Fatal(err)
	}
	db := openMem(t, left, testOptions(t))
	if err := verify(db, acked, false); err == nil {
		t.Fatal("commits that were never synced were all there: this test could not fail")
	}
}

// What Acquire and Delete have returned is on the disk, too: the power is cut
// right after each of them.
func TestPowerLossAfterAcquireAndDelete(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openMem(t, fs, testOptions(t))
	cut := func(look func(db *DB)) {
		t.Helper()
		left, err := openOn(fs.CrashClone(vfs.CrashCloneCfg{}), "store", testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		look(left)
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
	}
	k := crashKey(0)
	var h conversation.Head
	for epoch := conversation.Epoch(1); epoch <= 2; epoch++ { // a new session, and one that is there
		var err error
		if h, err = db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true}); err != nil || h.Epoch != epoch {
			t.Fatalf("%+v, %v", h, err)
		}
		cut(func(db *DB) {
			if after, err := db.Head(t.Context(), k); err != nil || after.Epoch != epoch {
				t.Errorf("epoch %d after Acquire had returned %d: %v", after.Epoch, epoch, err)
			}
		})
	}
	if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, h.Last)); err != nil {
		t.Fatal(err)
	}
	if err := db.Delete(t.Context(), k); err != nil {
		t.Fatal(err)
	}
	cut(func(db *DB) {
		if after, err := db.Head(t.Context(), k); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("the erased session is back: %+v, %v", after, err)
		}
		if _, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true}); !errors.Is(err, conversation.ErrNotFound) {
			t.Errorf("the erased session can be made again: %v", err)
		}
	})
}

// A lazy epoch may go with the power until something is committed in it, and never after
// that: neither of a new session nor of one that is there. Nobody else can have written
// in between.
func TestPowerLossAfterLazyAcquire(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openMem(t, fs, testOptions(t))
	stored := func(k conversation.SessionKey) (conversation.Head, error) {
		t.Helper()
		left, err := openOn(fs.CrashClone(vfs.CrashCloneCfg{}), "store", testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		h, err := left.Head(t.Context(), k)
		again, failed := left.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		if failed != nil || again.Epoch != h.Epoch+1 {
			t.Errorf("acquired after the cut: %+v, %v", again, failed)
		}
		if failed = left.Commit(t.Context(), k, crashCommit(k, again.Epoch, again.Last)); failed != nil {
			t.Errorf("commit after the cut: %v", failed)
		}
		if failed = left.Close(); failed != nil {
			t.Fatal(failed)
		}
		return h, err
	}
	k := crashKey(0)
	for epoch := conversation.Epoch(1); epoch <= 3; epoch++ {
		h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true, Lazy: true})
		if err != nil || h.Epoch != epoch {
			t.Fatalf("%+v, %v", h, err)
		}
		left, err := stored(k)
		if absent := errors.Is(err, conversation.ErrNotFound); absent != (epoch == 1) || left.Epoch != epoch-1 || left.Last != h.Last {
			t.Errorf("after Acquire had returned epoch %d there is %+v: %v; it waited for the disk, or lost something", epoch, left, err)
		}
		if err := db.Commit(t.Context(), k, crashCommit(k, h.Epoch, h.Last)); err != nil {
			t.Fatal(err)
		}
		if left, err = stored(k); err != nil || left.Epoch != epoch || left.Last <= h.Last {
			t.Errorf("after a commit in epoch %d there is %+v: %v", epoch, left, err)
		}
	}
}

// crashChild is the process that is killed: it writes, and prints each
// acknowledgement in one write.
func crashChild(env string) int {
	var life crashLife
	if err := json.Unmarshal([]byte(env), &life); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	o := Defaults()
	o.MemTableBytes, o.Ballast = life.Table, 1<<20
	db, err := Open(life.Dir, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Println("open")
	var wg sync.WaitGroup
	if life.Erase > 0 {
		wg.Go(func() {
			err := crashErase(db, life.Erase, func(n int) { _, _ = fmt.Fprintf(os.Stdout, "-1 %d\n", n) })
			fmt.Fprintln(os.Stderr, err)
		})
	}
	for _, s := range life.Sessions {
		wg.Go(func() {
			err := crashWrite(db, crashKey(s), func(last conversation.Seq) {
				_, _ = fmt.Fprintf(os.Stdout, "%d %d\n", s, last)
			})
			fmt.Fprintln(os.Stderr, err)
		})
	}
	wg.Wait()
	return 1
}

// A child is a process that lives a crashLife.
type child struct {
	t      *testing.T
	cmd    *exec.Cmd
	out    *bufio.Reader
	stderr strings.Builder
}

// startChild returns when the child has opened its store.
func startChild(t *testing.T, life crashLife) *child {
	t.Helper()
	env, err := json.Marshal(life)
	if err != nil {
		t.Fatal(err)
	}
	c := &child{t: t, cmd: exec.Command(os.Args[0])}
	c.cmd.Env = append(os.Environ(), crashEnv+"="+string(env))
	c.cmd.Stderr = &c.stderr
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	c.out = bufio.NewReader(out)
	if line, err := c.out.ReadString('\n'); err != nil || line != "open\n" {
		c.kill()
		_ = c.cmd.Wait()
		t.Fatalf("the child said %q, %v: %s", line, err, c.stderr.String())
	}
	return c
}

func (c *child) kill() {
	if err := c.cmd.Process.Kill(); err != nil {
		c.t.Fatal(err)
	}
}

// next is the next acknowledgement: the seq of a session; or of session -1, the
// number of an erased one. ok is false when there are no more, and the child has ended.
func (c *child) next() (session, n int, ok bool) {
	line, err := c.out.ReadString('\n')
	if errors.Is(err, io.EOF) {
		_ = c.cmd.Wait() // killed
		return 0, 0, false
	}
	if got, scanErr := fmt.Sscanf(line, "%d %d\n", &session, &n); err != nil || got != 2 {
		c.t.Fatalf("the child said %q, %v, %v", line, err, scanErr)
	}
	return session, n, true
}

// N-02: a real process on a real disk, killed at random moments. The
// acknowledgements are noted here, outside of it.
func TestKill(t *testing.T) {
	rng := crashSeed(t)
	dir := t.TempDir()
	deadline := time.Now().Add(crashTime(0))
	acked := make([]conversation.Seq, crashSessions)
	acks := 0
	for round := 0; round < 5 || time.Now().Before(deadline); round++ {
		child := startChild(t, crashLife{Dir: dir, Sessions: []int{0, 1, 2, 3, 4, 5, 6, 7}, Table: 256 << 10})
		if round == 0 {
			secondProcess(t, dir, child.cmd.Process.Pid)
		}
		// Killed after a number of acknowledgements, so that no clock decides.
		for left := 1 + rng.IntN(1000); ; left-- {
			if left == 0 {
				child.kill()
			}
			s, last, ok := child.next()
			if !ok {
				break
			}
			acked[s] = max(acked[s], conversation.Seq(last))
			acks++
		}
		db, err := Open(dir, testOptions(t))
		if err != nil {
			t.Fatalf("round %d: open: %v\n%s", round, err, child.stderr.String())
		}
		if err := verify(db, acked, true); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, child.stderr.String())
		}
		for s := range acked { // what was stored without an answer is known now
			if h, err := db.Head(t.Context(), crashKey(s)); err == nil {
				acked[s] = h.Last
			}
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%d acknowledged commits checked", acks)
}

// secondProcess opens a directory that a living process has.
func secondProcess(t *testing.T, dir string, pid int) {
	t.Helper()
	_, err := Open(dir, testOptions(t))
	wantOpenError(t, err, OpenInUse, fmt.Sprintf("data directory %s is in use by another process (pid %d)", dir, pid))
}
