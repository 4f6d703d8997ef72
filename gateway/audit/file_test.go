package audit

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"parley/conversation"
	"parley/gateway/service"
)

func act(tenant conversation.TenantID, n int) service.Act {
	return service.Act{
		At: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Tenant: tenant, User: "ann", Credential: "key:1",
		Address: "192.0.2.1", Act: service.ActErase, Object: fmt.Sprintf("s%d", n), Detail: strings.Repeat("d", n%7),
	}
}

func record(t *testing.T, l service.Audit, acts ...service.Act) {
	t.Helper()
	for _, a := range acts {
		if err := l.Record(t.Context(), a); err != nil {
			t.Fatal(err)
		}
	}
}

// read follows the cursors of a tenant to the end.
func read(t *testing.T, l service.Audit, tenant conversation.TenantID, limit int) (objects []string) {
	t.Helper()
	for cursor, pages := "", 0; ; pages++ {
		acts, next, err := l.Acts(t.Context(), tenant, cursor, limit)
		if err != nil || len(acts) > limit || pages > 10_000 {
			t.Fatalf("%d acts, page %d, %v", len(acts), pages, err)
		}
		for _, a := range acts {
			objects = append(objects, a.Object)
		}
		if next == "" {
			return objects
		}
		cursor = next
	}
}

// Both kinds of audit keep every act, and show a tenant its own, newest first,
// whatever the size of a page and of a file.
func TestActsNewestFirst(t *testing.T) {
	const many = 300
	for name, open := range map[string]func(t *testing.T) service.Audit{
		"memory":    func(*testing.T) service.Audit { return &service.MemoryAudit{} },
		"one file":  func(t *testing.T) service.Audit { return Open(t.TempDir(), Keep{}) },
		"rotated":   func(t *testing.T) service.Audit { return Open(t.TempDir(), Keep{FileBytes: 4096}) },
		"two lines": func(t *testing.T) service.Audit { return Open(t.TempDir(), Keep{FileBytes: 400}) },
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			var acme, other []string
			for n := range many {
				tenant, list := conversation.TenantID("acme"), &acme
				if n%3 == 0 {
					tenant, list = "other", &other
				}
				record(t, l, act(tenant, n))
				*list = append([]string{fmt.Sprintf("s%d", n)}, *list...)
			}
			for _, limit := range []int{1, 7, 50, 200, 1000} {
				if got := read(t, l, "acme", limit); fmt.Sprint(got) != fmt.Sprint(acme) {
					t.Errorf("pages of %d: %v, want %v", limit, got, acme)
				}
				if got := read(t, l, "other", limit); fmt.Sprint(got) != fmt.Sprint(other) {
					t.Errorf("pages of %d of the other tenant: %v, want %v", limit, got, other)
				}
			}
			if got := read(t, l, "nobody", 50); len(got) > 0 {
				t.Errorf("a third tenant reads %v", got)
			}
			got, _, err := l.Acts(t.Context(), "acme", "", 1)
			if want := act("acme", many-1); err != nil || got[0] != want {
				t.Errorf("the newest is %+v, %v; want %+v", got, err, want)
			}
			for _, cursor := range []string{"x", "-1", "1.-1", "0.0x", "1.", "99999999999999999999"} {
				if _, _, err := l.Acts(t.Context(), "acme", cursor, 1); !errors.Is(err, service.ErrAuditCursor) {
					t.Errorf("cursor %q: %v", cursor, err)
				}
			}
		})
	}
}

// A page that was begun before a file is closed goes on after it.
func TestCursorOutlivesRotation(t *testing.T) {
	l := Open(t.TempDir(), Keep{FileBytes: 4096})
	for n := range 10 {
		record(t, l, act("acme", n))
	}
	acts, next, err := l.Acts(t.Context(), "acme", "", 3)
	if err != nil || len(acts) != 3 {
		t.Fatal(acts, err)
	}
	for n := range 100 {
		record(t, l, act("acme", 100+n))
	}
	acts, _, err = l.Acts(t.Context(), "acme", next, 50)
	if err != nil || len(acts) != 7 || acts[0].Object != "s6" || acts[6].Object != "s0" {
		t.Errorf("%v, %v; want s6 to s0", acts, err)
	}
}

// A cursor comes from a client: one behind the end of its file costs no more than another.
func TestCursorBehindTheEnd(t *testing.T) {
	l := Open(t.TempDir(), Keep{})
	record(t, l, act("acme", 1))
	for _, cursor := range []string{"1.1099511627776", "9223372036854775807.1099511627776"} {
		allocated := testing.AllocsPerRun(1, func() {
			acts, next, err := l.Acts(t.Context(), "acme", cursor, 50)
			if err != nil || len(acts) != 1 || next != "" {
				t.Errorf("%s: %v, %q, %v", cursor, acts, next, err)
			}
		})
		if allocated > 1000 {
			t.Errorf("%s: %v allocations", cursor, allocated)
		}
	}
}

// The files are the owner's alone, closed ones go when there are too many, and a torn
// line costs nothing but itself.
func TestFiles(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	l := Open(dir, Keep{FileBytes: 400, Files: 3})
	for n := range 50 {
		record(t, l, act("acme", n))
	}
	names, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(names) != 4 {
		t.Errorf("%v, %v; want three closed files and the current one", names, err)
	}
	for _, name := range names {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want 0600", name, info.Mode(), err)
		}
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v; want 0700", info, err)
	}
	before := read(t, l, "acme", 50)
	f, err := os.OpenFile(filepath.Join(dir, current), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteString(`{"at":"2026-01-02T03:04:05Z","tenant":"acme","act":"ba`)
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	l = Open(dir, Keep{}) // as after a crash
	if got := read(t, l, "acme", 50); fmt.Sprint(got) != fmt.Sprint(before) {
		t.Errorf("with a torn line: %v, want %v", got, before)
	}
	record(t, l, act("acme", 50))
	if got, want := read(t, l, "acme", 50), append([]string{"s50"}, before...); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("behind a torn line: %v, want %v", got, want)
	}
}

// What cannot be written is an error, and so is a request that has ended.
func TestRecordFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a file")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Open(path, Keep{}).Record(t.Context(), act("acme", 1)); err == nil {
		t.Error("a directory that cannot be made is no error")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	dir := t.TempDir()
	if err := Open(dir, Keep{}).Record(ended, act("acme", 1)); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if got := read(t, Open(dir, Keep{}), "acme", 10); len(got) > 0 {
		t.Errorf("%v was written for a request that had ended", got)
	}
}

// A line is bounded, so that a page is.
func TestTextsAreCut(t *testing.T) {
	l := Open(t.TempDir(), Keep{})
	a := act("acme", 1)
	a.Detail = strings.Repeat("ä", 1<<20)
	record(t, l, a)
	acts, _, err := l.Acts(t.Context(), "acme", "", 1)
	if err != nil || len(acts[0].Detail) > 3*maxText {
		t.Errorf("%d bytes, %v", len(acts[0].Detail), err)
	}
}
