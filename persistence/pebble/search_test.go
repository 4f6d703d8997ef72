package pebble

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/search"
	"parley/persistence/searchtest"
)

func TestIndexIsTheModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		fs := vfs.NewMem()
		o := Options{MemTableBytes: 256 << 10, CacheBytes: 1 << 20, OnFatal: func(err error) { rt.Fatalf("fatal: %v", err) }}
		searchtest.Model(rt, func() searchtest.Kept {
			db, err := openOn(fs, "store", o)
			if err != nil {
				rt.Fatal(err)
			}
			return searchtest.Kept{Store: db, Index: Index(db)}
		}, func(k searchtest.Kept) error { return whole(k.Store.(*DB), false) })
	})
}

// After a power cut an index is never ahead of its log; what it lost is taken again.
func TestIndexAfterPowerLoss(t *testing.T) {
	fs := vfs.NewCrashableMem()
	db := openMem(t, fs, testOptions(t))
	key := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	h, err := db.Acquire(t.Context(), key, conversation.AcquireHow{Create: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		c := turn(key, &h, crashTime0(h.Last), fmt.Sprint("text ", i))
		if err := db.Commit(t.Context(), key, c); err != nil {
			t.Fatal(err)
		}
		var news search.News
		for _, e := range c.Events {
			news.Add(e)
		}
		if err := Index(db).Keep(t.Context(), key, h.Last, news); err != nil {
			t.Fatal(err)
		}
		h.Last = news.Through
		left, err := openOn(fs.CrashClone(vfs.CrashCloneCfg{}), "store", testOptions(t))
		if err != nil {
			t.Fatal(err)
		}
		head, err := left.Head(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		all, through, err := Index(left).Said(t.Context(), key, search.Newest, 1000)
		if err != nil || through > head.Last || len(all) != int(through)/3 {
			t.Errorf("%d texts up to %d of %d, %v", len(all), through, head.Last, err)
		}
		if err := whole(left, false); err != nil {
			t.Error(err)
		}
		if err := left.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
