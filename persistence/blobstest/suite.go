package blobstest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/attached"
	"parley/conversation/blobs"
)

// Pair is a store of sessions, and what is attached to their messages.
type Pair struct {
	Sessions conversation.Store
	Blobs    blobs.Store
}

const acme = conversation.TenantID("acme")

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func session(id conversation.SessionID) conversation.SessionKey {
	return conversation.SessionKey{Tenant: acme, Session: id}
}

// File describes a body.
func File(body []byte) attached.File {
	return attached.File{Hash: attached.HashOf(body), Name: "a.png", Type: "image/png", Size: int64(len(body))}
}

// Make makes a session.
func (s Pair) Make(ctx context.Context, key conversation.SessionKey) error {
	_, err := s.Sessions.Acquire(ctx, key, conversation.AcquireHow{Create: true})
	return err
}

// Name commits a message that has files.
func (s Pair) Name(ctx context.Context, key conversation.SessionKey, files ...attached.File) error {
	head, err := s.Sessions.Acquire(ctx, key, conversation.AcquireHow{})
	if err != nil {
		return err
	}
	at := head.Last + 1
	return s.Sessions.Commit(ctx, key, conversation.Commit{
		Epoch: head.Epoch, After: head.Last, ID: conversation.CommitID(fmt.Sprintf("c%d-%d", head.Epoch, at)),
		Events: []conversation.Event{{Seq: at, At: noon, Body: conversation.MessageAccepted{
			Message: conversation.MessageID(fmt.Sprintf("m%d-%s", at, key.Session)), Author: "ada", Text: "look",
			Disposition: conversation.Queued, Via: conversation.ViaHTTP, Files: files,
		}}},
		Summary: conversation.Summary{Key: key, Owner: "ada", CreatedAt: noon, Activity: noon},
	})
}

// Run proves a store. open makes an empty one for each sub-test and closes it with t.Cleanup.
func Run(t *testing.T, open func(t *testing.T) Pair) {
	for name, run := range map[string]func(*testing.T, Pair){
		"sizes around those of chunks":                    sizes,
		"a commit that names what is not there":           gone,
		"the last session that has it takes it along":     lastHolder,
		"a loan that was renewed, and one that ended":     loans,
		"a sweep beside commits leaves each its blob":     sweepBesideCommits,
		"tenants never meet":                              tenants,
		"an absent session, and one that was erased":      noSession,
		"the same bytes twice are one, and named no loan": twice,
		"the same bytes at the same time are added once":  together,
	} {
		t.Run(name, func(t *testing.T) { run(t, open(t)) })
	}
}

func sizes(t *testing.T, s Pair) {
	if err := s.Make(t.Context(), session("s1")); err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{1, blobs.ChunkBytes - 1, blobs.ChunkBytes, blobs.ChunkBytes + 1, 3*blobs.ChunkBytes + 7} {
		body := bytes.Repeat([]byte{byte(size), 0, 0xff}, size/3+1)[:size]
		f, added, err := s.Blobs.Put(t.Context(), session("s1"), File(body), noon, body)
		if err != nil || !added || f != File(body) {
			t.Fatalf("%d bytes: %+v, %v, %v", size, f, added, err)
		}
		got, err := blobs.Read(t.Context(), s.Blobs, session("s1"), f)
		if err != nil || !bytes.Equal(got, body) {
			t.Errorf("%d bytes came back as %d, %v", size, len(got), err)
		}
		for _, n := range []int{-1, blobs.Chunks(f.Size)} {
			if c, err := s.Blobs.Chunk(t.Context(), session("s1"), f.Hash, n); err != nil || len(c) > 0 {
				t.Errorf("chunk %d of %d bytes: %d, %v", n, size, len(c), err)
			}
		}
	}
}

