package pebble

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"parley/conversation"
)

// A tenant has its quota of sessions and bytes, and no other tenant has to do with it. What
// is erased is room again; a new start counts the same.
func TestQuotas(t *testing.T) {
	fs := vfs.NewMem()
	limits := Options{SessionsPerTenant: 3, StoredBytesPerTenant: 100_000}
	open := func() *DB {
		t.Helper()
		db, err := openOn(fs, "store", limits)
		if err != nil {
			t.Fatal(err)
		}
		if !db.usage.Counted() {
			t.Fatal("what is stored was not counted")
		}
		return db
	}
	key := func(tenant, id string) conversation.SessionKey {
		return conversation.SessionKey{Tenant: conversation.TenantID(tenant), Session: conversation.SessionID(id)}
	}
	db := open()
	messages, probes := int64(0), 0
	create := func(k conversation.SessionKey) error {
		_, err := db.Acquire(t.Context(), k, conversation.AcquireHow{Create: true})
		return err
	}
	grow := func(k conversation.SessionKey, times int) {
		t.Helper()
		for range times {
			h, err := db.Acquire(t.Context(), k, conversation.AcquireHow{})
			if err != nil {
				t.Fatal(err)
			}
			messages++
			c := turn(k, &h, time.UnixMilli(1_700_000_000_000+messages).UTC(), strings.Repeat("x", 10_000))
			if err := db.Commit(t.Context(), k, c); err != nil {
				t.Fatal(err)
			}
		}
	}
	for i := range 3 {
		if err := create(key("acme", fmt.Sprint("s", i))); err != nil {
			t.Fatal(err)
		}
	}
	check := func(when string, sessions, bytes bool) {
		t.Helper()
		probes++
		k := key("acme", fmt.Sprint("probe", probes)) // what was erased does not come back
		err := create(k)
		if errors.Is(err, conversation.ErrQuota) != sessions || !sessions && err != nil {
			t.Errorf("%s: another session: %v, want refused: %v", when, err, sessions)
		}
		if err == nil {
			if err := db.Delete(t.Context(), k); err != nil {
				t.Fatal(err)
			}
		}
		if err := Quota(db, "acme"); errors.Is(err, conversation.ErrQuota) != bytes {
			t.Errorf("%s: more bytes: %v, want refused: %v", when, err, bytes)
		}
		if err := create(key("acme", "s0")); err != nil {
			t.Errorf("%s: a session that is there: %v", when, err)
		}
		if err := Quota(db, "other"); err != nil {
			t.Errorf("%s: another tenant: %v", when, err)
		}
	}
	again := func(when string, sessions, bytes bool) {
		t.Helper()
		check(when, sessions, bytes)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		db = open()
		check(when+", after a start", sessions, bytes)
	}
	again("three sessions", true, false)
	grow(key("acme", "s1"), 5)
	if err := create(key("acme", "s1/c1")); err != nil { // a sub-session is none of them, and its bytes count
		t.Fatal(err)
	}
	grow(key("acme", "s1/c1"), 3)
	again("80,000 bytes", true, false)
	grow(key("acme", "s2"), 2)
	again("100,000 bytes", true, true)
	if err := db.Delete(t.Context(), key("acme", "s1")); err != nil {
		t.Fatal(err)
	}
	again("one is erased", false, false)
	if err := create(key("acme", "s3")); err != nil {
		t.Fatal(err)
	}
	grow(key("acme", "s3"), 8)
	again("and room is used again", true, true)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}
