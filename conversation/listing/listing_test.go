package listing

import (
	"slices"
	"testing"
)

// How many parts are unread is told exactly up to MostUnread, and never more.
func TestUnread(t *testing.T) {
	var p Parts
	if n := p.Unread(0); n != 0 {
		t.Errorf("without parts %d are unread", n)
	}
	var all []uint64
	for i := range uint64(3 * MostUnread) {
		before, kept := p, slices.Clone(p)
		seq := i*i + 1
		all = append(all, seq)
		if p = p.With(seq); !slices.Equal(before, kept) {
			t.Fatalf("what another one holds was changed by part %d", i)
		}
		for _, seen := range []uint64{0, i, i * i, seq, 5 * seq, all[uint64(len(all))/2]} {
			want := 0
			for _, seq := range all {
				if seq > seen {
					want++
				}
			}
			if n := p.Unread(seen); n != min(want, MostUnread) {
				t.Fatalf("%d parts, seen %d: %d are unread, want %d", i+1, seen, n, min(want, MostUnread))
			}
		}
	}
	if len(p) > 3*MostUnread {
		t.Errorf("%d parts take %d bytes", MostUnread, len(p))
	}
}

// What is damaged is read as far as it goes, and never harms.
func FuzzParts(f *testing.F) {
	f.Add([]byte{0x80}, uint64(3))
	f.Add([]byte{1, 2, 0xff, 0xff}, uint64(0))
	f.Fuzz(func(t *testing.T, b []byte, seq uint64) {
		p := Parts(b)
		if n := p.With(seq).Unread(0); n > MostUnread {
			t.Errorf("%x: %d are unread", b, n)
		}
	})
}