func gone(t *testing.T, s Pair) {
	here, absent := []byte("here"), []byte("absent")
	if err := s.Make(t.Context(), session("s1")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := s.Blobs.Put(t.Context(), session("s1"), File(here), noon, here); err != nil {
		t.Fatal(err)
	}
	if err := s.Name(t.Context(), session("s1"), File(here), File(absent)); !errors.Is(err, blobs.ErrGone) {
		t.Errorf("a message without its blob: %v", err)
	}
	if head, err := s.Sessions.Acquire(t.Context(), session("s1"), conversation.AcquireHow{}); err != nil || head.Last != 0 {
		t.Errorf("%+v, %v", head, err)
	}
	if is, err := s.Blobs.Stat(t.Context(), session("s1"), File(here).Hash); err != nil || is.Named {
		t.Errorf("a commit that was refused has named a blob: %+v, %v", is, err)
	}
	if err := s.Name(t.Context(), session("s1"), File(here)); err != nil {
		t.Errorf("the session cannot go on: %v", err)
	}
}

func lastHolder(t *testing.T, s Pair) {
	body := bytes.Repeat([]byte("x"), blobs.ChunkBytes+1)
	hash := attached.HashOf(body)
	for _, id := range []conversation.SessionID{"s1", "s2", "s3"} {
		if err := s.Make(t.Context(), session(id)); err != nil {
			t.Fatal(err)
		}
		if _, added, err := s.Blobs.Put(t.Context(), session(id), File(body), noon, body); err != nil || !added {
			t.Fatal(added, err)
		}
	}
	if err := s.Name(t.Context(), session("s1"), File(body)); err != nil {
		t.Fatal(err)
	}
	for i, id := range []conversation.SessionID{"s1", "s2", "s3"} {
		left := []conversation.SessionID{"s1", "s2", "s3"}[i:]
		for at, after := range append([]conversation.SessionID{""}, left...) {
			held, err := s.Blobs.Holders(t.Context(), acme, hash, after, 2)
			if want := left[at:min(at+2, len(left))]; err != nil || !slices.Equal(held, want) {
				t.Errorf("%v has it behind %q instead of %v, %v", held, after, want, err)
			}
		}
		asked := []conversation.SessionID{"s3", "nosuch", "s", "s1", "s2", "s\x00", "s4"}
		want := slices.DeleteFunc(slices.Clone(asked), func(id conversation.SessionID) bool { return !slices.Contains(left, id) })
		if held, err := s.Blobs.Holding(t.Context(), acme, hash, asked); err != nil || !slices.Equal(held, want) {
			t.Errorf("%v of %q have it instead of %v, %v", held, asked, want, err)
		}
		if held, err := s.Blobs.Holding(t.Context(), "zeus", hash, asked); err != nil || len(held) > 0 {
			t.Errorf("%v of another tenant have it, %v", held, err)
		}
		if err := s.Sessions.Delete(t.Context(), session(id)); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Blobs.Stat(t.Context(), session(id), hash); !errors.Is(err, blobs.ErrNone) {
			t.Errorf("what was erased is there: %v", err)
		}
		if _, err := s.Blobs.Chunk(t.Context(), session(id), hash, 0); !errors.Is(err, blobs.ErrNone) {
			t.Errorf("what was erased can be read: %v", err)
		}
	}
	if swept, err := s.Blobs.Sweep(t.Context(), noon.Add(time.Hour), 10); err != nil || swept != (blobs.Swept{}) {
		t.Errorf("%+v, %v", swept, err)
	}
}

func loans(t *testing.T, s Pair) {
	if err := s.Make(t.Context(), session("s1")); err != nil {
		t.Fatal(err)
	}
	put := func(text string) attached.Hash {
		if _, _, err := s.Blobs.Put(t.Context(), session("s1"), File([]byte(text)), noon, []byte(text)); err != nil {
			t.Fatal(err)
		}
		return attached.HashOf([]byte(text))
	}
	a, b, c, d := put("a"), put("bb"), put("ccc"), put("dddd")
	if err := s.Blobs.Renew(t.Context(), session("s1"), b, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	if err := s.Name(t.Context(), session("s1"), File([]byte("ccc"))); err != nil {
		t.Fatal(err)
	}
	if err := s.Blobs.Renew(t.Context(), session("s1"), c, noon.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	sweep := func(before time.Time, limit int, want blobs.Swept) {
		t.Helper()
		if swept, err := s.Blobs.Sweep(t.Context(), before, limit); err != nil || swept.Blobs != want.Blobs || swept.Bytes != want.Bytes {
			t.Errorf("swept %+v instead of %+v, %v", swept, want, err)
		}
	}
	sweep(noon, 10, blobs.Swept{}) // the very moment is not before
	sweep(noon.Add(time.Millisecond), 10, blobs.Swept{Blobs: 2, Bytes: 5})
	sweep(noon.Add(time.Millisecond), 10, blobs.Swept{})
	sweep(noon.Add(time.Minute+time.Millisecond), 10, blobs.Swept{Blobs: 1, Bytes: 2})
	for hash, there := range map[attached.Hash]bool{a: false, b: false, c: true, d: false} {
		if _, err := s.Blobs.Stat(t.Context(), session("s1"), hash); there == errors.Is(err, blobs.ErrNone) {
			t.Errorf("%s: there is %v expected, %v", hash, there, err)
		}
	}
	if err := s.Blobs.Renew(t.Context(), session("s1"), a, noon); !errors.Is(err, blobs.ErrNone) {
		t.Errorf("what was swept was renewed: %v", err)
	}
}

// However a sweep and a commit meet: who was told that the message is stored has its blob.
func sweepBesideCommits(t *testing.T, s Pair) {
	var done sync.WaitGroup
	ctx := t.Context()
	for n := range 8 {
		key := session(conversation.SessionID(fmt.Sprintf("s%d", n)))
		if err := s.Make(ctx, key); err != nil {
			t.Fatal(err)
		}
		for m := range 5 {
			body := fmt.Appendf(nil, "%d", m)
			if _, _, err := s.Blobs.Put(ctx, key, File(body), noon, body); err != nil {
				t.Fatal(err)
			}
		}
		done.Go(func() {
			for m := range 5 {
				body := fmt.Appendf(nil, "%d", m)
				err := s.Name(ctx, key, File(body))
				_, read := blobs.Read(ctx, s.Blobs, key, File(body))
				if err == nil && read != nil || err != nil && !errors.Is(err, blobs.ErrGone) {
					t.Errorf("stored: %v, its blob: %v", err, read)
				}
			}
		})
	}
	for range 2 {
		done.Go(func() {
			for more := true; more; {
				swept, err := s.Blobs.Sweep(ctx, noon.Add(time.Second), 3)
				if err != nil {
					t.Error(err)
				}
				more = swept.More && err == nil
			}
		})
	}
	done.Wait()
}

func tenants(t *testing.T, s Pair) {
	body := []byte("secret")
	hash := attached.HashOf(body)
	other := conversation.SessionKey{Tenant: "zeus", Session: "s1"}
	for _, key := range []conversation.SessionKey{session("s1"), other} {
		if err := s.Make(t.Context(), key); err != nil {
			t.Fatal(err)
		}
	}
	if _, _, err := s.Blobs.Put(t.Context(), session("s1"), File(body), noon, body); err != nil {
		t.Fatal(err)
	}
	if held, err := s.Blobs.Holders(t.Context(), "zeus", hash, "", 10); err != nil || len(held) > 0 {
		t.Errorf("another tenant sees %v, %v", held, err)
	}
	if _, err := s.Blobs.Stat(t.Context(), other, hash); !errors.Is(err, blobs.ErrNone) {
		t.Errorf("another tenant's session: %v", err)
	}
	if err := s.Name(t.Context(), other, File(body)); !errors.Is(err, blobs.ErrGone) {
		t.Errorf("another tenant's message: %v", err)
	}
}

func noSession(t *testing.T, s Pair) {
	put := func() error {
		_, _, err := s.Blobs.Put(t.Context(), session("s1"), File([]byte("x")), noon, []byte("x"))
		return err
	}
	if err := put(); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("to a session that is not there: %v", err)
	}
	if err := errors.Join(s.Make(t.Context(), session("s1")), put(), s.Sessions.Delete(t.Context(), session("s1"))); err != nil {
		t.Fatal(err)
	}
	if err := put(); !errors.Is(err, conversation.ErrNotFound) {
		t.Errorf("to a session that was erased: %v", err)
	}
}

func twice(t *testing.T, s Pair) {
	body := []byte("x")
	if err := s.Make(t.Context(), session("s1")); err != nil {
		t.Fatal(err)
	}
	for n, at := range []time.Time{noon, noon.Add(time.Minute)} {
		f := File(body)
		f.Name = fmt.Sprintf("%d.png", n)
		if got, added, err := s.Blobs.Put(t.Context(), session("s1"), f, at, body); err != nil || added != (n == 0) || got.Name != "0.png" {
			t.Errorf("%d: %+v, %v, %v", n, got, added, err)
		}
	}
	if is, err := s.Blobs.Stat(t.Context(), session("s1"), File(body).Hash); err != nil || !is.At.Equal(noon.Add(time.Minute)) {
		t.Errorf("the loan was not renewed: %+v, %v", is, err)
	}
	if err := s.Name(t.Context(), session("s1"), File(body)); err != nil {
		t.Fatal(err)
	}
	if _, added, err := s.Blobs.Put(t.Context(), session("s1"), File(body), noon.Add(time.Hour), body); err != nil || added {
		t.Errorf("%v, %v", added, err)
	}
	if swept, err := s.Blobs.Sweep(t.Context(), noon.Add(2*time.Hour), 10); err != nil || swept.Blobs > 0 {
		t.Errorf("what a message names was swept: %+v, %v", swept, err)
	}
}

// However many bring the same bytes at the same time: one of them adds them, and all are told
// what is stored.
func together(t *testing.T, s Pair) {
	if err := s.Make(t.Context(), session("s1")); err != nil {
		t.Fatal(err)
	}
	for round := range 20 {
		body := fmt.Appendf(nil, "%d", round)
		var (
			done  sync.WaitGroup
			begin = make(chan struct{})
			mu    sync.Mutex
			adds  int
			names = map[string]bool{}
		)
		for n := range 8 {
			done.Go(func() {
				f := File(body)
				f.Name = fmt.Sprintf("%d.png", n)
				<-begin
				got, added, err := s.Blobs.Put(t.Context(), session("s1"), f, noon, body)
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if names[got.Name] = true; added {
					adds++
				}
			})
		}
		close(begin)
		done.Wait()
		if adds != 1 || len(names) != 1 {
			t.Fatalf("round %d: added %d times, as %v", round, adds, names)
		}
	}
}

// RunModel compares a store with BlobMaps, by random calls. begin makes an empty store; what it
// returns opens it, closed and opened again between calls.
func RunModel(t *testing.T, begin func(*rapid.T) (open func() Pair)) {
	rapid.Check(t, func(t *rapid.T) {
		ctx := context.Background()
		open := begin(t)
		s := open()
		defer func() { _ = s.Sessions.Close() }()
		var mu sync.Mutex
		there, ever := map[conversation.SessionKey]bool{}, map[conversation.SessionKey]bool{}
		model := NewBlobMaps(BlobHost{
			Mutex: &mu, Ready: func(context.Context) error { return nil }, Room: func() error { return nil },
			Exists: func(key conversation.SessionKey) bool { return there[key] },
		})
		bodies := [][]byte{[]byte("a"), []byte("bb"), bytes.Repeat([]byte("c"), blobs.ChunkBytes+3)}
		now := noon
		same := func(what string, got, want any) {
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Fatalf("%s: %v instead of %v", what, got, want)
			}
		}
		key := func() conversation.SessionKey {
			return session(rapid.SampledFrom([]conversation.SessionID{"s1", "s10", "s2"}).Draw(t, "session"))
		}
		body := func() []byte { return rapid.SampledFrom(bodies).Draw(t, "body") }
		plain := func(err error) error {
			for _, known := range []error{blobs.ErrGone, blobs.ErrNone, conversation.ErrNotFound} {
				if errors.Is(err, known) {
					return known
				}
			}
			return err
		}
		t.Repeat(map[string]func(*rapid.T){
			"make": func(t *rapid.T) {
				k := key()
				if !ever[k] {
					there[k], ever[k] = true, true
					same("make", s.Make(ctx, k), nil)
				}
			},
			"erase": func(t *rapid.T) {
				if k := key(); there[k] {
					delete(there, k)
					model.Erase(k)
					same("erase", s.Sessions.Delete(ctx, k), nil)
				}
			},
			"put": func(t *rapid.T) {
				k, b := key(), body()
				f, added, err := s.Blobs.Put(ctx, k, File(b), now, b)
				wf, wadded, werr := model.Put(ctx, k, File(b), now, b)
				same("put", []any{f, added, plain(err)}, []any{wf, wadded, werr})
			},
			"renew": func(t *rapid.T) {
				k, h := key(), attached.HashOf(body())
				same("renew", plain(s.Blobs.Renew(ctx, k, h, now)), model.Renew(ctx, k, h, now))
			},
			"name": func(t *rapid.T) {
				if k, b := key(), body(); there[k] {
					mu.Lock()
					want := model.Commit(k, []conversation.Event{{Body: conversation.MessageAccepted{Files: []attached.File{File(b)}}}})
					mu.Unlock()
					same("name", plain(s.Name(ctx, k, File(b))), want)
				}
			},
			"sweep": func(t *rapid.T) {
				before := now.Add(-time.Duration(rapid.IntRange(0, 3).Draw(t, "ago")) * time.Minute)
				got, err := s.Blobs.Sweep(ctx, before, 100)
				want, _ := model.Sweep(ctx, before, 100)
				same("sweep", []any{got, err}, []any{want, nil})
			},
			"time passes": func(t *rapid.T) { now = now.Add(time.Minute) },
			"start anew": func(t *rapid.T) {
				same("close", s.Sessions.Close(), nil)
				s = open()
			},
			"": func(t *rapid.T) {
				for _, id := range []conversation.SessionID{"s1", "s10", "s2"} {
					for _, b := range bodies {
						h := attached.HashOf(b)
						got, err := s.Blobs.Stat(ctx, session(id), h)
						want, werr := model.Stat(ctx, session(id), h)
						same("stat", []any{got, plain(err)}, []any{want, werr})
						if err == nil {
							whole, err := blobs.Read(ctx, s.Blobs, session(id), got.File)
							same("read", []any{bytes.Equal(whole, b), err}, []any{true, nil})
						}
					}
				}
				for _, b := range bodies {
					got, err := s.Blobs.Holders(ctx, acme, attached.HashOf(b), "", 10)
					want, _ := model.Holders(ctx, acme, attached.HashOf(b), "", 10)
					same("holders", []any{got, err}, []any{want, nil})
				}
			},
		})
	})
}
