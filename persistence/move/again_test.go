package move_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"parley/conversation"
	"parley/persistence/move"
)

// begun is a file with these bytes.
func begun(t testing.TB, b []byte) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	_, err = f.Write(b)
	if _, back := f.Seek(0, 0); errors.Join(err, back) != nil {
		t.Fatal(err, back)
	}
	return f
}

func bytesOf(t testing.TB, f *os.File) []byte {
	t.Helper()
	b, err := os.ReadFile(f.Name())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// seeded is a source of random choices: PARLEY_SEED, or a new one, which a failure prints.
func seeded(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if text := os.Getenv("PARLEY_SEED"); text != "" {
		var err error
		if seed, err = strconv.ParseUint(text, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("again: PARLEY_SEED=%d go test ./persistence/move", seed)
		}
	})
	return rand.New(rand.NewPCG(seed, 0))
}

// counting counts the logs that are read.
type counting struct {
	move.Installation
	logs int
}

func (c *counting) Records(ctx context.Context, key conversation.SessionKey, r conversation.Range) iter.Seq2[conversation.Record, error] {
	c.logs++
	return c.Installation.Records(ctx, key, r)
}

// A file whose writing was interrupted anywhere is gone on with, without reading again what
// it has, and is the same as one that nobody interrupted.
func TestOutGoesOn(t *testing.T) {
	for _, kind := range stores {
		t.Run(kind.name, func(t *testing.T) {
			random := seeded(t)
			source := &counting{Installation: filled(t, kind.open(t))}
			for i := range 20 {
				wrote(t, source, key(fmt.Sprintf("more%02d", i)), 3, nil)
			}
			want := written(t, source)
			sessions := source.logs
			first := bytes.IndexByte(want, '\n') + 1
			cuts := []int{first, first + 1, len(want) - 1, len(want)}
			for range 30 {
				cuts = append(cuts, first+random.IntN(len(want)-first))
			}
			for n, cut := range cuts {
				left := bytes.Clone(want[:cut])
				switch n % 3 {
				case 1: // the power failed, and the end is zeros
					left = append(left, make([]byte, 5000)...)
				case 2: // or anything else
					left = append(left, want[:min(200, first)]...)
				}
				f := begun(t, left)
				source.logs = 0
				totals, err := move.Out(t.Context(), source, f, "test", quiet)
				if got := bytesOf(t, f); err != nil || !bytes.Equal(got, want) {
					t.Fatalf("cut at %d of %d: %v; %d bytes", cut, len(want), err, len(got))
				}
				if _, checked, err := move.Check(t.Context(), bytes.NewReader(want)); err != nil || totals != checked {
					t.Errorf("cut at %d: %+v of %+v, %v", cut, totals, checked, err)
				}
				if cut > len(want)-100 && source.logs > 0 || source.logs > sessions {
					t.Errorf("cut at %d of %d: %d logs were read again", cut, len(want), source.logs)
				}
			}
			for _, left := range [][]byte{nil, want[:1], want[:first-1]} { // it has another time then
				f := begun(t, left)
				_, err := move.Out(t.Context(), source, f, "test", quiet)
				if _, _, wrong := move.Check(t.Context(), bytes.NewReader(bytesOf(t, f))); errors.Join(err, wrong) != nil {
					t.Errorf("without a first line: %v, %v", err, wrong)
				}
			}

			refused := func(what string, from move.Installation, had []byte) {
				t.Helper()
				f := begun(t, had)
				if _, err := move.Out(t.Context(), from, f, "test", quiet); !errors.Is(err, move.ErrChanged) || !bytes.Equal(bytesOf(t, f), had) {
					t.Errorf("%s: %v", what, err)
				}
			}
			refused("another store", filled(t, embedded(t)), want[:first+500])
			refused("something else", source, []byte("Dear diary,\n"))
			wrote(t, source, key("more19"), 1, nil)
			refused("the store was written to", source, want[:len(want)-10])
			f := begun(t, want[:first+10]) // before that it does not matter
			_, err := move.Out(t.Context(), source, f, "test", quiet)
			if _, _, wrong := move.Check(t.Context(), bytes.NewReader(bytesOf(t, f))); errors.Join(err, wrong) != nil {
				t.Errorf("%v, %v", err, wrong)
			}
		})
	}
}

// A store that has begun to be filled, and was used then, is not filled any further.
func TestInRefusesOtherSessions(t *testing.T) {
	for _, to := range stores {
		t.Run(to.name, func(t *testing.T) {
			source, target := filled(t, embedded(t)), to.open(t)
			file := written(t, source)
			if _, err := move.In(t.Context(), bytes.NewReader(file), target, quiet); err != nil {
				t.Fatal(err)
			}
			wrote(t, target, key("of somebody else"), 1, nil)
			before := shown(t, target)
			if _, err := move.In(t.Context(), bytes.NewReader(file), target, quiet); !errors.Is(err, move.ErrMore) {
				t.Errorf("got %v", err)
			}
			same(t, "and nothing was changed", shown(t, target), before)
		})
	}
}
