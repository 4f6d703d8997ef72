package layout

import (
	"bytes"
	"cmp"
	"errors"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/conversation"
	"parley/conversation/chats"
	"parley/conversation/wire"
)

// tricky strings meet the escape often.
func tricky() *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		return string(rapid.SliceOfN(rapid.SampledFrom([]byte{0x00, 0x01, 0x02, 0xfe, 0xff, '/', 'a', 'b'}), 0, 6).Draw(t, "bytes"))
	})
}

func trickyKey(t *rapid.T) conversation.SessionKey {
	return conversation.SessionKey{
		Tenant:  conversation.TenantID(tricky().Draw(t, "tenant")),
		Session: conversation.SessionID(tricky().Draw(t, "session")),
	}
}

// Encoded strings sort like the strings, none is a prefix of another, and what is
// read is what was written.
func TestStringEncoding(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := tricky().Draw(t, "a"), tricky().Draw(t, "b")
		ea, eb := AppendString(nil, a), AppendString(nil, b)
		if cmp.Compare(a, b) != bytes.Compare(ea, eb) {
			t.Fatalf("%q and %q sort as %x and %x", a, b, ea, eb)
		}
		if a != b && (bytes.HasPrefix(ea, eb) || bytes.HasPrefix(eb, ea)) {
			t.Fatalf("%x is a prefix of %x", ea, eb)
		}
		tail := []byte(tricky().Draw(t, "tail"))
		got, rest, ok := CutString(append(ea, tail...))
		if !ok || got != a || !bytes.Equal(rest, tail) {
			t.Fatalf("%q came back as %q, %x, %v", a, got, rest, ok)
		}
		// The open form is the prefix of exactly the strings that start like it.
		if open := AppendOpenString(nil, a); bytes.HasPrefix(eb, open) != strings.HasPrefix(b, a) {
			t.Fatalf("open %q (%x) and %q (%x)", a, open, b, eb)
		}
	})
}

// Every key of a session lies in its range, and no key of another one does.
func TestSessionRanges(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trickyKey(t), trickyKey(t)
		part := conversation.Key{Source: conversation.SourceID(tricky().Draw(t, "source")), Part: conversation.PartIndex(rapid.Uint32().Draw(t, "part"))}
		message := conversation.Key{Author: conversation.UserID(tricky().Draw(t, "author")), Client: "c"}
		lower := SessionPrefix(nil, a)
		upper := After(lower)
		subs := SubsPrefix(nil, a)
		for _, k := range []conversation.SessionKey{a, b} {
			for _, enc := range [][]byte{
				KeyHead(nil, k), KeySnapshot(nil, k), KeyRecord(nil, k, conversation.Seq(rapid.Uint64().Draw(t, "seq"))),
				KeyUnique(nil, k, part), KeyUnique(nil, k, message), KeyLegacyPart(nil, k, "s"), KeyTask(nil, k, "t1-s"), KeyCursor(nil, k, "u"),
			} {
				in := bytes.Compare(enc, lower) >= 0 && bytes.Compare(enc, upper) < 0
				if in != (k == a) {
					t.Fatalf("key %x of %q: in the range of %q: %v", enc, k, a, in)
				}
				below := bytes.Compare(enc, subs) >= 0 && bytes.Compare(enc, After(subs)) < 0
				if want := k.Tenant == a.Tenant && strings.HasPrefix(string(k.Session), string(a.Session)+"/"); below != want {
					t.Fatalf("key %x of %q: below %q: %v, want %v", enc, k, a, below, want)
				}
			}
		}
	})
}

// The indexes sort as their comment in keys.go says, and are read back.
func TestIndexOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := trickyKey(t), trickyKey(t)
		ms := rapid.Int64Range(-3, 3)
		ta, tb := ms.Draw(t, "ta"), ms.Draw(t, "tb")
		if got, want := bytes.Compare(KeyActivity(nil, a, ta), KeyActivity(nil, b, tb)),
			cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(tb, ta), cmp.Compare(a.Session, b.Session)); got != want {
			t.Fatalf("activity: %v, want %v", got, want)
		}
		if got, want := bytes.Compare(KeyDue(nil, a, ta), KeyDue(nil, b, tb)),
			cmp.Or(cmp.Compare(ta, tb), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session)); got != want {
			t.Fatalf("due: %v, want %v", got, want)
		}
		if got, want := bytes.Compare(KeyClaim(nil, a, ta), KeyClaim(nil, b, tb)),
			cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(ta, tb), cmp.Compare(a.Session, b.Session)); got != want {
			t.Fatalf("claims: %v, want %v", got, want)
		}
		tasks := rapid.SampledFrom([]conversation.TaskID{"t1-s", "t2-s", "t9-s", "t10-s", "t4294967295-s", "x"})
		ka, kb := tasks.Draw(t, "ka"), tasks.Draw(t, "kb")
		if got, want := bytes.Compare(KeyTaskTime(nil, a.Tenant, ta, ka), KeyTaskTime(nil, b.Tenant, tb, kb)),
			cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(tb, ta), cmp.Compare(TaskOrdinal(kb), TaskOrdinal(ka)), cmp.Compare(ka, kb)); got != want {
			t.Fatalf("tasks: %v, want %v", got, want)
		}
		if k, at, ok := CutActivity(KeyActivity(nil, a, ta)); !ok || k != a || at != ta {
			t.Fatalf("activity of %q came back as %q, %d, %v", a, k, at, ok)
		}
		if k, at, ok := CutDue(KeyDue(nil, a, ta)); !ok || k != a || at != ta {
			t.Fatalf("due of %q came back as %q, %d, %v", a, k, at, ok)
		}
		if k, at, ok := CutClaim(KeyClaim(nil, a, ta)); !ok || k != a || at != ta {
			t.Fatalf("claim of %q came back as %q, %d, %v", a, k, at, ok)
		}
		if task, at, ok := CutTaskTime(KeyTaskTime(nil, a.Tenant, ta, ka)); !ok || task != ka || at != ta {
			t.Fatalf("task %q came back as %q, %d, %v", ka, task, at, ok)
		}
	})
}

