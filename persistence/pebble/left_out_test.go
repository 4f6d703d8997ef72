package pebble

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
	"parley/persistence/pebble/internal/layout"
)

// A session or a task that cannot be read is left out of the lists, whatever its
// place: the others behind it are listed, page by page, and Health tells.
func TestListsGoOnBehindDamage(t *testing.T) {
	const sessions = 2*pageRows + 10
	for name, bad := range map[string][]int{
		"the first": {0}, "the last": {sessions - 1}, "in the middle": {pageRows / 2},
		"all of a page": numbers(5, 5+pageRows), "all": numbers(0, sessions),
	} {
		t.Run(name, func(t *testing.T) {
			db := openMem(t, vfs.NewMem(), testOptions(t))
			var all []conversation.SessionKey
			for i := range sessions {
				key := conversation.SessionKey{Tenant: "acme", Session: conversation.SessionID(fmt.Sprintf("s%04d", i))}
				h, err := db.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
				if err == nil {
					err = db.Commit(t.Context(), key, crashCommit(key, h.Epoch, h.Last))
				}
				if err != nil {
					t.Fatal(err)
				}
				all = append(all, key)
			}
			want := slices.Clone(all)
			for _, i := range slices.Backward(bad) {
				cut := []byte{1} // only the format
				if i%2 == 1 && len(bad) > 1 {
					cut[0] = 0xff // a newer version's
				}
				if err := db.p.Set(layout.KeyHead(nil, all[i]), cut, pebble.Sync); err != nil {
					t.Fatal(err)
				}
				want = slices.Delete(want, i, i+1)
			}
			for list, page := range map[string]conversation.Page{
				"newest": {Tenant: "acme"}, "oldest": {Oldest: true}, "limited": {Tenant: "acme", Limit: sessions - 1}, "one": {Oldest: true, Limit: 1},
			} {
				found, err := listOf(db.Sessions(t.Context(), page))
				var got []conversation.SessionKey
				for _, s := range found {
					got = append(got, s.Key)
				}
				slices.SortFunc(got, func(a, b conversation.SessionKey) int { return strings.Compare(string(a.Session), string(b.Session)) })
				n := len(want)
				if page.Limit > 0 {
					n = min(n, page.Limit)
				}
				if err != nil || len(got) != n || page.Limit == 0 && !slices.Equal(got, want) {
					t.Errorf("%s: %d sessions, %v; want %d", list, len(got), err, n)
				}
			}
			if err := db.Health(); err == nil || !strings.Contains(err.Error(), "is damaged") {
				t.Errorf("health: %v", err)
			}
		})
	}
}

// numbers are those from a up to b.
func numbers(a, b int) (all []int) {
	for ; a < b; a++ {
		all = append(all, a)
	}
	return all
}

// A row of a task that cannot be read does not end the list of tasks; asked for by
// its session, it is an error.
func TestTasksGoOnBehindDamage(t *testing.T) {
	db := openMem(t, vfs.NewMem(), testOptions(t))
	for i := range 4 {
		key := crashKey(i)
		h, err := db.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
		if err == nil {
			err = db.Commit(t.Context(), key, crashCommit(key, h.Epoch, h.Last))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	before, err := listOf(db.Tasks(t.Context(), conversation.TaskFilter{Tenant: crashKey(0).Tenant}))
	if err != nil || len(before) < 2 {
		t.Fatalf("%d tasks, %v", len(before), err)
	}
	bad := before[0]
	if err := db.p.Set(layout.KeyTask(nil, bad.Key, bad.Task), []byte{1, 0xff}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	after, err := listOf(db.Tasks(t.Context(), conversation.TaskFilter{Tenant: crashKey(0).Tenant}))
	if err != nil || len(after) != len(before)-1 || after[0].Task != before[1].Task {
		t.Errorf("%d tasks of %d, %v", len(after), len(before), err)
	}
	_, err = listOf(db.Tasks(t.Context(), conversation.TaskFilter{Tenant: bad.Key.Tenant, Session: bad.Key.Session}))
	if !errors.Is(err, conversation.ErrDamaged) {
		t.Errorf("of its session: %v", err)
	}
}
