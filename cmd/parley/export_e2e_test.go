package main

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

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
			t.Logf("again: PARLEY_SEED=%d go test ./cmd/parley -run '^%s$'", seed, t.Name())
		}
	})
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to be repeated
}

// afterFirst is a file without its first line, which has the time.
func afterFirst(b []byte) string {
	_, rest, _ := bytes.Cut(b, []byte("\n"))
	return string(rest)
}

// An export that was interrupted anywhere goes on, and ends with the same bytes as one that
// was not; a file that is something else is refused and stays as it is.
func TestExportGoesOn(t *testing.T) {
	random := seeded(t)
	root := t.TempDir()
	data, other := filepath.Join(root, "data"), filepath.Join(root, "other")
	for i, dir := range []string{data, other} {
		l := start(t, dir)
		u := l.user()
		for n := range 3 {
			s := u.create(map[string]any{"title": fmt.Sprint("<ä> ", i, n)})
			u.follow(s, 0)
			u.send(s, "1", "/delegate researcher /say found\n/say after: $result")
			u.until(done)
			u.send(s, "2", "/parts one | two")
			u.until(done)
		}
		l.stop()
	}
	export := func(file string, args ...string) (int, string) {
		code, out, errs := run(append([]string{"export", file, "--config", emptyConfig(t), "--data", data}, args...)...)
		return code, out + errs
	}
	whole := filepath.Join(root, "whole")
	if code, text := export(whole); code != exitOK {
		t.Fatal(code, text)
	}
	want, err := os.ReadFile(whole)
	if err != nil {
		t.Fatal(err)
	}
	if lines := strings.Count(string(want), "\n"); lines < 60 || !strings.Contains(string(want), fmt.Sprintf("\n{\"type\":\"end\",\"sessions\":6,\"events\":%d}\n", lines-8)) {
		t.Fatalf("%d lines, and it ends with %s", lines, want[max(0, len(want)-60):])
	}
	cuts := []int{0, 1, len(want) - 1, len(want)}
	for i, b := range want {
		if b == '\n' && random.IntN(4) == 0 {
			cuts = append(cuts, i, i+1)
		}
	}
	for range 40 {
		cuts = append(cuts, random.IntN(len(want)))
	}
	for n, cut := range cuts {
		file := filepath.Join(root, fmt.Sprint("cut", n))
		left := want[:cut:cut]
		if n%3 == 2 { // and the power failed: what was not synced is zeros
			left = append(left, make([]byte, 5000)...)
		}
		if cut <= 26 && n%3 == 2 {
			left = want[:cut]
		}
		if err := os.WriteFile(file, left, 0o600); err != nil {
			t.Fatal(err)
		}
		code, text := export(file, "--resume")
		got, err := os.ReadFile(file)
		if code != exitOK || err != nil || afterFirst(got) != afterFirst(want) || cut > 300 && !bytes.HasPrefix(got, want[:200]) {
			t.Fatalf("cut at %d of %d: %d %s, %v; %d bytes", cut, len(want), code, text, err, len(got))
		}
	}

	lines := bytes.SplitAfter(want, []byte("\n"))
	second := 2 + slices.IndexFunc(lines[2:], func(line []byte) bool { return bytes.HasPrefix(line, []byte(`{"type":"session"`)) })
	swapped := bytes.Join([][]byte{lines[0], lines[1], lines[3], lines[2]}, nil)
	for name, c := range map[string]struct {
		had  []byte
		args []string
		says string
	}{
		"of another log":        {want, []string{"--data", other}, "begin a new file"},
		"of another choice":     {bytes.Join(lines[:2], nil), []string{"--tenant", "none"}, "begin a new file"},
		"no export":             {[]byte("Dear diary,\n"), nil, "does not begin as an export does"},
		"no export, JSON":       {[]byte(`{"type":"parley-move"}` + "\n"), nil, "does not begin as an export does"},
		"out of order":          {swapped, nil, "begin a new file"},
		"an event was altered":  {bytes.Replace(want, []byte("/parts one | two"), []byte("/parts one | too"), 1), nil, "begin a new file"},
		"an event is missing":   {slices.Concat(lines[0], lines[1], lines[2], bytes.Join(lines[4:second], nil)), nil, "begin a new file"},
		"the last one is gone":  {slices.Concat(bytes.Join(lines[:second-1], nil), bytes.Join(lines[second:], nil)), nil, "begin a new file"},
		"one event too many":    {slices.Concat(bytes.Join(lines[:second], nil), bytes.Replace(lines[2], []byte(`"seq":1`), []byte(`"seq":999`), 1)), nil, "begin a new file"},
		"more behind its end":   {append(bytes.Clone(want), lines[2]...), nil, "more behind its end"},
		"a title was different": {bytes.Replace(want, []byte("ä"), []byte("ö"), 1), nil, "begin a new file"},
	} {
		file := filepath.Join(root, "refused")
		if err := os.WriteFile(file, c.had, 0o600); err != nil {
			t.Fatal(err)
		}
		code, text := export(file, append([]string{"--resume"}, c.args...)...)
		if got, err := os.ReadFile(file); code != exitFailed || !strings.Contains(text, c.says) || err != nil || !bytes.Equal(got, c.had) {
			t.Errorf("%s: %d %s; changed: %v, %v", name, code, text, !bytes.Equal(got, c.had), err)
		}
	}
	if code, text := export(filepath.Join(root, "absent"), "--resume"); code != exitFailed || !errors.Is(stat(filepath.Join(root, "absent")), os.ErrNotExist) {
		t.Errorf("no file: %d %s", code, text)
	}
	if code, _, errs := run("export", "--resume", "--config", emptyConfig(t), "--data", data); code != exitUsage || !strings.Contains(errs, "name it") {
		t.Errorf("standard output: %d %s", code, errs)
	}
}

func stat(path string) error {
	_, err := os.Stat(path)
	return err
}