// M-12: the old key of a source is the beginning of the new ones, so they lie
// side by side.
func TestLegacyPartKeyIsAPrefix(t *testing.T) {
	k := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	old := KeyLegacyPart(nil, k, "n1")
	for _, part := range []conversation.PartIndex{0, 1, 1<<32 - 1} {
		if enc := KeyUnique(nil, k, conversation.Key{Source: "n1", Part: part}); !bytes.HasPrefix(enc, old) || len(enc) != len(old)+4 {
			t.Errorf("part %d: %x beside %x", part, enc, old)
		}
	}
}

// A head that a newer program wrote is not read as if this one had written it.
func TestHeadOfANewerProgram(t *testing.T) {
	b := AppendHead(nil, &Head{Activity: 7, Listed: true}, wire.AppendHead(nil, wire.HeadRow{Epoch: 3}))
	if h, err := DecodeHead(b); err != nil || !h.Listed || h.Activity != 7 || h.Row.Epoch != 3 {
		t.Fatalf("%+v, %v", h, err)
	}
	b[0]++
	if _, err := DecodeHead(b); !errors.Is(err, conversation.ErrTooNew) {
		t.Errorf("read: %v", err)
	}
}

// A session's tasks are listed with the newest first, by their number.
func TestTasksOfASession(t *testing.T) {
	k := conversation.SessionKey{Tenant: "acme", Session: "s"}
	tasks := []conversation.TaskID{"t100-s", "t10-s", "t9-s", "t2-s", "t1-s"}
	for i, task := range tasks[1:] {
		if bytes.Compare(KeyTask(nil, k, tasks[i]), KeyTask(nil, k, task)) >= 0 {
			t.Errorf("%s does not stand before %s", tasks[i], task)
		}
	}
}

// What cannot be a key is refused, whatever it is.
func FuzzCutKeys(f *testing.F) {
	f.Add(KeyActivity(nil, conversation.SessionKey{Tenant: "a\x00", Session: "s"}, 7))
	f.Add(KeyDue(nil, conversation.SessionKey{Tenant: "a", Session: "s/d1"}, -7))
	f.Add([]byte{0, 0, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, ms, ok := CutActivity(b); ok && !bytes.Equal(KeyActivity(nil, k, ms), b) {
			t.Errorf("%x reads as activity %q %d", b, k, ms)
		}
		if k, ms, ok := CutDue(b); ok && !bytes.Equal(KeyDue(nil, k, ms), b) {
			t.Errorf("%x reads as due %q %d", b, k, ms)
		}
		if k, ms, ok := CutClaim(b); ok && !bytes.Equal(KeyClaim(nil, k, ms), b) {
			t.Errorf("%x reads as claim %q %d", b, k, ms)
		}
		CutTaskTime(b)
		_, _ = DecodeHead(b)
	})
}

// What is read of the keys of chats and feeds is what was written; rows sort like their
// names and entries like their numbers; and all that has text of a session lies in its range.
func TestChatKeys(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := func(what string) chats.Key {
			return chats.Key{Tenant: conversation.TenantID(tricky().Draw(t, what)), Channel: chats.Channel(tricky().Draw(t, "channel")), Chat: chats.Chat(tricky().Draw(t, "chat"))}
		}
		a, b, session := key("tenant"), key("other tenant"), conversation.SessionID(tricky().Draw(t, "session"))
		n, m := chats.Number(rapid.Uint64Min(1).Draw(t, "number")), chats.Number(rapid.Uint64Min(1).Draw(t, "other number"))
		of := conversation.SessionKey{Tenant: a.Tenant, Session: session}
		if got, ok := CutChat(KeyChatRow(nil, a, session)); !ok || got != (ChatKey{Of: of, Row: a}) {
			t.Fatalf("row %+v came back as %+v, %v", a, got, ok)
		}
		if got, ok := CutChat(KeyChatEntry(nil, a.Tenant, session, n)); !ok || got != (ChatKey{Of: of, Number: n}) {
			t.Fatalf("entry %d came back as %+v, %v", n, got, ok)
		}
		if got, ok := CutChatRow(KeyChat(nil, a)); !ok || got != a {
			t.Fatalf("%+v came back as %+v, %v", a, got, ok)
		}
		if tenant, got, ok := CutFeed(KeyFeed(nil, a.Tenant, n)); !ok || tenant != a.Tenant || got != n {
			t.Fatalf("entry %d came back as %d of %q, %v", n, got, tenant, ok)
		}
		order := cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Channel, b.Channel), cmp.Compare(a.Chat, b.Chat))
		if bytes.Compare(KeyChat(nil, a), KeyChat(nil, b)) != order {
			t.Fatalf("%+v and %+v do not sort like their names", a, b)
		}
		if bytes.Compare(KeyFeed(nil, a.Tenant, n), KeyFeed(nil, a.Tenant, m)) != cmp.Compare(n, m) {
			t.Fatalf("%d and %d do not sort like numbers", n, m)
		}
		for _, k := range [][]byte{KeyChatRow(nil, a, session), KeyChatEntry(nil, a.Tenant, session, n)} {
			if other := trickyKey(t); bytes.HasPrefix(k, ChatsPrefix(nil, other)) != (other == of) {
				t.Fatalf("%x and the range of %s", k, other)
			}
		}
	})
}
