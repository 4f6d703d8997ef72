package chatstest

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/chats"
)

// RunModel does the same random things to Maps and to a store, with few tenants, chats and
// sessions so that they meet, reopens the store in between, and compares every answer. begin
// makes an empty store's place: open opens what is there, and whole, if it is not nil, looks
// at all that is stored in the end. A failure prints the seed; rerun with -rapid.seed.
func RunModel(t *testing.T, begin func(t *rapid.T) (open func() Both, whole func(Both) error)) {
	rapid.Check(t, func(rt *rapid.T) {
		open, whole := begin(rt)
		m := &pair{open: open, erased: map[conversation.SessionKey]bool{}, made: map[conversation.SessionKey]bool{}}
		m.model = NewMaps(Host{
			Mutex:  &sync.Mutex{},
			Ready:  context.Context.Err,
			Erased: func(key conversation.SessionKey) bool { return m.erased[key] },
			Room:   func() error { return nil },
		})
		m.db = open()
		defer func() { _ = m.db.Close() }()
		rt.Repeat(map[string]func(*rapid.T){
			"save": m.save, "save2": m.save, "save3": m.save, "trim": m.trim, "make": m.make, "erase": m.erase, "reopen": m.reopen, "": m.check,
		})
		if whole == nil {
			return
		}
		if err := whole(m.db); err != nil {
			rt.Fatalf("the store contradicts itself:\n%v", err)
		}
	})
}

// pair is a store and the model of it.
type pair struct {
	open         func() Both
	db           Both
	model        *Maps
	made, erased map[conversation.SessionKey]bool
}

var (
	someTenants  = rapid.SampledFrom([]conversation.TenantID{acme, zeus})
	someChannels = rapid.SampledFrom([]chats.Channel{"slack", "telegram"})
	someChats    = rapid.SampledFrom([]chats.Chat{"", "a", "a:1", "b"})
	someSessions = rapid.SampledFrom([]conversation.SessionID{"", "s1", "s2", "s3", "s4", "s5"})
)

func (p *pair) session(t *rapid.T) conversation.SessionKey {
	return conversation.SessionKey{Tenant: someTenants.Draw(t, "tenant"), Session: someSessions.Filter(func(s conversation.SessionID) bool { return s != "" }).Draw(t, "session")}
}

// same compares two errors by what a caller can tell.
func same(t *rapid.T, what string, got, want error) {
	for _, e := range []error{chats.ErrStale, chats.ErrErased, nil} {
		if errors.Is(got, e) != errors.Is(want, e) {
			t.Fatalf("%s: %v, the model says %v", what, got, want)
		}
	}
}

func (p *pair) save(t *rapid.T) {
	ctx := context.Background()
	tenant := someTenants.Draw(t, "tenant")
	var rows []chats.Row
	named := map[chats.Key]bool{}
	for range rapid.IntRange(0, 3).Draw(t, "rows") {
		k := chats.Key{Tenant: tenant, Channel: someChannels.Draw(t, "channel"), Chat: someChats.Draw(t, "chat")}
		is, err := p.model.Load(ctx, k)
		if err != nil {
			t.Fatal(err)
		}
		if rapid.IntRange(0, 9).Draw(t, "stale") == 0 {
			is.Revision = chats.Revision(rapid.IntRange(0, 4).Draw(t, "revision"))
		}
		r := chats.Row{Key: k, Revision: is.Revision, Session: someSessions.Draw(t, "of"), Value: []byte(fmt.Sprint(rapid.Byte().Draw(t, "value")))}
		if rapid.IntRange(0, 4).Draw(t, "delete") == 0 {
			r.Value = nil
		}
		if !named[k] {
			rows = append(rows, r)
		}
		named[k] = true
	}
	var entries []chats.Entry
	for range rapid.IntRange(0, 3).Draw(t, "entries") {
		entries = append(entries, chats.Entry{At: noon, Session: someSessions.Draw(t, "of"), Value: []byte(fmt.Sprint(rapid.Byte().Draw(t, "text")))})
	}
	want := p.model.Save(ctx, tenant, rows, entries)
	same(t, fmt.Sprintf("save %+v %+v", rows, entries), p.db.Chats().Save(ctx, tenant, rows, entries), want)
}

func (p *pair) trim(t *rapid.T) {
	tenant, through := someTenants.Draw(t, "tenant"), chats.Number(rapid.IntRange(0, 30).Draw(t, "through"))
	want := p.model.Trim(context.Background(), tenant, through)
	same(t, "trim", p.db.Chats().Trim(context.Background(), tenant, through), want)
}

func (p *pair) make(t *rapid.T) {
	key := p.session(t)
	_, err := p.db.Acquire(context.Background(), key, conversation.AcquireHow{Create: true})
	if (err != nil) != p.erased[key] {
		t.Fatalf("make %s: %v", key, err)
	}
	p.made[key] = err == nil
}

func (p *pair) erase(t *rapid.T) {
	if rapid.IntRange(0, 2).Draw(t, "really") > 0 {
		return // else little lives long
	}
	key := p.session(t)
	err := p.db.Delete(context.Background(), key)
	if (err == nil) != p.made[key] {
		t.Fatalf("erase %s: %v", key, err)
	}
	if err == nil {
		p.model.Erase(key)
		p.made[key], p.erased[key] = false, true
	}
}

func (p *pair) reopen(t *rapid.T) {
	if err := p.db.Close(); err != nil {
		t.Fatalf("close: %v", err)
	}
	p.db = p.open()
}

// check compares everything about one tenant, which is not much.
func (p *pair) check(t *rapid.T) {
	ctx, db := context.Background(), p.db.Chats()
	tenant := someTenants.Draw(t, "look at")
	for _, channel := range []chats.Channel{"slack", "telegram"} {
		var got, want []chats.Row
		for _, of := range []struct {
			store chats.Store
			rows  *[]chats.Row
		}{{db, &got}, {p.model, &want}} {
			for r, err := range of.store.Rows(ctx, tenant, channel) {
				if err != nil {
					t.Fatal(err)
				}
				*of.rows = append(*of.rows, r)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Fatalf("rows of %s:\n%+v\nthe model says\n%+v", channel, got, want)
		}
	}
	k := chats.Key{Tenant: tenant, Channel: someChannels.Draw(t, "channel"), Chat: someChats.Draw(t, "chat")}
	row, rowErr := db.Load(ctx, k)
	wantRow, _ := p.model.Load(ctx, k)
	feed, feedErr := db.Feed(ctx, tenant)
	wantFeed, _ := p.model.Feed(ctx, tenant)
	after, limit := chats.Number(rapid.IntRange(0, 20).Draw(t, "after")), rapid.IntRange(0, 9).Draw(t, "limit")
	entries, entriesErr := db.Entries(ctx, tenant, after, limit)
	wantEntries, _ := p.model.Entries(ctx, tenant, after, limit)
	if err := errors.Join(rowErr, feedErr, entriesErr); err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(row, wantRow) || feed != wantFeed || !reflect.DeepEqual(entries, wantEntries) {
		t.Fatalf("%+v\n%+v\n%+v\nthe model says\n%+v\n%+v\n%+v", row, feed, entries, wantRow, wantFeed, wantEntries)
	}
}
