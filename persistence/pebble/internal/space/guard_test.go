package space

import "testing"

// The automatic watermarks are useful on a large disk and harmless on a small one.
func TestAutomaticWatermarks(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	const auto = -1
	for _, c := range []struct {
		soft, hard         int64
		memTable           int64
		total              uint64
		wantSoft, wantHard uint64
	}{
		{auto, auto, 128 * mib, 250 * gib, gib, gib / 4},
		{auto, auto, 32 * mib, 250 * gib, 512 * mib, 128 * mib},
		{auto, auto, 128 * mib, 2000 * mib, 200 * mib, 50 * mib},
		{auto, 7, 128 * mib, 250 * gib, gib, 7},
		{9, auto, 128 * mib, 250 * gib, 9, 2},
		{0, 0, 128 * mib, 250 * gib, 0, 0},
	} {
		soft, hard := watermarks(c.soft, c.hard, c.memTable, c.total)
		if soft != c.wantSoft || hard != c.wantHard {
			t.Errorf("%+v: %d, %d", c, soft, hard)
		}
	}
}
