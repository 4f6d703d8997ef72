package pebble

import (
	"bytes"
	"cmp"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"parley/conversation"
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
		ea, eb := appendString(nil, a), appendString(nil, b)
		if cmp.Compare(a, b) != bytes.Compare(ea, eb) {
			t.Fatalf("%q and %q sort as %x and %x", a, b, ea, eb)
		}
		if a != b && (bytes.HasPrefix(ea, eb) || bytes.HasPrefix(eb, ea)) {
			t.Fatalf("%x is a prefix of %x", ea, eb)
		}
		tail := []byte(tricky().Draw(t, "tail"))
		got, rest, ok := cutString(append(ea, tail...))
		if !ok || got != a || !bytes.Equal(rest, tail) {
			t.Fatalf("%q came back as %q, %x, %v", a, got, rest, ok)
		}
		// The open form is the prefix of exactly the strings that start like it.
		if open := appendOpenString(nil, a); bytes.HasPrefix(eb, open) != strings.HasPrefix(b, a) {
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
		lower := sessionPrefix(nil, a)
		upper := after(lower)
		subs := subsPrefix(nil, a)
		for _, k := range []conversation.SessionKey{a, b} {
			for _, enc := range [][]byte{
				keyHead(nil, k), keySnapshot(nil, k), keyRecord(nil, k, conversation.Seq(rapid.Uint64().Draw(t, "seq"))),
				keyUnique(nil, k, part), keyUnique(nil, k, message), keyLegacyPart(nil, k, "s"), keyTask(nil, k, "t1-s"), keyCursor(nil, k, "u"),
			} {
				in := bytes.Compare(enc, lower) >= 0 && bytes.Compare(enc, upper) < 0
				if in != (k == a) {
					t.Fatalf("key %x of %q: in the range of %q: %v", enc, k, a, in)
				}
				below := bytes.Compare(enc, subs) >= 0 && bytes.Compare(enc, after(subs)) < 0
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
		if got, want := bytes.Compare(keyActivity(nil, a, ta), keyActivity(nil, b, tb)),
			cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(tb, ta), cmp.Compare(a.Session, b.Session)); got != want {
			t.Fatalf("activity: %v, want %v", got, want)
		}
		if got, want := bytes.Compare(keyDue(nil, a, ta), keyDue(nil, b, tb)),
			cmp.Or(cmp.Compare(ta, tb), cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(a.Session, b.Session)); got != want {
			t.Fatalf("due: %v, want %v", got, want)
		}
		tasks := rapid.SampledFrom([]conversation.TaskID{"t1-s", "t2-s", "t9-s", "t10-s", "t4294967295-s", "x"})
		ka, kb := tasks.Draw(t, "ka"), tasks.Draw(t, "kb")
		if got, want := bytes.Compare(keyTaskTime(nil, a.Tenant, ta, ka), keyTaskTime(nil, b.Tenant, tb, kb)),
			cmp.Or(cmp.Compare(a.Tenant, b.Tenant), cmp.Compare(tb, ta), cmp.Compare(taskOrdinal(kb), taskOrdinal(ka)), cmp.Compare(ka, kb)); got != want {
			t.Fatalf("tasks: %v, want %v", got, want)
		}
		if k, at, ok := cutActivity(keyActivity(nil, a, ta)); !ok || k != a || at != ta {
			t.Fatalf("activity of %q came back as %q, %d, %v", a, k, at, ok)
		}
		if k, at, ok := cutDue(keyDue(nil, a, ta)); !ok || k != a || at != ta {
			t.Fatalf("due of %q came back as %q, %d, %v", a, k, at, ok)
		}
		if task, at, ok := cutTaskTime(keyTaskTime(nil, a.Tenant, ta, ka)); !ok || task != ka || at != ta {
			t.Fatalf("task %q came back as %q, %d, %v", ka, task, at, ok)
		}
	})
}

// M-12: the old key of a source is the beginning of the new ones, so they lie
// side by side.
func TestLegacyPartKeyIsAPrefix(t *testing.T) {
	k := conversation.SessionKey{Tenant: "acme", Session: "s1"}
	old := keyLegacyPart(nil, k, "n1")
	for _, part := range []conversation.PartIndex{0, 1, 1<<32 - 1} {
		if enc := keyUnique(nil, k, conversation.Key{Source: "n1", Part: part}); !bytes.HasPrefix(enc, old) || len(enc) != len(old)+4 {
			t.Errorf("part %d: %x beside %x", part, enc, old)
		}
	}
}

// What cannot be a key is refused, whatever it is.
func FuzzCutKeys(f *testing.F) {
	f.Add(keyActivity(nil, conversation.SessionKey{Tenant: "a\x00", Session: "s"}, 7))
	f.Add(keyDue(nil, conversation.SessionKey{Tenant: "a", Session: "s/d1"}, -7))
	f.Add([]byte{0, 0, 0xff})
	f.Fuzz(func(t *testing.T, b []byte) {
		if k, ms, ok := cutActivity(b); ok && !bytes.Equal(keyActivity(nil, k, ms), b) {
			t.Errorf("%x reads as activity %q %d", b, k, ms)
		}
		if k, ms, ok := cutDue(b); ok && !bytes.Equal(keyDue(nil, k, ms), b) {
			t.Errorf("%x reads as due %q %d", b, k, ms)
		}
		cutTaskTime(b)
		_, _ = decodeHead(b)
	})
}
