package pebble

import (
	"bufio"
	"context"
	"errors"
	"fmt"
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

// crashEnv makes the test binary the process to be killed: its value is the directory.
const crashEnv = "PARLEY_CRASH_CHILD"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashEnv); dir != "" {
		os.Exit(crashChild(dir))
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

func crashKey(s int) conversation.SessionKey {
	id := fmt.Sprintf("s%d", s)
	if s%4 == 3 {
		id = fmt.Sprintf("s%d/d1", s-1)
	}
	return conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(id)}
}

// following is the last seq of the commit after a seq.
func following(after conversation.Seq) conversation.Seq { return after + 1 + after%3 }

func crashTask(k conversation.SessionKey, last conversation.Seq) conversation.TaskID {
	return conversation.TaskID(fmt.Sprintf("t%d-%s", last, k.Session))
}

func crashTime0(last conversation.Seq) time.Time {
	return time.UnixMilli(1_700_000_000_000 + int64(last)*400).UTC()
}

// crashCommit is the one commit that can follow a head.
func crashCommit(k conversation.SessionKey, epoch conversation.Epoch, after conversation.Seq) conversation.Commit {
	last := following(after)
	c := conversation.Commit{Epoch: epoch, After: after, ID: conversation.CommitID(fmt.Sprintf("%s#%d", k.Session, last))}
	for seq := after + 1; seq <= last; seq++ {
		c.Events = append(c.Events, conversation.Event{Seq: seq, At: crashTime0(seq), Body: conversation.PartialResponse{Part: conversation.Part{
			Message: conversation.MessageID(fmt.Sprintf("p%d-%s", seq, k.Session)), Source: "n", Index: conversation.PartIndex(seq),
			Text: strings.Repeat(fmt.Sprintf("%s#%d ", k.Session, seq), 20),
		}}})
		c.Keys = append(c.Keys, conversation.KeyAt{Key: conversation.Key{Source: "n", Part: conversation.PartIndex(seq)}, Seq: seq})
	}
	c.Tasks = []conversation.TaskRow{{Task: crashTask(k, last), Status: conversation.TaskRunning, CreatedAt: crashTime0(last), Last: last}}
	c.Cursors = []conversation.Cursor{{User: "alice", Seq: last}}
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
	for {
		if err := db.Commit(ctx, k, crashCommit(k, h.Epoch, h.Last)); err != nil {
			return err
		}
		h.Last = following(h.Last)
		acked(h.Last)
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
	keys, err := listOf(db.Due(ctx, crashTime0(1<<40)))
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
}

func (a *acks) add(s int, last conversation.Seq) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last[s] = last
	if a.n++; a.n == a.want {
		close(a.at)
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
	var wg sync.WaitGroup
	for s := range crashSessions {
		wg.Go(func() {
			_ = crashWrite(db, crashKey(s), func(last conversation.Seq) { a.add(s, last) })
		})
	}
	<-a.at
	acked := a.now()
	left := fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: keep, RNG: rng})
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
func TestPowerLossControl(t *testing.T) {
	rng := crashSeed(t)
	left, acked, err := powerCut(vfs.NewCrashableMem(), 64<<20, pebble.NoSync, rng, 300, 0)
	if err != nil {
		t.Fatal(err)
	}
	db := openMem(t, left, testOptions(t))
	if err := verify(db, acked, false); err == nil {
		t.Fatal("commits that were never synced were all there: this test could not fail")
	}
}

// crashChild is the process that is killed: it writes, and prints each
// acknowledgement in one write.
func crashChild(dir string) int {
	o := Defaults()
	o.MemTableBytes, o.Ballast = 256<<10, 1<<20
	db, err := Open(dir, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 2
	}
	fmt.Println("open")
	var wg sync.WaitGroup
	for s := range crashSessions {
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

// N-02: a real process on a real disk, killed at random moments. The
// acknowledgements are noted here, outside of it.
func TestKill(t *testing.T) {
	rng := crashSeed(t)
	dir := t.TempDir()
	deadline := time.Now().Add(crashTime(0))
	acked := make([]conversation.Seq, crashSessions)
	acks := 0
	for round := 0; round < 5 || time.Now().Before(deadline); round++ {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), crashEnv+"="+dir)
		var stderr strings.Builder
		cmd.Stderr = &stderr
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		read := bufio.NewReader(out)
		if line, err := read.ReadString('\n'); err != nil || line != "open\n" {
			t.Fatalf("round %d: the child said %q, %v: %s", round, line, err, stderr.String())
		}
		if round == 0 {
			secondProcess(t, dir, cmd.Process.Pid)
		}
		// Killed after a number of acknowledgements, so that no clock decides.
		for left := 1 + rng.IntN(1000); ; left-- {
			if left == 0 {
				if err := cmd.Process.Kill(); err != nil {
					t.Fatal(err)
				}
			}
			line, err := read.ReadString('\n')
			if errors.Is(err, io.EOF) {
				break
			}
			var s int
			var last conversation.Seq
			if n, scanErr := fmt.Sscanf(line, "%d %d\n", &s, &last); err != nil || n != 2 {
				t.Fatalf("round %d: %q, %v, %v", round, line, err, scanErr)
			}
			if last > acked[s] {
				acked[s] = last
				acks++
			}
		}
		_ = cmd.Wait() // killed
		db, err := Open(dir, testOptions(t))
		if err != nil {
			t.Fatalf("round %d: open: %v\n%s", round, err, stderr.String())
		}
		if err := verify(db, acked, true); err != nil {
			t.Fatalf("round %d: %v\n%s", round, err, stderr.String())
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
